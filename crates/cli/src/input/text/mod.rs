//! CSV and JSON lines: records, the types of their columns, and the batches made of them.
//!
//! The types of columns that are not given are inferred from the first [`SAMPLE_ROWS`] rows. A
//! later row that does not fit is an error that names line, column and value, never a silent change
//! of type.

mod ahead;
mod columns;
mod converted;
mod header;
mod infer;
mod json;
mod numbers;
mod plain;
mod quotes;
mod records;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload_times::{WrittenCount, WrittenTime};

pub(super) use self::ahead::RowsAhead;
pub(super) use self::columns::BetweenTicks;
use self::columns::{Cells, Problem};
pub(crate) use self::converted::parse_values;
use self::header::{refuse_undivided, with_names};
pub(crate) use self::infer::keeps_digits;
use self::infer::{NoTime, infer_objects, infer_time, infer_type};
use self::json::ObjectReader;
pub(super) use self::records::RECORD_BYTES_MAX;
use self::records::{RecordReader, Records};
use super::live::Text;
use super::rejects::SKIP;
use super::{Place, Reason, Reject, Wanted, batch_of};
use crate::exit::{Failure, Result, warn};
use crate::schema::type_name;

/// Rows from which types are inferred, at most.
pub(super) const SAMPLE_ROWS: usize = 65_536;

/// Bytes of rows that are held at once, at most, but for one record.
const HELD_BYTES: usize = 64 << 20;

/// The remedy for a number with an exponent in a column of times. Programs that write one round,
/// and spreadsheets do so to a few digits.
const WITHOUT_EXPONENT: &str =
    "write a number of units since 1970 with all its digits, as 1700000000, and no exponent";

/// Whether a text is a number with an exponent.
fn has_exponent(text: &str) -> bool {
    text.contains(['e', 'E']) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Where records come from.
enum Source {
    Csv(Box<RecordReader>),
    Json(Box<ObjectReader>),
}

/// Whether there was another record.
enum Read {
    Record,
    /// There was one, and it cannot be read.
    Rejected(Reject),
    End,
}

/// A text whose records are rows.
pub(super) struct TextRows {
    name: String,
    wanted: Wanted,
    source: Source,
    /// Fields in the header.
    width: usize,
    columns: Vec<Column>,
    schema: SchemaRef,
    /// Records read but not yet made a batch of, from `next_row` on.
    held: Records,
    next_row: usize,
    /// Rows among them that are no records of this text, to be rejected in their turn.
    misshapen: Vec<Misshapen>,
    /// Why a live feed cannot be read on after them.
    failure: Option<Failure>,
}

struct Column {
    /// Its place in the header.
    place: usize,
    field: Field,
    inferred: bool,
    is_given: bool,
    is_time: bool,
    /// The unit of numbers in a column of times, which count from 1970; `None` if they are no
    /// times.
    number_unit: Option<TimeUnit>,
    between: BetweenTicks,
}

/// A row that was left out because it is no record of this text.
struct Misshapen {
    /// The held row that follows it.
    before_row: usize,
    reject: Reject,
}

impl TextRows {
    /// Opens CSV, whose first line names the columns unless they are named already. An empty text,
    /// which JSON without objects may be as well, has the columns of the table and no rows.
    pub(super) fn open_csv(name: String, text: Box<dyn Text>, wanted: Wanted) -> Result<Self> {
        let mut reader = RecordReader::new(name.clone(), text, wanted.delimiter);
        if let Some(header) = wanted.header.clone() {
            let header = with_names(header);
            let rows = Self::open(name, Source::Csv(Box::new(reader)), &header, wanted)?;
            if rows.held.len() == 0 && rows.misshapen.is_empty() {
                warn(&format!("{}: is empty", rows.name));
            }
            return Ok(rows);
        }
        let mut held = Records::default();
        match reader.read(&mut held)? {
            Read::Record => {}
            Read::Rejected(reject) => {
                return Err(Failure::input(format!(
                    "{name}:{}: {}",
                    reject.place, reject.detail
                )));
            }
            Read::End => {
                let Some(table) = wanted.table.clone() else {
                    return Err(Failure::input(format!(
                        "{name}: is empty: CSV names its columns in the first line, JSON in its objects"
                    )));
                };
                warn(&format!("{name}: is empty"));
                let header: Vec<String> = table.fields().iter().map(|field| field.name().clone()).collect();
                return Self::open(name, Source::Csv(Box::new(reader)), &header, wanted);
            }
        }
        let header: Vec<String> = (0..held.width(0))
            .map(|field| std::str::from_utf8(held.field(0, field)).map(|name| name.trim().to_owned()))
            .collect::<Result<_, _>>()
            .map_err(|_| Failure::input(format!("{name}:1: the header is not UTF-8; this is no CSV text")))?;
        let header = with_names(header);
        refuse_undivided(&name, &header, &wanted)?;
        Self::open(name, Source::Csv(Box::new(reader)), &header, wanted)
    }

    /// Opens JSON, one object a line. Columns of the table and those whose type is given need not
    /// appear.
    pub(super) fn open_json(name: String, text: Box<dyn Text>, wanted: Wanted) -> Result<Self> {
        let (reader, header) = ObjectReader::open(name.clone(), text, &wanted)?;
        Self::open(name, Source::Json(Box::new(reader)), &header, wanted)
    }

    fn open(name: String, source: Source, header: &[String], wanted: Wanted) -> Result<Self> {
        let places = wanted.places(&name, header)?;
        let mut rows = Self {
            name,
            wanted,
            source,
            width: header.len(),
            columns: Vec::new(),
            schema: Arc::new(Schema::empty()),
            held: Records::default(),
            next_row: 0,
            misshapen: Vec::new(),
            failure: None,
        };
        let infers = places
            .iter()
            .any(|&place| rows.wanted.known_type(&header[place]).is_none());
        rows.hold(if infers {
            SAMPLE_ROWS
        } else {
            rows.wanted.batch_rows
        })?;
        for place in places {
            let column = rows.column(place, &header[place])?;
            rows.columns.push(column);
        }
        let fields: Vec<Field> = rows.columns.iter().map(|column| column.field.clone()).collect();
        rows.schema = Arc::new(Schema::new(fields));
        Ok(rows)
    }

    /// Settles the type of a column.
    fn column(&self, place: usize, name: &str) -> Result<Column> {
        let is_time = self.wanted.is_time(name);
        let known = self.wanted.known_type(name).cloned();
        let inferred = known.is_none();
        let fields = || (0..self.held.len()).map(|row| self.held.field(row, place));
        let values = || fields().map(|field| self.unmarked(field));
        let data_type = match known {
            Some(data_type) => data_type,
            None if is_time => infer_time(values(), self.wanted.time_unit)
                .map_err(|no_time| self.no_time(name, place, no_time))?,
            None if self.is_json() => infer_objects(fields),
            None => infer_type(values(), &self.wanted.nulls),
        };
        let data_type = match inferred {
            true => self.wanted.on_clock(data_type),
            false => data_type,
        };
        // In a table that exists, a file whose times begin with an integer has ticks of the table's
        // unit, unless others are written as times: then integers are mistakes, as they were to the
        // run that made the table of it.
        let begins_with_ticks = || {
            let is_null = |value: &[u8]| {
                let mut nulls = self.wanted.nulls.iter();
                value.is_empty() || (!self.is_json() && nulls.any(|null| null.as_bytes() == value))
            };
            let mut texts = values()
                .filter(|value| !is_null(value))
                .map(|value| std::str::from_utf8(value).unwrap_or_default());
            texts.next().is_some_and(|text| text.parse::<i64>().is_ok())
                && texts.all(|text| WrittenTime::parse(text).is_none())
        };
        let ticks = match &data_type {
            DataType::Timestamp(unit, _) => Some(*unit),
            _ => None,
        };
        let counts_ticks =
            || self.wanted.given_field(name).is_some() || (is_time && !inferred && begins_with_ticks());
        let number_unit = match self.wanted.time_unit.filter(|_| is_time) {
            Some(unit) => Some(unit),
            None => ticks.filter(|_| counts_ticks()),
        };
        let between = match ticks {
            Some(unit) if is_time => self.wanted.between_ticks(unit),
            _ => BetweenTicks::Refused,
        };
        Ok(Column {
            place,
            between,
            field: Field::new(name, data_type, !is_time && self.wanted.is_nullable(name)),
            inferred,
            is_given: self.wanted.given_field(name).is_some(),
            is_time,
            number_unit,
        })
    }

    /// The unit of integers in the time column, if it is that of the table because nothing else
    /// names it.
    fn assumed_unit(&self) -> Option<TimeUnit> {
        let of_integers = self.columns.iter().filter(|column| column.number_unit.is_some());
        of_integers
            .map(|column| column.field.name())
            .find_map(|name| self.wanted.assumed_unit(name))
    }

    /// Why the type of the time column cannot be inferred.
    fn no_time(&self, name: &str, place: usize, no_time: NoTime) -> Failure {
        let file = &self.name;
        let remedy = format!("give it with --schema '{name}:timestamp(…)'");
        let message = match no_time {
            NoTime::Numbers => {
                return Failure::input(format!(
                    "{file}: column {name} holds numbers: say what one unit is, with --time-unit s, ms, us or ns"
                ));
            }
            NoTime::Texts if self.held_rows() == 0 => {
                return Failure::input(format!(
                    "{file}: no rows to tell the type of column {name}: {remedy}"
                ));
            }
            NoTime::Texts if self.held.len() > 0 => {
                let line = self.field_line(0, place);
                match String::from_utf8_lossy(self.unmarked(self.held.field(0, place))) {
                    text if text.is_empty() => format!("{file}:{line}: no time in column {name}"),
                    text => {
                        let detail = format!("`{}` in column {name} is not a time", excerpt(&text));
                        match has_exponent(&text) {
                            true => format!("{file}:{line}: {detail}; {WITHOUT_EXPONENT}"),
                            false => format!("{file}:{line}: {detail}"),
                        }
                    }
                }
            }
            NoTime::Texts => {
                let misshapen = self.misshapen.iter().map(|row| &row.reject);
                let first = misshapen
                    .map(|reject| format!("{file}:{}: {}", reject.place, reject.detail))
                    .next();
                first.unwrap_or_default()
            }
        };
        Failure::input(message).with_note(&format!(
            "the first rows do not tell the type of the column: {remedy}"
        ))
    }

    fn is_json(&self) -> bool {
        matches!(self.source, Source::Json(_))
    }

    /// A field as it is shown and read.
    fn unmarked<'a>(&self, field: &'a [u8]) -> &'a [u8] {
        if self.is_json() {
            json::unmarked(field)
        } else {
            field
        }
    }

    /// The line on which a field of a held row begins.
    fn field_line(&self, row: usize, place: usize) -> u64 {
        match self.source {
            Source::Csv(_) => self.held.field_line(row, place),
            Source::Json(_) => self.held.line(row),
        }
    }

    /// Reads `rows` records, misshapen ones among them, or as many as memory allows; of a live feed
    /// those that come in time.
    fn hold(&mut self, rows: usize) -> Result<()> {
        match self.read_records(rows) {
            // Rows that have come are committed first.
            Err(failure) if self.wanted.follow.is_some() && self.held_rows() > 0 => {
                self.failure = Some(failure);
                Ok(())
            }
            read => read,
        }
    }

    /// Records that are held, and misshapen ones among them.
    fn held_rows(&self) -> usize {
        self.held.len() + self.misshapen.len()
    }

    fn read_records(&mut self, rows: usize) -> Result<()> {
        let mut until = None;
        while self.held_rows() < rows && self.held.bytes() < HELD_BYTES {
            if self.held_rows() > 0 {
                until = until.or_else(|| self.wanted.batch_end());
            }
            let has_come = match &mut self.source {
                Source::Csv(reader) => reader.await_record(until)?,
                Source::Json(reader) => reader.await_record(until)?,
            };
            if !has_come {
                break;
            }
            let read = match &mut self.source {
                Source::Csv(reader) => reader.read(&mut self.held)?,
                Source::Json(reader) => reader.read(&mut self.held)?,
            };
            match read {
                Read::Record => {}
                Read::Rejected(reject) => {
                    let before_row = self.held.len();
                    self.misshapen.push(Misshapen { before_row, reject });
                    continue;
                }
                Read::End => break,
            }
            let last = self.held.len() - 1;
            let width = self.held.width(last);
            if width != self.width {
                let reject = Reject {
                    place: Place::Line(self.held.line(last)),
                    reason: Reason::FieldCount,
                    detail: format!("{width} fields, where the header has {}", self.width),
                    remedy: Some(SKIP.to_owned()),
                };
                self.misshapen.push(Misshapen {
                    before_row: last,
                    reject,
                });
                self.held.pop();
            }
        }
        Ok(())
    }

    /// Why the value in `column` of a held row was not understood.
    fn reject(&self, row: usize, column: &Column, problem: &Problem) -> Reject {
        let name = column.field.name();
        let place = Place::Line(self.field_line(row, column.place));
        let text = String::from_utf8_lossy(self.unmarked(self.held.field(row, column.place)));
        let type_name = type_name(column.field.data_type());
        let quoted = excerpt(&text);
        let detail = match problem {
            Problem::Missing => return Reject::missing(place, name, column.is_time),
            Problem::NotUtf8 => format!("column {name} holds bytes that are not UTF-8"),
            Problem::NoTime => format!("`{quoted}` in column {name} is not a time"),
            Problem::NotOfType => format!("`{quoted}` in column {name} is not of type {type_name}"),
            Problem::Text => format!("the text `{quoted}` in column {name} is not of type {type_name}"),
            Problem::Zone => {
                let has = WrittenTime::parse(&text).is_some_and(|time| time.offset_seconds.is_some());
                let has = if has { "has" } else { "lacks" };
                format!("`{quoted}` in column {name} {has} an offset from UTC, unlike its type {type_name}")
            }
            Problem::Reading => {
                let clock = self.wanted.clock.as_ref();
                let read = WrittenTime::parse(&text).zip(clock);
                let read = read.map(|(time, clock)| clock.offset_of(time.local, &quoted));
                match read {
                    Some(Err(error)) => format!("column {name}: {error}"),
                    _ => format!("`{quoted}` in column {name} is not a time"),
                }
            }
            Problem::TooFine => format!("`{quoted}` in column {name} is finer than its type {type_name}"),
            Problem::OutOfRange => format!("`{quoted}` in column {name} is beyond the range of {type_name}"),
        };
        let remedy = match problem {
            Problem::NotUtf8 => Some(SKIP.to_owned()),
            Problem::NoTime if has_exponent(&text) => Some(format!("{WITHOUT_EXPONENT}; else {SKIP}")),
            Problem::NoTime if WrittenCount::parse(&text).is_some() && column.is_time => Some(format!(
                "if numbers count units since 1970, say which with --time-unit s, ms, us or ns; else {SKIP}"
            )),
            Problem::NoTime if WrittenCount::parse(&text).is_some() => {
                let given = if column.inferred {
                    "timestamp(…)"
                } else {
                    &type_name
                };
                Some(format!(
                    "if numbers count units since 1970, give the type with --schema '{name}:{given}'; else {SKIP}"
                ))
            }
            Problem::Zone if matches!(column.field.data_type(), DataType::Timestamp(_, Some(_))) => {
                Some(format!(
                    "say on the clocks of which zone times without one were read, with --time-zone; else {SKIP}"
                ))
            }
            _ if column.inferred => Some(format!(
                "the type was inferred from the first rows: give another with --schema '{name}:…', or {SKIP}"
            )),
            _ => Some(SKIP.to_owned()),
        };
        let reason = match problem {
            Problem::NotUtf8 => Reason::NotUtf8,
            _ if column.is_time => Reason::UnreadableTime,
            _ => Reason::UnreadableValue { column: name.clone() },
        };
        Reject {
            place,
            reason,
            detail,
            remedy,
        }
    }

    /// Which of the held `rows`, and of the misshapen ones between them, are left out and why, in
    /// the order of the file.
    fn rejected(&mut self, rows: Range<usize>, problems: &[Option<(usize, Problem)>]) -> Vec<Reject> {
        let at_end = rows.end == self.held.len();
        let due = self
            .misshapen
            .partition_point(|row| row.before_row < rows.end || at_end);
        let mut misshapen = self
            .misshapen
            .drain(..due)
            .collect::<Vec<_>>()
            .into_iter()
            .peekable();
        let mut rejected = Vec::new();
        for (row, problem) in rows.zip(problems) {
            while let Some(left_out) = misshapen.next_if(|left_out| left_out.before_row <= row) {
                rejected.push(left_out.reject);
            }
            if let Some((column, problem)) = problem {
                rejected.push(self.reject(row, &self.columns[*column], problem));
            }
        }
        rejected.extend(misshapen.map(|left_out| left_out.reject));
        rejected
    }

    /// Reads and parses the next rows.
    fn next(&mut self) -> Result<Parsed> {
        if self.next_row == self.held.len() {
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            self.held.clear();
            self.next_row = 0;
            self.hold(self.wanted.batch_rows)?;
        }
        let rows = self.next_row..self.held.len().min(self.next_row + self.wanted.batch_rows);
        self.next_row = rows.end;

        // The first problem of each row, in the order of rows.
        let mut problems: Vec<Option<(usize, Problem)>> = Vec::new();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        let mut between = Vec::new();
        let texts = self.held.texts(rows.clone());
        for (index, column) in self.columns.iter().enumerate() {
            let cells = Cells {
                texts,
                rows: rows.clone(),
                place: column.place,
                field: &column.field,
                is_given: column.is_given,
                is_inferred: column.inferred,
                nulls: (!self.is_json()).then_some(self.wanted.nulls.as_slice()),
                number_unit: column.number_unit,
                clock: self.wanted.clock.as_ref(),
                between: column.between,
            };
            let values = cells.parse();
            arrays.push(values.array);
            between.extend(values.between);
            if !values.problems.is_empty() {
                problems.resize_with(rows.len(), || None);
            }
            for (row, problem) in values.problems {
                problems[row - rows.start].get_or_insert((index, problem));
            }
        }

        let first_problem = problems.iter().position(Option::is_some);
        let first_misshapen = self.misshapen.first().map(|row| row.before_row - rows.start);
        let first_rejected = first_problem.into_iter().chain(first_misshapen).min();
        let rejected = self.rejected(rows.clone(), &problems);
        let keep: Option<BooleanArray> =
            (!problems.is_empty()).then(|| problems.iter().map(|problem| Some(problem.is_none())).collect());
        // No batch is the end of the text.
        let batch = (!rows.is_empty() || !rejected.is_empty())
            .then(|| batch_of(&self.schema, arrays, rows.len(), keep.as_ref()))
            .transpose();
        Ok(Parsed {
            line: rows.clone().next().map_or(0, |row| self.held.line(row)),
            rows_before_rejected: first_rejected.unwrap_or(rows.len()).min(rows.len()),
            rejected,
            between: places_among_kept(between, &problems),
            batch: batch.map_err(internal)?,
        })
    }
}

/// The next rows of a text.
struct Parsed {
    /// The line on which they begin.
    line: u64,
    /// How many of the batch come before the first row that cannot be taken.
    rows_before_rejected: usize,
    /// The rows that cannot be taken, in the order of the text.
    rejected: Vec<Reject>,
    /// The rows of the batch whose time was moved to a tick.
    between: Vec<usize>,
    /// The others; `None` at the end of the text.
    batch: Option<RecordBatch>,
}

/// The places that some rows have among those without a problem.
fn places_among_kept(rows: Vec<usize>, problems: &[Option<(usize, Problem)>]) -> Vec<usize> {
    if problems.is_empty() {
        return rows;
    }
    let mut kept = 0..;
    let places: Vec<Option<usize>> = problems
        .iter()
        .map(|problem| problem.is_none().then(|| kept.next()).flatten())
        .collect();
    rows.into_iter().filter_map(|row| places[row]).collect()
}

/// Arrays of the right length and type make a batch, and can be filtered.
fn internal(error: arrow_schema::ArrowError) -> Failure {
    Failure::input(format!("rows do not form a batch: {error}"))
}

/// The beginning of a value, short enough for a line of a terminal.
pub(crate) fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
