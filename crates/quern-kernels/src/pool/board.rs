//! The protocol between a caller with work and the workers that help: post, claim, finish, sleep.
//!
//! A job is a number of chunks and a function to call once for each. The caller posts it on the board by setting one
//! counter, `open`, to the number of chunks. Whoever takes one off a positive counter has claimed a chunk and owes its
//! completion; whoever finds it at zero or below has claimed nothing. The caller takes part, and returns once every
//! claimed chunk has been accounted for in `unfinished`.
//!
//! Why a late worker can do no harm, however long it was descheduled: only a successful claim gives the right to look at
//! the job, and a job with a claimed chunk is not over, so its caller is still there and no later job has been posted.
//! There is no generation to compare and nothing to wrap around. A claim that comes late simply takes a chunk of the job
//! that is open by then.
//!
//! Why no wake-up is lost: see [`Sleeper`].
//!
//! Deliberately absent: threads, thread-local state and the choice of how long to spin; `pool.rs` brings those. The file
//! uses nothing else of the crate, so that the loom tests can build it alone.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicIsize, AtomicPtr, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicIsize, AtomicPtr, Ordering, fence},
};

/// What a body left behind when it panicked.
pub(super) type Payload = Box<dyn Any + Send + 'static>;

/// How a thread waits before it goes to sleep: calls the check until it holds or patience ends.
pub(super) type Spin = fn(&dyn Fn() -> bool);

/// A posted job. It lives on the caller's stack for as long as any of its chunks is unfinished.
struct Job<'a> {
    n_chunks: isize,
    body: &'a (dyn Fn(usize, usize) + Sync),
}

/// Keeps a value on a cache line of its own (two, as neighbours are fetched in pairs).
#[repr(align(128))]
struct Line<T>(T);

/// What a claim reads and writes, on one line so that it costs one transfer between cores.
struct Offer {
    /// Chunks not yet claimed. Below zero by the number of claims that came too late.
    open: AtomicIsize,
    job: AtomicPtr<Job<'static>>,
}

/// Where jobs are posted. One caller at a time; the rest wait for their turn.
pub(super) struct Board {
    offer: Line<Offer>,
    /// Chunks of the current job whose completion has not been reported.
    unfinished: Line<AtomicIsize>,
    closed: AtomicBool,
    panicked: Mutex<Option<Payload>>,
    turn: Mutex<()>,
    caller: Sleeper,
    workers: Box<[Sleeper]>,
    spin: Spin,
}

impl Board {
    /// A board for `n_workers` helpers beside the caller.
    pub(super) fn new(n_workers: usize, spin: Spin) -> Board {
        Board {
            offer: Line(Offer { open: AtomicIsize::new(0), job: AtomicPtr::new(ptr::null_mut()) }),
            unfinished: Line(AtomicIsize::new(0)),
            closed: AtomicBool::new(false),
            panicked: Mutex::new(None),
            turn: Mutex::new(()),
            caller: Sleeper::new(),
            workers: (0..n_workers).map(|_| Sleeper::new()).collect(),
            spin,
        }
    }

    /// Calls `body(worker, chunk)` once for each chunk, here as worker 0 and on whichever workers come to help. Returns
    /// when all calls have returned. After a panic the unclaimed chunks are skipped and the first payload is returned.
    pub(super) fn run(&self, n_chunks: usize, body: &(dyn Fn(usize, usize) + Sync)) -> Result<(), Payload> {
        let _turn = lock(&self.turn);
        if n_chunks <= 1 || self.workers.is_empty() {
            return catch_unwind(AssertUnwindSafe(|| (0..n_chunks).for_each(|chunk| body(0, chunk))));
        }
        let n_chunks = isize::try_from(n_chunks).expect("the chunk count of a region fits isize");
        let job = Job { n_chunks, body };
        self.unfinished.0.store(n_chunks, Ordering::Relaxed);
        self.offer.0.job.store(ptr::from_ref(&job).cast_mut().cast(), Ordering::Relaxed);
        // A swap, not a store: with read-modify-writes only, a late claim falls clearly before or after the posting (loom
        // does not order a plain store against it).
        self.offer.0.open.swap(n_chunks, Ordering::Release);

        fence(Ordering::SeqCst);
        let helpers = n_chunks.unsigned_abs() - 1;
        self.workers.iter().take(helpers).for_each(Sleeper::wake_after_fence);

        self.help(0);
        let done = || self.unfinished.0.load(Ordering::Acquire) == 0;
        self.caller.wait_until(&done, self.spin);
        lock(&self.panicked).take().map_or(Ok(()), Err)
    }

    /// Helps with every job until the board closes. `worker` is 1 or more, and no two threads use the same.
    pub(super) fn serve(&self, worker: usize) {
        loop {
            let called =
                || self.offer.0.open.load(Ordering::Relaxed) > 0 || self.closed.load(Ordering::Relaxed);
            self.workers[worker - 1].wait_until(&called, self.spin);
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            self.help(worker);
        }
    }

    /// Sends the workers home. No job may be posted afterwards.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.workers.iter().for_each(Sleeper::wake_after_fence);
    }

    /// Claims and runs chunks until none is open, then reports how many were done.
    fn help(&self, worker: usize) {
        let mut claimed = 0;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            while self.offer.0.open.load(Ordering::Relaxed) > 0 {
                // Acquire: a positive result stems from the swap that posted the job, so the job is visible.
                let open = self.offer.0.open.fetch_sub(1, Ordering::Acquire);
                if open <= 0 {
                    break;
                }
                claimed += 1;
                let job = self.offer.0.job.load(Ordering::Relaxed);
                // SAFETY: this thread holds a claim, so the job is not over: its caller waits for `unfinished`, which
                // still counts this chunk, and keeps the job on its stack until then.
                let job = unsafe { &*job };
                (job.body)(worker, (job.n_chunks - open).unsigned_abs());
            }
        }));
        if let Err(payload) = outcome {
            // Taking all that is left skips it. The claim being held keeps this the job that panicked.
            claimed += self.offer.0.open.swap(0, Ordering::Relaxed).max(0);
            let mut first = lock(&self.panicked);
            if first.is_none() {
                *first = Some(payload);
            } else {
                // Dropping a payload may panic, and unwinding from here would leave the job before its end.
                mem::forget(payload);
            }
        }
        // Release: what the bodies wrote is visible to the caller once it sees zero, since the reports of all threads form
        // one release sequence.
        if claimed > 0 && self.unfinished.0.fetch_sub(claimed, Ordering::Release) == claimed && worker != 0 {
            fence(Ordering::SeqCst);
            self.caller.wake_after_fence();
        }
    }
}

/// A place for one thread to wait until a condition holds that other threads bring about.
///
/// The sleeper says that it sleeps, then looks at the condition once more; the other side makes the condition true, then
/// looks whether anyone sleeps. A full fence between the two steps on either side guarantees that at least one of them
/// sees the other. The mutex closes the gap between that last look and the wait. The flag changes by swaps only, for the
/// same reason as `open`.
struct Sleeper {
    asleep: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper { asleep: AtomicBool::new(false), lock: Mutex::new(()), bell: Condvar::new() }
    }

    /// Returns once `ready` holds: watches for a while, then sleeps. Whoever was woken watches again before the next
    /// sleep: waking takes longer than a short region does, so a worker that came too late for one region should be
    /// there for the next.
    fn wait_until(&self, ready: &dyn Fn() -> bool, spin: Spin) {
        loop {
            spin(ready);
            if ready() {
                return;
            }
            let guard = lock(&self.lock);
            self.asleep.swap(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !ready() {
                drop(self.bell.wait(guard).unwrap_or_else(PoisonError::into_inner));
            }
            self.asleep.swap(false, Ordering::Relaxed);
        }
    }

    /// Wakes the sleeper, if there is one. The caller has made the condition true and then passed a `SeqCst` fence.
    ///
    /// Taking the flag down here saves the system call for everyone who comes before the sleeper gets a CPU.
    fn wake_after_fence(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            drop(lock(&self.lock));
            self.bell.notify_one();
        }
    }
}

/// Bodies may panic while their caller holds its turn; the data behind these locks is consistent all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
