//! Bytes changed behind the store's back: the right answer, or an error that names the place.

use std::fs;
use std::path::{Path, PathBuf};

use bedload::{Error, Options, Store};

use crate::rows::{TestRow, append, batch, collect, schema};

const BATCH: i32 = 40;
const BATCHES: i32 = 8;

fn rows(batch: i32) -> Vec<TestRow> {
    (0..BATCH)
        .map(|row| TestRow::numbered(i64::from(row * 7 % 41), batch * BATCH + row))
        .collect()
}

/// A small store, closed or as a killed process leaves it; and the rows it has, by order of arrival.
fn build(path: &Path, close: bool) -> Vec<TestRow> {
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
    drop(table);
    if close {
        store.close().expect("closes");
    }
    all
}

/// All rows by order of arrival.
fn read(path: &Path) -> Result<Vec<TestRow>, Error> {
    let store = Store::open(path)?;
    let mut rows = collect(store.table("t")?.range(..)?)?;
    rows.sort_by_key(|(sequence, _)| *sequence);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("creates");
    for entry in fs::read_dir(from).expect("reads") {
        let entry = entry.expect("reads");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copies");
        }
    }
}

/// Opens a copy of the store with one byte changed, for every `step`th byte of `file`.
fn flip_each(
    original: &Path,
    file: &Path,
    (step, end): (usize, usize),
    mut check: impl FnMut(usize, Result<Vec<TestRow>, Error>),
) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bytes = fs::read(original.join(file)).expect("reads");
    for offset in (0..bytes.len().min(end)).step_by(step) {
        let path = dir.path().join("copy");
        copy(original, &path);
        let mut damaged = bytes.clone();
        damaged[offset] ^= 0x41;
        fs::write(path.join(file), damaged).expect("writes");
        check(offset, read(&path));
        fs::remove_dir_all(&path).expect("removes");
    }
}

fn names_a_place(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::NewerFormat { .. })
}

#[test]
fn a_changed_byte_of_the_data_file_is_harmless_or_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let expected = build(&path, true);
    let mut errors = 0;
    flip_each(
        &path,
        Path::new("data"),
        (331, usize::MAX),
        |offset, found| match found {
            Ok(rows) => assert!(rows == expected, "wrong rows after a change at offset {offset}"),
            Err(error) => {
                errors += 1;
                assert!(names_a_place(&error), "offset {offset}: {error}");
            }
        },
    );
    assert!(errors > 20, "pages in use were among the bytes changed: {errors}");
}

#[test]
fn a_changed_byte_of_the_log_is_harmless_or_named_or_ends_the_log() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let expected = build(&path, false);
    let segments = fs::read_dir(path.join("log")).expect("reads");
    let segment: PathBuf = segments
        .map(|entry| entry.expect("reads").path())
        .max()
        .expect("a segment");
    let segment = Path::new("log").join(segment.file_name().expect("a file"));
    // The store claims space ahead; only what was written, and a little behind it, is worth changing.
    let bytes = fs::read(path.join(&segment)).expect("reads");
    let written = bytes.iter().rposition(|&byte| byte != 0).expect("records") + 1;
    let mut errors = 0;
    let all_but_last = expected.len() - BATCH as usize;
    flip_each(
        &path,
        &segment,
        (written / 300, written + 500),
        |offset, found| match found {
            Ok(rows) if offset > written => {
                assert!(rows == expected, "wrong rows after a change at offset {offset}")
            }
            // Nothing vouches for the last record: it may be one that was being written.
            Ok(rows) => assert!(
                rows == expected || rows == expected[..all_but_last],
                "wrong rows after a change at offset {offset}"
            ),
            Err(error) => {
                errors += 1;
                assert!(names_a_place(&error), "offset {offset}: {error}");
            }
        },
    );
    assert!(errors > 20, "records were among the bytes changed: {errors}");
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
    let text = b"row 37";
    let mut bytes = fs::read(path.join("data")).expect("reads");
    let places: Vec<usize> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, window)| window == text)
        .map(|(at, _)| at)
        .collect();
    for place in &places {
        bytes[place + 4] = b'4';
    }
    fs::write(path.join("data"), &bytes).expect("writes");
    let report = store.verify().expect("damage is no error");
    let damaged_pages: std::collections::BTreeSet<usize> = places.iter().map(|place| place / 4096).collect();
    let checksums = report
        .problems
        .iter()
        .filter(|problem| problem.reason.contains("checksum"))
        .count();
    assert!(
        checksums > 0 && checksums <= damaged_pages.len(),
        "{:?}",
        report.problems
    );
    assert!(
        report
            .problems
            .iter()
            .all(|problem| problem.file == path.join("data"))
    );
}

#[test]
fn a_missing_log_is_noticed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path, false);
    for entry in fs::read_dir(path.join("log")).expect("reads") {
        fs::remove_file(entry.expect("reads").path()).expect("removes");
    }
    let error = Store::open(&path).expect_err("rows are missing");
    assert!(error.to_string().contains("no segment contains it"), "{error}");
}

#[test]
fn a_torn_tail_is_cut_off_and_writing_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let expected = build(&path, false);
    let segment = fs::read_dir(path.join("log"))
        .expect("reads")
        .map(|entry| entry.expect("reads").path())
        .max();
    let segment = segment.expect("a segment");
    let mut bytes = fs::read(&segment).expect("reads");
    let end = bytes.iter().rposition(|&byte| byte != 0).expect("records") + 1;
    bytes[end - 100..end].fill(0);
    fs::write(&segment, bytes).expect("writes");
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
