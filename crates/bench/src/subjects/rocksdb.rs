//! RocksDB as a durable store of rows and as a store of tables. (Feature `rocksdb`.)
//!
//! The crate builds it from source, with optimisation and without assertions; the flags of
//! `.cargo/config.toml` give it the processor's CRC instruction. Distributions ship builds with
//! assertions, which take two to three times as long.

use std::path::Path;

use arrow_array::RecordBatch;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WriteBatch, WriteOptions,
};

use super::contract::{CACHE_BYTES, RowStore, key_of_time, time_of_key};
use super::row_batches::{ROW_BYTES, RowColumns, Rows, VALUE_BYTES, fold};

/// With less cache, indexes and filters stay out of it: they would evict all other blocks.
const SHARED_CACHE_BYTES_MIN: usize = 16 << 20;
/// Files of the log that are written over, as our store does with segments of its log.
const RECYCLED_LOGS: usize = 4;

/// An open database with its read and write options.
pub(super) struct RocksDb {
    db: DB,
    writing: WriteOptions,
    reading: ReadOptions,
}

impl RocksDb {
    /// Opens or creates a database in a directory.
    fn open(dir: &Path, options: &mut Options, table: &BlockBasedOptions, syncs: bool) -> Self {
        options.create_if_missing(true);
        options.set_block_based_table_factory(table);
        let mut writing = WriteOptions::default();
        writing.set_sync(syncs);
        Self {
            db: DB::open(options, dir).expect("opens"),
            writing,
            reading: ReadOptions::default(),
        }
    }

    /// Configured as [Setup Options and Basic
    /// Tuning](https://github.com/facebook/rocksdb/wiki/Setup-Options-and-Basic-Tuning) of
    /// RocksDB's wiki advises: blocks of 16 KiB, Bloom filters of ten bits per key, dynamic levels,
    /// indexes and filters in the cache, and the latest format, which is the default; LZ4, and ZSTD
    /// for the bottommost level
    /// ([Compression](https://github.com/facebook/rocksdb/wiki/Compression)). Files of the log are
    /// recycled, so that a sync seldom changes the size of one.
    pub(super) fn tuned(dir: &Path, cache_bytes: usize, buffer_bytes: usize, syncs: bool) -> Self {
        let mut options = Options::default();
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_max_background_jobs(6);
        options.set_bytes_per_sync(1 << 20);
        options.set_write_buffer_size(buffer_bytes);
        options.set_recycle_log_file_num(RECYCLED_LOGS);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(cache_bytes));
        table.set_block_size(16 << 10);
        if cache_bytes >= SHARED_CACHE_BYTES_MIN {
            table.set_cache_index_and_filter_blocks(true);
            table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        }
        table.set_bloom_filter(10.0, false);
        Self::open(dir, &mut options, &table, syncs)
    }

    /// Writes a batch.
    pub(super) fn write(&self, batch: WriteBatch) {
        self.db.write_opt(batch, &self.writing).expect("writes");
    }

    /// Passes the entries to `show` in descending order until it returns false.
    pub(super) fn scan_back(&self, mut show: impl FnMut(&[u8], &[u8]) -> bool) {
        let mut iterator = self.db.raw_iterator();
        iterator.seek_to_last();
        while let Some((key, row)) = iterator.item() {
            if !show(key, row) {
                break;
            }
            iterator.prev();
        }
        iterator.status().expect("reads");
    }

    /// Compacts all tables, which removes deleted entries.
    pub(super) fn compact(&self) {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
    }

    /// Reads from the value of a key, if it exists.
    pub(super) fn read<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let found = self.db.get_pinned_opt(key, &self.reading).expect("reads");
        found.map(|value| read(&value))
    }

    /// Passes the entries from one key to before another to `show`.
    pub(super) fn scan(&self, from: &[u8], to: &[u8], mut show: impl FnMut(&[u8], &[u8])) {
        let mut reading = ReadOptions::default();
        reading.set_iterate_upper_bound(to);
        let mut iterator = self.db.raw_iterator_opt(reading);
        iterator.seek(from);
        while let Some((key, row)) = iterator.item() {
            show(key, row);
            iterator.next();
        }
        iterator.status().expect("reads");
    }

    /// Creates an empty durable store in a directory.
    pub(super) fn rows(dir: &Path) -> Box<dyn RowStore> {
        let mut options = Options::default();
        options.set_compression_type(DBCompressionType::None);
        options.set_recycle_log_file_num(RECYCLED_LOGS);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        Box::new(Self::open(&dir.join("rocks"), &mut options, &table, true))
    }

    /// Flushes the memtable.
    pub(super) fn flush(&self) {
        self.db.flush().expect("writes");
    }
}

impl RowStore for RocksDb {
    fn append(&mut self, rows: &Rows) {
        let mut batch = WriteBatch::default();
        for (&time, row) in rows.times.iter().zip(rows.bytes.chunks_exact(ROW_BYTES)) {
            batch.put(key_of_time(time), row);
        }
        self.write(batch);
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
