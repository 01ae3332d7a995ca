//! Sealing the open segment, and converting the sealed one to blocks, step by step.
//!
//! Doing so is a role: a lock that a writer tries to take whenever a part of its log is full, to do
//! a step or two. A writer whose log is full needs the next segment, and first finishes the rest:
//! as all writers share the work while the next segment fills, little is usually left.

use super::log::{Log, Mode};
use super::merge::{Closed, Merge};
use super::owners::Owners;
use super::segment::Segment;
use super::stamps::OLDER;
use super::view::View;
use super::writer_number::{TAKEN_OVER, WRITERS};
use crate::sb_tree::blocks::block::BLOCK_CAP;
use crate::sb_tree::data::edge::Edge;
use crate::sb_tree::data::layer::Blocks;
use crate::search::columns::Words;
use crate::sync::asymmetric_fence;
use crate::sync::primitive::{AtomicU32, AtomicU64, Backoff, Mutex, MutexGuard, Ordering, interleave};

/// Entries of a log between two occasions to help with the conversion.
pub(crate) const HELP_EVERY: usize = if cfg!(any(test, miri, loom)) { 2 } else { 64 };
/// Entries that a step converts, at most. Where two threads write, one insert in some two hundred
/// does a step or two: how long they take is the 99.9th percentile.
pub(crate) const STEP: usize = BLOCK_CAP / 2;
/// One in this many of a full log's occasions to help suffices for the whole conversion.
const HELP_MARGIN: usize = 2;
/// The most entries of a log that the next segment takes over. A writer that finds its log closed
/// has a key a few entries behind those of the fastest writer. Without these entries the key would
/// be late, and all of the sealed segment would have to be converted for it.
const TAKEN_OVER_MAX: usize = 32;
/// The same where keys are a little late, so that those to come are, too.
const TAKEN_OVER_IN_DISORDER: usize = 256;
/// Entries that are taken over, at most, so that the key that the sealing writer has in hand is not
/// late: others went on while it waited for the role.
const TAKEN_OVER_FOR_ONE: usize = 1024;
/// Steps at each occasion that one writer may do alone.
const STEPS_OF_ONE: u32 = 4;
/// Segments after which it is checked again whether classes of keys have a single writer.
const SHARED_FOR: u64 = if cfg!(any(test, miri, loom)) { 2 } else { 64 };
/// Entries that a log takes in a new index. It doubles with each segment that is sealed because a
/// log was full, so that small indexes stay small.
pub(crate) const FIRST_CAPACITY: usize = if cfg!(loom) {
    2
} else if cfg!(any(test, miri)) {
    8
} else {
    64
};

/// The role's lock guards the conversion of the sealed segment. In lines of its own: every step
/// writes here, and every append reads what would lie beside it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Role<W: Words> {
    /// The merge of the sealed segment, until it is converted.
    merge: Option<Merge<W>>,
    capacity: usize,
    mode: Writers,
    seals: u64,
    steps: u64,
}

/// The writer that needs the next segment, to insert this key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next<W> {
    pub(crate) writer: usize,
    pub(crate) key: W,
}

/// The threads that may write to the open segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writers {
    Nobody,
    Sole(usize),
    All,
}

impl Writers {
    fn mode_of(self, writer: usize) -> Mode {
        match self {
            Self::All if writer == TAKEN_OVER => Mode::Filled,
            Self::All => Mode::OneOfMany,
            Self::Sole(sole) if sole == writer => Mode::Sole,
            Self::Sole(_) | Self::Nobody => Mode::Nobody,
        }
    }
}

/// The segments, and the edge between them and the blocks.
#[derive(Debug)]
pub(crate) struct Segments<W: Words> {
    pub(crate) edge: Edge<W>,
    /// The open segment's generation: that segment stands behind it before the sealed one is
    /// converted.
    generation: AtomicU64,
    slots: [Segment<W>; 2],
    role: Mutex<Role<W>>,
    /// How many threads wait for the role because they cannot go on without it. Helpers leave the
    /// role to them.
    waiting: AtomicU32,
    /// Steps requested from helpers; 0 if nothing is sealed.
    steps_asked: AtomicU32,
    /// The writer that sealed last, because it was ahead. If one suffices, that writer converts:
    /// the data that a single thread reads from all logs, and appends after its own, need not move
    /// between caches at every step.
    sealer: AtomicU32,
    /// The owners of the classes of the open segment's keys.
    pub(crate) owners: Owners,
    /// Entries of a log, at most.
    capacity_max: usize,
}

/// Where a key belongs.
pub(crate) enum Home<'s, W: Words> {
    Blocks,
    Open(View<'s, W>),
    /// With the greatest key of the sealed segment.
    Sealed(View<'s, W>, W),
}

impl<W: Words> Segments<W> {
    /// Creates segments of keys with this [padding](Owners::new).
    pub(crate) fn new(capacity_max: usize, padding_bits: u32) -> Self {
        asymmetric_fence::prepare();
        let segments = Self {
            edge: Edge::new(),
            generation: AtomicU64::new(1),
            slots: [Segment::new(), Segment::new()],
            role: Mutex::new(Role {
                merge: None,
                capacity: FIRST_CAPACITY,
                mode: Writers::Nobody,
                seals: 0,
                steps: 0,
            }),
            waiting: AtomicU32::new(0),
            steps_asked: AtomicU32::new(0),
            sealer: AtomicU32::new(0),
            owners: Owners::new(padding_bits),
            capacity_max,
        };
        segments
            .slot(1)
            .prepare(1, W::MIN, FIRST_CAPACITY, |_| Mode::Nobody, &[]);
        segments
    }

    fn slot(&self, generation: u64) -> &Segment<W> {
        &self.slots[(generation % 2) as usize]
    }

    /// Where a key belongs; none if that changes just now.
    pub(crate) fn home(&self, key: &W) -> Option<Home<'_, W>> {
        let generation = self.generation.load(Ordering::Acquire);
        let open = View::of(self.slot(generation), generation)?;
        if *key > open.floor {
            return Some(Home::Open(open));
        }
        let Some(sealed) = generation.checked_sub(1).filter(|&sealed| sealed > 0) else {
            return Some(Home::Blocks);
        };
        let view = View::of(self.slot(sealed), sealed)?;
        if *key > view.floor && *key > self.edge.get() {
            Some(Home::Sealed(view, open.floor))
        } else {
            Some(Home::Blocks)
        }
    }

    /// Takes the role, waiting for its holder.
    pub(crate) fn role(&self) -> MutexGuard<'_, Role<W>> {
        if let Ok(role) = self.role.try_lock() {
            return role;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut backoff = Backoff::default();
        let role = loop {
            match self.role.try_lock() {
                Ok(role) => break role,
                Err(_) => backoff.wait(),
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        role
    }

    /// Does a share of the conversion, if there is one and nobody else is at it. `number` is that
    /// of the entry that the writer has just appended to its log.
    #[inline]
    pub(crate) fn help(&self, writer: usize, number: usize, blocks: &Blocks<W>) {
        let steps = self.steps_asked.load(Ordering::Relaxed);
        if steps == 0 {
            return;
        }
        let is_one_enough = steps <= STEPS_OF_ONE && number < self.capacity_max / 2;
        if is_one_enough && self.sealer.load(Ordering::Relaxed) as usize != writer {
            return;
        }
        let is_wanted = || self.waiting.load(Ordering::Relaxed) > 0;
        if is_wanted() {
            return;
        }
        if let Ok(mut role) = self.role.try_lock() {
            for _ in 0..steps {
                if !self.step(&mut role, blocks) || is_wanted() {
                    return;
                }
            }
        }
    }

    /// Converts half of what a block takes, or sorts one stretch of a log; false if nothing is
    /// left.
    fn step(&self, role: &mut Role<W>, blocks: &Blocks<W>) -> bool {
        let Some(merge) = &mut role.merge else {
            return false;
        };
        role.steps += 1;
        let sealed = self.slot(self.generation.load(Ordering::Relaxed) - 1);
        if merge.sort_some(sealed) {
            return true;
        }
        // Local: the next step may be that of another thread, which would have to fetch every line.
        let mut staged = [(W::MIN, 0); STEP];
        let staged = &mut staged[..blocks.room().min(STEP)];
        let taken = merge.take(sealed, staged);
        // The entries that the next step reads have until then to come from other threads' caches.
        merge.prefetch(sealed, STEP);
        let is_done = taken < staged.len();
        blocks.append(&staged[..taken], &self.edge);
        if is_done {
            role.merge = None;
            self.steps_asked.store(0, Ordering::Relaxed);
        }
        !is_done
    }

    /// Converts all of the sealed segment.
    pub(crate) fn convert(&self, role: &mut Role<W>, blocks: &Blocks<W>) {
        while self.step(role, blocks) {}
    }

    /// Seals the open segment and opens the next; what was sealed before is converted first.
    pub(crate) fn seal(&self, role: &mut Role<W>, blocks: &Blocks<W>, next: Option<Next<W>>) {
        self.convert(role, blocks);
        let generation = self.generation.load(Ordering::Relaxed);
        let open = self.slot(generation);
        let (_, floor) = open.held();
        let closed = Closed::close_all(open, next.map(|next| next.writer));
        let is_full = closed.iter().any(|log| log.counted.len() >= role.capacity);
        if is_full {
            role.capacity = (role.capacity * 2).min(self.capacity_max);
        }
        let mut active = closed
            .iter()
            .filter(|log| log.counted.len() > 0 && log.writer != TAKEN_OVER)
            .map(|log| log.writer);
        let key = next.map(|next| next.key);
        let next = next.map(|next| next.writer);
        let mode_before = role.mode;
        role.mode = match (active.next().or(next), active.next(), next) {
            (Some(sole), None, None) => Writers::Sole(sole),
            (Some(sole), None, Some(next)) if sole == next => Writers::Sole(sole),
            (None, ..) => Writers::Nobody,
            _ => Writers::All,
        };
        let mode = role.mode;
        let forgets = generation.is_multiple_of(SHARED_FOR);
        if forgets {
            self.owners.forget_shared();
        }
        // Stamps go on where they were if neither writers nor owners change.
        let goes_on = next.is_some() && mode == mode_before && !forgets;
        let spared = match mode {
            _ if !goes_on => 0,
            _ if closed.iter().any(|log| log.is_disordered) => TAKEN_OVER_IN_DISORDER,
            Writers::All => TAKEN_OVER_MAX,
            // The next key of a sole writer lies above its last.
            Writers::Sole(_) | Writers::Nobody => 0,
        };
        let spared = spared.min(role.capacity / 2 / closed.len().max(1));
        let mut next_floor = closed
            .iter()
            .filter_map(|log| log.greatest(open, spared))
            .fold(floor, W::max);
        if let Some(below) = key.and_then(|key| key.predecessor())
            && spared > 0
            && (floor..next_floor).contains(&below)
            && open.count_above(&below) <= TAKEN_OVER_FOR_ONE.min(role.capacity / 2)
        {
            // A key that it has, so that the edge reaches it (rule 7).
            next_floor = open
                .greatest_up_to(&below)
                .map_or(floor, |greatest| greatest.max(floor));
        }
        let mut taken_over = if spared > 0 {
            self.make_room_to_take_over();
            open.entries_above(&next_floor)
        } else {
            Vec::new()
        };
        taken_over.iter_mut().for_each(|entry| entry.order.0 = OLDER);
        let merge = Merge::new(open, &closed, &next_floor);
        self.slot(generation + 1).prepare(
            generation + 1,
            next_floor,
            role.capacity,
            |writer| mode.mode_of(writer),
            &taken_over,
        );
        interleave();
        self.generation.store(generation + 1, Ordering::Release);
        self.slot(generation + 1).open(|writer| mode.mode_of(writer));
        if let Some(sealer) = next {
            self.sealer
                .store(u32::try_from(sealer).unwrap_or(0), Ordering::Relaxed);
        }
        if merge.entries() > 0 {
            self.steps_asked
                .store(steps_for(merge.entries(), role.capacity), Ordering::Relaxed);
            role.merge = Some(merge);
        }
        role.seals += 1;
    }

    /// Seals and converts until all keys up to this one, which may be in the open segment, belong
    /// to blocks.
    pub(crate) fn convert_up_to(&self, key: &W, blocks: &Blocks<W>) {
        let mut role = self.role();
        if self.edge.get() >= *key {
            return;
        }
        if let Some(Home::Open(_)) = self.home(key) {
            self.seal(&mut role, blocks, None);
        }
        while self.edge.get() < *key && self.step(&mut role, blocks) {}
    }

    /// Returns a log for a writer whose own refused a key above the floor: its first one, or one in
    /// a segment with room.
    pub(crate) fn make_room(&self, next: Next<W>, blocks: &Blocks<W>) -> Option<&Log<W>> {
        let writer = next.writer;
        let mut role = self.role();
        let generation = self.generation.load(Ordering::Relaxed);
        if self.slot(generation).log(writer).is_none() {
            self.add_writer(&mut role, writer, generation);
        }
        let log = self.slot(generation).log(writer)?;
        let counted = log.counted();
        let has_room =
            !counted.is_closed() && counted.len() < role.capacity && counted.generation() == generation;
        if has_room {
            return Some(log);
        }
        self.seal(&mut role, blocks, Some(next));
        self.slot(generation + 1).log(writer)
    }

    /// Gives both segments a log for what the one leaves to the other, if they have none.
    fn make_room_to_take_over(&self) {
        for slot in self.slots.iter().filter(|slot| slot.log(TAKEN_OVER).is_none()) {
            slot.add_log(TAKEN_OVER, Log::new());
        }
    }

    fn add_writer(&self, role: &mut Role<W>, writer: usize, generation: u64) {
        if role.mode == Writers::Nobody {
            role.mode = Writers::Sole(writer);
        }
        let (_, floor) = self.slot(generation).held();
        if self.slot(generation).logs().count() == 1 {
            self.make_room_to_take_over();
        }
        let log = Log::new();
        let mode = role.mode.mode_of(writer);
        log.prepare(generation, floor, role.capacity, mode, &[]);
        log.open(mode);
        self.slot(generation).add_log(writer, log);
        self.slot(generation + 1).add_log(writer, Log::new());
    }

    /// Checks that the edge is at the open segment's floor if nothing is left to convert (rule 7).
    pub(crate) fn check(&self) -> Result<(), String> {
        let role = self.role();
        let (_, floor) = self.slot(self.generation.load(Ordering::Relaxed)).held();
        let edge = self.edge.get();
        match role.merge {
            None if edge != floor => Err(format!(
                "the open segment begins above {floor:?}, and all up to {edge:?} is in blocks"
            )),
            _ => Ok(()),
        }
    }

    /// How many segments were sealed, and how many steps their conversion took.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let role = self.role();
        (role.seals, role.steps)
    }

    /// Bytes of the logs.
    pub(crate) fn log_bytes(&self) -> usize {
        let logs: usize = self.slots.iter().map(|slot| slot.logs().count()).sum();
        logs * size_of::<Log<W>>()
    }

    /// Entries of the open segment, and of the sealed one that are not converted, equal keys
    /// counted each time.
    pub(crate) fn pending(&self) -> usize {
        let role = self.role();
        let generation = self.generation.load(Ordering::Relaxed);
        let open: usize = self
            .slot(generation)
            .logs()
            .map(|(_, log)| log.counted().len())
            .sum();
        open + role.merge.as_ref().map_or(0, Merge::entries)
    }
}

/// Steps at each occasion to help.
fn steps_for(entries: usize, capacity: usize) -> u32 {
    let occasions = (capacity / HELP_EVERY / HELP_MARGIN).max(1);
    let steps = entries.div_ceil(STEP).div_ceil(occasions);
    u32::try_from(steps).unwrap_or(u32::MAX)
}

const _: () = assert!(WRITERS > 1);
