//! What the control groups of this process allow: CPU time and memory, versions 1 and 2.
//!
//! A limit may sit on any ancestor, so each question walks from the process's own group up to the root of the mount and
//! the tightest answer wins. Inside a container the path in `/proc/self/cgroup` may name the host's view of the group;
//! the root column of `mountinfo` is what tells how much of it lies outside the mount.
//!
//! Deliberately absent: changing anything, and cpusets (the affinity mask already reflects them).
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::fs;
use std::path::{Path, PathBuf};

/// Version 1 reports "no limit" as the largest page-aligned i64; anything in that region is no limit.
const V1_UNLIMITED: u64 = 1 << 62;

/// The groups this process is in, as folders, each list from the process's own group up to the mount's root.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    v2: Vec<PathBuf>,
    v1_cpu: Vec<PathBuf>,
    v1_memory: Vec<PathBuf>,
}

/// Memory as the tightest group sees it, in bytes.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct MemoryLimit {
    pub(crate) limit: u64,
    /// Used by the group, less file pages the kernel would drop first.
    pub(crate) working_set: u64,
}

impl Cgroups {
    /// Reads the groups of this process. `root` is `/`, or a fixture tree in tests.
    pub(crate) fn of_this_process(root: &Path) -> Cgroups {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let mounts = parse_mounts(&text("proc/self/mountinfo"));
        let membership = text("proc/self/cgroup");
        let folders = |controller: Option<&str>| {
            let mount = mounts.iter().find(|m| m.serves(controller));
            let group = parse_membership(&membership, controller);
            match (mount, group) {
                (Some(mount), Some(group)) => mount.folders(root, group),
                _ => Vec::new(),
            }
        };
        Cgroups { v2: folders(None), v1_cpu: folders(Some("cpu")), v1_memory: folders(Some("memory")) }
    }

    /// CPUs' worth of time per period, rounded down but at least one: going over the quota stalls every thread of
    /// the group until the period ends, which costs more than an idle fraction of a CPU.
    pub(crate) fn cpu_quota(&self) -> Option<usize> {
        let v2 = self.v2.iter().filter_map(|dir| parse_cpu_max(&read(dir, "cpu.max")?));
        let v1 = self
            .v1_cpu
            .iter()
            .filter_map(|dir| whole_cpus(&read(dir, "cpu.cfs_quota_us")?, &read(dir, "cpu.cfs_period_us")?));
        v2.chain(v1).min()
    }

    /// The group, if any, that leaves the least memory.
    pub(crate) fn memory(&self) -> Option<MemoryLimit> {
        let v2 = self.v2.iter().filter_map(|dir| {
            let limit = read(dir, "memory.max")?.trim().parse().ok()?;
            memory_limit(dir, limit, "memory.current", "inactive_file")
        });
        let v1 = self.v1_memory.iter().filter_map(|dir| {
            let limit =
                read(dir, "memory.limit_in_bytes")?.trim().parse().ok().filter(|&l| l < V1_UNLIMITED)?;
            memory_limit(dir, limit, "memory.usage_in_bytes", "total_inactive_file")
        });
        v2.chain(v1).min_by_key(|m| m.limit.saturating_sub(m.working_set))
    }
}

fn read(dir: &Path, name: &str) -> Option<String> {
    fs::read_to_string(dir.join(name)).ok()
}

fn memory_limit(dir: &Path, limit: u64, usage_file: &str, reclaimable: &str) -> Option<MemoryLimit> {
    let usage: u64 = read(dir, usage_file)?.trim().parse().ok()?;
    let droppable = read(dir, "memory.stat").and_then(|stat| parse_stat(&stat, reclaimable)).unwrap_or(0);
    Some(MemoryLimit { limit, working_set: usage.saturating_sub(droppable) })
}

/// One control-group mount of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    root: String,
    point: String,
    /// `None` for version 2, the super options for version 1.
    controllers: Option<Vec<String>>,
}

impl Mount {
    fn serves(&self, controller: Option<&str>) -> bool {
        match (&self.controllers, controller) {
            (None, None) => true,
            (Some(have), Some(want)) => have.iter().any(|c| c == want),
            _ => false,
        }
    }

    /// The folders of `group` and its ancestors that are visible through this mount.
    fn folders(&self, fs_root: &Path, group: &str) -> Vec<PathBuf> {
        let top = fs_root.join(self.point.trim_start_matches('/'));
        // `/..` marks a group outside this namespace's view; only the mount's root is visible then.
        let inside = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        if inside
            .components()
            .any(|c| !matches!(c, std::path::Component::Normal(_) | std::path::Component::RootDir))
        {
            return vec![top];
        }
        inside.ancestors().map(|part| top.join(part.strip_prefix("/").unwrap_or(part))).collect()
    }
}

/// `36 35 98:0 /root /point options... - fstype source super_options`
fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    let parse = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(3);
        let (root, point) = (head.next()?, head.next()?);
        let mut tail = tail.split(' ');
        let controllers = match tail.next()? {
            "cgroup2" => None,
            "cgroup" => Some(tail.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Mount { root: root.to_owned(), point: point.to_owned(), controllers })
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// The path of this process's group: the `0::` line for version 2, the line that lists `controller` for version 1.
fn parse_membership<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match controller {
            None => id == "0" && names.is_empty(),
            Some(want) => names.split(',').any(|name| name == want),
        };
        ours.then_some(path)
    })
}

/// `max 100000` or `150000 100000`.
fn parse_cpu_max(text: &str) -> Option<usize> {
    let (quota, period) = text.trim().split_once(' ')?;
    whole_cpus(quota, period)
}

fn whole_cpus(quota: &str, period: &str) -> Option<usize> {
    // "max" and -1 both mean no quota, and neither parses as unsigned.
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok()?;
    usize::try_from(quota.checked_div(period)?).ok().map(|cpus| cpus.max(1))
}

fn parse_stat(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Tree {
            let dir = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Tree(dir)
        }

        fn groups(&self) -> Cgroups {
            Cgroups::of_this_process(self.0.path())
        }
    }

    const V2_MOUNT: &str = "25 30 0:23 / /sys/fs/cgroup rw,nosuid,nodev - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn cpu_max_forms() {
        // The forms of the kernel's cgroup-v2 document: "$MAX $PERIOD", "max" for no limit.
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1));
        assert_eq!(parse_cpu_max("50000 100000\n"), Some(1));
        assert_eq!(parse_cpu_max("1600000 100000\n"), Some(16));
        assert_eq!(parse_cpu_max(""), None);
        assert_eq!(parse_cpu_max("100000 0"), None);
        assert_eq!(whole_cpus("-1\n", "100000\n"), None);
    }

    #[test]
    fn the_tightest_ancestor_decides() {
        let tree = Tree::new(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/user.slice/app.scope\n"),
            ("sys/fs/cgroup/user.slice/app.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "8589934592\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "3221225472\n"),
            ("sys/fs/cgroup/user.slice/memory.stat", "anon 1\ninactive_file 1073741824\nactive_file 7\n"),
        ]);
        assert_eq!(tree.groups().cpu_quota(), Some(4));
        assert_eq!(tree.groups().memory(), Some(MemoryLimit { limit: 8 << 30, working_set: 2 << 30 }));
    }

    #[test]
    fn a_container_on_version_1_sees_its_own_group_at_the_mount_root() {
        let mounts = "740 731 0:26 /docker/f00d /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:11 - cgroup cgroup rw,cpu,cpuacct\n\
                      741 731 0:27 /docker/f00d /sys/fs/cgroup/memory ro master:12 - cgroup cgroup rw,memory\n";
        let tree = Tree::new(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "5:memory:/docker/f00d\n4:cpu,cpuacct:/docker/f00d\n0::/system.slice\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n"),
        ]);
        assert_eq!(tree.groups().cpu_quota(), Some(2));
        assert_eq!(tree.groups().memory(), Some(MemoryLimit { limit: 1 << 30, working_set: 100 << 20 }));
    }

    #[test]
    fn no_limit_is_none() {
        let mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let tree = Tree::new(&[
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "4:memory:/job\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1\n"),
        ]);
        assert_eq!(tree.groups().memory(), None);
        assert_eq!(tree.groups().cpu_quota(), None);
        assert_eq!(Tree::new(&[]).groups().cpu_quota(), None);
    }

    #[test]
    fn a_group_outside_the_namespace_falls_back_to_the_mount_root() {
        let tree = Tree::new(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/../../other\n"),
            ("sys/fs/cgroup/cpu.max", "300000 100000\n"),
        ]);
        assert_eq!(tree.groups().cpu_quota(), Some(3));
    }
}
