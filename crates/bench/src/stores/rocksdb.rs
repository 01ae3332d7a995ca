//! RocksDB by way of its C interface, as distributions ship it: `librocksdb-dev` of Debian 12 is 7.8. (Feature `rocksdb`.)

#![expect(unsafe_code, reason = "RocksDB is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::path::Path;
use std::ptr::{null_mut, slice_from_raw_parts};

use arrow_array::RecordBatch;

use super::rows::{Columns, ROW_BYTES, Rows, VALUE_BYTES, fold};
use super::{CACHE_BYTES, RowStore, key, time};

/// What C keeps to itself.
#[repr(C)]
struct Opaque([u8; 0]);

type Handle = *mut Opaque;
type Bytes = *const c_char;

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
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_put(batch: Handle, key: Bytes, key_len: usize, value: Bytes, value_len: usize);
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
    fn rocksdb_iter_key(iterator: Handle, len: *mut usize) -> Bytes;
    fn rocksdb_iter_value(iterator: Handle, len: *mut usize) -> Bytes;
    fn rocksdb_iter_destroy(iterator: Handle);
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flushoptions_destroy(options: Handle);
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
}

struct RocksDb {
    db: Handle,
    writing: Handle,
    reading: Handle,
}

/// Fails with what RocksDB says, if it says anything.
fn check(error: *mut c_char) {
    if !error.is_null() {
        // SAFETY: RocksDB sets the pointer to a text that ends with a zero.
        panic!("RocksDB: {}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
    }
}

/// Bytes that RocksDB lends until the next call with the same handle.
fn lent<'b>(bytes: Bytes, len: usize) -> &'b [u8] {
    // SAFETY: RocksDB gives a pointer to `len` bytes; they are used before the next call.
    unsafe { &*slice_from_raw_parts(bytes.cast(), len) }
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
