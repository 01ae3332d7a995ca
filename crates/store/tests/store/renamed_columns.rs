//! Columns that get another name while the table has rows, handles, scans and readers.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Error, Grid, Layout, Operator, Options, Predicate, Store, Table, TableSchema, Value};

use crate::handles::{check_with_copies, names, open, refuse_rows_of_each_other};
use crate::writers::beside_writers;

/// The columns of the tables here: the time, the rest of a key, and one more.
const NAMES: [&str; 3] = ["at", "number", "text"];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Indexed,
    Keyed,
    Sparse,
}

const KINDS: [Kind; 3] = [Kind::Indexed, Kind::Keyed, Kind::Sparse];

fn schema() -> TableSchema {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields = vec![
        Field::new(NAMES[0], time, false),
        Field::new(NAMES[1], DataType::Int64, false),
        Field::new(NAMES[2], DataType::Utf8, true),
    ];
    TableSchema::new(Arc::new(Schema::new(fields)), NAMES[0]).expect("storable")
}

fn create(store: &Store, kind: Kind) -> Table {
    let created = match kind {
        Kind::Indexed => store.create_table("t", schema()),
        Kind::Keyed => store.create_table("t", schema().with_key(&["number"]).expect("it has it")),
        Kind::Sparse => {
            let grid = Grid::every(1).expect("a grid");
            store.create_table_as("t", schema(), Layout::Sparse(grid))
        }
    };
    created.expect("fresh")
}

/// Rows whose times and texts follow from their numbers, under the names of a handle.
fn batch(table: &Table, numbers: Range<i64>) -> RecordBatch {
    let texts = numbers.clone().map(|number| format!("text {number}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(numbers.clone())),
        Arc::new(Int64Array::from_iter_values(numbers)),
        Arc::new(StringArray::from_iter_values(texts)),
    ];
    RecordBatch::try_new(table.schema().arrow().clone(), columns).expect("columns of one length")
}

/// Appends rows, and returns how many gave way to others by their key.
fn append(table: &Table, numbers: Range<i64>) -> u64 {
    table.append(&batch(table, numbers)).expect("appends").replaced
}

/// Checks that batches have this schema and, for each number, the row of [`batch`].
fn check_rows(
    batches: impl Iterator<Item = bedload::Result<RecordBatch>>,
    arrow: &Arc<Schema>,
    expected: Range<i64>,
) {
    let mut found = Vec::new();
    for batch in batches {
        let batch = batch.expect("reads");
        assert_eq!(batch.schema_ref(), arrow);
        let numbers = batch.column(1).as_primitive::<Int64Type>().values();
        for (number, text) in numbers.iter().zip(batch.column(2).as_string::<i32>()) {
            assert_eq!(text, Some(&*format!("text {number}")));
            found.push(*number);
        }
    }
    assert_eq!(found, expected.collect::<Vec<_>>());
}

/// Reads a table through a handle in every way.
fn check(table: &Table, expected: Range<i64>) {
    let scan = || table.range(..).expect("there");
    check_rows(scan(), table.schema().arrow(), expected.clone());
    let own = names(table);
    for (position, name) in own.iter().enumerate() {
        let rows: usize = scan()
            .columns(&[name])
            .expect("its own name")
            .map(|batch| {
                let batch = batch.expect("reads");
                assert_eq!(
                    batch.schema_ref().field(0),
                    table.schema().arrow().field(position)
                );
                batch.num_rows()
            })
            .sum();
        assert_eq!(rows, expected.clone().count());
    }
    let least = Int64Array::from(vec![expected.end - 7]);
    let newest = Predicate::compare(Operator::GtEq, &least).expect("one number");
    let newest = scan().filter(own[1], newest).expect("its own name");
    check_rows(newest, table.schema().arrow(), expected.end - 7..expected.end);
    let row = table.get(expected.start).expect("reads").expect("it is there");
    assert_eq!(row.value(1), Some(Value::Int(expected.start)));
}

#[test]
fn rows_in_pages_and_in_memory_have_the_new_name() {
    for kind in KINDS {
        for column in NAMES {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let path = dir.path().join("store");
            let store = open(&path);
            let older = create(&store, kind);
            append(&older, 0..5000);
            store.flush().expect("flushes");
            // Rows of one short commit, and a long batch.
            append(&older, 5000..5003);
            append(&older, 5003..10_000);
            let newer = store.rename_column("t", column, "new").expect("renames");
            let expected = NAMES.map(|name| if name == column { "new" } else { name });
            assert_eq!(names(&newer), expected, "{kind:?}");
            append(&newer, 10_000..10_002);
            check(&newer, 0..10_002);
            let of_store = store.table("t").expect("there");
            assert_eq!(of_store.schema(), newer.schema());
            assert_eq!(newer.schema().key(), older.schema().key());
            assert_eq!(newer.schema().time_column(), 0);
            for (table, name) in [(&newer, column), (&older, "new")] {
                let missing = table.range(..).expect("there").columns(&[name]);
                assert!(matches!(missing, Err(Error::NoSuchColumn { .. })), "{missing:?}");
            }
            store.flush().expect("flushes");
            check(&newer, 0..10_002);
            assert_eq!(store.verify().expect("reads").problems, []);
            let schema = newer.schema().clone();
            drop((older, newer, of_store));
            store.close().expect("closes");
            let reopened = open(&path).table("t").expect("there");
            assert_eq!(reopened.schema(), &schema);
            check(&reopened, 0..10_002);
            if kind == Kind::Keyed {
                assert_eq!(append(&reopened, 9000..10_002), 1002);
                check(&reopened, 0..10_002);
            }
        }
    }
}

#[test]
fn handles_scans_and_snapshots_keep_the_name() {
    for kind in KINDS {
        for column in NAMES {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let store = open(&dir.path().join("store"));
            let older = create(&store, kind);
            append(&older, 0..20_000);
            let snapshot = store.snapshot();
            let mut begun = older.range(..).expect("there");
            let mut first = vec![begun.next().expect("it has rows")];
            let mut prepared = store.write_batch();
            prepared
                .append(&older, &batch(&older, 20_000..20_010))
                .expect("its columns");
            let newer = store.rename_column("t", column, "new").expect("renames");
            prepared.commit().expect("commits");
            append(&older, 20_010..20_020);
            append(&newer, 20_020..20_030);
            if kind == Kind::Keyed {
                append(&older, 20_030..20_040);
            } else {
                // One commit of rows that both names were used for.
                let mut both = store.write_batch();
                for (table, rows) in [(&older, 20_030..20_035), (&newer, 20_035..20_040)] {
                    both.append(table, &batch(table, rows)).expect("its columns");
                }
                both.commit().expect("commits");
            }
            refuse_rows_of_each_other([&older, &newer], |table| batch(table, 0..1));
            for _ in 0..2 {
                check(&older, 0..20_040);
                check(&newer, 0..20_040);
                store.flush().expect("flushes");
            }
            if kind == Kind::Keyed {
                assert_eq!(append(&older, 19_000..20_000), 1000);
                assert_eq!(append(&newer, 20_010..20_030), 20);
                check(&older, 0..20_040);
            }
            first.extend(begun);
            check_rows(first.into_iter(), older.schema().arrow(), 0..20_000);
            assert_eq!(snapshot.schema("t").expect("there"), older.schema());
            let then = || snapshot.range("t", ..).expect("there");
            check_rows(then(), older.schema().arrow(), 0..20_000);
            // A query engine that planned with either schema.
            for table in [&older, &newer] {
                let named = then().with_schema(table.schema()).expect("a schema of it");
                check_rows(named, table.schema().arrow(), 0..20_000);
            }
            if kind == Kind::Sparse {
                for table in [&older, &newer] {
                    table.put_back(&snapshot, 10_000..).expect("restores");
                    check(table, 0..20_000);
                    append(table, 20_000..20_010);
                }
            }
        }
    }
}

#[test]
fn a_name_that_was_given_up_can_be_that_of_another_column() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let oldest = create(&store, Kind::Indexed);
    append(&oldest, 0..10);
    store.rename_column("t", "text", "label").expect("renames");
    let text = Field::new("text", DataType::Int64, true);
    let newest = store.add_columns("t", [text]).expect("adds");
    append(&oldest, 10..20);
    check(&oldest, 0..20);
    assert_eq!(names(&newest), ["at", "number", "label", "text"]);
    // Two columns that change their names.
    store.rename_column("t", "label", "other").expect("renames");
    store.rename_column("t", "text", "label").expect("renames");
    let swapped = store.rename_column("t", "other", "text").expect("renames");
    assert_eq!(names(&swapped), ["at", "number", "text", "label"]);
    let labels = newest
        .range(..)
        .expect("there")
        .columns(&["label"])
        .expect("its own name");
    for batch in labels {
        assert_eq!(batch.expect("reads").column(0).null_count(), 0);
    }
    check(&oldest, 0..20);
}

#[test]
fn what_cannot_be_renamed_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let table = create(&store, Kind::Keyed);
    append(&table, 0..10);
    let checkpoint = store.info().expect("reads").checkpoint;
    let refusals = [
        ("u", "text", "new", "no table \"u\""),
        (
            "t",
            "missing",
            "new",
            "there is no column \"missing\"; the columns are at, number, text",
        ),
        ("t", "text", "number", "the table has a column \"number\""),
        ("t", "text", "text", "the table has a column \"text\""),
        ("t", "at", "number", "the table has a column \"number\""),
        ("t", "text", "", "the new name of a column is empty"),
        ("t", "text", "_sequence", "\"_sequence\" is the name"),
    ];
    for (name, column, new, reason) in refusals {
        let error = store.rename_column(name, column, new).expect_err("it cannot be");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(store.info().expect("reads").checkpoint, checkpoint);
    assert_eq!(store.table("t").expect("there").schema(), table.schema());
    let strange = schema();
    let fields = strange.arrow().fields().iter().rev().cloned().collect::<Vec<_>>();
    let strange = TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("storable");
    let scan = || table.range(..).expect("there");
    let refused = scan().with_schema(&strange).expect_err("it never had it");
    assert!(refused.to_string().contains("never had this schema"), "{refused}");
    let mut begun = scan();
    begun.next().expect("it has rows").expect("reads");
    assert!(begun.with_schema(table.schema()).is_err());
    check(&table, 0..10);
}

#[test]
fn readers_copies_and_salvage_know_the_new_name() {
    for kind in KINDS {
        for column in NAMES {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let place = |name: &str| dir.path().join(name);
            let store = open(&place("store"));
            let older = create(&store, kind);
            append(&older, 0..5000);
            store.flush().expect("flushes");
            append(&older, 5000..5010);
            let reader = Options::new()
                .read_only(true)
                .open(place("store"))
                .expect("opens");
            let read_before = reader.table("t").expect("there");
            let newer = store.rename_column("t", column, "new").expect("renames");
            append(&older, 5010..5020);
            append(&newer, 5020..5100);
            check(&read_before, 0..5010);
            assert!(reader.refresh().expect("reads"));
            assert_eq!(names(&read_before), NAMES);
            check(&read_before, 0..5100);
            let read_after = reader.table("t").expect("there");
            assert_eq!(read_after.schema(), newer.schema());
            check(&read_after, 0..5100);
            drop((read_before, read_after, reader));
            let schema = newer.schema().clone();
            drop((older, newer));
            check_with_copies(store, dir.path(), &schema, |table| check(table, 0..5100));
        }
    }
}

#[test]
fn writers_and_readers_go_on_meanwhile() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .head_bytes(256 << 10)
        .open(dir.path().join("store"))
        .expect("opens");
    create(&store, Kind::Keyed);
    let write = |table: &Table, numbers: Range<i64>| assert_eq!(append(table, numbers), 0);
    let read = |table: &Table| {
        for batch in table.range(..).expect("there") {
            let batch = batch.expect("reads");
            assert_eq!(batch.schema_ref(), table.schema().arrow());
            let numbers = batch.column(1).as_primitive::<Int64Type>().values();
            for (number, text) in numbers.iter().zip(batch.column(2).as_string::<i32>()) {
                assert_eq!(text, Some(&*format!("text {number}")));
            }
        }
    };
    beside_writers(&store, write, read, || {
        let mut own = NAMES.map(String::from);
        for turn in 0..9 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let new = format!("name {turn}");
            store.rename_column("t", &own[turn % 3], &new).expect("renames");
            own[turn % 3] = new;
        }
    });
    let table = store.table("t").expect("there");
    assert_eq!(names(&table), ["name 6", "name 7", "name 8"]);
}
