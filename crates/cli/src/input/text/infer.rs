//! The type of a column, told from its values.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use bedload_times::{WrittenTime, unit_for_digits};

use super::json;

/// The types that all values seen so far could have.
struct Candidates {
    values: u64,
    boolean: bool,
    int64: bool,
    uint64: bool,
    float64: bool,
    date: bool,
    timestamp: bool,
    /// Whether values so far had an offset from UTC; must be the same for all.
    zoned: Option<bool>,
    fraction_digits: usize,
}

/// Why the values of the time column tell no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTime {
    /// They are integers, and nobody said what one unit is.
    Integers,
    /// None is a time.
    Texts,
}

/// The type of the time column: the coarsest that keeps the times among `values`, with a zone if
/// the first has an offset from UTC. Values that are no such time do not count here; their rows are
/// rejected one by one. Integers are times if `unit` says of what.
pub(super) fn infer_time<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    unit: Option<TimeUnit>,
) -> Result<DataType, NoTime> {
    let mut zoned = None;
    let mut fraction_digits = 0;
    let mut integers = false;
    for text in values.filter_map(|value| std::str::from_utf8(value).ok()) {
        if let Some(time) = WrittenTime::parse(text) {
            let has_offset = time.offset_seconds.is_some();
            if *zoned.get_or_insert(has_offset) == has_offset {
                fraction_digits = fraction_digits.max(time.fraction_digits);
            }
        } else {
            integers |= text.parse::<i64>().is_ok();
        }
    }
    match (zoned, unit) {
        (Some(zoned), unit) => {
            let unit = unit.unwrap_or(unit_for_digits(fraction_digits));
            Ok(DataType::Timestamp(unit, zoned.then(|| Arc::from("UTC"))))
        }
        (None, Some(unit)) if integers => Ok(DataType::Timestamp(unit, None)),
        (None, None) if integers => Err(NoTime::Integers),
        (None, _) => Err(NoTime::Texts),
    }
}

/// The narrowest type that holds all `values` as they are written: a number with leading zeros is a
/// text, because a number would lose them. Values in `nulls`, and empty ones, tell nothing.
pub(super) fn infer_type<'a>(values: impl Iterator<Item = &'a [u8]>, nulls: &[String]) -> DataType {
    let mut candidates = Candidates {
        values: 0,
        boolean: true,
        int64: true,
        uint64: true,
        float64: true,
        date: true,
        timestamp: true,
        zoned: None,
        fraction_digits: 0,
    };
    for value in values {
        if value.is_empty() || nulls.iter().any(|null| null.as_bytes() == value) {
            continue;
        }
        match std::str::from_utf8(value) {
            Ok(text) => candidates.narrow(text),
            Err(_) => return DataType::Utf8,
        }
        if candidates.is_text() {
            return DataType::Utf8;
        }
    }
    candidates.narrowest()
}

/// The type of a column of JSON: that of its numbers and booleans; a time or a date if it has texts
/// alone and all are such; else text.
pub(super) fn infer_objects<'a, I: Iterator<Item = &'a [u8]>>(fields: impl Fn() -> I) -> DataType {
    let of_values = || fields().filter(|field| !field.is_empty());
    let inferred = infer_type(of_values().map(json::unmarked), &[]);
    let (texts, others) = (
        of_values().any(json::is_text),
        of_values().any(|field| !json::is_text(field)),
    );
    let has_empty_text = of_values().any(|field| json::unmarked(field).is_empty());
    match inferred {
        DataType::Date32 | DataType::Timestamp(..) if !others && !has_empty_text => inferred,
        DataType::Date32 | DataType::Timestamp(..) => DataType::Utf8,
        inferred if !texts => inferred,
        _ => DataType::Utf8,
    }
}

impl Candidates {
    fn narrow(&mut self, text: &str) {
        self.values += 1;
        self.boolean = self.boolean && parse_bool(text).is_some();
        let plain = !has_leading_zeros(text);
        self.int64 = self.int64 && plain && text.parse::<i64>().is_ok();
        self.uint64 = self.uint64 && plain && text.parse::<u64>().is_ok();
        self.float64 = self.float64 && plain && is_float(text);
        if self.date || self.timestamp {
            let written = WrittenTime::parse(text);
            self.date = self.date && written.is_some() && text.len() == "2013-01-01".len();
            match written {
                Some(time) => {
                    let zoned = time.offset_seconds.is_some();
                    self.timestamp = self.timestamp && *self.zoned.get_or_insert(zoned) == zoned;
                    self.fraction_digits = self.fraction_digits.max(time.fraction_digits);
                }
                None => self.timestamp = false,
            }
        }
    }

    fn is_text(&self) -> bool {
        !(self.boolean || self.int64 || self.uint64 || self.float64 || self.date || self.timestamp)
    }

    fn narrowest(&self) -> DataType {
        if self.values == 0 {
            return DataType::Utf8;
        }
        if self.boolean {
            return DataType::Boolean;
        }
        if self.int64 {
            return DataType::Int64;
        }
        if self.uint64 {
            return DataType::UInt64;
        }
        if self.float64 {
            return DataType::Float64;
        }
        if self.date {
            return DataType::Date32;
        }
        if self.timestamp {
            let zone = (self.zoned == Some(true)).then(|| Arc::from("UTC"));
            return DataType::Timestamp(unit_for_digits(self.fraction_digits), zone);
        }
        DataType::Utf8
    }
}

/// Reads `true` and `false`.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Whether a text is written as a float: digits, or the words that CSV files use for what has none.
/// A number of more digits than a float keeps is refused if it has nothing but digits.
fn is_float(text: &str) -> bool {
    let digits_only = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+');
    text.parse::<f64>().is_ok() && !(digits_only && text.len() > 15 && text.parse::<i64>().is_err())
}

fn has_leading_zeros(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(values: &[&str]) -> String {
        let values = values.iter().map(|value| value.as_bytes());
        crate::schema::type_name(&infer_type(values, &["NA".to_owned()]))
    }

    #[test]
    fn the_narrowest_type_that_loses_nothing() {
        assert_eq!(infer(&["1", "-2", "", "NA"]), "int64");
        assert_eq!(infer(&["1", "18446744073709551615"]), "uint64");
        assert_eq!(infer(&["-1", "18446744073709551615"]), "utf8");
        assert_eq!(infer(&["1", "2.5", "1e300", "NaN"]), "float64");
        assert_eq!(infer(&["0", "0.5", "-0.5"]), "float64");
        assert_eq!(infer(&["10001", "00501"]), "utf8", "post codes");
        assert_eq!(infer(&["true", "False"]), "bool");
        assert_eq!(infer(&["true", "1"]), "utf8");
        assert_eq!(infer(&["2013-01-01", "2013-01-02"]), "date32");
        assert_eq!(infer(&["2013-01-01", "2013-01-02 10:00:00"]), "timestamp(s)");
        assert_eq!(
            infer(&["2013-01-01T10:00:00Z", "2013-01-02T10:00:00.25+01:00"]),
            "timestamp(ms, UTC)"
        );
        assert_eq!(infer(&["2013-01-01T10:00:00.0000001"]), "timestamp(ns)");
        assert_eq!(
            infer(&["2013-01-01T10:00:00Z", "2013-01-02T10:00:00"]),
            "utf8",
            "one with, one without"
        );
        assert_eq!(infer(&["", "NA"]), "utf8");
        assert_eq!(infer(&[]), "utf8");
    }

    #[test]
    fn the_time_column_is_told_by_its_times() {
        let infer = |values: &[&str], unit| {
            infer_time(values.iter().map(|value| value.as_bytes()), unit)
                .map(|data_type| crate::schema::type_name(&data_type))
        };
        let type_of = |name: &str| Ok(name.to_owned());
        assert_eq!(infer(&["2013-01-01"], None), type_of("timestamp(s)"));
        assert_eq!(
            infer(&["soon", "", "2013-01-01 00:00:00.25", "17"], None),
            type_of("timestamp(ms)")
        );
        assert_eq!(
            infer(&["2013-01-01T00:00:00Z", "2013-01-01 00:00:00.25"], None),
            type_of("timestamp(s, UTC)")
        );
        assert_eq!(
            infer(&["17"], Some(TimeUnit::Millisecond)),
            type_of("timestamp(ms)")
        );
        assert_eq!(
            infer(&["2013-01-01"], Some(TimeUnit::Nanosecond)),
            type_of("timestamp(ns)")
        );
        assert_eq!(infer(&["", "17"], None), Err(NoTime::Integers));
        assert_eq!(infer(&["", "soon"], Some(TimeUnit::Second)), Err(NoTime::Texts));
        assert_eq!(infer(&[], None), Err(NoTime::Texts));
    }
}
