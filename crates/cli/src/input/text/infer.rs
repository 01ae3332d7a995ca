//! The type of a column, told from its values.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use bedload_times::{WrittenCount, WrittenTime, digits_of_unit, unit_for_digits};

use super::json;
use super::numbers::parse_float;

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
    /// Whether some time is one that nanoseconds do not reach.
    beyond_nanoseconds: bool,
}

/// Why the values of the time column tell no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTime {
    /// They are numbers of an unknown unit.
    Numbers,
    /// None is a time.
    Texts,
}

/// The type of the time column: the coarsest that keeps the times among `values`, with a zone if
/// the first has an offset from UTC. Values that are no such time do not count here; their rows are
/// rejected one by one. Numbers are times if `unit` says of what; fractions of it are kept.
pub(super) fn infer_time<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    unit: Option<TimeUnit>,
) -> Result<DataType, NoTime> {
    let mut zoned = None;
    let mut fraction_digits = 0;
    let mut numbers = false;
    let mut count_digits = 0;
    for text in values.filter_map(|value| std::str::from_utf8(value).ok()) {
        if let Some(time) = WrittenTime::parse(text) {
            let has_offset = time.offset_seconds.is_some();
            if *zoned.get_or_insert(has_offset) == has_offset {
                fraction_digits = fraction_digits.max(time.fraction_digits);
            }
        } else if let Some(count) = WrittenCount::parse(text) {
            numbers = true;
            count_digits = count_digits.max(count.fraction_digits);
        }
    }
    let digits = |unit| (digits_of_unit(unit) + count_digits).max(fraction_digits);
    let unit = unit.map(|unit| unit_for_digits(digits(unit)));
    match (zoned, unit) {
        (Some(zoned), unit) => {
            let unit = unit.unwrap_or(unit_for_digits(fraction_digits));
            Ok(DataType::Timestamp(unit, zoned.then(|| Arc::from("UTC"))))
        }
        (None, Some(unit)) if numbers => Ok(DataType::Timestamp(unit, None)),
        (None, None) if numbers => Err(NoTime::Numbers),
        (None, _) => Err(NoTime::Texts),
    }
}

/// The narrowest type that holds all `values` as they are written: digits with leading zeros or a
/// plus sign are a text, because a number would lose them. Values in `nulls`, and empty ones, tell
/// nothing.
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
        beyond_nanoseconds: false,
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
        self.int64 = self.int64 && keeps_digits(text, &DataType::Int64) && text.parse::<i64>().is_ok();
        self.uint64 = self.uint64 && keeps_digits(text, &DataType::UInt64) && text.parse::<u64>().is_ok();
        self.float64 = self.float64 && keeps_digits(text, &DataType::Float64) && parse_float(text).is_some();
        if self.date || self.timestamp {
            let written = WrittenTime::parse(text);
            self.date = self.date && written.is_some() && text.len() == "2013-01-01".len();
            match written {
                Some(time) => {
                    let zoned = time.offset_seconds.is_some();
                    self.timestamp = self.timestamp && *self.zoned.get_or_insert(zoned) == zoned;
                    self.fraction_digits = self.fraction_digits.max(time.fraction_digits);
                    let offset_seconds = time.offset_seconds.unwrap_or(0);
                    let is_beyond = time.ticks(offset_seconds, TimeUnit::Nanosecond).is_none();
                    self.beyond_nanoseconds |= is_beyond;
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
        let unit = unit_for_digits(self.fraction_digits);
        // The other units reach all years of four digits.
        if self.timestamp && !(self.beyond_nanoseconds && unit == TimeUnit::Nanosecond) {
            let zone = (self.zoned == Some(true)).then(|| Arc::from("UTC"));
            return DataType::Timestamp(unit, zone);
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

/// Whether a number of an inferred type tells the digits of `text` again: it would lose leading
/// zeros and a plus sign, as of a telephone number, an integer the sign of `-0`, and a float the
/// last digits of a long integer or all of a number that is nearer to zero than to any other float.
pub(crate) fn keeps_digits(text: &str, kind: &DataType) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // As many digits fit in the bits in any case.
    let (digits_min, bits) = match kind {
        DataType::Float16 => (3, 11),
        DataType::Float32 => (7, f32::MANTISSA_DIGITS),
        _ => (15, f64::MANTISSA_DIGITS),
    };
    match digits.as_bytes() {
        [b'+', ..] | [b'0', b'0'..=b'9', ..] => false,
        b"0" => !(kind.is_integer() && text.len() > 1),
        all if kind.is_floating() && all.len() > digits_min && all.iter().all(u8::is_ascii_digit) => {
            digits.parse().is_ok_and(|integer: u64| match kind {
                // A type that is inferred has to hold the integers between as well.
                DataType::Float64 => integer <= 1 << bits,
                _ => integer.trailing_zeros() + bits >= u64::BITS - integer.leading_zeros(),
            })
        }
        _ => !(kind.is_floating() && becomes_zero(text, kind)),
    }
}

/// Whether a number other than zero is nearest to zero among the floats of type `kind`.
fn becomes_zero(text: &str, kind: &DataType) -> bool {
    // Half of the least float, and the digits behind a point that no lesser number can do without.
    let (half, digits_min) = match kind {
        DataType::Float16 => (2_f64.powi(-25), 8),
        DataType::Float32 => (2_f64.powi(-150), 46),
        _ => (0.0, 324),
    };
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    (mantissa.len() < text.len() || text.len() >= digits_min)
        && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
        && text.parse::<f64>().is_ok_and(|float| float.abs() <= half)
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
        assert_eq!(infer(&["1", "0"]), "int64");
        assert_eq!(infer(&["1", "-0"]), "float64", "an integer has no sign of zero");
        assert_eq!(infer(&["9223372036854775807", "-0"]), "utf8");
        assert_eq!(infer(&["4915112345678", "+4915112345678"]), "utf8");
        assert_eq!(infer(&["-0.5", "+0.5"]), "utf8");
        assert_eq!(infer(&["1e+5", "-1e-5"]), "float64");
        for long in ["9007199254740993", "-9223372036854775807", "99999999999999999999"] {
            assert_eq!(infer(&[long, "NaN"]), "utf8", "{long}");
        }
        assert_eq!(
            infer(&["9007199254740992", "-9007199254740992", "0.5"]),
            "float64"
        );
        assert_eq!(infer(&["1e308", "1e309"]), "utf8");
        assert_eq!(infer(&["1e308", "-inf"]), "float64");
        assert_eq!(infer(&["1e-308", "1e-400"]), "utf8");
        assert_eq!(infer(&["true", "False"]), "bool");
        assert_eq!(infer(&["true", "1"]), "utf8");
        assert_eq!(infer(&["2013-01-01", "2013-01-02"]), "date32");
        assert_eq!(infer(&["2013-01-01", "2013-01-02 10:00:00"]), "timestamp(s)");
        assert_eq!(
            infer(&["2013-01-01T10:00:00Z", "2013-01-02T10:00:00.25+01:00"]),
            "timestamp(ms, UTC)"
        );
        assert_eq!(infer(&["2013-01-01T10:00:00.0000001"]), "timestamp(ns)");
        let (least, last) = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.9999999");
        for sentinel in [least, last] {
            assert_eq!(infer(&["2013-01-01 10:00:00.1234567", sentinel]), "utf8");
            assert_eq!(infer(&[sentinel, "2013-01-01 10:00:00.1234567"]), "utf8");
        }
        assert_eq!(infer(&["2013-01-01 10:00:00.123456", least]), "timestamp(us)");
        assert_eq!(
            infer(&["2013-01-01T10:00:00Z", "2013-01-02T10:00:00"]),
            "utf8",
            "one with, one without"
        );
        assert_eq!(infer(&["", "NA"]), "utf8");
        assert_eq!(infer(&[]), "utf8");
    }

    #[test]
    fn numbers_keep_the_digits_that_they_hold() {
        let (half, single) = (DataType::Float16, DataType::Float32);
        for (text, kind, keeps) in [
            ("2048", &half, true),
            ("2049", &half, false),
            ("-2050", &half, true),
            ("16777216", &single, true),
            ("16777217", &single, false),
            ("-20000000", &single, true),
            ("9007199254740993", &single, false),
            ("99999999999999999999", &single, false),
            ("0.1234567890123456789", &single, true),
            ("-0", &single, true),
            ("6e-8", &half, true),
            ("2e-8", &half, false),
            ("0.00000002", &half, false),
            ("-1e-45", &single, true),
            ("7e-46", &single, false),
            ("5e-324", &DataType::Float64, true),
            ("-1e-400", &DataType::Float64, false),
            ("0e-400", &DataType::Float64, true),
            ("-0", &DataType::UInt8, false),
            ("-0", &DataType::Decimal128(9, 2), true),
            ("007", &DataType::Decimal128(9, 2), false),
        ] {
            assert_eq!(keeps_digits(text, kind), keeps, "{text} {kind}");
        }
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
        assert_eq!(
            infer(&["17", "2013-01-01 00:00:00.25"], Some(TimeUnit::Second)),
            type_of("timestamp(ms)")
        );
        assert_eq!(infer(&["", "17"], None), Err(NoTime::Numbers));
        assert_eq!(infer(&["17.5"], None), Err(NoTime::Numbers));
        assert_eq!(
            infer(&["17", "17.50", "17.000"], Some(TimeUnit::Second)),
            type_of("timestamp(ms)")
        );
        assert_eq!(
            infer(&["0.1234567", "17"], Some(TimeUnit::Second)),
            type_of("timestamp(ns)")
        );
        assert_eq!(
            infer(&["17.5"], Some(TimeUnit::Millisecond)),
            type_of("timestamp(us)")
        );
        assert_eq!(
            infer(&["17.5"], Some(TimeUnit::Nanosecond)),
            type_of("timestamp(ns)")
        );
        assert_eq!(infer(&["", "soon"], Some(TimeUnit::Second)), Err(NoTime::Texts));
        assert_eq!(infer(&[], None), Err(NoTime::Texts));
    }
}
