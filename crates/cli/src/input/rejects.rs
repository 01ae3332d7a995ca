//! Rows that cannot be taken: the first ends the run, or all are left out, counted, and the first
//! few listed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::exit::{Failure, Result};
use crate::figures::{grouped, rows_text};
use crate::printable::printable;

/// Rejected rows that are listed one by one; the rest is only counted.
const LISTED: usize = 10;

/// The remedy for any row that is rejected.
pub(crate) const SKIP: &str = "--on-error skip leaves such rows out";

/// The treatment of a row that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// End with an error and leave the store as it was
    Fail,
    /// Leave the row out, list the first few and count all
    Skip,
}

/// Where in a file a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A line of a text, counted from 1.
    Line(u64),
    /// A line of a text and a column of that line, both counted from 1.
    Column(u64, usize),
    /// The number, counted from 1, of a row of a text among the readable ones from a line on, and
    /// that line.
    FromLine(usize, u64),
    /// A row of a file that has no lines, counted from 1.
    #[cfg(feature = "formats")]
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "{line}"),
            Self::Column(line, column) => write!(f, "{line}:{column}"),
            Self::FromLine(row, line) => write!(f, " row {row} of those from line {line}"),
            #[cfg(feature = "formats")]
            Self::Row(row) => write!(f, " row {row}"),
        }
    }
}

/// Why a row cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The time column is empty.
    NoTime,
    /// The time column holds something else than a time of the column's type.
    UnreadableTime,
    /// Another column that must have values is empty.
    NoValue {
        /// That column.
        column: String,
    },
    /// Another column holds something else than a value of its type.
    UnreadableValue {
        /// That column.
        column: String,
    },
    /// The row has more or fewer fields than the header.
    FieldCount,
    /// A field in quotes goes on after them.
    Quotes,
    /// The row is longer than the table's rows may be.
    TooLong,
    /// A field is no UTF-8.
    NotUtf8,
    /// The line is no JSON object.
    NotAnObject,
    /// A JSON object names a column that the first rows did not have.
    UnknownColumn,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTime => f.write_str("missing time"),
            Self::NoValue { column } => write!(f, "missing value in {column}"),
            Self::UnreadableTime => f.write_str("unreadable time"),
            Self::UnreadableValue { column } => write!(f, "unreadable value in {column}"),
            Self::TooLong => f.write_str("too long"),
            Self::FieldCount => f.write_str("wrong number of fields"),
            Self::Quotes => f.write_str("text after a closing quote"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::NotAnObject => f.write_str("not a JSON object"),
            Self::UnknownColumn => f.write_str("unknown column"),
        }
    }
}

/// A row that cannot be taken.
#[derive(Debug)]
pub(crate) struct Reject {
    pub(crate) place: Place,
    pub(crate) reason: Reason,
    /// The reason in full: the value, the column, what was expected.
    pub(crate) detail: String,
    /// The remedy, if it is worth naming when the run ends here.
    pub(crate) remedy: Option<String>,
}

impl Reject {
    /// A row without a value in a column that must have one.
    pub(crate) fn missing(place: Place, column: &str, is_time: bool) -> Self {
        let (reason, detail) = if is_time {
            (Reason::NoTime, format!("no time in column {column}"))
        } else {
            let column = column.to_owned();
            let detail = format!("no value in column {column}, which must have one");
            (Reason::NoValue { column }, detail)
        };
        Self {
            place,
            reason,
            detail,
            remedy: Some(SKIP.to_owned()),
        }
    }
}

/// The rows that were not taken.
#[derive(Debug)]
pub(crate) struct Rejects {
    on_error: OnError,
    listed: Vec<String>,
    by_reason: BTreeMap<Reason, u64>,
}

impl Rejects {
    pub(crate) fn new(on_error: OnError) -> Self {
        Self {
            on_error,
            listed: Vec::new(),
            by_reason: BTreeMap::new(),
        }
    }

    /// Takes note of a row of `file`, or makes an error of it.
    pub(crate) fn reject(&mut self, file: &str, reject: Reject) -> Result<()> {
        let Reject {
            place,
            reason,
            detail,
            remedy,
        } = reject;
        if self.on_error == OnError::Fail {
            let failure = Failure::input(format!("{file}:{place}: {detail}"));
            return Err(match remedy {
                Some(remedy) => failure.with_note(&remedy),
                None => failure,
            });
        }
        if self.listed.len() < LISTED {
            self.listed.push(format!("{file}:{place}: {detail}"));
        }
        *self.by_reason.entry(reason).or_default() += 1;
        Ok(())
    }

    /// Rows left out, for whatever reason.
    pub(crate) fn rows(&self) -> u64 {
        self.by_reason.values().sum()
    }

    /// How many rows were left out for each reason.
    pub(crate) fn by_reason(&self) -> &BTreeMap<Reason, u64> {
        &self.by_reason
    }

    /// Writes what was left out to standard error, if anything was: it is no part of a command's
    /// answer.
    pub(crate) fn print(&self) {
        if self.by_reason.is_empty() {
            return;
        }
        let mut text = format!("{} skipped:", rows_text(self.rows()));
        if self.by_reason.len() == 1 {
            for reason in self.by_reason.keys() {
                text += &format!(" {}\n", printable(&reason.to_string()));
            }
        } else {
            text.push('\n');
            for (reason, rows) in &self.by_reason {
                text += &format!("{:>11} {}\n", grouped(*rows), printable(&reason.to_string()));
            }
        }
        for row in &self.listed {
            text += &format!("  {}\n", printable(row));
        }
        if self.rows() > self.listed.len() as u64 {
            text += "  …\n";
        }
        let _ = io::stderr().write_all(text.as_bytes());
    }

    pub(crate) fn json(&self) -> Value {
        let by_reason: Map<String, Value> = self
            .by_reason
            .iter()
            .map(|(reason, rows)| (reason.to_string(), (*rows).into()))
            .collect();
        json!({ "rows": self.rows(), "by_reason": by_reason, "first": self.listed })
    }
}
