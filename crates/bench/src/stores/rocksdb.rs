//! RocksDB. (Feature `rocksdb`.)

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;

use arrow_array::RecordBatch;

use super::rows::{Columns, ROW_BYTES, Rows, VALUE_BYTES, fold};
use super::{CACHE_BYTES, RowStore, key, time};
use crate::rocksdb::{
    Handle, check, lent, rocksdb_block_based_options_create, rocksdb_block_based_options_set_block_cache,
    rocksdb_cache_create_lru, rocksdb_close, rocksdb_create_iterator, rocksdb_flush,
    rocksdb_flushoptions_create, rocksdb_flushoptions_destroy, rocksdb_get_pinned, rocksdb_iter_destroy,
    rocksdb_iter_key, rocksdb_iter_next, rocksdb_iter_seek, rocksdb_iter_valid, rocksdb_iter_value,
    rocksdb_open, rocksdb_options_create, rocksdb_options_set_block_based_table_factory,
    rocksdb_options_set_compression, rocksdb_options_set_create_if_missing, rocksdb_pinnableslice_destroy,
    rocksdb_pinnableslice_value, rocksdb_readoptions_create, rocksdb_readoptions_destroy,
    rocksdb_readoptions_set_iterate_upper_bound, rocksdb_write, rocksdb_writebatch_create,
    rocksdb_writebatch_destroy, rocksdb_writebatch_put, rocksdb_writeoptions_create,
    rocksdb_writeoptions_set_sync,
};

struct RocksDb {
    db: Handle,
    writing: Handle,
    reading: Handle,
}

pub(super) fn make(dir: &Path) -> Box<dyn RowStore> {
    let name = CString::new(dir.join("rocks").to_str().expect("a path of this run")).expect("no zeros");
    let mut error = null_mut();
    // SAFETY: every handle was just made by RocksDB, and the name ends with a zero.
    let store = unsafe {
        let (options, table) = (rocksdb_options_create(), rocksdb_block_based_options_create());
        rocksdb_options_set_create_if_missing(options, 1);
        // The rows cannot be compressed.
        rocksdb_options_set_compression(options, 0);
        rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE_BYTES));
        rocksdb_options_set_block_based_table_factory(options, table);
        let writing = rocksdb_writeoptions_create();
        rocksdb_writeoptions_set_sync(writing, 1);
        RocksDb {
            db: rocksdb_open(options, name.as_ptr(), &mut error),
            writing,
            reading: rocksdb_readoptions_create(),
        }
    };
    check(error);
    Box::new(store)
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
            rocksdb_write(self.db, self.writing, batch, &mut error);
            rocksdb_writebatch_destroy(batch);
        }
        check(error);
    }

    fn settle(&mut self) {
        let mut error = null_mut();
        // SAFETY: as above.
        unsafe {
            let options = rocksdb_flushoptions_create();
            rocksdb_flush(self.db, options, &mut error);
            rocksdb_flushoptions_destroy(options);
        }
        check(error);
    }

    fn get(&self, time: i64) -> Option<u64> {
        let (key, mut error, mut len) = (key(time), null_mut(), 0);
        // SAFETY: as above; the row is read before it is given back.
        unsafe {
            let found = rocksdb_get_pinned(self.db, self.reading, key.as_ptr().cast(), key.len(), &mut error);
            check(error);
            if found.is_null() {
                return None;
            }
            let row = lent(rocksdb_pinnableslice_value(found, &mut len), len);
            let folded = fold(row.chunks_exact(VALUE_BYTES));
            rocksdb_pinnableslice_destroy(found);
            Some(folded)
        }
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let mut columns = Columns::between(from, to);
        let (from, to, mut len) = (key(from), key(to), 0);
        // SAFETY: as above; the bound outlives the iterator.
        unsafe {
            let options = rocksdb_readoptions_create();
            rocksdb_readoptions_set_iterate_upper_bound(options, to.as_ptr().cast(), to.len());
            let iterator = rocksdb_create_iterator(self.db, options);
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

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle afterwards.
        unsafe { rocksdb_close(self.db) };
    }
}
