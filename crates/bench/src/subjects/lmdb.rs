//! LMDB through heed 0.22, as a durable store of rows: one synced transaction per batch.

#![expect(unsafe_code, reason = "an LMDB environment is opened by an unsafe call")]

use std::ops::Bound;
use std::path::Path;

use arrow_array::RecordBatch;
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, PutFlags};

use super::contract::{RowStore, key_of_time, time_of_key};
use super::row_batches::{ROW_BYTES, RowColumns, Rows, VALUE_BYTES, fold};

/// Address space for the file.
const MAP_BYTES: usize = 64 << 30;

/// A database of bytes in its own environment.
#[derive(Debug)]
pub struct Lmdb {
    env: Env,
    entries: Database<Bytes, Bytes>,
    /// The greatest time of a row.
    last: i64,
}

impl Lmdb {
    /// Creates an empty durable store in a directory.
    #[must_use]
    pub fn durable(dir: &Path) -> Self {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the file was just created in a directory of this run, and no other process maps
        // it.
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

    /// Reads the bytes of a row, if it exists.
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
        let mut columns = RowColumns::between(from, to);
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
