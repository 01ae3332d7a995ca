//! Files that are far longer than what is in them, and records that say they are. Reading them
//! takes neither the memory nor the time that their length would: without holes passed over these
//! tests would not end, and memory by length is not to be had.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bedload::{Grid, Layout, Options, Store, inspect, salvage};

use crate::rows::{TestRow, append, schema};

/// Bytes of a file that has almost none: less than the 16 TiB that ext4 has for a file.
const LONG: u64 = 8 << 40;

const ROWS: i32 = 300;
const COUNTED: [u64; 2] = [300, 300];

/// A store with rows in pages, in blocks and in the log.
fn build(path: &Path) {
    let options = Options::new().create(true).page_bytes(4096).background(false);
    let store = options.open(path).expect("creates");
    let rows: Vec<TestRow> = (0..ROWS)
        .map(|number| TestRow::numbered(number.into(), number))
        .collect();
    let grid = Grid::every(1).expect("positive");
    for (name, layout) in [("t", Layout::Indexed), ("s", Layout::Sparse(grid))] {
        let table = store.create_table_as(name, schema(), layout).expect("fresh");
        append(&table, &rows[..200]).expect("appends");
        store.flush().expect("flushes");
        append(&table, &rows[200..]).expect("appends");
    }
}

fn only(dir: &Path, extension: &str) -> PathBuf {
    let paths = fs::read_dir(dir)
        .expect("reads")
        .map(|entry| entry.expect("reads").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect();
    assert_eq!(paths.len(), 1);
    paths.remove(0)
}

fn writable(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("opens")
}

/// The rows of both tables.
fn rows(path: &Path) -> [u64; 2] {
    let store = Store::open(path).expect("opens");
    assert_eq!(store.verify().expect("reads").problems, []);
    let rows = |name| store.table(name).and_then(|table| table.range(..)?.count());
    ["t", "s"].map(|name| rows(name).expect("reads"))
}

#[test]
fn a_file_is_not_as_large_as_it_is_long() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for what in ["log", "data", "blocks"] {
        let path = dir.path().join(what);
        build(&path);
        let file = match what {
            "log" => only(&path.join("log"), "log"),
            "data" => path.join("data"),
            _ => only(&path.join("sparse").join("2"), "blocks"),
        };
        writable(&file).set_len(LONG).expect("a file system with holes");
        assert_eq!(inspect(&path).expect("a store"), [], "{what}");
        let saved = dir.path().join("saved");
        let report = salvage(&path, &saved).expect("salvages");
        assert_eq!(report.problems, [], "{what}");
        for path in [&saved, &path] {
            assert_eq!(rows(path), COUNTED, "{what}");
        }
        fs::remove_dir_all(&saved).expect("removes");
    }
}

#[test]
fn a_salvage_of_a_long_file_without_its_superblocks_ends() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path);
    let data = writable(&path.join("data"));
    data.set_len(LONG).expect("a file system with holes");
    for slot in [0, 32 << 10] {
        data.write_all_at(&[0; 4096], slot).expect("writes");
    }
    let saved = dir.path().join("saved");
    let report = salvage(&path, &saved).expect("salvages");
    assert!(!report.is_complete());
    assert_eq!(rows(&saved), COUNTED);
}

#[test]
fn memory_is_not_taken_for_a_record_that_is_not_there() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path);
    let segment = only(&path.join("log"), "log");
    let log = writable(&segment);
    log.set_len(LONG).expect("a file system with holes");
    let name = segment
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let start = u64::from_str_radix(&name, 16).expect("a position");
    // Far behind the end, records that say they are as long as may be.
    for number in 0..64u64 {
        let offset = (1 << 30) + (number << 34);
        let position = start + offset - 64;
        let mut head = Vec::new();
        head.extend_from_slice(&7u32.to_le_bytes());
        head.extend_from_slice(&(1u32 << 30).to_le_bytes());
        head.extend_from_slice(&position.to_le_bytes());
        head.extend_from_slice(&position.to_le_bytes());
        log.write_all_at(&head, offset).expect("writes");
    }
    let mut peak = 0;
    let saved = dir.path().join("saved");
    for step in 0..3 {
        let measured = allocation_counter::measure(|| match step {
            0 => assert_eq!(inspect(&path).expect("a store"), []),
            1 => assert!(salvage(&path, &saved).expect("salvages").is_complete()),
            _ => assert_eq!(rows(&path), COUNTED),
        });
        peak = peak.max(measured.bytes_max);
    }
    assert!(peak < 200 << 20, "{peak} bytes at once");
}
