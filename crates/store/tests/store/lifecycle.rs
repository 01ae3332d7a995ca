//! Creating, opening, closing, locking; tables coming and going.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Int64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Durability, Error, Options, Store, TableSchema};

use crate::rows::{TestRow, append, collect, schema};

fn numbered(numbers: std::ops::Range<i32>) -> Vec<TestRow> {
    numbers
        .map(|number| TestRow::numbered(i64::from(number), number))
        .collect()
}

#[test]
fn rows_survive_every_way_of_leaving() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let rows = numbered(0..3000);
    for (leave, durability) in [
        ("drop", Durability::Always),
        ("close", Durability::Always),
        ("drop", Durability::Relaxed),
        (
            "drop",
            Durability::Group {
                every: Duration::from_millis(3),
            },
        ),
    ] {
        let options = Options::new().create(true).durability(durability);
        let store = options.open(&path).expect("opens");
        let table = store
            .create_table(&format!("{leave} {durability:?}"), schema())
            .expect("a fresh table");
        for part in rows.chunks(700) {
            append(&table, part).expect("appends");
        }
        drop(table);
        if leave == "close" {
            store.close().expect("closes")
        } else {
            drop(store)
        }
    }
    let store = Store::open(&path).expect("opens");
    assert_eq!(store.tables().len(), 4);
    for name in store.tables() {
        let found = collect(store.table(&name).expect("there").range(..).expect("there")).expect("reads");
        assert_eq!(
            found.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
            rows,
            "{name}"
        );
    }
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn a_second_opener_is_told_who_holds_the_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let first = Store::create(&path).expect("creates");
    let error = Store::open(&path).expect_err("it is open");
    let expected = format!("{} is in use by process {}", path.display(), std::process::id());
    assert_eq!(error.to_string(), expected);
    drop(first);
    Store::open(&path).expect("free again");
}

#[test]
fn tables_snapshots_and_scans_keep_the_store_open() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Store::create(&path).expect("creates");
    let table = store.create_table("t", schema()).expect("a fresh table");
    drop(store);
    append(&table, &numbered(0..10)).expect("the table holds the store");
    let scan = table.range(..).expect("there");
    drop(table);
    assert!(matches!(Store::open(&path), Err(Error::Locked { .. })));
    assert_eq!(scan.count().expect("reads"), 10);
    assert_eq!(
        Store::open(&path)
            .expect("free")
            .table("t")
            .expect("there")
            .range(..)
            .expect("there")
            .count()
            .expect("reads"),
        10
    );
}

#[test]
fn places_that_hold_no_store_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = dir.path().join("missing");
    assert!(matches!(Store::open(&missing), Err(Error::NotAStore { .. })));
    Store::check_creatable(&missing).expect("nothing is there");
    assert!(!missing.exists());
    let below = Store::check_creatable(missing.join("below"));
    assert!(
        matches!(below, Err(Error::Io { action: "create", .. })),
        "{below:?}"
    );

    let file = dir.path().join("file");
    fs::write(&file, "x").expect("writes");
    assert!(matches!(Store::open(&file), Err(Error::NotAStore { .. })));
    assert!(matches!(
        Options::new().create(true).open(&file),
        Err(Error::NotAStore { .. })
    ));
    assert!(matches!(
        Store::check_creatable(&file),
        Err(Error::NotAStore { .. })
    ));

    let other = dir.path().join("other");
    fs::create_dir(&other).expect("creates");
    fs::write(other.join("letter.txt"), "dear").expect("writes");
    assert!(matches!(
        Options::new().create(true).open(&other),
        Err(Error::NotAStore { .. })
    ));
    assert!(matches!(Store::create(&other), Err(Error::AlreadyExists { .. })));
    fs::write(other.join("lock"), "").expect("writes");
    let refused = Store::check_creatable(&other).expect_err("other files");
    assert!(refused.to_string().contains("holds other files"), "{refused}");
    fs::remove_file(other.join("lock")).expect("removes");
    assert_eq!(fs::read_dir(&other).expect("reads").count(), 1);
}

#[test]
fn a_creation_that_was_cut_short_is_begun_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    drop(Store::create(&path).expect("creates"));
    fs::rename(path.join("data"), path.join("data.begun")).expect("renames");
    assert!(matches!(Store::open(&path), Err(Error::NotAStore { .. })));
    Store::check_creatable(&path).expect("its remains");
    let store = Options::new()
        .create(true)
        .open(&path)
        .expect("creates over the remains");
    store.create_table("t", schema()).expect("a fresh table");
}

#[test]
fn a_removal_that_was_cut_short_gives_way_to_a_new_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Store::create(&path).expect("creates");
    let table = store.create_table("t", schema()).expect("a fresh table");
    append(&table, &numbered(0..100)).expect("appends");
    drop((table, store));
    fs::rename(path.join("data"), path.join("data.begun")).expect("renames");
    let store = Options::new()
        .create(true)
        .open(&path)
        .expect("creates over the remains");
    assert!(store.tables().is_empty());
    assert_eq!(store.verify().expect("reads").problems, []);
}

/// Names and contents of files, but for the lock file.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir)
        .expect("reads")
        .map(|entry| entry.expect("reads").path());
    let contents = entries.flat_map(|path| match fs::read(&path) {
        Ok(bytes) => BTreeMap::from([(path, bytes)]),
        Err(_) => files(&path),
    });
    contents.filter(|(path, _)| !path.ends_with("lock")).collect()
}

#[test]
fn a_log_without_its_data_file_is_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for is_closed in [true, false] {
        let path = dir.path().join(if is_closed { "closed" } else { "dropped" });
        let (data, aside) = (path.join("data"), dir.path().join("data"));
        let store = Store::create(&path).expect("creates");
        let table = store.create_table("t", schema()).expect("a fresh table");
        append(&table, &numbered(0..100)).expect("appends");
        drop(table);
        if is_closed {
            store.close().expect("closes");
        } else {
            drop(store);
        }
        fs::rename(&data, &aside).expect("renames");
        let before = files(&path);
        let create = || Options::new().create(true).open(&path).map(drop);
        for refused in [create(), create(), Store::check_creatable(&path)] {
            let error = refused.expect_err("the log may have rows");
            assert!(matches!(error, Error::NotAStore { .. }), "{error}");
            assert!(error.to_string().contains("put it back"), "{error}");
        }
        assert_eq!(files(&path), before);
        fs::rename(&aside, &data).expect("renames");
        let table = Store::open(&path).and_then(|store| store.table("t"));
        assert_eq!(
            table.and_then(|table| table.range(..)?.count()).expect("reads"),
            100
        );
    }
}

#[test]
fn a_newer_format_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    drop(Store::create(&path).expect("creates"));
    let mut bytes = fs::read(path.join("data")).expect("reads");
    for slot in [0, 32 * 1024] {
        bytes[slot..slot + 8].copy_from_slice(b"bedload\n");
        bytes[slot + 8..slot + 12].copy_from_slice(&7u32.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[slot..slot + 4092]);
        bytes[slot + 4092..slot + 4096].copy_from_slice(&crc.to_le_bytes());
    }
    fs::write(path.join("data"), &bytes).expect("writes");
    let error = Store::open(&path).expect_err("too new");
    assert!(
        matches!(
            error,
            Error::NewerFormat {
                found: 7,
                supported: 2,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs::read(path.join("data")).expect("reads"), bytes);
}

#[test]
fn options_out_of_range_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for page_bytes in [0, 4095, 5000, 1 << 16] {
        let error = Options::new()
            .create(true)
            .page_bytes(page_bytes)
            .open(dir.path().join("s"));
        assert!(matches!(
            error,
            Err(Error::InvalidOption {
                option: "page_bytes",
                ..
            })
        ));
    }
    assert!(!dir.path().join("s").exists());
}

#[test]
fn dropped_tables_leave_no_page_behind() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .open(dir.path().join("store"))
        .expect("creates");
    assert!(matches!(
        store.create_table("", schema()),
        Err(Error::Schema { .. })
    ));
    let kept = store.create_table("kept", schema()).expect("fresh");
    assert!(matches!(
        store.create_table("kept", schema()),
        Err(Error::TableExists { .. })
    ));
    append(&kept, &numbered(0..500)).expect("appends");
    store.flush().expect("flushes");
    let pages = store.verify().expect("reads").pages;

    let table = store.create_table("dropped", schema()).expect("fresh");
    append(&table, &numbered(0..5000)).expect("appends");
    store.flush().expect("flushes");
    append(&table, &numbered(5000..6000)).expect("appends, and stays in the head");
    let snapshot = store.snapshot();
    store.drop_table("dropped").expect("drops");

    assert!(matches!(store.table("dropped"), Err(Error::NoSuchTable { .. })));
    assert!(matches!(
        append(&table, &numbered(0..1)),
        Err(Error::NoSuchTable { .. })
    ));
    assert!(matches!(table.range(..), Err(Error::NoSuchTable { .. })));
    assert_eq!(
        snapshot
            .range("dropped", ..)
            .expect("it was there")
            .count()
            .expect("reads"),
        6000
    );
    let report = store.verify().expect("reads");
    assert_eq!((report.pages, report.problems), (pages, vec![]));

    let again = store.create_table("dropped", schema()).expect("the name is free");
    assert_eq!(again.range(..).expect("there").count().expect("reads"), 0);
    assert_eq!(kept.range(..).expect("there").count().expect("reads"), 500);
}

#[test]
fn names_of_tables_are_short_printable_text() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("store")).expect("creates");
    let long = "ä".repeat(127);
    for name in ["t", "Messwerte der Säule 7", "測定", &long, &format!("{long}x")] {
        store.create_table(name, schema()).expect("a name");
    }
    let reversed = "t\u{202e}txt";
    let longer = format!("{long}xy");
    let unfit = [
        "",
        &longer,
        "two\nlines",
        "\u{1b}[31mred",
        reversed,
        "zero\0",
        "\u{2028}",
    ];
    for name in unfit {
        let refused = store.create_table(name, schema());
        assert!(matches!(refused, Err(Error::Schema { .. })), "{name:?}");
        let refused = store.rename_table("t", name);
        assert!(matches!(refused, Err(Error::Schema { .. })), "{name:?}");
    }
    assert_eq!(store.tables().len(), 5);
    assert!(store.table("t").is_ok(), "it has its name still");
}

#[test]
fn unfit_batches_change_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .open(dir.path().join("store"))
        .expect("creates");
    let fields = |value: DataType, nullable| {
        Arc::new(Schema::new(vec![
            Field::new("at", DataType::Timestamp(TimeUnit::Second, None), nullable),
            Field::new("value", value, true),
        ]))
    };
    let schema = TableSchema::new(fields(DataType::Int64, false), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");

    let times = TimestampSecondArray::from(vec![Some(1), None, Some(3)]);
    let batch = RecordBatch::try_new(
        fields(DataType::Int64, true),
        vec![Arc::new(times), Arc::new(Int64Array::from(vec![1, 2, 3]))],
    );
    let error = table
        .append(&batch.expect("columns of one length"))
        .expect_err("no time");
    assert_eq!(error.to_string(), "row 1 has no value in the time column \"at\"");

    let times = TimestampSecondArray::from(vec![1]);
    let values = arrow_array::Int32Array::from(vec![1]);
    let batch = RecordBatch::try_new(
        fields(DataType::Int32, false),
        vec![Arc::new(times), Arc::new(values)],
    );
    let error = table
        .append(&batch.expect("columns of one length"))
        .expect_err("another type")
        .to_string();
    assert!(
        error.contains("column 1") && error.contains("Int32") && error.contains("Int64"),
        "{error}"
    );

    let long = store.create_table("long", crate::rows::schema()).expect("fresh");
    let mut row = TestRow::numbered(1, 1);
    row.text = Some("x".repeat(1 << 20));
    let error = append(&long, &[TestRow::numbered(0, 0), row]).expect_err("too long");
    assert!(matches!(error, Error::RowTooLong { row: 1, .. }), "{error}");

    assert_eq!(table.range(..).expect("there").count().expect("reads"), 0);
    assert_eq!(long.range(..).expect("there").count().expect("reads"), 0);
}

#[test]
fn text_as_long_as_admitted_round_trips() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .open(dir.path().join("store"))
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    let mut rows = Vec::new();
    for number in 0..200u16 {
        let mut row = TestRow::numbered(i64::from(number % 50), i32::from(number));
        row.text = Some("y".repeat(700 + usize::from(number % 100)));
        append(&table, std::slice::from_ref(&row)).expect("appends");
        rows.push(row);
    }
    store.flush().expect("flushes");
    rows.sort_by_key(|row| row.time);
    let found = collect(table.range(..).expect("there")).expect("reads");
    assert_eq!(found.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), rows);
}

#[test]
fn a_renamed_table_keeps_its_rows_and_no_other_loses_its_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Store::create(&path).expect("creates");
    let rows = numbered(0..500);
    let table = store.create_table("begun", schema()).expect("a fresh table");
    store.create_table("other", schema()).expect("a fresh table");
    append(&table, &rows).expect("appends");
    assert!(matches!(
        store.rename_table("begun", "other"),
        Err(Error::TableExists { .. })
    ));
    assert!(matches!(
        store.rename_table("gone", "new"),
        Err(Error::NoSuchTable { .. })
    ));
    assert!(matches!(
        store.rename_table("begun", ""),
        Err(Error::Schema { .. })
    ));
    store.rename_table("begun", "whole").expect("renames");
    let other = store.create_table("begun", schema()).expect("a fresh table");
    let snapshot = store.snapshot();
    assert_eq!(snapshot.name_of(&table).expect("it is there"), "whole");
    assert_eq!(snapshot.name_of(&other).expect("it is there"), "begun");
    store.drop_table("begun").expect("drops");
    let gone = store.snapshot();
    assert!(matches!(gone.name_of(&other), Err(Error::NoSuchTable { .. })));
    assert_eq!(snapshot.name_of(&other).expect("it was there"), "begun");
    // The handle of before is one of the same table.
    append(&table, &rows).expect("appends");
    drop((table, other, snapshot, gone, store));

    let store = Store::open(&path).expect("opens");
    assert_eq!(store.tables(), ["whole", "other"]);
    let table = store.table("whole").expect("there");
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 1000);
    assert_eq!(store.verify().expect("reads").problems, []);
}

#[test]
fn what_is_shown_of_a_store_is_a_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Store::create(&path).expect("creates");
    let table = store.create_table("readings", schema()).expect("fresh");
    append(&table, &[TestRow::numbered(1, 1)]).expect("appends");
    store.flush().expect("flushes");
    let snapshot = store.snapshot();
    let shown = [
        format!("{store:?}"),
        format!("{table:?}"),
        format!("{snapshot:?}"),
    ];
    for shown in &shown {
        assert!(shown.len() < 1000, "{} bytes", shown.len());
    }
    assert!(shown[1].contains("readings"), "{}", shown[1]);
}
