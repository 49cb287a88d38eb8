//! The pool's protocol under loom: every interleaving of a few threads, up to a bound on preemptions, and every value
//! that the memory model lets a relaxed load see. Run by scripts/test-loom.sh; an ordinary test run skips the file.
//!
//! A lost wake-up shows as a deadlock, a missing happens-before edge as a conflicting access to an `UnsafeCell`, a job
//! used after its end as a body of the wrong region being called.
#![cfg(loom)]
#![allow(unsafe_code)]

#[path = "../src/pool/board.rs"]
mod board;

use board::Board;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// One plain cell per chunk: written by whoever runs the chunk, read by the caller afterwards.
struct Cells(Vec<UnsafeCell<usize>>);

// SAFETY: loom checks every access to the cells and fails the test on a conflicting one; that is what is being tested.
unsafe impl Sync for Cells {}

impl Cells {
    fn new(n: usize) -> Cells {
        Cells((0..n).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, chunk: usize, value: usize) {
        // SAFETY: as above.
        self.0[chunk].with_mut(|cell| unsafe { *cell += value });
    }

    fn get(&self, chunk: usize) -> usize {
        // SAFETY: as above.
        self.0[chunk].with(|cell| unsafe { *cell })
    }
}

/// Runs `check` against a board with workers in every interleaving, then closes the board and joins them.
fn explore(n_workers: usize, preemptions: usize, check: impl Fn(&Arc<Board>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let board = Arc::new(Board::new(n_workers, |_| {}));
        let workers: Vec<_> = (1..=n_workers)
            .map(|worker| {
                let board = Arc::clone(&board);
                thread::spawn(move || board.serve(worker))
            })
            .collect();
        check(&board);
        board.close();
        workers.into_iter().for_each(|worker| worker.join().expect("worker"));
    });
}

/// A region that reads what its caller wrote before it, and whose writes the caller reads after it.
fn region(board: &Board, n_chunks: usize, value: usize) {
    let (given, cells) = (Cells::new(1), Cells::new(n_chunks));
    given.add(0, value);
    let outcome = board.run(n_chunks, &|_, chunk| cells.add(chunk, given.get(0)));
    assert!(outcome.is_ok());
    (0..n_chunks).for_each(|chunk| assert_eq!(cells.get(chunk), value, "chunk {chunk}"));
}

#[test]
fn back_to_back_regions_with_one_worker() {
    explore(1, 3, |board| {
        region(board, 2, 5);
        region(board, 3, 7);
    });
}

#[test]
fn one_region_with_two_workers() {
    explore(2, 2, |board| region(board, 2, 5));
}

#[test]
fn posting_wakes_a_sleeping_worker() {
    explore(1, 3, |board| {
        // Two chunks that wait for each other: a caller left alone with them would never get past the first.
        let (arrived, bell) = (Mutex::new(0), Condvar::new());
        let outcome = board.run(2, &|_, _| {
            let mut arrived = arrived.lock().expect("no panic");
            *arrived += 1;
            bell.notify_one();
            while *arrived < 2 {
                arrived = bell.wait(arrived).expect("no panic");
            }
        });
        assert!(outcome.is_ok());
    });
}

#[test]
fn two_callers_take_turns() {
    explore(1, 2, |board| {
        let other = Arc::clone(board);
        let other = thread::spawn(move || region(&other, 2, 5));
        region(board, 2, 7);
        other.join().expect("caller");
    });
}

#[test]
fn workers_are_never_numbered_twice_at_once() {
    explore(1, 3, |board| {
        // Each worker's cell is written without synchronisation: two concurrent holders of a number would conflict.
        let scratch = Cells::new(2);
        for _ in 0..2 {
            assert!(board.run(2, &|worker, _| scratch.add(worker, 1)).is_ok());
        }
        assert_eq!(scratch.get(0) + scratch.get(1), 4);
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_next_region_is_whole() {
    explore(1, 2, |board| {
        let outcome = board.run(3, &|_, chunk| {
            if chunk == 1 {
                std::panic::resume_unwind(Box::new("chunk 1"));
            }
        });
        assert_eq!(outcome.expect_err("a panic").downcast_ref(), Some(&"chunk 1"));
        region(board, 2, 7);
    });
}

#[test]
fn closing_an_idle_board_frees_its_workers() {
    explore(2, 3, |_| {});
}
