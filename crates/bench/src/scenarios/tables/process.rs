//! Resource use of a process, from `/proc` and its clock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// Resources used by a process since its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Processor seconds of all threads, including ended ones.
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
        let (io, status) = (read("io"), read("status"));
        Self {
            processor_seconds: processor_seconds(process),
            written_bytes: field(&io, "write_bytes"),
            resident_bytes: field(&status, "VmRSS") << 10,
            peak_bytes: field(&status, "VmHWM") << 10,
        }
    }
}

/// Returns the processor time of a process, to a nanosecond: `/proc` counts hundredths of a second.
fn processor_seconds(process: u32) -> f64 {
    let clock = clock_getcpuclockid(Pid::from_raw(process.cast_signed()));
    let time = clock.and_then(ClockId::now);
    let time = time.unwrap_or_else(|error| panic!("the clock of process {process}: {error}"));
    Duration::from(time).as_secs_f64()
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
        // Less than the hundredth of a second in which `/proc` counts.
        assert!(after.processor_seconds > before.processor_seconds);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).expect("creates");
        std::fs::write(inner.join("file"), &memory[..1 << 20]).expect("writes");
        assert!(disk_bytes(dir.path()) >= 1 << 20);
    }
}
