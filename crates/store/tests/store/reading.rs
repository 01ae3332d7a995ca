//! A store that is open for reading, beside the one that is open for writing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bedload::{Error, Grid, Layout, Options, Store, Table};

use crate::rows::{TestRow, append, batch, rows_without_sequence, schema};

fn write(path: &Path) -> Store {
    let options = Options::new().create(true).page_bytes(4096).head_bytes(64 << 10);
    options.open(path).expect("opens")
}

fn read(path: &Path) -> bedload::Result<Store> {
    Options::new().read_only(true).open(path)
}

fn numbered(numbers: std::ops::Range<i32>) -> Vec<TestRow> {
    let row = |number| TestRow::numbered(i64::from(number) * 1000, number);
    numbers.map(row).collect()
}

fn rows(table: &Table) -> Vec<TestRow> {
    let scan = table.range(..).expect("there");
    scan.flat_map(|batch| rows_without_sequence(&batch.expect("reads")))
        .collect()
}

/// All files below a directory, with what is in them.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("reads") {
        let path = entry.expect("reads").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).expect("reads")));
        }
    }
    found.sort();
    found
}

#[test]
fn commits_are_seen_once_the_reader_refreshes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let writer = write(&path);
    let reader = read(&path).expect("opens");
    assert_eq!(reader.tables(), Vec::<String>::new());
    let sparse = Layout::Sparse(Grid::every(1000).expect("positive"));
    let tables = [Layout::Indexed, sparse].map(|layout| {
        let name = if layout == Layout::Indexed {
            "indexed"
        } else {
            "sparse"
        };
        writer.create_table_as(name, schema(), layout).expect("fresh")
    });
    let mut seen = Vec::new();
    for part in 0..40 {
        let part = numbered(part * 500..(part + 1) * 500);
        for table in &tables {
            append(table, &part).expect("appends");
        }
        assert!(reader.refresh().expect("reads"));
        assert!(!reader.refresh().expect("reads"));
        seen.extend(part);
        for name in ["indexed", "sparse"] {
            let table = reader.table(name).expect("there");
            assert_eq!(rows(&table), seen, "{name}");
            let last = table.get(seen[seen.len() - 1].time).expect("reads");
            assert!(last.is_some());
            assert_eq!(
                table.range(..).expect("there").count().expect("reads"),
                seen.len() as u64
            );
        }
    }
    let info = reader.info().expect("reads");
    assert_eq!((info.tables[0].rows, info.tables[1].rows), (20_000, 20_000));
    assert_eq!(reader.verify().expect("reads").problems, []);
    // The writer goes, and comes back as another one.
    drop((tables, writer));
    reader.refresh().expect("reads");
    assert_eq!(rows(&reader.table("sparse").expect("there")), seen);
    let writer = write(&path);
    append(
        &writer.table("indexed").expect("there"),
        &numbered(20_000..20_001),
    )
    .expect("appends");
    assert!(reader.refresh().expect("reads"));
    assert_eq!(rows(&reader.table("indexed").expect("there")).len(), 20_001);
    assert!(!writer.refresh().expect("nothing to do"));
}

#[test]
fn every_call_that_writes_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let writer = write(&path);
    append(
        &writer.create_table("t", schema()).expect("fresh"),
        &numbered(0..10),
    )
    .expect("appends");
    let reader = read(&path).expect("opens");
    let table = reader.table("t").expect("there");
    let refused = |what: &str, result: bedload::Result<()>| match result {
        Err(Error::OpenForReading { path: found }) => assert_eq!(found, path, "{what}"),
        other => panic!("{what}: {other:?}"),
    };
    refused("append", append(&table, &numbered(10..11)));
    refused("append nothing", append(&table, &[]));
    refused("delete", table.delete_range(..));
    refused("retention", table.set_retention(Some(Duration::from_secs(1))));
    refused("retract", table.retract_since(table.mark()));
    refused("create", reader.create_table("u", schema()).map(drop));
    refused("drop", reader.drop_table("t"));
    refused("rename", reader.rename_table("t", "u"));
    refused("rename to no name", reader.rename_table("t", ""));
    refused("add columns", reader.add_columns("t", []).map(drop));
    refused(
        "rename a column",
        reader.rename_column("t", "at", "when").map(drop),
    );
    refused("drop a column", reader.drop_column("t", "number").map(drop));
    refused("flush", reader.flush());
    let mut group = reader.write_batch();
    group
        .append(&table, &batch(&numbered(10..11)))
        .expect("of the table");
    refused("batch", group.commit().map(drop));
    refused("remove", reader.clone().remove());
    assert_eq!(rows(&table), numbered(0..10));
    let text = reader.flush().expect_err("refused").to_string();
    assert!(text.contains("read_only"), "{text}");
    reader.close().expect("nothing to write");
    assert!(matches!(read(dir.path()), Err(Error::NotAStore { .. })));
    assert!(matches!(
        read(&dir.path().join("none")),
        Err(Error::NotAStore { .. })
    ));
}

#[test]
fn what_a_reader_holds_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let mut writer = write(&path);
    let sparse = Layout::Sparse(Grid::every(1000).expect("positive"));
    let names = ["indexed", "sparse", "dropped", "kept"];
    for name in names {
        let layout = if name == "sparse" { sparse } else { Layout::Indexed };
        let table = writer.create_table_as(name, schema(), layout).expect("fresh");
        append(&table, &numbered(0..2000)).expect("appends");
    }
    writer.flush().expect("flushes");
    let reader = read(&path).expect("opens");
    let (held, tables) = (
        reader.snapshot(),
        names.map(|name| reader.table(name).expect("there")),
    );
    for round in 0..12 {
        for name in ["indexed", "sparse"] {
            let table = writer.table(name).expect("there");
            table.delete_range(..round * 100_000).expect("deletes");
            // Late rows, and blocks that are written again.
            append(&table, &numbered(1500..1900)).expect("appends");
            append(&table, &numbered(2000..3000)).expect("appends");
        }
        match round {
            2 => writer.drop_table("dropped").expect("drops"),
            4 => {
                let table = writer.table("kept").expect("there");
                table.set_retention(Some(Duration::from_secs(5))).expect("sets");
            }
            // Opened again, with what the reader holds several checkpoints behind.
            6 | 9 => {
                drop(writer);
                writer = write(&path);
            }
            _ => {}
        }
        writer.flush().expect("flushes");
        for (name, table) in names.iter().zip(&tables) {
            assert_eq!(rows(table), numbered(0..2000), "round {round}, {name}");
            let count = held.range(name, ..).and_then(|scan| scan.count());
            assert_eq!(count.expect("reads"), 2000, "round {round}, {name}");
        }
    }
    assert_eq!(reader.verify().expect("reads").problems.len(), 0);
    assert!(reader.refresh().expect("reads"));
    assert_eq!(reader.tables(), ["indexed", "sparse", "kept"]);
    for name in ["indexed", "sparse", "kept"] {
        let (theirs, ours) = (
            writer.table(name).expect("there"),
            reader.table(name).expect("there"),
        );
        assert_eq!(rows(&ours), rows(&theirs), "{name}");
    }
    let count = held.range("dropped", ..).and_then(|scan| scan.count());
    assert_eq!(count.expect("reads"), 2000);
    drop((held, tables, reader));
    let left = std::fs::read_dir(path.join("readers")).expect("there");
    assert_eq!(left.count(), 0);
    writer.flush().expect("flushes");
    drop(writer);
    assert_eq!(write(&path).verify().expect("reads").problems, []);
}

#[test]
fn a_killed_store_is_read_and_not_changed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let writer = write(&path);
    let table = writer.create_table("t", schema()).expect("fresh");
    append(&table, &numbered(0..500)).expect("appends");
    // The file that a process leaves if it is killed now.
    for (file, bytes) in files(&path) {
        let target = copy.join(file.strip_prefix(&path).expect("below"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("creates");
        std::fs::write(target, bytes).expect("writes");
    }
    let before = files(&copy);
    let reader = read(&copy).expect("opens");
    assert_eq!(rows(&reader.table("t").expect("there")), numbered(0..500));
    assert!(!reader.refresh().expect("reads"));
    assert!(reader.verify().expect("reads").log_records > 0);
    drop(reader);
    assert!(files(&copy) == before);
    assert_eq!(rows(&write(&copy).table("t").expect("there")), numbered(0..500));
}

#[test]
fn a_store_that_is_gone_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let writer = write(&path);
    let reader = read(&path).expect("opens");
    writer.remove().expect("removes");
    assert!(matches!(reader.refresh(), Err(Error::Replaced { .. })));
    drop(reader);
    assert_eq!(std::fs::read_dir(&path).expect("there").count(), 0);
}
