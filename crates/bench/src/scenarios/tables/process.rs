//! Resource use of a process, from `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Clock ticks per second in `/proc/PID/stat`, the same on every Linux.
const TICKS: f64 = 100.0;

/// Resources used by a process since its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Processor seconds of all threads, including ended ones, to a hundredth.
    pub(super) processor_seconds: f64,
    /// Bytes written to the disk on its behalf.
    pub(super) written_bytes: u64,
    /// Resident memory in bytes, including mapped files.
    pub(super) resident_bytes: u64,
    /// Peak resident memory since [`forget_peak`].
    pub(super) peak_bytes: u64,
}

impl Usage {
    /// Reads the resource use of a process.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub(super) fn of(process: u32) -> Self {
        let read = |name: &str| {
            let path = format!("/proc/{process}/{name}");
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let field = |text: &str, name: &str| {
            let lines = text
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let mut numbers = lines.filter_map(|value| value.split_whitespace().next()?.parse::<u64>().ok());
            numbers.next().unwrap_or(0)
        };
        let (stat, io, status) = (read("stat"), read("io"), read("status"));
        // The program's name, in brackets, may contain spaces.
        let numbers = stat.rsplit(')').next().unwrap_or_default();
        let times = numbers.split_whitespace().skip(11).take(2);
        let ticks: f64 = times.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Self {
            processor_seconds: ticks / TICKS,
            written_bytes: field(&io, "write_bytes"),
            resident_bytes: field(&status, "VmRSS") << 10,
            peak_bytes: field(&status, "VmHWM") << 10,
        }
    }
}

/// Resets the peak memory of a process; has no effect where that is not permitted.
pub(super) fn forget_peak(process: u32) {
    let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
}

/// Returns the bytes that the files of a directory occupy on disk.
pub(in super::super) fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).expect("a directory of this run");
    let bytes = entries.map(|entry| {
        // Engines may remove files at any time.
        match entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) {
            Ok((path, kind)) if kind.is_dir() => disk_bytes(&path),
            Ok((_, kind)) => kind.blocks() * 512,
            Err(_) => 0,
        }
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::{Usage, disk_bytes};

    #[test]
    fn memory_and_files_are_counted() {
        let before = Usage::of(std::process::id());
        let memory = vec![1_u8; 64 << 20];
        let after = Usage::of(std::process::id());
        assert!(
            after.peak_bytes >= before.resident_bytes + (32 << 20),
            "{after:?}"
        );
        assert!(after.processor_seconds >= before.processor_seconds);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).expect("creates");
        std::fs::write(inner.join("file"), &memory[..1 << 20]).expect("writes");
        assert!(disk_bytes(dir.path()) >= 1 << 20);
    }
}
