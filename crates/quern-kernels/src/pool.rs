//! The compute pool: a fixed set of threads that run one region at a time.
//!
//! A decode step is several hundred regions of a few tens of microseconds, so what counts is the cost of starting and
//! ending one. Workers wait for the next region by watching one counter for about 50 microseconds, then sleep: back to
//! back regions start without a system call, and an idle process burns no CPU. Chunks are claimed one by one, so a core
//! that is slow or busy elsewhere takes fewer of them; results cannot depend on who computes what (docs/arithmetic.md).
//!
//! One pool serves a whole process, shared by every engine and model. Its workers are not pinned: on a machine that does
//! other things as well, the scheduler knows better.
//!
//! Deliberately absent: task queues, work stealing, futures, return values. A region is a loop, nothing more.

mod board;

use std::cell::Cell;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quern_platform::FloatMode;

use board::{Board, Spin};

/// How long a thread watches for work, or for the others to finish, before it sleeps. Longer than the gaps between the
/// regions of a decode step, shorter than anyone would notice on an idle machine.
const SPIN: Duration = Duration::from_micros(50);

/// Looks at the counter between two looks at the clock, which costs as much as several of them.
const CHECKS_PER_CLOCK: u32 = 32;

/// The most threads a pool will start, whatever it is asked for.
pub const MAX_THREADS: usize = 256;

thread_local! {
    /// The pool whose region this thread is in (by address), and as which worker.
    static PLACE: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// A fixed set of compute threads, the caller of [`Pool::run`] included.
pub struct Pool {
    board: Arc<Board>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts a pool of `threads` threads in all, the caller of [`Pool::run`] being one of them; 1 means no workers. The
    /// number is brought into 1 to 256, and falls short where the system refuses to start more: [`Pool::threads`] says
    /// what came of it.
    pub fn new(threads: usize) -> Pool {
        let n_workers = threads.clamp(1, MAX_THREADS) - 1;
        // With more threads than CPUs, the thread that is waited for may need the CPU of the one that waits.
        let crowded = n_workers >= quern_platform::available_threads();
        let spin: Spin = if crowded { yield_until } else { spin_until };
        let board = Arc::new(Board::new(n_workers, spin));
        let start = |worker| {
            let board = Arc::clone(&board);
            thread::Builder::new().name(format!("quern-{worker}")).spawn(move || work(&board, worker)).ok()
        };
        let workers = (1..=n_workers).map_while(start).collect();
        Pool { board, workers }
    }

    /// Threads in all, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `body(worker, chunk)` for each chunk in `0..n_chunks` exactly once, on any thread, and returns when all are
    /// done. Chunks start in ascending order. `worker` is below [`Pool::threads`] and never the same in two calls that
    /// run at once, so it may index scratch. Every thread computes in the canonical [`FloatMode`].
    ///
    /// Regions of one pool take turns. A region started inside a region of the same pool runs on the spot, under the
    /// worker number of the call it is in. A region may use another pool, but not one whose region waits for it.
    ///
    /// # Panics
    /// With the payload of the first body that panicked. Chunks that were not claimed by then are skipped; the pool can
    /// be used again.
    pub fn run(&self, n_chunks: usize, body: &(dyn Fn(usize, usize) + Sync)) {
        let id = identity(&self.board);
        if let Some((_, worker)) = PLACE.get().filter(|&(pool, _)| pool == id) {
            return (0..n_chunks).for_each(|chunk| body(worker, chunk));
        }
        let outcome = {
            let _place = Place::enter(id, 0);
            let _mode = FloatMode::canonical();
            self.board.run(n_chunks, body)
        };
        if let Err(payload) = outcome {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.board.close();
        for worker in self.workers.drain(..) {
            // A worker catches what bodies throw, so it ends well or not at all.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

fn work(board: &Arc<Board>, worker: usize) {
    let _place = Place::enter(identity(board), worker);
    let _mode = FloatMode::canonical();
    board.serve(worker);
}

fn identity(board: &Arc<Board>) -> usize {
    Arc::as_ptr(board).addr()
}

/// Marks this thread as being inside a region until dropped.
struct Place {
    outer: Option<(usize, usize)>,
}

impl Place {
    fn enter(pool: usize, worker: usize) -> Place {
        Place { outer: PLACE.replace(Some((pool, worker))) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACE.set(self.outer);
    }
}

fn spin_until(ready: &dyn Fn() -> bool) {
    wait_until(ready, std::hint::spin_loop);
}

fn yield_until(ready: &dyn Fn() -> bool) {
    wait_until(ready, thread::yield_now);
}

fn wait_until(ready: &dyn Fn() -> bool, pause: fn()) {
    let mut start = None;
    loop {
        for _ in 0..CHECKS_PER_CLOCK {
            if ready() {
                return;
            }
            pause();
        }
        if start.get_or_insert_with(Instant::now).elapsed() >= SPIN {
            return;
        }
    }
}
