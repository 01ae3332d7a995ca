//! Arguments of commands that change a table.

use std::path::PathBuf;

use clap::Args;

use super::RangeArgs;
use crate::retention::Keep;

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

/// Print how many rows of each source a table has taken: the counts of ingest --source-id.
#[derive(Debug, Args)]
pub(crate) struct SourcesArgs {
    /// The store's directory
    pub(crate) store: PathBuf,

    /// The table
    pub(crate) table: String,

    /// Forget the count of a source: a later run with its id begins at its first row. The rows stay
    #[arg(long, value_name = "ID")]
    pub(crate) forget: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
