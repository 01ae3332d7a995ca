//! The memory that a query may take.

use std::fs;
use std::path::Path;

use datafusion::prelude::SessionConfig;

/// The limit where the system does not say how much memory there is.
const UNKNOWN: u64 = 1 << 30;

/// The least memory for a partition of a query.
const PARTITION: usize = 32 << 20;

/// Where Linux mounts the groups that limit memory: those of version 2, then those of version 1.
const GROUPS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup", "memory.max"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// Half of the memory that is available to this process.
pub(crate) fn half() -> usize {
    let available = available(Path::new("/")).unwrap_or(UNKNOWN);
    usize::try_from(available / 2).unwrap_or(usize::MAX)
}

/// Reads a size: bytes, or a number with K, M, G or T.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[end..] {
        "" => Some(0),
        "K" | "k" => Some(10),
        "M" | "m" => Some(20),
        "G" | "g" => Some(30),
        "T" | "t" => Some(40),
        _ => None,
    };
    let size = shift.zip(text[..end].parse::<usize>().ok());
    let size = size.and_then(|(shift, number)| number.checked_mul(1 << shift));
    size.filter(|&size| size > 0)
        .ok_or_else(|| "must be a size, such as 512M or 2G".to_owned())
}

/// Settings with which queries can spill within a limit. Each partition of an operator has a share
/// of the memory, which has to hold some batches, and each partition of a sort reserves memory for
/// merging, by default 10 MiB.
pub(crate) fn within(limit: usize, config: SessionConfig) -> SessionConfig {
    let execution = &config.options().execution;
    let partitions = execution.target_partitions.min(limit / PARTITION).max(1);
    let reserved = execution.sort_spill_reservation_bytes.min(limit / partitions / 4);
    config
        .with_target_partitions(partitions)
        .with_sort_spill_reservation_bytes(reserved)
}

/// Bytes that are available on the machine, or less if a group of this process limits it.
fn available(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path.trim_start_matches('/'))).ok();
    let memory = read("/proc/meminfo")?;
    let kilobytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = kilobytes.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    let mut least = kilobytes.saturating_mul(1024);
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    // A line is `0::/path`, or `4:memory:/path` in version 1. Each group above limits it too, and
    // a container sees its own group as the root.
    for path in groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
        for group in Path::new(path).ancestors() {
            for (mount, file) in GROUPS {
                let limit = read(&format!("{mount}{}/{file}", group.display()));
                let limit = limit.and_then(|limit| limit.trim().parse().ok());
                least = limit.map_or(least, |limit: u64| least.min(limit));
            }
        }
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("1"), Ok(1));
        assert_eq!(parse("64k"), Ok(65_536));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("2G"), Ok(2 << 30));
        for text in ["", "0", "0G", "M", "1.5G", "-1", "2GB", "2 G", "99999999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_least_limit_counts() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
            fs::write(path, text).expect("writes");
        };
        assert_eq!(available(dir.path()), None);
        write(
            "proc/meminfo",
            "MemTotal:       8000 kB\nMemAvailable:   4000 kB\n",
        );
        assert_eq!(available(dir.path()), Some(4000 * 1024));
        write("proc/self/cgroup", "0::/user/shell\n");
        write("sys/fs/cgroup/user/shell/memory.max", "max\n");
        assert_eq!(available(dir.path()), Some(4000 * 1024));
        write("sys/fs/cgroup/user/memory.max", "3000000\n");
        assert_eq!(available(dir.path()), Some(3_000_000));
        // In a container of version 1 the path is that of the host.
        write("proc/self/cgroup", "5:cpu:/docker/ab\n4:memory:/docker/ab\n");
        assert_eq!(available(dir.path()), Some(4000 * 1024));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
        assert_eq!(available(dir.path()), Some(2_000_000));
    }

    #[test]
    fn little_memory_is_for_few_partitions() {
        let settings = |limit| {
            let config = within(limit, SessionConfig::new().with_target_partitions(8));
            let execution = &config.options().execution;
            (
                execution.target_partitions,
                execution.sort_spill_reservation_bytes,
            )
        };
        assert_eq!(settings(8 << 20), (1, 2 << 20));
        assert_eq!(settings(128 << 20), (4, 8 << 20));
        assert_eq!(settings(1 << 30), (8, 10 << 20));
    }
}
