//! The interface that maps of one writer share, and a lock that lets several threads use one.

use std::ops::{Bound, RangeBounds};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};

use super::range;
use super::range::{End, Leaves, Range, words_of};
use super::shared_map::SharedMap;

/// An ordered map from `u64` to `u64` for one writer, or several readers, at a time.
///
/// ```
/// use bedload_memory::ExclusiveMap;
/// use bedload_memory::near_sorted::{PackedTree, NearSortedTree};
///
/// fn newest(map: &impl ExclusiveMap) -> Option<(u64, u64)> {
///     let (mut entries, mut to) = (Vec::new(), Some(u64::MAX));
///     while let (Some(upper), true) = (to, entries.is_empty()) {
///         to = map.read_down(0, upper, &mut entries);
///     }
///     entries.last().copied()
/// }
/// let mut tree = NearSortedTree::new();
/// tree.insert(1, 10);
/// assert_eq!(newest(&tree), Some((1, 10)));
/// ```
pub trait ExclusiveMap: Send + Sync {
    /// Puts a value in place, whether or not the key was there.
    fn insert(&mut self, key: u64, value: u64);

    /// The value of a key.
    fn get(&self, key: u64) -> Option<u64>;

    /// Removes a key; returns its value.
    fn remove(&mut self, key: u64) -> Option<u64>;

    /// Appends the least entries between the bounds, which are inclusive and not inverted,
    /// ascending: those of one leaf, or fewer, or none. Returns the key from which on nothing was
    /// read, if there may be more up to the upper bound.
    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64>;

    /// Appends the greatest entries between the bounds, ascending; returns the key down from which
    /// nothing was read, if there may be more down to the lower bound.
    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64>;

    /// Whether reads would gain from [`prepare_reads`](Self::prepare_reads).
    fn wants_preparation(&self) -> bool {
        false
    }

    /// Sorts what reads would have to scan.
    fn prepare_reads(&mut self) {}

    /// Checks the whole structure.
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, and where.
    fn check_structure(&self) -> Result<(), String>;
}

/// A map behind a lock, so that several threads may use it: writers one at a time, readers
/// together. A read that meets too much that is not sorted upgrades its lock to sort it (Raman et
/// al., ICDE 2023, §IV-D).
///
/// ```
/// use bedload_memory::SharedMap;
/// use bedload_memory::Locked;
/// use bedload_memory::near_sorted::NearSortedTree;
///
/// let map = Locked::new(NearSortedTree::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| map.insert(1, 10));
///     scope.spawn(|| map.insert(2, 20));
/// });
/// assert_eq!((map.get(1), map.get(2)), (Some(10), Some(20)));
/// ```
#[derive(Debug, Default)]
pub struct Locked<M> {
    map: RwLock<M>,
}

impl<M: ExclusiveMap> Locked<M> {
    /// Puts the map behind a lock.
    pub const fn new(map: M) -> Self {
        Self {
            map: RwLock::new(map),
        }
    }

    /// Takes it out again.
    pub fn into_inner(self) -> M {
        self.map.into_inner()
    }

    fn read<R>(&self, read: impl FnOnce(&M) -> R) -> R {
        let map = self.map.read();
        if !map.wants_preparation() {
            return read(&map);
        }
        drop(map);
        let map = self.map.upgradable_read();
        if !map.wants_preparation() {
            return read(&map);
        }
        let mut map = RwLockUpgradableReadGuard::upgrade(map);
        map.prepare_reads();
        read(&map)
    }
}

impl<M: ExclusiveMap> SharedMap<u64> for Locked<M> {
    fn insert(&self, key: u64, value: u64) {
        self.map.write().insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.read(|map| map.get(key))
    }

    fn remove(&self, key: u64) -> Option<u64> {
        self.map.write().remove(key)
    }

    fn range(&self, bounds: (Bound<u64>, Bound<u64>)) -> Range<'_, u64> {
        Range::new(self, bounds)
    }

    fn check_structure(&self) -> Result<(), String> {
        self.map.read().check_structure()
    }
}

/// The least and the greatest key within the bounds; none if no key can be.
pub(crate) fn inclusive(bounds: impl RangeBounds<u64>) -> Option<(u64, u64)> {
    range::inclusive(words_of(bounds)).map(|([lower], [upper])| (lower, upper))
}

/// Bounds as the indexes in memory have them.
pub(crate) type Bounds = (Bound<[u64; 1]>, Bound<[u64; 1]>);

impl<M: ExclusiveMap> Leaves<[u64; 1]> for Locked<M> {
    fn read(
        &self,
        from: End,
        is_first: bool,
        bounds: Bounds,
        entries: &mut Vec<([u64; 1], u64)>,
    ) -> Option<[u64; 1]> {
        self.read(|map| Leaves::read(map, from, is_first, bounds, entries))
    }
}

impl<M: ExclusiveMap> Leaves<[u64; 1]> for M {
    fn read(
        &self,
        from: End,
        _: bool,
        bounds: Bounds,
        entries: &mut Vec<([u64; 1], u64)>,
    ) -> Option<[u64; 1]> {
        let (lower, upper) = inclusive((bounds.0.map(|[key]| key), bounds.1.map(|[key]| key)))?;
        let mut read = Vec::new();
        let next = match from {
            End::Least => self.read_up(lower, upper, &mut read),
            End::Greatest => self.read_down(lower, upper, &mut read).map(|key| key + 1),
        };
        entries.extend(read.into_iter().map(|(key, value)| ([key], value)));
        next.map(|key| [key])
    }
}

/// The operations of [`ExclusiveMap`] that a map has by the same names.
macro_rules! exclusive_operations {
    () => {
        fn insert(&mut self, key: u64, value: u64) {
            self.insert(key, value);
        }

        fn get(&self, key: u64) -> Option<u64> {
            self.get(key)
        }

        fn remove(&mut self, key: u64) -> Option<u64> {
            self.remove(key)
        }

        fn check_structure(&self) -> Result<(), String> {
            self.check_structure()
        }
    };
}

pub(crate) use exclusive_operations;
