//! Arguments of commands that print rows.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::output::Format;
use crate::quoted::{Names, names};

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

    /// Print how many rows there are instead of the rows
    #[arg(long, conflicts_with_all = ["columns", "reverse", "format", "null", "output", "partition"])]
    pub(crate) count: bool,

    /// With --count, print one JSON object
    #[arg(long, requires = "count")]
    pub(crate) json: bool,

    /// Only rows that arrived since the query that wrote FILE, or all rows if there is no FILE;
    /// then write to FILE where the next query goes on
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "last", "limit", "count", "reverse", "partition"])]
    pub(crate) mark: Option<PathBuf>,

    /// Print the latest row first
    #[arg(long)]
    pub(crate) reverse: bool,

    /// The format; by default that of the extension of --output, else table
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,

    /// The text for null in CSV
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) null: String,

    /// A file to write instead of standard output, compressed if the name of a text ends in .gz;
    /// with --partition, a directory
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
