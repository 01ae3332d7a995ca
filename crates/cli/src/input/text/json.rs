//! JSON, one object a line: rows whose fields have names, and whose texts are told from numbers.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::records::{RECORD_BYTES_MAX, Records};
use super::{HELD_BYTES, Read as Next, SAMPLE_ROWS, SKIP};
use crate::exit::{Failure, Result};
use crate::input::bytes::text_failure;
use crate::input::live::Text;
use crate::input::{COLUMNS_MAX, Place, Reason, Reject, Wanted};

/// The first byte of a field that is a text; fields of other values begin otherwise, and one
/// without value is empty.
const TEXT: u8 = b'"';

/// Reads objects. Blank lines are passed over.
pub(super) struct ObjectReader {
    name: String,
    text: Box<dyn Text>,
    /// The line on which the next byte of `text` stands.
    line: u64,
    /// The first lines, which told the names of the columns.
    sample: VecDeque<Line>,
    /// The place of each name among the fields of a record.
    places: HashMap<String, usize>,
    others: Others,
    fields: Vec<Vec<u8>>,
}

/// How a name that has no place is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// It is left out: `--columns` does not name it.
    LeftOut,
    /// It is an error of its row, because the table has no such column.
    NotInTable,
    /// It is an error of its row, because none of the first rows has it.
    TooLate,
}

impl Others {
    fn of(wanted: &Wanted) -> Self {
        match (&wanted.columns, &wanted.table) {
            (Some(_), _) => Self::LeftOut,
            (None, Some(_)) => Self::NotInTable,
            (None, None) => Self::TooLate,
        }
    }

    /// The error of a row with the name, if it is one.
    fn reject(self, name: &str, line: u64) -> Option<Reject> {
        let (detail, remedy) = match self {
            Self::LeftOut => return None,
            Self::NotInTable => (
                format!("the table has no column {name}"),
                format!("leave it out with --columns, or add it to the table with add-columns; {SKIP}"),
            ),
            Self::TooLate => (
                format!("column {name} is in no row before; name the columns to load with --columns"),
                SKIP.to_owned(),
            ),
        };
        Some(Reject {
            place: Place::Line(line),
            reason: Reason::UnknownColumn,
            detail,
            remedy: Some(remedy),
        })
    }
}

/// The names of the columns if they, and their types, are known without the rows: those of
/// `--columns`, else those of the table.
fn known_names(wanted: &Wanted) -> Option<Vec<String>> {
    let given = wanted.given.iter().map(|field| field.name().clone());
    let names: Vec<String> = match (&wanted.columns, &wanted.table) {
        (Some(columns), _) => columns.iter().cloned().chain(given).collect(),
        (None, Some(table)) => {
            let of_table = table.fields().iter().map(|field| field.name().clone());
            of_table.chain(given).collect()
        }
        (None, None) => return None,
    };
    let are_known = names.iter().all(|name| wanted.known_type(name).is_some());
    are_known.then_some(names)
}

struct Line {
    number: u64,
    bytes: Vec<u8>,
}

impl ObjectReader {
    /// Settles the names of the columns, which are returned. If they and their types are known, no
    /// row is awaited: the next may come late.
    pub(super) fn open(name: String, text: Box<dyn Text>, wanted: &Wanted) -> Result<(Self, Vec<String>)> {
        let mut reader = Self {
            name,
            text,
            line: 1,
            sample: VecDeque::new(),
            places: HashMap::new(),
            others: Others::of(wanted),
            fields: Vec::new(),
        };
        let names = match known_names(wanted) {
            Some(known) => {
                let mut names = Vec::new();
                for name in known {
                    reader.learn(name, &mut names);
                }
                names
            }
            None => reader.sampled_names(wanted)?,
        };
        reader.fields.resize(names.len(), Vec::new());
        Ok((reader, names))
    }

    /// Reads the first objects for the names of their values, which are returned in the order in
    /// which they appear, or in that of `--columns`. Names of the table and those whose type is
    /// given may appear in none.
    fn sampled_names(&mut self, wanted: &Wanted) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut bytes = 0;
        let mut until = None;
        while self.sample.len() < SAMPLE_ROWS && bytes < HELD_BYTES {
            match self.await_line(until) {
                Ok(true) => {}
                Ok(false) => break,
                // It is met again after the rows so far.
                Err(failure) if failure.status().is_signal() && !self.sample.is_empty() => break,
                Err(failure) => return Err(failure),
            }
            let Some(line) = self.next_line()? else { break };
            until = until.or_else(|| wanted.batch_end());
            bytes += line.bytes.len();
            // A line that is no object is rejected in its turn.
            if let Ok(object) = parse(&line) {
                for (name, _) in object.0 {
                    if names.len() < COLUMNS_MAX || wanted.names(&name) {
                        self.learn(name, &mut names);
                    } else if self.others != Others::LeftOut && !self.places.contains_key(&name) {
                        return Err(Failure::input(format!(
                            "{}:{}: over {COLUMNS_MAX} names so far, and a table has at most so many \
                             columns: choose some with --columns",
                            self.name, line.number
                        )));
                    }
                }
            }
            self.sample.push_back(line);
        }
        let of_table = wanted
            .table
            .iter()
            .flat_map(|table| table.fields())
            .map(Arc::as_ref);
        for field in of_table.chain(&wanted.given) {
            self.learn(field.name().clone(), &mut names);
        }
        if names.is_empty()
            && let Some(Err(reject)) = self.sample.front().map(parse)
        {
            return Err(Failure::input(format!(
                "{}:{}: {}; the first lines name no column: give --columns, and the types with --schema",
                self.name, reject.place, reject.detail
            )));
        }
        if self.others == Others::LeftOut {
            return self.keep(&names, wanted);
        }
        Ok(names)
    }

    fn learn(&mut self, name: String, names: &mut Vec<String>) {
        if let Entry::Vacant(entry) = self.places.entry(name) {
            names.push(entry.key().clone());
            entry.insert(names.len() - 1);
        }
    }

    /// Forgets the names that are not asked for, because each takes memory in every row. Returns
    /// the others.
    fn keep(&mut self, names: &[String], wanted: &Wanted) -> Result<Vec<String>> {
        let columns = wanted.places(&self.name, names)?;
        let columns = columns.into_iter().map(|place| &names[place]);
        let given = wanted.given.iter().map(|field| field.name());
        self.places.clear();
        let mut kept = Vec::new();
        for name in columns.chain(given) {
            self.learn(name.clone(), &mut kept);
        }
        Ok(kept)
    }

    /// Waits for the next row of a live feed; `false` if the time is up first.
    pub(super) fn await_record(&mut self, until: Option<Instant>) -> Result<bool> {
        Ok(!self.sample.is_empty() || self.await_line(until)?)
    }

    fn await_line(&mut self, until: Option<Instant>) -> Result<bool> {
        let awaited = self.text.await_line(until);
        awaited.map_err(|error| text_failure(&self.name, &error))
    }

    /// Appends the next row to `records`.
    pub(super) fn read(&mut self, records: &mut Records) -> Result<Next> {
        let line = match self.sample.pop_front() {
            Some(line) => line,
            None => match self.next_line()? {
                Some(line) => line,
                None => return Ok(Next::End),
            },
        };
        match self.take(&line) {
            Ok(()) => {
                records.push(line.number, &self.fields);
                Ok(Next::Record)
            }
            Err(reject) => Ok(Next::Rejected(reject)),
        }
    }

    /// Reads the fields of a line.
    fn take(&mut self, line: &Line) -> Result<(), Reject> {
        self.fields.iter_mut().for_each(Vec::clear);
        for (name, value) in parse(line)?.0 {
            let Some(&place) = self.places.get(&name) else {
                match self.others.reject(&name, line.number) {
                    Some(reject) => return Err(reject),
                    None => continue,
                }
            };
            let field = &mut self.fields[place];
            field.clear();
            match value.get() {
                "null" => {}
                text if text.starts_with('"') => {
                    let text: String =
                        serde_json::from_str(text).map_err(|error| not_json(line.number, &error))?;
                    field.push(TEXT);
                    field.extend_from_slice(text.as_bytes());
                }
                other => field.extend_from_slice(other.as_bytes()),
            }
        }
        Ok(())
    }

    /// The next line that is not blank, without its end.
    fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let most = RECORD_BYTES_MAX as u64 + 1;
            (&mut self.text)
                .take(most)
                .read_until(b'\n', &mut bytes)
                .map_err(|error| text_failure(&self.name, &error))?;
            if bytes.len() > RECORD_BYTES_MAX {
                let (name, line, mib) = (&self.name, self.line, RECORD_BYTES_MAX >> 20);
                return Err(Failure::input(format!("{name}:{line}: a line of over {mib} MiB")));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            let number = self.line;
            self.line += 1;
            if number == 1 && bytes.starts_with("\u{feff}".as_bytes()) {
                bytes.drain(..'\u{feff}'.len_utf8());
            }
            if !bytes.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(Line { number, bytes }));
            }
        }
    }
}

/// Whether a field is a text.
pub(super) fn is_text(field: &[u8]) -> bool {
    field.first() == Some(&TEXT)
}

/// A field without the mark of a text.
pub(super) fn unmarked(field: &[u8]) -> &[u8] {
    field.strip_prefix(&[TEXT]).unwrap_or(field)
}

/// The same of a field that is UTF-8.
pub(super) fn unmarked_text(field: &str) -> &str {
    field.strip_prefix(char::from(TEXT)).unwrap_or(field)
}

fn parse(line: &Line) -> Result<Object<'_>, Reject> {
    serde_json::from_slice(&line.bytes).map_err(|error| not_json(line.number, &error))
}

fn not_json(line: u64, error: &serde_json::Error) -> Reject {
    let message = error.to_string();
    let message = message
        .rfind(" at line ")
        .map_or(&*message, |end| &message[..end]);
    let place = match error.column() {
        // The reader names no column if the line begins with another kind of value than an object,
        // or ends too early.
        0 => Place::Line(line),
        column => Place::Column(line, column),
    };
    Reject {
        place,
        reason: Reason::NotAnObject,
        detail: format!("not a JSON object on a line of its own: {message}"),
        remedy: Some(SKIP.to_owned()),
    }
}

/// The values of an object, as they are written.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the values of a row by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = map.next_entry()? {
                    values.push(value);
                }
                Ok(Object(values))
            }
        }
        deserializer.deserialize_map(Values)
    }
}
