//! Columns of every type, in both layouts: what goes in comes out, from memory, from the log and
//! from pages.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int8Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, DictionaryArray, Int8Array,
    LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampSecondArray,
    UInt32Array, make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow_data::{ArrayData, ByteView};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::take::{take, take_record_batch};
use bedload::{Error, Grid, Layout, Operator, Options, Predicate, Table, TableSchema, Value};
use bedload_testkit::Rng;

const TYPES: [DataType; 34] = [
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Decimal32(9, 2),
    DataType::Decimal64(18, -4),
    DataType::Decimal128(38, 2),
    DataType::Decimal256(76, 76),
    DataType::Date32,
    DataType::Date64,
    DataType::Time32(TimeUnit::Second),
    DataType::Time32(TimeUnit::Millisecond),
    DataType::Time64(TimeUnit::Microsecond),
    DataType::Time64(TimeUnit::Nanosecond),
    DataType::Duration(TimeUnit::Second),
    DataType::Duration(TimeUnit::Millisecond),
    DataType::Duration(TimeUnit::Microsecond),
    DataType::Duration(TimeUnit::Nanosecond),
    DataType::Interval(IntervalUnit::YearMonth),
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Timestamp(TimeUnit::Millisecond, None),
    DataType::Timestamp(TimeUnit::Nanosecond, None),
    DataType::FixedSizeBinary(1),
    DataType::FixedSizeBinary(16),
    DataType::Utf8,
    DataType::Binary,
];

/// A column of any bits, a fifth of whose rows have no value.
fn column(kind: &DataType, rows: usize, rng: &mut Rng) -> ArrayRef {
    let nulls = BooleanBuffer::collect_bool(rows, |_| rng.below(5) > 0);
    let is_null = |row: usize| !nulls.value(row);
    let mut bytes = |len: usize| -> Vec<u8> {
        (0..len)
            .map(|_| u8::try_from(rng.below(256)).expect("a byte"))
            .collect()
    };
    match kind {
        DataType::Boolean => {
            let values = bytes(rows.div_ceil(8));
            Arc::new(BooleanArray::new(
                BooleanBuffer::new(values.into(), 0, rows),
                Some(NullBuffer::new(nulls)),
            ))
        }
        DataType::Utf8 => {
            let text = |row: usize| (!is_null(row)).then(|| "é".repeat(usize::from(bytes(1)[0])));
            Arc::new((0..rows).map(text).collect::<StringArray>())
        }
        DataType::Binary => {
            let value = |row: usize| {
                let len = usize::from(bytes(1)[0]);
                (!is_null(row)).then(|| bytes(len))
            };
            Arc::new((0..rows).map(value).collect::<BinaryArray>())
        }
        other => {
            let width = match other {
                DataType::FixedSizeBinary(width) => usize::try_from(*width).expect("positive"),
                other => other.primitive_width().expect("of one width"),
            };
            let mut values = bytes(rows * width);
            // Where there is no value, nothing is kept.
            for row in (0..rows).filter(|&row| is_null(row)) {
                values[row * width..][..width].fill(0);
            }
            let data = ArrayData::builder(other.clone())
                .len(rows)
                .add_buffer(Buffer::from(values));
            make_array(
                data.nulls(Some(NullBuffer::new(nulls)))
                    .align_buffers(true)
                    .build()
                    .expect("an array"),
            )
        }
    }
}

fn schema() -> TableSchema {
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let others = TYPES.iter().enumerate();
    let others = others.map(|(number, kind)| Field::new(format!("{number} {kind}"), kind.clone(), true));
    let fields: Vec<Field> = std::iter::once(at).chain(others).collect();
    TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("all are stored")
}

/// Rows of some times, each of which has the values of one of 200.
fn rows(schema: &TableSchema, times: Range<i64>, rng: &mut Rng) -> RecordBatch {
    let picks =
        UInt32Array::from_iter_values(times.clone().map(|row| u32::try_from(row % 200).expect("small")));
    let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(times));
    let others = TYPES
        .iter()
        .map(|kind| take(&column(kind, 200, rng), &picks, None).expect("there"));
    let columns = std::iter::once(times).chain(others).collect();
    RecordBatch::try_new(schema.arrow().clone(), columns).expect("of the schema")
}

fn check(table: &Table, expected: &RecordBatch, when: &str) {
    let found: Vec<RecordBatch> = table
        .range(..)
        .expect("begun")
        .collect::<Result<_, _>>()
        .expect("read");
    let found = concat_batches(expected.schema_ref(), &found).expect("of one schema");
    for (field, (found, expected)) in expected
        .schema_ref()
        .fields()
        .iter()
        .zip(found.columns().iter().zip(expected.columns()))
    {
        assert_eq!(found.to_data(), expected.to_data(), "{} {when}", field.name());
    }
    for time in (0..expected.num_rows()).step_by(expected.num_rows() / 35) {
        let row = table
            .get(i64::try_from(time).expect("small"))
            .expect("read")
            .expect("there");
        for (number, array) in expected.columns().iter().enumerate() {
            let value = row.value(number);
            assert_eq!(
                value.is_none(),
                array.is_null(time),
                "column {number} of row {time} {when}"
            );
            let Some(value) = value else { continue };
            match array.data_type() {
                DataType::Utf8 => assert_eq!(value, Value::Text(array.as_string::<i32>().value(time))),
                DataType::Binary => assert_eq!(value, Value::Bytes(array.as_binary::<i32>().value(time))),
                DataType::Decimal128(..) => {
                    assert_eq!(
                        value,
                        Value::Decimal(array.as_primitive::<Decimal128Type>().value(time))
                    );
                }
                DataType::Int8 => {
                    assert_eq!(
                        value,
                        Value::Int(array.as_primitive::<Int8Type>().value(time).into())
                    );
                }
                DataType::FixedSizeBinary(_) => {
                    assert_eq!(value, Value::Bytes(array.as_fixed_size_binary().value(time)));
                }
                _ => {}
            }
        }
    }
}

/// Appends three batches of so many rows.
fn keeps_all(layout: Layout, path: &Path, rows_of_batch: i64) {
    let options = Options::new().background(false);
    let store = options.clone().create(true).open(path).expect("created");
    let schema = schema();
    let table = store.create_table_as("t", schema.clone(), layout).expect("fresh");
    let mut rng = Rng::new(26);
    let part = |number: i64| number * rows_of_batch..(number + 1) * rows_of_batch;
    let parts: Vec<RecordBatch> = [0, 1, 2]
        .map(|number| rows(&schema, part(number), &mut rng))
        .into();
    // The second comes late, and its last row first.
    table.append(&parts[0]).expect("appended");
    table.append(&parts[2]).expect("appended");
    let backwards = UInt32Array::from_iter_values(
        (0..)
            .take(parts[1].num_rows())
            .collect::<Vec<_>>()
            .into_iter()
            .rev(),
    );
    let late = take_record_batch(&parts[1], &backwards).expect("there");
    table.append(&late).expect("appended");
    let expected = concat_batches(schema.arrow(), &parts).expect("of one schema");
    check(&table, &expected, "in memory");
    drop((table, store));
    let store = options.open(path).expect("opened");
    let table = store.table("t").expect("there");
    assert_eq!(table.schema(), &schema);
    check(&table, &expected, "from the log");
    store.flush().expect("flushed");
    check(&table, &expected, "from pages");
    assert_eq!(store.verify().expect("read").problems.len(), 0);
    drop((table, store));
    let store = options.open(path).expect("opened");
    check(
        &store.table("t").expect("there"),
        &expected,
        "from pages of a store that was closed",
    );
}

#[test]
fn columns_of_every_type_are_kept() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let grid = Grid::every(1).expect("positive");
    for (name, layout) in [("indexed", Layout::Indexed), ("sparse", Layout::Sparse(grid))] {
        keeps_all(layout, &dir.path().join(name), 200);
        // Long enough to be packed.
        keeps_all(layout, &dir.path().join(format!("{name}, packed")), 4200);
    }
}

#[test]
fn other_layouts_of_text_and_bytes_are_stored_as_one() {
    let at = || Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
    let kinds = [
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary.clone(),
        DataType::LargeBinary,
        DataType::BinaryView,
    ];
    let fields = |kinds: &[DataType]| {
        let others = kinds
            .iter()
            .enumerate()
            .map(|(n, kind)| Field::new(n.to_string(), kind.clone(), true));
        Arc::new(Schema::new(
            std::iter::once(at()).chain(others).collect::<Vec<_>>(),
        ))
    };
    let schema = TableSchema::new(fields(&kinds), "at").expect("stored");
    let stored = [
        DataType::Utf8,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Binary,
        DataType::Binary,
    ];
    assert_eq!(schema.arrow(), &fields(&stored));

    let (texts, bytes) = (
        vec![Some("a"), None, Some("é")],
        vec![Some(&[0xff][..]), None, Some(b"")],
    );
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2, 3]));
    let values: ArrayRef = Arc::new(LargeStringArray::from(vec!["é", "a"]));
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let batch = vec![
        times.clone(),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(StringViewArray::from(texts.clone())),
        Arc::new(DictionaryArray::new(keys, values)),
        Arc::new(LargeBinaryArray::from(bytes.clone())),
        Arc::new(BinaryViewArray::from(bytes.clone())),
    ];
    let batch = RecordBatch::try_new(fields(&kinds), batch).expect("of one schema");
    let (text, binary): (ArrayRef, ArrayRef) = (
        Arc::new(StringArray::from(texts)),
        Arc::new(BinaryArray::from(bytes)),
    );
    let expected = vec![times, text.clone(), text.clone(), text, binary.clone(), binary];
    let expected = RecordBatch::try_new(fields(&stored), expected).expect("of one schema");

    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .open(dir.path().join("s"))
        .expect("created");
    let table = store.create_table("t", schema).expect("fresh");
    table.append(&batch).expect("appended");
    let mut group = store.write_batch();
    group.append(&table, &expected).expect("of the table");
    group.commit().expect("committed");
    let found: Vec<RecordBatch> = table
        .range(..)
        .expect("begun")
        .collect::<Result<_, _>>()
        .expect("read");
    let found = concat_batches(expected.schema_ref(), &found).expect("of one schema");
    let twice = [0, 0, 1, 1, 2, 2].map(|row| expected.slice(row, 1));
    assert_eq!(
        found,
        concat_batches(expected.schema_ref(), &twice).expect("of one schema")
    );
}

/// Rows whose own bytes fit are kept, however long what they are a part of is.
#[test]
fn slices_of_long_columns_are_stored() {
    let kinds = [DataType::LargeBinary, DataType::BinaryView];
    let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
    let others = ["large", "view"].into_iter().zip(kinds);
    let others = others.map(|(name, kind)| Field::new(name, kind, true));
    let fields = Arc::new(Schema::new(std::iter::once(at).chain(others).collect::<Vec<_>>()));
    let schema = TableSchema::new(fields.clone(), "at").expect("stored");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true);
    let store = options.open(dir.path().join("s")).expect("created");
    let table = store.create_table("t", schema).expect("fresh");
    // Over 2 GiB, of which no page is touched.
    let long = (1 << 31) + 100;
    let memory: Buffer = MutableBuffer::from_len_zeroed(long).into();
    let end = i64::try_from(long).expect("32 bits");
    let offsets = [0, end - 30, end - 20, end - 5];
    let large = LargeBinaryArray::new(OffsetBuffer::new(offsets.to_vec().into()), memory.clone(), None);
    let gigabyte = ByteView::new(1 << 30, &[0; 4]).as_u128();
    // Five zeros within the view.
    let short = 5;
    let views = vec![gigabyte, gigabyte, gigabyte, short, short];
    let nulls = NullBuffer::from(vec![false, false, false, true, true]);
    let views = BinaryViewArray::new(views.into(), [memory], Some(nulls));
    let batch = |large: LargeBinaryArray, views: BinaryViewArray| {
        let times = TimestampSecondArray::from_iter_values((0..).take(large.len()));
        let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(large), Arc::new(views)];
        RecordBatch::try_new(fields.clone(), columns).expect("of one schema")
    };
    let sliced = batch(large.slice(1, 2), views.slice(2, 2));
    table.append(&sliced).expect("appended");
    let whole = batch(large.slice(0, 3), views.slice(0, 3));
    let refused = table.append(&whole).expect_err("too long");
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    let found: Vec<_> = table
        .range(..)
        .expect("begun")
        .collect::<Result<_, _>>()
        .expect("read");
    assert_eq!(found[0].column(1).as_binary::<i32>().value(1), [0; 15]);
    assert_eq!(found[0].column(2).as_binary::<i32>().value(1), [0; 5]);
    assert!(found[0].column(2).is_null(0));
}

/// Unpacking them was not begun, and fewer rows would fit.
#[test]
fn dictionaries_that_stand_for_too_many_bytes_are_too_large() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().create(true);
    let store = options.open(dir.path().join("s")).expect("created");
    let long = StringArray::from(vec!["x".repeat(900_000)]);
    let batch = |rows: u32| {
        let times = TimestampSecondArray::from_iter_values(0..i64::from(rows));
        let keys = UInt32Array::from_iter_values((0..rows).map(|_| 0));
        let texts = DictionaryArray::new(keys, Arc::new(long.clone()));
        let columns: [(&str, ArrayRef, bool); 2] =
            [("at", Arc::new(times), false), ("text", Arc::new(texts), true)];
        RecordBatch::try_from_iter_with_nullable(columns).expect("of one length")
    };
    let schema = TableSchema::new(batch(0).schema(), "at").expect("stored");
    let table = store.create_table("t", schema).expect("fresh");
    let refused = table.append(&batch(3000)).expect_err("2.7 GB");
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    table.append(&batch(3)).expect("appended");
    assert_eq!(table.range(..).expect("begun").count().expect("read"), 3);
}

#[test]
fn decimals_and_bytes_are_filtered() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .open(dir.path().join("s"))
        .expect("created");
    let fields = vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("price", DataType::Decimal128(20, 2), true),
        Field::new("id", DataType::Binary, false),
    ];
    let schema = TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("stored");
    let table = store.create_table("t", schema.clone()).expect("fresh");
    let decimals = |values: Vec<i128>| {
        let array = Decimal128Array::from(values);
        array.with_precision_and_scale(20, 2).expect("possible")
    };
    let rows = 0..1000;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from_iter_values(rows.clone())),
        Arc::new(decimals(rows.clone().map(|n| i128::from(n) * 7 - 500).collect())),
        Arc::new(BinaryArray::from_iter_values(rows.map(|n| n.to_be_bytes()))),
    ];
    table
        .append(&RecordBatch::try_new(schema.arrow().clone(), columns).expect("of the schema"))
        .expect("appended");
    for flushed in [false, true] {
        if flushed {
            store.flush().expect("flushed");
        }
        let below = Predicate::compare(Operator::Lt, &decimals(vec![0])).expect("comparable");
        let scan = table
            .range(..)
            .expect("begun")
            .filter("price", below)
            .expect("of its type");
        let found: usize = scan.map(|batch| batch.expect("read").num_rows()).sum();
        assert_eq!(found, 72, "flushed: {flushed}");
        let one = BinaryArray::from_iter_values([700_i64.to_be_bytes()]);
        let equal = Predicate::compare(Operator::Eq, &one).expect("comparable");
        let scan = table
            .range(..)
            .expect("begun")
            .filter("id", equal)
            .expect("of its type");
        let found: usize = scan.map(|batch| batch.expect("read").num_rows()).sum();
        assert_eq!(found, 1, "flushed: {flushed}");
    }
}

#[test]
fn a_table_whose_every_row_is_too_long_is_not_created() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .open(dir.path().join("store"))
        .expect("opens");
    let of_columns = |columns: usize| {
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
        let bytes = |number| Field::new(format!("c{number}"), DataType::FixedSizeBinary(4096), false);
        let fields: Vec<Field> = std::iter::once(at).chain((0..columns).map(bytes)).collect();
        TableSchema::new(Arc::new(Schema::new(fields)), "at").expect("storable")
    };
    store
        .create_table("250", of_columns(250))
        .expect("a row is short enough");
    let refused = store.create_table("257", of_columns(257));
    let error = refused.expect_err("too long").to_string();
    assert!(error.contains("1048576"), "{error}");
    assert_eq!(store.tables(), ["250"]);
}

#[test]
fn times_of_units_that_arrow_does_not_have_are_refused() {
    for kind in [
        DataType::Time32(TimeUnit::Nanosecond),
        DataType::Time64(TimeUnit::Second),
    ] {
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
        let schema = Schema::new(vec![at, Field::new("x", kind, true)]);
        let refused = TableSchema::new(Arc::new(schema), "at").expect_err("no such type");
        assert!(refused.to_string().contains("cannot store"), "{refused}");
    }
}

#[test]
fn a_zone_without_a_name_is_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let of_zone = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Second, zone.map(Into::into));
    let fields = |zone| {
        let names = ["at", "x"];
        Arc::new(Schema::new(
            names.map(|name| Field::new(name, of_zone(zone), false)).to_vec(),
        ))
    };
    let schema = TableSchema::new(fields(Some("")), "at").expect("storable");
    assert_eq!(*schema.arrow(), fields(None));
    // As many rows as are packed in the log.
    let times = TimestampSecondArray::from_iter_values(0..10_000).with_timezone_opt(Some(""));
    let times: ArrayRef = Arc::new(times);
    let batch = RecordBatch::try_new(fields(Some("")), vec![times.clone(), times]).expect("of one length");
    let store = Options::new().create(true).open(&path).expect("creates");
    let table = store.create_table("t", schema).expect("fresh");
    table.append(&batch).expect("appends");
    store.flush().expect("flushes");
    table.append(&batch).expect("appends");
    let rows = |table: &Table| {
        let batches = table.range(..).expect("there").map(|batch| batch.expect("reads"));
        batches.map(|batch| batch.num_rows()).sum::<usize>()
    };
    assert_eq!(rows(&table), 20_000);
    drop((table, store));
    let store = Options::new().open(&path).expect("opens");
    assert_eq!(rows(&store.table("t").expect("there")), 20_000);
}

#[test]
fn as_many_columns_as_a_leaf_has_room_for_can_be_stored() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let schema = |columns: usize| {
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
        let others = (1..columns).map(|number| Field::new(format!("c{number}"), DataType::Int8, false));
        Arc::new(Schema::new(std::iter::once(at).chain(others).collect::<Vec<_>>()))
    };
    let store = Options::new().create(true).open(&path).expect("creates");
    let wide = TableSchema::new(schema(4096), "at").expect("storable");
    let refused = store.create_table("wide", wide).expect_err("a leaf has no room");
    assert!(refused.to_string().contains("at most 4095"), "{refused}");
    let wide = TableSchema::new(schema(4095), "at").expect("storable");
    let table = store.create_table("t", wide).expect("fresh");
    let at: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(0..3));
    let other: ArrayRef = Arc::new(Int8Array::from_iter_values(0..3));
    let columns = std::iter::once(at)
        .chain(std::iter::repeat_n(other, 4094))
        .collect();
    let batch = RecordBatch::try_new(schema(4095), columns).expect("of one length");
    table.append(&batch).expect("appends");
    store.flush().expect("flushes");
    drop((table, store));
    let store = Options::new().open(&path).expect("opens");
    let found = store
        .table("t")
        .and_then(|table| table.range(..)?.next().transpose());
    assert_eq!(found.expect("reads"), Some(batch));
}
