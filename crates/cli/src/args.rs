//! The command line.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use arrow_schema::TimeUnit;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::exit::EXIT_CODES;
use crate::input::OnError;
use crate::output::Format;
use crate::picture;
use crate::quoted::{Names, names};
use crate::retention::Keep;

/// A durable, embedded time-series store for rows that arrive nearly in order
#[derive(Debug, Parser)]
#[command(name = "bedload", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load files into a table; store and table are created if they are not there
    Ingest(IngestArgs),
    /// Print the rows of a range of times
    Query(QueryArgs),
    /// Answer a query in SQL, by the program bedload-sql
    #[command(disable_help_flag = true)]
    Sql {
        /// Arguments of bedload-sql: the store, the query, options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Print the newest rows of a table, and rows as they are committed
    Tail(TailArgs),
    /// Print the names of a store's tables
    Tables(StoreArgs),
    /// Print what a store holds
    Info(InfoArgs),
    /// Measure how far a column of a file is from sorted
    Sortedness(SortednessArgs),
    /// Read everything in a store and list what is damaged
    Verify(StoreArgs),
    /// Copy what is whole in a damaged store into a new one
    Salvage(SalvageArgs),
    /// Copy a store into a new one, and check the copy
    Backup(CopyArgs),
    /// Copy a backup to where its store is to be, and check the copy
    Restore(CopyArgs),
    /// Copy a table into a new one of another layout
    Convert(ConvertArgs),
    /// Delete the rows of a range of times
    Delete(DeleteArgs),
    /// Print or change for how long a table keeps its rows
    Retention(RetentionArgs),
    /// Add columns to a table, null in the rows that it has
    AddColumns(AddColumnsArgs),
    /// Give a column of a table another name
    RenameColumn(RenameColumnArgs),
    /// Drop a column of a table
    DropColumn(DropColumnArgs),
    /// Give a table another name
    Rename(RenameArgs),
    /// Remove a table and all its rows
    Drop(DropArgs),
    /// Load, query, check and draw a year of real departures
    Demo(DemoArgs),
    /// Print a script that completes this command's arguments in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages of this command, one for each of its commands
    Manual {
        /// An existing directory
        directory: PathBuf,
    },
}

/// Load files into a table.
///
/// A file that cannot be read, a row that cannot be taken, or a signal ends the run, and the store
/// is as it was before. If --source-id is given, or the table exists and has a key, the rows of
/// complete batches stay.
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

    /// Measure how far from sorted the rows of this run were; their times are read once more for it
    #[arg(long)]
    pub(crate) order: bool,

    /// Print `acknowledged N` when the first N rows are durable, after each batch
    #[arg(long)]
    pub(crate) ack: bool,

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

/// A range of times.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RangeArgs {
    /// The first time: 2013, 2013-02, 2013-02-08, '2013-02-08 17:30:00', 2013-02-08T17:30:00Z, -1h
    /// (an hour before now), or @N, a number of the time column's units since 1970. Without an
    /// offset it is read in the column's zone
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) from: Option<String>,

    /// The time before which the range ends
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,

    /// The last stretch of the table, which ends with its newest row: 1h, 90min, 7d
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["from", "to"], value_parser = bedload_times::parse_duration)]
    pub(crate) last: Option<i128>,
}

impl RangeArgs {
    /// Whether no bound is given.
    pub(crate) fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.last.is_none()
    }
}

/// Print the rows of a range of times.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    #[command(flatten)]
    pub(crate) range: RangeArgs,

    /// The columns to print, in this order; all if not given
    #[arg(long, value_name = "A,B", value_parser = names)]
    pub(crate) columns: Option<Names>,

    /// Only rows that meet a condition, such as 'celsius > 21.5', 'state in ok,low' or 'x is null';
    /// of several, all of them
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,

    /// The most rows to print
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,

    /// Print the latest row first
    #[arg(long)]
    pub(crate) reverse: bool,

    /// The format; by default that of the extension of --output, else table
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// The text for null in CSV
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) null: String,

    /// A file to write instead of standard output; with --partition, a directory
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write a file for each day or month in the zone of the time column
    #[arg(long, value_enum, value_name = "PERIOD", requires = "output", conflicts_with_all = ["limit", "reverse"])]
    pub(crate) partition: Option<Partition>,

    /// With --partition, replace files that exist, and remove those of periods without rows
    #[arg(long, requires = "partition")]
    pub(crate) replace: bool,
}

/// Print the newest rows of a table and, with --follow, each row that is committed later. Another
/// process may be writing to the store.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// How many rows to print at first: those with the latest times
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) rows: u64,

    /// Go on with rows as they are committed, until a signal comes (Ctrl-C)
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// The columns to print, in this order; all if not given
    #[arg(long, value_name = "A,B", value_parser = names)]
    pub(crate) columns: Option<Names>,

    /// Only rows that meet a condition, such as 'celsius > 21.5', 'state in ok,low' or 'x is null';
    /// of several, all of them
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,

    /// The format
    #[arg(long, value_enum, default_value_t = LineFormat::Table)]
    pub(crate) format: LineFormat,

    /// The text for null in CSV
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) null: String,
}

/// A format that has rows on lines of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineFormat {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object a line
    #[value(alias = "ndjson", alias = "jsonl")]
    Json,
}

impl From<LineFormat> for Format {
    fn from(format: LineFormat) -> Self {
        match format {
            LineFormat::Table => Self::Table,
            LineFormat::Csv => Self::Csv,
            LineFormat::Json => Self::Json,
        }
    }
}

/// A period that gets a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Partition {
    /// Files such as 2013-02-08.parquet
    Day,
    /// Files such as 2013-02.parquet
    Month,
}

impl From<Partition> for bedload_times::Period {
    fn from(partition: Partition) -> Self {
        match partition {
            Partition::Day => Self::Day,
            Partition::Month => Self::Month,
        }
    }
}

/// Print what a store holds.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// A table; all if not given
    pub(crate) table: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A store as a whole.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy what is whole in a damaged store into a new one, and say what could not be saved.
#[derive(Debug, Args)]
pub(crate) struct SalvageArgs {
    /// The damaged store's directory, which is left as it is
    pub(crate) store: PathBuf,

    /// The new store's directory, which must not exist or be empty
    pub(crate) new: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy a store into a new one, which is checked, is a store itself, and takes no more space than
/// its rows need.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The directory of the store or backup that is copied
    pub(crate) from: PathBuf,

    /// The directory of the copy, which must not exist or be empty
    pub(crate) to: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Delete the rows of a range of times.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    #[command(flatten)]
    pub(crate) range: RangeArgs,

    /// Print the range and how many rows it has, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print or change for how long a table keeps its rows. Rows older than that, counted from the
/// newest row, are deleted now and by later writes, in steps.
#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// How long rows are kept: 90min, 36h, 30d, 52w, or `off` to keep them all. Without it, print
    /// the present setting
    #[arg(value_name = "DURATION", value_parser = Keep::parse)]
    pub(crate) keep: Option<Keep>,

    /// Print how many rows are too old, and change nothing
    #[arg(long, requires = "keep")]
    pub(crate) dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Add columns to a table, null in the rows that it has. Takes no time for these rows.
#[derive(Debug, Args)]
pub(crate) struct AddColumnsArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// The columns, with their types as for ingest --schema
    #[arg(value_name = "NAME:TYPE,…")]
    pub(crate) columns: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a column of a table another name. Takes no time for the rows.
#[derive(Debug, Args)]
pub(crate) struct RenameColumnArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// The column
    #[arg(value_name = "OLD")]
    pub(crate) column: String,

    /// Its new name, which no column of the table may have
    pub(crate) new: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Drop a column of a table, other than its time and those of its key. Takes no time for the rows.
#[derive(Debug, Args)]
pub(crate) struct DropColumnArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// The column
    pub(crate) column: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give a table another name.
#[derive(Debug, Args)]
pub(crate) struct RenameArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// Its new name, which no table may have
    pub(crate) new: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove a table and all its rows.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// Print how many rows the table has, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Load, query, check and draw a year of real departures.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The departures
    #[arg(long, value_name = "FILE", default_value = "examples/data/flights.csv.gz")]
    pub(crate) data: PathBuf,

    /// Where to put the store and the pictures
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub(crate) dir: PathBuf,
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

fn parse_time_unit(text: &str) -> Result<TimeUnit, String> {
    bedload_times::parse_unit(text).ok_or_else(|| "must be s, ms, us or ns".to_owned())
}
