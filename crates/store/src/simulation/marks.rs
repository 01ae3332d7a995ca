//! Readers that go from mark to mark while long batches are written.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};

use super::workload::{STORE, columns, open, options};
use crate::disk::sim::{Access, Fault, FaultKind, SimDisk};
use crate::engine::Engine;
use crate::error::Error;
use crate::mark::Mark;
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::store::{Store, Table};

/// Rows that take more than the memory for them.
const LONG: i64 = 4000;

fn data_file() -> PathBuf {
    Path::new(STORE).join("data")
}

fn batch(ids: std::ops::Range<i64>, text: impl Fn(i64) -> String) -> RecordBatch {
    let texts: StringArray = ids.clone().map(|id| Some(text(id))).collect();
    let times = TimestampMillisecondArray::from_iter_values(ids.clone().map(|id| id * 7919 % 1000));
    let ids = Int64Array::from_iter_values(ids);
    RecordBatch::try_new(columns(), vec![Arc::new(times), Arc::new(ids), Arc::new(texts)])
        .expect("columns of one length")
}

/// The writer, and the ids of all rows that it has appended.
struct Writer {
    table: Table,
    next: i64,
    appended: Vec<i64>,
}

impl Writer {
    fn append(&mut self, rows: i64) {
        let ids = self.next..self.next + rows;
        self.next = ids.end;
        let rows = batch(ids.clone(), |id| format!("row {id}"));
        self.table.append(&rows).expect("a sound disk");
        self.appended.extend(ids);
    }

    /// Begins a long batch, for which there is no space.
    fn fail(&mut self) {
        let ids = self.next..self.next + LONG;
        self.next = ids.end;
        let failed = self.table.append(&batch(ids, |_| String::new()));
        assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failed:?}");
    }
}

/// Lets the next call fail, as the disk is full.
fn be_full(disk: &SimDisk) {
    disk.set_fault(Some(Fault {
        call: disk.calls() + 1,
        kind: FaultKind::NoSpace,
    }));
}

/// Lets the call after each write to the data file fail, as the disk is full.
fn be_full_after_writes(disk: &SimDisk) {
    let again = disk.clone();
    disk.interrupt(Access::Write, &data_file(), move || {
        be_full(&again);
        be_full_after_writes(&again);
    });
}

/// A reader, and the scans of what it has found new each time.
struct Reader {
    store: Store,
    mark: Mark,
    scans: Vec<Scan>,
}

impl Reader {
    /// A reader that has read all that is there.
    fn new(store: Store) -> Self {
        let all = store.table("t").and_then(|table| table.range(..)).expect("there");
        let mark = all.mark();
        let scans = vec![all];
        Self { store, mark, scans }
    }

    /// One that has the store open for reading.
    fn beside(disk: &SimDisk) -> Self {
        let engine = Engine::open_to_read(Arc::new(disk.clone()), Path::new(STORE), options());
        Self::new(Store::new(engine.expect("opens")))
    }

    fn look(&mut self) {
        self.store.refresh().expect("a sound disk");
        let new = self.store.table("t").and_then(|table| table.since(self.mark));
        let new = new.expect("there");
        self.mark = new.mark();
        self.scans.push(new);
    }

    /// The ids of all rows that were found.
    fn found(self) -> Vec<i64> {
        let mut ids = Vec::new();
        for batch in self.scans.into_iter().flatten() {
            ids.extend(
                batch
                    .expect("reads")
                    .column(1)
                    .as_primitive::<Int64Type>()
                    .values(),
            );
        }
        ids.sort_unstable();
        ids
    }
}

fn begin(disk: &SimDisk) -> (Store, Writer) {
    let store = open(disk, options()).expect("creates");
    let schema = TableSchema::new(columns(), "at").expect("storable");
    let table = store.create_table("t", schema).expect("fresh");
    let writer = Writer {
        table,
        next: 0,
        appended: Vec::new(),
    };
    (store, writer)
}

/// A long batch on its way, and what others do at each write of it.
struct Others {
    disk: SimDisk,
    writer: Writer,
    readers: Vec<Reader>,
    writes: usize,
    /// Whether the disk is full after the next write.
    is_full: bool,
}

impl Others {
    /// Appends a row and lets some readers look, at each write to the data file.
    fn interrupt(others: Arc<Mutex<Self>>) {
        let disk = others.lock().expect("no panic").disk.clone();
        disk.interrupt(Access::Write, &data_file(), move || {
            {
                let others = &mut *others.lock().expect("no panic");
                others.writes += 1;
                if others.writes % 3 == 1 {
                    others.writer.append(1);
                }
                for (number, reader) in others.readers.iter_mut().enumerate() {
                    if others.writes.is_multiple_of(number + 1) {
                        reader.look();
                    }
                }
                if others.writes % 7 == 2 && others.readers.len() < 8 {
                    others.readers.push(Reader::beside(&others.disk));
                }
                if others.is_full {
                    be_full(&others.disk);
                }
            }
            Self::interrupt(others);
        });
    }
}

#[test]
fn a_reader_that_goes_from_mark_to_mark_finds_each_row_once_beside_long_batches() {
    let disk = SimDisk::new(1);
    let (store, mut writer) = begin(&disk);
    writer.append(10);
    let mut long = Writer {
        table: writer.table.clone(),
        next: 1 << 40,
        appended: Vec::new(),
    };
    let readers = vec![Reader::new(store.clone()), Reader::beside(&disk)];
    let others = Arc::new(Mutex::new(Others {
        disk: disk.clone(),
        writer,
        readers,
        writes: 0,
        is_full: false,
    }));
    let be_full = |is_full| others.lock().expect("no panic").is_full = is_full;
    Others::interrupt(others.clone());
    for _ in 0..2 {
        long.append(LONG);
        be_full(true);
        long.fail();
        be_full(false);
        long.append(LONG);
        long.append(5);
    }
    store.flush().expect("a sound disk");
    disk.interrupt(Access::Write, &data_file(), || {});
    let mut others = others.lock().expect("no panic");
    assert!(
        others.writes > 100 && others.readers.len() == 8,
        "{}",
        others.writes
    );
    let mut appended = [&others.writer.appended[..], &long.appended].concat();
    appended.sort_unstable();
    for (number, mut reader) in others.readers.drain(..).enumerate() {
        reader.look();
        assert!(reader.found() == appended, "reader {number}");
    }
}

/// A long batch that another thread appends, and that waits within a write until it is told to go
/// on.
fn begin_long(disk: &SimDisk, writer: &Writer) -> (JoinHandle<Writer>, Sender<()>) {
    let mut long = Writer {
        table: writer.table.clone(),
        next: 1 << 40,
        appended: Vec::new(),
    };
    let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel());
    disk.interrupt(Access::Write, &data_file(), move || {
        begun.send(()).expect("is waited for");
        may_go_on.recv().expect("is told");
    });
    let append = std::thread::spawn(move || {
        long.append(LONG);
        long
    });
    has_begun.recv().expect("it writes");
    (append, go_on)
}

#[test]
fn a_reader_is_told_of_a_long_batch_that_ends_after_a_later_commit() {
    let disk = SimDisk::new(1);
    let (_store, mut writer) = begin(&disk);
    let mut reader = Reader::beside(&disk);
    let (long, go_on) = begin_long(&disk, &writer);
    writer.append(1);
    let refreshed = || reader.store.refresh().expect("a sound disk");
    assert!(refreshed(), "the row");
    assert!(!refreshed());
    go_on.send(()).expect("is waited for");
    let mut appended = long.join().expect("no panic").appended;
    assert!(refreshed(), "the batch");
    assert!(!refreshed());
    appended.extend(&writer.appended);
    appended.sort_unstable();
    reader.look();
    assert!(reader.found() == appended);
}

#[test]
fn a_reader_that_is_overtaken_between_two_long_batches_finds_both() {
    let disk = SimDisk::new(1);
    let (store, mut writer) = begin(&disk);
    let mut reader = Reader::beside(&disk);
    // While the first batch waits, a row is appended and found.
    let (first, go_on) = begin_long(&disk, &writer);
    writer.append(1);
    reader.look();
    // Once the reader has seen that there is no other checkpoint, the first batch ends, and another
    // one comes and fails.
    let writer = Arc::new(Mutex::new(writer));
    let others = writer.clone();
    let (ended, has_ended) = channel();
    let full = disk.clone();
    let overtake = move || {
        go_on.send(()).expect("is waited for");
        let long = first.join().expect("no panic");
        let mut writer = others.lock().expect("no panic");
        writer.append(1);
        be_full_after_writes(&full);
        writer.fail();
        full.interrupt(Access::Write, &data_file(), || {});
        writer.append(1);
        ended.send(long.appended).expect("is waited for");
    };
    // There are two superblocks.
    let again = disk.clone();
    disk.interrupt(Access::Read, &data_file(), move || {
        again.interrupt(Access::Read, &data_file(), overtake);
    });
    reader.look();
    let mut appended = has_ended.recv().expect("the reader was interrupted");
    appended.extend(&writer.lock().expect("no panic").appended);
    appended.sort_unstable();
    reader.look();
    assert!(reader.found() == appended);
    drop(store);
}

#[test]
fn a_refresh_that_failed_makes_no_reader_miss_a_long_batch() {
    let mut failed = 0;
    for call in 1..24 {
        let disk = SimDisk::new(1);
        let (_store, mut writer) = begin(&disk);
        let mut reader = Reader::beside(&disk);
        let (first, go_on) = begin_long(&disk, &writer);
        writer.append(1);
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind: FaultKind::Error,
        }));
        let refreshed = reader.store.refresh();
        disk.set_fault(None);
        if refreshed.as_ref().is_err_and(Error::is_of_sync) {
            // It shows nothing new any more. Another one goes on from its mark.
            reader.store = Reader::beside(&disk).store;
        }
        reader.look();
        go_on.send(()).expect("is waited for");
        let mut appended = first.join().expect("no panic").appended;
        appended.extend(&writer.appended);
        appended.sort_unstable();
        reader.look();
        assert!(reader.found() == appended, "call {call}: {refreshed:?}");
        failed += u64::from(refreshed.is_err());
    }
    assert!(failed > 1, "{failed} refreshes failed");
}
