//! Follows former greatest keys: how many keys below each came after it.
//!
//! All earlier keys lie below a key that was the greatest, so that number is its distance from its
//! sorted position. Where a greatest key A is not followed but the next, B, is, A's distance
//! exceeds that of B by no more rows than lie between their arrivals.

/// The most keys that are followed.
const KEYS: usize = 64;
/// The most keys that are saved.
pub(crate) const SAVED_KEYS: usize = 48;

/// A key that was the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerUp {
    /// The key.
    pub key: u64,
    /// Number of keys that had arrived when it came, itself included.
    pub arrival: u64,
    /// How many keys below it came after it.
    pub below: u64,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Ahead {
    /// Ascending, as their arrivals.
    keys: Vec<u64>,
    arrivals: Vec<u64>,
    /// How many later keys lie below each, but for the recent ones.
    below: Vec<u64>,
    /// How many recent keys lie below each, and not below the one before.
    recent: Vec<u64>,
    /// Keys that arrived no more rows before one that is followed may not be followed.
    spacing: u64,
    /// The row count from which a key is followed.
    next: u64,
}

impl Ahead {
    pub(crate) fn new() -> Self {
        Self {
            keys: Vec::with_capacity(KEYS),
            arrivals: Vec::with_capacity(KEYS),
            below: Vec::with_capacity(KEYS),
            recent: Vec::with_capacity(KEYS),
            spacing: 1,
            next: 0,
        }
    }

    /// Follows these keys after this many rows; `None` if they contradict each other.
    pub(crate) fn restore(rows: u64, followed: &[RunnerUp]) -> Option<Self> {
        let are_right = followed.len() <= SAVED_KEYS
            && followed.is_sorted_by(|a, b| a.key <= b.key && a.arrival <= b.arrival)
            && followed
                .iter()
                .all(|key| key.arrival <= rows && key.below <= rows);
        are_right.then(|| {
            let mut ahead = Self::new();
            followed.iter().for_each(|&key| ahead.push(key));
            ahead.next = rows;
            ahead
        })
    }

    fn push(&mut self, RunnerUp { key, arrival, below }: RunnerUp) {
        self.keys.push(key);
        self.arrivals.push(arrival);
        self.below.push(below);
        self.recent.push(0);
        self.next = arrival + self.spacing;
    }

    /// Returns whether a greatest key that is passed after this many rows should be followed.
    #[inline]
    pub(crate) const fn is_due(&self, rows: u64) -> bool {
        rows >= self.next
    }

    /// Follows a key that was the greatest up to now. Recent keys must be [settled](Self::settle).
    pub(crate) fn follow(&mut self, key: RunnerUp) {
        if self.keys.len() == KEYS {
            let mut followed = self.followed();
            self.spacing = thin_to(&mut followed, KEYS * 3 / 4, self.spacing);
            for list in [
                &mut self.keys,
                &mut self.arrivals,
                &mut self.below,
                &mut self.recent,
            ] {
                list.clear();
            }
            followed.into_iter().for_each(|key| self.push(key));
        }
        self.push(key);
    }

    /// Notes a key below the greatest one.
    #[inline]
    pub(crate) fn note(&mut self, key: u64) {
        if self.keys.last().is_some_and(|&last| key < last) {
            let place = self.keys.partition_point(|&followed| followed <= key);
            self.recent[place] += 1;
        }
    }

    /// Returns how many recent keys lie below each followed key.
    fn recent(&self) -> impl Iterator<Item = u64> {
        self.recent.iter().scan(0, |sum, &more| {
            *sum += more;
            Some(*sum)
        })
    }

    fn followed(&self) -> Vec<RunnerUp> {
        let lists = self.keys.iter().zip(&self.arrivals).zip(&self.below);
        let followed = lists.zip(self.recent());
        followed
            .map(|(((&key, &arrival), below), recent)| RunnerUp {
                key,
                arrival,
                below: below + recent,
            })
            .collect()
    }

    /// Returns the greatest distance from its sorted position of a followed key that recent keys
    /// lie below; 0 if there is none.
    pub(crate) fn distance(&self) -> u64 {
        let counts = self.below.iter().zip(self.recent());
        let grown = counts.filter(|&(_, recent)| recent > 0);
        grown.map(|(below, recent)| below + recent).max().unwrap_or(0)
    }

    /// Makes recent keys old; returns their [distance](Self::distance).
    pub(crate) fn settle(&mut self) -> u64 {
        let distance = self.distance();
        let mut recent = 0;
        for (below, more) in self.below.iter_mut().zip(&mut self.recent) {
            recent += std::mem::take(more);
            *below += recent;
        }
        distance
    }

    /// Returns the keys to save.
    pub(crate) fn saved(&self) -> Vec<RunnerUp> {
        let mut saved = self.followed();
        thin_to(&mut saved, SAVED_KEYS, self.spacing);
        saved
    }
}

/// Drops keys that arrived no more than the spacing before one that is kept; doubles the spacing
/// until so many are left, and returns it.
fn thin_to(followed: &mut Vec<RunnerUp>, most: usize, mut spacing: u64) -> u64 {
    while followed.len() > most {
        spacing *= 2;
        let mut next = u64::MAX;
        followed.reverse();
        followed.retain(|key| {
            let is_kept = next - key.arrival > spacing;
            if is_kept {
                next = key.arrival;
            }
            is_kept
        });
        followed.reverse();
    }
    spacing
}
