//! Sorting more entries than memory has room for.
//!
//! Stretches of `maintenance_work_mem` are sorted and written to temporary files, which are then
//! merged: 16 bytes an integer, or 12 and those of key and payload, written and read once. The
//! files are PostgreSQL's, so they count against `temp_file_limit` and go with the transaction.
//! Room that is not in use yet counts as memory.

#![expect(unsafe_code, reason = "temporary files are PostgreSQL's")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use pgrx::pg_sys;

use crate::error::{Headroom, reserve};
use crate::key::{Entry, Form};

/// Bytes that are written or read at once.
const CHUNK_BYTES: usize = 1 << 16;

/// Entries for which there is room at first.
const FIRST_ENTRIES: usize = 1024;

/// The memory that a build may sort in, in bytes.
pub(super) fn memory() -> usize {
    // SAFETY: a setting of this process, in KiB, at least 1 MiB.
    let kibibytes = unsafe { pg_sys::maintenance_work_mem };
    usize::try_from(kibibytes).unwrap_or(1024) * 1024
}

/// Collects entries and gives them back in order.
pub(super) struct Sorter {
    form: Form,
    entries: Vec<Entry>,
    /// Bytes that the entries in memory take beside themselves.
    beside: usize,
    headroom: Headroom,
    bytes_max: usize,
    stretches: Vec<Stretch>,
    len: usize,
}

impl Sorter {
    /// One that takes so many bytes of memory at most.
    pub(super) fn new(form: Form, bytes_max: usize) -> Self {
        Self {
            form,
            entries: Vec::new(),
            beside: 0,
            headroom: Headroom::new(),
            bytes_max,
            stretches: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        let beside = (entry.weight() - 1) * size_of::<Entry>();
        if !self.make_room(beside) && !self.entries.is_empty() {
            self.sort();
            self.stretches.push(Stretch::write(self.form, &self.entries));
            self.entries.clear();
            self.beside = 0;
        }
        self.beside += beside;
        self.headroom.take(beside);
        self.entries.push(entry);
        self.len += 1;
    }

    /// Whether there is room for another entry, which takes so many bytes beside itself.
    fn make_room(&mut self, beside: usize) -> bool {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        let bytes = capacity * size_of::<Entry>() + self.beside + beside;
        if len < capacity {
            return bytes <= self.bytes_max;
        }
        // At most as many as there are, if these are like the others.
        let each = size_of::<Entry>() + self.beside.max(beside) / len.max(1);
        let left = self.bytes_max.saturating_sub(bytes) / each;
        reserve(&mut self.entries, left.min(len.max(FIRST_ENTRIES)));
        left > 0
    }

    /// How many entries were collected.
    pub(super) fn len(&self) -> usize {
        self.len
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
            let at = least.0.1;
            parts[at].next();
            let Reverse((entry, _)) = match head(at, &mut parts[at]) {
                Some(next) => std::mem::replace(&mut *least, next),
                None => std::collections::binary_heap::PeekMut::pop(least),
            };
            Some(entry)
        })
    }
}

fn head(at: usize, part: &mut Peekable<impl Iterator<Item = Entry>>) -> Option<Reverse<(Entry, usize)>> {
    part.peek().map(|entry| Reverse((entry.clone(), at)))
}

/// Entries in a temporary file, ascending.
struct Stretch {
    form: Form,
    file: *mut pg_sys::BufFile,
    /// Bytes that were read; the next entry's record begins at `next`.
    read: Vec<u8>,
    next: usize,
}

impl Stretch {
    fn write(form: Form, entries: &[Entry]) -> Self {
        // SAFETY: the file is closed with `self`, or by the end of the transaction.
        let file = unsafe { pg_sys::BufFileCreateTemp(false) };
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        for (number, entry) in entries.iter().enumerate() {
            let begin = bytes.len();
            bytes.resize(begin + form.record_len(entry), 0);
            form.put_record(entry, &mut bytes[begin..]);
            if bytes.len() >= CHUNK_BYTES || number + 1 == entries.len() {
                // SAFETY: the file is open, and the bytes are there.
                unsafe { pg_sys::BufFileWrite(file, bytes.as_mut_ptr().cast(), bytes.len()) };
                bytes.clear();
            }
        }
        // SAFETY: the file is open; its beginning is a place in it.
        unsafe { pg_sys::BufFileSeek(file, 0, 0, SEEK_SET) };
        Self {
            form,
            file,
            read: Vec::new(),
            next: 0,
        }
    }

    /// Reads more bytes after the unused rest; `false` at the end of the file.
    fn read_more(&mut self) -> bool {
        self.read.drain(..self.next);
        self.next = 0;
        let begin = self.read.len();
        self.read.resize(begin + CHUNK_BYTES, 0);
        // SAFETY: the file is open, and there is so much room.
        let len =
            unsafe { pg_sys::BufFileRead(self.file, self.read[begin..].as_mut_ptr().cast(), CHUNK_BYTES) };
        self.read.truncate(begin + len);
        len > 0
    }
}

/// C's, from `stdio.h`.
const SEEK_SET: i32 = 0;

impl Iterator for Stretch {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let rest = &self.read[self.next..];
            let record = self.form.first_record_len(rest).and_then(|len| rest.get(..len));
            if let Some(record) = record {
                self.next += record.len();
                return self
                    .form
                    .entry_of_record(record)
                    .map(|entry| self.form.owned(entry));
            }
            if !self.read_more() {
                return None;
            }
        }
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
