//! A synced Parquet file in order of time, compressed by zstd 1: the cost of rows that are written
//! once, without durability before. Rows are kept in memory until they are flushed.
//!
//! Reads use its [page index](https://docs.rs/parquet/60/parquet/arrow/arrow_reader/) to find the
//! pages of a range; the file is opened for each range, with the footer cached.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::WriterProperties;

use super::readings::{Checksum, Readings, RowId, schema};
use super::{TableOptions, TableStore};

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 8192;
const TIME_COLUMN: usize = 0;

struct Parquet {
    path: PathBuf,
    pending: Mutex<Vec<RecordBatch>>,
    /// The file's footer; `None` before the file exists.
    footer: Mutex<Option<Arc<Footer>>>,
}

struct Footer {
    metadata: ArrowReaderMetadata,
    /// The first row and the least time of each page of the time column.
    pages: Vec<(usize, i64)>,
    rows: usize,
}

pub(super) fn open(dir: &Path, _: &TableOptions) -> Box<dyn TableStore> {
    let store = Parquet {
        path: dir.join("rows.parquet"),
        pending: Mutex::default(),
        footer: Mutex::default(),
    };
    if store.path.exists() {
        store.read_footer();
    }
    Box::new(store)
}

fn times(batch: &RecordBatch) -> &[i64] {
    batch
        .column(0)
        .as_primitive::<TimestampMicrosecondType>()
        .values()
}

impl Parquet {
    /// Replaces the file with one of these rows, in order of time.
    fn write(&self, batches: &[RecordBatch]) {
        let ends = batches.iter().filter_map(|batch| {
            let times = times(batch);
            times.first().copied().zip(times.last().copied())
        });
        let mut until = i64::MIN;
        let is_sorted = batches.iter().all(|batch| times(batch).is_sorted())
            && ends.into_iter().all(|(first, last)| {
                let follows = first >= until;
                until = last;
                follows
            });
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("a level")))
            .build();
        let new = self.path.with_extension("new");
        let file = File::create(&new).expect("creates");
        let mut writer = ArrowWriter::try_new(&file, schema(), Some(properties)).expect("begins");
        if is_sorted {
            for batch in batches {
                writer.write(batch).expect("writes");
            }
        } else {
            let all = concat_batches(&schema(), batches).expect("of one schema");
            let keys = times(&all);
            let mut order: Vec<(i64, u32)> = keys.iter().copied().zip(0..).collect();
            order.sort_unstable();
            let order = UInt32Array::from_iter_values(order.into_iter().map(|(_, row)| row));
            let sorted = take_record_batch(&all, &order).expect("rows of the batch");
            writer.write(&sorted).expect("writes");
        }
        writer.close().expect("ends");
        file.sync_all().expect("syncs");
        fs::rename(&new, &self.path).expect("replaces");
        self.read_footer();
    }

    fn read_footer(&self) {
        let file = File::open(&self.path).expect("opens");
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&file, options).expect("reads");
        let of_file = metadata.metadata();
        let (mut pages, mut rows) = (Vec::new(), 0);
        for group in 0..of_file.num_row_groups() {
            let index = of_file.page_index_for_row_group(group);
            let Some(ColumnIndexMetaData::INT64(times)) = index.column_index(TIME_COLUMN) else {
                panic!("the writer writes indexes of integers");
            };
            let offsets = index
                .offset_index(TIME_COLUMN)
                .expect("the writer writes both indexes");
            let firsts = offsets.page_locations().iter();
            let firsts =
                firsts.map(|page| rows + usize::try_from(page.first_row_index).expect("not below 0"));
            pages.extend(firsts.zip(times.min_values().iter().copied()));
            rows += usize::try_from(of_file.row_group(group).num_rows()).expect("not below 0");
        }
        *self.footer.lock() = Some(Arc::new(Footer {
            metadata,
            pages,
            rows,
        }));
    }

    /// Passes `rows` rows from the row `first` to `show`.
    fn show_rows(&self, footer: &Footer, first: usize, rows: usize, show: &mut dyn FnMut(RecordBatch)) {
        let file = File::open(&self.path).expect("opens");
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.metadata.clone())
            .with_batch_size(rows.clamp(1, BATCH_ROWS))
            .with_offset(first)
            .with_limit(rows)
            .build();
        for batch in reader.expect("reads") {
            show(batch.expect("reads"));
        }
    }
}

impl TableStore for Parquet {
    fn append(&self, rows: &Readings) {
        self.pending.lock().push(rows.batch().clone());
    }

    fn flush(&self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        if !pending.is_empty() {
            let mut batches = Vec::new();
            self.range(i64::MIN, i64::MAX, &mut |batch| batches.push(batch.clone()));
            batches.extend(pending);
            self.write(&batches);
        }
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let Some(footer) = self.footer.lock().clone() else {
            return;
        };
        let before = footer.pages.partition_point(|&(_, least)| least < from);
        let first = footer
            .pages
            .get(before.saturating_sub(1))
            .map_or(0, |&(row, _)| row);
        let behind = footer.pages.partition_point(|&(_, least)| least < to);
        let end = footer.pages.get(behind).map_or(footer.rows, |&(row, _)| row);
        self.show_rows(&footer, first, end - first, &mut |batch| {
            let times = times(&batch);
            let first = times.partition_point(|&time| time < from);
            let end = times.partition_point(|&time| time < to);
            if first < end {
                show(&batch.slice(first, end - first));
            }
        });
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let mut found = None;
        self.range(row.time, row.time + 1, &mut |batch| {
            let mut checksum = Checksum::default();
            checksum.add(&batch.slice(batch.num_rows() - 1, 1));
            found = Some(checksum.sum);
        });
        found
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        if let Some(footer) = self.footer.lock().clone() {
            let rows = rows.min(footer.rows);
            self.show_rows(&footer, footer.rows - rows, rows, &mut |batch| show(&batch));
        }
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let footer = self.footer.lock().clone();
        let Some((from, to)) = times else {
            return footer.map_or(0, |footer| footer.rows as u64);
        };
        let mut rows = 0;
        self.range(from, to, &mut |batch| rows += batch.num_rows() as u64);
        rows
    }

    /// Rewrites the file without these rows.
    fn delete(&self, from: i64, to: i64) {
        let mut batches = Vec::new();
        self.range(i64::MIN, from, &mut |batch| batches.push(batch.clone()));
        self.range(to, i64::MAX, &mut |batch| batches.push(batch.clone()));
        self.write(&batches);
    }

    fn reclaim(&self) {}
}
