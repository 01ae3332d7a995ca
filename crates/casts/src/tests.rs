use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Date32Array, Date64Array, Decimal128Array,
    DictionaryArray, DurationMillisecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
    Int32Array, Int64Array, LargeStringArray, NullArray, StringArray, StringViewArray,
    Time32MillisecondArray, Time64NanosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};
use bedload_times::Zone;
use proptest::prelude::*;

use super::{Error, cast, check};

fn of(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

fn time(unit: TimeUnit, zone: Option<&str>) -> DataType {
    DataType::Timestamp(unit, zone.map(Arc::from))
}

/// Casts, and expects this column.
#[track_caller]
fn becomes(column: ArrayRef, expected: ArrayRef) {
    becomes_on(None, column, expected);
}

/// The same, with times read on a clock.
#[track_caller]
fn becomes_on(clock: Option<&Zone>, column: ArrayRef, expected: ArrayRef) {
    let cast = cast(&column, expected.data_type(), clock).unwrap();
    assert_eq!(cast.as_ref(), expected.as_ref());
}

/// Casts, and expects that the value of this row, as text, is refused.
#[track_caller]
fn refuses(column: ArrayRef, to: DataType, row: usize, value: &str) {
    let value = value.to_owned();
    let refused = Error::Value {
        row,
        value,
        to: to.clone(),
    };
    assert_eq!(cast(&column, &to, None).unwrap_err(), refused);
}

#[test]
fn numbers_become_the_same_numbers() {
    becomes(
        of(Int64Array::from(vec![Some(-128), None, Some(127)])),
        of(Int8Array::from(vec![Some(-128), None, Some(127)])),
    );
    becomes(
        of(Float64Array::from(vec![Some(3.0), None, Some(-7.0)])),
        of(Int32Array::from(vec![Some(3), None, Some(-7)])),
    );
    becomes(
        of(Float64Array::from(vec![0.5, f64::NAN, f64::INFINITY])),
        of(Float32Array::from(vec![0.5, f32::NAN, f32::INFINITY])),
    );
    let decimals = Decimal128Array::from(vec![1050, -200]).with_precision_and_scale(10, 2);
    let fewer = Decimal128Array::from(vec![105, -20]).with_precision_and_scale(5, 1);
    becomes(of(decimals.unwrap()), of(fewer.unwrap()));
}

#[test]
fn numbers_that_would_change_are_refused() {
    refuses(
        of(Int64Array::from(vec![Some(1), None, Some(128)])),
        DataType::Int8,
        2,
        "128",
    );
    refuses(
        of(Int64Array::from(vec![1 << 53, (1 << 53) + 1])),
        DataType::Float64,
        1,
        "9007199254740993",
    );
    refuses(
        of(Float64Array::from(vec![Some(1.0), Some(1.5)])),
        DataType::Int64,
        1,
        "1.5",
    );
    refuses(of(Float64Array::from(vec![f64::NAN])), DataType::Int64, 0, "NaN");
    refuses(
        of(Float64Array::from(vec![0.5, 0.1])),
        DataType::Float32,
        1,
        "0.1",
    );
    refuses(
        of(UInt64Array::from(vec![u64::MAX])),
        DataType::Int64,
        0,
        "18446744073709551615",
    );
    let decimals = Decimal128Array::from(vec![1050, 1051]).with_precision_and_scale(10, 2);
    refuses(of(decimals.unwrap()), DataType::Decimal128(10, 1), 1, "10.51");
}

#[test]
fn times_change_their_unit_if_they_are_neither_rounded_nor_out_of_range() {
    let nanos = TimestampNanosecondArray::from(vec![Some(2_000_000_000), None, Some(-1_000_000_000)]);
    let seconds = TimestampSecondArray::from(vec![Some(2), None, Some(-1)]);
    becomes(of(nanos.clone()), of(seconds.clone()));
    becomes(of(seconds), of(nanos));
    refuses(
        of(TimestampMillisecondArray::from(vec![1000, 1500])),
        time(TimeUnit::Second, None),
        1,
        "1970-01-01T00:00:01.500",
    );
    refuses(
        of(TimestampSecondArray::from(vec![10_000_000_000])),
        time(TimeUnit::Nanosecond, None),
        0,
        "2286-11-20T17:46:40",
    );
    becomes(
        of(Time64NanosecondArray::from(vec![1_000_000])),
        of(Time32MillisecondArray::from(vec![1])),
    );
    refuses(
        of(Time64NanosecondArray::from(vec![1])),
        DataType::Time32(TimeUnit::Millisecond),
        0,
        "00:00:00.000000001",
    );
    refuses(
        of(DurationMillisecondArray::from(vec![1000, 1])),
        DataType::Duration(TimeUnit::Second),
        1,
        "PT0.001S",
    );
}

#[test]
fn times_of_a_zone_stay_the_same_instants() {
    let vienna = TimestampSecondArray::from(vec![0]).with_timezone("Europe/Vienna");
    let utc = TimestampMillisecondArray::from(vec![0]).with_timezone("UTC");
    let lost = Error::ZoneLost {
        zone: "Europe/Vienna".to_owned(),
        to: time(TimeUnit::Second, None),
    };
    let without = time(TimeUnit::Second, None);
    assert_eq!(check(vienna.data_type(), &without, None), Err(lost));
    becomes(of(vienna), of(utc));
    let unnamed = TimestampSecondArray::from(vec![0]).with_timezone("");
    becomes(of(unnamed), of(TimestampSecondArray::from(vec![0])));
}

#[test]
fn times_without_a_zone_are_readings_of_a_clock() {
    let vienna = Zone::parse("Europe/Vienna").unwrap();
    let utc = time(TimeUnit::Second, Some("UTC"));
    let noon = of(TimestampMillisecondArray::from(vec![Some(43_200_000), None]));
    let unknown = Error::ZoneUnknown { to: utc.clone() };
    assert_eq!(cast(&noon, &utc, None).unwrap_err(), unknown);
    let expected = TimestampSecondArray::from(vec![Some(39_600), None]).with_timezone("UTC");
    becomes_on(Some(&vienna), noon, of(expected));
    // 2026-03-29 02:30 does not exist there.
    let skipped = of(TimestampSecondArray::from(vec![0, 1_774_751_400]));
    assert!(matches!(
        cast(&skipped, &utc, Some(&vienna)),
        Err(Error::Reading {
            row: 1,
            reason: bedload_times::Error::Skipped { .. }
        })
    ));
    let days = of(Date32Array::from(vec![0]));
    let midnight = TimestampSecondArray::from(vec![-3600]).with_timezone("UTC");
    becomes_on(Some(&vienna), days, of(midnight));
}

#[test]
fn days_begin_where_clocks_skip_or_repeat_midnight() {
    // The clocks of Sao Paulo went from 2018-02-18T00:00 back to 23:00, and from 2018-11-04T00:00
    // to 01:00.
    let sao_paulo = Zone::parse("America/Sao_Paulo").unwrap();
    let days = of(Date32Array::from(vec![Some(17_580), None, Some(17_839)]));
    let begins = TimestampSecondArray::from(vec![Some(1_518_922_800), None, Some(1_541_300_400)]);
    becomes_on(Some(&sao_paulo), days.clone(), of(begins.with_timezone("UTC")));
    let utc = time(TimeUnit::Second, Some("UTC"));
    assert!(matches!(cast(&days, &utc, None), Err(Error::ZoneUnknown { .. })));
}

#[test]
fn days_are_midnights_without_a_zone() {
    let days = of(Date32Array::from(vec![Some(1), None]));
    let midnights = of(TimestampSecondArray::from(vec![Some(86_400), None]));
    becomes(days.clone(), midnights.clone());
    becomes(midnights, days.clone());
    becomes(of(Date64Array::from(vec![Some(86_400_000), None])), days);
    refuses(
        of(TimestampSecondArray::from(vec![0, 1])),
        DataType::Date32,
        1,
        "1970-01-01T00:00:01",
    );
    let in_utc = time(TimeUnit::Second, Some("UTC"));
    assert!(matches!(
        check(&in_utc, &DataType::Date32, None),
        Err(Error::Types { .. })
    ));
}

#[test]
fn text_and_bytes_change_their_layout() {
    let text = of(StringArray::from(vec![Some("a"), None, Some("")]));
    becomes(
        of(StringViewArray::from(vec![Some("a"), None, Some("")])),
        text.clone(),
    );
    becomes(
        of(LargeStringArray::from(vec![Some("a"), None, Some("")])),
        text.clone(),
    );
    let keys = Int32Array::from(vec![Some(0), Some(1), Some(2)]);
    let values = of(StringArray::from(vec![Some("a"), None, Some("")]));
    becomes(of(DictionaryArray::<Int32Type>::new(keys, values)), text);

    let bytes = of(BinaryArray::from(vec![Some(&b"ab"[..]), None]));
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(b"ab"), None].into_iter(), 2);
    let fixed = of(fixed.unwrap());
    becomes(bytes.clone(), fixed.clone());
    becomes(
        of(BinaryViewArray::from(vec![Some(&b"ab"[..]), None])),
        fixed.clone(),
    );
    becomes(fixed, bytes);
    refuses(
        of(BinaryArray::from(vec![&b"ab"[..], &b"abc"[..]])),
        DataType::FixedSizeBinary(2),
        1,
        "616263",
    );
}

#[test]
fn nulls_become_nulls_of_any_type() {
    becomes(of(NullArray::new(2)), of(Int64Array::from(vec![None, None])));
}

#[test]
fn types_of_different_meanings_are_refused() {
    let refused = |from: &DataType, to: &DataType| {
        let (from_type, to_type) = (from.clone(), to.clone());
        let types = Error::Types {
            from: from_type,
            to: to_type,
        };
        assert_eq!(check(from, to, None), Err(types));
    };
    refused(&DataType::Utf8, &DataType::Int64);
    refused(&DataType::Int64, &DataType::Utf8);
    refused(&DataType::Boolean, &DataType::Int8);
    refused(&DataType::Utf8, &DataType::Binary);
    refused(&DataType::Int64, &time(TimeUnit::Second, None));
    refused(&time(TimeUnit::Second, None), &DataType::Int64);
    refused(
        &DataType::Time32(TimeUnit::Second),
        &DataType::Duration(TimeUnit::Second),
    );
}

proptest! {
    /// A cast gives a column of the same values, or names the first value that does not fit.
    #[test]
    fn each_integer_fits_or_is_named(
        numbers in prop::collection::vec(prop::option::of(any::<i32>()), 0..50),
    ) {
        let fits = |number: i32| i8::try_from(number >> 20).is_ok() && number % (1 << 20) == 0;
        let misfit = numbers.iter().position(|number| !number.is_none_or(fits));
        let scaled = numbers.iter().map(|number| number.map(|number| f64::from(number) / f64::from(1 << 20)));
        let column = of(Float64Array::from(scaled.collect::<Vec<_>>()));
        match cast(&column, &DataType::Int8, None) {
            Ok(cast) => {
                let expected = numbers.iter().map(|number| number.map(|number| i8::try_from(number >> 20).unwrap()));
                let expected = Int8Array::from(expected.collect::<Vec<_>>());
                prop_assert_eq!(cast.as_ref(), &expected as &dyn Array);
                prop_assert_eq!(misfit, None);
            }
            Err(Error::Value { row, .. }) => prop_assert_eq!(Some(row), misfit),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
