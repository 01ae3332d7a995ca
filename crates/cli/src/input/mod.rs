//! Files of rows: CSV and JSON lines, plain or compressed by gzip, Parquet, and Arrow IPC.

mod bytes;
#[cfg(feature = "formats")]
mod columnar;
mod gzip;
mod live;
mod rejects;
mod text;

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::ArrowError;
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use arrow_select::filter::filter;
use bedload_times::{Zone, nanos_per_tick};

use self::bytes::{Content, Progress};
#[cfg(feature = "formats")]
use self::columnar::ColumnarRows;
use self::rejects::Place;
pub(crate) use self::rejects::{OnError, Reason, Reject, Rejects, SKIP};
use self::text::{BetweenTicks, RowsAhead, TextRows};
pub(crate) use self::text::{excerpt, keeps_digits, parse_values};
use crate::exit::{Failure, Result};

/// Columns that are read from a file, at most: rows of more fit in no page.
const COLUMNS_MAX: usize = 4095;

/// The name that stands for standard input.
pub(crate) const STDIN: &str = "-";

/// The columns to read from a file, and how to read them.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The column that must hold a time in every row.
    pub(crate) time: Option<String>,
    /// The columns to read, in this order; all if `None`.
    pub(crate) columns: Option<Vec<String>>,
    /// Types of columns as the user gave them. Numbers in such a column are ticks, if it is one of
    /// times.
    pub(crate) given: Vec<Field>,
    /// The columns of the table that the rows go to, if it exists: its types are not to be inferred
    /// either.
    pub(crate) table: Option<SchemaRef>,
    /// The unit of numbers in the time column, which count from 1970.
    pub(crate) time_unit: Option<TimeUnit>,
    /// The zone on whose clocks times without an offset from UTC were read.
    pub(crate) clock: Option<Zone>,
    /// Texts that stand for no value in CSV.
    pub(crate) nulls: Vec<String>,
    /// The separator of the fields of CSV.
    pub(crate) delimiter: u8,
    /// The columns of a CSV text without a header.
    pub(crate) header: Option<Vec<String>>,
    /// Rows in a batch, at most.
    pub(crate) batch_rows: usize,
    /// How long after its first row a batch ends, if its rows are those of a live feed.
    pub(crate) follow: Option<Duration>,
    /// The grid to which times are moved.
    pub(crate) snapping: Option<Snapping>,
}

/// A grid to which the times of a table are moved, so that they may lie between two ticks, too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapping {
    pub(crate) interval_nanos: i128,
    /// Whether they are moved to the nearest time of the grid, and not down.
    pub(crate) is_nearest: bool,
}

impl Wanted {
    /// These columns of a test's file, or all, with the time in `t`; in small batches.
    #[cfg(all(test, feature = "formats"))]
    fn of_test(columns: Option<&[&str]>) -> Self {
        Self {
            time: Some("t".to_owned()),
            columns: columns.map(|columns| columns.iter().map(|&name| name.to_owned()).collect()),
            given: Vec::new(),
            table: None,
            time_unit: None,
            clock: None,
            nulls: Vec::new(),
            delimiter: b',',
            header: None,
            batch_rows: 64,
            follow: None,
            snapping: None,
        }
    }

    /// The type of a new column: times without a zone have that of the clock on which they were
    /// read.
    fn on_clock(&self, inferred: DataType) -> DataType {
        match (inferred, &self.clock) {
            (DataType::Timestamp(unit, None), Some(clock)) => {
                DataType::Timestamp(unit, Some(Arc::from(clock.name())))
            }
            (other, _) => other,
        }
    }

    /// How times between two ticks of the time column are read. The table then moves the tick to
    /// the same time of the grid as the time itself.
    fn between_ticks(&self, unit: TimeUnit) -> BetweenTicks {
        let ticks = |interval_nanos| interval_nanos / i128::from(nanos_per_tick(unit));
        match self.snapping {
            None => BetweenTicks::Refused,
            // The middle between two times of the grid lies between two ticks if there is an odd
            // number of them.
            Some(grid) if grid.is_nearest && ticks(grid.interval_nanos) % 2 != 0 => BetweenTicks::Nearest,
            Some(_) => BetweenTicks::Down,
        }
    }

    /// When a batch of a live feed ends whose first row has come now.
    fn batch_end(&self) -> Option<Instant> {
        Instant::now().checked_add(self.follow?)
    }

    /// The columns to read out of those that `file` has, by their places in it.
    ///
    /// `offered` may name a column twice as long as it is not asked for.
    fn places(&self, file: &str, offered: &[String]) -> Result<Vec<usize>> {
        let mut by_name: HashMap<&str, Offered> = HashMap::with_capacity(offered.len());
        for (place, name) in offered.iter().enumerate() {
            by_name
                .entry(name)
                .and_modify(|found| *found = Offered::Twice)
                .or_insert(Offered::At(place));
        }
        let place_of = |name: &String| match by_name.get(name.as_str()) {
            Some(Offered::At(place)) => Ok(*place),
            Some(Offered::Twice) => Err(Failure::input(format!("{file}: two columns are named {name}"))),
            None => Err(Failure::input(format!(
                "{file}: no column is named {name}; there are {}",
                listed(offered)
            ))),
        };
        if let Some(time) = &self.time {
            place_of(time)?;
            if let Some(given) = self.given_field(time)
                && !matches!(given.data_type(), DataType::Timestamp(..))
            {
                return Err(Failure::usage(format!(
                    "--schema: the time column {time} must be a timestamp(…)"
                )));
            }
        }
        for field in &self.given {
            place_of(field.name())?;
        }
        if let Some(columns) = &self.columns {
            let mut named = HashSet::with_capacity(columns.len());
            if let Some(twice) = columns.iter().find(|name| !named.insert(name.as_str())) {
                return Err(Failure::usage(format!(
                    "--columns: column {twice} is named twice"
                )));
            }
        }
        let wanted = self.columns.as_deref().unwrap_or(offered);
        if wanted.len() > COLUMNS_MAX {
            return Err(Failure::input(format!(
                "{file}: {} columns, and a table has at most {COLUMNS_MAX}: choose some with --columns",
                wanted.len()
            )));
        }
        let places: Vec<usize> = wanted.iter().map(place_of).collect::<Result<_>>()?;
        match &self.time {
            Some(time) if !places.iter().any(|&place| offered[place] == *time) => Err(Failure::usage(
                format!("the time column {time} must be among --columns"),
            )),
            _ => Ok(places),
        }
    }

    /// Whether the user named a column.
    fn names(&self, name: &str) -> bool {
        let columns = self.columns.iter().flatten();
        columns.chain(&self.time).any(|named| named == name) || self.given_field(name).is_some()
    }

    fn is_time(&self, name: &str) -> bool {
        self.time.as_deref() == Some(name)
    }

    /// The type of a column that is not to be inferred.
    fn known_type(&self, name: &str) -> Option<&DataType> {
        let of_table = || {
            self.table
                .as_ref()
                .and_then(|table| table.field_with_name(name).ok())
        };
        self.given_field(name).or_else(of_table).map(Field::data_type)
    }

    /// Whether a column may lack values: all but those that the table requires.
    fn is_nullable(&self, name: &str) -> bool {
        let of_table = self
            .table
            .as_ref()
            .and_then(|table| table.field_with_name(name).ok());
        of_table.is_none_or(Field::is_nullable)
    }

    /// The unit of integers in the time column: the one that the user named, else that of the table
    /// if it exists.
    #[cfg(feature = "formats")]
    fn tick_unit(&self, name: &str) -> Option<TimeUnit> {
        let of_table = || match self.known_type(name) {
            Some(DataType::Timestamp(unit, _)) => Some(*unit),
            _ => None,
        };
        self.time_unit.or_else(of_table)
    }

    /// The unit of the table, for integers in the time column whose unit the user did not name.
    fn assumed_unit(&self, name: &str) -> Option<TimeUnit> {
        let is_named = self.time_unit.is_some() || self.given_field(name).is_some();
        match self.known_type(name) {
            Some(DataType::Timestamp(unit, _)) if self.is_time(name) && !is_named => Some(*unit),
            _ => None,
        }
    }

    fn given_field(&self, name: &str) -> Option<&Field> {
        self.given.iter().find(|field| field.name() == name)
    }
}

/// Where a file has a column of some name.
enum Offered {
    At(usize),
    Twice,
}

/// Names for a message: all of them, or the first few of many.
pub(crate) fn listed<N: Borrow<str>>(names: &[N]) -> String {
    const LISTED: usize = 50;
    match names.len().checked_sub(LISTED) {
        _ if names.is_empty() => "none".to_owned(),
        Some(more @ 1..) => format!("{} and {more} more", names[..LISTED].join(", ")),
        _ => names.join(", "),
    }
}

/// A file being read, batch by batch.
pub(crate) struct Input {
    rows: Box<dyn Rows>,
    progress: Progress,
}

/// A format of files.
trait Rows {
    /// The columns of the batches.
    fn schema(&self) -> &SchemaRef;

    /// The next rows, in the order of the file; `None` at its end. Rows that cannot be read go to
    /// `rejects`.
    fn next_batch(&mut self, rejects: &mut Rejects) -> Result<Option<RecordBatch>>;

    /// The unit of integers in the time column, if it is that of the table because nothing else
    /// names it.
    fn assumed_unit(&self) -> Option<TimeUnit>;

    /// Where the rows of the last batch begin.
    fn batch_place(&self) -> String;

    /// Rows of the last batch whose time lay between two ticks of its column and was moved to one.
    fn between_ticks(&self) -> &[usize] {
        &[]
    }

    /// Where a row of the last batch stands.
    fn place(&self, row: usize) -> Place;
}

impl Input {
    /// Opens a file, or standard input if `path` is [`STDIN`], tells its format by its first bytes,
    /// and settles the types of its columns.
    pub(crate) fn open(path: &Path, wanted: &Wanted) -> Result<Self> {
        let (content, progress) = bytes::open(path, wanted.follow.is_some())?;
        let name = display_name(path);
        let rows: Box<dyn Rows> = match content {
            Content::Csv(text) => Box::new(RowsAhead::of(TextRows::open_csv(name, text, wanted.clone())?)?),
            Content::Json(text) => Box::new(RowsAhead::of(TextRows::open_json(name, text, wanted.clone())?)?),
            #[cfg(feature = "formats")]
            Content::Parquet(file) => Box::new(ColumnarRows::open_parquet(name, file, wanted, &progress)?),
            #[cfg(feature = "formats")]
            Content::Arrow(file) => Box::new(ColumnarRows::open_arrow(name, file, wanted, &progress)?),
            #[cfg(feature = "formats")]
            Content::ArrowStream(stream) => {
                Box::new(ColumnarRows::open_arrow_stream(name, stream, wanted, &progress)?)
            }
        };
        Ok(Self { rows, progress })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    pub(crate) fn next_batch(&mut self, rejects: &mut Rejects) -> Result<Option<RecordBatch>> {
        self.rows.next_batch(rejects)
    }

    /// The unit of integers in the time column, if it is that of the table because nothing else
    /// names it.
    pub(crate) fn assumed_unit(&self) -> Option<TimeUnit> {
        self.rows.assumed_unit()
    }

    /// Where the rows of the last batch begin, in words.
    pub(crate) fn batch_place(&self) -> String {
        self.rows.batch_place()
    }

    /// Rows of the last batch whose time lay between two ticks of its column and was moved to one.
    pub(crate) fn between_ticks(&self) -> &[usize] {
        self.rows.between_ticks()
    }

    /// Where a row of the last batch stands.
    pub(crate) fn place(&self, row: usize) -> Place {
        self.rows.place(row)
    }

    /// How much of the file has been read, and of how much, if that is known; in bytes.
    pub(crate) fn progress(&self) -> (u64, Option<u64>) {
        (self.progress.read(), self.progress.total())
    }
}

/// A batch of the rows that are to be kept; all if `keep` is `None`.
///
/// Rows are filtered before they become a batch, because a row without a time makes none.
fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
    keep: Option<&BooleanArray>,
) -> Result<RecordBatch, ArrowError> {
    let (columns, rows) = match keep {
        Some(keep) => {
            let kept = columns
                .iter()
                .map(|column| filter(column.as_ref(), keep))
                .collect::<Result<_, _>>()?;
            (kept, keep.true_count())
        }
        None => (columns, rows),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options)
}

/// How messages name a file.
pub(crate) fn display_name(path: &Path) -> String {
    if path == Path::new(STDIN) {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}
