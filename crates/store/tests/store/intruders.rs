//! Files put where those of a store are expected, and other processes where one is expected to be
//! alone.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bedload::{Error, Grid, Layout, Options, Store, inspect, restore, salvage};

use crate::rows::{TestRow, append, collect, schema};

/// A store with every kind of file that there is, as a killed process leaves it.
fn build(path: &Path) {
    let options = Options::new().create(true).page_bytes(4096).background(false);
    let store = options.open(path).expect("creates");
    let rows: Vec<TestRow> = (0..300)
        .map(|number| TestRow::numbered(number.into(), number))
        .collect();
    let grid = Grid::every(1).expect("positive");
    for (name, layout) in [("t", Layout::Indexed), ("s", Layout::Sparse(grid))] {
        let table = store.create_table_as(name, schema(), layout).expect("fresh");
        append(&table, &rows).expect("appends");
        store.flush().expect("flushes");
        append(&table, &rows[..10]).expect("appends");
    }
}

/// All files and directories below a directory.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("reads") {
        let path = entry.expect("reads").path();
        if path.is_dir() {
            found.extend(entries(&path));
        }
        found.push(path);
    }
    found
}

/// Each way into a store that there is; all of them must fail.
fn try_everything(path: &Path, to: &Path) -> Vec<(&'static str, Option<Error>)> {
    let create = || Options::new().create(true).open(path);
    vec![
        ("open", Store::open(path).err()),
        ("create", create().err()),
        ("inspect", inspect(path).err()),
        ("salvage", salvage(path, to.join("salvaged")).err()),
        ("restore", restore(path, to.join("restored")).err()),
    ]
}

/// Whether a file is not needed: a salvage goes on without a log, or a file of blocks, and says
/// that it is missing; only those who write to a store open its lock file and its reserve.
fn goes_on_without(way: &str, name: &Path) -> bool {
    match way {
        "salvage" | "inspect" => true,
        "restore" => ["lock", "reserve"].iter().any(|other| name == Path::new(other)),
        _ => false,
    }
}

#[test]
fn no_store_is_created_where_a_link_leads_to_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = |name: &str| dir.path().join(name);
    build(&place("sound"));
    symlink("nothing", place("link")).expect("links");
    let backup = || {
        Store::open(place("sound"))
            .expect("opens")
            .backup(place("link"))
            .map(drop)
    };
    let create = || Options::new().create(true).open(place("link"));
    for (way, created) in [
        ("create", Store::create(place("link")).map(drop)),
        ("check", Store::check_creatable(place("link"))),
        ("open or create", create().map(drop)),
        ("backup", backup()),
        ("restore", restore(place("sound"), place("link")).map(drop)),
        ("salvage", salvage(place("sound"), place("link")).map(drop)),
    ] {
        let error = created.expect_err(way);
        assert!(matches!(error, Error::NotAStore { .. }), "{way}: {error:?}");
        assert!(
            error
                .to_string()
                .contains("a symbolic link that leads to nothing"),
            "{way}: {error}"
        );
        assert!(place("link").is_symlink() && !place("nothing").exists(), "{way}");
    }
}

#[test]
fn nothing_is_reached_through_links() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sound = dir.path().join("sound");
    build(&sound);
    let (mut files, mut dirs) = (0, 0);
    for entry in entries(&sound) {
        let name = entry.strip_prefix(&sound).expect("below it");
        let place = dir.path().join("linked");
        let to = dir.path().join("to");
        build(&place);
        fs::create_dir(&to).expect("creates");
        let linked = place.join(name);
        // The link leads to a file of a store, so that nothing else is wrong with it.
        let victim = dir.path().join("victim");
        fs::rename(&linked, &victim).expect("it is there in this one, too");
        symlink(&victim, &linked).expect("links");
        let before = |victim: &Path| {
            let below = if victim.is_dir() {
                entries(victim)
            } else {
                vec![victim.into()]
            };
            let bytes = |path: PathBuf| fs::read(&path).ok();
            below.into_iter().map(bytes).collect::<Vec<_>>()
        };
        let expected = before(&victim);
        for (way, error) in try_everything(&place, &to) {
            let is_told = match &error {
                Some(error) => {
                    let text = error.to_string();
                    matches!(error, Error::Irregular { .. } | Error::Corrupt { .. })
                        && text.contains("symbolic link")
                }
                None => goes_on_without(way, name),
            };
            assert!(is_told, "{way}, {}: {error:?}", name.display());
        }
        assert!(before(&victim) == expected, "{} was written to", name.display());
        if victim.is_dir() {
            dirs += 1
        } else {
            files += 1
        }
        for path in [&place, &to] {
            fs::remove_dir_all(path).expect("removes");
        }
        let removed = if victim.is_dir() {
            fs::remove_dir_all(&victim)
        } else {
            fs::remove_file(&victim)
        };
        removed.expect("removes");
    }
    assert!(files >= 4 && dirs >= 4, "{files} files, {dirs} directories");
}

#[test]
fn pipes_and_directories_are_not_waited_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sound = dir.path().join("sound");
    build(&sound);
    for entry in entries(&sound).into_iter().filter(|entry| entry.is_file()) {
        let name = entry.strip_prefix(&sound).expect("below it");
        for kind in ["mkfifo", "mkdir"] {
            let (place, to) = (dir.path().join("piped"), dir.path().join("to"));
            build(&place);
            fs::create_dir(&to).expect("creates");
            fs::remove_file(place.join(name)).expect("removes");
            // Not by a command: until it begins, its process has every lock of this one.
            let name_of_pipe = place.join(name);
            if kind == "mkdir" {
                fs::create_dir(&name_of_pipe).expect("creates");
            } else {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let made = rustix::fs::mknodat(
                    rustix::fs::CWD,
                    &name_of_pipe,
                    rustix::fs::FileType::Fifo,
                    mode,
                    0,
                );
                made.expect("a file system with pipes");
            }
            for (way, error) in try_everything(&place, &to) {
                let is_told = match &error {
                    Some(error) => {
                        let text = error.to_string();
                        text.contains("no regular file") || text.contains("a directory")
                    }
                    None => goes_on_without(way, name),
                };
                assert!(is_told, "{way}, {kind} {}: {error:?}", name.display());
            }
            for path in [&place, &to] {
                fs::remove_dir_all(path).expect("removes");
            }
        }
    }
}

#[test]
fn a_lock_file_that_is_something_else_is_not_written_over() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path);
    let lock = path.join("lock");
    let letter = "dear reader, ".repeat(20);
    fs::write(&lock, &letter).expect("writes");
    assert!(matches!(Store::open(&path), Err(Error::Irregular { .. })));
    assert_eq!(fs::read_to_string(&lock).expect("reads"), letter);
    // One of several names of a file.
    let other = dir.path().join("other");
    fs::write(&other, "mine").expect("writes");
    fs::remove_file(&lock).expect("removes");
    fs::hard_link(&other, &lock).expect("links");
    drop(Store::open(&path).expect("opens"));
    assert_eq!(fs::read_to_string(&other).expect("reads"), "mine");
}

#[test]
fn without_its_lock_file_a_store_is_still_locked() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path);
    let store = Store::open(&path).expect("opens");
    fs::remove_file(path.join("lock")).expect("removes");
    for (way, error) in try_everything(&path, dir.path()) {
        // A copy is made by a reader, beside a writer.
        let is_locked = matches!(error, Some(Error::Locked { .. }));
        assert_eq!(is_locked, way != "restore", "{way}: {error:?}");
    }
    drop(store);
    Store::open(&path).expect("it is free again");
}

#[test]
fn a_store_that_took_the_place_of_another_is_left_alone_by_it() {
    for flush in [true, false] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store");
        build(&path);
        let first = Store::open(&path).expect("opens");
        let table = first.table("t").expect("there");
        append(&table, &[TestRow::numbered(1, 1)]).expect("appends");
        fs::remove_dir_all(&path).expect("removes");
        let second = Store::create(&path).expect("creates");
        let row = TestRow::numbered(7, 7);
        let other = second.create_table("other", schema()).expect("fresh");
        append(&other, std::slice::from_ref(&row)).expect("appends");
        second.flush().expect("flushes");
        append(&other, std::slice::from_ref(&row)).expect("appends, and stays in the log");
        if flush {
            assert!(matches!(first.flush(), Err(Error::Replaced { .. })));
            let refused = append(&table, &[TestRow::numbered(2, 2)]);
            assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
        }
        assert!(first.clone().remove().is_err(), "it is not what was opened");
        drop((first, table));
        drop((other, second));
        let second = Store::open(&path).expect("opens");
        let found = collect(second.table("other").expect("there").range(..).expect("there"));
        assert_eq!(found.expect("reads").len(), 2);
        assert_eq!(second.verify().expect("reads").problems, []);
    }
}

#[test]
fn a_store_is_removed_with_its_files_and_no_others() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    build(&path);
    let letter = path.join("log").join("letter");
    fs::write(&letter, "dear").expect("writes");
    let store = Store::open(&path).expect("opens");
    let table = store.table("t").expect("there");
    store.remove().expect("removes");
    assert!(append(&table, &[TestRow::numbered(1, 1)]).is_err());
    drop(table);
    assert_eq!(entries(&path), [letter, path.join("log")]);
    let store = Options::new()
        .create(true)
        .open(&path)
        .expect("creates another one there");
    assert_eq!(store.tables(), Vec::<String>::new());
}
