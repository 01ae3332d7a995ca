//! RocksDB, configured as its wiki advises (see [`RocksDb::tuned`]).
//!
//! One `WriteBatch` per batch, with `sync`, or relaxed without. Two memtables may be in use, as in
//! our store.

use std::path::Path;

use arrow_array::RecordBatch;
use rocksdb::WriteBatch;

use super::super::rocksdb::RocksDb;
use super::keys::{key_from, key_of, time_of};
use super::readings::{Readings, RowId, Shown, decode};
use super::{TableOptions, TableStore};

struct Rocks(RocksDb);

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let (cache, buffer) = (options.cache_bytes, options.buffer_bytes);
    let database = RocksDb::tuned(&dir.join("rocks"), cache, buffer, options.is_durable);
    Box::new(Rocks(database))
}

impl TableStore for Rocks {
    fn append(&self, rows: &Readings) {
        let mut batch = WriteBatch::default();
        for (id, row) in rows.encoded() {
            batch.put(key_of(id), row);
        }
        self.0.write(batch);
    }

    fn flush(&self) {
        self.0.flush();
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let mut shown = Shown::new(show);
        self.0.scan(&key_from(from), &key_from(to), |key, row| {
            shown.push(&decode(time_of(key), row));
        });
        shown.finish();
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let checksum = |bytes: &[u8]| decode(row.time, bytes).checksum();
        self.0.read(&key_of(row), checksum)
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        let (mut shown, mut left) = (Shown::new(show), rows);
        if left > 0 {
            self.0.scan_back(|key, row| {
                shown.push(&decode(time_of(key), row));
                left -= 1;
                left > 0
            });
        }
        shown.finish();
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let (from, to) = times.unwrap_or((i64::MIN, i64::MAX));
        let mut rows = 0;
        self.0.scan(&key_from(from), &key_from(to), |_, _| rows += 1);
        rows
    }

    fn delete(&self, from: i64, to: i64) {
        let mut batch = WriteBatch::default();
        batch.delete_range(key_from(from), key_from(to));
        self.0.write(batch);
    }

    /// [`DeleteRange`](https://github.com/facebook/rocksdb/wiki/DeleteRange) keeps rows on disk
    /// until a compaction.
    fn reclaim(&self) {
        self.0.compact();
    }
}
