//! Which places of the data file are free.
//!
//! Nothing of this is on disk: opening a store derives it from the page map, so no crash can leak a
//! place.

use std::collections::{BTreeMap, VecDeque};

use super::extents::{Extent, Extents};
use super::readers::Held;

/// Free places, and places that become free once no version needs them.
///
/// Rules:
/// 1. A place is given out only if no checkpoint that recovery may choose, and no version that is
///    held, names it.
/// 2. Places that checkpoint `c` replaced are needed only by versions before `c`: they wait until
///    `c` is durable and the last such version is dropped.
/// 3. Space goes back to the file system from free places alone, and no place is given out while
///    that happens.
#[derive(Debug, Default)]
pub(crate) struct Space {
    free: Extents,
    /// Free places whose space was given back. Those of earlier processes are not known.
    holes: Extents,
    /// One past the last place of the file.
    end: u32,
    /// Places replaced by a checkpoint, in ascending order of checkpoints.
    waiting: VecDeque<(u64, Vec<Extent>)>,
    /// How often each version is held.
    held: BTreeMap<u64, usize>,
    /// Versions that other processes hold, as far as is known ([`readers`](super::readers), rule 3).
    elsewhere: Held,
}

/// How much free space goes back to the file system, in places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SurplusLimits {
    /// At least this many are kept free; if zero, none are.
    pub(crate) few: u64,
    /// Extents of fewer are left.
    pub(crate) shortest: u32,
    /// No more go back at a time.
    pub(crate) step: u32,
}

impl Space {
    /// The space of a file in which exactly the places in `used`, ascending and apart from each
    /// other, are in use.
    pub(crate) fn of_used(used: &[Extent]) -> Self {
        let mut space = Self {
            end: 1,
            ..Self::default()
        };
        for extent in used {
            if extent.first > space.end {
                space.free.insert(Extent {
                    first: space.end,
                    places: extent.first - space.end,
                });
            }
            space.end = extent.end();
        }
        space
    }

    /// Takes up to `wanted` neighbouring places, at least one: the first, and how many. `None` if
    /// the format's last place is taken.
    pub(crate) fn allocate(&mut self, wanted: u32) -> Option<(u32, u32)> {
        let gap = self.free.iter().next();
        if let Some(gap) = gap {
            let places = gap.places.min(wanted);
            let first = gap.first;
            self.take(Extent { first, places });
            return Some((first, places));
        }
        let end = self.end.checked_add(wanted)?;
        let first = std::mem::replace(&mut self.end, end);
        Some((first, wanted))
    }

    /// Takes neighbouring places, all that are wanted: those of the shortest gap that has room for
    /// them. `None` if the format has no more.
    pub(crate) fn allocate_long(&mut self, places: u32) -> Option<Extent> {
        let gaps = self.free.iter().filter(|gap| gap.places >= places);
        let Some(shortest) = gaps.min_by_key(|gap| gap.places) else {
            let end = self.end.checked_add(places)?;
            let first = std::mem::replace(&mut self.end, end);
            return Some(Extent { first, places });
        };
        let extent = Extent {
            first: shortest.first,
            places,
        };
        self.take(extent);
        Some(extent)
    }

    /// Takes free places, which have space again once they are written.
    fn take(&mut self, extent: Extent) {
        self.free.remove(extent);
        self.holes.remove(extent);
    }

    /// Frees places that no checkpoint names, at once.
    pub(crate) fn free(&mut self, extent: Extent) {
        self.free.insert(extent);
    }

    /// Takes some free places whose space is to go back. It begins when those that have space are
    /// more than a quarter of those in use: fewer will soon be needed. Once it has `begun`, it
    /// goes on, step by step, until a sixteenth is left. Places at the end of the file come first,
    /// as others are used before them.
    pub(crate) fn take_surplus(&mut self, limits: SurplusLimits, begun: bool) -> Vec<Extent> {
        let SurplusLimits { few, shortest, step } = limits;
        let used = u64::from(self.end - 1) - self.free.places();
        let share = |part| if few == 0 { 0 } else { few.max(used / part) };
        let kept = share(16);
        let mut surplus = self.free.places() - self.holes.places();
        if surplus <= if begun { kept } else { share(4) } {
            return Vec::new();
        }
        let mut left = step;
        let mut taken = Vec::new();
        for gap in self.free.iter().rev() {
            // The stretches between the holes of a gap, the last one first.
            let mut end = gap.end();
            let holes: Vec<Extent> = self.holes.meeting(gap).collect();
            let ends = holes.iter().rev().map(|hole| (hole.end(), hole.first));
            for (first, next_end) in ends.chain([(gap.first, gap.first)]) {
                let whole = end.saturating_sub(first);
                end = next_end;
                if surplus > kept && left > 0 && whole >= shortest {
                    let places = whole.min(left);
                    left -= places;
                    surplus -= u64::from(places);
                    let first = first + (whole - places);
                    taken.push(Extent { first, places });
                }
            }
            if surplus <= kept || left == 0 {
                break;
            }
        }
        taken.iter().for_each(|&extent| self.take(extent));
        taken
    }

    /// Makes places free again; their space went back if `gone`.
    pub(crate) fn return_surplus(&mut self, extent: Extent, gone: bool) {
        self.free.insert(extent);
        if gone {
            self.holes.insert(extent);
        }
    }

    /// Hands over what checkpoint `checkpoint` replaced (rule 2).
    pub(crate) fn wait(&mut self, checkpoint: u64, places: Vec<Extent>) {
        self.waiting.push_back((checkpoint, places));
    }

    /// Counts one more holder of a version.
    pub(crate) fn hold(&mut self, version: u64) {
        *self.held.entry(version).or_default() += 1;
    }

    /// Counts one holder of a version less.
    pub(crate) fn let_go(&mut self, version: u64) {
        if let Some(count) = self.held.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&version);
            }
        }
    }

    /// Whether a version from `born` on and before `dead` is held, here or elsewhere.
    pub(crate) fn holds_version_in(&self, born: u64, dead: u64) -> bool {
        let is_held_here = born < dead && self.held.range(born..dead).next().is_some();
        is_held_here || self.elsewhere.holds_in(born, dead)
    }

    /// Notes which versions other processes hold.
    pub(crate) fn note_elsewhere(&mut self, held: Held) {
        self.elsewhere = held;
    }

    /// If other processes hold versions before `checkpoint`, the newest, lets all free places wait,
    /// because it is unknown which of the file's `places` those versions name. Returns whether
    /// other processes do.
    pub(crate) fn shield(&mut self, checkpoint: u64, places: u32) -> bool {
        if self.elsewhere.oldest().is_none_or(|oldest| oldest >= checkpoint) {
            return false;
        }
        let mut unknown: Vec<Extent> = std::mem::take(&mut self.free).iter().collect();
        let end = places.saturating_add(1);
        if end > self.end {
            unknown.push(Extent {
                first: self.end,
                places: end - self.end,
            });
            self.end = end;
        }
        self.wait(checkpoint, unknown);
        true
    }

    /// Takes the places out of waiting that no held version needs; they are to be
    /// [freed](Self::free) once nothing remembers what stood there.
    pub(crate) fn released(&mut self) -> Vec<Extent> {
        let here = self.held.first_key_value().map(|(&version, _)| version);
        let oldest = here.into_iter().chain(self.elsewhere.oldest()).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        let mut released = Vec::new();
        while self
            .waiting
            .front()
            .is_some_and(|&(checkpoint, _)| checkpoint <= oldest)
        {
            released.extend(
                self.waiting
                    .pop_front()
                    .into_iter()
                    .flat_map(|(_, places)| places),
            );
        }
        released
    }

    /// Places in use, and places that have space.
    pub(crate) fn places(&self) -> (u64, u64) {
        let all = u64::from(self.end - 1);
        (all - self.free.places(), all - self.holes.places())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_and_filled_first() {
        let mut space = Space::of_used(&[1, 2, 5, 9].map(Extent::one));
        assert_eq!(space.allocate(10), Some((3, 2)));
        assert_eq!(space.allocate(2), Some((6, 2)));
        assert_eq!(space.allocate(2), Some((8, 1)));
        assert_eq!(space.allocate(4), Some((10, 4)));
    }

    #[test]
    fn neighbours_join() {
        let mut space = Space::of_used(&(1..=10).map(Extent::one).collect::<Vec<_>>());
        for place in [4, 6, 5] {
            space.free(Extent::one(place));
        }
        assert_eq!(space.allocate(8), Some((4, 3)));
        assert_eq!(space.places(), (10, 10));
    }

    #[test]
    fn replaced_places_wait_for_the_last_version_that_needs_them() {
        let mut space = Space::of_used(&[1, 2, 3].map(Extent::one));
        space.hold(1);
        space.wait(2, vec![Extent::one(1)]);
        space.hold(2);
        space.wait(3, vec![Extent::one(2)]);
        assert!(space.released().is_empty());
        space.let_go(1);
        assert_eq!(space.released(), [Extent::one(1)]);
        space.let_go(2);
        assert_eq!(space.released(), [Extent::one(2)]);
    }

    #[test]
    fn what_other_processes_hold_waits_as_well() {
        let mut space = Space::of_used(&[1, 2, 5].map(Extent::one));
        space.note_elsewhere(Held::These([3, 8].into()));
        assert!(!space.shield(3, 9));
        assert!(space.shield(4, 9));
        assert_eq!(
            space.allocate(2),
            Some((10, 2)),
            "free places may be named by version 3"
        );
        space.wait(9, vec![Extent::one(1)]);
        assert!(space.released().is_empty());
        assert!(space.holds_version_in(2, 4) && !space.holds_version_in(4, 8));
        space.note_elsewhere(Held::These([8].into()));
        let gap = |first, places| Extent { first, places };
        assert_eq!(space.released(), [gap(3, 2), gap(6, 4)]);
        space.note_elsewhere(Held::Unknown);
        assert!(space.released().is_empty() && space.holds_version_in(1, 2));
        space.note_elsewhere(Held::default());
        assert_eq!(space.released(), [Extent::one(1)]);
    }

    #[test]
    fn long_extents_take_the_shortest_gap_that_has_room() {
        let used = [(1, 2), (10, 1), (14, 3), (30, 1)].map(|(first, places)| Extent { first, places });
        let mut space = Space::of_used(&used);
        assert_eq!(space.allocate_long(3), Some(Extent { first: 11, places: 3 }));
        assert_eq!(space.allocate_long(4), Some(Extent { first: 3, places: 4 }));
        assert_eq!(
            space.allocate_long(20),
            Some(Extent {
                first: 31,
                places: 20
            })
        );
        space.free(Extent { first: 14, places: 3 });
        assert_eq!(
            space.allocate_long(16),
            Some(Extent {
                first: 14,
                places: 16
            })
        );
        assert_eq!(space.allocate(10), Some((7, 3)));
    }

    #[test]
    fn surplus_goes_back_once_and_is_used_again() {
        let mut space = Space::of_used(&[Extent {
            first: 1,
            places: 400,
        }]);
        let gap = |first, places| Extent { first, places };
        let limits = |few| SurplusLimits {
            few,
            shortest: 4,
            step: 1000,
        };
        space.free(gap(10, 60));
        assert_eq!(
            space.take_surplus(limits(8), false),
            [],
            "a quarter is not too much"
        );
        space.free(gap(301, 90));
        space.free(gap(398, 2));
        // 250 places are in use: 15 may be kept.
        let taken = space.take_surplus(limits(8), false);
        assert_eq!(taken, [gap(301, 90), gap(10, 60)]);
        assert_eq!(
            space.allocate(5),
            Some((398, 2)),
            "they are not given out meanwhile"
        );
        space.return_surplus(taken[0], true);
        space.return_surplus(taken[1], false);
        assert_eq!(space.places(), (250, 310));
        assert_eq!(
            space.take_surplus(limits(8), false),
            [],
            "what went back does not count"
        );
        assert_eq!(space.allocate_long(70), Some(gap(301, 70)));
        space.free(gap(301, 30));
        space.free(gap(200, 20));
        assert_eq!(space.places(), (270, 380));
        assert_eq!(
            space.take_surplus(limits(8), false),
            [gap(301, 30), gap(200, 20), gap(10, 60)]
        );
        space.return_surplus(gap(200, 20), false);
        assert_eq!(space.take_surplus(limits(8), false), [], "few are kept");
        assert_eq!(space.take_surplus(limits(0), false), [gap(200, 20)]);
    }
    #[test]
    fn surplus_goes_back_step_by_step() {
        let gap = |first, places| Extent { first, places };
        let limits = SurplusLimits {
            few: 8,
            shortest: 4,
            step: 40,
        };
        let mut space = Space::of_used(&[gap(1, 400)]);
        space.free(gap(10, 60));
        space.free(gap(301, 90));
        let mut begun = false;
        let mut steps = Vec::new();
        loop {
            let taken = space.take_surplus(limits, begun);
            if taken.is_empty() {
                break;
            }
            taken
                .iter()
                .for_each(|&extent| space.return_surplus(extent, true));
            steps.push(taken);
            begun = true;
        }
        // 250 places are in use, and at least 15 are kept.
        let expected = [
            vec![gap(351, 40)],
            vec![gap(311, 40)],
            vec![gap(301, 10), gap(40, 30)],
            vec![gap(10, 30)],
        ];
        assert_eq!(steps, expected);
        assert_eq!(space.places(), (250, 250));
    }
}
