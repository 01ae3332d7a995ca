//! Bytes changed behind the store's back: the right answer, or an error that names the place.

use std::fs;
use std::path::{Path, PathBuf};

use bedload::{Error, Grid, Layout, Options, Store, salvage};

use crate::pages::pages_of;
use crate::rows::{TestRow, append, batch, collect, schema};

const BATCH: i32 = 40;
const BATCHES: i32 = 8;

fn rows(batch: i32) -> Vec<TestRow> {
    (0..BATCH)
        .map(|row| TestRow::numbered(i64::from(row * 7 % 41), batch * BATCH + row))
        .collect()
}

/// A small store, which is open, and the rows it has, by order of arrival.
fn create(path: &Path) -> (Store, Vec<TestRow>) {
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .background(false)
        .open(path)
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    let mut all = Vec::new();
    for batch in 0..BATCHES {
        append(&table, &rows(batch)).expect("appends");
        all.extend(rows(batch));
    }
    (store, all)
}

/// A small store that was left with its rows in the log.
fn build(path: &Path) -> Vec<TestRow> {
    create(path).1
}

/// Copies the files of a store as they are.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir(to).expect("creates");
    for entry in fs::read_dir(from).expect("reads") {
        let path = entry.expect("reads").path();
        let to = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy_files(&path, &to);
        } else {
            fs::copy(&path, &to).expect("copies");
        }
    }
}

/// Zeroes the end of the newest segment: the mark that closing leaves after the last batch, if it
/// is there, and a part of that batch. Returns the segment.
fn tear(path: &Path) -> PathBuf {
    let log = fs::read_dir(path.join("log")).expect("reads");
    let segment = log.map(|entry| entry.expect("reads").path()).max();
    let segment = segment.expect("a segment");
    let mut bytes = fs::read(&segment).expect("reads");
    let end = bytes.iter().rposition(|&byte| byte != 0).expect("records") + 1;
    bytes[end - 100..end].fill(0);
    fs::write(&segment, bytes).expect("writes");
    segment
}

/// All rows by order of arrival.
fn read(path: &Path) -> Result<Vec<TestRow>, Error> {
    let store = Store::open(path)?;
    let mut rows = collect(store.table("t")?.range(..)?)?;
    rows.sort_by_key(|(sequence, _)| *sequence);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

#[test]
fn records_without_the_header_of_their_segment_are_damage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let all = build(&path);
    let log = fs::read_dir(path.join("log")).expect("reads");
    let segments = log.map(|entry| entry.expect("reads").path());
    let last = segments.max().expect("a segment");
    let sound = fs::read(&last).expect("reads");
    let mut bytes = sound.clone();
    bytes[..64].fill(0);
    fs::write(&last, &bytes).expect("writes");
    let error = Store::open(&path).expect_err("its rows were durable");
    assert!(
        matches!(&error, Error::Corrupt { file, .. } if *file == last),
        "{error}"
    );
    assert_eq!(fs::read(&last).expect("reads"), bytes, "nothing is written over");
    let salvaged = dir.path().join("salvaged");
    let report = salvage(&path, &salvaged).expect("salvages");
    assert!(!report.is_complete());
    fs::write(&last, &sound).expect("writes");
    assert_eq!(read(&path).expect("reads"), all);
}

#[test]
fn verify_lists_every_damaged_page() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let store = Options::new()
        .create(true)
        .page_bytes(4096)
        .open(&path)
        .expect("creates");
    let table = store.create_table("t", schema()).expect("fresh");
    for batch in 0..100 {
        append(&table, &rows(batch)).expect("appends");
    }
    store.flush().expect("flushes");
    let sound = store.verify().expect("reads");
    assert_eq!(sound.problems, []);
    assert_eq!(sound.rows, 4000);
    let mut bytes = fs::read(path.join("data")).expect("reads");
    let pages = pages_of(&bytes, 4096);
    for page in &pages {
        bytes[page + 100] ^= 4;
    }
    fs::write(path.join("data"), &bytes).expect("writes");
    let report = store.verify().expect("damage is no error");
    let checksums = report
        .problems
        .iter()
        .filter(|problem| problem.reason.contains("checksum"))
        .count();
    assert!(checksums > 0 && checksums <= pages.len(), "{:?}", report.problems);
    assert!(
        report
            .problems
            .iter()
            .all(|problem| problem.file == path.join("data"))
    );
}

#[test]
fn a_damaged_page_is_one_problem() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for layout in [Layout::Indexed, Layout::Sparse(Grid::every(1).expect("positive"))] {
        let path = dir.path().join(format!("{}", layout == Layout::Indexed));
        let options = Options::new().create(true).page_bytes(4096).background(false);
        let store = options.open(&path).expect("creates");
        let table = store.create_table_as("t", schema(), layout).expect("fresh");
        for batch in 0..20 {
            append(&table, &rows(batch)).expect("appends");
        }
        store.flush().expect("flushes");
        drop(table);
        let sound = fs::read(path.join("data")).expect("reads");
        let mut damaged = 0;
        for page in (64 << 10..sound.len())
            .step_by(4096)
            .filter(|&page| sound[page + 4] == 1)
        {
            let mut bytes = sound.clone();
            bytes[page + 100] ^= 1;
            fs::write(path.join("data"), &bytes).expect("writes");
            let problems = store.verify().expect("damage is no error").problems;
            let of_page = problems
                .iter()
                .filter(|problem| problem.reason.contains("checksum"));
            // Places that were given up may have anything.
            assert!(
                of_page.count() == problems.len() && problems.len() <= 1,
                "{problems:?}"
            );
            damaged += problems.len();
        }
        assert!(damaged >= 2, "{damaged} pages");
    }
}

/// The file below a directory in which a text stands, and where.
fn find(dir: &Path, text: &[u8]) -> Option<(PathBuf, usize)> {
    fs::read_dir(dir).expect("reads").find_map(|entry| {
        let path = entry.expect("reads").path();
        if path.is_dir() {
            return find(&path, text).filter(|(found, _)| found.extension().is_none_or(|kind| kind != "log"));
        }
        let bytes = fs::read(&path).expect("reads");
        let at = bytes.windows(text.len()).position(|window| window == text)?;
        Some((path, at))
    })
}

/// The data file, and where in it a page that names a table's tree stands, the one that was written
/// last.
fn meta_page(dir: &Path) -> (PathBuf, usize) {
    let path = dir.join("data");
    let bytes = fs::read(&path).expect("reads");
    let pages = pages_of(&bytes, 4096).into_iter();
    let newest = pages
        .filter(|&at| bytes[at + 32..at + 34] == [0xD4, 0xBE])
        .max_by_key(|&at| u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("eight bytes")));
    (path, newest.expect("a table"))
}

#[test]
fn damage_that_keeps_a_store_from_being_opened_is_named_with_the_way_out() {
    let every = Grid::every(1).expect("positive");
    for (layout, place) in [(Layout::Indexed, "page "), (Layout::Sparse(every), "block ")] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store");
        let options = Options::new().create(true).page_bytes(4096).background(false);
        let store = options.open(&path).expect("creates");
        let table = store.create_table_as("t", schema(), layout).expect("fresh");
        append(&table, &rows(0)).expect("appends");
        store.flush().expect("flushes");
        // Left in the log, for the same table or block.
        append(&table, &rows(1)[..5]).expect("appends");
        drop((table, store));
        let (file, at) = match layout {
            Layout::Indexed => meta_page(&path),
            _ => find(&path, b"row 39").expect("it was flushed"),
        };
        let mut bytes = fs::read(&file).expect("reads");
        bytes[at] ^= 0x10;
        fs::write(&file, &bytes).expect("writes");
        let error = Store::open(&path).expect_err("the log cannot be merged");
        assert!(matches!(error, Error::Corrupt { .. }));
        let message = error.to_string();
        let way_out = format!("`bedload salvage {} NEW`", path.display());
        for part in [&*file.to_string_lossy(), place, &way_out] {
            assert!(message.contains(part), "{message}");
        }
        // It is one.
        let saved = dir.path().join("saved");
        let report = salvage(&path, &saved).expect("salvages");
        assert!(!report.is_complete());
        let store = Store::open(&saved).expect("opens");
        let rows = store.table("t").and_then(|table| table.range(..)?.count());
        // The indexed table has lost the page that names its tree, and no rows.
        let expected = if layout == Layout::Indexed { 45 } else { 5 };
        assert_eq!(rows.expect("reads"), expected);
    }
}

#[test]
fn a_missing_log_is_noticed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path);
    for entry in fs::read_dir(path.join("log")).expect("reads") {
        fs::remove_file(entry.expect("reads").path()).expect("removes");
    }
    let opened = [true, false].map(|reads| Options::new().read_only(reads).open(&path));
    for error in opened.map(|opened| opened.expect_err("rows are missing")) {
        assert!(error.to_string().contains("no segment contains it"), "{error}");
    }
    // So is its folder.
    fs::remove_dir(path.join("log")).expect("removes");
    let opened = [true, false].map(|reads| Options::new().read_only(reads).open(&path));
    for error in opened.map(|opened| opened.expect_err("rows are missing")) {
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("no segment contains it"), "{error}");
    }
}

#[test]
fn a_torn_tail_is_cut_off_and_writing_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    // As a process that was killed leaves it.
    let open = dir.path().join("open");
    let (store, expected) = create(&open);
    copy_files(&open, &path);
    drop(store);
    tear(&path);
    let all_but_last = expected.len() - BATCH as usize;
    assert_eq!(read(&path).expect("opens"), expected[..all_but_last]);
    let store = Store::open(&path).expect("opens");
    store
        .table("t")
        .expect("there")
        .append(&batch(&rows(BATCHES)))
        .expect("appends");
    drop(store);
    let mut rows_now = expected[..all_but_last].to_vec();
    rows_now.extend(rows(BATCHES));
    assert_eq!(read(&path).expect("opens"), rows_now);
}

#[test]
fn a_torn_tail_of_a_store_that_was_closed_is_damage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let expected = build(&path);
    let segment = tear(&path);
    let opened = [true, false].map(|reads| Options::new().read_only(reads).open(&path));
    for error in opened.map(|opened| opened.expect_err("rows are missing")) {
        let message = error.to_string();
        let way_out = format!("`bedload salvage {} NEW`", path.display());
        for part in [
            &*segment.to_string_lossy(),
            "was durable up to",
            &way_out,
            "backup",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
    let saved = dir.path().join("saved");
    let report = salvage(&path, &saved).expect("salvages");
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let all_but_last = expected.len() - BATCH as usize;
    assert_eq!(read(&saved).expect("opens"), expected[..all_but_last]);
}
