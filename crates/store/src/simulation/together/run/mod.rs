//! A store with a table of each kind, its models, and one random operation after another.

mod changes;
mod reads;
mod trouble;
mod views;

use std::path::Path;
use std::sync::Arc;

use bedload_testkit::Rng;

use super::super::say;
use super::super::workload::{STORE, columns, open, open_at, options};
use super::model::{Kind, Model, Row, added_columns, batch, rows_of, rows_with};
use crate::disk::sim::{SimDisk, Trace};
use crate::engine::Engine;
use crate::error::Error;
use crate::mark::Mark;
use crate::options::{Durability, Options};
use crate::rows::TableSchema;
use crate::store::{RetentionPause, Store, Table};
use crate::table::{Grid, Layout};
use changes::Change;
use views::{Follower, View};

const TABLES: [(&str, Kind); 3] = [("rows", Kind::Rows), ("keyed", Kind::Keyed), ("grid", Kind::Grid)];
/// The time of rows that are appended by mistake, long after all others.
const FAR: i64 = 1 << 40;

type Models = [Model; TABLES.len()];

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
    /// The states to which loss of power may set the tables back: the last durable one, and those
    /// after each later change. Empty if all commits are durable.
    states: Vec<Models>,
    views: Vec<View>,
    marks: Vec<(Mark, i64)>,
    pauses: [Option<RetentionPause>; TABLES.len()],
    /// Handles from before columns were added or dropped.
    older: [Option<Table>; TABLES.len()],
    /// For each of the two indexed tables a follower in the reader's process, and then one in the
    /// process that writes.
    followers: [[Follower; 2]; 2],
    now: i64,
    next: i64,
    /// How many changes found no space, and how many others failed, after which the store is opened
    /// again.
    pub(super) failed: usize,
    pub(super) unknown: usize,
    /// The operations done, printed with a failure.
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

fn found(store: &Store, number: usize) -> Vec<Row> {
    let found = store.table(TABLES[number].0).and_then(|table| table.range(..));
    found.and_then(rows_of).unwrap_or_else(|error| panic!("{error}"))
}

/// Fails unless the tables of a store have what they have in the models.
fn check_all(store: &Store, models: &Models) -> Result<(), String> {
    for (number, model) in models.iter().enumerate() {
        model.check(&found(store, number))?;
        let table = store.table(TABLES[number].0).expect("there");
        let columns = added_columns(table.schema().arrow());
        if columns != model.columns {
            return Err(format!("{number} has the added columns {columns:?}"));
        }
    }
    Ok(())
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
        let options = options()
            .head_bytes((64 << 10) << (seed % 3))
            .durability(match seed % 4 {
                0 => Durability::Relaxed,
                _ => Durability::Always,
            });
        let store = open(&disk, options.clone()).expect("creates");
        let models = std::array::from_fn(|number| {
            let table = create_table(&store, number);
            Model::new(TABLES[number].1, table.id())
        });
        let reader = Some(open_to_read(&disk, options.clone()));
        let mut run = Self {
            seed,
            rng: Rng::new(seed),
            disk,
            begun,
            options,
            store: Some(store),
            reader,
            states: Vec::new(),
            models,
            views: Vec::new(),
            marks: Vec::new(),
            pauses: Default::default(),
            older: Default::default(),
            followers: Default::default(),
            now: 0,
            next: 0,
            failed: 0,
            unknown: 0,
            log: Vec::new(),
        };
        run.is_durable();
        run
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

    /// Loss of power may undo the last change.
    fn may_be_lost(&mut self) {
        if self.options.durability == Durability::Relaxed {
            self.states.push(self.models.clone());
        }
    }

    /// Loss of power undoes nothing that was done until now.
    fn is_durable(&mut self) {
        self.states.clear();
        self.may_be_lost();
    }

    /// Every table has what it must have.
    fn check_now(&mut self) {
        for number in 0..TABLES.len() {
            let found = found(self.store(), number);
            let model = &mut self.models[number];
            model
                .check(&found)
                .unwrap_or_else(|problem| panic!("now: {problem}"));
            model.saw(&found);
            let columns = &self.models[number].columns;
            assert_eq!(added_columns(self.table(number).schema().arrow()), *columns);
            if let Some(older) = &self.older[number] {
                let scan = older.range(..).expect("there");
                let rows = rows_with(scan, |column| columns.contains(&column));
                assert_eq!(rows.expect("a sound disk"), found);
            }
        }
    }

    pub(super) fn step(&mut self) {
        match self.below(36) {
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
            16 | 17 => self.rename_column(),
            18..22 => self.read(),
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
        let rows = self.rows(number, FAR..FAR + count);
        self.do_change(&Change::Append(number, rows));
        while self.below(3) == 0 {
            // Rows that are appended to the same table since the mark would be taken back, too.
            let other = (number + 1) % TABLES.len();
            let count = self.count(other);
            let rows = self.some_rows(other, count);
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
                self.may_be_lost();
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
        self.may_be_lost();
    }

    /// Renames a column of a table, also its time or one of its key.
    fn rename_column(&mut self) {
        let number = self.rng.index(TABLES.len());
        let table = self.table(number);
        let fields = table.schema().arrow().fields();
        let name = fields[self.rng.index(fields.len())].name();
        let new = format!(
            "{}, renamed {}",
            name.split(',').next().unwrap_or_default(),
            self.log.len()
        );
        self.say(("renames", number, name, &new));
        let renamed = self.store().rename_column(TABLES[number].0, name, &new);
        renamed.expect("a sound disk");
        self.is_durable();
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
        let gone = was.append(&batch(&[Row { time: 0, id: 0 }], was.schema()));
        assert!(matches!(gone, Err(Error::NoSuchTable { .. })), "{gone:?}");
        drop(self.pauses[number].take());
        self.older[number] = None;
        let table = create_table(self.store(), number);
        self.models[number] = Model::new(kind, table.id());
        self.is_durable();
        if number < 2 {
            for followers in &mut self.followers {
                followers[number] = Follower::default();
            }
        }
        if number == 0 {
            self.marks.clear();
        }
    }

    /// Copies the store, and looks whether the copy has the same.
    fn back_up(&mut self) {
        self.say("copies");
        // One that was removed may stand there again after a power cut.
        let to = format!("/copy {}", self.log.len());
        self.store().backup(&to).expect("a sound disk");
        let copy = open_at(&self.disk, Path::new(&to), self.options.clone()).expect("opens");
        self.check_copy(&copy, "the copy", |_| true);
        copy.remove().expect("a sound disk");
    }

    /// Looks whether another store has the same in these tables.
    fn check_copy(&self, copy: &Store, what: &str, which: impl Fn(&Model) -> bool) {
        let tables = TABLES.iter().enumerate();
        for (number, (name, _)) in tables.filter(|(number, _)| which(&self.models[*number])) {
            let table = copy.table(name).expect("a sound copy");
            let columns = added_columns(table.schema().arrow());
            assert_eq!(columns, self.models[number].columns, "{what}");
            let rows = table.range(..).and_then(rows_of);
            let found = self.models[number].check(&rows.expect("a sound copy"));
            found.unwrap_or_else(|problem| panic!("{what}: {problem}"));
        }
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
