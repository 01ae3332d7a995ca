//! Readers that go from mark to mark, and what marks take back.

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bedload::{Durability, Error, Mark, Options, Store, Table};

use crate::rows::{TestRow, append, batch, collect, schema};

const DURABILITIES: [Durability; 3] = [
    Durability::Always,
    Durability::Group {
        every: Duration::from_millis(1),
    },
    Durability::Relaxed,
];

fn options(durability: Durability) -> Options {
    Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(64 << 10)
        .cache_bytes(1 << 20)
        .durability(durability)
}

fn rows(numbers: std::ops::Range<i32>) -> Vec<TestRow> {
    let row = |number: i32| TestRow::numbered(i64::from(number * 31 % 1000), number);
    numbers.map(row).collect()
}

fn create(path: &Path, durability: Durability) -> (Store, Table) {
    let store = options(durability).open(path).expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    (store, table)
}

/// The numbers of the rows that were not visible at a mark, in order.
fn since(table: &Table, mark: Mark) -> Vec<i32> {
    let found = collect(table.since(mark).expect("there")).expect("reads");
    let mut numbers: Vec<i32> = found.into_iter().map(|(_, row)| row.number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_snapshot_has_the_rows_since_a_mark_that_it_was_made_after() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = create(&dir.path().join("store"), Durability::Always);
    append(&table, &rows(0..3)).expect("appends");
    let mark = table.mark();
    append(&table, &rows(3..5)).expect("appends");
    let snapshot = store.snapshot();
    append(&table, &rows(5..6)).expect("appends");
    store.flush().expect("flushes");
    let new = snapshot.since("t", mark).expect("there");
    let (of_snapshot, mut numbers) = (new.mark(), Vec::new());
    numbers.extend(
        collect(new)
            .expect("reads")
            .into_iter()
            .map(|(_, row)| row.number),
    );
    numbers.sort_unstable();
    assert_eq!((numbers, since(&table, of_snapshot)), (vec![3, 4], vec![5]));
    let later = snapshot.since("t", table.mark()).expect("there");
    assert_eq!(later.count().expect("reads"), 0);
    store.create_table("other", schema()).expect("fresh");
    let other = store.snapshot().since("other", mark);
    assert!(matches!(other, Err(Error::Schema { .. })));
}

#[test]
fn a_scan_since_a_mark_counts_what_it_has_left() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_store, table) = create(&dir.path().join("store"), Durability::Always);
    append(&table, &rows(0..10)).expect("appends");
    let mark = table.mark();
    append(&table, &rows(10..20_000)).expect("appends");
    let new = || table.since(mark).expect("there");
    assert_eq!(new().count().expect("reads"), 19_990);
    for mut scan in [new(), new().with_sequence()] {
        let first = scan.next().expect("some").expect("reads").num_rows() as u64;
        assert!((1..19_990).contains(&first));
        assert_eq!(scan.count().expect("reads"), 19_990 - first);
    }
}

#[test]
fn rows_that_were_not_visible_at_a_mark_come_since_it() {
    for durability in DURABILITIES {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (store, table) = create(&dir.path().join("store"), durability);
        append(&table, &rows(0..3)).expect("appends");
        let first = table.mark();
        let pending = table.begin_append(&batch(&rows(3..5))).expect("begins");
        let all = table.range(..).expect("there");
        let (second, of_scan) = (table.mark(), all.mark());
        let found_before = since(&table, first);
        pending.wait().expect("becomes durable");
        let found = [found_before.clone(), since(&table, second)].concat();
        assert_eq!(found, [3, 4], "{durability:?}");
        assert_eq!(
            all.count().expect("reads") + since(&table, of_scan).len() as u64,
            5
        );

        // A flush changes nothing of it.
        let third = table.mark();
        let pending = table.begin_append(&batch(&rows(5..7))).expect("begins");
        let fourth = table.mark();
        store.flush().expect("flushes");
        pending.wait().expect("it is durable");
        assert_eq!(since(&table, third), [5, 6]);
        assert_eq!(since(&table, fourth), [5, 6]);
        assert_eq!(since(&table, table.mark()), Vec::<i32>::new());
    }
}

#[test]
fn a_row_whose_append_had_begun_is_not_taken_back() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_store, table) = create(&dir.path().join("store"), Durability::Always);
    let before = table.mark();
    let begun = table.begin_append(&batch(&rows(0..2))).expect("begins");
    let mark = table.mark();
    let later = table.begin_append(&batch(&rows(2..4))).expect("begins");
    table.retract_since(mark).expect("retracts");
    begun.wait().expect("becomes durable");
    later.wait().expect("becomes durable");
    assert_eq!(since(&table, before), [0, 1]);
    append(&table, &rows(4..6)).expect("appends");
    assert_eq!(since(&table, before), [0, 1, 4, 5]);
}

#[test]
fn a_scan_and_what_comes_since_its_mark_are_all_rows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, table) = create(&dir.path().join("store"), Durability::Relaxed);
    append(&table, &rows(0..3)).expect("appends");
    let snapshot = store.snapshot();
    append(&table, &rows(3..5)).expect("appends");
    let old = snapshot.range("t", ..).expect("there");
    assert_eq!(since(&table, old.mark()), [3, 4]);
    let narrow = table.range(0..1).expect("there").limit(1);
    let mark = narrow.mark();
    append(&table, &rows(5..6)).expect("appends");
    assert_eq!(since(&table, mark), [5], "it is the state that counts");
    table.retract_since(old.mark()).expect("retracts");
    assert_eq!(table.range(..).expect("there").count().expect("reads"), 3);
}

#[test]
fn a_mark_is_of_one_store_and_of_none_of_its_backups() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let (store, table) = create(&path, Durability::Relaxed);
    append(&table, &rows(0..3)).expect("appends");
    let mark = table.mark();
    store.backup(dir.path().join("copy")).expect("copies");
    let copy = Store::open(dir.path().join("copy")).expect("opens");
    append(&copy.table("t").expect("there"), &rows(3..5)).expect("appends");
    append(&table, &rows(5..6)).expect("appends");
    let of_copy = copy.table("t").expect("there");
    assert!(matches!(of_copy.since(mark), Err(Error::Schema { .. })));
    assert!(matches!(of_copy.retract_since(mark), Err(Error::Schema { .. })));
    // Every process that has the store open counts alike.
    let reader = Options::new().read_only(true).open(&path).expect("opens");
    assert_eq!(since(&reader.table("t").expect("there"), mark), [5]);
    drop((table, store));
    let again = Store::open(&path).expect("opens");
    assert_eq!(since(&again.table("t").expect("there"), mark), [5]);
}

#[test]
fn a_saved_mark_goes_on_in_another_opening() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let (store, table) = create(&path, Durability::Always);
    append(&table, &rows(0..3)).expect("appends");
    let saved = table.mark().to_string();
    assert_eq!(saved.parse::<Mark>().expect("whole").to_string(), saved);
    append(&table, &rows(3..2000)).expect("appends");
    store.flush().expect("flushes");
    append(&table, &rows(2000..2001)).expect("appends");
    store.rename_table("t", "u").expect("renames");
    drop((table, store));
    // Where the files are does not matter, nor the name of the table.
    let moved = dir.path().join("moved");
    std::fs::rename(&path, &moved).expect("renames");
    let read_only = Options::new().read_only(true).open(&moved).expect("opens");
    for store in [read_only, Store::open(&moved).expect("opens")] {
        let table = store.table("u").expect("there");
        let mark = saved.parse().expect("whole");
        assert_eq!(since(&table, mark), (3..2001).collect::<Vec<_>>());
    }
    let store = Store::open(&moved).expect("opens");
    let table = store.table("u").expect("there");
    table
        .retract_since(saved.parse().expect("whole"))
        .expect("retracts");
    assert_eq!(table.range(..).and_then(|scan| scan.count()).expect("reads"), 3);
}

#[test]
fn a_saved_mark_of_another_store_or_of_a_later_state_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [path, copy, restored, early] =
        ["store", "copy", "restored", "early"].map(|name| dir.path().join(name));
    let (store, table) = create(&path, Durability::Always);
    append(&table, &rows(0..3)).expect("appends");
    store.backup(&copy).expect("copies");
    bedload::restore(&copy, &restored).expect("restores");
    drop((table, store));
    // A copy of the files, which nothing tells from the store until that goes further.
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&path, &early])
        .status();
    assert!(copied.expect("runs").success());
    let store = Store::open(&path).expect("opens");
    let table = store.table("t").expect("there");
    append(&table, &rows(3..4)).expect("appends");
    let saved = table.mark().to_string();
    let refused = |path: &Path, reason: &str| {
        let store = Store::open(path).expect("opens");
        let table = store.table("t").expect("there");
        let mark = saved.parse().expect("whole");
        for error in [
            table.since(mark).map(drop).expect_err(reason),
            table.retract_since(mark).expect_err(reason),
        ] {
            assert!(error.to_string().contains(reason), "{error}");
        }
    };
    refused(&copy, "of another copy of the store");
    refused(&restored, "of another copy of the store");
    refused(&early, "later than the rows that the store shows");
    let (_other, other) = create(&dir.path().join("other"), Durability::Always);
    let error = other
        .since(saved.parse().expect("whole"))
        .expect_err("another store");
    assert!(error.to_string().contains("not one of table"), "{error}");
    // A reader shows the rows once it has moved on.
    let reader = Options::new().read_only(true).open(&path).expect("opens");
    append(&table, &rows(4..5)).expect("appends");
    let mark = table.mark().to_string().parse().expect("whole");
    let of_reader = reader.table("t").expect("there");
    let error = of_reader.since(mark).expect_err("it is later");
    assert!(error.to_string().contains("refresh"), "{error}");
    reader.refresh().expect("reads");
    assert_eq!(since(&of_reader, mark), [0; 0]);
}

#[test]
fn a_changed_text_is_no_mark() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (_store, table) = create(&dir.path().join("store"), Durability::Always);
    let saved = table.mark().to_string();
    assert!(format!("{saved}\n").parse::<Mark>().is_ok());
    for at in 0..saved.len() {
        let mut text = saved.clone().into_bytes();
        text[at] ^= 1;
        assert!(
            String::from_utf8_lossy(&text).parse::<Mark>().is_err(),
            "byte {at}"
        );
        assert!(saved[..at].parse::<Mark>().is_err(), "{at} bytes");
    }
}

/// Batches of a writer.
const BATCHES: usize = 60;
/// Rows of a long batch: more than the memory for rows takes.
const LONG: i32 = 1500;
const WRITERS: usize = 3;

#[test]
fn readers_find_every_row_once_whatever_is_appended_meanwhile() {
    for durability in DURABILITIES {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store");
        let (store, table) = create(&path, durability);
        let reader = Options::new().read_only(true).open(&path).expect("opens");
        let (next, writing) = (AtomicI32::new(0), AtomicI32::new(3));
        // From before anything is appended.
        let mark = table.mark();
        let follow = |store: &Store| {
            let table = store.table("t").expect("there");
            let mut mark = mark;
            let mut found = Vec::new();
            loop {
                let is_last = writing.load(Ordering::Acquire) == 0;
                store.refresh().expect("reads");
                let new = table.since(mark).expect("there");
                mark = new.mark();
                found.extend(
                    collect(new)
                        .expect("reads")
                        .into_iter()
                        .map(|(_, row)| row.number),
                );
                if is_last {
                    found.sort_unstable();
                    return found;
                }
            }
        };
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (table, next, writing) = (table.clone(), &next, &writing);
                scope.spawn(move || {
                    for number in 0..BATCHES {
                        let count = match number % 12 {
                            4 if writer == 0 => LONG,
                            kind => i32::try_from(kind).expect("small") + 1,
                        };
                        let first = next.fetch_add(count, Ordering::Relaxed);
                        let rows = batch(&rows(first..first + count));
                        let pending = table.begin_append(&rows).expect("begins");
                        if number % 3 > 0 {
                            pending.wait().expect("becomes durable");
                        }
                    }
                    // Appends that this thread did not wait for are visible once this one is.
                    let last = -1 - i32::try_from(writer).expect("few");
                    append(&table, &rows(last..last + 1)).expect("appends");
                    writing.fetch_sub(1, Ordering::Release);
                });
            }
            let readers = [&store, &reader].map(|store| scope.spawn(|| follow(store)));
            let found = readers.map(|reader| reader.join().expect("no panic"));
            let writers = i32::try_from(WRITERS).expect("few");
            for (number, found) in found.into_iter().enumerate() {
                let expected: Vec<i32> = (-writers..next.load(Ordering::Relaxed)).collect();
                assert!(found == expected, "{durability:?}, reader {number}");
            }
        });
    }
}
