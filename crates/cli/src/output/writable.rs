//! Which values have no text: times beyond the calendar, and durations of about as many years.
//!
//! The formatters write such a value as if it were another: a text of an error, or `<invalid>`.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_temporal_array};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};
use bedload_times::unit_name;

use crate::exit::{Failure, Result};

/// The text that a duration without one gets.
const NO_DURATION: &str = "<invalid>";

/// Fails if a value of the rows, which come after `rows_before` others, has no text.
pub(super) fn check(batch: &RecordBatch, rows_before: u64) -> Result<()> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let mut timed = columns.filter(|(_, column)| has_times(column.data_type()));
    timed.try_for_each(|(field, column)| {
        let Err(error) = check_column(column.as_ref(), &|_| true) else {
            return Ok(());
        };
        let has_none = |row: &usize| check_column(column.slice(*row, 1).as_ref(), &|_| true).is_err();
        let row = (0..column.len()).find(has_none).unwrap_or_default();
        let value = described(&column.slice(row, 1)).unwrap_or_else(|| error.to_string());
        Err(Failure::input(format!(
            "row {} of the answer has no text for the value in column {}: {value}; leave out such rows or the \
             column, which bedload query --format arrow writes",
            rows_before + row as u64 + 1,
            field.name()
        )))
    })
}

/// A value without a text in words, from a column of one row; `None` if it is within another.
fn described(column: &ArrayRef) -> Option<String> {
    let ticks = cast(column, &DataType::Int64).ok()?;
    let ticks = ticks.as_primitive_opt::<Int64Type>()?.value(0);
    Some(match column.data_type() {
        DataType::Timestamp(unit, _) => {
            format!("{ticks} {} since 1970, beyond the calendar", unit_name(*unit))
        }
        DataType::Date32 => format!("{ticks} days since 1970, beyond the calendar"),
        DataType::Date64 => format!("{ticks} ms since 1970, beyond the calendar"),
        DataType::Time32(unit) | DataType::Time64(unit) => {
            format!("{ticks} {}, no time of day", unit_name(*unit))
        }
        DataType::Duration(unit) => format!(
            "{ticks} {}, more milliseconds than 64 bits hold",
            unit_name(*unit)
        ),
        _ => return None,
    })
}

/// Whether values of a type are times or durations, or have some within.
fn has_times(kind: &DataType) -> bool {
    match kind {
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::FixedSizeList(of, _)
        | DataType::Map(of, _) => has_times(of.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_times(field.data_type())),
        DataType::Dictionary(_, of) => has_times(of),
        other => other.is_temporal(),
    }
}

/// Fails if one of the values that `is_shown` chooses has no text. A value under a null may be
/// anything.
fn check_column(column: &dyn Array, is_shown: &dyn Fn(usize) -> bool) -> std::result::Result<(), ArrowError> {
    let is_shown = |row: usize| is_shown(row) && column.is_valid(row);
    let mut rows = (0..column.len()).filter(|&row| is_shown(row));
    let check_all = |values: &dyn Array| check_column(values, &|_| true);
    match column.data_type() {
        DataType::Struct(_) => {
            let mut columns = column.as_struct().columns().iter();
            columns.try_for_each(|child| check_column(child.as_ref(), &is_shown))
        }
        DataType::List(_) => rows.try_for_each(|row| check_all(&column.as_list::<i32>().value(row))),
        DataType::LargeList(_) => rows.try_for_each(|row| check_all(&column.as_list::<i64>().value(row))),
        DataType::FixedSizeList(..) => {
            rows.try_for_each(|row| check_all(&column.as_fixed_size_list().value(row)))
        }
        DataType::Map(..) => rows.try_for_each(|row| check_all(&column.as_map().value(row))),
        DataType::Dictionary(_, of) => check_column(cast(column, of)?.as_ref(), &is_shown),
        _ => check_extremes(column, &rows.collect::<Vec<_>>()),
    }
}

/// Fails if the value of one of the rows has no text. Values that have one are a single range, so
/// the least and the greatest tell of all.
fn check_extremes(column: &dyn Array, rows: &[usize]) -> std::result::Result<(), ArrowError> {
    let extremes = downcast_temporal_array!(
        column => extremes(rows, |row| column.value(row)),
        DataType::Duration(_) => {
            let ticks = cast(column, &DataType::Int64)?;
            let ticks = ticks.as_primitive::<Int64Type>();
            extremes(rows, |row| ticks.value(row))
        }
        _ => return Ok(()),
    );
    let texts = ArrayFormatter::try_new(column, &FormatOptions::default())?;
    for row in extremes.into_iter().flatten() {
        if texts.value(row).try_to_string()? == NO_DURATION {
            return Err(ArrowError::CastError("a duration is too long".to_owned()));
        }
    }
    Ok(())
}

/// The rows with the least and the greatest value.
fn extremes<V: Ord>(rows: &[usize], value_of: impl Fn(usize) -> V) -> [Option<usize>; 2] {
    let by_value = |row: &usize| value_of(*row);
    let rows = || rows.iter().copied();
    [rows().min_by_key(by_value), rows().max_by_key(by_value)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{MapBuilder, StringBuilder, TimestampSecondBuilder};
    use arrow_array::types::{Int32Type, TimestampSecondType};
    use arrow_array::{
        Date32Array, DictionaryArray, DurationMillisecondArray, DurationNanosecondArray, DurationSecondArray,
        Int32Array, ListArray, StructArray, Time32SecondArray, TimestampSecondArray,
    };
    use arrow_schema::{Field, TimeUnit};

    use super::*;

    fn is_writable(column: impl Array + 'static) -> bool {
        let column: ArrayRef = Arc::new(column);
        check(&RecordBatch::try_from_iter([("v", column)]).unwrap(), 0).is_ok()
    }

    #[test]
    fn times_beyond_the_calendar_have_no_text() {
        let times = |last| TimestampSecondArray::from(vec![Some(0), None, Some(last), Some(1)]);
        assert!(is_writable(times(2)));
        for beyond in [i64::MAX, i64::MIN] {
            assert!(!is_writable(times(beyond)));
            assert!(!is_writable(times(beyond).with_timezone("+01:00")));
        }
        assert!(!is_writable(Date32Array::from(vec![0, i32::MAX])));
        assert!(!is_writable(Time32SecondArray::from(vec![-1, 0])));
        // A value under a null may be anything.
        assert!(is_writable(TimestampSecondArray::from(vec![None::<i64>])));
    }

    #[test]
    fn durations_beyond_milliseconds_have_no_text() {
        let longest = i64::MAX / 1000;
        assert!(is_writable(DurationSecondArray::from(vec![longest, -longest])));
        assert!(!is_writable(DurationSecondArray::from(vec![0, longest + 1])));
        assert!(!is_writable(DurationSecondArray::from(vec![-longest - 1, 0])));
        assert!(is_writable(DurationMillisecondArray::from(vec![i64::MAX])));
        assert!(!is_writable(DurationMillisecondArray::from(vec![i64::MIN])));
        assert!(is_writable(DurationNanosecondArray::from(vec![
            i64::MAX,
            i64::MIN
        ])));
    }

    #[test]
    fn the_row_and_the_value_are_named() {
        let named = |column: ArrayRef, value: &str| {
            let rows = RecordBatch::try_from_iter([("v", column)]).unwrap();
            let message = check(&rows, 10).unwrap_err().to_string();
            let expected = format!("row 12 of the answer has no text for the value in column v: {value}; ");
            assert!(message.starts_with(&expected), "{message}");
        };
        let zoned = TimestampSecondArray::from(vec![0, i64::MAX]).with_timezone("UTC");
        named(
            Arc::new(zoned),
            "9223372036854775807 s since 1970, beyond the calendar",
        );
        named(
            Arc::new(Date32Array::from(vec![0, i32::MAX])),
            "2147483647 days since 1970, beyond the calendar",
        );
        named(
            Arc::new(Time32SecondArray::from(vec![0, 86_400])),
            "86400 s, no time of day",
        );
        named(
            Arc::new(DurationSecondArray::from(vec![0, i64::MIN])),
            "-9223372036854775808 s, more milliseconds than 64 bits hold",
        );
    }

    #[test]
    fn values_within_others_are_looked_at() {
        for (last, expected) in [(1, true), (i64::MAX, false)] {
            let lists = [Some(vec![Some(0), None]), None, Some(vec![Some(last)])];
            let lists = ListArray::from_iter_primitive::<TimestampSecondType, _, _>(lists);
            assert_eq!(is_writable(lists.clone()), expected);
            assert!(is_writable(lists.slice(0, 2)));
            let field = Arc::new(Field::new("l", lists.data_type().clone(), true));
            let of_lists = StructArray::from(vec![(field, Arc::new(lists) as ArrayRef)]);
            assert_eq!(is_writable(of_lists), expected);

            let values = Arc::new(TimestampSecondArray::from(vec![0, last]));
            let used = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![1, 0]), values);
            assert_eq!(is_writable(used), expected);

            let mut map = MapBuilder::new(None, StringBuilder::new(), TimestampSecondBuilder::new());
            map.keys().append_value("k");
            map.values().append_value(last);
            map.append(true).unwrap();
            assert_eq!(is_writable(map.finish()), expected);
        }
    }

    #[test]
    fn values_under_the_null_of_a_struct_are_not() {
        let times = Arc::new(TimestampSecondArray::from(vec![i64::MAX, 0])) as ArrayRef;
        let kind = DataType::Timestamp(TimeUnit::Second, None);
        let field = Arc::new(Field::new("t", kind, true));
        let of_times = |is_valid: bool| {
            let nulls = Int32Array::from(vec![is_valid.then_some(0), Some(0)])
                .nulls()
                .cloned();
            StructArray::new(vec![Arc::clone(&field)].into(), vec![Arc::clone(&times)], nulls)
        };
        assert!(is_writable(of_times(false)));
        assert!(!is_writable(of_times(true)));
    }
}
