//! All users of a tree, interleaved step by step.

use std::ops::Bound;

use bedload_testkit::Rng;
use bedload_testkit::contract::Plan;

use super::counts::Counts;
use super::history::{History, Place, State};
use super::keys::NumberedKeys;
use super::reading::Reading;
use super::rows::{Rows, row_of, seen};
use crate::be_tree::{BeTree, BeTreeOptions, BulkDelete, Maintainer, Progress, SealedBatch, SortedBatch};
use crate::entry::{Entry, FixedRow, Position, Row};
use crate::run::RunEntry;
use bedload_pages::{PageStore, VacuumStore};

const WRITERS: usize = 2;
const MAINTAINERS: usize = 2;
const CURSORS: usize = 3;
const TIES: u64 = 6;
/// Numbers of keys beyond which nothing is appended any more.
const NUMBERS_MAX: u64 = 1500;
/// Steps between two checks of everything.
const CHECK_EVERY: u64 = 4096;

/// Options of a tree whose every capacity is as small as can be, without filters.
pub fn small_be_tree() -> BeTreeOptions {
    BeTreeOptions::new()
        .fan_out(4)
        .runs(3)
        .stage_runs(3)
        .stage_entries(32)
        .leaf_entries(48)
        .pending_entries(96)
        .max_entries(6)
}

pub(super) fn config() -> BeTreeOptions {
    small_be_tree().filter_bits(12)
}

/// Drives trees on fresh stores, each through `steps_per_tree` steps, until the plan's operations
/// are used up. Prints nothing; returns what happened.
///
/// # Panics
///
/// If an answer is wrong, or the structure is.
pub fn check_be_tree_schedule<O: NumberedKeys, S: VacuumStore>(
    order: &O,
    make: impl Fn() -> S,
    plan: Plan,
    steps_per_tree: u64,
) -> Counts {
    let plan = plan.or_environment();
    let mut counts = Counts::default();
    for round in 0.. {
        if counts.steps >= plan.operations as u64 {
            break;
        }
        let store = make();
        let seed = plan.seed.wrapping_add(round);
        let tree = BeTree::create(&store, order.clone(), FixedRow, config()).expect("an empty tree");
        let mut history = History::default();
        let mut world = World::new(&tree, &mut history, seed, 0);
        for _ in 0..steps_per_tree {
            world.step(&|| false);
            if world.counts.steps.is_multiple_of(CHECK_EVERY) {
                world.check_all();
            }
        }
        world.settle();
        counts += world.counts;
    }
    counts
}

/// A writer's batch: not begun, being written, or to be published; with what it changes.
enum Batch<'t, O: NumberedKeys, S: PageStore + 't> {
    None,
    Written(Box<SortedBatch<'t, O, Rows, S>>, Vec<Change>, usize),
    Sealed(SealedBatch<'t, O, Rows, S>, Vec<Change>),
}

/// A place, and its new value, if it is to have one.
pub(super) type Change = (Place, Option<u64>);

pub(super) struct World<'t, 'h, O: NumberedKeys, S: VacuumStore + 't> {
    tree: &'t BeTree<O, Rows, S>,
    history: &'h mut History,
    rng: Rng,
    now: u64,
    numbers: u64,
    writers: Vec<Batch<'t, O, S>>,
    maintainers: Vec<Maintainer<'t, O, Rows, S>>,
    readings: Vec<Option<Reading<'t, O, S>>>,
    vacuum: Option<(BulkDelete<'t, O, Rows, S>, u64)>,
    /// A batch during whose publication the store crashed: it was published or not.
    pub(super) doubtful: Vec<Change>,
    pub(super) counts: Counts,
}

impl<'t, 'h, O: NumberedKeys, S: VacuumStore> World<'t, 'h, O, S> {
    pub(super) fn new(tree: &'t BeTree<O, Rows, S>, history: &'h mut History, seed: u64, begin: u64) -> Self {
        Self {
            writers: (0..WRITERS).map(|_| Batch::None).collect(),
            maintainers: (0..MAINTAINERS).map(|_| tree.maintainer()).collect(),
            readings: (0..CURSORS).map(|_| None).collect(),
            vacuum: None,
            numbers: history
                .present()
                .map(|((number, _), _)| number + 1)
                .max()
                .unwrap_or(10),
            doubtful: Vec::new(),
            counts: Counts::default(),
            rng: Rng::new(seed),
            now: begin,
            tree,
            history,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// One step of one of them. Its findings mean nothing once `has_crashed`.
    pub(super) fn step(&mut self, has_crashed: &dyn Fn() -> bool) {
        self.now += 1;
        self.counts.steps += 1;
        match self.rng.below(100) {
            0..30 => self.write(has_crashed),
            30..62 => self.maintain(has_crashed),
            62..84 => self.read(has_crashed),
            84..92 => self.look_up(has_crashed),
            92..99 => self.vacuum(has_crashed),
            _ => match self.tree.store().reclaim() {
                Ok(pages) => self.counts.reclaimed += pages as u64,
                Err(error) => assert!(has_crashed(), "{error}"),
            },
        }
    }

    fn write(&mut self, has_crashed: &dyn Fn() -> bool) {
        let writer = self.rng.index(WRITERS);
        let batch = std::mem::replace(&mut self.writers[writer], Batch::None);
        self.writers[writer] = match batch {
            Batch::None => {
                let changes = self.changes();
                match self.tree.batch() {
                    Ok(batch) => Batch::Written(Box::new(batch), changes, 0),
                    Err(error) => {
                        assert!(has_crashed(), "{error}");
                        Batch::None
                    }
                }
            }
            Batch::Written(mut batch, changes, mut next) => {
                let until = (next + 1 + self.rng.index(12)).min(changes.len());
                while next < until {
                    let ((number, tie), value) = changes[next];
                    let key = self.tree.order().key_of(number, self.rng.next_u64());
                    let added = match value {
                        Some(value) => batch.put(Entry {
                            key: &key,
                            tie,
                            row: Row {
                                fixed: &row_of(number, value),
                                variable: &[],
                            },
                        }),
                        None => batch.remove(&key, tie),
                    };
                    if let Err(error) = added {
                        assert!(has_crashed(), "{error}");
                        return;
                    }
                    next += 1;
                }
                if next < changes.len() {
                    Batch::Written(batch, changes, next)
                } else {
                    match batch.seal() {
                        Ok(sealed) => Batch::Sealed(sealed, changes),
                        Err(error) => {
                            assert!(has_crashed(), "{error}");
                            Batch::None
                        }
                    }
                }
            }
            Batch::Sealed(mut sealed, changes) => {
                let published = sealed.try_publish();
                match published {
                    Ok(Some(_)) if !has_crashed() => {
                        self.note(&changes);
                        Batch::None
                    }
                    Ok(Some(_)) => {
                        self.doubtful = changes;
                        Batch::None
                    }
                    Ok(None) => {
                        self.counts.refused += 1;
                        Batch::Sealed(sealed, changes)
                    }
                    Err(error) => {
                        assert!(has_crashed(), "{error}");
                        self.doubtful = changes;
                        Batch::None
                    }
                }
            }
        };
    }

    fn note(&mut self, changes: &[Change]) {
        self.counts.batches += 1;
        self.counts.changes += changes.len() as u64;
        for &(place, value) in changes {
            self.history.set(place, self.now, State::of(value));
        }
    }

    /// Draws the changes of a batch: some near by, in order, anywhere, or all over a stretch.
    fn changes(&mut self) -> Vec<Change> {
        let rng = &mut self.rng;
        let dead = self.vacuum.as_ref().map(|&(_, dead)| dead);
        let most = [6, 44][rng.index(2)];
        let count = 1 + rng.below(most);
        let appends = self.numbers < NUMBERS_MAX;
        let mut places: Vec<Place> = match rng.below(10) {
            0..3 if appends => {
                let first = self.numbers + rng.below(2);
                self.numbers += 1 + count / 3;
                (0..count).map(|at| (first + at / 3, at % 3)).collect()
            }
            3..5 => {
                let near = rng.below(self.numbers);
                (0..count)
                    .map(|_| (near + rng.below(20), rng.below(TIES)))
                    .collect()
            }
            _ => (0..count)
                .map(|_| (rng.below(self.numbers), rng.below(TIES)))
                .collect(),
        };
        self.numbers = self
            .numbers
            .max(places.iter().map(|place| place.0 + 1).max().unwrap_or(0));
        places.retain(|&(_, tie)| Some(tie) != dead);
        places.sort_unstable();
        places.dedup();
        let removals = [5, 30, 90][rng.index(3)];
        places
            .into_iter()
            .map(|place| (place, (rng.below(100) >= removals).then(|| rng.next_u64())))
            .collect()
    }

    fn maintain(&mut self, has_crashed: &dyn Fn() -> bool) {
        let maintainer = self.rng.index(MAINTAINERS);
        if self.rng.below(300) == 0 {
            // A merge under way is lost.
            self.counts.work += self.maintainers[maintainer].done();
            self.maintainers[maintainer] = self.tree.maintainer();
        }
        let pages = self.rng.below(12);
        let maintainer = &mut self.maintainers[maintainer];
        let worked = match self.rng.below(400) {
            0 => maintainer.drain(pages),
            1..20 => maintainer.tidy(pages),
            20..120 if !maintainer.is_under_way() => maintainer.merge_newest(pages),
            120..200 => maintainer.work_on_one(pages),
            _ => maintainer.work(pages),
        };
        if let Err(error) = worked {
            assert!(has_crashed(), "{error}");
        }
    }

    fn read(&mut self, has_crashed: &dyn Fn() -> bool) {
        let at = self.rng.index(CURSORS);
        let Some(mut reading) = self.readings[at].take() else {
            self.readings[at] = Some(self.begin_reading());
            return;
        };
        if self.rng.below(2) == 0 {
            let most = self.rng.index(30) + 1;
            let mut given = Vec::new();
            let order = self.tree.order();
            let read = reading
                .cursor
                .next_entries(most, |entry| given.push(seen(order, &entry)));
            if has_crashed() {
                return;
            }
            assert_eq!(read.expect("sound pages"), given.len());
            for &(place, value) in &given {
                self.counts.read += 1;
                reading.check(self.history, place, value);
            }
            if given.len() < most {
                reading.check_end(self.history);
                self.counts.cursors += 1;
                return;
            }
        }
        for _ in 0..1 + self.rng.below(30) {
            match reading.cursor.next_entry() {
                _ if has_crashed() => return,
                Ok(Some(entry)) => {
                    let (place, value) = seen(self.tree.order(), &entry);
                    self.counts.read += 1;
                    reading.check(self.history, place, value);
                }
                Ok(None) => {
                    reading.check_end(self.history);
                    self.counts.cursors += 1;
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.readings[at] = Some(reading);
    }

    fn begin_reading(&mut self) -> Reading<'t, O, S> {
        let rng = &mut self.rng;
        let (a, b) = (rng.below(self.numbers + 5), rng.below(self.numbers + 5));
        let (from, to) = if rng.below(4) == 0 {
            (0, u64::from(u32::MAX) >> 4)
        } else {
            (a.min(b), a.max(b))
        };
        let (from, to) = ((from, rng.below(3)), (to, rng.below(TIES)));
        let is_back = rng.below(2) == 0;
        let keys = [from, to].map(|(number, _)| self.tree.order().key_of(number, 1));
        let low = Bound::Included(Position {
            key: &keys[0],
            tie: from.1,
        });
        let high = Bound::Excluded(Position {
            key: &keys[1],
            tie: to.1,
        });
        let cursor = if is_back {
            self.tree.range_back(low, high)
        } else {
            self.tree.range(low, high)
        };
        Reading {
            cursor: cursor.expect("keys of the order"),
            is_back,
            since: self.now,
            from,
            to,
            last: None,
        }
    }

    fn look_up(&mut self, has_crashed: &dyn Fn() -> bool) {
        let place = (self.rng.below(self.numbers), self.rng.below(TIES));
        let key = self.tree.order().key_of(place.0, self.rng.next_u64());
        let found = if self.rng.below(2) == 0 {
            self.tree
                .get_with(&key, place.1, |entry| seen(self.tree.order(), &entry))
        } else {
            self.look_up_in_range(&key, place.1)
        };
        if has_crashed() {
            return;
        }
        self.counts.lookups += 1;
        match found.expect("sound pages") {
            Some((found, value)) => {
                assert_eq!(found, place);
                assert!(
                    self.history.may_be(place, value, self.now),
                    "{place:?} is {value}, and should be {:?}",
                    self.history.now(place)
                );
            }
            None => assert!(
                self.history.may_be_absent(place, self.now),
                "{place:?} is not there, and should be {:?}",
                self.history.now(place)
            ),
        }
    }

    /// The same by reading all that the key has, which filters are asked for, too.
    fn look_up_in_range(&self, key: &[u8], tie: u64) -> bedload_pages::Result<Option<(Place, u64)>> {
        let at = |tie| Bound::Included(Position { key, tie });
        let mut cursor = self.tree.range(at(0), at(u64::MAX))?;
        while let Some(entry) = cursor.next_entry()? {
            if entry.tie() == tie {
                return Ok(Some(seen(self.tree.order(), &entry)));
            }
        }
        Ok(None)
    }

    fn vacuum(&mut self, has_crashed: &dyn Fn() -> bool) {
        let Some((delete, dead)) = &mut self.vacuum else {
            if self.rng.below(6) == 0 {
                self.begin_vacuum(has_crashed);
            }
            return;
        };
        let dead = *dead;
        for _ in 0..1 + self.rng.below(40) {
            match delete.step(&mut |tie| tie == dead) {
                Ok(true) => {}
                Ok(false) => {
                    let over = self.vacuum.take();
                    self.counts.deleted += over.map_or(0, |(delete, _)| delete.deleted());
                    self.counts.bulk_deletes += 1;
                    self.fade(dead, State::Absent);
                    return;
                }
                Err(error) => {
                    assert!(has_crashed(), "{error}");
                    return;
                }
            }
        }
    }

    fn begin_vacuum(&mut self, has_crashed: &dyn Fn() -> bool) {
        let dead = self.rng.below(TIES);
        // Runs that die were published before; those that are not published yet are alive.
        let is_in_flight = |batch: &Batch<'_, O, S>| match batch {
            Batch::None => false,
            Batch::Written(_, changes, _) | Batch::Sealed(_, changes) => {
                changes.iter().any(|&((_, tie), _)| tie == dead)
            }
        };
        if self.writers.iter().any(is_in_flight) {
            return;
        }
        match self.tree.begin_bulk_delete() {
            Ok(delete) => {
                self.fade(dead, State::Fading);
                self.vacuum = Some((delete, dead));
            }
            Err(error) => assert!(has_crashed(), "{error}"),
        }
    }

    fn fade(&mut self, dead: u64, state: State) {
        let places: Vec<Place> = self.history.present().map(|(place, _)| place).collect();
        for place in places.into_iter().filter(|&(_, tie)| tie == dead) {
            self.history.set(place, self.now, state);
        }
    }

    /// Reads the whole tree, both ways, and its structure.
    pub(super) fn check_all(&mut self) {
        for is_back in [false, true] {
            let mut reading = self.begin_reading();
            reading.cursor = if is_back {
                self.tree.range_back(Bound::Unbounded, Bound::Unbounded)
            } else {
                self.tree.range(Bound::Unbounded, Bound::Unbounded)
            }
            .expect("unbounded");
            (reading.from, reading.to) = ((0, 0), (u64::MAX, 0));
            (reading.is_back, reading.last, reading.since) = (is_back, None, self.now);
            let mut positions = Vec::new();
            while let Some(entry) = reading.cursor.next_entry().expect("sound pages") {
                let (place, value) = seen(self.tree.order(), &entry);
                positions.push((entry.prefix(), entry.tie()));
                reading.check(self.history, place, value);
            }
            reading.check_end(self.history);
            self.check_many_at_once(is_back, &positions);
        }
        let report = self.tree.verify().expect("sound pages");
        assert!(report.is_sound(), "{:?}", report.problems);
        self.counts.height = self.counts.height.max(report.height);
    }

    /// Reads the whole tree, many entries at a time.
    fn check_many_at_once(&mut self, is_back: bool, expected: &[(u64, u64)]) {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let cursor = || {
            if is_back {
                self.tree.range_back(low, high)
            } else {
                self.tree.range(low, high)
            }
        };
        let mut cursors = [cursor().expect("unbounded"), cursor().expect("unbounded")];
        let is_exact = self.tree.order().prefix_is_exact();
        let [mut entries, mut positions] = [Vec::new(), Vec::new()];
        for cursor in &mut cursors {
            cursor.expect_entries(self.rng.index(50));
        }
        let most = self.rng.index(50) + 1;
        let visit = |entry: RunEntry<'_, O, Rows>| entries.push((entry.prefix(), entry.tie()));
        let read = cursors[0].next_entries(usize::MAX, visit).expect("sound pages");
        assert_eq!((read, &entries[..]), (expected.len(), expected));
        while is_exact
            && cursors[1]
                .next_positions(most, &mut positions)
                .expect("sound pages")
                >= most
        {}
        assert!(!is_exact || positions == expected, "{positions:?} {expected:?}");
    }

    /// Ends all users, then tidies, checks and sweeps the rest.
    pub(super) fn settle(&mut self) {
        self.writers.clear();
        self.readings.clear();
        self.vacuum = None;
        for maintainer in self.maintainers.drain(..) {
            self.counts.work += maintainer.done();
        }
        self.check_all();
        let store = self.tree.store();
        let report = self.tree.verify().expect("sound pages");
        let swept = store.sweep(&|page| report.pages.contains(&page)).expect("swept");
        self.counts.swept += swept.len() as u64;
        let mut maintainer = self.tree.maintainer();
        while maintainer.drain(1000).expect("sound pages") == Progress::Paused {}
        assert_eq!(maintainer.drain(1000).expect("sound pages"), Progress::Idle);
        self.counts.work += maintainer.done();
        self.check_all();
        let report = self.tree.verify().expect("sound pages");
        assert_eq!(report.runs_above, 0, "all was pushed down");
        assert!(report.leaf_runs <= report.leaves, "leaves have one run");
        let leaked = store.sweep(&|page| report.pages.contains(&page)).expect("swept");
        assert!(leaked.is_empty(), "{leaked:?}");
    }
}
