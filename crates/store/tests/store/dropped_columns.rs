//! Columns that are dropped while the table has rows, handles, scans and readers.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Error, Grid, Layout, Operator, Options, Predicate, Store, Table, TableSchema, Value};

use crate::handles::{check_with_copies, names, open, refuse_rows_of_each_other};
use crate::writers::beside_writers;

/// The columns of the tables here. The second one is the rest of a key.
const NAMES: [&str; 4] = ["at", "number", "debug", "text"];

fn schema() -> TableSchema {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields = vec![
        Field::new(NAMES[0], time, false),
        Field::new(NAMES[1], DataType::Int64, false),
        Field::new(NAMES[2], DataType::Utf8, false),
        Field::new(NAMES[3], DataType::Utf8, true),
    ];
    TableSchema::new(Arc::new(Schema::new(fields)), NAMES[0]).expect("storable")
}

/// Creates a table, whose rows may have a key.
fn create(store: &Store, is_keyed: bool) -> Table {
    let schema = match is_keyed {
        true => schema().with_key(&[NAMES[1]]).expect("it has it"),
        false => schema(),
    };
    store.create_table("t", schema).expect("fresh")
}

/// The value that the row of a number has in a column.
fn value(column: &Field, number: i64) -> String {
    match column.data_type() {
        DataType::Utf8 => format!("{} {number}", column.name()),
        _ => number.to_string(),
    }
}

/// Rows with values in all columns of a handle.
fn batch(table: &Table, numbers: Range<i64>) -> RecordBatch {
    let arrow = table.schema().arrow();
    let column = |field: &Arc<Field>| -> ArrayRef {
        match field.data_type() {
            DataType::Utf8 => Arc::new(StringArray::from_iter_values(
                numbers.clone().map(|number| value(field, number)),
            )),
            DataType::Int64 => Arc::new(Int64Array::from_iter_values(numbers.clone())),
            _ => Arc::new(TimestampMillisecondArray::from_iter_values(numbers.clone())),
        }
    };
    let columns = arrow.fields().iter().map(column).collect();
    RecordBatch::try_new(arrow.clone(), columns).expect("columns of one length")
}

/// Appends rows, and returns how many gave way to others by their key.
fn append(table: &Table, numbers: Range<i64>) -> u64 {
    table.append(&batch(table, numbers)).expect("appends").replaced
}

fn shown(value: Option<Value<'_>>) -> Option<String> {
    value.map(|value| match value {
        Value::Text(text) => text.to_owned(),
        Value::Int(number) => number.to_string(),
        other => panic!("{other:?}"),
    })
}

/// Checks the columns of batches whose rows have these numbers, and values where `has` says so of a
/// column and a number.
fn check_rows(
    batches: impl Iterator<Item = bedload::Result<RecordBatch>>,
    columns: &[&str],
    numbers: impl Iterator<Item = i64>,
    has: impl Fn(&str, i64) -> bool,
) {
    let mut numbers = numbers.peekable();
    for batch in batches {
        let batch = batch.expect("reads");
        let schema = batch.schema();
        let found = schema.fields().iter().map(|field| field.name().as_str());
        assert_eq!(found.collect::<Vec<_>>(), columns);
        for row in 0..batch.num_rows() {
            let number = numbers.next().expect("no more rows than expected");
            for (field, array) in schema.fields().iter().zip(batch.columns()) {
                let expected = has(field.name(), number).then(|| value(field, number));
                assert_eq!(
                    shown(Value::at(array, row)),
                    expected,
                    "{number}, {}",
                    field.name()
                );
            }
        }
    }
    assert_eq!(numbers.peek(), None);
}

/// Reads a table through a handle in every way.
fn check(table: &Table, numbers: Range<i64>, has: impl Fn(&str, i64) -> bool) {
    let scan = || table.range(..).expect("there");
    let own = names(table);
    check_rows(scan(), &own, numbers.clone(), &has);
    check_rows(scan().rev(), &own, numbers.clone().rev(), &has);
    assert_eq!(scan().count().expect("reads"), numbers.clone().count() as u64);
    for (position, &name) in own.iter().enumerate() {
        let alone = scan().columns(&[name]).expect("its own name");
        check_rows(alone, &[name], numbers.clone(), &has);
        let nulls = scan().filter(name, Predicate::is_null()).expect("its own name");
        check_rows(
            nulls,
            &own,
            numbers.clone().filter(|&number| !has(name, number)),
            &has,
        );
        for number in [numbers.start, (numbers.start + numbers.end) / 2, numbers.end - 1] {
            let row = table.get(number).expect("reads").expect("it is there");
            let expected = has(name, number).then(|| value(table.schema().arrow().field(position), number));
            assert_eq!(shown(row.value(position)), expected, "{number}, {name}");
        }
    }
    let least = Int64Array::from(vec![numbers.end - 7]);
    let newest = Predicate::compare(Operator::GtEq, &least).expect("one number");
    let newest = scan().filter("number", newest).expect("its own name");
    check_rows(newest, &own, numbers.end - 7..numbers.end, &has);
}

#[test]
fn rows_in_pages_and_in_memory_lose_the_column() {
    for is_keyed in [false, true] {
        for column in ["debug", "text"] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let path = dir.path().join("store");
            let store = open(&path);
            let older = create(&store, is_keyed);
            append(&older, 0..5000);
            store.flush().expect("flushes");
            // Rows of one short commit, and a long batch.
            append(&older, 5000..5003);
            append(&older, 5003..10_000);
            let newer = store.drop_column("t", column).expect("drops");
            let expected: Vec<&str> = NAMES.into_iter().filter(|name| *name != column).collect();
            assert_eq!(names(&newer), expected);
            append(&newer, 10_000..10_002);
            check(&newer, 0..10_002, |_, _| true);
            let of_store = store.table("t").expect("there");
            assert_eq!(of_store.schema(), newer.schema());
            assert_eq!(newer.schema().key(), older.schema().key());
            for missing in [column, ""] {
                let gone = newer.range(..).expect("there").columns(&[missing]);
                assert!(matches!(gone, Err(Error::NoSuchColumn { .. })), "{gone:?}");
                let gone = newer
                    .range(..)
                    .expect("there")
                    .filter(missing, Predicate::is_null());
                assert!(matches!(gone, Err(Error::NoSuchColumn { .. })), "{gone:?}");
            }
            store.flush().expect("flushes");
            check(&newer, 0..10_002, |_, _| true);
            assert_eq!(store.verify().expect("reads").problems, []);
            assert_eq!(store.info().expect("reads").tables[0].schema, *newer.schema());
            let schema = newer.schema().clone();
            drop((older, newer, of_store));
            store.close().expect("closes");
            let store = open(&path);
            let reopened = store.table("t").expect("there");
            assert_eq!(reopened.schema(), &schema);
            check(&reopened, 0..10_002, |_, _| true);
            if is_keyed {
                assert_eq!(append(&reopened, 9000..10_002), 1002);
                check(&reopened, 0..10_002, |_, _| true);
            }
            // Rows that only the log has, and a batch that is longer than it.
            append(&reopened, 10_002..10_004);
            append(&reopened, 10_004..11_000);
            drop((reopened, store));
            let recovered = open(&path).table("t").expect("there");
            check(&recovered, 0..11_000, |_, _| true);
        }
    }
}

#[test]
fn handles_scans_and_snapshots_keep_the_column() {
    for is_keyed in [false, true] {
        for column in ["debug", "text"] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let store = open(&dir.path().join("store"));
            let older = create(&store, is_keyed);
            append(&older, 0..20_000);
            let snapshot = store.snapshot();
            let mut begun = older.range(..).expect("there");
            let mut first = vec![begun.next().expect("it has rows")];
            let mut prepared = store.write_batch();
            let rows = batch(&older, 20_000..20_010);
            prepared.append(&older, &rows).expect("its columns");
            let newer = store.drop_column("t", column).expect("drops");
            prepared.commit().expect("commits");
            append(&older, 20_010..20_020);
            append(&newer, 20_020..20_030);
            append(&older, 20_030..20_031);
            if is_keyed {
                append(&older, 20_031..20_040);
                append(&newer, 20_035..20_040);
            } else {
                let mut both = store.write_batch();
                for (table, rows) in [(&older, 20_031..20_035), (&newer, 20_035..20_040)] {
                    both.append(table, &batch(table, rows)).expect("its columns");
                }
                both.commit().expect("commits");
            }
            refuse_rows_of_each_other([&older, &newer], |table| batch(table, 0..1));
            let is_newer = |number: i64| (20_020..20_030).contains(&number) || number >= 20_035;
            let has = |name: &str, number: i64| name != column || !is_newer(number);
            for _ in 0..2 {
                check(&older, 0..20_040, has);
                check(&newer, 0..20_040, |_, _| true);
                store.flush().expect("flushes");
            }
            first.extend(begun);
            check_rows(first.into_iter(), &NAMES, 0..20_000, |_, _| true);
            assert_eq!(snapshot.schema("t").expect("there"), older.schema());
            let then = || snapshot.range("t", ..).expect("there");
            check_rows(then(), &NAMES, 0..20_000, |_, _| true);
            // Query engines that planned with either schema.
            for table in [&older, &newer] {
                let planned = then().with_schema(table.schema()).expect("a schema of it");
                check_rows(planned, &names(table), 0..20_000, |_, _| true);
                let scan = newer
                    .range(..)
                    .expect("there")
                    .columns(&["number"])
                    .expect("it has it");
                let planned = scan.with_schema(table.schema()).expect("a schema of it");
                check_rows(planned, &names(table), 0..20_040, has);
            }
        }
    }
}

#[test]
fn a_handle_takes_no_time_key_or_nulls_that_the_table_never_had() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let schema = |time, key: &[&str], is_nullable| {
        let of_time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let fields = vec![
            Field::new("at", of_time.clone(), false),
            Field::new("seen", of_time, false),
            Field::new("x", DataType::Int64, is_nullable),
            Field::new("y", DataType::Int64, is_nullable),
        ];
        let schema = TableSchema::new(Arc::new(Schema::new(fields)), time).expect("storable");
        match key {
            [] => schema,
            key => schema.with_key(key).expect("it has it"),
        }
    };
    let table = store
        .create_table("t", schema("at", &["x"], false))
        .expect("fresh");
    for other in [
        schema("at", &["x"], true),
        schema("at", &[], false),
        schema("at", &["y"], false),
        schema("seen", &["x"], false),
    ] {
        let refused = table.with_schema(&other);
        assert!(matches!(refused, Err(Error::Schema { .. })), "{refused:?}");
        let scan = table.range(..).expect("there").with_schema(&other);
        assert!(matches!(scan, Err(Error::Schema { .. })));
    }
    let same = table
        .with_schema(&schema("at", &["x"], false))
        .expect("it has it");
    assert_eq!(same.schema(), table.schema());
}

#[test]
fn a_name_that_was_given_up_can_be_that_of_another_column() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = open(&path);
    let oldest = create(&store, true);
    append(&oldest, 0..100);
    store.drop_column("t", "debug").expect("drops");
    let number = Field::new("debug", DataType::Int64, true);
    let older = store.add_columns("t", [number.clone()]).expect("adds");
    append(&older, 100..200);
    store.drop_column("t", "debug").expect("drops");
    let newest = store.add_columns("t", [number]).expect("adds");
    append(&newest, 200..300);
    for _ in 0..2 {
        check(&oldest, 0..300, |name, number| name != "debug" || number < 100);
        check(&older, 0..300, |name, number| {
            name != "debug" || (100..200).contains(&number)
        });
        check(&newest, 0..300, |name, number| name != "debug" || number >= 200);
        store.flush().expect("flushes");
    }
    // Handles of old schemas can be made later.
    let other = |table: &Table| newest.with_schema(table.schema()).expect("a schema of it");
    assert_eq!(append(&other(&oldest), 0..100), 100);
    assert_eq!(append(&other(&older), 100..200), 100);
    assert_eq!(
        append(
            &other(&oldest).with_schema(newest.schema()).expect("one of it"),
            200..300
        ),
        100
    );
    for (table, numbers) in [(&oldest, 0..100), (&older, 100..200), (&newest, 200..300)] {
        assert_eq!(other(table).schema(), table.schema());
        check(&other(table), 0..300, |name, number| {
            name != "debug" || numbers.contains(&number)
        });
    }
    let strange = TableSchema::new(
        Arc::new(Schema::new(vec![Field::new(
            "number",
            DataType::Timestamp(TimeUnit::Second, None),
            false,
        )])),
        "number",
    );
    let refused = newest.with_schema(&strange.expect("storable"));
    assert!(matches!(refused, Err(Error::Schema { .. })), "{refused:?}");
    // A new table has columns of its own, whatever the schema was taken from.
    let copy = store
        .create_table("copy", newest.schema().clone())
        .expect("fresh");
    assert_eq!(copy.schema(), newest.schema());
    append(&copy, 0..10);
    check(&copy, 0..10, |_, _| true);
    // Other columns get the names of dropped ones, the time and one of the key among them.
    store.drop_column("t", "debug").expect("drops");
    store.rename_column("t", "at", "debug").expect("renames");
    store.drop_column("t", "text").expect("drops");
    let renamed = store.rename_column("t", "number", "text").expect("renames");
    assert_eq!(names(&renamed), ["debug", "text"]);
    assert_eq!(renamed.schema().key_names(), Some(vec!["debug", "text"]));
    check(&oldest, 0..300, |name, number| {
        (name != "debug" && name != "text") || number < if name == "debug" { 100 } else { 300 }
    });
    let schema = renamed.schema().clone();
    drop((oldest, older, newest, renamed, copy));
    store.close().expect("closes");
    let store = open(&path);
    let table = store.table("t").expect("there");
    assert_eq!(table.schema(), &schema);
    let row = table.get(150).expect("reads").expect("it is there");
    assert_eq!([0, 1].map(|column| row.value(column)), [Some(Value::Int(150)); 2]);
    assert_eq!(row.value(2), None);
    assert_eq!(append(&table, 290..310), 10);
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 310);
}

#[test]
fn what_cannot_be_dropped_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let table = create(&store, true);
    let grid = Layout::Sparse(Grid::every(1).expect("a grid"));
    store.create_table_as("sparse", schema(), grid).expect("fresh");
    append(&table, 0..10);
    let table = store.drop_column("t", "debug").expect("drops");
    let checkpoint = store.info().expect("reads").checkpoint;
    let refusals = [
        ("u", "text", "no table \"u\""),
        ("sparse", "text", "table \"sparse\" is sparse"),
        ("t", "at", "column \"at\" is the time of the table"),
        ("t", "number", "column \"number\" is one of the table's key"),
        (
            "t",
            "debug",
            "there is no column \"debug\"; the columns are at, number, text",
        ),
        ("t", "", "there is no column \"\""),
    ];
    for (name, column, reason) in refusals {
        let error = store.drop_column(name, column).expect_err("it cannot be");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(store.info().expect("reads").checkpoint, checkpoint);
    assert_eq!(store.table("t").expect("there").schema(), table.schema());
    let refused = store
        .rename_column("t", "debug", "new")
        .expect_err("it was dropped");
    assert!(matches!(refused, Error::NoSuchColumn { .. }), "{refused}");
    check(&table, 0..10, |_, _| true);
    // All but the time of a table without a key may go.
    store.create_table("u", schema()).expect("fresh");
    for column in &NAMES[1..] {
        store.drop_column("u", column).expect("drops");
    }
    let left = store.table("u").expect("there");
    append(&left, 0..10);
    check_rows(left.range(..).expect("there"), &NAMES[..1], 0..10, |_, _| true);
}

#[test]
fn readers_copies_and_salvage_lack_the_column() {
    for column in ["debug", "text"] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let place = |name: &str| dir.path().join(name);
        let store = open(&place("store"));
        let older = create(&store, false);
        append(&older, 0..5000);
        store.flush().expect("flushes");
        append(&older, 5000..5010);
        let reader = Options::new()
            .read_only(true)
            .open(place("store"))
            .expect("opens");
        let read_before = reader.table("t").expect("there");
        let newer = store.drop_column("t", column).expect("drops");
        append(&older, 5010..5020);
        append(&newer, 5020..5022);
        append(&newer, 5022..5100);
        check(&read_before, 0..5010, |_, _| true);
        assert!(reader.refresh().expect("reads"));
        check(&read_before, 0..5100, |name, number| {
            name != column || number < 5020
        });
        let read_after = reader.table("t").expect("there");
        assert_eq!(read_after.schema(), newer.schema());
        check(&read_after, 0..5100, |_, _| true);
        drop((read_before, read_after, reader));
        let schema = newer.schema().clone();
        drop((older, newer));
        check_with_copies(store, dir.path(), &schema, |table| {
            check(table, 0..5100, |_, _| true);
        });
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
    let fields = schema().arrow().fields().to_vec();
    let required = |number| Arc::new(Field::new(format!("c{number}"), DataType::Utf8, false));
    let fields: Vec<Arc<Field>> = fields.into_iter().chain((0..8).map(required)).collect();
    let wide = TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("storable");
    store.create_table("t", wide).expect("fresh");
    let write = |table: &Table, numbers: Range<i64>| assert_eq!(append(table, numbers), 0);
    let read = |table: &Table| {
        for batch in table.range(..).expect("there") {
            let batch = batch.expect("reads");
            let schema = batch.schema();
            let numbers = batch.column(1).clone();
            for (field, column) in schema.fields().iter().zip(batch.columns()).skip(2) {
                for row in 0..batch.num_rows() {
                    let number = shown(Value::at(&numbers, row)).expect("it is required");
                    // Another thread may drop the column before the batch is read.
                    let found = shown(Value::at(column, row));
                    assert!(found.is_none_or(|text| text == format!("{} {number}", field.name())));
                }
            }
        }
    };
    beside_writers(&store, write, read, || {
        for number in 0..8 {
            std::thread::sleep(std::time::Duration::from_millis(30));
            store.drop_column("t", &format!("c{number}")).expect("drops");
        }
    });
    let table = store.table("t").expect("there");
    assert_eq!(names(&table), NAMES);
    let nulls = table
        .range(..)
        .expect("there")
        .filter("text", Predicate::is_null());
    assert_eq!(nulls.expect("it has it").count().expect("reads"), 0);
}
