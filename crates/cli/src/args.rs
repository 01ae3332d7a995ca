//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::exit::EXIT_CODES;

/// A durable, embedded time-series store for rows that arrive nearly in order
#[derive(Debug, Parser)]
#[command(name = "bedload", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure how far a column of a file is from sorted
    Sortedness(SortednessArgs),
    /// Print a script that completes this command's arguments in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// How a CSV file is to be read.
#[derive(Debug, Clone, Args)]
pub(crate) struct CsvArgs {
    /// A text that stands for no value in CSV; may be given more than once. Without it, an empty field is no value
    #[arg(long = "null", value_name = "TEXT")]
    pub(crate) nulls: Vec<String>,

    /// What separates the fields of CSV
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = parse_delimiter)]
    pub(crate) delimiter: u8,
}

/// Measure how far a column of a file is from sorted.
#[derive(Debug, Args)]
pub(crate) struct SortednessArgs {
    /// A file: CSV, CSV compressed by gzip, or Parquet; `-` is standard input
    pub(crate) file: PathBuf,

    /// The column to measure
    #[arg(long)]
    pub(crate) column: String,

    /// Draw how far each row is from its sorted position; the name ends in .svg or .png
    #[arg(long, value_name = "FILE", value_parser = parse_picture)]
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

fn parse_picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match crate::picture::Format::of(&path) {
        Some(_) => Ok(path),
        None => Err("the name must end in .svg or .png".to_owned()),
    }
}
