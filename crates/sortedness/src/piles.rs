//! Patience sorting in bounded memory: the last piles, and marks of older ones.
//!
//! Pile `n` ends with the least key that ends a non-decreasing subsequence of `n` keys. A key above
//! all ends starts a pile; any other replaces the first end above it.
//!
//! Where keys fall back behind the last piles, as after a burst of keys ahead of their time, they
//! go on from the last mark not above them. A mark tells the end that a pile had once, which is not
//! below its present end, so the number of piles is never too great.

/// Pile ends that are kept. A power of two.
pub(crate) const PILES: usize = 256;
/// The most marks of older piles.
const MARKS: usize = 256;
/// The most marks that are saved.
pub(crate) const SAVED_MARKS: usize = 64;
/// The pile that is marked, counted from the last. The ends of the very last are often those of
/// keys ahead of their time.
const MARKED: u64 = 8;
/// Keys that fall back to marks this close to each other are a run, not in random order.
const NEAR: usize = 8;
/// The most keys in random order after which a run is still taken for one.
const RUN: u32 = 32;
/// One in this many keys that fall back in random order is put on its pile: it costs more than the
/// others, and makes few new piles.
const RANDOM_STRIDE: u32 = 8;

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Piles {
    /// The ends of the last piles; pile `n` is at index `n - 1` modulo [`PILES`].
    ends: Box<[u64; PILES]>,
    count: u64,
    /// The number of first piles that are unknown even if there is room for them.
    unknown: u64,
    /// Ascending in both.
    marks: Vec<Mark>,
    /// The number of the pile that was marked last.
    recent: u64,
    /// The place among the marks of the last key that fell back.
    place: usize,
    /// Rises with each key of a run, and falls with any other.
    run: u32,
    /// Keys that fell back in random order.
    random: u32,
}

/// A pile older than the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) number: u64,
    pub(crate) end: u64,
}

impl Piles {
    pub(crate) fn new() -> Self {
        Self {
            ends: Box::new([0; PILES]),
            count: 0,
            unknown: 0,
            marks: Vec::with_capacity(MARKS),
            recent: 0,
            place: 0,
            run: RUN,
            random: 0,
        }
    }

    /// Creates `count` piles of which the last end so, and these marks of older ones; `None` if
    /// they contradict each other.
    pub(crate) fn restore(count: u64, ends: &[u64], marks: &[Mark]) -> Option<Self> {
        let kept = ends.len() as u64;
        let ends_are_right = kept <= count.min(PILES as u64) && (kept > 0) == (count > 0) && ends.is_sorted();
        let marks_are_right = marks.len() <= SAVED_MARKS
            && marks.is_sorted_by(|a, b| a.number < b.number && a.end <= b.end)
            && marks.iter().all(|mark| (1..=count).contains(&mark.number));
        if !ends_are_right || !marks_are_right {
            return None;
        }
        let mut piles = Self {
            count: count - kept,
            unknown: count - kept,
            ..Self::new()
        };
        ends.iter().for_each(|&end| piles.push(end));
        piles.marks.extend_from_slice(marks);
        Some(piles)
    }

    #[inline]
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many of the last piles are known.
    #[inline]
    pub(crate) fn kept(&self) -> u64 {
        (self.count - self.unknown).min(PILES as u64)
    }

    /// Returns the end of the `nth` pile from the last; the last is the first.
    #[inline]
    pub(crate) fn end(&self, nth: u64) -> u64 {
        self.ends[slot(self.count.wrapping_sub(nth))]
    }

    /// Returns the ends that are known, ascending.
    pub(crate) fn ends(&self) -> impl Iterator<Item = u64> {
        (1..=self.kept()).rev().map(|nth| self.end(nth))
    }

    /// Starts a pile with a key that is not below the last end.
    #[inline]
    pub(crate) fn push(&mut self, key: u64) {
        self.ends[slot(self.count)] = key;
        self.count += 1;
    }

    /// Starts a pile with each of these keys, which ascend and are not below the last end.
    pub(crate) fn extend(&mut self, keys: &[u64]) {
        let (unkept, kept) = keys.split_at(keys.len().saturating_sub(PILES));
        self.count += unkept.len() as u64;
        let from = slot(self.count);
        let (until_wrapped, wrapped) = kept.split_at(kept.len().min(PILES - from));
        self.ends[from..from + until_wrapped.len()].copy_from_slice(until_wrapped);
        self.ends[..wrapped.len()].copy_from_slice(wrapped);
        self.count += kept.len() as u64;
    }

    /// Puts a key that is below the last end on its pile. Returns how many of the last piles end
    /// above it; `None` if all that are known do, but there are older ones.
    pub(crate) fn place(&mut self, key: u64) -> Option<u64> {
        let kept = self.kept();
        if kept < self.count && key < self.end(kept) {
            self.place_before(key, self.count - kept);
            return None;
        }
        let above = self.ends_above(key);
        self.ends[slot(self.count - above)] = key;
        Some(above)
    }

    /// Returns how many of the last piles end above the key; at least one must. Unused piles end at
    /// 0. The search compares three ends at a time without branches, which would be unpredictable.
    fn ends_above(&self, key: u64) -> u64 {
        let mut above = 1;
        for step in [64, 16, 4, 1] {
            let ends_above = |steps| u64::from(self.end(above + steps * step) > key);
            above += step * (ends_above(1) + ends_above(2) + ends_above(3));
        }
        above
    }

    /// Puts a key on its pile among the `older` ones before the last, or on the first of the last.
    #[inline(never)]
    fn place_before(&mut self, key: u64, older: u64) {
        if self.run == 0 {
            self.random = self.random.wrapping_add(1);
            if !self.random.is_multiple_of(RANDOM_STRIDE) {
                return;
            }
        }
        let place = self.marks.partition_point(|mark| mark.end <= key);
        self.run = if place.abs_diff(self.place) <= NEAR {
            RUN.min(self.run + 1)
        } else {
            self.run.saturating_sub(1)
        };
        self.place = place;
        let before = place.checked_sub(1).map_or(0, |before| self.marks[before].number);
        let number = before + 1;
        if number > older {
            self.ends[slot(older)] = key;
            return;
        }
        match self.marks.get_mut(place) {
            Some(mark) if mark.number == number => mark.end = key,
            _ => {
                self.marks.insert(place, Mark { number, end: key });
                self.recent = number;
                self.thin();
            }
        }
    }

    /// Marks one of the last piles, unless there are no others.
    #[inline(never)]
    pub(crate) fn mark(&mut self) {
        let nth = self.kept().min(MARKED);
        if self.count <= PILES as u64 || nth == 0 {
            return;
        }
        let (number, end) = (self.count + 1 - nth, self.end(nth));
        while self.marks.last().is_some_and(|last| last.end >= end) {
            self.marks.pop();
        }
        if self.marks.last().is_none_or(|last| last.number < number) {
            self.marks.push(Mark { number, end });
            self.recent = number;
            self.thin();
        }
    }

    /// Drops marks if there are too many.
    fn thin(&mut self) {
        if self.marks.len() == MARKS {
            thin_to(&mut self.marks, MARKS * 3 / 4, self.recent);
        }
    }

    /// Returns the marks to save.
    pub(crate) fn saved_marks(&self) -> Vec<Mark> {
        let mut marks = self.marks.clone();
        thin_to(&mut marks, SAVED_MARKS, self.recent);
        marks
    }
}

/// Drops marks so that neighbours differ by no more than a share of their distance from the
/// `recent` one, if there are enough: keys that fall back by some piles lose at most that share of
/// them.
fn thin_to(marks: &mut Vec<Mark>, most: usize, recent: u64) {
    for shift in [4, 3, 2, 1, 0] {
        if marks.len() <= most {
            return;
        }
        let mut before = 0;
        marks.retain(|mark| {
            let is_kept = mark.number - before >= mark.number.abs_diff(recent) >> shift;
            if is_kept {
                before = mark.number;
            }
            is_kept
        });
    }
    marks.truncate(most);
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the mask leaves an index into the piles"
)]
const fn slot(pile: u64) -> usize {
    pile as usize & (PILES - 1)
}
