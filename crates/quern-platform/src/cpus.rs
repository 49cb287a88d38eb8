//! How many CPUs this process may use, and which.
//!
//! The default thread count is the number of physical cores inside the affinity mask, bounded by the control group's CPU
//! quota: two hyperthreads share the multipliers that the kernels saturate, and threads beyond the mask or the quota only
//! wait for each other.
//!
//! Deliberately absent: NUMA distances and the split between fast and efficient cores on Linux (chunks are claimed
//! dynamically, so a slow core takes fewer).
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;

use crate::PlatformError;
use crate::cgroup::Cgroups;

/// Physical cores this process may use at once: the default number of compute threads. At least 1.
pub fn available_cpus() -> usize {
    let cores = physical_cores(&affinity()).unwrap_or_else(logical_cpus);
    bounded(cores, quota())
}

/// Hardware threads this process may run at once, hyperthreads counted. At least 1.
pub fn available_threads() -> usize {
    let allowed = affinity().len();
    bounded(if allowed == 0 { logical_cpus() } else { allowed }, quota())
}

/// The CPUs this thread may run on, ascending. Empty where the system has no such notion (macOS, Windows).
pub fn affinity() -> Vec<usize> {
    imp::affinity()
}

/// Binds the current thread to one CPU. Has no effect where the system has no such notion (macOS, Windows).
///
/// # Errors
/// [`PlatformError::Pin`] where the CPU does not exist or the mask of the process excludes it.
pub fn pin_current_thread(cpu: usize) -> Result<(), PlatformError> {
    imp::pin_current_thread(cpu).map_err(|source| PlatformError::Pin { cpu, source })
}

fn bounded(cpus: usize, quota: Option<usize>) -> usize {
    cpus.min(quota.unwrap_or(usize::MAX)).max(1)
}

fn quota() -> Option<usize> {
    if cfg!(target_os = "linux") { Cgroups::of_this_process(Path::new("/")).cpu_quota() } else { None }
}

fn logical_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn physical_cores(allowed: &[usize]) -> Option<usize> {
    if cfg!(target_os = "linux") { distinct_cores(Path::new("/"), allowed) } else { imp::physical_cores() }
}

/// Counts the cores behind the allowed CPUs: siblings name the same list. `None` where the kernel tells no topology.
fn distinct_cores(root: &Path, allowed: &[usize]) -> Option<usize> {
    let siblings = |cpu: &usize| {
        let topology = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        let list = std::fs::read_to_string(topology.join("core_cpus_list"))
            .or_else(|_| std::fs::read_to_string(topology.join("thread_siblings_list")));
        list.ok().as_deref().and_then(parse_cpu_list)
    };
    let cores: BTreeSet<Vec<usize>> = allowed.iter().map(siblings).collect::<Option<_>>()?;
    (!cores.is_empty()).then_some(cores.len())
}

/// The kernel's list format: `0-3,8,10-11`. Bounded, since a range is text that could say anything.
fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    const MAX_CPU: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem::size_of_val;

    const WORD_BITS: usize = usize::BITS as usize;
    /// Room for 16,384 CPUs, twice what any kernel is configured for; `cpu_set_t` itself ends at 1,024.
    const MASK_WORDS: usize = 16_384 / WORD_BITS;

    pub(super) fn affinity() -> Vec<usize> {
        let mut mask = [0usize; MASK_WORDS];
        // SAFETY: the kernel writes at most `size_of_val(&mask)` bytes into the array; pid 0 is the calling thread.
        let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
        if rc < 0 {
            return Vec::new();
        }
        (0..MASK_WORDS * WORD_BITS)
            .filter(|cpu| mask[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1)
            .collect()
    }

    pub(super) fn pin_current_thread(cpu: usize) -> io::Result<()> {
        let mut mask = [0usize; MASK_WORDS];
        let word = mask.get_mut(cpu / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
        *word = 1 << (cpu % WORD_BITS);
        // SAFETY: the kernel reads `size_of_val(&mask)` bytes of the array; pid 0 is the calling thread.
        let rc = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn physical_cores() -> Option<usize> {
        None
    }
}

#[cfg(target_os = "macos")]
mod imp {
    use std::io;

    pub(super) fn affinity() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn pin_current_thread(_cpu: usize) -> io::Result<()> {
        Ok(())
    }

    /// Performance cores where the machine tells kinds apart, else all cores.
    pub(super) fn physical_cores() -> Option<usize> {
        sysctl(c"hw.perflevel0.physicalcpu").or_else(|| sysctl(c"hw.physicalcpu"))
    }

    fn sysctl(name: &std::ffi::CStr) -> Option<usize> {
        let mut value: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>();
        // SAFETY: the name is nul-terminated and the kernel writes at most `len` bytes into `value`.
        let rc = unsafe {
            libc::sysctlbyname(name.as_ptr(), (&raw mut value).cast(), &mut len, std::ptr::null_mut(), 0)
        };
        if rc == 0 { usize::try_from(value).ok().filter(|&n| n > 0) } else { None }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod imp {
    use std::io;

    pub(super) fn affinity() -> Vec<usize> {
        Vec::new()
    }

    pub(super) fn pin_current_thread(_cpu: usize) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn physical_cores() -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0\n"), Some(vec![0]));
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_cpu_list("3-1"), None);
        assert_eq!(parse_cpu_list("0-99999999999"), None);
        assert_eq!(parse_cpu_list(""), None);
    }

    #[test]
    fn r36_hyperthreads_of_one_core_count_once() {
        let dir = tempfile::tempdir().unwrap();
        // Two cores of two threads each, numbered as Linux does on x86: 0 and 2 are siblings, 1 and 3 are.
        for (cpu, list) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
            let topology = dir.path().join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("thread_siblings_list"), format!("{list}\n")).unwrap();
        }
        assert_eq!(distinct_cores(dir.path(), &[0, 1, 2, 3]), Some(2));
        assert_eq!(distinct_cores(dir.path(), &[0, 2]), Some(1));
        assert_eq!(distinct_cores(dir.path(), &[0, 1]), Some(2));
        assert_eq!(distinct_cores(dir.path(), &[0, 9]), None, "unknown topology is not guessed");
    }

    #[test]
    fn r36_quota_and_mask_bound_the_count() {
        assert_eq!(bounded(16, None), 16);
        assert_eq!(bounded(16, Some(4)), 4);
        assert_eq!(bounded(2, Some(4)), 2);
        assert_eq!(bounded(0, None), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn r36_a_pinned_thread_sees_one_cpu() {
        let cpu = *affinity().last().expect("a running thread has a mask");
        std::thread::spawn(move || {
            pin_current_thread(cpu).unwrap();
            assert_eq!(affinity(), [cpu]);
            assert_eq!(available_cpus(), 1);
            assert_eq!(available_threads(), 1);
            // The standard library reads the same mask: an outside witness.
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
        })
        .join()
        .expect("thread");
        assert!(pin_current_thread(usize::MAX).is_err());
    }

    #[test]
    fn counts_agree_with_the_standard_library() {
        assert!(available_cpus() >= 1 && available_cpus() <= available_threads());
        assert_eq!(available_threads(), logical_cpus());
    }
}
