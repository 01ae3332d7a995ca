//! Columns that a table gets after it has rows.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{
    Error, Grid, Layout, Operator, Options, Predicate, Store, Table, TableSchema, Value, restore, salvage,
};

use crate::handles::open;
use crate::pages::pages_of;
use crate::writers::beside_writers;

fn at() -> Field {
    Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false)
}

fn number() -> Field {
    Field::new("number", DataType::Int64, false)
}

fn text() -> Field {
    Field::new("text", DataType::Utf8, true)
}

fn schema() -> TableSchema {
    TableSchema::new(Arc::new(Schema::new(vec![at(), number()])), "at").expect("storable")
}

/// Rows whose times and texts follow from their numbers, in the columns of a handle. Further ones
/// are null.
fn batch(table: &Table, numbers: Range<i64>) -> RecordBatch {
    let texts = numbers.clone().map(|number| format!("text {number}"));
    let rows = usize::try_from(numbers.end - numbers.start).expect("few");
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(numbers.clone())),
        Arc::new(Int64Array::from_iter_values(numbers)),
        Arc::new(StringArray::from_iter_values(texts)),
    ];
    let arrow = table.schema().arrow().clone();
    columns.truncate(arrow.fields().len());
    let own = columns.len();
    for field in arrow.fields().iter().skip(own) {
        columns.push(new_null_array(field.data_type(), rows));
    }
    RecordBatch::try_new(arrow, columns).expect("columns of one length")
}

fn append(table: &Table, numbers: Range<i64>) {
    table.append(&batch(table, numbers)).expect("appends");
}

/// The number and the text of each row.
fn rows(store: &Store) -> Vec<(i64, Option<String>)> {
    let mut rows = Vec::new();
    for batch in store.table("t").expect("there").range(..).expect("there") {
        let batch = batch.expect("reads");
        let numbers = batch.column(1).as_primitive::<Int64Type>().values();
        let texts = batch.column(2).as_string::<i32>().iter();
        rows.extend(
            numbers
                .iter()
                .copied()
                .zip(texts.map(|text| text.map(str::to_owned))),
        );
    }
    rows
}

fn expected(without: Range<i64>, all: Range<i64>) -> Vec<(i64, Option<String>)> {
    let text = |number| (!without.contains(&number)).then(|| format!("text {number}"));
    all.map(|number| (number, text(number))).collect()
}

#[test]
fn rows_that_are_there_are_not_touched() {
    const ROWS: i64 = 400_000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let table = store.create_table("t", schema()).expect("fresh");
    append(&table, 0..ROWS);
    store.flush().expect("flushes");
    let written = || {
        let metadata = fs::metadata(path.join("data")).expect("it is there");
        metadata.blocks() * 512
    };
    let (older, bytes) = (table, written());
    let table = store.add_columns("t", [text()]).expect("adds");
    assert!(
        written() < bytes + (256 << 10),
        "{} bytes more",
        written() - bytes
    );
    append(&table, ROWS..ROWS + 10);
    for _ in 0..2 {
        let texts = table
            .range(..)
            .expect("there")
            .columns(&["text"])
            .expect("it has it");
        let nulls = |batch: bedload::Result<RecordBatch>| batch.expect("reads").column(0).null_count();
        assert_eq!(texts.map(nulls).sum::<usize>(), 400_000);
        // No leaf without the column is read for a text, and each is for none.
        let wanted = Predicate::compare(Operator::GtEq, &StringArray::from(vec!["text"]));
        let found = table
            .range(..)
            .expect("there")
            .filter("text", wanted.expect("one"));
        assert_eq!(found.expect("texts").count().expect("reads"), 10);
        let missing = table
            .range(..)
            .expect("there")
            .filter("text", Predicate::is_null());
        assert_eq!(
            missing.expect("texts").count().expect("reads"),
            ROWS.unsigned_abs()
        );
        for (time, text) in [(7, None), (ROWS, Some("text 400000"))] {
            let row = table.get(time).expect("reads").expect("it is there");
            assert_eq!(row.value(2), text.map(Value::Text));
            let row = older.get(time).expect("reads").expect("it is there");
            assert_eq!(row.value(2), None, "the handle has no such column");
        }
        store.flush().expect("flushes");
    }
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn handles_and_snapshots_keep_the_columns_that_they_had() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let older = store.create_table("t", schema()).expect("fresh");
    append(&older, 0..10);
    let snapshot = store.snapshot();
    let mut prepared = store.write_batch();
    prepared
        .append(&older, &batch(&older, 20..30))
        .expect("its columns");
    let newer = store.add_columns("t", [text()]).expect("adds");
    append(&older, 10..20);
    prepared.commit().expect("commits");
    append(&newer, 30..40);
    assert_eq!(rows(&store), expected(0..30, 0..40));
    let of_older = older.range(..).expect("there").map(|batch| batch.expect("reads"));
    for batch in of_older {
        assert_eq!(batch.schema_ref(), older.schema().arrow());
    }
    let named = older.range(..).expect("there").columns(&["text"]);
    assert_eq!(
        named
            .expect("the table has it")
            .map(|batch| batch.expect("reads").num_rows())
            .sum::<usize>(),
        40
    );
    assert_eq!(snapshot.schema("t").expect("there"), older.schema());
    let of_snapshot = snapshot.range("t", ..).expect("there");
    assert_eq!(of_snapshot.count().expect("reads"), 10);
    let refused = older.append(&batch(&newer, 40..50));
    assert!(matches!(refused, Err(Error::Schema { .. })), "{refused:?}");
    assert_eq!(newer.schema().arrow().fields().len(), 3);
    assert_eq!(store.table("t").expect("there").schema(), newer.schema());
}

#[test]
fn what_cannot_be_added_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let table = store.create_table("t", schema()).expect("fresh");
    let grid = Layout::Sparse(Grid::every(1).expect("a grid"));
    store.create_table_as("sparse", schema(), grid).expect("fresh");
    append(&table, 0..10);
    let nested = DataType::List(Arc::new(text()));
    let refusals: [(&str, Vec<Field>, &str); 7] = [
        ("u", vec![text()], "no table"),
        ("sparse", vec![text()], "sparse"),
        ("t", vec![number().with_nullable(true)], "\"number\""),
        ("t", vec![text(), text()], "\"text\""),
        ("t", vec![text().with_nullable(false)], "must be nullable"),
        (
            "t",
            vec![text(), Field::new("list", nested, true)],
            "cannot store",
        ),
        (
            "t",
            vec![Field::new("_sequence", DataType::UInt64, true)],
            "_sequence",
        ),
    ];
    for (name, columns, reason) in refusals {
        let error = store.add_columns(name, columns).expect_err("it cannot be added");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let many = (0..4094).map(|number| Field::new(format!("c{number}"), DataType::Boolean, true));
    let error = store
        .add_columns("t", many)
        .expect_err("more than a leaf can have");
    assert!(error.to_string().contains("4096 columns"), "{error}");
    assert_eq!(store.table("t").expect("there").schema(), table.schema());
    append(&table, 10..20);
    let same = store.add_columns("t", []).expect("nothing to add");
    assert_eq!(same.schema(), table.schema());
    assert_eq!(same.range(..).expect("there").count().expect("reads"), 20);
}

#[test]
fn rows_are_replaced_by_their_key_whatever_columns_they_have() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let keyed = schema().with_key(&["number"]).expect("it has it");
    let older = store.create_table("t", keyed).expect("fresh");
    append(&older, 0..100);
    store.flush().expect("flushes");
    append(&older, 100..200);
    let newer = store.add_columns("t", [text()]).expect("adds");
    assert_eq!(newer.schema().key(), Some(&[1][..]));
    let replaced = newer.append(&batch(&newer, 50..150)).expect("appends").replaced;
    assert_eq!(replaced, 100);
    let mut all = expected(0..50, 0..150);
    all.extend(expected(150..200, 150..200));
    assert_eq!(rows(&store), all);
    // Without the column, the rows lose their texts.
    let replaced = older.append(&batch(&older, 140..200)).expect("appends").replaced;
    assert_eq!(replaced, 60);
    drop((older, newer));
    store.close().expect("closes");
    let mut all = expected(0..50, 0..140);
    all.extend(expected(140..200, 140..200));
    assert_eq!(rows(&open(&path)), all);
}

#[test]
fn readers_copies_and_salvage_know_rows_without_the_columns() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = |name: &str| dir.path().join(name);
    let store = open(&place("store"));
    let older = store.create_table("t", schema()).expect("fresh");
    append(&older, 0..5000);
    store.flush().expect("flushes");
    append(&older, 5000..5010);
    let reader = Options::new()
        .read_only(true)
        .open(place("store"))
        .expect("opens");
    assert_eq!(reader.table("t").expect("there").schema(), older.schema());
    let newer = store.add_columns("t", [text()]).expect("adds");
    assert!(reader.refresh().expect("reads"), "another column is a change");
    assert_eq!(reader.table("t").expect("there").schema(), newer.schema());
    append(&older, 5010..5020);
    append(&newer, 5020..5100);
    let all = expected(0..5020, 0..5100);
    assert!(reader.refresh().expect("reads"));
    assert_eq!(rows(&reader), all);
    drop(reader);
    store.backup(place("backup")).expect("copies");
    assert_eq!(rows(&store), all);
    drop((older, newer, store));
    assert_eq!(rows(&open(&place("store"))), all);
    restore(place("backup"), place("restored")).expect("copies");
    assert_eq!(rows(&open(&place("restored"))), all);
    let report = salvage(place("store"), place("saved")).expect("saves");
    assert_eq!((report.tables[0].rows, report.tables[0].missing), (5100, Some(0)));
    assert_eq!(rows(&open(&place("saved"))), all);
}

#[test]
fn rows_are_saved_without_columns_that_no_catalogue_names() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = |name: &str| dir.path().join(name);
    let data = place("store").join("data");
    let options = Options::new().create(true).page_bytes(PAGE).background(false);
    let store = options.open(place("store")).expect("creates");
    let older = store.create_table("t", schema()).expect("fresh");
    append(&older, 0..100);
    store.flush().expect("flushes");
    // The number of the checkpoint and the offset in the file, for each catalogue page.
    let catalogues = |bytes: &[u8]| -> Vec<(u64, usize)> {
        let pages = pages_of(bytes, PAGE).into_iter().filter(|at| bytes[at + 4] == 3);
        let number = |at: usize| u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("eight bytes"));
        pages.map(|at| (number(at), at)).collect()
    };
    let before = catalogues(&fs::read(&data).expect("reads"));
    let newest = before
        .iter()
        .map(|(number, _)| *number)
        .max()
        .expect("there is one");
    let snapshot = store.snapshot();
    let newer = store.add_columns("t", [text()]).expect("adds");
    append(&newer, 100..200);
    store.flush().expect("flushes");
    drop((snapshot, older, newer, store));
    let mut bytes = fs::read(&data).expect("reads");
    for (number, at) in catalogues(&bytes) {
        if number > newest {
            bytes[at..at + PAGE].fill(0xA5);
        }
    }
    fs::write(&data, &bytes).expect("writes");
    let report = salvage(place("store"), place("saved")).expect("saves");
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let lost = |problem: &String| problem.contains("columns that no catalogue");
    assert!(problems.iter().any(lost), "{problems:?}");
    let saved = open(&place("saved"));
    let table = saved.table("t").expect("it was saved");
    assert_eq!(table.schema(), &schema());
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 200);
    assert_eq!(saved.verify().expect("reads").problems, []);
}

#[test]
fn writers_and_readers_go_on_meanwhile() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .head_bytes(256 << 10)
        .open(dir.path().join("store"))
        .expect("opens");
    store.create_table("t", schema()).expect("fresh");
    let mut counted = 0;
    let read = |table: &Table| {
        let mut count = 0;
        for batch in table.range(..).expect("there") {
            let batch = batch.expect("reads");
            let numbers = batch.column(1).as_primitive::<Int64Type>().values();
            for column in &batch.columns()[2..] {
                let texts = column.as_string::<i32>();
                for (number, text) in numbers.iter().zip(texts) {
                    assert!(text.is_none_or(|text| text == format!("text {number}")));
                }
            }
            count += batch.num_rows();
        }
        assert!(count >= counted, "rows disappear");
        counted = count;
    };
    beside_writers(&store, append, read, || {
        for column in 0..8 {
            std::thread::sleep(std::time::Duration::from_millis(30));
            let name = if column == 0 {
                "text".to_owned()
            } else {
                format!("c{column}")
            };
            store
                .add_columns("t", [Field::new(name, DataType::Utf8, true)])
                .expect("adds");
        }
    });
}
