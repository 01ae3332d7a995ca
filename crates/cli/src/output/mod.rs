//! Answers on their way out: formats, and where they go.

mod csv;
mod descriptor;
mod destination;
mod gzip;
mod json;
mod old_offsets;
#[cfg(feature = "formats")]
mod parquet;
pub(crate) mod stdout;
mod table;
mod writable;

use std::path::Path;

use arrow_array::RecordBatch;
#[cfg(feature = "formats")]
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::ArrowError;
use arrow_schema::SchemaRef;
use clap::ValueEnum;

use self::csv::CsvWriter;
pub use self::destination::is_written_directly;
pub(crate) use self::destination::{Destination, file_at};
use self::json::JsonWriter;
#[cfg(feature = "formats")]
use self::parquet::ParquetWriter;
use self::table::TableWriter;
use crate::exit::{Failure, Result};

/// A format of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object a line
    #[value(alias = "ndjson", alias = "jsonl")]
    Json,
    /// Parquet
    #[cfg(feature = "formats")]
    Parquet,
    /// Arrow IPC, file
    #[cfg(feature = "formats")]
    Arrow,
    /// Arrow IPC, stream
    #[cfg(feature = "formats")]
    ArrowStream,
}

/// Extensions of formats and compressions that are not written: no one expects an aligned table in
/// such a file. Parquet and Arrow are among them in builds without the feature `formats`.
const OTHER_FORMATS: [&str; 13] = [
    "arrow", "arrows", "br", "bz2", "feather", "gz", "ipc", "orc", "parquet", "tsv", "xlsx", "xz", "zst",
];

impl Format {
    /// Returns the format that was asked for; if none was, the one that the extension of the file
    /// names, before `.gz` if it ends so, or a table.
    ///
    /// # Errors
    ///
    /// The extension names a format that is not written, or not compressed.
    pub fn chosen(given: Option<Self>, file: Option<&Path>) -> Result<Self> {
        let is_gzip = file.is_some_and(is_gzip);
        if let Some(format) = given {
            return match is_gzip && !format.is_text() {
                true => Err(Failure::usage(format!(
                    "a file of the format {} is not compressed by gzip: leave .gz out of its name",
                    format.extension()
                ))),
                false => Ok(format),
            };
        }
        let name = match is_gzip {
            true => file.and_then(Path::file_stem).map(Path::new),
            false => file,
        };
        let extension = name.and_then(extension).unwrap_or_default();
        match (Self::named(&extension), is_gzip) {
            (Some(format), false) => Ok(format),
            (Some(format), true) if format.is_text() => Ok(format),
            (None, false) if !OTHER_FORMATS.contains(&extension.as_str()) => Ok(Self::Table),
            (_, is_gzip) => Err(Failure::usage(format!(
                "a file named .{} is not written; name a --format, or another file",
                if is_gzip { "gz" } else { &extension }
            ))),
        }
    }

    /// The format whose files have this extension.
    fn named(extension: &str) -> Option<Self> {
        match extension {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            #[cfg(feature = "formats")]
            "parquet" => Some(Self::Parquet),
            #[cfg(feature = "formats")]
            "arrow" | "feather" | "ipc" => Some(Self::Arrow),
            #[cfg(feature = "formats")]
            "arrows" => Some(Self::ArrowStream),
            _ => None,
        }
    }

    /// Whether its files are text, which may be compressed as a whole.
    fn is_text(self) -> bool {
        matches!(self, Self::Table | Self::Csv | Self::Json)
    }

    /// How the names of its files end.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Table => "txt",
            Self::Csv => "csv",
            Self::Json => "json",
            #[cfg(feature = "formats")]
            Self::Parquet => "parquet",
            #[cfg(feature = "formats")]
            Self::Arrow => "arrow",
            #[cfg(feature = "formats")]
            Self::ArrowStream => "arrows",
        }
    }
}

/// The extension of a file, in small letters.
fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

/// Whether a file is to be compressed by gzip.
fn is_gzip(path: &Path) -> bool {
    extension(path).as_deref() == Some("gz")
}

/// Writes an answer, batch by batch. A file appears under its name when the answer is whole, not
/// before.
pub struct Answer {
    sink: Sink,
    name: String,
    last_error: destination::LastError,
    /// Rows that were given to it.
    rows: u64,
}

enum Sink {
    Table(TableWriter<Destination>),
    Csv(Box<CsvWriter<Destination>>),
    Json(JsonWriter<Destination>),
    #[cfg(feature = "formats")]
    Parquet(Box<ParquetWriter<Destination>>),
    #[cfg(feature = "formats")]
    Arrow(Box<FileWriter<Destination>>),
    #[cfg(feature = "formats")]
    ArrowStream(Box<StreamWriter<Destination>>),
}

impl Answer {
    /// Begins an answer with the columns of `schema`; to standard output if there is no `path`. A
    /// text in a file whose name ends in `.gz` is compressed. In CSV, `null` stands for no value.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or standard output is closed.
    pub fn begin(format: Format, path: Option<&Path>, schema: &SchemaRef, null: &str) -> Result<Self> {
        let destination = match path {
            Some(path) if format.is_text() && is_gzip(path) => Destination::gzip(path),
            Some(path) => Destination::file(path),
            None => Ok(Destination::stdout()),
        };
        let destination = destination.map_err(|error| Failure::io(path.unwrap_or(Path::new("")), &error))?;
        let name = path.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
        let last_error = destination.last_error();
        let sink = match format {
            Format::Table => Sink::Table(TableWriter::new(destination, schema)),
            Format::Csv => {
                let begun = CsvWriter::begin(destination, schema, null);
                Sink::Csv(Box::new(
                    begun.map_err(|error| failure(&name, &last_error, &error))?,
                ))
            }
            Format::Json => Sink::Json(JsonWriter::new(destination)),
            #[cfg(feature = "formats")]
            Format::Parquet => {
                let begun = ParquetWriter::begin(destination, schema);
                Sink::Parquet(Box::new(
                    begun.map_err(|error| Failure::input(format!("{name}: {error}")))?,
                ))
            }
            #[cfg(feature = "formats")]
            Format::Arrow => {
                let begun = FileWriter::try_new(destination, schema);
                Sink::Arrow(Box::new(
                    begun.map_err(|error| failure(&name, &last_error, &error))?,
                ))
            }
            #[cfg(feature = "formats")]
            Format::ArrowStream => {
                let begun = StreamWriter::try_new(destination, schema);
                Sink::ArrowStream(Box::new(
                    begun.map_err(|error| failure(&name, &last_error, &error))?,
                ))
            }
        };
        let mut answer = Self {
            sink,
            name,
            last_error,
            rows: 0,
        };
        // CSV has its header even if no row follows.
        answer.write(&RecordBatch::new_empty(SchemaRef::clone(schema)))?;
        Ok(answer)
    }

    /// Writes rows.
    ///
    /// # Errors
    ///
    /// The disk fails or is full; a value cannot be written in this format.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if matches!(self.sink, Sink::Table(_) | Sink::Csv(_) | Sink::Json(_)) {
            writable::check(batch, self.rows)?;
        }
        self.rows += batch.num_rows() as u64;
        let written = match &mut self.sink {
            Sink::Table(writer) => old_offsets::in_utc(batch).and_then(|rows| writer.write(&rows)),
            Sink::Csv(writer) => old_offsets::in_utc(batch).and_then(|rows| writer.write(&rows)),
            Sink::Json(writer) => old_offsets::in_utc(batch).and_then(|rows| writer.write(&rows)),
            #[cfg(feature = "formats")]
            Sink::Parquet(writer) => writer.write(batch),
            #[cfg(feature = "formats")]
            Sink::Arrow(writer) => writer.write(batch),
            #[cfg(feature = "formats")]
            Sink::ArrowStream(writer) => writer.write(batch),
        };
        written.map_err(|error| failure(&self.name, &self.last_error, &error))
    }

    /// Writes out all rows so far: the next may come late.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let flushed = match &mut self.sink {
            Sink::Table(writer) => writer.flush(),
            // It keeps nothing back.
            Sink::Csv(_) => Ok(()),
            Sink::Json(writer) => writer.flush(),
            #[cfg(feature = "formats")]
            Sink::Parquet(_) | Sink::Arrow(_) | Sink::ArrowStream(_) => Ok(()),
        };
        flushed.map_err(|error| failure(&self.name, &self.last_error, &error))
    }

    /// Ends the answer; only now is a file there.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn finish(self) -> Result<()> {
        let Self {
            sink,
            name,
            last_error,
            ..
        } = self;
        let destination = match sink {
            Sink::Table(writer) => writer.finish(),
            Sink::Csv(writer) => writer.finish(),
            Sink::Json(writer) => writer.finish(),
            #[cfg(feature = "formats")]
            Sink::Parquet(writer) => writer.finish(),
            // Both end the file before they return the destination.
            #[cfg(feature = "formats")]
            Sink::Arrow(writer) => writer.into_inner(),
            #[cfg(feature = "formats")]
            Sink::ArrowStream(writer) => writer.into_inner(),
        };
        destination
            .and_then(|destination| destination.finish().map_err(ArrowError::from))
            .map_err(|error| failure(&name, &last_error, &error))
    }
}

/// An error of a writer is one of the system, if the system reported one, and else one of the
/// values: one that the format has no form for.
fn failure(name: &str, last_error: &destination::LastError, error: &ArrowError) -> Failure {
    match (last_error.take(), error) {
        (Some(system), _) => Failure::output(name, &system),
        (None, ArrowError::IoError(_, system)) => Failure::output(name, system),
        (None, error) => Failure::input(format!(
            "{name}: a value cannot be written in this format: {error}"
        )),
    }
}
