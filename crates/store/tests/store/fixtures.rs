//! Stores written by earlier releases, one of each version of the format, are read for ever.
//! Version 1 was never released, and is refused.
//!
//! `fixtures/version-N` is never written anew. A new version of the format gets its own by
//!
//! ```sh
//! BEDLOAD_WRITE_FIXTURE=$PWD/crates/store/tests/fixtures/version-N cargo test -p bedload --test store fixtures
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Date32Array, PrimitiveArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use bedload::{Error, Grid, Layout, Options, Store, Table, TableSchema, inspect, salvage};

/// A column of each type, with and without a null.
fn columns() -> SchemaRef {
    let zone = || Some("Europe/Paris".into());
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, zone()), false),
        Field::new("bool", DataType::Boolean, true),
        Field::new("int8", DataType::Int8, true),
        Field::new("int16", DataType::Int16, false),
        Field::new("int32", DataType::Int32, true),
        Field::new("int64", DataType::Int64, false),
        Field::new("uint8", DataType::UInt8, true),
        Field::new("uint16", DataType::UInt16, false),
        Field::new("uint32", DataType::UInt32, true),
        Field::new("uint64", DataType::UInt64, false),
        Field::new("float32", DataType::Float32, true),
        Field::new("float64", DataType::Float64, true),
        Field::new("utf8", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, false),
        Field::new("date32", DataType::Date32, true),
        Field::new("second", DataType::Timestamp(TimeUnit::Second, None), true),
        Field::new("micro", DataType::Timestamp(TimeUnit::Microsecond, zone()), true),
        Field::new("nano", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
    ]))
}

/// The time of the row of a number: in order but for one in eleven, some of them before 1970, some
/// shared.
fn time_of(number: i64) -> i64 {
    10 * (number / 2) - 500 - if number % 11 == 0 { 333 } else { 0 }
}

/// The rows of the given numbers, whose values follow from the number.
fn batch(numbers: &[i64]) -> RecordBatch {
    fn column<T: ArrowPrimitiveType>(numbers: &[i64], value: impl Fn(i64) -> Option<T::Native>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter(
            numbers.iter().map(|&number| value(number)),
        ))
    }
    let low = |number: i64| number.to_le_bytes()[0];
    let short = |number: i64| i16::try_from(number * 7).expect("small");
    let some = |is: bool, number: i64| is.then_some(number);
    let texts = |every: i64| {
        let text = move |&number: &i64| {
            (number % every > 0).then(|| "é".repeat(usize::try_from(number % 40).expect("small")))
        };
        numbers.iter().map(text).collect::<StringArray>()
    };
    let stamps = |scale: i64| {
        numbers
            .iter()
            .map(move |&number| some(number % 6 > 0, number * scale))
    };
    RecordBatch::try_new(
        columns(),
        vec![
            Arc::new(
                TimestampMillisecondArray::from_iter_values(numbers.iter().map(|&number| time_of(number)))
                    .with_timezone("Europe/Paris"),
            ),
            Arc::new(
                numbers
                    .iter()
                    .map(|n| (n % 3 > 0).then_some(n % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
            column::<Int8Type>(numbers, |n| (n % 5 > 0).then(|| low(n).cast_signed())),
            column::<Int16Type>(numbers, |n| Some(-short(n))),
            column::<Int32Type>(numbers, |n| (n % 4 > 0).then(|| i32::from(short(n)) * -1001)),
            column::<Int64Type>(numbers, |n| Some(i64::MIN + n)),
            column::<UInt8Type>(numbers, |n| (n % 7 > 0).then(|| low(n))),
            column::<UInt16Type>(numbers, |n| Some(u16::MAX - u16::from(low(n)))),
            column::<UInt32Type>(numbers, |n| (n % 2 > 0).then(|| u32::MAX - u32::from(low(n)))),
            column::<UInt64Type>(numbers, |n| Some(u64::MAX - n.unsigned_abs())),
            column::<Float32Type>(numbers, |n| (n % 8 > 0).then(|| f32::from(short(n)) / 3.0)),
            column::<Float64Type>(numbers, |n| (n % 9 > 0).then(|| f64::from(short(n)) / 7.0)),
            Arc::new(texts(5)),
            Arc::new(StringArray::from_iter_values(
                numbers.iter().map(|n| format!("row {n}")),
            )),
            Arc::new(
                numbers
                    .iter()
                    .map(|&n| some(n % 10 > 0, n).map(|n| i32::try_from(n).expect("small")))
                    .collect::<Date32Array>(),
            ),
            Arc::new(stamps(1).collect::<TimestampSecondArray>()),
            Arc::new(
                stamps(1000)
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("Europe/Paris"),
            ),
            Arc::new(stamps(1_000_000).collect::<TimestampNanosecondArray>()),
        ],
    )
    .expect("columns of one length")
}

fn append(table: &Table, numbers: std::ops::Range<i64>) {
    table
        .append(&batch(&numbers.collect::<Vec<_>>()))
        .expect("appends");
}

/// Enough rows of a batch that the log has them packed.
const LONG_ROWS: i64 = 4600;

/// Tables with one long batch, and whether its rows are in order.
const LONG: [(&str, bool); 2] = [("long", true), ("long, late", false)];

/// The numbers of the rows of a long batch.
fn long_rows(in_order: bool) -> Vec<i64> {
    let is_late = |number: &i64| number % 11 == 0;
    (0..LONG_ROWS)
        .filter(|number| !(in_order && is_late(number)))
        .collect()
}

/// Reads the tables with long batches.
fn check_long(store: &Store) {
    for (name, in_order) in LONG {
        let table = store.table(name).expect("there");
        let mut numbers = long_rows(in_order);
        numbers.sort_by_key(|&number| time_of(number));
        let found = table.range(..).expect("there").collect::<Result<Vec<_>, _>>();
        let found = concat_batches(&columns(), &found.expect("reads")).expect("of one schema");
        assert!(found == batch(&numbers), "{name}");
    }
}

/// Writes the store that fixtures are: rows in several leaves, deletions, a dropped table, and a
/// log.
fn write(path: &Path) {
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .background(false)
        .open(path)
        .expect("creates");
    let schema = || TableSchema::new(columns(), "at").expect("storable");
    append(&store.create_table("dropped", schema()).expect("fresh"), 0..50);
    store.drop_table("dropped").expect("drops");
    let table = store.create_table("readings", schema()).expect("fresh");
    append(&table, 0..400);
    table.delete_range(500..600).expect("deletes");
    store.flush().expect("flushes");
    let sparse = create_sparse(&store);
    store.create_table("empty", schema()).expect("fresh");
    let long = LONG.map(|(name, _)| store.create_table(name, schema()).expect("fresh"));
    append(&table, 400..450);
    let mark = table.mark();
    append(&table, 450..470);
    table.retract_since(mark).expect("takes back");
    table.delete_range(1000..1050).expect("deletes");
    append(&table, 470..500);
    sparse.delete_range(110_000..120_000).expect("deletes");
    sparse.append(&sparse_batch(115..117)).expect("appends");
    for (long, (_, in_order)) in long.iter().zip(LONG) {
        long.append(&batch(&long_rows(in_order))).expect("appends");
    }
    drop((table, sparse, long, store));
}

/// A column of each type but text, whose blocks stand so far apart that a copy would be long.
fn sparse_columns() -> Vec<usize> {
    let columns = columns();
    let is_text = |&column: &usize| *columns.field(column).data_type() == DataType::Utf8;
    (0..columns.fields().len())
        .filter(|column| !is_text(column))
        .collect()
}

/// The times of the sparse table's rows are those of the grid; a block holds some 200 of them.
fn sparse_batch(numbers: std::ops::Range<i64>) -> RecordBatch {
    let numbers: Vec<i64> = numbers.collect();
    let batch = batch(&numbers)
        .project(&sparse_columns())
        .expect("columns that are there");
    let mut arrays = batch.columns().to_vec();
    let times = numbers.iter().map(|number| 1000 * number);
    arrays[0] = Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("Europe/Paris"));
    RecordBatch::try_new(batch.schema(), arrays).expect("columns of one length")
}

/// A sparse table with rows in several blocks.
fn create_sparse(store: &Store) -> Table {
    let columns = columns()
        .project(&sparse_columns())
        .expect("columns that are there");
    let schema = TableSchema::new(Arc::new(columns), "at").expect("storable");
    let grid = Grid::every(1000).expect("positive");
    let table = store
        .create_table_as("sparse", schema, Layout::Sparse(grid))
        .expect("fresh");
    table.append(&sparse_batch(0..400)).expect("appends");
    table.append(&sparse_batch(3_000..3_010)).expect("appends");
    table
}

/// Reads the sparse table and writes to it.
fn check_sparse(store: &Store) {
    let table = store.table("sparse").expect("there");
    let batches = table
        .range(..)
        .expect("there")
        .collect::<Result<Vec<_>, _>>()
        .expect("reads");
    let parts = [0..110, 115..117, 120..400, 3_000..3_010];
    let mut at = 0;
    assert_eq!(batches.len(), 1);
    for part in parts {
        let part = sparse_batch(part);
        assert_eq!(batches[0].slice(at, part.num_rows()), part);
        at += part.num_rows();
    }
    assert_eq!(batches[0].num_rows(), at);
    table.append(&sparse_batch(116..117)).expect("appends");
}

/// The numbers of the rows that it has, in order.
fn expected() -> Vec<i64> {
    let is_gone = |number: &i64| {
        let time = time_of(*number);
        (450..470).contains(number)
            || (*number < 400 && (500..600).contains(&time))
            || (*number < 470 && (1000..1050).contains(&time))
    };
    let mut numbers: Vec<i64> = (0..500).filter(|number| !is_gone(number)).collect();
    numbers.sort_by_key(|&number| time_of(number));
    numbers
}

/// Reads the store, checks it in every way there is, writes to it, and reads it again.
fn check(path: &Path) {
    assert_eq!(inspect(path).expect("a store"), []);
    let saved = path.with_extension("saved");
    let report = salvage(path, &saved).expect("a store");
    assert!(report.is_complete(), "{:?}", report.problems);
    for path in [path, &saved] {
        for written in 0..2_i64 {
            let store = Store::open(path).expect("opens");
            let order = store.info().expect("reads").tables[0].order.expect("is indexed");
            assert_eq!(order.total.rows, 500 + written.unsigned_abs());
            assert_eq!(
                store.tables(),
                ["readings", "sparse", "empty", "long", "long, late"]
            );
            check_sparse(&store);
            check_long(&store);
            assert_eq!(store.verify().expect("reads").problems, []);
            let table = store.table("readings").expect("there");
            let mut batches = table
                .range(..)
                .expect("there")
                .collect::<Result<Vec<_>, _>>()
                .expect("reads");
            let mut numbers = expected();
            numbers.extend(500..500 + written);
            assert_eq!(batches.pop(), Some(batch(&numbers)));
            assert!(batches.is_empty());
            let empty = store.table("empty").expect("there");
            assert_eq!(empty.range(..).expect("there").count().expect("reads"), 0);
            append(&table, 500 + written..501 + written);
            store.flush().expect("flushes");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("creates");
    for entry in fs::read_dir(from).expect("reads") {
        let path = entry.expect("reads").path();
        let target = to.join(path.file_name().expect("an entry of a directory"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            // Behind the records of a log, and behind the pages of blocks, there is space that was
            // claimed ahead: a file need not have it.
            let mut bytes = fs::read(&path).expect("reads");
            let unit = match path.extension().and_then(|extension| extension.to_str()) {
                Some("log") => Some(1),
                Some("blocks") => Some(4096),
                _ => None,
            };
            if let Some(unit) = unit {
                let end = bytes
                    .iter()
                    .rposition(|&byte| byte != 0)
                    .map_or(0, |last| last + 1);
                bytes.truncate(end.next_multiple_of(unit));
            }
            fs::write(&target, bytes).expect("writes");
        }
    }
}

#[test]
fn stores_of_every_version_are_read() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut versions = 0;
    for entry in fs::read_dir(fixtures).expect("part of the repository") {
        let fixture = entry.expect("reads").path();
        let path = dir
            .path()
            .join(fixture.file_name().expect("an entry of a directory"));
        copy(&fixture, &path);
        versions += 1;
        if !fixture.ends_with("version-1") {
            check(&path);
            continue;
        }
        let saved = path.with_extension("saved");
        for refused in [
            Store::open(&path).map(drop),
            inspect(&path).map(drop),
            salvage(&path, &saved).map(drop),
        ] {
            let is_plain = matches!(
                refused,
                Err(Error::OlderFormat {
                    found: 1,
                    supported: 2,
                    ..
                })
            );
            assert!(is_plain, "{refused:?}");
        }
        assert!(!saved.exists());
    }
    assert_eq!(versions, 2, "one of each version");
}

#[test]
fn the_store_of_today_is_read() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("today");
    write(&path);
    if let Some(fixture) = std::env::var_os("BEDLOAD_WRITE_FIXTURE") {
        copy(&path, Path::new(&fixture));
    }
    check(&path);
}
