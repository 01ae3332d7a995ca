//! A synced Parquet file in order of time, compressed by zstd 1: the cost of rows that are written
//! once, without durability before. Rows are kept in memory until they are flushed.
//!
//! Reads use its [page index](https://docs.rs/parquet/60/parquet/arrow/arrow_reader/): a range is
//! found by the times of the pages at its ends, and the other columns are read for its rows alone;
//! a condition skips pages by their least values, and is evaluated before other columns are read.
//! The file is opened for each read, with the footer cached.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMicrosecondType};
use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter,
    RowSelection,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::WriterProperties;

use super::readings::{Checksum, Readings, RowId, schema};
use super::{TableOptions, TableStore};

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 8192;
const TIME_COLUMN: usize = 0;
const CELSIUS_COLUMN: usize = 2;

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
    /// The first row and the least temperature of each page of that column.
    celsius: Vec<(usize, f64)>,
    rows: usize,
}

impl Footer {
    /// Returns the rows of the page in which the first row of at least this time may be; the rows
    /// after it are of at least this time.
    fn page_of(&self, time: i64) -> Range<usize> {
        let after = self.pages.partition_point(|&(_, least)| least < time);
        let row = |page: usize| self.pages.get(page).map_or(self.rows, |&(row, _)| row);
        row(after.saturating_sub(1))..row(after)
    }

    /// Returns a mask of some columns.
    fn columns(&self, columns: impl IntoIterator<Item = usize>) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), columns)
    }
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
        let (mut pages, mut celsius, mut rows) = (Vec::new(), Vec::new(), 0);
        for group in 0..of_file.num_row_groups() {
            let index = of_file.page_index_for_row_group(group);
            let firsts = |column| {
                let offsets = index
                    .offset_index(column)
                    .expect("the writer writes both indexes");
                let pages = offsets.page_locations().iter();
                pages.map(|page| rows + usize::try_from(page.first_row_index).expect("not below 0"))
            };
            let (Some(ColumnIndexMetaData::INT64(times)), Some(ColumnIndexMetaData::DOUBLE(temperatures))) = (
                index.column_index(TIME_COLUMN),
                index.column_index(CELSIUS_COLUMN),
            ) else {
                panic!("the writer writes indexes of numbers");
            };
            pages.extend(firsts(TIME_COLUMN).zip(times.min_values().iter().copied()));
            celsius.extend(firsts(CELSIUS_COLUMN).zip(temperatures.min_values().iter().copied()));
            rows += usize::try_from(of_file.row_group(group).num_rows()).expect("not below 0");
        }
        *self.footer.lock() = Some(Arc::new(Footer {
            metadata,
            pages,
            celsius,
            rows,
        }));
    }

    /// Passes some columns of ranges of rows, or of those that meet a condition, to `show`.
    fn show_rows(
        &self,
        footer: &Footer,
        columns: ProjectionMask,
        ranges: &[Range<usize>],
        condition: Option<RowFilter>,
        show: &mut dyn FnMut(&RecordBatch),
    ) {
        let rows: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        if rows == 0 {
            return;
        }
        let file = File::open(&self.path).expect("opens");
        let selection = RowSelection::from_consecutive_ranges(ranges.iter().cloned(), footer.rows);
        let mut reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.metadata.clone())
            .with_batch_size(rows.clamp(1, BATCH_ROWS))
            .with_projection(columns);
        if rows < footer.rows {
            reader = reader.with_row_selection(selection);
        }
        if let Some(condition) = condition {
            reader = reader.with_row_filter(condition);
        }
        for batch in reader.build().expect("reads") {
            show(&batch.expect("reads"));
        }
    }

    /// Returns the rows from one time to before another.
    fn rows_of(&self, footer: &Footer, from: i64, to: i64) -> Range<usize> {
        let (first, last) = (footer.page_of(from), footer.page_of(to));
        let of_times = footer.columns([TIME_COLUMN]);
        // Adjoining pages are read at once.
        let ranges = if first.end >= last.start {
            let both = first.start..last.end.max(first.end);
            vec![both]
        } else {
            vec![first.clone(), last.clone()]
        };
        let (mut before_first, mut before_last) = (0, 0);
        self.show_rows(footer, of_times, &ranges, None, &mut |batch| {
            before_first += times(batch).partition_point(|&time| time < from);
            before_last += times(batch).partition_point(|&time| time < to);
        });
        // Rows between the two pages are from `from` on, and before `to`.
        let between = last.start.saturating_sub(first.end);
        let from_row = first.start + before_first;
        let to_row = first.start + before_last + between;
        from_row..to_row.max(from_row)
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
        if let Some(footer) = self.footer.lock().clone() {
            let rows = match (from, to) {
                (i64::MIN, i64::MAX) => 0..footer.rows,
                _ => self.rows_of(&footer, from, to),
            };
            self.show_rows(&footer, ProjectionMask::all(), &[rows], None, show);
        }
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
            let newest = footer.rows.saturating_sub(rows)..footer.rows;
            self.show_rows(&footer, ProjectionMask::all(), &[newest], None, show);
        }
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let footer = self.footer.lock().clone();
        footer.map_or(0, |footer| match times {
            None => footer.rows as u64,
            Some((from, to)) => self.rows_of(&footer, from, to).len() as u64,
        })
    }

    fn cold(&self, celsius: f64, show: &mut dyn FnMut(&RecordBatch)) {
        let Some(footer) = self.footer.lock().clone() else {
            return;
        };
        let ends = footer.celsius.iter().skip(1).map(|&(row, _)| row);
        let pages = footer.celsius.iter().zip(ends.chain([footer.rows]));
        let cold = pages.filter(|((_, least), _)| *least <= celsius);
        let ranges: Vec<Range<usize>> = cold.map(|(&(first, _), end)| first..end).collect();
        let is_cold = ArrowPredicateFn::new(footer.columns([CELSIUS_COLUMN]), move |batch| {
            let temperatures = batch.column(0).as_primitive::<Float64Type>();
            Ok(BooleanArray::from_unary(temperatures, |number| number <= celsius))
        });
        let condition = RowFilter::new(vec![Box::new(is_cold)]);
        self.show_rows(&footer, ProjectionMask::all(), &ranges, Some(condition), show);
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
