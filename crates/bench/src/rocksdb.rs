//! RocksDB's C interface, as distributions ship it: `librocksdb-dev` of Debian 12 is 7.8.

#![expect(unsafe_code, reason = "declares functions of C")]

use std::ffi::{CStr, c_char, c_int, c_uchar};
use std::ptr::slice_from_raw_parts;

/// What C keeps to itself.
#[repr(C)]
pub(crate) struct Opaque([u8; 0]);

pub(crate) type Handle = *mut Opaque;
pub(crate) type Bytes = *const c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub(crate) fn rocksdb_options_create() -> Handle;
    pub(crate) fn rocksdb_options_set_create_if_missing(options: Handle, is_set: c_uchar);
    pub(crate) fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    pub(crate) fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    pub(crate) fn rocksdb_block_based_options_create() -> Handle;
    pub(crate) fn rocksdb_block_based_options_set_block_cache(options: Handle, cache: Handle);
    pub(crate) fn rocksdb_cache_create_lru(capacity: usize) -> Handle;
    pub(crate) fn rocksdb_open(options: Handle, name: Bytes, error: *mut *mut c_char) -> Handle;
    pub(crate) fn rocksdb_close(db: Handle);
    pub(crate) fn rocksdb_writeoptions_create() -> Handle;
    pub(crate) fn rocksdb_writeoptions_set_sync(options: Handle, is_set: c_uchar);
    pub(crate) fn rocksdb_writeoptions_disable_WAL(options: Handle, is_set: c_int);
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
    pub(crate) fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: Bytes,
        len: usize,
        error: *mut *mut c_char,
    ) -> Handle;
    pub(crate) fn rocksdb_pinnableslice_value(slice: Handle, len: *mut usize) -> Bytes;
    pub(crate) fn rocksdb_pinnableslice_destroy(slice: Handle);
    pub(crate) fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    pub(crate) fn rocksdb_iter_seek(iterator: Handle, key: Bytes, len: usize);
    pub(crate) fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    pub(crate) fn rocksdb_iter_next(iterator: Handle);
    pub(crate) fn rocksdb_iter_key(iterator: Handle, len: *mut usize) -> Bytes;
    pub(crate) fn rocksdb_iter_value(iterator: Handle, len: *mut usize) -> Bytes;
    pub(crate) fn rocksdb_iter_destroy(iterator: Handle);
    pub(crate) fn rocksdb_flushoptions_create() -> Handle;
    pub(crate) fn rocksdb_flushoptions_destroy(options: Handle);
    pub(crate) fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
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
