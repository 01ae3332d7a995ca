//! The intact rows of a damaged store go into a new one, and missing ones are named.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bedload::{Error, Options, SalvageReport, Store, inspect, salvage};

use crate::pages::PAGES_OFFSET;
use crate::rows::{TestRow, append, collect, schema};

const PAGE: usize = 4096;
/// Rows of a batch.
const PART: i32 = 2000;

type Rows = BTreeMap<u64, TestRow>;

/// A store with a table of some leaves, and rows in the log; and the rows it has, by sequence
/// number.
fn build(path: &Path) -> Rows {
    let store = Options::new()
        .create(true)
        .page_bytes(PAGE)
        .background(false)
        .open(path)
        .expect("creates");
    store.create_table("dropped", schema()).expect("fresh");
    append(&store.table("dropped").expect("there"), &rows(0..500)).expect("appends");
    store.flush().expect("flushes");
    store.drop_table("dropped").expect("drops");
    let table = store.create_table("t", schema()).expect("fresh");
    for part in 0..10 {
        append(&table, &rows(part * PART..(part + 1) * PART)).expect("appends");
        store.flush().expect("flushes");
    }
    table.delete_range(1000..1100).expect("deletes");
    store.flush().expect("flushes");
    for part in 10..14 {
        append(&table, &rows(part * PART..(part + 1) * PART)).expect("appends");
    }
    table.delete_range(2000..2100).expect("deletes");
    collect(table.range(..).expect("there"))
        .expect("a sound store")
        .into_iter()
        .collect()
}

fn rows(numbers: std::ops::Range<i32>) -> Vec<TestRow> {
    numbers
        .map(|number| TestRow::numbered(i64::from(number - if number % 17 == 0 { 40 } else { 0 }), number))
        .collect()
}

/// Returns the saved rows, once the new store is found to be in order.
fn saved(to: &Path) -> Rows {
    let store = Store::open(to).expect("a new store");
    assert_eq!(store.verify().expect("reads").problems, []);
    let table = store.table("t").expect("was saved");
    let rows = collect(table.range(..).expect("there")).expect("a new store");
    append(&table, &[TestRow::numbered(7, 7)]).expect("a store like any other");
    rows.into_iter().collect()
}

/// Salvages the store that `damage` was done to the data file of; what was there, what was saved,
/// what was said.
fn after(damage: impl Fn(&mut Vec<u8>)) -> (Rows, Rows, SalvageReport) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let built = build(&from);
    let mut bytes = fs::read(from.join("data")).expect("reads");
    damage(&mut bytes);
    fs::write(from.join("data"), &bytes).expect("writes");
    let report = salvage(&from, &to).expect("salvages");
    assert_eq!(
        fs::read(from.join("data")).expect("reads"),
        bytes,
        "the damaged store stays as it is"
    );
    let saved = saved(&to);
    for (sequence, row) in &saved {
        assert!(
            built.get(sequence).is_none_or(|known| known == row),
            "a wrong row"
        );
    }
    assert_eq!(report.tables[0].rows, saved.len() as u64);
    (built, saved, report)
}

/// The kinds of pages that a test destroys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Leaf,
    Trunk,
    Map,
    Catalogue,
}

/// The pages of a kind, whether the last checkpoint has them or not.
fn pages_of(bytes: &[u8], kind: Kind) -> Vec<usize> {
    let is_of_kind = |&at: &usize| match kind {
        Kind::Leaf => bytes[at + 32..].starts_with(b"BCR"),
        Kind::Trunk => matches!(bytes[at + 32..at + 34], [0xD3 | 0xD4, 0xBE]),
        Kind::Map => bytes[at + 4] == 2,
        Kind::Catalogue => bytes[at + 4] == 3,
    };
    crate::pages::pages_of(bytes, PAGE)
        .into_iter()
        .filter(is_of_kind)
        .collect()
}

fn destroy(bytes: &mut [u8], pages: impl IntoIterator<Item = usize>) {
    for at in pages {
        bytes[at..at + PAGE].fill(0xA5);
    }
}

#[test]
fn a_sound_store_is_copied_whole() {
    let (built, saved, report) = after(|_| {});
    assert!(report.is_complete(), "{:?}", report.problems);
    assert_eq!(built, saved);
    assert_eq!(
        (report.tables[0].missing, report.tables[0].gaps.len()),
        (Some(0), 0)
    );
    // Four batches and a deletion.
    assert!(report.log_records >= 5, "{}", report.log_records);
}

#[test]
fn lost_leaves_cost_their_rows_and_leave_gaps() {
    let (built, saved, report) = after(|bytes| {
        let leaves = pages_of(bytes, Kind::Leaf);
        assert!(leaves.len() > 10, "{}", leaves.len());
        destroy(bytes, [leaves[leaves.len() / 2]]);
    });
    assert!(!report.is_complete());
    let lost: Vec<&TestRow> = built
        .iter()
        .filter(|(sequence, _)| !saved.contains_key(sequence))
        .map(|(_, row)| row)
        .collect();
    let table = &report.tables[0];
    assert!(!lost.is_empty() && lost.len() < built.len() / 5, "{}", lost.len());
    // The rows that the log deletes are counted as missing only where they were in a leaf that is
    // lost.
    assert!(
        table.missing.is_some_and(|missing| missing >= lost.len() as u64),
        "{table:?}"
    );
    for row in lost {
        let holds = |gap: &bedload::Gap| {
            gap.from.is_none_or(|from| from <= row.time) && gap.to.is_none_or(|to| row.time <= to)
        };
        assert!(
            table.gaps.iter().any(holds),
            "the row of time {} is in none of {:?}",
            row.time,
            table.gaps
        );
    }
}

#[test]
fn what_a_lost_leaf_was_made_of_fills_its_gap() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let store = Options::new()
        .create(true)
        .page_bytes(PAGE)
        .background(false)
        .open(&from)
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    // So many small runs are merged into one.
    for part in 0..16 {
        append(&table, &rows(part * PART..(part + 1) * PART)).expect("appends");
        store.flush().expect("flushes");
    }
    drop((table, store));
    let mut bytes = fs::read(from.join("data")).expect("reads");
    let leaves = pages_of(&bytes, Kind::Leaf);
    let rows_of = |at: usize| u32::from_le_bytes(bytes[at + 44..at + 48].try_into().expect("four bytes"));
    let merged = leaves.into_iter().max_by_key(|&at| rows_of(at));
    destroy(&mut bytes, merged);
    fs::write(from.join("data"), &bytes).expect("writes");

    let report = salvage(&from, &to).expect("salvages");
    let table = &report.tables[0];
    assert_eq!(table.missing, None);
    assert!(!table.gaps.is_empty());
    let said = |problem: &bedload::Problem| problem.reason.contains("outdated copy");
    assert!(report.problems.iter().any(said), "{:?}", report.problems);
    // Places of some runs that were merged are in use again.
    let saved = saved(&to).len();
    assert!(
        saved > 8 * usize::try_from(PART).expect("positive"),
        "{saved} rows"
    );
}

#[test]
fn rows_do_not_need_the_branches_above_them() {
    let (built, saved, report) = after(|bytes| {
        let branches = pages_of(bytes, Kind::Trunk);
        assert!(branches.len() > 2, "{}", branches.len());
        destroy(bytes, branches);
    });
    assert!(!report.is_complete());
    assert_eq!(built, saved);
    assert_eq!(
        (report.tables[0].missing, report.tables[0].gaps.len()),
        (Some(0), 0)
    );
}

#[test]
fn rows_do_not_need_the_page_map_nor_superblocks() {
    let (built, saved, report) = after(|bytes| {
        let map = pages_of(bytes, Kind::Map);
        destroy(bytes, map);
    });
    assert!(!report.is_complete());
    assert_all_but_deleted(&built, &saved);

    let (built, saved, report) = after(|bytes| bytes[..PAGES_OFFSET].fill(0xA5));
    assert!(!report.is_complete());
    assert_all_but_deleted(&built, &saved);
}

/// Everything is there; of what was deleted, and of nothing else, some may be back.
fn assert_all_but_deleted(built: &Rows, saved: &Rows) {
    for (sequence, row) in built {
        assert_eq!(saved.get(sequence), Some(row));
    }
    let back: BTreeSet<i64> = saved
        .iter()
        .filter(|(sequence, _)| !built.contains_key(sequence))
        .map(|(_, row)| row.time)
        .collect();
    assert!(
        back.iter().all(|time| (1000..1100).contains(time)),
        "rows of another table, or deleted by the log: {back:?}"
    );
}

#[test]
fn of_the_catalogue_one_copy_will_do() {
    let (built, saved, report) = after(|bytes| {
        let newest = pages_of(bytes, Kind::Catalogue)
            .into_iter()
            .max_by_key(|&at| u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("eight bytes")));
        destroy(bytes, newest);
    });
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(built, saved);
}

#[test]
fn without_any_catalogue_nothing_is_known_of_the_tables() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    build(&from);
    let mut bytes = fs::read(from.join("data")).expect("reads");
    let catalogues = pages_of(&bytes, Kind::Catalogue);
    destroy(&mut bytes, catalogues);
    fs::write(from.join("data"), &bytes).expect("writes");
    let error = salvage(&from, &to).expect_err("no schema");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(!to.exists(), "nothing was begun");
}

#[test]
fn records_behind_a_damaged_one_are_kept() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let built = build(&from);
    let segment = fs::read_dir(from.join("log"))
        .expect("reads")
        .map(|entry| entry.expect("reads").path())
        .max()
        .expect("a segment");
    let mut bytes = fs::read(&segment).expect("reads");
    let text = b"row 22600";
    let at = bytes.windows(text.len()).position(|window| window == text);
    bytes[at.expect("in the log")] = b'R';
    fs::write(&segment, &bytes).expect("writes");
    Store::open(&from).expect_err("damage");

    let report = salvage(&from, &to).expect("salvages");
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    let saved = saved(&to);
    let lost: BTreeSet<i32> = built
        .iter()
        .filter(|(sequence, _)| !saved.contains_key(sequence))
        .map(|(_, row)| row.number)
        .collect();
    assert_eq!(lost, (11 * PART..12 * PART).collect());
}

#[test]
fn names_of_files_in_the_log_do_no_harm() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let from = dir.path().join("from");
    let built = build(&from);
    let segments = fs::read_dir(from.join("log")).expect("reads");
    let newest = segments.map(|entry| entry.expect("reads").path()).max();
    let records = fs::read(newest.expect("a segment")).expect("reads");
    let starts: [u64; 5] = [u64::MAX, (1 << 62) + 1, 1 << 62, (1 << 62) - 1, 1 << 40];
    for (start, bytes) in starts
        .into_iter()
        .flat_map(|start| [(start, &[][..]), (start, &records[..])])
    {
        let intruder = from.join(format!("log/{start:016x}.log"));
        fs::write(&intruder, bytes).expect("writes");
        let to = dir.path().join(format!("{start:x} {}", bytes.len()));
        let report = salvage(&from, &to).expect("salvages");
        let names = |problem: &bedload::Problem| problem.file == intruder;
        assert!(
            report.problems.iter().any(names),
            "{start:x}: {:?}",
            report.problems
        );
        // It is opened, written to, and opened again.
        assert_eq!(saved(&to), built);
        assert_eq!(saved(&to).len(), built.len() + 1);
        fs::remove_file(intruder).expect("removes");
    }
}

/// The files of a store.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("reads") {
        let path = entry.expect("reads").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).expect("reads"));
        }
    }
    files
}

#[test]
fn nothing_is_written_to_a_store_that_is_salvaged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let expected = build(&from);
    fs::remove_file(from.join("lock")).expect("removes");
    let before = files(&from);
    // Readers and others that look at it are not in the way.
    let reader = Options::new().read_only(true).open(&from).expect("opens");
    assert_eq!(inspect(&from).expect("reads"), []);
    drop(reader);
    assert!(salvage(&from, &to).expect("reads").is_complete());
    assert_eq!(saved(&to), expected);
    assert!(files(&from) == before);
}

#[test]
fn what_cannot_be_salvaged_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    assert!(matches!(salvage(&from, &to), Err(Error::NotAStore { .. })));
    let error = salvage(dir.path().join("none"), &to).expect_err("there is nothing");
    assert!(error.to_string().contains("does not exist"), "{error}");
    let store = Store::create(&from).expect("creates");
    assert!(matches!(salvage(&from, &to), Err(Error::Locked { .. })));
    drop(store);
    fs::create_dir(&to).expect("creates");
    fs::write(to.join("letter"), "mine").expect("writes");
    assert!(matches!(salvage(&from, &to), Err(Error::AlreadyExists { .. })));
    assert_eq!(fs::read_dir(&to).expect("reads").count(), 1);
}
