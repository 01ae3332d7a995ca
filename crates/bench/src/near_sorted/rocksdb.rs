//! RocksDB as a map of one thread, without its log. (Feature `rocksdb`.)

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ptr::null_mut;

use tempfile::TempDir;

use super::subjects::{Mapping, SerialSubject, add_entry};
use crate::rocksdb::{
    Database, check, lent, rocksdb_create_iterator, rocksdb_iter_destroy, rocksdb_iter_key,
    rocksdb_iter_next, rocksdb_iter_seek, rocksdb_iter_valid, rocksdb_iter_value, rocksdb_put,
};

/// Room for all blocks, as the other engines have the system's.
const CACHE_BYTES: usize = 2 << 30;

/// RocksDB.
#[derive(Debug)]
pub struct RocksDb {
    // Closed before its directory goes.
    database: Database,
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
                self.database.db,
                self.database.writing,
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
        self.database.get(&key.to_be_bytes(), number)
    }
}

impl SerialSubject for RocksDb {
    const NAME: &'static str = "rocksdb";

    fn new(_: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self {
            database: Database::create(dir.path(), CACHE_BYTES, false),
            _dir: dir,
        }
    }

    fn drain(&mut self) {
        self.database.flush();
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let (lower, mut len, mut all) = (lower.to_be_bytes(), 0, (0, 0));
        // SAFETY: as above.
        unsafe {
            let iterator = rocksdb_create_iterator(self.database.db, self.database.reading);
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
