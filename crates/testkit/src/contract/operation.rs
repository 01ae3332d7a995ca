//! Operations on an index, generated from a seed or by `proptest`.

use std::ops::Bound;

use proptest::prelude::*;

use super::Direction;
use crate::Rng;
use crate::workload::{NearlySorted, scattered};

/// One operation, with keys given by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the arguments of the operation of the same name"
)]
pub enum Operation {
    /// Set a value.
    Insert { rank: u64, spelling: u64, value: u64 },
    /// Look a key up.
    Get { rank: u64, spelling: u64 },
    /// Remove a key.
    Remove { rank: u64, spelling: u64 },
    /// Read a range.
    Range {
        lower: Bound<u64>,
        upper: Bound<u64>,
        direction: Direction,
        limit: usize,
    },
    /// Read the least entry.
    First,
    /// Read the greatest entry.
    Last,
}

/// The distribution of a sequence's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A thousand ranks, so that most inserts replace a value.
    Dense,
    /// Uniform.
    Sparse,
    /// Each a little above the previous one.
    Ascending,
    /// Each a little below the previous one.
    Descending,
    /// Ascending, except a tenth that are displaced by up to a twentieth.
    NearlySorted,
    /// Around a few moving ranks.
    HotSpots,
    /// The least, the greatest, and the middle ranks.
    Extremes,
    /// A different profile every few hundred operations, over the same index.
    Shifting,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 8] = [
        Self::Dense,
        Self::Sparse,
        Self::Ascending,
        Self::Descending,
        Self::NearlySorted,
        Self::HotSpots,
        Self::Extremes,
        Self::Shifting,
    ];
}

/// Smaller under Miri, which would take seconds to generate the sequence.
const NEARLY_SORTED_LEN: usize = if cfg!(miri) { 64 } else { 4096 };
const KNOWN_MAX: usize = 1 << 16;

/// An endless seeded sequence of operations.
#[derive(Debug)]
pub(super) struct Operations {
    rng: Rng,
    rank_max: u64,
    profile: Profile,
    shifting: bool,
    /// Operations until the next change of phase.
    phase_left: u64,
    shrinking: bool,
    ascending: u64,
    descending: u64,
    nearly_sorted: Vec<u64>,
    drawn: u64,
    hot_spots: [u64; 4],
    /// Ranks inserted and not removed since; lookups and bounds are drawn from them.
    known: Vec<u64>,
}

impl Operations {
    pub(super) fn new(profile: Profile, rank_max: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nearly_sorted = NearlySorted {
            swapped_percent: 10.0,
            displacement_percent: 5.0,
            ..NearlySorted::new(NEARLY_SORTED_LEN, seed)
        };
        let mut operations = Self {
            rank_max,
            shifting: profile == Profile::Shifting,
            profile: if profile == Profile::Shifting {
                Profile::Dense
            } else {
                profile
            },
            phase_left: 0,
            shrinking: true,
            ascending: rank_max / 4,
            descending: rank_max / 4 * 3,
            nearly_sorted: nearly_sorted.generate().keys,
            drawn: 0,
            hot_spots: [0; 4],
            known: Vec::new(),
            rng: rng.clone(),
        };
        operations.hot_spots = std::array::from_fn(|_| operations.clip(rng.next_u64()));
        operations
    }

    fn clip(&self, x: u64) -> u64 {
        if self.rank_max == u64::MAX {
            x
        } else {
            x % (self.rank_max + 1)
        }
    }

    fn change_phase(&mut self) {
        self.shrinking = !self.shrinking;
        self.phase_left = 200 + self.rng.below(if self.shrinking { 1000 } else { 2500 });
        if self.shifting {
            let fixed = Profile::ALL.len() - 1;
            self.profile = Profile::ALL[self.rng.index(fixed)];
        }
    }

    fn fresh_rank(&mut self) -> u64 {
        self.drawn += 1;
        match self.profile {
            Profile::Dense | Profile::Shifting => self.rng.below(1000),
            Profile::Sparse => {
                let drawn = self.rng.below(1 << 20);
                self.clip(scattered(drawn))
            }
            Profile::Ascending => {
                let above = self.ascending.wrapping_add(self.rng.below(4));
                self.ascending = self.clip(above);
                self.ascending
            }
            Profile::Descending => {
                self.descending = self
                    .descending
                    .checked_sub(self.rng.below(4))
                    .unwrap_or(self.rank_max);
                self.descending
            }
            Profile::NearlySorted => {
                let round = self.drawn / NEARLY_SORTED_LEN as u64 * NEARLY_SORTED_LEN as u64;
                let place = usize::try_from(self.drawn - round).expect("below the length");
                self.clip(2 * (round + self.nearly_sorted[place]))
            }
            Profile::HotSpots => {
                let spot = self.rng.index(self.hot_spots.len());
                if self.rng.below(500) == 0 {
                    let moved = self.rng.next_u64();
                    self.hot_spots[spot] = self.clip(moved);
                }
                let near = self.hot_spots[spot].wrapping_add(self.rng.below(128));
                self.clip(near)
            }
            Profile::Extremes => {
                let near = self.rng.below(40);
                match self.rng.below(3) {
                    0 => near,
                    1 => self.rank_max - near,
                    _ => self.rank_max / 2 + near,
                }
            }
        }
    }

    /// Returns mostly an inserted rank, or a neighbour of one.
    fn rank_to_find(&mut self) -> u64 {
        if self.known.is_empty() || self.rng.percent(20.0) {
            return self.fresh_rank();
        }
        let known = self.known[self.rng.index(self.known.len())];
        match self.rng.below(8) {
            0 => known.saturating_sub(1),
            1 => known.saturating_add(1).min(self.rank_max),
            _ => known,
        }
    }

    fn bound(&mut self, rank: u64) -> Bound<u64> {
        match self.rng.below(9) {
            0 => Bound::Unbounded,
            1..=4 => Bound::Included(rank),
            _ => Bound::Excluded(rank),
        }
    }

    fn range(&mut self) -> Operation {
        let from = self.rank_to_find();
        let to = match self.rng.below(4) {
            0 => self.rank_to_find(),
            1 => from.saturating_add(self.rng.below(3)).min(self.rank_max),
            _ => from.saturating_add(self.rng.below(300)).min(self.rank_max),
        };
        let (from, to) = if from > to && self.rng.percent(90.0) {
            (to, from)
        } else {
            (from, to)
        };
        let direction = if self.rng.percent(50.0) {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let limit = if self.rng.below(100) == 0 {
            usize::MAX
        } else {
            self.rng.index(120)
        };
        Operation::Range {
            lower: self.bound(from),
            upper: self.bound(to),
            direction,
            limit,
        }
    }

    fn removal(&mut self, spelling: u64) -> Operation {
        let rank = if self.known.is_empty() || self.rng.percent(20.0) {
            self.rank_to_find()
        } else if self.shrinking && self.profile == Profile::Ascending {
            self.known.pop().expect("not empty")
        } else {
            let place = self.rng.index(self.known.len());
            self.known.swap_remove(place)
        };
        Operation::Remove { rank, spelling }
    }

    pub(super) fn next_operation(&mut self) -> Operation {
        if self.phase_left == 0 {
            self.change_phase();
        }
        self.phase_left -= 1;
        let spelling = self.rng.below(4);
        let (inserts, removes) = if self.shrinking { (10, 65) } else { (60, 75) };
        match self.rng.below(100) {
            x if x < inserts => {
                let rank = if self.rng.percent(10.0) {
                    self.rank_to_find()
                } else {
                    self.fresh_rank()
                };
                if self.known.len() < KNOWN_MAX {
                    self.known.push(rank);
                }
                let value = self.rng.next_u64();
                Operation::Insert {
                    rank,
                    spelling,
                    value,
                }
            }
            x if x < removes => self.removal(spelling),
            x if x < 88 => Operation::Get {
                rank: self.rank_to_find(),
                spelling,
            },
            x if x < 98 => self.range(),
            98 => Operation::First,
            _ => Operation::Last,
        }
    }
}

/// Generates operations over few ranks, so that short sequences already collide; they shrink
/// towards small ranks.
pub(super) fn strategy(rank_max: u64) -> impl Strategy<Value = Operation> {
    let rank = prop_oneof![4 => 0..48_u64, 1 => (0..8_u64).prop_map(move |x| rank_max - x)].boxed();
    let bound = prop_oneof![
        Just(Bound::Unbounded),
        rank.clone().prop_map(Bound::Included),
        rank.clone().prop_map(Bound::Excluded)
    ]
    .boxed();
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Backward)];
    prop_oneof![
        6 => (rank.clone(), 0..4_u64, any::<u64>())
            .prop_map(|(rank, spelling, value)| Operation::Insert { rank, spelling, value }),
        3 => (rank.clone(), 0..4_u64).prop_map(|(rank, spelling)| Operation::Remove { rank, spelling }),
        2 => (rank, 0..4_u64).prop_map(|(rank, spelling)| Operation::Get { rank, spelling }),
        3 => (bound.clone(), bound, direction, 0..40_usize).prop_map(|(lower, upper, direction, limit)| {
            Operation::Range { lower, upper, direction, limit }
        }),
        1 => Just(Operation::First),
        1 => Just(Operation::Last),
    ]
}
