//! Sorting more entries than memory has room for.
//!
//! Stretches of `maintenance_work_mem` are sorted and written to temporary files, which are then
//! merged: 16 bytes an integer, or 12 and those of key and payload, written and read once. Where
//! there are more stretches than that memory has room to read at a time, some are merged into
//! longer ones first. The files are PostgreSQL's, so they count against `temp_file_limit` and go
//! with the transaction. Room that is not in use yet counts as memory.

#![expect(unsafe_code, reason = "temporary files are PostgreSQL's")]

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use pgrx::pg_sys;

use crate::error::{FEWER_ENTRIES, Headroom, expect_memory, reserve};
use crate::index::ENTRY_LEN_MAX;
use crate::interrupts::{interrupt_point, sort};
use crate::key::{Entry, Form, RECORD_HEADER_LEN};

/// The most bytes that are written or read at once, and the fewest.
const CHUNK_BYTES: usize = 1 << 16;
const CHUNK_BYTES_MIN: usize = 1 << 13;

/// Bytes that the server reads a file by, in memory of its own.
const FILE_BYTES: usize = pg_sys::BLCKSZ as usize;

/// The fewest stretches that are merged, whatever memory there is.
const MERGED_MIN: usize = 2;

// A chunk has a record, however long that is.
const _: () = assert!(RECORD_HEADER_LEN + ENTRY_LEN_MAX <= CHUNK_BYTES_MIN);

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
    stretches: VecDeque<Stretch>,
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
            stretches: VecDeque::new(),
            len: 0,
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        let beside = (entry.weight() - 1) * size_of::<Entry>();
        if !self.make_room(beside) && !self.entries.is_empty() {
            self.write();
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

    /// Makes a stretch of the entries in memory.
    fn write(&mut self) {
        sort(&mut self.entries);
        let stretch = Stretch::write(self.form, self.entries.drain(..));
        self.stretches.push_back(stretch);
        self.beside = 0;
    }

    /// The entries, ascending.
    pub(super) fn finish(mut self) -> impl Iterator<Item = Entry> {
        if self.stretches.is_empty() {
            sort(&mut self.entries);
            return Sorted::InMemory(self.entries.into_iter());
        }
        self.write();
        // The memory is for chunks of stretches from now on.
        self.entries = Vec::new();
        let merged_max = (self.bytes_max / (CHUNK_BYTES_MIN + FILE_BYTES)).max(MERGED_MIN);
        while self.stretches.len() > merged_max {
            // No more than are needed, the shortest.
            let count = merged_max.min(self.stretches.len() - merged_max + 1);
            let merged = self.merged(count);
            self.stretches.push_back(Stretch::write(self.form, merged));
        }
        let all = self.stretches.len();
        Sorted::Merged(self.merged(all))
    }

    /// The entries of the first stretches, ascending.
    fn merged(&mut self, count: usize) -> Merged {
        let chunk = (self.bytes_max / count).saturating_sub(FILE_BYTES);
        let chunk = chunk.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES);
        expect_memory(count * (chunk + FILE_BYTES), FEWER_ENTRIES);
        let parts = self
            .stretches
            .drain(..count)
            .map(|stretch| stretch.read_by(chunk));
        Merged::new(parts.collect())
    }
}

/// The entries of a sorter.
enum Sorted {
    InMemory(std::vec::IntoIter<Entry>),
    Merged(Merged),
}

impl Iterator for Sorted {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        match self {
            Self::InMemory(entries) => entries.next(),
            Self::Merged(merged) => merged.next(),
        }
    }
}

/// The entries of several stretches, ascending.
struct Merged {
    stretches: Vec<Stretch>,
    /// The least entry of each stretch that is not at its end, and its number.
    heads: BinaryHeap<Reverse<(Entry, usize)>>,
}

impl Merged {
    fn new(mut stretches: Vec<Stretch>) -> Self {
        let stretches_with_numbers = stretches.iter_mut().enumerate();
        let heads = stretches_with_numbers
            .filter_map(|(number, stretch)| Some(Reverse((stretch.next()?, number))))
            .collect();
        Self { stretches, heads }
    }
}

impl Iterator for Merged {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut least = self.heads.peek_mut()?;
        let number = least.0.1;
        let Reverse((entry, _)) = match self.stretches[number].next() {
            Some(next) => std::mem::replace(&mut *least, Reverse((next, number))),
            None => PeekMut::pop(least),
        };
        Some(entry)
    }
}

/// Entries in a temporary file, ascending.
struct Stretch {
    form: Form,
    file: *mut pg_sys::BufFile,
    /// Bytes that were read, a chunk at most; the next entry's record begins at `next`.
    read: Vec<u8>,
    next: usize,
    chunk_bytes: usize,
}

impl Stretch {
    fn write(form: Form, entries: impl Iterator<Item = Entry>) -> Self {
        // SAFETY: the file is closed with `self`, or by the end of the transaction.
        let file = unsafe { pg_sys::BufFileCreateTemp(false) };
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        let write = |bytes: &mut Vec<u8>| {
            interrupt_point();
            // SAFETY: the file is open, and the bytes are there.
            unsafe { pg_sys::BufFileWrite(file, bytes.as_mut_ptr().cast(), bytes.len()) };
            bytes.clear();
        };
        for entry in entries {
            let (begin, len) = (bytes.len(), form.record_len(&entry));
            if begin + len > CHUNK_BYTES {
                write(&mut bytes);
            }
            let begin = bytes.len();
            bytes.resize(begin + len, 0);
            form.put_record(&entry, &mut bytes[begin..]);
        }
        write(&mut bytes);
        // SAFETY: the file is open; its beginning is a place in it.
        unsafe { pg_sys::BufFileSeek(file, 0, 0, SEEK_SET) };
        Self {
            form,
            file,
            read: Vec::new(),
            next: 0,
            chunk_bytes: CHUNK_BYTES_MIN,
        }
    }

    /// Has it be read by so many bytes.
    fn read_by(mut self, chunk_bytes: usize) -> Self {
        self.chunk_bytes = chunk_bytes;
        self
    }

    /// Reads more bytes after the unused rest; `false` at the end of the file.
    fn read_more(&mut self) -> bool {
        self.read.drain(..self.next);
        self.next = 0;
        let begin = self.read.len();
        self.read.reserve_exact(self.chunk_bytes - begin);
        self.read.resize(self.chunk_bytes, 0);
        let more = &mut self.read[begin..];
        // SAFETY: the file is open, and there is so much room.
        let len = unsafe { pg_sys::BufFileRead(self.file, more.as_mut_ptr().cast(), more.len()) };
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
