//! The CPU time of a process whose pool has nothing to do. One test alone in its process: a neighbour's time would be
//! counted too.
#![cfg(target_os = "linux")]

use std::sync::Barrier;
use std::time::Duration;

use quern_kernels::pool::Pool;

/// User and system time of all threads of this process, in clock ticks of 10 ms (`proc_pid_stat(5)`, fields 14 and 15).
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a command name").1.split_whitespace().collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

#[test]
fn an_idle_pool_sleeps_and_wakes() {
    let pool = Pool::new(4);
    for _ in 0..3 {
        let all = Barrier::new(4);
        pool.run(4, &|_, _| {
            all.wait();
        });
        let before = cpu_ticks();
        std::thread::sleep(Duration::from_millis(500));
        // Three spinning workers would burn 100 ticks or more on two CPUs.
        assert!(cpu_ticks() - before <= 5, "idle workers burn CPU");
    }
}
