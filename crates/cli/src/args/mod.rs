//! The command line.

mod loading;
mod reading;
mod tables;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::exit::EXIT_CODES;
pub(crate) use loading::{
    ConvertArgs, CsvArgs, IngestArgs, LayoutArgs, LayoutKind, SnapKind, SortednessArgs,
};
pub(crate) use reading::{QueryArgs, RangeArgs, TailArgs};
pub(crate) use tables::{
    AddColumnsArgs, DeleteArgs, DropArgs, DropColumnArgs, RenameArgs, RenameColumnArgs, RetentionArgs,
    SourcesArgs,
};

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
    /// Print how many rows of each source a table has
    Sources(SourcesArgs),
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
