//! Signals a command-line program must answer: a closed pipe and Ctrl-C.
//!
//! Rust programs start with SIGPIPE ignored, so `quern ... | head` would report a write error instead of ending quietly;
//! [`reset_sigpipe`] gives the pipeline its usual behaviour. A server must not call it: there a closed connection is an
//! error value of one request.
//!
//! Deliberately absent: SIGTERM and SIGHUP (the server's runtime owns them), and on Windows every console event but Ctrl-C.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::PlatformError;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Lets a write to a closed pipe end the process, as command-line filters do. Call it once, first thing in `main`.
pub fn reset_sigpipe() {
    imp::reset_sigpipe();
}

/// While it lives, the first Ctrl-C only raises [`InterruptGuard::flag`] and the second one ends the process. Dropping it
/// lowers the flag and puts the earlier behaviour back.
#[must_use = "Ctrl-C is only caught while the guard lives"]
pub struct InterruptGuard {
    previous: imp::Disposition,
}

/// Starts catching Ctrl-C. Meant for the main program; guards taken at the same time must be dropped in reverse order.
///
/// # Errors
/// [`PlatformError::Signal`] where the system refuses to install the handler.
pub fn catch_interrupts() -> Result<InterruptGuard, PlatformError> {
    INTERRUPTED.store(false, Ordering::SeqCst);
    let previous = imp::catch().map_err(|source| PlatformError::Signal { signal: "interrupt", source })?;
    Ok(InterruptGuard { previous })
}

impl InterruptGuard {
    /// Raised by Ctrl-C.
    pub fn flag(&self) -> &'static AtomicBool {
        &INTERRUPTED
    }

    /// Whether Ctrl-C was pressed since the guard was taken.
    pub fn interrupted(&self) -> bool {
        INTERRUPTED.load(Ordering::SeqCst)
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        imp::restore(&self.previous);
        INTERRUPTED.store(false, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for InterruptGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterruptGuard").field("interrupted", &self.interrupted()).finish_non_exhaustive()
    }
}

#[cfg(unix)]
mod imp {
    use super::INTERRUPTED;
    use std::io;
    use std::mem::MaybeUninit;
    use std::sync::atomic::Ordering;

    pub(super) type Disposition = libc::sigaction;

    pub(super) fn reset_sigpipe() {
        // SAFETY: SIG_DFL is always a valid disposition and runs no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }

    /// An atomic store is all that may safely happen here.
    extern "C" fn on_interrupt(_signal: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }

    pub(super) fn catch() -> io::Result<Disposition> {
        let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero is a valid sigaction (no flags, default handler), then completed field by field; the handler
        // is async-signal-safe, and `previous` is filled by the call or stays zero.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // After one delivery the kernel goes back to the default, so a second Ctrl-C ends even a stuck process.
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            if libc::sigaction(libc::SIGINT, &action, previous.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(previous.assume_init())
        }
    }

    pub(super) fn restore(previous: &Disposition) {
        // SAFETY: `previous` is what the kernel reported as installed before.
        unsafe { libc::sigaction(libc::SIGINT, previous, std::ptr::null_mut()) };
    }
}

#[cfg(windows)]
mod imp {
    use super::INTERRUPTED;
    use std::io;
    use std::sync::atomic::Ordering;

    /// Handlers form a list, so there is nothing to remember: ours is taken off it again.
    pub(super) struct Disposition;

    type Handler = unsafe extern "system" fn(u32) -> i32;
    const CTRL_C_EVENT: u32 = 0;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn SetConsoleCtrlHandler(handler: Option<Handler>, add: i32) -> i32;
    }

    /// There is no such signal: a closed pipe is an error of the write.
    pub(super) fn reset_sigpipe() {}

    /// Called on a thread of the system's own. Zero leaves the event to the next handler, the last of which ends the
    /// process: so a second Ctrl-C ends even a stuck one.
    unsafe extern "system" fn on_event(event: u32) -> i32 {
        i32::from(event == CTRL_C_EVENT && !INTERRUPTED.swap(true, Ordering::SeqCst))
    }

    pub(super) fn catch() -> io::Result<Disposition> {
        // SAFETY: the handler is a function of this program, valid as long as it runs, and only swaps an atomic.
        let done = unsafe { SetConsoleCtrlHandler(Some(on_event), 1) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Disposition) }
    }

    pub(super) fn restore(_previous: &Disposition) {
        // SAFETY: takes off what `catch` put on the list; a handler that is not there is refused without harm.
        unsafe { SetConsoleCtrlHandler(Some(on_event), 0) };
    }
}

#[cfg(not(any(unix, windows)))]
mod imp {
    use std::io;

    pub(super) struct Disposition;

    pub(super) fn reset_sigpipe() {}

    pub(super) fn catch() -> io::Result<Disposition> {
        Ok(Disposition)
    }

    pub(super) fn restore(_previous: &Disposition) {}
}
