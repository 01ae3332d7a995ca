//! Ranges of dates, times and texts.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::{RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Error, Store, Table, TableSchema};
use chrono::{DateTime, NaiveDate};
use tempfile::TempDir;

/// A table with a row every half hour of 2013-11-03 and the days around it, on which clocks in New
/// York were set back.
fn table() -> Result<(TempDir, Store, Table), Box<dyn std::error::Error>> {
    let dir = TempDir::new()?;
    let store = Store::create(dir.path().join("s"))?;
    let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("America/New_York".into()));
    let columns = Arc::new(Schema::new(vec![Field::new("at", zoned, false)]));
    let table = store.create_table("t", TableSchema::new(columns.clone(), "at")?)?;
    let first = DateTime::parse_from_rfc3339("2013-11-02T00:00:00-04:00")?.timestamp_millis();
    let times: TimestampMillisecondArray = (0..3 * 48).map(|row| Some(first + row * 1_800_000)).collect();
    let times = times.with_timezone("America/New_York");
    table.append(&RecordBatch::try_new(columns, vec![Arc::new(times)])?)?;
    Ok((dir, store, table))
}

#[test]
fn a_day_is_one_of_the_tables_zone() {
    let (_dir, store, table) = table().unwrap();
    // Clocks are set back on the third: the day has 25 hours.
    assert_eq!(
        table
            .between("2013-11-02".."2013-11-03")
            .unwrap()
            .count()
            .unwrap(),
        48
    );
    assert_eq!(
        table
            .between("2013-11-03".."2013-11-04")
            .unwrap()
            .count()
            .unwrap(),
        50
    );
    let day = NaiveDate::from_ymd_opt(2013, 11, 3).unwrap();
    assert_eq!(
        table
            .between(day..day.succ_opt().unwrap())
            .unwrap()
            .count()
            .unwrap(),
        50
    );

    let before = store.snapshot();
    table.delete_range(..).unwrap();
    assert_eq!(table.between("2013"..).unwrap().count().unwrap(), 0);
    assert_eq!(
        before
            .between("t", "2013-11-02".."2013-11-03")
            .unwrap()
            .count()
            .unwrap(),
        48
    );
}

#[test]
fn bounds_are_kept_as_they_are_written() {
    let (_dir, _store, table) = table().unwrap();
    let noon = DateTime::parse_from_rfc3339("2013-11-02T12:00:00-04:00").unwrap();
    let count =
        |times: (Bound<DateTime<_>>, Bound<DateTime<_>>)| table.between(times).unwrap().count().unwrap();
    let end = Bound::Included(noon);
    assert_eq!(count((Bound::Included(noon), end)), 1);
    assert_eq!(count((Bound::Excluded(noon), end)), 0);
    assert_eq!(count((Bound::Unbounded, end)), 25);
    assert_eq!(count((Bound::Unbounded, Bound::Excluded(noon))), 24);
    assert_eq!(
        table
            .between("2013-11-03".."2013-11-02")
            .unwrap()
            .count()
            .unwrap(),
        0
    );
    assert_eq!(table.between::<i64>(..).unwrap().count().unwrap(), 144);
}

#[test]
fn times_that_are_none_are_errors() {
    let (_dir, _store, table) = table().unwrap();
    for text in ["soon", "2013-11-03 01:30", "2013-02-30"] {
        let error = table.between(text..).unwrap_err();
        assert!(matches!(error, Error::Schema { .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}
