//! Sealing the open segment, and converting the sealed one to blocks, step by step.
//!
//! The role of doing so is a lock that any writer takes by trying, when a part of its log is full; it does a step or two
//! and goes on. Who finds its log full needs the next segment, and so finishes what is left first: as every writer shares
//! the work while the next segment fills, that is rarely anything.

use super::super::columns::Words;
use super::super::primitive::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use super::blocks::Blocks;
use super::edge::Edge;
use super::log::{Counted, Kind, LOG_CAP, Log, Mode};
use super::merge::Merge;
use super::owners::Owners;
use super::segment::{Segment, View, WRITERS};

/// Entries of a log between two occasions to help with the conversion.
pub(super) const HELP_EVERY: usize = if cfg!(any(test, miri, loom)) { 4 } else { 128 };
/// Of the occasions that the writer of a full log has, one in so many is enough for the whole conversion.
const HELP_MARGIN: usize = 2;
/// Segments after which it is tried anew whether classes of keys have writers of their own.
const SHARED_FOR: u64 = if cfg!(any(test, miri, loom)) { 2 } else { 64 };
/// Entries that a log takes in a new index. It doubles with each segment that is sealed because a log was full, so that
/// small indexes stay small.
const FIRST_CAPACITY: usize = if cfg!(loom) {
    2
} else if cfg!(any(test, miri)) {
    8
} else {
    64
};

/// The role's lock guards the conversion of the sealed segment.
#[derive(Debug)]
pub(super) struct Role<W: Words> {
    /// Of the sealed segment, until it is converted.
    merge: Option<Merge<W>>,
    /// Taken from the merge and not yet in blocks.
    staged: Vec<(W, u64)>,
    capacity: usize,
    mode: Writers,
}

/// Who may write to the open segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writers {
    Nobody,
    Sole(usize),
    All(Kind),
}

impl Writers {
    fn mode_of(self, writer: usize) -> Mode {
        match self {
            Self::All(kind) => Mode::OneOfMany(kind),
            Self::Sole(sole) if sole == writer => Mode::Sole,
            Self::Sole(_) | Self::Nobody => Mode::Nobody,
        }
    }
}

/// The segments, and the edge between them and the blocks.
#[derive(Debug)]
pub(super) struct Segments<W: Words> {
    pub(super) edge: Edge<W>,
    /// The open segment's generation: that segment stands behind it before the sealed one is converted.
    generation: AtomicU64,
    slots: [Segment<W>; 2],
    role: Mutex<Role<W>>,
    /// Steps that who helps is asked for; 0 if nothing is sealed.
    steps_asked: AtomicU32,
    /// Of the classes of the open segment's keys.
    pub(super) owners: Owners,
    seals: AtomicU64,
    steps: AtomicU64,
}

/// Where a key belongs.
pub(super) enum Home<'s, W: Words> {
    Blocks,
    Open(View<'s, W>),
    /// With the greatest key of the sealed segment.
    Sealed(View<'s, W>, W),
}

impl<W: Words> Segments<W> {
    pub(super) fn new() -> Self {
        let segments = Self {
            edge: Edge::new(),
            generation: AtomicU64::new(1),
            slots: [Segment::new(), Segment::new()],
            role: Mutex::new(Role {
                merge: None,
                staged: Vec::new(),
                capacity: FIRST_CAPACITY,
                mode: Writers::Nobody,
            }),
            steps_asked: AtomicU32::new(0),
            owners: Owners::new(),
            seals: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        };
        segments
            .slot(1)
            .prepare(1, W::MIN, FIRST_CAPACITY, |_| Mode::Nobody);
        segments
    }

    fn slot(&self, generation: u64) -> &Segment<W> {
        &self.slots[(generation % 2) as usize]
    }

    /// Where a key belongs; none if that changes just now.
    pub(super) fn home(&self, key: &W) -> Option<Home<'_, W>> {
        let generation = self.generation.load(Ordering::Acquire);
        let open = self.slot(generation).view(generation)?;
        if *key > open.floor {
            return Some(Home::Open(open));
        }
        let Some(sealed) = generation.checked_sub(1).filter(|&sealed| sealed > 0) else {
            return Some(Home::Blocks);
        };
        let view = self.slot(sealed).view(sealed)?;
        if *key > view.floor && *key > self.edge.get() {
            Some(Home::Sealed(view, open.floor))
        } else {
            Some(Home::Blocks)
        }
    }

    /// Takes the role, waiting for who has it.
    pub(super) fn role(&self) -> MutexGuard<'_, Role<W>> {
        let mut backoff = super::super::primitive::Backoff::default();
        loop {
            match self.role.try_lock() {
                Ok(role) => return role,
                Err(_) => backoff.wait(),
            }
        }
    }

    /// Does a share of the conversion, if there is one and nobody else is at it.
    #[inline]
    pub(super) fn help(&self, blocks: &Blocks<W>) {
        let steps = self.steps_asked.load(Ordering::Relaxed);
        if steps == 0 {
            return;
        }
        if let Ok(mut role) = self.role.try_lock() {
            for _ in 0..steps {
                if !self.step(&mut role, blocks) {
                    return;
                }
            }
        }
    }

    /// Converts what fits into one block, or sorts one stretch of a log; false if nothing is left.
    fn step(&self, role: &mut Role<W>, blocks: &Blocks<W>) -> bool {
        let Some(merge) = &mut role.merge else {
            return false;
        };
        self.steps.fetch_add(1, Ordering::Relaxed);
        let sealed = self.slot(self.generation.load(Ordering::Relaxed) - 1);
        if merge.sort_some(sealed) {
            return true;
        }
        let room = blocks.room();
        role.staged.clear();
        merge.take(sealed, room, &mut role.staged);
        let is_done = role.staged.len() < room;
        blocks.append(&role.staged, &self.edge);
        if is_done {
            role.merge = None;
            self.steps_asked.store(0, Ordering::Relaxed);
        }
        !is_done
    }

    /// Converts all of the sealed segment.
    pub(super) fn convert(&self, role: &mut Role<W>, blocks: &Blocks<W>) {
        while self.step(role, blocks) {}
    }

    /// Seals the open segment and opens the next; what was sealed before is converted first.
    pub(super) fn seal(&self, role: &mut Role<W>, blocks: &Blocks<W>, next: Option<(usize, Kind)>) {
        self.convert(role, blocks);
        let generation = self.generation.load(Ordering::Relaxed);
        let open = self.slot(generation);
        let (_, floor) = open.held();
        let counted: Vec<(usize, Counted)> = open.logs().map(|(writer, log)| (writer, log.close())).collect();
        let is_full = counted.iter().any(|(_, counted)| counted.len() >= role.capacity);
        if is_full {
            role.capacity = (role.capacity * 2).min(LOG_CAP);
        }
        let greatest = counted
            .iter()
            .filter_map(|(writer, counted)| open.log(*writer)?.greatest(counted.len()))
            .max();
        let mut active = counted
            .iter()
            .filter(|(_, counted)| counted.len() > 0)
            .map(|(writer, _)| *writer);
        let (next, kind) = next.unzip();
        role.mode = match (active.next().or(next), active.next(), next) {
            (Some(sole), None, None) => Writers::Sole(sole),
            (Some(sole), None, Some(next)) if sole == next => Writers::Sole(sole),
            (None, ..) => Writers::Nobody,
            _ => match (kind, role.mode) {
                (Some(kind), _) | (None, Writers::All(kind)) => Writers::All(kind),
                (None, _) => Writers::All(Kind::Stamped),
            },
        };
        if generation.is_multiple_of(SHARED_FOR) {
            self.owners.forget_shared();
        }
        let mode = role.mode;
        let next_floor = greatest.unwrap_or(floor);
        let merge = Merge::new(open, counted.into_iter());
        self.slot(generation + 1)
            .prepare(generation + 1, next_floor, role.capacity, |writer| {
                mode.mode_of(writer)
            });
        self.generation.store(generation + 1, Ordering::Release);
        if merge.entries() > 0 {
            self.steps_asked
                .store(steps_for(merge.entries(), role.capacity), Ordering::Relaxed);
            role.merge = Some(merge);
        }
        self.seals.fetch_add(1, Ordering::Relaxed);
    }

    /// Seals and converts until all keys up to this one, which may be in the open segment, belong to blocks.
    pub(super) fn convert_up_to(&self, key: &W, blocks: &Blocks<W>) {
        let mut role = self.role();
        if self.edge.get() >= *key {
            return;
        }
        if let Some(Home::Open(_)) = self.home(key) {
            self.seal(&mut role, blocks, None);
        }
        while self.edge.get() < *key && self.step(&mut role, blocks) {}
    }

    /// What a writer needs whose log refused a key above the floor: a first log, or one in a segment with room.
    pub(super) fn make_room(&self, writer: usize, kind: Kind, blocks: &Blocks<W>) -> Option<&Log<W>> {
        let mut role = self.role();
        let generation = self.generation.load(Ordering::Relaxed);
        if self.slot(generation).log(writer).is_none() {
            self.add_writer(&mut role, writer, generation);
        }
        let log = self.slot(generation).log(writer)?;
        let counted = log.counted();
        let has_room = !counted.is_closed()
            && counted.takes(kind)
            && counted.len() < role.capacity
            && counted.generation() == generation;
        if has_room {
            return Some(log);
        }
        self.seal(&mut role, blocks, Some((writer, kind)));
        self.slot(generation + 1).log(writer)
    }

    fn add_writer(&self, role: &mut Role<W>, writer: usize, generation: u64) {
        if role.mode == Writers::Nobody {
            role.mode = Writers::Sole(writer);
        }
        let (_, floor) = self.slot(generation).held();
        let log = Log::new();
        log.prepare(generation, floor, role.capacity, role.mode.mode_of(writer));
        self.slot(generation).add_log(writer, log);
        self.slot(generation + 1).add_log(writer, Log::new());
    }

    /// How many segments were sealed, and how many steps their conversion took.
    pub(super) fn counts(&self) -> (u64, u64) {
        (
            self.seals.load(Ordering::Relaxed),
            self.steps.load(Ordering::Relaxed),
        )
    }

    /// Bytes of the logs.
    pub(super) fn log_bytes(&self) -> usize {
        let logs: usize = self.slots.iter().map(|slot| slot.logs().count()).sum();
        logs * size_of::<Log<W>>()
    }

    /// Entries of the open segment, and of the sealed one that are not converted, equal keys counted each time.
    pub(super) fn pending(&self) -> usize {
        let role = self.role();
        let generation = self.generation.load(Ordering::Relaxed);
        let open = self.slot(generation).logs();
        let sealed = self.slot(generation + 1).logs().filter(|_| role.merge.is_some());
        open.chain(sealed).map(|(_, log)| log.counted().len()).sum()
    }
}

/// Steps at each occasion to help.
fn steps_for(entries: usize, capacity: usize) -> u32 {
    let occasions = (capacity / HELP_EVERY / HELP_MARGIN).max(1);
    let steps = entries.div_ceil(super::block::BLOCK_CAP).div_ceil(occasions);
    u32::try_from(steps).unwrap_or(u32::MAX)
}

const _: () = assert!(WRITERS > 1);
