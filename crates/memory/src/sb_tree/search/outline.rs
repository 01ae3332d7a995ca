//! Compact copies of the nodes above blocks, for readers: separators cut to 32 bits, and one
//! pointer for children that are adjacent in memory, in a third of the cache lines. So more of the
//! search layer stays cached while blocks pass through the cache.
//!
//! # Rules
//!
//! 1. An outline is a hint: a descent that uses it ends at some block, whose fences decide whether
//!    it is the right one. Only the search layer's writer writes it.
//! 2. `run` is null, or it points to a block and has, in the bits that are zero because blocks are
//!    aligned, the number of further blocks adjacent to it in the same piece of memory. All of
//!    these exist when it is stored, and last as long as the index (rule 5 of
//!    [`block`](crate::sb_tree::blocks::block)). It keeps the piece's provenance.
//! 3. While nothing changes and `run` is not null, it points to the first of the node's children,
//!    and a key leads to its child unless its cut form equals that of the separator below the
//!    child. Where that would affect too many keys, the outline is *blank*: `run` is null.

use crate::sb_tree::blocks::block::Block;
use crate::search::columns::Words;
use crate::search::words::VectorUnit;
use crate::sync::primitive::hint::{AtomicU32, AtomicU64};
use crate::sync::primitive::{AtomicPtr, Ordering, interleave};

/// Children of a node. Small under test, so that an index of a few hundred keys has several levels.
pub(crate) const FANOUT: usize = if cfg!(any(test, miri, loom)) { 4 } else { 64 };
/// Bits of the distance between the first separator and the last when an outline is drawn, which
/// leaves room for four times that distance.
const DRAWN_BITS: u32 = 30;
/// Minimum distance between two cut separators: at most one key of a block in this many is led to a
/// neighbour.
const STEP_MIN: u32 = 16;

/// See the [module](self).
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Outline<W: Words> {
    run: AtomicPtr<Block<W>>,
    /// The first separator's word, and the number of bits cut off from distances to it.
    base: AtomicU64,
    shift: AtomicU32,
    /// The greatest number at and after the last child's position.
    separators: Separators,
}

/// In cache lines of its own.
#[derive(Debug)]
#[repr(C, align(64))]
struct Separators([AtomicU32; FANOUT]);

/// A node's adjacent children, from the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRun<W: Words>(*mut Block<W>);

impl<W: Words> BlockRun<W> {
    const LAST: usize = align_of::<Block<W>>() - 1;

    /// Returns the child at `place`; `None` if it is not adjacent to the others.
    #[inline]
    pub(crate) fn child(self, place: usize) -> Option<*mut Block<W>> {
        let last = self.0.addr() & Self::LAST;
        let first = self.0.map_addr(|addr| addr & !Self::LAST);
        (place <= last).then(|| first.wrapping_add(place))
    }
}

/// The child to which a key leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lead<W: Words> {
    pub(crate) run: BlockRun<W>,
    pub(crate) place: usize,
    /// The approximate share of the child's keys that lie below the key, 0 to 1 if keys are spread
    /// evenly. May be NaN.
    pub(crate) share: f64,
}

impl<W: Words> Outline<W> {
    /// Creates a blank outline.
    pub(crate) fn new() -> Self {
        const { assert!(FANOUT <= align_of::<Block<W>>()) };
        Self {
            run: AtomicPtr::default(),
            base: AtomicU64::new(0),
            shift: AtomicU32::new(0),
            separators: Separators(std::array::from_fn(|_| AtomicU32::new(u32::MAX))),
        }
    }

    /// Returns the child to which a key leads; `None` if the outline is blank.
    #[inline]
    pub(crate) fn lead(&self, key: &W, lanes: VectorUnit) -> Option<Lead<W>> {
        let run = self.run.load(Ordering::Acquire);
        if run.is_null() {
            return None;
        }
        let cut = self.cut(key);
        let place = lanes.count_below(&self.separators.0, cut).min(FANOUT - 1);
        interleave();
        let separator = |place: usize| self.separators.0[place].load(Ordering::Relaxed);
        let below = separator(place.saturating_sub(1));
        let from_below = |cut: u32| f64::from(cut.wrapping_sub(below));
        Some(Lead {
            run: BlockRun(run),
            place,
            share: from_below(cut) / from_below(separator(place)),
        })
    }

    #[inline]
    fn cut(&self, key: &W) -> u32 {
        let from_base = key.first_word().saturating_sub(self.base.load(Ordering::Relaxed));
        let cut = from_base >> (self.shift.load(Ordering::Relaxed) % u64::BITS);
        u32::try_from(cut).unwrap_or(u32::MAX)
    }

    /// Makes the outline blank, before the node changes.
    pub(crate) fn blank(&self) {
        self.run.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Draws the outline of a node of `len` children. Stays blank for keys of several words, and on
    /// processors without vectors.
    pub(crate) fn draw(
        &self,
        len: usize,
        separator: impl Fn(usize) -> W,
        child: impl Fn(usize) -> *mut Block<W>,
    ) {
        self.blank();
        if W::BITS > u64::BITS || !VectorUnit::of_this_processor().count_many() {
            return;
        }
        let written = len - 1;
        if let Some(last) = written.checked_sub(1) {
            let base = separator(0).first_word();
            let range = separator(last).first_word().saturating_sub(base);
            let shift = (u64::BITS - range.leading_zeros()).saturating_sub(DRAWN_BITS);
            self.base.store(base, Ordering::Relaxed);
            self.shift.store(shift, Ordering::Relaxed);
        }
        for (place, cut) in self.separators.0.iter().enumerate() {
            let drawn = if place < written {
                self.cut(&separator(place))
            } else {
                u32::MAX
            };
            cut.store(drawn, Ordering::Relaxed);
        }
        if !(1..written).all(|place| self.is_apart(place)) {
            return;
        }
        let first = child(0);
        let behind = (1..len).take_while(|&place| child(place) == first.wrapping_add(place));
        let last = behind.count();
        interleave();
        self.run
            .store(first.map_addr(|addr| addr | last), Ordering::Release);
    }

    /// Adds the last separator of a node that has grown at its end, and the child after it. `false`
    /// if the outline must be redrawn.
    pub(crate) fn append(&self, place: usize, separator: &W, child: *mut Block<W>) -> bool {
        let run = self.run.load(Ordering::Relaxed);
        if run.is_null() {
            // It would be blank again, or was never drawn.
            return place > 0;
        }
        let cut = self.cut(separator);
        if place == 0 || cut == u32::MAX {
            return false;
        }
        self.separators.0[place].store(cut, Ordering::Relaxed);
        if !self.is_apart(place) {
            return false;
        }
        let last = run.addr() & BlockRun::<W>::LAST;
        if last == place && run.map_addr(|addr| addr - last).wrapping_add(place + 1) == child {
            interleave();
            self.run.store(run.map_addr(|addr| addr + 1), Ordering::Release);
        }
        true
    }

    /// Returns whether the separator at `place` is far enough from the previous one.
    fn is_apart(&self, place: usize) -> bool {
        let [below, here] = [place - 1, place].map(|place| self.separators.0[place].load(Ordering::Relaxed));
        let is_whole = self.shift.load(Ordering::Relaxed) == 0;
        here.saturating_sub(below) >= if is_whole { 1 } else { STEP_MIN }
    }

    /// Checks that the outline agrees with the node (rule 3). No thread may be writing.
    pub(crate) fn check(
        &self,
        len: usize,
        separator: impl Fn(usize) -> W,
        child: impl Fn(usize) -> *mut Block<W>,
    ) -> Result<(), String> {
        let run = self.run.load(Ordering::Relaxed);
        if run.is_null() {
            return Ok(());
        }
        let lanes = VectorUnit::of_this_processor();
        let is_right = |place: usize| {
            self.lead(&separator(place), lanes).is_some_and(|lead| {
                lead.place == place && lead.run.child(place).is_none_or(|at| at == child(place))
            })
        };
        let wrong = (0..len - 1).find(|&place| !is_right(place));
        let last = run.addr() & BlockRun::<W>::LAST;
        match wrong {
            Some(place) => Err(format!(
                "the outline of a node of {len} children is wrong at place {place}"
            )),
            None if last >= len => Err(format!(
                "the outline of a node of {len} children has {}",
                last + 1
            )),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use bedload_testkit::Rng;

    use super::*;
    use crate::sb_tree::blocks::pool::BlockPool;

    type W1 = [u64; 1];

    struct Drawn {
        outline: Outline<W1>,
        separators: Vec<W1>,
        children: Vec<*mut Block<W1>>,
    }

    impl Drawn {
        /// Draws an outline of the first separators, and appends those from `appended` on.
        fn new(separators: &[u64], children: &[*mut Block<W1>], appended: usize) -> Self {
            let drawn = Self {
                outline: Outline::new(),
                separators: separators.iter().map(|&separator| [separator]).collect(),
                children: children.to_vec(),
            };
            let first = separators.len() - appended;
            drawn.draw(first + 1);
            for place in first..separators.len() {
                let (separator, child) = (drawn.separators[place], drawn.children[place + 1]);
                if !drawn.outline.append(place, &separator, child) {
                    drawn.draw(place + 2);
                }
            }
            drawn
        }

        fn draw(&self, len: usize) {
            let (separator, child) = (
                |place: usize| self.separators[place],
                |place: usize| self.children[place],
            );
            self.outline.draw(len, separator, child);
        }

        fn lead(&self, key: u64) -> Option<Lead<W1>> {
            self.outline.lead(&[key], VectorUnit::of_this_processor())
        }

        /// Returns the child that a key leads to, if the outline has it.
        fn child(&self, key: u64) -> Option<*mut Block<W1>> {
            let lead = self.lead(key)?;
            Some(lead.run.child(lead.place).unwrap_or(self.children[lead.place]))
        }
    }

    fn blocks(pool: &mut BlockPool<W1>, count: usize) -> Vec<*mut Block<W1>> {
        (0..count).map(|_| pool.take().as_ptr()).collect()
    }

    /// Drawn at once or appended to; adjacent and scattered blocks; keys within 32 bits and far
    /// beyond.
    #[test]
    fn keys_lead_to_their_child() {
        let mut pool = BlockPool::new();
        let children = blocks(&mut pool, 4 * FANOUT);
        for seed in 0..if cfg!(miri) { 10 } else { 500 } {
            let mut rng = Rng::new(seed);
            let step = 1 << rng.index(58);
            let mut last = rng.below(u64::MAX / 2);
            let separators: Vec<u64> = (1..FANOUT)
                .map(|_| {
                    last += step + rng.below(step);
                    last
                })
                .collect();
            let mut own = children[..FANOUT].to_vec();
            if rng.percent(50.0) {
                let from = rng.index(FANOUT);
                own[from..].clone_from_slice(&children[FANOUT + from..2 * FANOUT]);
            }
            let drawn = Drawn::new(&separators, &own, rng.index(FANOUT));
            for (place, &separator) in separators.iter().enumerate() {
                assert_eq!(drawn.child(separator), Some(own[place]), "{seed}: at {place}");
                assert_eq!(
                    drawn.child(separator + step.div_ceil(2)),
                    Some(own[place + 1]),
                    "{seed}: above {place}"
                );
            }
            assert_eq!(drawn.child(0), Some(own[0]));
            assert_eq!(drawn.child(u64::MAX), Some(own[FANOUT - 1]));
        }
    }

    /// A reader may see a mix of several drawings: any leads to a child in the run, or to a
    /// position in the node.
    #[test]
    fn any_numbers_lead_to_a_child() {
        let mut pool = BlockPool::new();
        let children = blocks(&mut pool, FANOUT);
        let drawn = Drawn::new(&[10, 20, 30], &children, 0);
        for seed in 0..if cfg!(miri) { 50 } else { 5_000 } {
            let mut rng = Rng::new(seed);
            let last = rng.index(FANOUT);
            let run = children[0].map_addr(|addr| addr | last);
            drawn.outline.run.store(run, Ordering::Release);
            drawn.outline.base.store(rng.next_u64(), Ordering::Relaxed);
            let mut number = || u32::try_from(rng.next_u64() >> 32).expect("the other half is cut off");
            drawn.outline.shift.store(number(), Ordering::Relaxed);
            for separator in &drawn.outline.separators.0 {
                separator.store(number(), Ordering::Relaxed);
            }
            let lead = drawn.lead(rng.next_u64()).expect("there is a run");
            assert!(lead.place < FANOUT);
            let child = lead.run.child(lead.place);
            assert_eq!(child, (lead.place <= last).then(|| children[lead.place]));
        }
    }

    #[test]
    fn separators_that_are_cut_to_the_same_are_not_drawn() {
        let mut pool = BlockPool::new();
        let children = blocks(&mut pool, FANOUT);
        let far = [1, 2, 1 << 60];
        assert!(Drawn::new(&far, &children, 0).lead(1).is_none());
        assert!(Drawn::new(&far, &children, 2).lead(1).is_none());
        assert!(Drawn::new(&far[..2], &children, 0).lead(1).is_some());
        assert!(Drawn::new(&[1, 1 << 40, 1 << 60], &children, 1).lead(1).is_some());
    }

    #[test]
    fn a_blank_outline_is_drawn_again() {
        let mut pool = BlockPool::new();
        let children = blocks(&mut pool, FANOUT);
        let drawn = Drawn::new(&[10, 20, 30], &children, 1);
        drawn.outline.blank();
        assert!(drawn.lead(15).is_none());
        drawn.draw(3);
        assert_eq!(drawn.child(15), Some(children[1]));
        assert_eq!(
            drawn.child(25),
            Some(children[2]),
            "the last child has no separator"
        );
    }

    #[test]
    fn shares_tell_how_far_a_key_is() {
        let mut pool = BlockPool::new();
        let children = blocks(&mut pool, FANOUT);
        let drawn = Drawn::new(&[1 << 40, 2 << 40, 3 << 40], &children, 0);
        let share = drawn.lead(5 << 38).map(|lead| (lead.place, lead.share));
        assert!(
            share.is_some_and(|(place, share)| place == 1 && (share - 0.25).abs() < 1e-3),
            "{share:?}"
        );
    }
}
