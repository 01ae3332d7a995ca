//! Arrays from the texts of a column.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::{DataType, Field, TimeUnit};
use bedload_times::{WrittenCount, WrittenTime, Zone};

use super::converted::parse_values;
use super::infer::{keeps_digits, parse_bool};
use super::json;
use super::numbers::{parse_bounded, parse_float, parse_integer};
use super::records::Texts;

/// Why a text is no value of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    /// No value where there must be one.
    Missing,
    /// No UTF-8.
    NotUtf8,
    /// Not the form of a time.
    NoTime,
    /// Not the form of the column's type, or too large for it.
    NotOfType,
    /// A text of JSON in a column of numbers or booleans.
    Text,
    /// A time with an offset from UTC in a column without zone, or the other way round.
    Zone,
    /// A time that the clocks of its zone never show, or twice.
    Reading,
    /// A time between two ticks of the column's unit.
    TooFine,
    /// A time that the column's ticks do not reach.
    OutOfRange,
}

/// The treatment of a time between two ticks of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::input) enum BetweenTicks {
    /// It is an error.
    Refused,
    /// It is read as the tick before.
    Down,
    /// It is read as the nearest tick, the later one of two.
    Nearest,
}

/// The values of a column.
pub(super) struct Values {
    /// Rows whose text is no value are null in it.
    pub(super) array: ArrayRef,
    /// The rows whose text is no value, ascending, counted from the first text rather than from
    /// the first row of the array.
    pub(super) problems: Vec<(usize, Problem)>,
    /// The rows of the array whose time lay between two ticks, ascending.
    pub(super) between: Vec<usize>,
}

/// The texts of one column in a range of rows.
pub(super) struct Cells<'a> {
    pub(super) texts: Texts<'a>,
    pub(super) rows: Range<usize>,
    /// The column's place among the fields of a record.
    pub(super) place: usize,
    pub(super) field: &'a Field,
    /// Whether the user gave the column's type: values may lose digits in it.
    pub(super) is_given: bool,
    /// Whether the column's type is that of the first rows.
    pub(super) is_inferred: bool,
    /// Texts that stand for no value in CSV; `None` if the records are of JSON.
    pub(super) nulls: Option<&'a [String]>,
    /// The unit of numbers in a column of times, which count from 1970; `None` if they are no
    /// times.
    pub(super) number_unit: Option<TimeUnit>,
    /// The zone on whose clocks times without an offset were read.
    pub(super) clock: Option<&'a Zone>,
    pub(super) between: BetweenTicks,
}

impl<'a> Cells<'a> {
    pub(super) fn parse(&self) -> Values {
        let (array, problems): (ArrayRef, _) = match self.field.data_type() {
            DataType::Boolean => self.booleans(),
            DataType::Int8 => self.integers::<Int8Type>(),
            DataType::Int16 => self.integers::<Int16Type>(),
            DataType::Int32 => self.integers::<Int32Type>(),
            DataType::Int64 => self.integers::<Int64Type>(),
            DataType::UInt8 => self.integers::<UInt8Type>(),
            DataType::UInt16 => self.integers::<UInt16Type>(),
            DataType::UInt32 => self.integers::<UInt32Type>(),
            DataType::UInt64 => self.integers::<UInt64Type>(),
            DataType::Float32 => self.numbers::<Float32Type>(parse_bounded),
            DataType::Float64 => self.numbers::<Float64Type>(parse_float),
            DataType::Date32 => self.primitives::<Date32Type>(parse_date),
            DataType::Timestamp(unit, zone) => {
                let zoned = zone.is_some();
                return match unit {
                    TimeUnit::Second => self.times::<TimestampSecondType>(*unit, zoned),
                    TimeUnit::Millisecond => self.times::<TimestampMillisecondType>(*unit, zoned),
                    TimeUnit::Microsecond => self.times::<TimestampMicrosecondType>(*unit, zoned),
                    TimeUnit::Nanosecond => self.times::<TimestampNanosecondType>(*unit, zoned),
                };
            }
            DataType::Utf8 => {
                let (texts, problems) = self.strings();
                (Arc::new(texts), problems)
            }
            other => self.others(other),
        };
        Values {
            array,
            problems,
            between: Vec::new(),
        }
    }

    /// Gives each row's value, or `None`, to `take`, which returns what is wrong with it.
    fn each(&self, mut take: impl FnMut(Option<&'a str>) -> Result<(), Problem>) -> Vec<(usize, Problem)> {
        let mut problems = Vec::new();
        let is_json = self.nulls.is_none();
        let kind = self.field.data_type();
        // Among the first rows it would have made the column one of texts.
        let refuses_texts = is_json && self.is_inferred && (kind.is_numeric() || *kind == DataType::Boolean);
        for row in self.rows.clone() {
            let (bytes, text) = self.texts.field(row, self.place);
            let taken = if refuses_texts && json::is_text(bytes) {
                take(None).and(Err(Problem::Text))
            } else if self.is_null(bytes) {
                take(None).and(if self.field.is_nullable() {
                    Ok(())
                } else {
                    Err(Problem::Missing)
                })
            } else {
                let text = text.map(|text| if is_json { json::unmarked_text(text) } else { text });
                match text.map(|text| take(Some(text))) {
                    Some(Ok(())) => Ok(()),
                    Some(Err(problem)) => take(None).and(Err(problem)),
                    None => take(None).and(Err(Problem::NotUtf8)),
                }
            };
            if let Err(problem) = taken {
                problems.push((row, problem));
            }
        }
        problems
    }

    /// Whether a field has no value: it is one of the null texts, or empty where an empty text is
    /// no value anyway.
    fn is_null(&self, bytes: &[u8]) -> bool {
        let Some(nulls) = self.nulls else {
            return bytes.is_empty();
        };
        let may_be_empty = matches!(self.field.data_type(), DataType::Utf8 | DataType::Binary);
        (bytes.is_empty() && (nulls.is_empty() || !may_be_empty))
            || nulls.iter().any(|null| null.as_bytes() == bytes)
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        read: impl Fn(&str) -> Result<T::Native, Problem>,
    ) -> (ArrayRef, Vec<(usize, Problem)>) {
        let data_type = self.field.data_type().clone();
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.rows.len()).with_data_type(data_type);
        let problems = self.each(|text| {
            builder.append_option(text.map(&read).transpose()?);
            Ok(())
        });
        (Arc::new(builder.finish()), problems)
    }

    fn times<T: ArrowPrimitiveType<Native = i64>>(&self, unit: TimeUnit, zoned: bool) -> Values {
        let data_type = self.field.data_type().clone();
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.rows.len()).with_data_type(data_type);
        let mut between = Vec::new();
        let problems = self.each(|text| {
            let read = text.map(|text| self.ticks(text, unit, zoned)).transpose()?;
            if read.is_some_and(|(_, is_between)| is_between) {
                between.push(builder.len());
            }
            builder.append_option(read.map(|(ticks, _)| ticks));
            Ok(())
        });
        Values {
            array: Arc::new(builder.finish()),
            problems,
            between,
        }
    }

    /// Ticks since 1970, and whether the time lay between two, of a time that has an offset from
    /// UTC exactly if the column has a zone, or has none and was read on a clock; or of a number of
    /// units since 1970.
    fn ticks(&self, text: &str, unit: TimeUnit, zoned: bool) -> Result<(i64, bool), Problem> {
        let is_nearest = self.between == BetweenTicks::Nearest;
        let ticks = if let Some(written) = WrittenTime::parse(text) {
            let offset_seconds = match (written.offset_seconds, zoned, self.clock) {
                (Some(offset), true, _) => offset,
                (None, false, _) => 0,
                (None, true, Some(clock)) => clock
                    .offset_of(written.local, text)
                    .map_err(|_| Problem::Reading)?,
                (None, true, None) | (Some(_), false, _) => return Err(Problem::Zone),
            };
            match is_nearest {
                true => written.nearest_ticks(offset_seconds, unit),
                false => written.ticks(offset_seconds, unit),
            }
        } else if let (true, Ok(ticks)) = (self.number_unit == Some(unit), text.parse()) {
            Some((ticks, false))
        } else {
            let of = self.number_unit.ok_or(Problem::NoTime)?;
            let count = WrittenCount::parse(text).ok_or(Problem::NoTime)?;
            match is_nearest {
                true => count.nearest_ticks(of, unit),
                false => count.ticks(of, unit),
            }
        };
        match ticks {
            Some((_, true)) if self.between == BetweenTicks::Refused => Err(Problem::TooFine),
            Some(read) => Ok(read),
            None => Err(Problem::OutOfRange),
        }
    }

    fn integers<T: ArrowPrimitiveType<Native: FromStr>>(&self) -> (ArrayRef, Vec<(usize, Problem)>) {
        self.numbers::<T>(parse_integer)
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        parse: impl Fn(&str) -> Option<T::Native>,
    ) -> (ArrayRef, Vec<(usize, Problem)>) {
        let kind = self.field.data_type();
        self.primitives::<T>(|text| {
            parse(text)
                .filter(|_| self.is_given || keeps_digits(text, kind))
                .ok_or(Problem::NotOfType)
        })
    }

    fn booleans(&self) -> (ArrayRef, Vec<(usize, Problem)>) {
        let mut builder = BooleanBuilder::with_capacity(self.rows.len());
        let problems = self.each(|text| {
            builder.append_option(
                text.map(|text| parse_bool(text).ok_or(Problem::NotOfType))
                    .transpose()?,
            );
            Ok(())
        });
        (Arc::new(builder.finish()), problems)
    }

    /// Values of a type that few text files have.
    fn others(&self, kind: &DataType) -> (ArrayRef, Vec<(usize, Problem)>) {
        let (texts, mut problems) = self.strings();
        let is_number = kind.is_floating() || kind.is_decimal();
        let values = match self.is_given || !is_number {
            true => parse_values(&texts, kind),
            false => {
                let kept = texts
                    .iter()
                    .map(|text| text.filter(|text| keeps_digits(text, kind)));
                parse_values(&kept.collect(), kind)
            }
        };
        let unfit = (0..texts.len()).filter(|&row| texts.is_valid(row) && values.is_null(row));
        problems.extend(unfit.map(|row| (self.rows.start + row, Problem::NotOfType)));
        problems.sort_by_key(|&(row, _)| row);
        (values, problems)
    }

    fn strings(&self) -> (StringArray, Vec<(usize, Problem)>) {
        let mut builder = StringBuilder::with_capacity(self.rows.len(), 8 * self.rows.len());
        let problems = self.each(|text| {
            builder.append_option(text);
            Ok(())
        });
        (builder.finish(), problems)
    }
}

/// Days since 1970.
fn parse_date(text: &str) -> Result<i32, Problem> {
    let written = WrittenTime::parse(text).filter(|_| text.len() == "2013-01-01".len());
    let written = written.ok_or(Problem::NotOfType)?;
    let days = written.local.and_utc().timestamp().div_euclid(86_400);
    i32::try_from(days).map_err(|_| Problem::OutOfRange)
}
