//! A store that random operations are done to, beside its model.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bedload_testkit::Rng;

use super::super::say;
use super::super::workload::{STORE, columns, open, open_at, options};
use super::model::{Kind, Model, Row, batch, rows_of};
use crate::disk::sim::{Access, Fault, FaultKind, SimDisk, Trace};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::options::Options;
use crate::rows::TableSchema;
use crate::store::{RetentionPause, Snapshot, Store, Table};
use crate::sync::Mutex;
use crate::table::{Grid, Layout};

const TABLES: [(&str, Kind); 3] = [("rows", Kind::Rows), ("keyed", Kind::Keyed), ("grid", Kind::Grid)];
/// What is far from all other times.
const FAR: i64 = 1 << 40;

type Models = [Model; TABLES.len()];

/// One change of the store, of which all is there or nothing.
#[derive(Debug, Clone)]
enum Change {
    Append(usize, Vec<Row>),
    /// Rows of several tables, and times that are deleted before.
    Group(Vec<(usize, Option<RangeInclusive<i64>>, Vec<Row>)>),
    Delete(usize, RangeInclusive<i64>),
    /// Takes back the rows since the mark, which begin with this id.
    Retract(Mark, i64),
    Keep(usize, Option<i64>),
    Flush,
}

/// A snapshot, and what it may have: one of these.
struct View {
    snapshot: Snapshot,
    models: Vec<Models>,
    /// Whether it is of the process that writes.
    is_ours: bool,
}

/// A reader that goes from mark to mark in one table.
#[derive(Default)]
struct Follower {
    mark: Option<Mark>,
    seen: BTreeSet<i64>,
}

pub(super) struct Run {
    seed: u64,
    rng: Rng,
    disk: SimDisk,
    begun: Option<Trace>,
    options: Options,
    /// None while it is closed.
    store: Option<Store>,
    reader: Option<Arc<Store>>,
    models: Models,
    views: Vec<View>,
    marks: Vec<(Mark, i64)>,
    pauses: [Option<RetentionPause>; TABLES.len()],
    /// Of the tables that are indexed: in the process that writes, and in the reader's.
    followers: [[Follower; 2]; 2],
    now: i64,
    next: i64,
    /// How many changes failed, and after how many of them the store was opened anew.
    pub(super) failed: usize,
    pub(super) unknown: usize,
    /// What was done, to be printed with a failure.
    log: Vec<String>,
}

fn create_table(store: &Store, number: usize) -> Table {
    let (name, kind) = TABLES[number];
    let mut schema = TableSchema::new(columns(), "at").expect("storable");
    if kind == Kind::Keyed {
        schema = schema.with_key(&["text"]).expect("a column");
    }
    let layout = match kind {
        Kind::Grid => Layout::Sparse(Grid::every(1).expect("positive")),
        Kind::Rows | Kind::Keyed => Layout::Indexed,
    };
    store.create_table_as(name, schema, layout).expect("fresh")
}

fn open_to_read(disk: &SimDisk, options: Options) -> Arc<Store> {
    let engine = Engine::open_to_read(Arc::new(disk.clone()), Path::new(STORE), options);
    Arc::new(Store::new(engine.expect("opens")))
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.log.len().saturating_sub(40);
            let done = self.log[from..].join("\n");
            say(&format!(
                "what was done last:\n{done}\nagain: BEDLOAD_TEST_SEED={} cargo test -p bedload --lib together",
                self.seed
            ));
        }
    }
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let begun = Some(disk.record());
        let options = options().head_bytes((64 << 10) << (seed % 3));
        let store = open(&disk, options.clone()).expect("creates");
        let models = std::array::from_fn(|number| {
            let table = create_table(&store, number);
            Model::new(TABLES[number].1, table.id())
        });
        let reader = Some(open_to_read(&disk, options.clone()));
        Self {
            seed,
            rng: Rng::new(seed),
            disk,
            begun,
            options,
            store: Some(store),
            reader,
            models,
            views: Vec::new(),
            marks: Vec::new(),
            pauses: Default::default(),
            followers: Default::default(),
            now: 0,
            next: 0,
            failed: 0,
            unknown: 0,
            log: Vec::new(),
        }
    }

    fn below(&mut self, bound: i64) -> i64 {
        i64::try_from(self.rng.below(bound.unsigned_abs())).unwrap_or_default()
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn table(&self, number: usize) -> Table {
        self.store().table(TABLES[number].0).expect("there")
    }

    fn say(&mut self, what: impl std::fmt::Debug) {
        let mut what = format!("{what:?}");
        if what.len() > 160 {
            what.truncate(160);
            what += " …";
        }
        self.log.push(what);
    }

    /// Rows of these times, whose ids follow.
    fn rows(&mut self, times: impl Iterator<Item = i64>) -> Vec<Row> {
        let first = self.next;
        let rows: Vec<Row> = times.zip(first..).map(|(time, id)| Row { time, id }).collect();
        self.next += i64::try_from(rows.len()).unwrap_or_default();
        rows
    }

    /// In order, a little late, or all over the place.
    fn some_rows(&mut self, count: i64) -> Vec<Row> {
        let first = self.now;
        match self.below(5) {
            0 | 1 => {
                self.now += count;
                self.rows(first..first + count)
            }
            2 => self.rows((first - count..first).rev()),
            3 => {
                self.now += count / 2;
                let late = 1 + self.below(60);
                self.rows((first..first + count).map(|at| first + (at - first) / 2 - at * 7919 % late))
            }
            _ => self.rows((0..count).map(|at| first - (at * 7919 + first) % 20_000)),
        }
    }

    /// A number of rows for a table: more than there is memory for, where that is taken.
    fn count(&mut self, number: usize) -> i64 {
        match self.below(6) {
            0 if TABLES[number].1 != Kind::Keyed => 2000 + self.below(6000),
            0 | 1 => 100 + self.below(200),
            2 => 1,
            _ => 1 + self.below(40),
        }
    }

    fn some_times(&mut self) -> RangeInclusive<i64> {
        let from = self.now - self.below(20_000);
        from..=from + self.below(3000)
    }

    fn some_change(&mut self) -> Change {
        let number = self.rng.index(TABLES.len());
        match self.below(12) {
            0 => Change::Delete(number, self.some_times()),
            1 => Change::Flush,
            2 | 3 => {
                let mut parts = Vec::new();
                for (number, (_, kind)) in TABLES.iter().enumerate() {
                    let count = 1 + self.below(200);
                    let rows = self.some_rows(count);
                    // Nothing else of a table with a key is changed in the same commit.
                    let times = (*kind != Kind::Keyed).then(|| self.some_times());
                    parts.push((number, times, rows));
                }
                Change::Group(parts)
            }
            4 => {
                let keep = (self.below(4) > 0).then(|| 3000 + self.below(20_000));
                Change::Keep(number, keep)
            }
            5 if !self.marks.is_empty() => {
                let which = self.rng.index(self.marks.len());
                let (mark, first) = self.marks[which];
                self.marks.truncate(which);
                Change::Retract(mark, first)
            }
            _ => {
                let count = self.count(number);
                Change::Append(number, self.some_rows(count))
            }
        }
    }

    fn perform(&self, change: &Change) -> Result<()> {
        match change {
            Change::Append(number, rows) => self.table(*number).append(&batch(rows)).map(drop),
            Change::Group(parts) => {
                let mut group = self.store().write_batch();
                for (number, times, rows) in parts {
                    if let Some(times) = times {
                        group.delete_range(&self.table(*number), times.clone())?;
                    }
                    group.append(&self.table(*number), &batch(rows))?;
                }
                group.commit().map(drop)
            }
            Change::Delete(number, times) => self.table(*number).delete_range(times.clone()),
            Change::Retract(mark, _) => self.table(0).retract_since(*mark),
            Change::Keep(number, keep) => {
                let keep = keep.map(|keep| Duration::from_millis(keep.unsigned_abs()));
                self.table(*number).set_retention(keep)
            }
            Change::Flush => self.store().flush(),
        }
    }

    /// Does a change; returns whether it is done. If that is unknown, the store is opened anew.
    fn change(&mut self, change: &Change) -> bool {
        self.say(change);
        match self.perform(change) {
            Ok(()) => {
                model(change, &mut self.models);
                true
            }
            Err(error @ Error::NoSpace { .. }) => {
                self.say(format!("not done: {error}"));
                self.failed += 1;
                false
            }
            Err(error) => {
                self.say(format!("failed: {error}"));
                self.unknown += 1;
                self.reopen(Some(change));
                false
            }
        }
    }

    /// Does changes without trouble.
    fn do_change(&mut self, change: &Change) {
        let unknown = self.unknown;
        let is_done = self.change(change);
        assert!(is_done && unknown == self.unknown, "a sound disk");
    }

    /// Ends the process as it is, and opens the store in another one; a change may be done or not.
    fn reopen(&mut self, change: Option<&Change>) {
        self.say("opened");
        self.views.retain(|view| !view.is_ours);
        self.marks.clear();
        self.pauses = Default::default();
        // Dropped while a fault still is set that it died of.
        drop(self.store.take());
        self.disk.set_fault(None);
        self.disk.set_capacity(u64::MAX);
        self.store = Some(open(&self.disk, self.options.clone()).expect("opens"));
        for model in &mut self.models {
            model.pause(false);
        }
        if let Some(change) = change {
            let mut after = self.models.clone();
            model(change, &mut after);
            if self.check_all(&self.models).is_err() {
                let found = self.check_all(&after);
                assert!(
                    found.is_ok(),
                    "neither done nor not: {found:?}, {:?}",
                    self.check_all(&self.models)
                );
                self.models = after;
            }
        }
        self.check_now();
    }

    fn check_all(&self, models: &Models) -> Result<(), String> {
        for (number, model) in models.iter().enumerate() {
            model.check(&self.found(number))?;
        }
        Ok(())
    }

    fn found(&self, number: usize) -> Vec<Row> {
        let found = self.table(number).range(..).and_then(rows_of);
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Every table has what it must have.
    fn check_now(&mut self) {
        for number in 0..TABLES.len() {
            let found = self.found(number);
            let model = &mut self.models[number];
            model
                .check(&found)
                .unwrap_or_else(|problem| panic!("now: {problem}"));
            model.saw(&found);
        }
    }

    /// Every table that a view has is one of those that it may have.
    fn check_view(&mut self, which: usize) {
        let view = &mut self.views[which];
        let mut found = Vec::new();
        for (name, _) in TABLES {
            let rows = view.snapshot.range(name, ..).and_then(rows_of);
            found.push(rows.unwrap_or_else(|error| panic!("{error}")));
        }
        let check = |models: &Models| {
            models
                .iter()
                .zip(&found)
                .try_for_each(|(model, rows)| model.check(rows))
        };
        let mut problem = Ok(());
        let holds = |models: &Models| {
            let checked = check(models);
            let holds = checked.is_ok();
            problem = checked;
            holds
        };
        let models = view.models.iter().position(holds);
        let models = models.unwrap_or_else(|| panic!("a view, ours: {}: {problem:?}", view.is_ours));
        view.models = vec![view.models.swap_remove(models)];
        for (model, rows) in view.models[0].iter_mut().zip(&found) {
            model.saw(rows);
        }
    }

    fn hold(&mut self, is_ours: bool) {
        let snapshot = if is_ours {
            self.store().snapshot()
        } else {
            let reader = self.reader.as_ref().expect("it is open");
            reader.refresh().expect("a sound disk");
            reader.snapshot()
        };
        let models = vec![self.models.clone()];
        self.views.push(View {
            snapshot,
            models,
            is_ours,
        });
        if self.below(2) == 0 {
            self.check_view(self.views.len() - 1);
        }
    }

    /// Finds what is new since the last time, in the tables that are indexed.
    fn follow(&mut self, is_ours: bool) {
        if !is_ours {
            let reader = self.reader.as_ref().expect("it is open");
            reader.refresh().expect("a sound disk");
        }
        for (number, (name, _)) in TABLES.iter().enumerate().take(2) {
            let table = if is_ours {
                self.table(number)
            } else {
                let reader = self.reader.as_ref().expect("it is open");
                reader.table(name).expect("there")
            };
            let follower = &mut self.followers[usize::from(is_ours)][number];
            let new = follower
                .mark
                .map_or_else(|| table.range(..), |mark| table.since(mark));
            let new = new.expect("there");
            follower.mark = Some(new.mark());
            let rows = rows_of(new).unwrap_or_else(|error| panic!("{error}"));
            let found = self.models[number].check_new(&rows, &mut follower.seen);
            found.unwrap_or_else(|problem| panic!("followed, ours: {is_ours}: {problem}"));
        }
    }

    pub(super) fn step(&mut self) {
        match self.below(30) {
            0 => self.pause_or_end(),
            1 => self.mistake(),
            2 => self.hold(true),
            3 | 4 => self.hold(false),
            5 => self.follow(true),
            6 => self.follow(false),
            7 => {
                let mark = self.table(0).mark();
                self.marks.push((mark, self.next));
            }
            8 => self.put_back(),
            9 => self.replace_table(),
            10 | 11 => self.interrupt(),
            12 => self.fill(),
            13 => self.fail(),
            14 => self.end(),
            15 => self.back_up(),
            _ => {
                let change = self.some_change();
                self.do_change(&change);
            }
        }
        if self.views.len() > 4 {
            let which = self.rng.index(self.views.len());
            self.check_view(which);
            self.views.swap_remove(which);
        }
        if self.below(6) == 0 {
            self.check_now();
        }
    }

    fn pause_or_end(&mut self) {
        let number = self.rng.index(TABLES.len());
        self.say(("pauses, or ends it", number));
        match self.pauses[number].take() {
            None => self.pauses[number] = Some(self.table(number).pause_retention()),
            Some(pause) if self.below(2) == 0 => pause.end().expect("a sound disk"),
            Some(_) => {}
        }
        let is_paused = self.pauses[number].is_some();
        self.models[number].pause(is_paused);
    }

    /// Appends rows that are far from all others and takes them back, during a pause.
    fn mistake(&mut self) {
        let number = self.rng.index(TABLES.len());
        self.say(("a mistake", number));
        let before = self.models[number].clone();
        let pause = self.table(number).pause_retention();
        self.models[number].pause(true);
        let (mark, first, snapshot) = (self.table(number).mark(), self.next, self.store().snapshot());
        let count = self.count(number);
        let rows = self.rows(FAR..FAR + count);
        self.do_change(&Change::Append(number, rows));
        while self.below(3) == 0 {
            // Its own rows may be among those that go, so only what others have is changed.
            let other = (number + 1) % TABLES.len();
            let count = self.count(other);
            let rows = self.some_rows(count);
            self.do_change(&Change::Append(other, rows));
            if self.below(2) == 0 {
                self.do_change(&Change::Flush);
            }
        }
        match self.models[number].kind() {
            Kind::Rows => self.do_change(&Change::Retract(mark, first)),
            Kind::Grid if self.below(2) == 0 => {
                let put = self.table(number).put_back(&snapshot, FAR..);
                put.expect("a sound disk");
                self.models[number].delete(&(FAR..=i64::MAX));
            }
            Kind::Keyed | Kind::Grid => self.do_change(&Change::Delete(number, FAR..=i64::MAX)),
        }
        if self.below(2) == 0 {
            pause.end().expect("a sound disk");
        } else {
            drop(pause);
        }
        self.models[number].pause(before.is_paused);
    }

    /// Makes some times of the sparse table what they were in a view.
    fn put_back(&mut self) {
        let number = TABLES.len() - 1;
        let now = self.models[number].table;
        let is_older =
            |view: &View| view.is_ours && view.models.len() == 1 && view.models[0][number].table == now;
        let Some(which) = self.views.iter().position(is_older) else {
            return;
        };
        let times = self.some_times();
        self.say(("puts back", &times));
        let view = &self.views[which];
        let put = self.table(number).put_back(&view.snapshot, times.clone());
        put.expect("a sound disk");
        self.models[number].put_back(&view.models[0][number], &times);
    }

    /// Drops a table and creates another one of its name, or renames one for a moment.
    fn replace_table(&mut self) {
        let number = self.rng.index(TABLES.len());
        let (name, kind) = TABLES[number];
        if self.below(2) == 0 {
            self.say(("renames", name));
            let store = self.store();
            store.rename_table(name, "renamed").expect("a sound disk");
            store.rename_table("renamed", name).expect("a sound disk");
            return;
        }
        self.say(("drops", name));
        let was = self.table(number);
        self.store().drop_table(name).expect("a sound disk");
        let gone = was.append(&batch(&[Row { time: 0, id: 0 }]));
        assert!(matches!(gone, Err(Error::NoSuchTable { .. })), "{gone:?}");
        drop(self.pauses[number].take());
        let table = create_table(self.store(), number);
        self.models[number] = Model::new(kind, table.id());
        if number < 2 {
            for followers in &mut self.followers {
                followers[number] = Follower::default();
            }
        }
        if number == 0 {
            self.marks.clear();
        }
    }

    /// Appends a long batch; while it is on its way to the disk a row is appended, and views are
    /// taken.
    fn interrupt(&mut self) {
        let (long, short) = ([0, 2][self.rng.index(2)], self.rng.index(TABLES.len()));
        let first = self.now;
        self.now += 12_000;
        // No two of them have a time in common.
        let count = self.below(30);
        let between = self.rows((0..count).map(|at| first + 2 * (at * 331 % 6000) + 1));
        let count = 2000 + self.below(4000);
        let rows = self.rows((0..count).map(|at| first + 2 * (count - at)));
        self.say(("interrupts", long, rows.len(), short, between.len()));
        let is_armed = Arc::new(AtomicBool::new(true));
        let taken = Arc::new(Mutex::new(None));
        let (other, ours) = (self.table(short), self.store().clone());
        let reader = self.reader.clone().expect("it is open");
        let data = Path::new(STORE).join("data");
        let append = batch(&between);
        self.disk.interrupt(Access::Write, &data, {
            let (is_armed, taken) = (is_armed.clone(), taken.clone());
            move || {
                if is_armed.load(Ordering::Relaxed) {
                    other.append(&append).expect("a sound disk");
                    reader.refresh().expect("a sound disk");
                    *taken.lock() = Some([(ours.snapshot(), true), (reader.snapshot(), false)]);
                }
            }
        });
        let table = self.table(long);
        table.append(&batch(&rows)).expect("a sound disk");
        is_armed.store(false, Ordering::Relaxed);
        self.disk.interrupt(Access::Write, &data, || {});
        let mut views = Vec::new();
        let taken = taken.lock().take();
        if let Some(taken) = taken {
            self.models[short].append(&between);
            views.extend(taken);
        }
        let before = self.models.clone();
        self.models[long].append(&rows);
        for (snapshot, is_ours) in views {
            let models = vec![before.clone(), self.models.clone()];
            self.views.push(View {
                snapshot,
                models,
                is_ours,
            });
        }
    }

    /// Does some changes while there is little space.
    fn fill(&mut self) {
        let space = self.below(4).unsigned_abs() * 40_000;
        self.say(("there is space for", space));
        self.disk.set_capacity(self.disk.used() + space);
        for _ in 0..1 + self.below(4) {
            let change = self.some_change();
            self.change(&change);
        }
        self.disk.set_capacity(u64::MAX);
        self.check_now();
    }

    /// Lets a call fail, or the process die, in the middle of some changes.
    fn fail(&mut self) {
        let kinds = [
            FaultKind::Error,
            FaultKind::NoSpace,
            FaultKind::Partial,
            FaultKind::Death,
        ];
        let kind = kinds[self.rng.index(kinds.len())];
        let call = self.disk.calls() + 1 + self.below(80).unsigned_abs();
        self.say(("fails", kind));
        self.disk.set_fault(Some(Fault { call, kind }));
        let (failed, unknown) = (self.failed, self.unknown);
        for _ in 0..4 {
            let change = self.some_change();
            self.change(&change);
            if (failed, unknown) != (self.failed, self.unknown) {
                break;
            }
        }
        self.disk.set_fault(None);
        // What failed behind a change that is done ends writing, perhaps.
        self.change(&Change::Flush);
        self.check_now();
    }

    /// Closes the store, lets its process die, or cuts the power, and opens it again.
    fn end(&mut self) {
        match self.below(4) {
            0 => {
                self.say("closes");
                self.pauses = Default::default();
                self.views.retain(|view| !view.is_ours);
                let store = self.store.take().expect("it is open");
                store.close().expect("a sound disk");
                let marks = std::mem::take(&mut self.marks);
                self.reopen(None);
                self.marks = marks;
            }
            1 | 2 => {
                self.say("dies");
                self.disk.set_fault(Some(Fault {
                    call: self.disk.calls(),
                    kind: FaultKind::Death,
                }));
                self.reopen(None);
            }
            _ => self.cut(),
        }
    }

    /// Cuts the power: of all processes nothing is left but what was synced.
    fn cut(&mut self) {
        self.say("power is cut");
        let trace = self.disk.trace(self.begun.take().expect("it is recorded"));
        self.views.clear();
        self.pauses = Default::default();
        self.reader = None;
        drop(self.store.take());
        let mut replay = trace.replay();
        while replay.step(&mut self.rng).is_some() {}
        self.disk = replay.image(self.rng.next_u64());
        self.begun = Some(self.disk.record());
        self.reopen(None);
        self.reader = Some(open_to_read(&self.disk, self.options.clone()));
    }

    /// Copies the store, and looks whether the copy has the same.
    fn back_up(&mut self) {
        self.say("copies");
        // One that was removed may stand there again after a power cut.
        let to = format!("/copy {}", self.log.len());
        self.store().backup(&to).expect("a sound disk");
        let copy = open_at(&self.disk, Path::new(&to), self.options.clone()).expect("opens");
        for (number, (name, _)) in TABLES.iter().enumerate() {
            let rows = copy
                .table(name)
                .and_then(|table| table.range(..))
                .and_then(rows_of);
            let found = self.models[number].check(&rows.expect("a sound copy"));
            found.unwrap_or_else(|problem| panic!("the copy: {problem}"));
        }
        copy.remove().expect("a sound disk");
    }

    pub(super) fn finish(mut self) {
        while !self.views.is_empty() {
            self.check_view(0);
            self.views.swap_remove(0);
        }
        self.pauses = Default::default();
        for model in &mut self.models {
            model.pause(false);
        }
        self.do_change(&Change::Flush);
        self.check_now();
        self.follow(true);
        self.follow(false);
        self.reader = None;
        self.reopen(None);
        let problems = self.store().verify().expect("reads").problems;
        assert_eq!(problems, []);
    }
}

/// Does a change to the model.
fn model(change: &Change, models: &mut Models) {
    match change {
        Change::Append(number, rows) => models[*number].append(rows),
        Change::Group(parts) => {
            for (number, times, rows) in parts {
                if let Some(times) = times {
                    models[*number].delete(times);
                }
                models[*number].append(rows);
            }
        }
        Change::Delete(number, times) => models[*number].delete(times),
        Change::Retract(_, first) => models[0].retract(*first),
        Change::Keep(number, keep) => models[*number].keep(*keep),
        Change::Flush => {}
    }
}
