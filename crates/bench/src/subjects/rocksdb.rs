//! RocksDB as a durable store of rows and as a store of tables. (Feature `rocksdb`.)
//!
//! It uses the C interface as shipped by distributions: `librocksdb-dev` of Debian 12 is 7.8.

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::path::Path;
use std::ptr::{null_mut, slice_from_raw_parts};

use arrow_array::RecordBatch;

use super::contract::{CACHE_BYTES, RowStore, key_of_time, time_of_key};
use super::row_batches::{ROW_BYTES, RowColumns, Rows, VALUE_BYTES, fold};

/// An opaque C type.
#[repr(C)]
struct Opaque([u8; 0]);

type Handle = *mut Opaque;
type Bytes = *const c_char;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, is_set: c_uchar);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_bottommost_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(options: Handle, is_set: c_uchar);
    fn rocksdb_options_set_max_background_jobs(options: Handle, jobs: c_int);
    fn rocksdb_options_set_bytes_per_sync(options: Handle, bytes: u64);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_block_based_options_set_block_size(table: Handle, bytes: usize);
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(table: Handle, is_set: c_uchar);
    fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        table: Handle,
        is_set: c_uchar,
    );
    fn rocksdb_block_based_options_set_format_version(table: Handle, version: c_int);
    fn rocksdb_block_based_options_set_filter_policy(table: Handle, policy: Handle);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> Handle;
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_set_block_cache(options: Handle, cache: Handle);
    fn rocksdb_cache_create_lru(capacity: usize) -> Handle;
    fn rocksdb_open(options: Handle, name: Bytes, error: *mut *mut c_char) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_set_sync(options: Handle, is_set: c_uchar);
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_put(batch: Handle, key: Bytes, key_len: usize, value: Bytes, value_len: usize);
    fn rocksdb_writebatch_delete_range(batch: Handle, from: Bytes, from_len: usize, to: Bytes, to_len: usize);
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_readoptions_destroy(options: Handle);
    fn rocksdb_readoptions_set_iterate_upper_bound(options: Handle, key: Bytes, len: usize);
    fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: Bytes,
        len: usize,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_pinnableslice_value(slice: Handle, len: *mut usize) -> Bytes;
    fn rocksdb_pinnableslice_destroy(slice: Handle);
    fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn rocksdb_iter_seek(iterator: Handle, key: Bytes, len: usize);
    fn rocksdb_iter_valid(iterator: Handle) -> c_uchar;
    fn rocksdb_iter_next(iterator: Handle);
    fn rocksdb_iter_seek_to_last(iterator: Handle);
    fn rocksdb_iter_prev(iterator: Handle);
    fn rocksdb_iter_key(iterator: Handle, len: *mut usize) -> Bytes;
    fn rocksdb_iter_value(iterator: Handle, len: *mut usize) -> Bytes;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(options: Handle);
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
    fn rocksdb_compact_range(db: Handle, from: Bytes, from_len: usize, to: Bytes, to_len: usize);
}

/// RocksDB's code for no compression.
const NO_COMPRESSION: c_int = 0;
const LZ4: c_int = 4;
const ZSTD: c_int = 7;

/// An open database with its read and write options.
#[derive(Debug)]
pub(super) struct RocksDb {
    db: Handle,
    writing: Handle,
    reading: Handle,
}

// SAFETY: a database, and options that are not changed, may be used by several threads
// (rocksdb/db.h); iterators and batches do not leave the call that creates them.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

/// Changes that are written atomically.
pub(super) struct Batch(Handle);

impl Batch {
    /// Creates an empty batch.
    pub(super) fn new() -> Self {
        // SAFETY: no arguments are passed.
        Self(unsafe { rocksdb_writebatch_create() })
    }

    /// Sets the value of a key.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the batch is open; key and value are copied by the call.
        unsafe { rocksdb_writebatch_put(self.0, key_at, key.len(), value_at, value.len()) };
    }

    /// Removes the keys from one to before another.
    pub(super) fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        let (from_at, to_at) = (from.as_ptr().cast(), to.as_ptr().cast());
        // SAFETY: as for `put`.
        unsafe { rocksdb_writebatch_delete_range(self.0, from_at, from.len(), to_at, to.len()) };
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: the handle is not used afterwards.
        unsafe { rocksdb_writebatch_destroy(self.0) };
    }
}

impl RocksDb {
    /// Opens or creates a database in a directory, with options set by `set`.
    fn open(dir: &Path, cache_bytes: usize, syncs: bool, set: impl FnOnce(Handle, Handle)) -> Self {
        let name = CString::new(dir.to_str().expect("a path of this run")).expect("no zeros");
        let mut error = null_mut();
        // SAFETY: every handle was just created by RocksDB, and the name ends with a zero.
        let database = unsafe {
            let (options, table) = (rocksdb_options_create(), rocksdb_block_based_options_create());
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(cache_bytes));
            set(options, table);
            rocksdb_options_set_block_based_table_factory(options, table);
            let writing = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(writing, syncs.into());
            Self {
                db: rocksdb_open(options, name.as_ptr(), &mut error),
                writing,
                reading: rocksdb_readoptions_create(),
            }
        };
        check(error);
        database
    }

    /// Configured as [Setup Options and Basic
    /// Tuning](https://github.com/facebook/rocksdb/wiki/Setup-Options-and-Basic-Tuning) of
    /// RocksDB's wiki advises: blocks of 16 KiB, Bloom filters of ten bits per key, dynamic levels,
    /// indexes and filters in the cache; LZ4, and ZSTD for the bottommost level
    /// ([Compression](https://github.com/facebook/rocksdb/wiki/Compression)).
    pub(super) fn tuned(dir: &Path, cache_bytes: usize, buffer_bytes: usize, syncs: bool) -> Self {
        Self::open(dir, cache_bytes, syncs, |options, table| {
            // SAFETY: both handles were just created by RocksDB.
            unsafe {
                rocksdb_options_set_compression(options, LZ4);
                rocksdb_options_set_bottommost_compression(options, ZSTD);
                rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
                rocksdb_options_set_max_background_jobs(options, 6);
                rocksdb_options_set_bytes_per_sync(options, 1 << 20);
                rocksdb_options_set_write_buffer_size(options, buffer_bytes);
                rocksdb_block_based_options_set_block_size(table, 16 << 10);
                rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
                rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
                rocksdb_block_based_options_set_format_version(table, 5);
                let filter = rocksdb_filterpolicy_create_bloom_full(10.0);
                rocksdb_block_based_options_set_filter_policy(table, filter);
            }
        })
    }

    /// Writes a batch.
    pub(super) fn write(&self, batch: &Batch) {
        let mut error = null_mut();
        // SAFETY: the handles are those of the open database and of a borrowed batch.
        unsafe { rocksdb_write(self.db, self.writing, batch.0, &mut error) };
        check(error);
    }

    /// Passes the entries to `show` in descending order until it returns false.
    pub(super) fn scan_back(&self, mut show: impl FnMut(&[u8], &[u8]) -> bool) {
        let mut len = 0;
        // SAFETY: the handles are those of the open database, and the iterator's bytes are used
        // before it moves.
        unsafe {
            let iterator = rocksdb_create_iterator(self.db, self.reading);
            rocksdb_iter_seek_to_last(iterator);
            while rocksdb_iter_valid(iterator) != 0 {
                let key = lent(rocksdb_iter_key(iterator, &mut len), len);
                if !show(key, lent(rocksdb_iter_value(iterator, &mut len), len)) {
                    break;
                }
                rocksdb_iter_prev(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
    }

    /// Compacts all tables, which removes deleted entries.
    pub(super) fn compact(&self) {
        let all = std::ptr::null();
        // SAFETY: the handle is that of the open database; no bounds mean all keys.
        unsafe { rocksdb_compact_range(self.db, all, 0, all, 0) };
    }

    /// Reads from the value of a key, if it exists.
    pub(super) fn read<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let (mut error, mut len) = (null_mut(), 0);
        // SAFETY: the handles are those of the open database; the value is read before it is freed.
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

    /// Passes the entries from one key to before another to `show`.
    pub(super) fn scan(&self, from: &[u8], to: &[u8], mut show: impl FnMut(&[u8], &[u8])) {
        let mut len = 0;
        // SAFETY: the handles are those of the open database, the bound outlives the iterator, and
        // the iterator's bytes are used before it moves.
        unsafe {
            let options = rocksdb_readoptions_create();
            rocksdb_readoptions_set_iterate_upper_bound(options, to.as_ptr().cast(), to.len());
            let iterator = rocksdb_create_iterator(self.db, options);
            rocksdb_iter_seek(iterator, from.as_ptr().cast(), from.len());
            while rocksdb_iter_valid(iterator) != 0 {
                let key = lent(rocksdb_iter_key(iterator, &mut len), len);
                show(key, lent(rocksdb_iter_value(iterator, &mut len), len));
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
            rocksdb_readoptions_destroy(options);
        }
    }

    /// Creates an empty durable store in a directory.
    pub(super) fn rows(dir: &Path) -> Box<dyn RowStore> {
        Box::new(Self::open(&dir.join("rocks"), CACHE_BYTES, true, |options, _| {
            // SAFETY: the handle was just created by RocksDB.
            unsafe { rocksdb_options_set_compression(options, NO_COMPRESSION) };
        }))
    }

    /// Flushes the memtable.
    pub(super) fn flush(&self) {
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

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: the handle is not used afterwards.
        unsafe { rocksdb_close(self.db) };
    }
}

/// Panics with RocksDB's error, if there is one.
fn check(error: *mut c_char) {
    if !error.is_null() {
        // SAFETY: RocksDB sets the pointer to a zero-terminated text.
        panic!("RocksDB: {}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    }
}

/// Returns bytes that are valid until the next call with the same handle.
fn lent<'b>(bytes: Bytes, len: usize) -> &'b [u8] {
    // SAFETY: RocksDB returns a pointer to `len` bytes, and they are used before the next call.
    unsafe { &*slice_from_raw_parts(bytes.cast(), len) }
}

impl RowStore for RocksDb {
    fn append(&mut self, rows: &Rows) {
        let mut batch = Batch::new();
        for (&time, row) in rows.times.iter().zip(rows.bytes.chunks_exact(ROW_BYTES)) {
            batch.put(&key_of_time(time), row);
        }
        self.write(&batch);
    }

    fn settle(&mut self) {
        self.flush();
    }

    fn get(&self, time: i64) -> Option<u64> {
        self.read(&key_of_time(time), |row| fold(row.chunks_exact(VALUE_BYTES)))
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let mut columns = RowColumns::between(from, to);
        self.scan(&key_of_time(from), &key_of_time(to), |key, row| {
            if let Some(batch) = columns.push(time_of_key(key), row.chunks_exact(VALUE_BYTES)) {
                show(&batch);
            }
        });
        columns.finish().iter().for_each(show);
    }
}
