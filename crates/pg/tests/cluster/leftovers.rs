//! Removal of clusters that killed tests left behind, and a bound on the bytes that tests write.
//!
//! All that a run writes is in one directory with a locked file. The lock ends with the process,
//! however that ends: a directory whose file is not locked is one of a run that is over.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

/// The names of directories of runs begin with it.
pub(crate) const PREFIX: &str = "bedload-pg-";
const LOCK: &str = "lock";

/// The most bytes that a run may have in its directory: 16 times what `make pg-test` needs.
const BYTES_MAX: u64 = 16 << 30;
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// A directory without a lock file is one of a run that is just beginning, unless it is older.
const BEGINNING_MAX: Duration = Duration::from_secs(600);

/// Takes a directory for this process, as long as the result lives.
pub(crate) fn claim(directory: &Path) -> File {
    let lock = File::create(directory.join(LOCK)).expect("a file");
    lock.try_lock().expect("a lock on a file of its own");
    lock
}

/// Removes the directories of runs that are over, and stops their servers.
pub(crate) fn remove(parent: &Path) {
    let entries = fs::read_dir(parent).expect("the temporary directory");
    for directory in entries.flatten().map(|entry| entry.path()) {
        let name = directory.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(PREFIX)) && is_left(&directory) {
            stop_servers(&directory);
            // Another run may be removing it, too.
            fs::remove_dir_all(&directory).ok();
        }
    }
}

fn is_left(directory: &Path) -> bool {
    match File::open(directory.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => fs::metadata(directory)
            .and_then(|found| found.modified())
            .is_ok_and(|begun| {
                SystemTime::now()
                    .duration_since(begun)
                    .is_ok_and(|age| age > BEGINNING_MAX)
            }),
    }
}

/// Kills the servers whose clusters are in a directory.
fn stop_servers(directory: &Path) {
    for cluster in fs::read_dir(directory).into_iter().flatten().flatten() {
        let data = cluster.path().join("data");
        let Ok(file) = fs::read_to_string(data.join("postmaster.pid")) else {
            continue;
        };
        let process = file.lines().next().unwrap_or_default().trim();
        // The number may be another process's by now. A server works in its cluster's directory.
        let works_in = fs::read_link(format!("/proc/{process}/cwd"));
        if works_in.is_ok_and(|works_in| works_in == data) {
            // A process whose parent ignores the one does not hear it.
            for signal in ["-QUIT", "-KILL"] {
                Command::new("kill").args([signal, process]).status().ok();
            }
        }
    }
}

/// Ends this process, and what it has started, when a directory has too much in it.
pub(crate) fn watch(directory: PathBuf) {
    thread::spawn(move || {
        while directory.exists() {
            let bytes = bytes_in(&directory);
            if bytes > BYTES_MAX {
                eprintln!(
                    "{} has {bytes} bytes, and {BYTES_MAX} are the most that tests may write",
                    directory.display()
                );
                stop_servers(&directory);
                fs::remove_dir_all(&directory).ok();
                std::process::exit(1);
            }
            thread::sleep(WATCH_EVERY);
        }
    });
}

/// The bytes of the files in a directory. Files that vanish meanwhile are not counted.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_in(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

#[test]
fn runs_that_are_over_leave_nothing() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let directory = |name: &str| {
        let path = parent.path().join(name);
        fs::create_dir_all(path.join("cluster-x/data")).expect("a directory");
        path
    };
    let (left, live, beginning) = (
        directory("bedload-pg-left"),
        directory("bedload-pg-live"),
        directory("bedload-pg-new"),
    );
    let other = directory("other");
    drop(claim(&left));
    // A server of it, as far as can be seen, and a process that has its number by chance.
    let mut server = Command::new("sleep")
        .arg("100")
        .current_dir(left.join("cluster-x/data"))
        .spawn()
        .expect("a process");
    fs::write(
        left.join("cluster-x/data/postmaster.pid"),
        server.id().to_string(),
    )
    .expect("written");
    fs::create_dir_all(left.join("cluster-y/data")).expect("a directory");
    fs::write(
        left.join("cluster-y/data/postmaster.pid"),
        std::process::id().to_string(),
    )
    .expect("written");
    let _lock = claim(&live);
    remove(parent.path());
    assert!(!left.exists() && live.exists() && beginning.exists() && other.exists());
    let ended = server.wait().expect("it ends");
    assert!(!ended.success(), "{ended}");
}

#[test]
fn bytes_are_counted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(directory.path().join("inner")).expect("a directory");
    fs::write(directory.path().join("inner/a"), [0; 1000]).expect("written");
    fs::write(directory.path().join("b"), [0; 24]).expect("written");
    assert_eq!(bytes_in(directory.path()), 1024);
}
