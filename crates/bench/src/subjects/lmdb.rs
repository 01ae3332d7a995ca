//! LMDB by way of heed 0.22: as a durable store of rows, and as a map of one thread.
//!
//! As a store it syncs each transaction, and has one for each batch. As a map it never syncs, and writes in long
//! transactions within which its lookups read too: its tree is measured then, not the disk.

#![expect(
    unsafe_code,
    reason = "an LMDB environment is opened by an unsafe call, and a transaction lives beside what it borrows"
)]

use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::path::Path;

use arrow_array::RecordBatch;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RwTxn};
use tempfile::TempDir;

use super::contract::{
    RowStore, SerialSubject, TRANSACTION_ENTRIES, add_entry, key_of_time, time_of_key, word,
};
use super::row_batches::{Columns, ROW_BYTES, Rows, VALUE_BYTES, fold};

/// Address space for the file.
const MAP_BYTES: usize = 64 << 30;

/// A database of bytes in an environment of its own; durable after each transaction, or without syncs.
#[derive(Debug)]
pub struct Lmdb {
    env: Env,
    entries: Database<Bytes, Bytes>,
    /// The greatest time of a row.
    last: i64,
}

impl Lmdb {
    fn open(dir: &Path, flags: EnvFlags) -> Self {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: without syncs a crash may spoil the file, which is not read after this run.
        unsafe { options.flags(flags) };
        // SAFETY: the file was just created in a directory of this run, and nobody else maps it.
        let env = unsafe { options.open(dir) }.expect("a fresh directory");
        let mut writing = env.write_txn().expect("begins");
        let entries = env.create_database(&mut writing, None).expect("creates");
        writing.commit().expect("commits");
        Self {
            env,
            entries,
            last: i64::MIN,
        }
    }

    /// An empty durable store in a directory.
    #[must_use]
    pub fn durable(dir: &Path) -> Self {
        Self::open(dir, EnvFlags::empty())
    }

    pub(super) fn rows(dir: &Path) -> Box<dyn RowStore> {
        Box::new(Self::durable(dir))
    }

    /// Adds rows; they are durable on return.
    pub fn put<B: AsRef<[u8]>>(&mut self, rows: impl Iterator<Item = (i64, B)>) {
        let mut writing = self.env.write_txn().expect("begins");
        for (time, row) in rows {
            // Rows in order are appended, which is much faster.
            let is_last = time > self.last;
            let flags = if is_last {
                PutFlags::APPEND
            } else {
                PutFlags::empty()
            };
            self.last = self.last.max(time);
            self.entries
                .put_with_flags(&mut writing, flags, &key_of_time(time), row.as_ref())
                .expect("puts");
        }
        writing.commit().expect("commits");
    }

    /// Reads the bytes of a row, if it is there.
    pub fn read<T>(&self, time: i64, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let reading = self.env.read_txn().expect("begins");
        self.entries
            .get(&reading, &key_of_time(time))
            .expect("reads")
            .map(read)
    }
}

impl RowStore for Lmdb {
    fn append(&mut self, rows: &Rows) {
        self.put(rows.times.iter().copied().zip(rows.bytes.chunks_exact(ROW_BYTES)));
    }

    fn settle(&mut self) {}

    fn get(&self, time: i64) -> Option<u64> {
        self.read(time, |row| fold(row.chunks_exact(VALUE_BYTES)))
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let reading = self.env.read_txn().expect("begins");
        let mut columns = Columns::between(from, to);
        let (from, to) = (key_of_time(from), key_of_time(to));
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        for entry in self.entries.range(&reading, &bounds).expect("reads") {
            let (key, row) = entry.expect("reads");
            if let Some(batch) = columns.push(time_of_key(key), row.chunks_exact(VALUE_BYTES)) {
                show(&batch);
            }
        }
        columns.finish().iter().for_each(show);
    }
}

/// The same as a map of one thread.
pub(crate) struct LmdbMap {
    /// Borrows from the environment; there is one at all times, but while it is being replaced.
    writing: ManuallyDrop<RwTxn<'static>>,
    /// From a box, which is taken back when the transaction has ended.
    database: *mut Lmdb,
    entries: Database<Bytes, Bytes>,
    pending: usize,
    _dir: TempDir,
}

impl LmdbMap {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = Lmdb::open(dir.path(), EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP);
        let entries = database.entries;
        let database = Box::into_raw(Box::new(database));
        Self {
            writing: Self::begin(database),
            database,
            entries,
            pending: 0,
            _dir: dir,
        }
    }

    /// Ends the transaction; the caller begins another, or drops everything.
    fn commit(&mut self) {
        // SAFETY: the field holds a transaction, and every caller replaces it, or is the destructor.
        let writing = unsafe { ManuallyDrop::take(&mut self.writing) };
        writing.commit().expect("commits");
        self.pending = 0;
    }

    fn begin(database: *mut Lmdb) -> ManuallyDrop<RwTxn<'static>> {
        // SAFETY: the pointer is that of a leaked box, which the destructor alone takes back, after the transaction ended.
        let database: &'static Lmdb = unsafe { &*database };
        ManuallyDrop::new(database.env.write_txn().expect("begins"))
    }
}

impl Drop for LmdbMap {
    fn drop(&mut self) {
        self.commit();
        // SAFETY: the pointer came from a box, and the only transaction that borrowed from it has ended.
        drop(unsafe { Box::from_raw(self.database) });
    }
}

impl SerialSubject for LmdbMap {
    fn insert(&mut self, key: u64, value: u64) {
        self.entries
            .put(&mut self.writing, &key.to_be_bytes(), &value.to_be_bytes())
            .expect("puts");
        self.pending += 1;
        if self.pending == TRANSACTION_ENTRIES {
            self.drain();
        }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let value = self.entries.get(&self.writing, &key.to_be_bytes());
        value.expect("reads").map(word)
    }

    fn drain(&mut self) {
        self.commit();
        self.writing = Self::begin(self.database);
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let (lower, upper) = (lower.to_be_bytes(), upper.to_be_bytes());
        let bounds = (Bound::Included(&lower[..]), Bound::Included(&upper[..]));
        let entries = self.entries.range(&self.writing, &bounds).expect("reads");
        let entries = entries.map(|entry| entry.expect("reads"));
        entries.fold((0, 0), |all, (key, value)| {
            add_entry(all, (word(key), word(value)))
        })
    }
}
