//! LMDB by way of heed.

#![expect(unsafe_code, reason = "an LMDB environment is opened by an unsafe call")]

use std::ops::Bound;
use std::path::Path;

use arrow_array::RecordBatch;
use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, PutFlags};

use super::rows::{Columns, ROW_BYTES, Rows, VALUE_BYTES, fold};
use super::{RowStore, key, time};

/// Address space for the file.
const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    env: Env,
    rows: Database<Bytes, Bytes>,
    last: i64,
}

pub(super) fn make(dir: &Path) -> Box<dyn RowStore> {
    Box::new(open(dir))
}

fn open(dir: &Path) -> Lmdb {
    // SAFETY: the file was just created in a directory of this run, and nobody else maps it.
    let env = unsafe { EnvOpenOptions::new().map_size(MAP_BYTES).open(dir) };
    let env = env.expect("a fresh directory");
    let mut writing = env.write_txn().expect("begins");
    let rows = env.create_database(&mut writing, None).expect("creates");
    writing.commit().expect("commits");
    Lmdb {
        env,
        rows,
        last: i64::MIN,
    }
}

impl RowStore for Lmdb {
    fn append(&mut self, rows: &Rows) {
        let mut writing = self.env.write_txn().expect("begins");
        for (&time, row) in rows.times.iter().zip(rows.bytes.chunks_exact(ROW_BYTES)) {
            // What is in order is appended, which is much faster.
            let flags = if time > self.last {
                PutFlags::APPEND
            } else {
                PutFlags::empty()
            };
            self.last = self.last.max(time);
            self.rows
                .put_with_flags(&mut writing, flags, &key(time), row)
                .expect("puts");
        }
        writing.commit().expect("commits");
    }

    fn settle(&mut self) {}

    fn get(&self, time: i64) -> Option<u64> {
        let reading = self.env.read_txn().expect("begins");
        let row = self.rows.get(&reading, &key(time)).expect("reads")?;
        Some(fold(row.chunks_exact(VALUE_BYTES)))
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let reading = self.env.read_txn().expect("begins");
        let mut columns = Columns::between(from, to);
        let (from, to) = (key(from), key(to));
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        for entry in self.rows.range(&reading, &bounds).expect("reads") {
            let (key, row) = entry.expect("reads");
            if let Some(batch) = columns.push(time(key), row.chunks_exact(VALUE_BYTES)) {
                show(&batch);
            }
        }
        columns.finish().iter().for_each(show);
    }
}

/// Rows of a time and eight bytes.
pub struct Narrow(Lmdb);

impl Narrow {
    /// An empty store in a directory.
    #[must_use]
    pub fn open(dir: &Path) -> Self {
        Self(open(dir))
    }

    /// Adds rows behind all others; they are durable on return.
    pub fn put(&mut self, rows: impl Iterator<Item = (i64, [u8; 8])>) {
        let mut writing = self.0.env.write_txn().expect("begins");
        for (time, value) in rows {
            self.0
                .rows
                .put_with_flags(&mut writing, PutFlags::APPEND, &key(time), &value)
                .expect("puts");
        }
        writing.commit().expect("commits");
    }

    /// The bytes of a row.
    #[must_use]
    pub fn get(&self, time: i64) -> Option<[u8; 8]> {
        let reading = self.0.env.read_txn().expect("begins");
        let row = self.0.rows.get(&reading, &key(time)).expect("reads")?;
        row.first_chunk().copied()
    }
}
