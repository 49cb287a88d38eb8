//! How much memory there is, how much is free now, and how much this process holds.
//!
//! Nothing is cached: what is free is read when it is asked for, because a plan made on an old figure is a guess.
//! Figures the system does not tell through a plain call are `None`.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::path::Path;

use crate::cgroup::Cgroups;

/// The memory of this machine as this process may use it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryFacts {
    /// Installed memory.
    pub total: Option<u64>,
    /// What can be used now without swapping, the control group's limit taken into account.
    pub available: Option<u64>,
    /// The tightest control-group limit on this process, where there is one.
    pub limit: Option<u64>,
}

/// Reads the memory facts as of now.
pub fn memory_facts() -> MemoryFacts {
    imp::memory_facts()
}

/// Memory of this process that is resident now, in bytes.
pub fn current_rss() -> Option<u64> {
    imp::current_rss()
}

/// The most that was ever resident, in bytes. Never below [`current_rss`] of the same moment.
pub fn peak_rss() -> Option<u64> {
    imp::peak_rss()
}

/// `MemAvailable:    8123456 kB` and the like: /proc/meminfo and /proc/self/status share the form.
fn parse_kib(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn facts_below(root: &Path) -> MemoryFacts {
    let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let free = parse_kib(&meminfo, "MemAvailable");
    let group = Cgroups::of_this_process(root).memory();
    let group_free = group.map(|g| g.limit.saturating_sub(g.working_set));
    MemoryFacts {
        total: parse_kib(&meminfo, "MemTotal"),
        available: free.into_iter().chain(group_free).min(),
        limit: group.map(|g| g.limit),
    }
}

/// The kernel updates its peak lazily, so a fresh current value may be above it.
fn parse_peak(status: &str) -> Option<u64> {
    Some(parse_kib(status, "VmHWM")?.max(parse_kib(status, "VmRSS")?))
}

#[cfg(target_os = "linux")]
mod imp {
    use super::{MemoryFacts, facts_below, parse_kib, parse_peak};
    use std::path::Path;

    pub(super) fn memory_facts() -> MemoryFacts {
        facts_below(Path::new("/"))
    }

    fn status() -> Option<String> {
        std::fs::read_to_string("/proc/self/status").ok()
    }

    pub(super) fn current_rss() -> Option<u64> {
        parse_kib(&status()?, "VmRSS")
    }

    pub(super) fn peak_rss() -> Option<u64> {
        parse_peak(&status()?)
    }
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
mod imp {
    use super::MemoryFacts;

    pub(super) fn memory_facts() -> MemoryFacts {
        MemoryFacts { total: installed(), available: None, limit: None }
    }

    fn installed() -> Option<u64> {
        let mut bytes = 0u64;
        let mut len = size_of::<u64>();
        let name = c"hw.memsize";
        // SAFETY: the name is nul-terminated and the kernel writes at most `len` bytes into `bytes`.
        let rc = unsafe {
            libc::sysctlbyname(name.as_ptr(), (&raw mut bytes).cast(), &mut len, std::ptr::null_mut(), 0)
        };
        (rc == 0).then_some(bytes)
    }

    pub(super) fn current_rss() -> Option<u64> {
        None
    }

    pub(super) fn peak_rss() -> Option<u64> {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: getrusage fills the struct it is given; all-zero is a valid value of it in any case.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        // In bytes on this system, unlike elsewhere.
        u64::try_from(usage.ru_maxrss).ok()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod imp {
    use super::MemoryFacts;

    pub(super) fn memory_facts() -> MemoryFacts {
        MemoryFacts { total: None, available: None, limit: None }
    }

    pub(super) fn current_rss() -> Option<u64> {
        None
    }

    pub(super) fn peak_rss() -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The head of a real /proc/meminfo.
    const MEMINFO: &str = "MemTotal:       32802844 kB\nMemFree:         1052852 kB\nMemAvailable:   20311992 kB\n\
                           Buffers:          604052 kB\nHugePages_Total:       0\n";

    #[test]
    fn meminfo_lines() {
        assert_eq!(parse_kib(MEMINFO, "MemTotal"), Some(32_802_844 * 1024));
        assert_eq!(parse_kib(MEMINFO, "Mem"), None);
        assert_eq!(parse_kib(MEMINFO, "HugePages_Total"), None, "a count, not a size");
        assert_eq!(parse_kib("VmRSS:\t 18446744073709551615 kB", "VmRSS"), None, "no overflow");
    }

    #[test]
    fn g4_what_is_free_counts_not_what_is_installed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", MEMINFO);
        let facts = facts_below(dir.path());
        assert_eq!((facts.available, facts.limit), (Some(20_311_992 * 1024), None));

        write("proc/self/mountinfo", "25 30 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("proc/self/cgroup", "0::/box\n");
        write("sys/fs/cgroup/box/memory.max", "4294967296\n");
        write("sys/fs/cgroup/box/memory.current", "1073741824\n");
        let facts = facts_below(dir.path());
        assert_eq!((facts.available, facts.limit), (Some(3 << 30), Some(4 << 30)));
        assert_eq!(facts.total, Some(32_802_844 * 1024));
    }

    #[test]
    fn r92_peak_is_never_below_current() {
        assert_eq!(parse_peak("VmHWM:\t    1000 kB\nVmRSS:\t    1200 kB\n"), Some(1200 * 1024));
        assert_eq!(parse_peak("VmHWM:\t    1500 kB\nVmRSS:\t    1200 kB\n"), Some(1500 * 1024));
    }
}
