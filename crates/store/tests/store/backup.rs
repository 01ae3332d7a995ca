//! Backups: one state of a store, as a store of its own.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bedload::{Error, Grid, Layout, Options, Store, Table};

use crate::rows::{TestRow, append, rows_without_sequence, schema};

const LAYOUTS: [&str; 2] = ["indexed", "sparse"];

fn open(path: &Path) -> Store {
    let options = Options::new().create(true).page_bytes(4096).head_bytes(64 << 10);
    let store = options.open(path).expect("opens");
    for name in LAYOUTS {
        if store.table(name).is_err() {
            let layout = match name {
                "sparse" => Layout::Sparse(Grid::every(10).expect("positive")),
                _ => Layout::Indexed,
            };
            store.create_table_as(name, schema(), layout).expect("fresh");
        }
    }
    store
}

fn rows(numbers: std::ops::Range<i32>) -> Vec<TestRow> {
    let row = |number: i32| TestRow::numbered(i64::from(number - 500) * 10, number);
    numbers.map(row).collect()
}

fn read(table: &Table) -> Vec<TestRow> {
    let scan = table.range(..).expect("there");
    scan.flat_map(|batch| rows_without_sequence(&batch.expect("reads")))
        .collect()
}

/// Bytes that the files of a directory take, and how long they are.
fn sizes(dir: &Path) -> (u64, u64) {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let each = entries.map(|entry| {
        let entry = entry.expect("reads");
        let data = entry.metadata().expect("there");
        if data.is_dir() {
            sizes(&entry.path())
        } else {
            (data.blocks() * 512, data.len())
        }
    });
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn a_backup_is_one_state_of_a_store_that_is_being_written_to() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(&dir.path().join("store"));
    let first = rows(0..1500);
    for name in LAYOUTS {
        append(&store.table(name).expect("there"), &first).expect("appends");
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in LAYOUTS {
            let table = store.table(name).expect("there");
            let is_done = &is_done;
            scope.spawn(move || {
                for number in (1500..).step_by(50) {
                    append(&table, &rows(number..number + 50)).expect("appends");
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        // Appends would go on for ever if this panicked.
        scopeguard::defer!(is_done.store(true, Ordering::Relaxed));
        let reader = Options::new().read_only(true).open(dir.path().join("store"));
        let reader = reader.expect("opens");
        for (number, handle) in [&store, &reader, &store, &reader].into_iter().enumerate() {
            let to = dir.path().join(format!("copy {number}"));
            let report = handle.backup(&to).expect("copies");
            assert_eq!(report.problems, []);
            let copy = Store::open(&to).expect("a store");
            for name in LAYOUTS {
                let found = read(&copy.table(name).expect("copied"));
                assert!(
                    found.len() >= 1500 && found.len().is_multiple_of(50),
                    "{}",
                    found.len()
                );
                let all = i32::try_from(found.len()).expect("few");
                assert_eq!(found, rows(0..all), "whole commits, none left out");
            }
        }
    });
}

#[test]
fn a_restored_store_goes_on_where_the_backup_was_made() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [path, copy, restored] = ["store", "copy", "restored"].map(|name| dir.path().join(name));
    {
        let store = open(&path);
        for name in LAYOUTS {
            let table = store.table(name).expect("there");
            append(&table, &rows(0..3000)).expect("appends");
            table.delete_range(500..700).expect("deletes");
        }
        let report = store.backup(&copy).expect("copies");
        assert_eq!(report.rows, 2 * 2980);
        // Later rows are not in it.
        append(&store.table("sparse").expect("there"), &rows(0..10)).expect("appends");
        assert!(matches!(store.backup(&copy), Err(Error::AlreadyExists { .. })));
    }
    let checked = bedload::restore(&copy, &restored).expect("restores");
    assert_eq!((checked.rows, checked.problems), (2 * 2980, Vec::new()));
    for _ in 0..2 {
        let store = open(&restored);
        for name in LAYOUTS {
            let table = store.table(name).expect("there");
            let mut expected = rows(0..3000);
            expected.retain(|row| !(500..700).contains(&row.time));
            assert_eq!(read(&table), expected);
            append(&table, &rows(3000..3001)).expect("appends");
            table.delete_range(25_000..).expect("deletes");
        }
        store.flush().expect("flushes");
        assert_eq!(store.verify().expect("reads").problems, []);
    }
    assert_eq!(bedload::inspect(&restored).expect("reads"), []);
}

/// `umask` says nothing about rows that their owner has hidden from others.
#[test]
fn a_backup_and_a_salvaged_store_are_as_hidden_as_the_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    for hidden in [0o700, 0o770] {
        let [store, copy, salvaged] =
            ["store", "copy", "salvaged"].map(|name| path.with_extension(format!("{name}.{hidden:o}")));
        fs::create_dir(&store).expect("creates");
        fs::set_permissions(&store, fs::Permissions::from_mode(hidden)).expect("it is ours");
        open(&store).backup(&copy).expect("copies");
        bedload::salvage(&store, &salvaged).expect("copies");
        assert_eq!((mode(&copy), mode(&salvaged)), (hidden, hidden));
        // Users who may read the store can register as readers, and no others can.
        assert_eq!(mode(&store.join("readers")), hidden);
    }
}

#[test]
fn a_store_that_is_protected_from_writing_is_copied_to_where_its_owner_can_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [store, copy, salvaged] = ["store", "copy", "salvaged"].map(|name| dir.path().join(name));
    open(&store).close().expect("closes");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o555)).expect("it is ours");
    bedload::restore(&store, &copy).expect("copies");
    bedload::salvage(&store, &salvaged).expect("copies");
    for path in [&copy, &salvaged] {
        assert_eq!(fs::metadata(path).expect("there").mode() & 0o777, 0o755);
    }
    fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn a_backup_takes_no_more_space_than_its_rows() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [path, copy] = ["store", "copy"].map(|name| dir.path().join(name));
    let store = open(&path);
    let table = store.table("sparse").expect("there");
    let snapshots: Vec<_> = (0..6)
        .map(|_| {
            append(&table, &rows(0..2000)).expect("appends");
            append(&table, &rows(1_000_000..1_000_010)).expect("appends");
            store.flush().expect("flushes");
            store.snapshot()
        })
        .collect();
    let check = |copy: &Path| {
        let ((taken, len), (taken_before, len_before)) =
            (sizes(&copy.join("sparse")), sizes(&path.join("sparse")));
        assert!(
            taken < taken_before / 3,
            "{taken} of {taken_before} bytes on the disk"
        );
        assert!(
            len < len_before / 3,
            "{len} of {len_before} bytes of files, in one layer"
        );
    };
    // Rows, and no row, in place of some, and more behind them, which only the log has.
    for numbers in [0..2000, 500..501, 1990..2010] {
        append(&table, &rows(numbers)).expect("appends");
    }
    table.delete_range(10_100..10_300).expect("deletes");
    let by_reader = dir.path().join("by reader");
    bedload::restore(&path, &by_reader).expect("copies");
    check(&by_reader);
    let of_copy = Store::open(&by_reader).expect("a store");
    assert_eq!(read(&of_copy.table("sparse").expect("there")), read(&table));
    store.backup(&copy).expect("copies");
    check(&copy);
    let block_bytes = |copy: &Path| sizes(&copy.join("sparse"));
    assert_eq!(block_bytes(&by_reader).1, block_bytes(&copy).1);
    drop(snapshots);
    assert_eq!(
        read(
            &Store::open(&copy)
                .expect("a store")
                .table("sparse")
                .expect("there")
        ),
        read(&table)
    );
}

#[test]
fn a_damaged_store_is_not_backed_up_in_silence() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in LAYOUTS {
        let [path, copy] = ["store", "copy"].map(|of| dir.path().join(format!("{name} {of}")));
        {
            let store = open(&path);
            // Few rows in the last flush, so that their text stands in the data file as it is.
            // Those of the sparse table are in the first block of a file: the others are gigabytes
            // of holes away.
            for numbers in [0..495, 495..505] {
                append(&store.table(name).expect("there"), &rows(numbers)).expect("appends");
                store.flush().expect("flushes");
            }
            store.close().expect("closes");
        }
        let mut files = vec![path.join("data")];
        if name == "sparse" {
            let blocks = fs::read_dir(path.join("sparse/2")).expect("there");
            files = blocks.map(|file| file.expect("reads").path()).collect();
        }
        let find = |file: std::path::PathBuf| {
            let mut bytes = vec![0; 1 << 20];
            let opened = File::options().read(true).write(true).open(&file).expect("opens");
            let len = opened.read_at(&mut bytes, 0).expect("reads");
            let text = bytes[..len].windows(7).rposition(|bytes| bytes == b"row 500")?;
            opened.write_all_at(b"x", text as u64).expect("writes");
            Some(file)
        };
        let file = files.into_iter().find_map(find).expect("the row");
        let error = Store::open(&path)
            .expect("opens")
            .backup(&copy)
            .expect_err("damaged");
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        assert!(
            matches!(Store::open(&copy), Err(Error::NotAStore { .. })),
            "no store was made"
        );
    }
}
