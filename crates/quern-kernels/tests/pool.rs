//! The compute pool through its public API. The protocol itself is explored in `pool_loom.rs`.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use quern_kernels::pool::Pool;

/// Runs a region and returns how often each chunk ran.
fn counts(pool: &Pool, n_chunks: usize) -> Vec<usize> {
    let seen: Vec<_> = (0..n_chunks).map(|_| AtomicUsize::new(0)).collect();
    pool.run(n_chunks, &|worker, chunk| {
        assert!(worker < pool.threads());
        seen[chunk].fetch_add(1, Ordering::Relaxed);
    });
    seen.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_chunk_runs_exactly_once() {
    for threads in [1, 2, 3, 7] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads);
        for n_chunks in [0, 1, 2, 3, 7, 64, 1000] {
            assert_eq!(counts(&pool, n_chunks), vec![1; n_chunks], "{threads} threads, {n_chunks} chunks");
        }
    }
}

#[test]
fn the_thread_count_is_bounded() {
    assert_eq!(Pool::new(0).threads(), 1);
    assert!((1..=256).contains(&Pool::new(usize::MAX).threads()));
}

#[test]
fn chunks_add_up_to_the_sum_of_their_indices() {
    // Gauss: n (n - 1) / 2, whoever adds.
    let pool = Pool::new(3);
    let sum = AtomicUsize::new(0);
    pool.run(10_000, &|_, chunk| {
        sum.fetch_add(chunk, Ordering::Relaxed);
    });
    assert_eq!(sum.into_inner(), 49_995_000);
}

#[test]
fn many_short_regions_lose_nothing() {
    let pool = Pool::new(4);
    let total = AtomicUsize::new(0);
    for round in 0..20_000 {
        pool.run(round % 5, &|_, _| {
            total.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(total.into_inner(), 40_000);
}

#[test]
fn regions_start_after_pauses_of_every_length() {
    // Around the moment when a worker gives up watching and goes to sleep: a lost wake-up hangs here, since two chunks
    // that wait for each other need two threads.
    let pool = Pool::new(2);
    for pause in (0..120).chain(0..120) {
        let both = Barrier::new(2);
        pool.run(2, &|_, _| {
            both.wait();
        });
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(pause) {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn all_threads_take_part_under_their_own_numbers() {
    let pool = Pool::new(4);
    for _ in 0..50 {
        let (all, seen) = (Barrier::new(4), Mutex::new(HashSet::new()));
        let caller = std::thread::current().id();
        pool.run(4, &|worker, _| {
            // Nobody passes before all four are inside: four threads, so four numbers.
            all.wait();
            seen.lock().expect("no panic").insert(worker);
            assert_eq!(worker == 0, std::thread::current().id() == caller);
        });
        assert_eq!(seen.into_inner().expect("no panic"), HashSet::from([0, 1, 2, 3]));
    }
}

#[test]
fn workers_carry_names() {
    let pool = Pool::new(2);
    let (both, name) = (Barrier::new(2), Mutex::new(None));
    pool.run(2, &|worker, _| {
        both.wait();
        if worker == 1 {
            *name.lock().expect("no panic") = std::thread::current().name().map(str::to_owned);
        }
    });
    assert_eq!(name.into_inner().expect("no panic").as_deref(), Some("quern-1"));
}

#[test]
fn more_threads_than_cpus_still_finish() {
    let pool = Pool::new(16);
    for _ in 0..500 {
        assert_eq!(counts(&pool, 33), [1; 33]);
    }
}

#[test]
fn callers_from_several_threads_take_turns() {
    let pool = Arc::new(Pool::new(3));
    let busy: Arc<Vec<AtomicBool>> = Arc::new((0..3).map(|_| AtomicBool::new(false)).collect());
    let callers: Vec<_> = (0..4usize)
        .map(|caller| {
            let (pool, busy) = (Arc::clone(&pool), Arc::clone(&busy));
            std::thread::spawn(move || {
                for round in 0..500 {
                    // Single chunks too: their worker number must not be in use elsewhere either.
                    let n_chunks = 1 + (caller + round) % 6;
                    let done = AtomicUsize::new(0);
                    pool.run(n_chunks, &|worker, _| {
                        assert!(!busy[worker].swap(true, Ordering::SeqCst), "worker {worker} is busy");
                        done.fetch_add(1, Ordering::Relaxed);
                        busy[worker].store(false, Ordering::SeqCst);
                    });
                    assert_eq!(done.into_inner(), n_chunks);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().expect("caller"));
}

#[test]
fn a_nested_region_runs_on_the_spot() {
    for threads in [1, 3] {
        let pool = Pool::new(threads);
        let total = AtomicUsize::new(0);
        pool.run(6, &|outer, _| {
            pool.run(5, &|inner, _| {
                assert_eq!(inner, outer);
                pool.run(1, &|innermost, _| assert_eq!(innermost, outer));
                total.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(total.into_inner(), 30);
    }
}

#[test]
fn a_region_may_use_another_pool() {
    let (pool, other) = (Pool::new(2), Pool::new(2));
    let total = AtomicUsize::new(0);
    pool.run(8, &|_, _| {
        other.run(3, &|_, _| {
            total.fetch_add(1, Ordering::Relaxed);
        });
        // Back in the first pool's region, its own nesting is still recognised.
        pool.run(2, &|_, _| {
            total.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(total.into_inner(), 40);
}

#[test]
fn a_panic_on_any_thread_reaches_the_caller_and_the_pool_lives_on() {
    for threads in [1, 2, 5] {
        let pool = Pool::new(threads);
        for bad in [0, 1, 7] {
            let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(8, &|_, chunk| {
                    started.fetch_add(1, Ordering::SeqCst);
                    if chunk == bad {
                        ended.fetch_add(1, Ordering::SeqCst);
                        panic_any(chunk);
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }));
            assert_eq!(outcome.expect_err("a panic").downcast_ref::<usize>(), Some(&bad));
            assert_eq!(started.into_inner(), ended.into_inner(), "run returned while a body was running");
            assert_eq!(counts(&pool, 100), [1; 100]);
        }
    }
}

#[test]
fn a_panic_on_a_worker_is_the_one_that_arrives() {
    let pool = Pool::new(2);
    let both = Barrier::new(2);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pool.run(2, &|worker, _| {
            both.wait();
            if worker == 1 {
                panic_any("from a worker");
            }
        });
    }));
    assert_eq!(outcome.expect_err("a panic").downcast_ref(), Some(&"from a worker"));
}

#[test]
fn after_a_panic_unclaimed_chunks_are_skipped() {
    for threads in [1, 2, 3] {
        let pool = Pool::new(threads);
        let started = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, &|_, chunk| {
                started.fetch_add(1, Ordering::Relaxed);
                panic_any(chunk);
            });
        }));
        assert!(outcome.is_err());
        // Each thread claims at most one before its own panic ends the region.
        assert!((1..=threads).contains(&started.into_inner()));
    }
}

#[test]
fn a_panic_in_a_nested_region_unwinds_the_outer_one() {
    let pool = Pool::new(2);
    let outcome = catch_unwind(AssertUnwindSafe(|| pool.run(4, &|_, _| pool.run(2, &|_, _| panic_any(5u8)))));
    assert_eq!(outcome.expect_err("a panic").downcast_ref(), Some(&5u8));
    // The caller's place was given back: a region from here is not taken for a nested one.
    assert_eq!(counts(&pool, 9), [1; 9]);
}

#[test]
fn dropping_ends_the_workers() {
    let kept = Arc::new(());
    let pool = Pool::new(4);
    let both = Barrier::new(4);
    pool.run(4, &|_, _| {
        // Each worker's thread-local storage holds a clone until the thread is gone.
        thread_local!(static HELD: std::cell::RefCell<Option<Arc<()>>> = const { std::cell::RefCell::new(None) });
        both.wait();
        HELD.set(Some(Arc::clone(&kept)));
    });
    assert_eq!(Arc::strong_count(&kept), 5);
    drop(pool);
    // One clone is left, the caller's own.
    assert_eq!(Arc::strong_count(&kept), 2);
}

/// A host program may have left its thread flushing subnormals to zero; a region computes as the contract says, on every
/// thread, and leaves the host's setting alone.
#[test]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn regions_honour_subnormals_whatever_the_callers_mode() {
    // IEEE 754 binary32: half of the smallest normal number is the subnormal 2^-127.
    let half = || (std::hint::black_box(f32::MIN_POSITIVE) * std::hint::black_box(0.5)).to_bits();
    std::thread::spawn(move || {
        let flush = 0x9fc0u32;
        // SAFETY: loads a valid control word from a local; the thread ends with this test.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const flush, options(nostack, readonly)) };
        assert_eq!(half(), 0, "the flush did not take, the test proves nothing");
        for threads in [1, 2] {
            let (pool, all) = (Pool::new(threads), Barrier::new(threads));
            pool.run(threads, &|_, _| {
                all.wait();
                assert_eq!(half(), 0x0040_0000);
            });
        }
        assert_eq!(half(), 0);
    })
    .join()
    .expect("thread");
}
