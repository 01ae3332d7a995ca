//! A process that inherits an open store through `fork`.
//!
//! The parent opens the store and forks; the child, which has all its handles, does something with
//! them and exits. Rows that the parent has acknowledged must all be there afterwards, and the
//! child must have been told. This is a binary of its own, without a test harness, because a
//! process with other threads must not fork and go on.

#![expect(unsafe_code, reason = "no crate has a safe call of fork")]

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, TimestampSecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bedload::{
    Error, Grid, Layout, Mark, Options, PendingAppend, Result, Scan, Snapshot, Store, Table, TableSchema,
};

/// Rows of a batch.
const ROWS: i64 = 50;

/// A use of an inherited store by a child, which must be refused.
type Attempt = (&'static str, fn(&Handles) -> Result<()>);

/// The handles that parent and child have.
struct Handles {
    store: Store,
    table: Table,
    sparse: Table,
    keyed: Table,
    /// Rows that are in the log of the parent, and not written yet.
    pending: Cell<Option<PendingAppend>>,
    mark: Mark,
    snapshot: Snapshot,
    /// A scan that has read nothing yet.
    scan: Cell<Option<Scan>>,
    /// A scan that has read a batch.
    begun: Cell<Option<Scan>>,
}

const ATTEMPTS: [Attempt; 26] = [
    ("append", |it| it.table.append(&batch(0..ROWS)).map(drop)),
    ("append to a sparse table", |it| {
        it.sparse.append(&batch(0..2000)).map(drop)
    }),
    ("wait for an append", |it| {
        let pending = it.pending.take();
        pending.map_or(Ok(()), |pending| pending.wait().map(drop))
    }),
    ("append to a table with a key", |it| {
        it.keyed.append(&batch(0..ROWS)).map(drop)
    }),
    ("delete from a table with a key", |it| it.keyed.delete_range(..)),
    ("commit to a table with a key", |it| {
        let mut all = it.store.write_batch();
        all.append(&it.keyed, &batch(0..ROWS))?;
        all.commit().map(drop)
    }),
    ("set a retention", |it| {
        it.table.set_retention(Some(Duration::from_secs(1)))
    }),
    ("delete", |it| it.table.delete_range(..)),
    ("retract", |it| it.table.retract_since(it.mark)),
    ("put back", |it| it.sparse.put_back(&it.snapshot, ..)),
    ("read a range", |it| it.table.range(..).map(drop)),
    ("read a row", |it| it.table.get(0).map(drop)),
    ("read what is new", |it| it.table.since(it.mark).map(drop)),
    ("read a snapshot", |it| it.snapshot.range("t", ..).map(drop)),
    ("count the rows of a scan", |it| {
        let scan = it.scan.take();
        scan.map_or(Ok(()), |scan| scan.count().map(drop))
    }),
    ("go on with a scan", |it| {
        let next = it.begun.take().and_then(|mut scan| scan.next());
        next.map_or(Ok(()), |batch| batch.map(drop))
    }),
    ("flush", |it| it.store.flush()),
    ("create a table", |it| {
        create(&it.store, "another", Layout::Indexed).map(drop)
    }),
    ("rename a table", |it| it.store.rename_table("t", "renamed")),
    ("add columns", |it| it.store.add_columns("t", []).map(drop)),
    ("rename a column", |it| {
        it.store.rename_column("t", "at", "when").map(drop)
    }),
    ("drop a column", |it| it.store.drop_column("t", "n").map(drop)),
    ("drop a table", |it| it.store.drop_table("t")),
    ("verify", |it| it.store.verify().map(drop)),
    ("close", |it| it.store.clone().close()),
    ("remove", |it| it.store.clone().remove()),
];

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        println!("a_forked_process_leaves_the_store_alone: test");
        return;
    }
    println!("\nrunning 1 test");
    for background in [true, false] {
        for attempt in ATTEMPTS {
            let (name, _) = attempt;
            try_in_child(background, Some(attempt)).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        }
        try_in_child(background, None).unwrap_or_else(|problem| panic!("dropping: {problem}"));
    }
    try_beside_commits().unwrap_or_else(|problem| panic!("beside commits: {problem}"));
    println!("test a_forked_process_leaves_the_store_alone ... ok");
    println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n");
}

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("id", DataType::Int64, false),
    ]))
}

fn create(store: &Store, name: &str, layout: Layout) -> Result<Table> {
    store.create_table_as(name, TableSchema::new(columns(), "at")?, layout)
}

fn create_keyed(store: &Store) -> Result<Table> {
    store.create_table("k", TableSchema::new(columns(), "at")?.with_key(&["id"])?)
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let columns_of_ids: Vec<Arc<dyn arrow_array::Array>> = vec![
        Arc::new(TimestampSecondArray::from_iter_values(ids.clone())),
        Arc::new(Int64Array::from_iter_values(ids)),
    ];
    RecordBatch::try_new(columns(), columns_of_ids).expect("columns of one length")
}

fn ids(table: &Table) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for batch in table.range(..)?.columns(&["id"])? {
        ids.extend_from_slice(batch?.column(0).as_primitive::<Int64Type>().values());
    }
    Ok(ids)
}

/// Runs `child` in a process that is forked here; its exit code.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the call takes nothing. The child has this thread alone, and does nothing but what
    // the store's interface has, which this test is about; it never returns from here.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "there is a process to be had");
    if pid == 0 {
        let code = child();
        // SAFETY: ends the process at once, without what was registered by its parent to be done at
        // an exit.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the status is a local variable, and the process is a child that nobody else waits
    // for.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(waited, pid);
    assert!(libc::WIFEXITED(status), "the child ended by {status}");
    libc::WEXITSTATUS(status)
}

/// Forks with a store that has rows in pages and in the log, lets the child attempt something and
/// drop all it has, goes on in the parent, and looks for every row.
fn try_in_child(background: bool, attempt: Option<Attempt>) -> std::result::Result<(), String> {
    let text = |error: Error| error.to_string();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store");
    let options = Options::new().create(true).background(background);
    let store = options.open(&path).map_err(text)?;
    let table = create(&store, "t", Layout::Indexed).map_err(text)?;
    let sparse = create(&store, "s", Layout::Sparse(Grid::every(1).map_err(text)?)).map_err(text)?;
    let keyed = create_keyed(&store).map_err(text)?;
    table.append(&batch(0..ROWS)).map_err(text)?;
    store.flush().map_err(text)?;
    let mark = table.mark();
    let snapshot = store.snapshot();
    let (scan, mut begun) = (table.range(..).map_err(text)?, table.range(..).map_err(text)?);
    begun.next().transpose().map_err(text)?;
    // Blocks that are written at once, for which there is a thread.
    sparse.append(&batch(0..100_000)).map_err(text)?;
    let mut written = ROWS;
    let mut next = || {
        written += ROWS;
        batch(written - ROWS..written)
    };
    let write = |table: &Table, rows: &RecordBatch| table.append(rows).map(drop).map_err(text);
    write(&table, &next())?;
    let pending = table.begin_append(&next()).map_err(text)?;
    let pid = std::process::id();
    let handles = Handles {
        store,
        table,
        sparse,
        keyed,
        pending: Cell::new(Some(pending)),
        mark,
        snapshot,
        scan: Cell::new(Some(scan)),
        begun: Cell::new(Some(begun)),
    };
    let mut handles = Some(handles);
    let before = files(&path);
    let code = in_child(|| {
        let is_told = |handles: &Handles| match attempt.map(|(_, attempt)| attempt(handles)) {
            Some(Err(Error::Inherited { opened_by, .. })) => opened_by == pid,
            Some(_) => false,
            None => true,
        };
        let is_told = handles.as_ref().is_some_and(is_told);
        drop(handles.take());
        i32::from(!is_told)
    });
    if code != 0 {
        return Err("the child was not refused".into());
    }
    if before != files(&path) {
        return Err("the child has changed a file".into());
    }
    let handles = handles.ok_or("the parent has its own")?;
    write(&handles.table, &next())?;
    if let Some(pending) = handles.pending.take() {
        pending.wait().map_err(text)?;
    }
    handles.store.flush().map_err(text)?;
    write(&handles.table, &next())?;
    let refused = Store::open(&path);
    if !matches!(refused, Err(Error::Locked { .. })) {
        return Err("the parent's lock is gone".into());
    }
    drop(handles);
    let store = Store::open(&path).map_err(text)?;
    if ids(&store.table("t").map_err(text)?).map_err(text)? != (0..5 * ROWS).collect::<Vec<i64>>() {
        return Err("rows are missing".into());
    }
    let report = store.verify().map_err(text)?;
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(format!("{:?}", report.problems))
    }
}

/// Forks while another thread commits and flushes, which may hold any lock: the child must be told
/// all the same, and must not wait for a thread that it does not have.
fn try_beside_commits() -> std::result::Result<(), String> {
    const FORKS: i32 = 40;
    let text = |error: Error| error.to_string();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::create(dir.path().join("store")).map_err(text)?;
    let table = create(&store, "t", Layout::Indexed).map_err(text)?;
    let keyed = create_keyed(&store).map_err(text)?;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let done = scopeguard::guard(&is_done, |done| done.store(true, Ordering::Relaxed));
        let commits = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                keyed.append(&batch(0..ROWS)).map_err(text)?;
                store.flush().map_err(text)?;
            }
            Ok(())
        });
        let told = (0..FORKS).all(|_| {
            std::thread::sleep(Duration::from_millis(2));
            in_child(|| {
                // SAFETY: ends this process, which has no handler for the signal, if it hangs.
                unsafe { libc::alarm(10) };
                let refused = [
                    table.set_retention(Some(Duration::from_secs(1))),
                    keyed.append(&batch(0..ROWS)).map(drop),
                    keyed.delete_range(..),
                    store.rename_table("t", "renamed"),
                    store.add_columns("t", []).map(drop),
                    store.rename_column("t", "at", "when").map(drop),
                    store.drop_column("t", "n").map(drop),
                    store.drop_table("t"),
                    store.flush(),
                ];
                let is_told = |told| matches!(told, Err(Error::Inherited { .. }));
                i32::from(!refused.into_iter().all(is_told))
            }) == 0
        });
        drop(done);
        let committed = commits.join().expect("no panic");
        if told {
            committed
        } else {
            Err("a child was not refused".into())
        }
    })
}

/// The names of all files with their bytes.
fn files(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
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
