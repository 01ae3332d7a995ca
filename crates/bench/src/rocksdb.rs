//! RocksDB's C interface, as distributions ship it: `librocksdb-dev` of Debian 12 is 7.8.

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::path::Path;
use std::ptr::{null_mut, slice_from_raw_parts};

/// What C keeps to itself.
#[repr(C)]
pub(crate) struct Opaque([u8; 0]);

pub(crate) type Handle = *mut Opaque;
pub(crate) type Bytes = *const c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, is_set: c_uchar);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_set_block_cache(options: Handle, cache: Handle);
    fn rocksdb_cache_create_lru(capacity: usize) -> Handle;
    fn rocksdb_open(options: Handle, name: Bytes, error: *mut *mut c_char) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_set_sync(options: Handle, is_set: c_uchar);
    fn rocksdb_writeoptions_disable_WAL(options: Handle, is_set: c_int);
    pub(crate) fn rocksdb_put(
        db: Handle,
        options: Handle,
        key: Bytes,
        key_len: usize,
        value: Bytes,
        value_len: usize,
        error: *mut *mut c_char,
    );
    pub(crate) fn rocksdb_writebatch_create() -> Handle;
    pub(crate) fn rocksdb_writebatch_put(
        batch: Handle,
        key: Bytes,
        key_len: usize,
        value: Bytes,
        value_len: usize,
    );
    pub(crate) fn rocksdb_writebatch_destroy(batch: Handle);
    pub(crate) fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    pub(crate) fn rocksdb_readoptions_create() -> Handle;
    pub(crate) fn rocksdb_readoptions_destroy(options: Handle);
    pub(crate) fn rocksdb_readoptions_set_iterate_upper_bound(options: Handle, key: Bytes, len: usize);
    fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: Bytes,
        len: usize,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_pinnableslice_value(slice: Handle, len: *mut usize) -> Bytes;
    fn rocksdb_pinnableslice_destroy(slice: Handle);
    pub(crate) fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    pub(crate) fn rocksdb_iter_seek(iterator: Handle, key: Bytes, len: usize);
    pub(crate) fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    pub(crate) fn rocksdb_iter_next(iterator: Handle);
    pub(crate) fn rocksdb_iter_key(iterator: Handle, len: *mut usize) -> Bytes;
    pub(crate) fn rocksdb_iter_value(iterator: Handle, len: *mut usize) -> Bytes;
    pub(crate) fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(options: Handle);
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
}

/// An open database that compresses nothing, and how it is written and read.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: Handle,
    pub(crate) writing: Handle,
    pub(crate) reading: Handle,
}

impl Database {
    /// Makes a database in a directory. Each write is synced, or the log is left out.
    pub(crate) fn create(dir: &Path, cache_bytes: usize, syncs: bool) -> Self {
        let name = CString::new(dir.to_str().expect("a path of this run")).expect("no zeros");
        let mut error = null_mut();
        // SAFETY: every handle was just made by RocksDB, and the name ends with a zero.
        let database = unsafe {
            let (options, table) = (rocksdb_options_create(), rocksdb_block_based_options_create());
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_compression(options, 0);
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(cache_bytes));
            rocksdb_options_set_block_based_table_factory(options, table);
            let writing = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(writing, syncs.into());
            rocksdb_writeoptions_disable_WAL(writing, (!syncs).into());
            Self {
                db: rocksdb_open(options, name.as_ptr(), &mut error),
                writing,
                reading: rocksdb_readoptions_create(),
            }
        };
        check(error);
        database
    }

    /// What is read of the value of a key, if it is there.
    pub(crate) fn get<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let (mut error, mut len) = (null_mut(), 0);
        // SAFETY: the handles are those of the open database; the value is read before it is given back.
        unsafe {
            let found = rocksdb_get_pinned(self.db, self.reading, key.as_ptr().cast(), key.len(), &mut error);
            check(error);
            if found.is_null() {
                return None;
            }
            let value = read(lent(rocksdb_pinnableslice_value(found, &mut len), len));
            rocksdb_pinnableslice_destroy(found);
            Some(value)
        }
    }

    /// Writes what is in memory to its tables.
    pub(crate) fn flush(&self) {
        let mut error = null_mut();
        // SAFETY: as above.
        unsafe {
            let options = rocksdb_flushoptions_create();
            rocksdb_flush(self.db, options, &mut error);
            rocksdb_flushoptions_destroy(options);
        }
        check(error);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle afterwards.
        unsafe { rocksdb_close(self.db) };
    }
}

/// Fails with what RocksDB says, if it says anything.
pub(crate) fn check(error: *mut c_char) {
    if !error.is_null() {
        // SAFETY: RocksDB sets the pointer to a text that ends with a zero.
        panic!("RocksDB: {}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    }
}

/// Bytes that RocksDB lends until the next call with the same handle.
pub(crate) fn lent<'b>(bytes: Bytes, len: usize) -> &'b [u8] {
    // SAFETY: RocksDB gives a pointer to `len` bytes; they are used before the next call.
    unsafe { &*slice_from_raw_parts(bytes.cast(), len) }
}
