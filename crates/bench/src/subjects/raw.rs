//! What the disk alone takes: as many bytes as the rows of a batch have, durable on return, and nothing else. It bounds what a
//! store can reach, so that a share of it tells a slow store from a slow disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::row_batches::{ROW_BYTES, Rows};

/// What a write past the system's cache has whole ones of, and where its memory begins.
const BLOCK_BYTES: usize = 4096;
const WRITTEN_BYTES_MIN: usize = 64 << 20;

/// Where the bytes go, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `pwrite` and `fdatasync`, behind the end of the file.
    New,
    /// The same, where something was written before.
    Written,
    /// There, too: one write past the system's cache (`O_DIRECT`, `O_DSYNC`) of whole blocks.
    Direct,
}

/// Every way, by name.
const WAYS: [(&str, Way); 3] = [
    ("raw-new", Way::New),
    ("raw-written", Way::Written),
    ("raw-direct", Way::Direct),
];

/// The names of all ways.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    WAYS.iter().map(|(name, _)| *name)
}

/// A file that batches are written to.
#[derive(Debug)]
pub(crate) struct Raw {
    /// What figures call it.
    pub(crate) name: &'static str,
    way: Way,
    file: File,
    at: usize,
    /// Where the file is written from the start again; where that is needed, all up to it was written.
    end: usize,
    /// For writes past the system's cache.
    memory: Vec<u8>,
}

impl Raw {
    /// One of each way that `is_taken` in a directory, for batches of so many rows at most; none that the file system does not have.
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

/// Flags of a file that is written past the system's cache, each write durable.
const DIRECT: i32 = libc::O_DIRECT | libc::O_DSYNC;

fn open(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags).open(path)
}
