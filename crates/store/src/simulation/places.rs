//! Places of blocks that one checkpoint takes over from the log and gives up again: they belong to
//! the views that name them until the last of these is dropped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampSecondType;
use bedload_testkit::Rng;

use super::rewritten::batch;
use super::say;
use super::workload::{STORE, open, options};
use crate::disk::sim::{Access, Fault, FaultKind, SimDisk};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::rows::TableSchema;
use crate::scan::Scan;
use crate::store::{Snapshot, Store, Table};
use crate::table::{Grid, Layout};

/// Rows of a batch that is longer than the memory for rows.
const ROWS: i64 = 10_000;

/// The rows of a table: when that of each time was written.
type Rows = BTreeMap<i64, i64>;

/// Creates a store with an empty table.
fn create(disk: &SimDisk) -> Store {
    let store = open(disk, options()).expect("creates");
    let schema = TableSchema::new(batch(0..1, 0).schema(), "at").expect("storable");
    let layout = Layout::Sparse(Grid::every(1).expect("positive"));
    store.create_table_as("t", schema, layout).expect("fresh");
    store
}

fn table(store: &Store) -> Table {
    store.table("t").expect("there")
}

fn rows_in(scan: Result<Scan>) -> Result<Rows> {
    let mut rows = Rows::new();
    for batch in scan? {
        let batch = batch?;
        let column = |number: usize| batch.column(number).as_primitive::<TimestampSecondType>();
        let (times, written) = (column(0).values(), column(1).values());
        rows.extend(times.iter().copied().zip(written.iter().copied()));
    }
    Ok(rows)
}

/// Appends rows of these times, written at this moment; to the model, too, unless the disk is full.
fn append(table: &Table, model: &mut Rows, times: impl Iterator<Item = i64> + Clone, written: i64) {
    match table.append(&batch(times.clone(), written)) {
        Ok(_) => model.extend(times.map(|time| (time, written))),
        Err(Error::NoSpace { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Appends a batch whose blocks no checkpoint names, lets `checkpoint` name and rewrite them at
/// once, and then writes rows where a free place would be taken; a view of the first batch is held
/// meanwhile.
fn rewrite(checkpoint: impl FnOnce(&Table, &mut Rows), over: impl FnOnce(&Table, &mut Rows)) {
    let disk = SimDisk::new(1);
    let store = create(&disk);
    let mut model = Rows::new();
    let reader = open_to_read(&disk);
    append(&table(&store), &mut model, 0..ROWS, 0);
    reader.refresh().expect("a sound disk");
    let (snapshot, elsewhere) = (store.snapshot(), reader.snapshot());
    let was = model.clone();
    checkpoint(&table(&store), &mut model);
    over(&table(&store), &mut model);
    store.flush().expect("a sound disk");
    for view in [&snapshot, &elsewhere] {
        assert!(
            rows_in(view.range("t", ..)).expect("reads") == was,
            "what is held stays"
        );
    }
    drop((snapshot, elsewhere, reader));
    store.flush().expect("a sound disk");
    assert!(rows_in(table(&store).range(..)).expect("reads") == model);
    store.close().expect("a sound disk");
    let store = open(&disk, options()).expect("opens");
    assert!(rows_in(table(&store).range(..)).expect("reads") == model);
    assert_eq!(store.verify().expect("reads").problems, []);
}

fn open_to_read(disk: &SimDisk) -> Store {
    let engine = Engine::open_to_read(Arc::new(disk.clone()), Path::new(STORE), options());
    Store::new(engine.expect("opens"))
}

#[test]
fn a_block_that_a_long_batch_replaces_at_once_keeps_its_place() {
    rewrite(
        |table, model| append(table, model, (0..ROWS).rev(), 1),
        |table, model| append(table, model, 5..6, 2),
    );
}

#[test]
fn a_block_that_expires_at_once_keeps_its_place() {
    let keep = |table: &Table, seconds| {
        table.set_retention(seconds).expect("a sound disk");
    };
    rewrite(
        |table, model| {
            keep(table, Some(Duration::from_secs(10)));
            keep(table, None);
            *model = rows_in(table.range(..)).expect("reads");
            // Expiry takes whole blocks, so some older rows are left.
            assert!(model.len() < 5000, "{} rows are left", model.len());
            assert!((ROWS - 10..ROWS).all(|time| model.contains_key(&time)));
        },
        |table, model| append(table, model, 0..ROWS, 1),
    );
}

#[test]
fn a_block_of_two_generations_in_one_checkpoint_keeps_both_places() {
    // A flush that finds no space fails before or after it seals a generation.
    let failed: usize = (0..24).map(|step| flush_late(step * 1024)).sum();
    assert!(failed > 20, "{failed} flushes failed");
}

/// Writes the same blocks again and again, each time with a flush for which there is so much
/// space, and then with one that does them all; returns how many have failed.
fn flush_late(space: u64) -> usize {
    let mut failed = 0;
    let disk = SimDisk::new(1);
    let store = create(&disk);
    let mut model = Rows::new();
    let mut views: Vec<(Snapshot, Rows)> = Vec::new();
    for written in 0..3 {
        append(&table(&store), &mut model, 0..ROWS, written);
        append(&table(&store), &mut model, 5..6, 10 + written);
        views.push((store.snapshot(), model.clone()));
        disk.set_capacity(disk.used() + space);
        failed += usize::from(store.flush().is_err());
        disk.set_capacity(u64::MAX);
    }
    store.flush().expect("a sound disk");
    append(&table(&store), &mut model, 0..ROWS, 20);
    append(&table(&store), &mut model, 5..6, 21);
    store.flush().expect("a sound disk");
    for (view, was) in &views {
        assert!(rows_in(view.range("t", ..)).expect("reads") == *was);
    }
    drop(views);
    store.close().expect("a sound disk");
    let store = open(&disk, options()).expect("opens");
    assert!(rows_in(table(&store).range(..)).expect("reads") == model);
    assert_eq!(store.verify().expect("reads").problems, []);
    failed
}

#[test]
fn nothing_is_written_to_places_of_a_dropped_table() {
    let disk = SimDisk::new(1);
    let store = create(&disk);
    let mut was = Rows::new();
    let dropped = table(&store);
    append(&dropped, &mut was, 0..ROWS, 0);
    let snapshot = store.snapshot();
    store.drop_table("t").expect("a sound disk");
    // The longer batch would write its blocks to the disk, the shorter one keep them in memory.
    for rows in [ROWS, 200] {
        let found = dropped.append(&batch(0..rows, 1));
        assert!(matches!(found, Err(Error::NoSuchTable { .. })), "{found:?}");
        assert!(rows_in(snapshot.range("t", ..)).expect("reads") == was);
    }
}

#[test]
fn a_block_over_a_long_batch_that_is_being_written_hides_none_of_its_rows() {
    let disk = SimDisk::new(1);
    let store = create(&disk);
    let table = table(&store);
    let others = table.clone();
    let mut expected: Rows = (0..3 * ROWS).step_by(3).map(|time| (time, 1)).collect();
    let between = || {
        let times: Vec<i64> = (0..2400).filter(|time| time % 3 != 0).collect();
        times.into_iter()
    };
    expected.extend(between().map(|time| (time, 2)));
    disk.interrupt(Access::Write, &Path::new(STORE).join("data"), move || {
        others.append(&batch(between(), 2)).expect("a sound disk");
    });
    // Its times descend, so that it goes the long way.
    let times: Vec<i64> = (0..3 * ROWS).step_by(3).collect();
    let long = batch(times.into_iter().rev(), 1);
    table.append(&long).expect("a sound disk");
    for _ in 0..2 {
        let found = rows_in(table.range(..)).expect("reads");
        assert!(found == expected, "{} of {} rows", found.len(), expected.len());
        store.flush().expect("a sound disk");
    }
}

/// A store that was opened beside an older reader looks at files before it writes there.
#[test]
fn files_that_cannot_be_looked_at_for_a_while_keep_their_places() {
    let mut failed = 0;
    for call in 1..40 {
        let disk = SimDisk::new(1);
        let store = create(&disk);
        let mut model = Rows::new();
        append(&table(&store), &mut model, 0..ROWS, 0);
        store.flush().expect("a sound disk");
        let reader = open_to_read(&disk);
        let (held, was) = (reader.snapshot(), model.clone());
        append(&table(&store), &mut model, (0..ROWS).step_by(100), 1);
        store.close().expect("a sound disk");
        let store = open(&disk, options()).expect("opens");
        append(&table(&store), &mut model, (0..ROWS).step_by(100), 2);
        let kind = FaultKind::Death;
        disk.set_fault(Some(Fault {
            call: disk.calls() + call,
            kind,
        }));
        failed += usize::from(store.flush().is_err());
        // The disk works again. A store that takes no more writes says so; it has space.
        disk.set_fault(None);
        let again = store.flush();
        assert!(
            !matches!(again, Err(Error::NoSpace { .. })),
            "call {call}: {again:?}"
        );
        let found = rows_in(held.range("t", ..)).expect("reads");
        assert!(found == was, "call {call}: what is held stays");
        drop((store, held, reader));
        let store = open(&disk, options()).expect("opens");
        let found = rows_in(table(&store).range(..)).expect("reads");
        assert!(found == model, "call {call}: {} rows", found.len());
        assert_eq!(store.verify().expect("reads").problems, [], "call {call}");
    }
    assert!(failed > 20, "{failed} flushes failed");
}

#[test]
fn a_file_that_recovery_removes_is_created_again() {
    let disk = SimDisk::new(1);
    let store = create(&disk);
    let mut model = Rows::new();
    append(&table(&store), &mut model, 0..ROWS, 0);
    table(&store).delete_range(..).expect("a sound disk");
    // The log names blocks, all of whose rows it deletes afterwards.
    disk.set_fault(Some(Fault {
        call: disk.calls(),
        kind: FaultKind::Death,
    }));
    drop(store);
    disk.set_fault(None);
    let store = open(&disk, options()).expect("opens");
    assert_eq!(rows_in(table(&store).range(..)).expect("reads"), Rows::new());
    append(&table(&store), &mut model, 0..ROWS, 1);
    store.close().expect("a sound disk");
    let store = open(&disk, options()).expect("opens");
    assert!(rows_in(table(&store).range(..)).expect("reads") == model);
}

/// A store that random operations are done to, and what its table and each view of it have.
struct Run {
    seed: u64,
    disk: SimDisk,
    /// None while it is closed.
    store: Option<Store>,
    reader: Store,
    model: Rows,
    /// Views of this process, and of the reader.
    held: [Vec<(Snapshot, Rows)>; 2],
    full: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let store = Some(create(&disk));
        let reader = open_to_read(&disk);
        Self {
            seed,
            disk,
            store,
            reader,
            model: Rows::new(),
            held: Default::default(),
            full: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn table(&self) -> Table {
        table(self.store())
    }

    fn step(&mut self, rng: &mut Rng, written: i64) {
        let mut below = |bound: i64| i64::try_from(rng.below(bound.unsigned_abs())).unwrap_or_default();
        let table = self.table();
        let store = self.store.as_ref().expect("it is open");
        let model = &mut self.model;
        let from = below(2000);
        match below(16) {
            0..=3 => append(&table, model, from..from + 300 + below(3000), written),
            4..=6 => append(&table, model, (from..from + 5000).rev(), written),
            7..=9 => append(&table, model, from..from + 1 + below(40), written),
            10 => {
                table.delete_range(from..from + 500).expect("a sound disk");
                model.retain(|time, _| !(from..from + 500).contains(time));
            }
            11 => store.flush().expect("a sound disk"),
            12 => {
                // There is space for a part of it, perhaps.
                let space = u64::try_from(below(3)).unwrap_or_default() * 30_000;
                self.disk.set_capacity(self.disk.used() + space);
                self.full += usize::from(store.flush().is_err());
                append(&table, model, (from..from + 5000).rev(), written);
                self.disk.set_capacity(u64::MAX);
            }
            13 => self.held[0].push((store.snapshot(), model.clone())),
            14 => {
                self.reader.refresh().expect("a sound disk");
                self.held[1].push((self.reader.snapshot(), model.clone()));
            }
            _ => {
                drop(table);
                self.held[0].clear();
                self.reopen(below(2) == 0);
            }
        }
        let which = usize::from(below(2) == 0);
        let count = i64::try_from(self.held[which].len()).unwrap_or_default();
        if count > 2 {
            let view = self.held[which].swap_remove(usize::try_from(below(count)).unwrap_or_default());
            self.check("a view", view.0.range("t", ..), &view.1);
        }
    }

    /// Closes the store, or ends its process, and opens it.
    fn reopen(&mut self, dies: bool) {
        if dies {
            self.disk.set_fault(Some(Fault {
                call: self.disk.calls(),
                kind: FaultKind::Death,
            }));
        }
        // One process at a time writes: the store is closed before it is opened.
        drop(self.store.take());
        self.disk.set_fault(None);
        self.store = Some(open(&self.disk, options()).expect("opens"));
        self.check("opened", self.table().range(..), &self.model);
    }

    fn check(&self, what: &str, scan: Result<Scan>, expected: &Rows) {
        let found = rows_in(scan).unwrap_or_else(|error| panic!("seed {}, {what}: {error}", self.seed));
        let differs = |(time, written): (&i64, &i64)| found.get(time) != Some(written);
        let first = expected.iter().find(|&(time, written)| differs((time, written)));
        assert!(
            found == *expected,
            "seed {}, {what}: {} rows of {}, the first that differs {first:?}",
            self.seed,
            found.len(),
            expected.len()
        );
    }

    fn finish(mut self) {
        for (view, was) in self.held.iter().flatten() {
            self.check("a view", view.range("t", ..), was);
        }
        self.held = Default::default();
        self.store().flush().expect("a sound disk");
        self.check("flushed", self.table().range(..), &self.model);
        self.reopen(false);
        assert_eq!(
            self.store().verify().expect("reads").problems,
            [],
            "seed {}",
            self.seed
        );
    }
}

#[test]
fn no_view_loses_a_place() {
    let (seeds, steps) = (16, 60);
    let mut full = 0;
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let mut run = Run::new(seed);
        for step in 0..steps {
            run.step(&mut rng, step);
        }
        full += run.full;
        run.finish();
    }
    assert!(full > 4, "{full} flushes found no space");
    say(&format!(
        "places: {seeds} runs of {steps} operations, {full} on a full disk"
    ));
}
