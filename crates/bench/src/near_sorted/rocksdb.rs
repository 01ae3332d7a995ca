//! RocksDB as a map of one thread, without its log. (Feature `rocksdb`.)

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ffi::CString;
use std::ptr::null_mut;

use tempfile::TempDir;

use super::subjects::{Mapping, SerialSubject, add_entry};
use crate::rocksdb::{
    Handle, check, lent, rocksdb_block_based_options_create, rocksdb_block_based_options_set_block_cache,
    rocksdb_cache_create_lru, rocksdb_close, rocksdb_create_iterator, rocksdb_flush,
    rocksdb_flushoptions_create, rocksdb_flushoptions_destroy, rocksdb_get_pinned, rocksdb_iter_destroy,
    rocksdb_iter_key, rocksdb_iter_next, rocksdb_iter_seek, rocksdb_iter_valid, rocksdb_iter_value,
    rocksdb_open, rocksdb_options_create, rocksdb_options_set_block_based_table_factory,
    rocksdb_options_set_compression, rocksdb_options_set_create_if_missing, rocksdb_pinnableslice_destroy,
    rocksdb_pinnableslice_value, rocksdb_put, rocksdb_readoptions_create, rocksdb_writeoptions_create,
    rocksdb_writeoptions_disable_WAL,
};

/// Room for all blocks, as the other engines have the system's.
const CACHE_BYTES: usize = 2 << 30;

/// RocksDB.
#[derive(Debug)]
pub struct RocksDb {
    db: Handle,
    writing: Handle,
    reading: Handle,
    _dir: TempDir,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.first_chunk().expect("8 bytes"))
}

impl Mapping for RocksDb {
    fn insert(&mut self, key: u64, value: u64) {
        let (key, value, mut error) = (key.to_be_bytes(), value.to_be_bytes(), null_mut());
        // SAFETY: the handles are those of the open store; key and value are copied by the call.
        unsafe {
            rocksdb_put(
                self.db,
                self.writing,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        check(error);
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let (key, mut error, mut len) = (key.to_be_bytes(), null_mut(), 0);
        // SAFETY: as above; the value is read before it is given back.
        unsafe {
            let found = rocksdb_get_pinned(self.db, self.reading, key.as_ptr().cast(), key.len(), &mut error);
            check(error);
            if found.is_null() {
                return None;
            }
            let value = number(lent(rocksdb_pinnableslice_value(found, &mut len), len));
            rocksdb_pinnableslice_destroy(found);
            Some(value)
        }
    }
}

impl SerialSubject for RocksDb {
    const NAME: &'static str = "rocksdb";

    fn new(_: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let name = CString::new(dir.path().to_str().expect("a path of this run")).expect("no zeros");
        let mut error = null_mut();
        // SAFETY: every handle was just made by RocksDB, and the name ends with a zero.
        let store = unsafe {
            let (options, table) = (rocksdb_options_create(), rocksdb_block_based_options_create());
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_compression(options, 0);
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE_BYTES));
            rocksdb_options_set_block_based_table_factory(options, table);
            let writing = rocksdb_writeoptions_create();
            rocksdb_writeoptions_disable_WAL(writing, 1);
            Self {
                db: rocksdb_open(options, name.as_ptr(), &mut error),
                writing,
                reading: rocksdb_readoptions_create(),
                _dir: dir,
            }
        };
        check(error);
        store
    }

    fn drain(&mut self) {
        let mut error = null_mut();
        // SAFETY: as above.
        unsafe {
            let options = rocksdb_flushoptions_create();
            rocksdb_flush(self.db, options, &mut error);
            rocksdb_flushoptions_destroy(options);
        }
        check(error);
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let (lower, mut len, mut all) = (lower.to_be_bytes(), 0, (0, 0));
        // SAFETY: as above.
        unsafe {
            let iterator = rocksdb_create_iterator(self.db, self.reading);
            rocksdb_iter_seek(iterator, lower.as_ptr().cast(), lower.len());
            while rocksdb_iter_valid(iterator) != 0 {
                let key = number(lent(rocksdb_iter_key(iterator, &mut len), len));
                if key > upper {
                    break;
                }
                let value = number(lent(rocksdb_iter_value(iterator, &mut len), len));
                all = add_entry(all, (key, value));
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
        all
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle afterwards.
        unsafe { rocksdb_close(self.db) };
    }
}
