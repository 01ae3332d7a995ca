//! Readers in processes of their own, beside writers that are killed.
//!
//! This binary is its own victim: started with `write PATH` it opens a store and commits until it
//! is killed, telling each commit on its standard output; started with `read PATH` it follows the
//! store and tells what it sees. Started by `cargo test` it starts both, kills either at random
//! moments, and compares. `BEDLOAD_READER_COMMITS` sets through how many commits,
//! `BEDLOAD_READER_KILLS` how often the writer is killed, `BEDLOAD_READER_DELAY_MS` within which
//! time each commit has to be seen.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{Error, Grid, Layout, Options, Result, Scan, Snapshot, Store, TableSchema};
use bedload_testkit::Rng;

/// Rows of a commit, for each table.
const ROWS: i64 = 8;
/// Commits whose rows are kept in the table with a retention.
const KEPT: i64 = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, path] = &arguments[..] {
        let path = Path::new(path);
        match &mode[..] {
            "write" => return write(path).expect("commits"),
            "read" => return follow(path).unwrap_or_else(|error| panic!("{error}")),
            _ => {}
        }
    }
    if arguments.iter().any(|argument| argument == "--list") {
        println!("readers_see_each_commit: test");
        return;
    }
    println!("\nrunning 1 test");
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let commits = number("BEDLOAD_READER_COMMITS", 600);
    let kills = number("BEDLOAD_READER_KILLS", 8);
    let delay = Duration::from_millis(number("BEDLOAD_READER_DELAY_MS", 10_000));
    run(i64::try_from(commits).expect("few"), kills, delay);
    println!("test readers_see_each_commit ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n");
}

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("id", DataType::Int64, false),
    ]))
}

fn options() -> Options {
    Options::new()
        .create(true)
        .page_bytes(4096)
        .head_bytes(64 << 10)
        .cache_bytes(1 << 20)
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let times = TimestampMillisecondArray::from_iter_values(ids.clone().map(|id| id * 1000));
    let columns_of = vec![
        Arc::new(times) as _,
        Arc::new(Int64Array::from_iter_values(ids)) as _,
    ];
    RecordBatch::try_new(columns(), columns_of).expect("columns of one length")
}

/// Commits until killed: the same rows to three tables at once, and now and then a table that comes
/// and goes.
fn write(path: &Path) -> Result<()> {
    let store = options().open(path)?;
    let schema = || TableSchema::new(columns(), "at");
    let grid = Layout::Sparse(Grid::every(1000)?);
    let indexed = store.table_or_create("indexed", schema()?)?;
    let kept = store.table_or_create("kept", schema()?)?;
    kept.set_retention(Some(Duration::from_secs((KEPT * ROWS).unsigned_abs())))?;
    let sparse = store.table_or_create_as("sparse", schema()?, grid)?;
    let first = i64::try_from(indexed.range(..)?.count()?).expect("few") / ROWS;
    for commit in first.. {
        let rows = batch(commit * ROWS..(commit + 1) * ROWS);
        let mut all = store.write_batch();
        for table in [&indexed, &kept, &sparse] {
            all.append(table, &rows)?;
        }
        all.commit()?;
        let line = format!("{}\n", commit + 1);
        std::io::stdout()
            .lock()
            .write_all(line.as_bytes())
            .expect("the parent reads");
        match commit % 50 {
            10 => store.flush()?,
            20 => drop(
                store
                    .table_or_create("coming and going", schema()?)?
                    .append(&rows)?,
            ),
            40 => match store.drop_table("coming and going") {
                Ok(()) | Err(Error::NoSuchTable { .. }) => {}
                Err(error) => return Err(error),
            },
            _ => {}
        }
    }
    Ok(())
}

/// The first id, and one above the last; fails unless all between are there, once each.
fn ids(scan: Scan) -> Result<(i64, i64)> {
    let mut range: Option<(i64, i64)> = None;
    for batch in scan.columns(&["id"])? {
        for &id in batch?.column(0).as_primitive::<Int64Type>().values() {
            let (first, end) = range.unwrap_or((id, id));
            assert_eq!(end, id, "a row is missing, or there twice");
            range = Some((first, end + 1));
        }
    }
    Ok(range.unwrap_or((0, 0)))
}

/// How many commits a state has: all tables have whole ones, and the same.
fn commits_in(snapshot: &Snapshot) -> Result<i64> {
    if !snapshot.tables().iter().any(|name| name == "sparse") {
        return Ok(0);
    }
    let (first, end) = ids(snapshot.range("indexed", ..)?)?;
    assert!(
        first == 0 && end % ROWS == 0,
        "half a commit: rows {first} to {end}"
    );
    assert_eq!(ids(snapshot.range("sparse", ..)?)?, (0, end), "half a commit");
    let (first, kept_end) = ids(snapshot.range("kept", ..)?)?;
    assert_eq!(kept_end, end, "half a commit");
    let expected = (end - KEPT * ROWS).max(0);
    assert!(
        first <= expected,
        "rows are gone that are to be kept: {first}, {expected}"
    );
    Ok(end / ROWS)
}

/// Follows a store until killed, and tells how many commits it has seen; looks again and again at
/// what it saw before.
fn follow(path: &Path) -> Result<()> {
    let reader = loop {
        match options().read_only(true).open(path) {
            // It is not created yet.
            Err(Error::NotAStore { .. }) => std::thread::sleep(Duration::from_millis(1)),
            opened => break opened?,
        }
    };
    let mut held: Vec<(Snapshot, i64)> = Vec::new();
    let (mut seen, mut is_new) = (-1, true);
    for round in 0_u64.. {
        if is_new {
            let snapshot = reader.snapshot();
            let commits = commits_in(&snapshot)?;
            assert!(commits >= seen, "{commits} commits after {seen}");
            if commits > seen {
                let line = format!("{commits}\n");
                std::io::stdout()
                    .lock()
                    .write_all(line.as_bytes())
                    .expect("the parent reads");
            }
            seen = commits;
            if round % 16 == 0 {
                held.push((snapshot, commits));
            }
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
        if round % 64 == 0 {
            for (snapshot, commits) in &held {
                assert_eq!(commits_in(snapshot)?, *commits, "what is held has changed");
            }
            held.drain(..held.len().saturating_sub(3));
        }
        is_new = reader.refresh()?;
    }
    Ok(())
}

fn start(mode: &str, path: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    // A reader's umask may hide its files: the writer finds out all the same who has died.
    let mut child = Command::new("sh")
        .args(["-c", "umask 077; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("this binary"))
        .arg(mode)
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped"));
    (child, lines)
}

/// Kills a process, which must not have ended by itself.
fn end(child: &mut Child) {
    child.kill().expect("it runs");
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
}

/// Takes the greatest number that is told, until the other end is gone.
fn hear(lines: BufReader<std::process::ChildStdout>, greatest: &AtomicI64) {
    for line in lines.split(b'\n').map_while(std::io::Result::ok) {
        if let Ok(number) = String::from_utf8_lossy(&line).parse() {
            greatest.fetch_max(number, Ordering::SeqCst);
        }
    }
}

fn run(commits: i64, kills: u64, delay: Duration) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let told = Arc::new(AtomicI64::new(0));
    let (readers_killed, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut rng = Rng::new(1);
    let mut next_kill = commits / i64::try_from(kills + 1).expect("few");
    let mut writers_killed = 0;
    {
        let begin_write = || {
            let (child, lines) = start("write", &path);
            let told = told.clone();
            let ear = std::thread::spawn(move || hear(lines, &told));
            (child, ear)
        };
        let begin_read = || {
            let (child, lines) = start("read", &path);
            let seen = Arc::new(AtomicI64::new(0));
            let heard = seen.clone();
            let ear = std::thread::spawn(move || hear(lines, &heard));
            (child, ear, seen)
        };
        let mut writer = begin_write();
        let mut reader = begin_read();
        // A commit that is not seen yet, and since when it has been told.
        let mut awaited: Option<(i64, Instant)> = None;
        loop {
            std::thread::sleep(Duration::from_micros(500 + rng.below(1000)));
            let is_told = told.load(Ordering::SeqCst);
            let is_seen = reader.2.load(Ordering::SeqCst);
            if let Some(status) = reader.0.try_wait().expect("it is ours") {
                panic!("the reader ended: {status}");
            }
            if let Some(status) = writer.0.try_wait().expect("it is ours") {
                panic!("the writer ended: {status}");
            }
            match awaited {
                Some((commit, since)) if is_seen >= commit => {
                    let took = u64::try_from(since.elapsed().as_millis()).expect("short");
                    longest.fetch_max(took, Ordering::SeqCst);
                    awaited = None;
                }
                Some((commit, since)) => {
                    assert!(
                        since.elapsed() < delay,
                        "commit {commit} is not seen after {delay:?}, but {is_seen}"
                    );
                }
                None if is_told > is_seen => awaited = Some((is_told, Instant::now())),
                None => {}
            }
            if is_told >= commits && awaited.is_none() {
                break;
            }
            if is_told >= next_kill && writers_killed < kills {
                next_kill += commits / i64::try_from(kills + 1).expect("few");
                end(&mut writer.0);
                writer.1.join().expect("no panic");
                writers_killed += 1;
                if rng.below(2) == 0 {
                    end(&mut reader.0);
                    reader.1.join().expect("no panic");
                    readers_killed.fetch_add(1, Ordering::SeqCst);
                    awaited = None;
                    reader = begin_read();
                }
                writer = begin_write();
            }
        }
        end(&mut writer.0);
        end(&mut reader.0);
        writer.1.join().expect("no panic");
        reader.1.join().expect("no panic");
    }
    let left = |dir: &Path| std::fs::read_dir(dir).map_or(0, |entries| entries.count());
    assert!(
        left(&path.join("readers")) > 0,
        "a reader that is killed leaves its file"
    );
    for entry in std::fs::read_dir(path.join("readers")).expect("there") {
        let mode = entry.expect("there").metadata().expect("there").mode();
        assert_eq!(mode & 0o777, 0o644, "every user may look whether it is locked");
    }
    let store = Store::open(&path).expect("opens");
    assert_eq!(store.verify().expect("reads").problems, []);
    store.flush().expect("flushes");
    assert_eq!(left(&path.join("readers")), 0, "nobody has these files locked");
    assert!(commits_in(&store.snapshot()).expect("reads") >= told.load(Ordering::SeqCst));
    println!(
        "{} commits, {writers_killed} writers and {} readers killed; the longest delay was {} ms",
        told.load(Ordering::SeqCst),
        readers_killed.load(Ordering::SeqCst),
        longest.load(Ordering::SeqCst)
    );
}
