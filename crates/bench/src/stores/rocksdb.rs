//! RocksDB. (Feature `rocksdb`.)

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::path::Path;
use std::ptr::null_mut;

use arrow_array::RecordBatch;

use super::rows::{Columns, ROW_BYTES, Rows, VALUE_BYTES, fold};
use super::{CACHE_BYTES, RowStore, key, time};
use crate::rocksdb::{
    Database, check, lent, rocksdb_create_iterator, rocksdb_iter_destroy, rocksdb_iter_key,
    rocksdb_iter_next, rocksdb_iter_seek, rocksdb_iter_valid, rocksdb_iter_value, rocksdb_readoptions_create,
    rocksdb_readoptions_destroy, rocksdb_readoptions_set_iterate_upper_bound, rocksdb_write,
    rocksdb_writebatch_create, rocksdb_writebatch_destroy, rocksdb_writebatch_put,
};

struct RocksDb(Database);

pub(super) fn make(dir: &Path) -> Box<dyn RowStore> {
    Box::new(RocksDb(Database::create(&dir.join("rocks"), CACHE_BYTES, true)))
}

impl RowStore for RocksDb {
    fn append(&mut self, rows: &Rows) {
        let mut error = null_mut();
        // SAFETY: the handles are those of the open store; keys and rows are copied by each call.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for (&time, row) in rows.times.iter().zip(rows.bytes.chunks_exact(ROW_BYTES)) {
                let key = key(time);
                rocksdb_writebatch_put(
                    batch,
                    key.as_ptr().cast(),
                    key.len(),
                    row.as_ptr().cast(),
                    row.len(),
                );
            }
            rocksdb_write(self.0.db, self.0.writing, batch, &mut error);
            rocksdb_writebatch_destroy(batch);
        }
        check(error);
    }

    fn settle(&mut self) {
        self.0.flush();
    }

    fn get(&self, time: i64) -> Option<u64> {
        self.0.get(&key(time), |row| fold(row.chunks_exact(VALUE_BYTES)))
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let mut columns = Columns::between(from, to);
        let (from, to, mut len) = (key(from), key(to), 0);
        // SAFETY: as above; the bound outlives the iterator.
        unsafe {
            let options = rocksdb_readoptions_create();
            rocksdb_readoptions_set_iterate_upper_bound(options, to.as_ptr().cast(), to.len());
            let iterator = rocksdb_create_iterator(self.0.db, options);
            rocksdb_iter_seek(iterator, from.as_ptr().cast(), from.len());
            while rocksdb_iter_valid(iterator) != 0 {
                let at = time(lent(rocksdb_iter_key(iterator, &mut len), len));
                let row = lent(rocksdb_iter_value(iterator, &mut len), len);
                if let Some(batch) = columns.push(at, row.chunks_exact(VALUE_BYTES)) {
                    show(&batch);
                }
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
            rocksdb_readoptions_destroy(options);
        }
        columns.finish().iter().for_each(show);
    }
}
