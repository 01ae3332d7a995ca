//! The layout: which keys have their home in which map.
//!
//! # Rules
//!
//! 1. All fields are written under the latch, which is held for a few stores, and are read
//!    optimistically.
//! 2. Part `i` has the keys above the limit of part `i - 1`, up to and including its own. The last
//!    part is the head; to readers it has no end, and writers may insert keys up to its limit.
//!    Neighbouring parts have different homes.
//! 3. The generation is incremented by every change that takes a key from its home, before the key
//!    is touched: by switches, by freezing, and at the end of a chunk's move. Raising the head's
//!    limit takes no key from its home.
//! 4. While the generation is unchanged, writers need not read the rest again: neither the head
//!    nor its least key can change.

use super::options::HeadKind;
use crate::search::columns::Words;
use crate::sync::primitive::{AtomicU32, AtomicU64, Backoff, Ordering, fence};
use crate::sync::version_latch::{Version, VersionLatch};

/// Maximum number of parts.
pub(super) const PARTS: usize = 8;
/// Target range of writes between two raises of the limit: the step is doubled and halved to
/// stay within it.
const WRITES_MIN: u64 = 256;
const WRITES_MAX: u64 = 4096;

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Layout<W: Words> {
    generation: AtomicU64,
    latch: VersionLatch,
    parts: AtomicU32,
    /// Two bits for each part.
    kinds: AtomicU32,
    /// Number of low bits of a key that are set to compute the limit.
    step_bits: AtomicU32,
    freeze: AtomicU32,
    limits: W::KeyColumns<PARTS>,
    /// Keys above the first, up to and including the second, are frozen.
    frozen: W::KeyColumns<2>,
    raises: AtomicU64,
    thawed: AtomicU64,
}

/// A contiguous key range with one home.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<W> {
    pub(super) kind: HeadKind,
    /// Its least key.
    pub(super) start: W,
    /// Its limit; `None` for the head.
    pub(super) end: Option<W>,
    pub(super) generation: u64,
}

/// The destination of a key to be inserted.
#[derive(Debug)]
pub(super) enum Home<W> {
    /// This part. For the head, keys up to the granted limit.
    Here(Part<W>, W),
    /// Above the granted limit.
    Above,
    Frozen,
}

/// The state of a frozen chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freeze {
    None,
    /// Waiting for the writers that are present; any thread may thaw it.
    Waiting,
    /// As `Waiting`, but it may not be thawed, as it was thawed too often.
    Insisting,
    Copying,
}

impl Freeze {
    const fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Waiting,
            2 => Self::Insisting,
            3 => Self::Copying,
            _ => Self::None,
        }
    }
}

impl HeadKind {
    pub(super) const ALL: [Self; 3] = [Self::SbTree, Self::BlinkHash, Self::BlinkTree];

    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        match word & 3 {
            0 => Self::SbTree,
            1 => Self::BlinkHash,
            _ => Self::BlinkTree,
        }
    }
}

/// A copy of the layout, for the role's holder.
#[derive(Debug, Clone)]
pub(super) struct Parts<W> {
    pub(super) kinds: Vec<HeadKind>,
    pub(super) limits: Vec<W>,
}

impl<W: Words> Layout<W> {
    /// Creates a layout of one part, which is granted the least key.
    pub(super) fn new(first: HeadKind) -> Self {
        let limits = W::new_columns();
        W::MIN.store(&limits, 0);
        Self {
            generation: AtomicU64::new(1),
            latch: VersionLatch::new(),
            parts: AtomicU32::new(1),
            kinds: AtomicU32::new(first as u32),
            step_bits: AtomicU32::new(0),
            freeze: AtomicU32::new(Freeze::None as u32),
            limits,
            frozen: W::new_columns(),
            raises: AtomicU64::new(0),
            thawed: AtomicU64::new(0),
        }
    }

    /// Reads the generation, before reading the state that it protects.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns whether the layout is unchanged since `part` was looked up, so that what was read
    /// since came from the key's home.
    #[inline]
    pub(super) fn stands(&self, part: &Part<W>) -> bool {
        fence(Ordering::Acquire);
        self.generation.load(Ordering::Relaxed) == part.generation
    }

    /// Repeats `read` until no change overlaps it.
    #[inline]
    fn read<T>(&self, read: impl Fn() -> T) -> T {
        let mut backoff = Backoff::default();
        loop {
            if let Some(version) = self.latch.optimistic_now() {
                let answer = read();
                if self.validate(version) {
                    return answer;
                }
            }
            backoff.wait();
        }
    }

    fn validate(&self, version: Version) -> bool {
        self.latch.validate(version)
    }

    /// Returns the current number of parts.
    pub(super) fn len_now(&self) -> usize {
        self.len()
    }

    fn len(&self) -> usize {
        (self.parts.load(Ordering::Relaxed) as usize).clamp(1, PARTS)
    }

    /// Returns the part at index `place` of `len`, and its limit.
    #[inline]
    fn at(&self, place: usize, len: usize) -> (Part<W>, W) {
        let start = match place.checked_sub(1) {
            Some(before) => W::load(&self.limits, before).successor().unwrap_or(W::MAX),
            None => W::MIN,
        };
        let limit = W::load(&self.limits, place);
        let part = Part {
            kind: HeadKind::from_word(self.kinds.load(Ordering::Relaxed) >> (2 * place)),
            start,
            end: (place + 1 < len).then_some(limit),
            generation: self.generation.load(Ordering::Relaxed),
        };
        (part, limit)
    }

    /// Returns the part that a key belongs to.
    #[inline]
    pub(super) fn part_of(&self, key: &W) -> Part<W> {
        self.read(|| {
            let len = self.len();
            let (place, _) = key.search(&self.limits, len - 1);
            self.at(place.min(len - 1), len).0
        })
    }

    /// Returns the destination of a key.
    pub(super) fn home(&self, key: &W) -> Home<W> {
        self.read(|| {
            let len = self.len();
            let (place, _) = key.search(&self.limits, len - 1);
            let place = place.min(len - 1);
            let (part, limit) = self.at(place, len);
            if place == len - 1 && *key > limit {
                return Home::Above;
            }
            let is_frozen = self.freeze.load(Ordering::Relaxed) != Freeze::None as u32
                && *key > W::load(&self.frozen, 0)
                && *key <= W::load(&self.frozen, 1);
            if is_frozen {
                Home::Frozen
            } else {
                Home::Here(part, limit)
            }
        })
    }

    /// Raises the head's limit above `key`, `writes` writes after the caller's last raise.
    pub(super) fn raise(&self, key: &W, writes: u64) {
        let Some(_latched) = self.latch.latch() else {
            return;
        };
        let head = self.len() - 1;
        if *key <= W::load(&self.limits, head) {
            return;
        }
        let bits = self.step_bits.load(Ordering::Relaxed);
        let bits = if writes < WRITES_MIN {
            (bits + 1).min(W::BITS - 1)
        } else if writes > WRITES_MAX {
            bits.saturating_sub(1)
        } else {
            bits
        };
        self.step_bits.store(bits, Ordering::Relaxed);
        key.with_low_bits_set(bits).store(&self.limits, head);
        self.raises.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the head at its limit and begins another (rule 2 of the [module above](super)); `false`
    /// if all parts are in use. The role's holder calls it.
    pub(super) fn switch(&self, kind: HeadKind) -> bool {
        let Some(_latched) = self.latch.latch() else {
            return false;
        };
        let len = self.len();
        let limit = W::load(&self.limits, len - 1);
        if len == PARTS || limit == W::MAX {
            return false;
        }
        limit.store(&self.limits, len);
        let kinds = self.kinds.load(Ordering::Relaxed) & !(3 << (2 * len));
        self.kinds
            .store(kinds | (kind as u32) << (2 * len), Ordering::Relaxed);
        self.parts
            .store(self.parts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.move_on();
        true
    }

    /// Increments the generation; the caller has the latch (rule 3).
    fn move_on(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation.store(generation + 1, Ordering::Release);
    }

    /// Copies the parts; only the role's holder can change them.
    pub(super) fn parts(&self) -> Parts<W> {
        self.read(|| {
            let len = self.len();
            let kinds = self.kinds.load(Ordering::Relaxed);
            Parts {
                kinds: (0..len)
                    .map(|place| HeadKind::from_word(kinds >> (2 * place)))
                    .collect(),
                limits: (0..len).map(|place| W::load(&self.limits, place)).collect(),
            }
        })
    }

    /// Freezes the keys above `low`, up to `high`. The role's holder calls it.
    pub(super) fn freeze(&self, low: W, high: W, insists: bool) {
        let Some(_latched) = self.latch.latch() else {
            return;
        };
        low.store(&self.frozen, 0);
        high.store(&self.frozen, 1);
        let freeze = if insists {
            Freeze::Insisting
        } else {
            Freeze::Waiting
        };
        self.freeze.store(freeze as u32, Ordering::Relaxed);
        self.move_on();
    }

    /// Thaws the frozen chunk, if that is allowed; `false` if the caller must wait.
    pub(super) fn thaw(&self) -> bool {
        let Some(_latched) = self.latch.latch() else {
            return false;
        };
        match Freeze::from_word(self.freeze.load(Ordering::Relaxed)) {
            Freeze::None => true,
            Freeze::Waiting => {
                self.freeze.store(Freeze::None as u32, Ordering::Relaxed);
                self.thawed.fetch_add(1, Ordering::Relaxed);
                true
            }
            Freeze::Insisting | Freeze::Copying => false,
        }
    }

    /// Forbids thawing the frozen chunk; `false` if it was thawed. The role's holder calls it.
    pub(super) fn begin_to_copy(&self) -> bool {
        let Some(_latched) = self.latch.latch() else {
            return false;
        };
        let is_frozen = Freeze::from_word(self.freeze.load(Ordering::Relaxed)) != Freeze::None;
        if is_frozen {
            self.freeze.store(Freeze::Copying as u32, Ordering::Relaxed);
        }
        is_frozen
    }

    /// Replaces the parts, and thaws the frozen chunk. The role's holder calls it.
    pub(super) fn replace(&self, parts: &Parts<W>) {
        let Some(_latched) = self.latch.latch() else {
            return;
        };
        let mut kinds = 0;
        for (place, (kind, limit)) in parts.kinds.iter().zip(&parts.limits).enumerate() {
            kinds |= (*kind as u32) << (2 * place);
            // The head's limit may have been raised meanwhile.
            if place + 1 < parts.limits.len() {
                limit.store(&self.limits, place);
            } else {
                W::load(&self.limits, self.len() - 1).store(&self.limits, place);
            }
        }
        self.kinds.store(kinds, Ordering::Relaxed);
        self.parts
            .store(u32::try_from(parts.kinds.len()).unwrap_or(1), Ordering::Relaxed);
        self.freeze.store(Freeze::None as u32, Ordering::Relaxed);
        self.move_on();
    }

    /// Returns how often the limit was raised, and how often a chunk was thawed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (
            self.raises.load(Ordering::Relaxed),
            self.thawed.load(Ordering::Relaxed),
        )
    }
}

const _: () = assert!(2 * PARTS <= u32::BITS as usize);
