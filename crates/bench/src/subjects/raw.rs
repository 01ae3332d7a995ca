//! The raw disk: writes as many bytes as the rows of a batch have, durable on return. It bounds the
//! speed of stores, and so distinguishes a slow store from a slow disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::row_batches::{ROW_BYTES, Rows};

/// Size and alignment of writes that bypass the system's cache.
const BLOCK_BYTES: usize = 4096;
const WRITTEN_BYTES_MIN: usize = 64 << 20;

/// How and where the bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `pwrite` and `fdatasync` after the end of the file.
    New,
    /// Like `New`, over existing data.
    Written,
    /// Over existing data in complete blocks, with one write that bypasses the system's cache
    /// (`O_DIRECT`, `O_DSYNC`).
    Direct,
}

/// Every method, by name.
const WAYS: [(&str, Way); 3] = [
    ("raw-new", Way::New),
    ("raw-written", Way::Written),
    ("raw-direct", Way::Direct),
];

/// Returns the names of all methods.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    WAYS.iter().map(|(name, _)| *name)
}

/// A file to which batches are written.
#[derive(Debug)]
pub(crate) struct Raw {
    /// Its name in figures.
    pub(crate) name: &'static str,
    way: Way,
    file: File,
    at: usize,
    /// The offset at which writes wrap to the start; if data must exist, all up to it was written.
    end: usize,
    /// Buffer for writes that bypass the system's cache.
    memory: Vec<u8>,
}

impl Raw {
    /// Opens a file for each method that `is_taken` selects and the file system supports, for
    /// batches of at most `rows_max` rows.
    ///
    /// # Panics
    ///
    /// If the disk fails.
    pub(crate) fn all(dir: &Path, rows_max: usize, is_taken: impl Fn(&str) -> bool) -> Vec<Self> {
        let taken = WAYS.iter().filter(|(name, _)| is_taken(name));
        let open = |&(name, way): &(&'static str, Way)| {
            let longest = (rows_max * ROW_BYTES).next_multiple_of(BLOCK_BYTES);
            let mut raw = Self {
                name,
                way,
                file: open(&dir.join(name), 0).expect("a directory of this run"),
                at: 0,
                end: usize::MAX,
                memory: Vec::new(),
            };
            if way != Way::New {
                raw.end = longest.max(WRITTEN_BYTES_MIN);
                let bytes = vec![1; 1 << 20];
                for at in (0..raw.end).step_by(bytes.len()) {
                    raw.file.write_all_at(&bytes, at as u64).expect("writes");
                }
                raw.file.sync_all().expect("syncs");
            }
            if way == Way::Direct {
                raw.file = open(&dir.join(name), DIRECT).ok()?;
                raw.memory = vec![0; longest + BLOCK_BYTES];
            }
            Some(raw)
        };
        taken.filter_map(open).collect()
    }

    /// Writes as many bytes as the rows of a batch have; they are durable on return.
    ///
    /// # Panics
    ///
    /// If the disk fails.
    pub(crate) fn append(&mut self, rows: &Rows) {
        let bytes = &*rows.bytes;
        let len = match self.way {
            Way::Direct => bytes.len().next_multiple_of(BLOCK_BYTES),
            _ => bytes.len(),
        };
        if self.at + len > self.end {
            self.at = 0;
        }
        if self.way == Way::Direct {
            let from = self.memory.as_ptr().align_offset(BLOCK_BYTES);
            let aligned = &mut self.memory[from..from + len];
            aligned[..bytes.len()].copy_from_slice(bytes);
            self.file.write_all_at(aligned, self.at as u64).expect("writes");
        } else {
            self.file.write_all_at(bytes, self.at as u64).expect("writes");
            self.file.sync_data().expect("syncs");
        }
        self.at += len;
    }
}

/// Flags for durable writes that bypass the system's cache.
const DIRECT: i32 = libc::O_DIRECT | libc::O_DSYNC;

fn open(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags).open(path)
}
