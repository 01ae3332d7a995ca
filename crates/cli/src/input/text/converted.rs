//! Values of types that few text files have, from their text.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, FixedSizeBinaryBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, Int64Array, PrimitiveArray, StringArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use bedload_times::{WrittenTime, nanos_per_tick, parse_signed_duration};

use super::numbers::{parse_bounded, parse_integer};

/// The values that texts stand for; null where one stands for none. Bytes are written as
/// hexadecimal digits, as queries write them.
pub(crate) fn parse_values(texts: &StringArray, kind: &DataType) -> ArrayRef {
    let converted: Option<ArrayRef> = match kind {
        DataType::Binary => {
            let mut builder = BinaryBuilder::with_capacity(texts.len(), texts.value_data().len() / 2);
            for text in texts {
                builder.append_option(text.and_then(bytes_of_hex));
            }
            Some(Arc::new(builder.finish()))
        }
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), *width);
            for text in texts {
                let bytes = text.and_then(bytes_of_hex);
                if bytes.is_none_or(|bytes| builder.append_value(bytes).is_err()) {
                    builder.append_null();
                }
            }
            Some(Arc::new(builder.finish()))
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => {
            // A cast rounds.
            let exact = texts
                .iter()
                .map(|text| text.filter(|text| is_exact(text, *scale)));
            cast(&exact.collect::<StringArray>(), kind).ok()
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            // A cast cuts a fraction off, and takes numbers for ticks.
            let ticks = texts
                .iter()
                .map(|text| text.and_then(|text| ticks_of_day(text, *unit)))
                .collect::<Int64Array>();
            match kind {
                DataType::Time32(_) => cast(&ticks, &DataType::Int32).and_then(|ticks| cast(&ticks, kind)),
                _ => cast(&ticks, kind),
            }
            .ok()
        }
        DataType::Duration(unit) => {
            let ticks = texts
                .iter()
                .map(|text| text.and_then(|text| ticks_of_duration(text, *unit)))
                .collect::<Int64Array>();
            cast(&ticks, kind).ok()
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            // A cast takes digits of a number beyond the range for infinity.
            let bounded = texts
                .iter()
                .map(|text| text.filter(|text| is_bounded(text, kind)));
            cast(&bounded.collect::<StringArray>(), kind).ok()
        }
        DataType::Int8 => Some(integers::<Int8Type>(texts)),
        DataType::Int16 => Some(integers::<Int16Type>(texts)),
        DataType::Int32 => Some(integers::<Int32Type>(texts)),
        DataType::Int64 => Some(integers::<Int64Type>(texts)),
        DataType::UInt8 => Some(integers::<UInt8Type>(texts)),
        DataType::UInt16 => Some(integers::<UInt16Type>(texts)),
        DataType::UInt32 => Some(integers::<UInt32Type>(texts)),
        DataType::UInt64 => Some(integers::<UInt64Type>(texts)),
        _ => cast(texts, kind).ok(),
    };
    converted.unwrap_or_else(|| new_null_array(kind, texts.len()))
}

fn integers<T: ArrowPrimitiveType<Native: FromStr>>(texts: &StringArray) -> ArrayRef {
    let values = texts.iter().map(|text| text.and_then(parse_integer));
    Arc::new(values.collect::<PrimitiveArray<T>>())
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

/// Whether a float of type `kind` holds a number of this size.
fn is_bounded(text: &str, kind: &DataType) -> bool {
    /// Floats of 16 bits from here on are infinite.
    const FLOAT16_END: f32 = 65_520.0;
    match kind {
        DataType::Float16 => {
            parse_bounded::<f32>(text).is_some_and(|float| float.abs() < FLOAT16_END || !float.is_finite())
        }
        DataType::Float32 => parse_bounded::<f32>(text).is_some(),
        _ => parse_bounded::<f64>(text).is_some(),
    }
}

/// Whether a decimal number has no more digits behind its point than there is room for, and no
/// exponent. A negative scale has no room for the last digits before the point either.
fn is_exact(text: &str, scale: i8) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.trim_end_matches('0').len();
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    let fits = match usize::try_from(scale) {
        Ok(room) => digits <= room,
        Err(_) => {
            let whole = whole.trim_start_matches(['+', '-']);
            let zeros = whole.len() - whole.trim_end_matches('0').len();
            digits == 0 && (zeros == whole.len() || zeros >= usize::from(scale.unsigned_abs()))
        }
    };
    is_plain && fits
}

/// Ticks since midnight of a time of day, if it is a whole number of them.
fn ticks_of_day(text: &str, unit: TimeUnit) -> Option<i64> {
    let written = WrittenTime::parse(&format!("1970-01-01T{text}"))?;
    match written.ticks(written.offset_seconds.unwrap_or(0), unit) {
        Some((ticks, false)) if written.offset_seconds.is_none() => Some(ticks),
        _ => None,
    }
}

/// Ticks of a duration, if it is a whole number of them.
fn ticks_of_duration(text: &str, unit: TimeUnit) -> Option<i64> {
    let nanos = parse_signed_duration(text)?;
    let per_tick = i128::from(nanos_per_tick(unit));
    i64::try_from(nanos / per_tick)
        .ok()
        .filter(|_| nanos % per_tick == 0)
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{
        Decimal128Type, DurationMillisecondType, Time32MillisecondType, Time64MicrosecondType,
    };

    use super::*;

    #[test]
    fn decimals_are_not_rounded() {
        let texts = StringArray::from(vec![
            Some("12.34"),
            Some("12.345"),
            Some("-0.10"),
            Some("1e3"),
            Some("x"),
            None,
            Some("123456"),
            Some("7.500"),
        ]);
        let array = parse_values(&texts, &DataType::Decimal128(6, 2));
        let values: Vec<Option<i128>> = array.as_primitive::<Decimal128Type>().iter().collect();
        assert_eq!(
            values,
            [Some(1234), None, Some(-10), None, None, None, None, Some(750)]
        );
    }

    #[test]
    fn decimals_of_a_negative_scale_are_not_rounded() {
        let texts = ["150", "-1500", "0", "00.0", "100.00", "100.5", "12300", "5"];
        let array = parse_values(
            &StringArray::from_iter_values(texts),
            &DataType::Decimal128(5, -2),
        );
        let values: Vec<Option<i128>> = array.as_primitive::<Decimal128Type>().iter().collect();
        assert_eq!(
            values,
            [None, Some(-15), Some(0), Some(0), Some(1), None, Some(123), None]
        );
    }

    #[test]
    fn times_of_day_are_not_rounded() {
        let texts = [
            "17:30",
            "23:59:59.250",
            "00:00:00.0005",
            "23:59:60",
            "24:00:00",
            "61200",
            "17:30Z",
            "17:30:00.2500000",
        ];
        let texts = StringArray::from_iter_values(texts);
        let millis = parse_values(&texts, &DataType::Time32(TimeUnit::Millisecond));
        let found: Vec<Option<i32>> = millis.as_primitive::<Time32MillisecondType>().iter().collect();
        let (half_past_five, last) = (63_000_000, 86_399_250);
        assert_eq!(
            found,
            [
                Some(half_past_five),
                Some(last),
                None,
                None,
                None,
                None,
                None,
                Some(half_past_five + 250)
            ]
        );
        let micros = parse_values(&texts, &DataType::Time64(TimeUnit::Microsecond));
        let found = micros.as_primitive::<Time64MicrosecondType>();
        assert_eq!((found.value(2), found.null_count()), (500, 4));
    }

    #[test]
    fn durations_are_not_rounded() {
        let texts = ["PT0.25S", "-2min", "P0D", "PT0.0005S", "5", "99999999999999999s"];
        let millis = parse_values(
            &StringArray::from_iter_values(texts),
            &DataType::Duration(TimeUnit::Millisecond),
        );
        let found: Vec<Option<i64>> = millis.as_primitive::<DurationMillisecondType>().iter().collect();
        assert_eq!(found, [Some(250), Some(-120_000), Some(0), None, None, None]);
    }

    #[test]
    fn digits_beyond_the_range_of_a_float_are_no_infinity() {
        let texts = ["65519", "-65520", "1e39", "1e309", "inf", "NaN"];
        let texts = StringArray::from_iter_values(texts);
        for (kind, valid) in [
            (DataType::Float16, [true, false, false, false, true, true]),
            (DataType::Float32, [true, true, false, false, true, true]),
            (DataType::Float64, [true, true, true, false, true, true]),
        ] {
            let floats = parse_values(&texts, &kind);
            let found: Vec<bool> = (0..texts.len()).map(|row| floats.is_valid(row)).collect();
            assert_eq!(found, valid, "{kind}");
        }
    }

    #[test]
    fn bytes_are_hexadecimal() {
        let texts = StringArray::from(vec![
            Some("ff00"),
            Some(""),
            Some("f"),
            Some("0g"),
            None,
            Some("Ab"),
        ]);
        let bytes = parse_values(&texts, &DataType::Binary);
        let expected = [Some(&[0xff, 0][..]), Some(&[]), None, None, None, Some(&[0xab])];
        assert_eq!(bytes.as_binary::<i32>().iter().collect::<Vec<_>>(), expected);
        let bytes = parse_values(&texts, &DataType::FixedSizeBinary(2));
        let valid: Vec<bool> = (0..texts.len()).map(|row| bytes.is_valid(row)).collect();
        assert_eq!(valid, [true, false, false, false, false, false]);
    }

    #[test]
    fn what_has_no_text_is_null() {
        let texts = StringArray::from(vec!["PT1S"]);
        assert_eq!(parse_values(&texts, &DataType::Float16).null_count(), 1);
    }
}
