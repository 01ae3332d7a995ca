//! Sorting more entries than memory has room for.
//!
//! Stretches of `maintenance_work_mem` are sorted and written to temporary files, which are then merged: 16 bytes an
//! entry, written and read once. The files are PostgreSQL's, so they count against `temp_file_limit` and go with the
//! transaction.

#![expect(unsafe_code, reason = "temporary files are PostgreSQL's")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use pgrx::pg_sys;

use crate::key::Entry;

const ENTRY_LEN: usize = 16;
/// Entries that are read from a file at once.
const READ_ENTRIES: usize = 4096;

/// Collects entries and gives them back in order.
pub(super) struct Sorter {
    entries: Vec<Entry>,
    entries_max: usize,
    stretches: Vec<Stretch>,
}

impl Sorter {
    pub(super) fn new() -> Self {
        // SAFETY: a setting of this process, in KiB, at least 1 MiB.
        let kibibytes = unsafe { pg_sys::maintenance_work_mem };
        Self {
            entries: Vec::new(),
            entries_max: usize::try_from(kibibytes).unwrap_or(1024) * 1024 / ENTRY_LEN,
            stretches: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.len() == self.entries_max {
            self.sort();
            self.stretches.push(Stretch::write(&self.entries));
            self.entries.clear();
        }
        self.entries.push(entry);
    }

    /// How many entries were collected.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.stretches.len() * self.entries_max
    }

    fn sort(&mut self) {
        if !self.entries.is_sorted() {
            self.entries.sort_unstable();
        }
    }

    /// The entries, ascending.
    pub(super) fn finish(mut self) -> impl Iterator<Item = Entry> {
        self.sort();
        let rest: Box<dyn Iterator<Item = Entry>> = Box::new(self.entries.into_iter());
        let stretches = self
            .stretches
            .into_iter()
            .map(|stretch| Box::new(stretch) as Box<dyn Iterator<Item = Entry>>);
        let mut parts: Vec<_> = stretches.chain([rest]).map(Iterator::peekable).collect();
        let heads = parts
            .iter_mut()
            .enumerate()
            .filter_map(|(at, part)| head(at, part));
        let mut heads: BinaryHeap<_> = heads.collect();
        std::iter::from_fn(move || {
            let mut least = heads.peek_mut()?;
            let Reverse((entry, at)) = *least;
            parts[at].next();
            match head(at, &mut parts[at]) {
                Some(next) => *least = next,
                None => {
                    std::collections::binary_heap::PeekMut::pop(least);
                }
            }
            Some(entry)
        })
    }
}

fn head(at: usize, part: &mut Peekable<impl Iterator<Item = Entry>>) -> Option<Reverse<(Entry, usize)>> {
    part.peek().map(|&entry| Reverse((entry, at)))
}

/// Entries in a temporary file, ascending.
struct Stretch {
    file: *mut pg_sys::BufFile,
    read: std::vec::IntoIter<Entry>,
}

impl Stretch {
    fn write(entries: &[Entry]) -> Self {
        // SAFETY: the file is closed with `self`, or by the end of the transaction.
        let file = unsafe { pg_sys::BufFileCreateTemp(false) };
        let mut bytes = Vec::with_capacity(READ_ENTRIES * ENTRY_LEN);
        for chunk in entries.chunks(READ_ENTRIES) {
            bytes.clear();
            for entry in chunk {
                bytes.extend_from_slice(&entry.prefix.to_ne_bytes());
                bytes.extend_from_slice(&entry.tie.to_ne_bytes());
            }
            // SAFETY: the file is open, and the bytes are there.
            unsafe { pg_sys::BufFileWrite(file, bytes.as_mut_ptr().cast(), bytes.len()) };
        }
        // SAFETY: the file is open; its beginning is a place in it.
        unsafe { pg_sys::BufFileSeek(file, 0, 0, SEEK_SET) };
        Self {
            file,
            read: Vec::new().into_iter(),
        }
    }
}

/// C's, from `stdio.h`.
const SEEK_SET: i32 = 0;

impl Iterator for Stretch {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(entry) = self.read.next() {
            return Some(entry);
        }
        let mut bytes = vec![0_u8; READ_ENTRIES * ENTRY_LEN];
        // SAFETY: the file is open, and there is so much room.
        let len = unsafe { pg_sys::BufFileRead(self.file, bytes.as_mut_ptr().cast(), bytes.len()) };
        let (chunks, _) = bytes[..len].as_chunks::<8>();
        let entries = chunks.chunks_exact(2).map(|pair| Entry {
            prefix: u64::from_ne_bytes(pair[0]),
            tie: u64::from_ne_bytes(pair[1]),
        });
        self.read = entries.collect::<Vec<_>>().into_iter();
        self.read.next()
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        // While an error unwinds, the file is left to the end of the transaction.
        if !std::thread::panicking() {
            // SAFETY: the file is open, and is closed once.
            unsafe { pg_sys::BufFileClose(self.file) };
        }
    }
}
