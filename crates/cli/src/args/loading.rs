//! Arguments of commands that load rows, or read files of them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use arrow_schema::TimeUnit;
use bedload_times::Zone;
use clap::{Args, ValueEnum};

use crate::input::OnError;
use crate::picture;
use crate::quoted::{Names, names};

/// Load files into a table.
///
/// A file that cannot be read, a row that cannot be taken, or a signal ends the run, and the store
/// is as it was before. If --source-id or --follow is given, or the table exists and has a key, the
/// rows of complete batches stay.
#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// Files: CSV or JSON lines, plain or compressed by gzip, Parquet, or Arrow IPC; `-` is
    /// standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// The column that holds each row's time; may be left out if the table exists
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,

    /// The unit of numbers in the time column, which count from 1970: s, ms, us or ns
    #[arg(long, value_name = "UNIT", value_parser = parse_time_unit)]
    pub(crate) time_unit: Option<TimeUnit>,

    /// The zone on whose clocks times without an offset from UTC were read, such as Europe/Vienna.
    /// Columns of times without a zone that exist in the table take them as they are
    #[arg(long, value_name = "ZONE", value_parser = parse_time_zone)]
    pub(crate) time_zone: Option<Zone>,

    /// Types of columns that are not to be inferred, as name:type,name:type. Types: bool, int8 to
    /// int64, uint8 to uint64, float16 to float64, decimal(DIGITS, SCALE), utf8, binary, date32,
    /// timestamp(UNIT) or timestamp(UNIT, ZONE)
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) schema: Option<String>,

    /// The columns to load, all if not given
    #[arg(long, value_name = "A,B", value_parser = names)]
    pub(crate) columns: Option<Names>,

    /// Take files that lack columns of the table, which are null in their rows
    #[arg(long)]
    pub(crate) allow_missing: bool,

    /// How to treat a row whose time is missing or unreadable, or that does not fit the columns
    #[arg(long, value_enum, default_value_t = OnError::Fail)]
    pub(crate) on_error: OnError,

    #[command(flatten)]
    pub(crate) csv: CsvArgs,

    /// Rows that are made durable at once
    #[arg(long, value_name = "N", default_value = "65536")]
    pub(crate) batch_rows: NonZeroUsize,

    #[command(flatten)]
    pub(crate) layout: LayoutArgs,

    /// The columns of the key of a table that is created, its time among them or not: a row takes
    /// the place of the one with the same time and values there. Without it, every row is kept
    #[arg(long, value_name = "A,B", value_parser = names)]
    pub(crate) key: Option<Names>,

    /// Remember under this id how many rows of the files, taken together, the table has. A later
    /// run with the same id skips them: after a crash, Ctrl-C or a bad row the same command goes
    /// on, and does nothing if all rows are there. Rows that were committed stay when the run fails
    #[arg(long, value_name = "ID")]
    pub(crate) source_id: Option<String>,

    /// Take the rows of a live feed, one text from a pipe, as they come: they are made durable when
    /// there are --batch-rows of them or after --every, and stay, whether the run ends with the
    /// input, with a signal or with an error
    #[arg(short, long, conflicts_with_all = ["source_id", "order"])]
    pub(crate) follow: bool,

    /// With --follow, how long after the first row of a batch it is made durable at the latest
    #[arg(long, value_name = "DURATION", default_value = "1s", requires = "follow", value_parser = bedload_times::parse_duration)]
    pub(crate) every: i128,

    /// Measure how far from sorted the rows of this run were; their times are read once more for it
    #[arg(long)]
    pub(crate) order: bool,

    /// Print `acknowledged N` when the first N rows are durable, after each batch
    #[arg(long)]
    pub(crate) ack: bool,

    /// Read and check all files, print the report, and write nothing to the store. Another process
    /// may be writing to it
    #[arg(long, conflicts_with_all = ["follow", "ack"])]
    pub(crate) dry_run: bool,

    /// Print one JSON object at the end
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a table into a new one of another layout or with other columns. The table stays as it is,
/// and can be read meanwhile.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// The name of the new table
    pub(crate) new: String,

    #[command(flatten)]
    pub(crate) layout: LayoutArgs,

    /// Other types of columns, which must hold each value without loss: NAME:TYPE, as for ingest
    /// --schema. Numbers become the text that query prints, and text numbers as ingest reads it,
    /// unless it is of the key
    #[arg(long = "type", value_name = "NAME:TYPE,…")]
    pub(crate) types: Option<String>,

    /// Columns to add, null in every row: NAME:TYPE, as for ingest --schema
    #[arg(long, value_name = "NAME:TYPE,…")]
    pub(crate) add: Option<String>,

    /// Columns that the new table does not have
    #[arg(long, value_name = "A,B", value_parser = names)]
    pub(crate) remove: Option<Names>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a table keeps its rows.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LayoutArgs {
    /// The layout of a table that is created: indexed for rows of any times, sparse for a row at
    /// every interval
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutKind>,

    /// The time from one row of a sparse table to the next: a number and ns, us, ms, s, min (or m),
    /// h, d or w
    #[arg(long, value_name = "DURATION", value_parser = bedload_times::parse_duration)]
    pub(crate) interval: Option<i128>,

    /// How to treat a row whose time lies between two intervals: as an error, or by moving it
    #[arg(long, value_enum)]
    pub(crate) snap: Option<SnapKind>,
}

/// A layout by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// Rows are indexed by time
    Indexed,
    /// A row's position follows from its time
    Sparse,
}

/// A way to the grid by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapKind {
    /// It is an error
    Refuse,
    /// To the nearest interval
    Nearest,
    /// To the interval before
    Down,
}

/// How a CSV file is to be read.
#[derive(Debug, Clone, Args)]
pub(crate) struct CsvArgs {
    /// A text that stands for no value in CSV; may be given more than once. Without it, an empty
    /// field is no value
    #[arg(long = "null", value_name = "TEXT")]
    pub(crate) nulls: Vec<String>,

    /// The separator of the fields of CSV
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = parse_delimiter)]
    pub(crate) delimiter: u8,

    /// The names of the columns of CSV that has no header line
    #[arg(long, value_name = "A,B", value_parser = names)]
    pub(crate) header: Option<Names>,
}

/// Measure how far a column of a file is from sorted.
#[derive(Debug, Args)]
pub(crate) struct SortednessArgs {
    /// A file: CSV or JSON lines, plain or compressed by gzip, Parquet, or Arrow IPC; `-` is
    /// standard input
    pub(crate) file: PathBuf,

    /// The column to measure
    #[arg(long)]
    pub(crate) column: String,

    /// The type of the column if it is not to be inferred, as name:type
    #[arg(long, value_name = "COLUMN")]
    pub(crate) schema: Option<String>,

    /// How to treat a row whose value is unreadable, or that does not fit the columns
    #[arg(long, value_enum, default_value_t = OnError::Fail)]
    pub(crate) on_error: OnError,

    /// Draw how far each row is from its sorted position; the name ends in .svg or .png
    #[arg(long, value_name = "FILE", value_parser = picture::parse_name)]
    pub(crate) picture: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) csv: CsvArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("must be one ASCII character, or \\t".to_owned()),
    }
}

fn parse_time_zone(text: &str) -> Result<Zone, String> {
    Zone::parse(text).map_err(|error| error.to_string())
}

fn parse_time_unit(text: &str) -> Result<TimeUnit, String> {
    bedload_times::parse_unit(text).ok_or_else(|| "must be s, ms, us or ns".to_owned())
}
