//! The interface that all in-memory indexes share.

use std::ops::Bound;

use super::key::Key;
use super::range::Range;

/// A concurrent ordered map from fixed-size keys to 8-byte values: the common interface of the
/// in-memory indexes.
///
/// `insert`, `get` and `remove` are linearizable. A range that overlaps writers yields, in order
/// and once each, every key that was present throughout, and no key that never was.
///
/// ```
/// use bedload_memory::{BlinkTree, SharedMap};
/// use std::ops::Bound;
///
/// fn newest(map: &impl SharedMap<u64>) -> Option<(u64, u64)> {
///     map.range((Bound::Unbounded, Bound::Unbounded)).next_back()
/// }
/// let tree = BlinkTree::new();
/// tree.insert(1, 10);
/// assert_eq!(newest(&tree), Some((1, 10)));
/// ```
pub trait SharedMap<K: Key>: Send + Sync {
    /// Puts `value` in place for `key`, whether or not the key was there.
    fn insert(&self, key: K, value: u64);

    /// The value of `key`.
    fn get(&self, key: K) -> Option<u64>;

    /// Removes `key` and returns the value it had.
    fn remove(&self, key: K) -> Option<u64>;

    /// The entries whose keys lie between the bounds, from either end.
    fn range(&self, bounds: (Bound<K>, Bound<K>)) -> Range<'_, K>;

    /// Copies the least entries between the bounds, ascending, to the beginning of `keys` and
    /// `values`; returns how many. It stops where the range or the shorter slice ends.
    fn scan(&self, bounds: (Bound<K>, Bound<K>), keys: &mut [K], values: &mut [u64]) -> usize {
        let places = keys.iter_mut().zip(values);
        places
            .zip(self.range(bounds))
            .map(|((key_place, value_place), (key, value))| (*key_place, *value_place) = (key, value))
            .count()
    }

    /// Checks the index's invariants. No other operation may be under way.
    ///
    /// # Errors
    ///
    /// The invariant that does not hold, and where.
    fn check_structure(&self) -> Result<(), String>;
}

/// Methods that an index of this name shares with all others: `new`, and those of [`SharedMap`] but
/// `range`, and of [`Measured`](super::memory_use::Measured). It is read by its [`Leaves`](super::range::Leaves).
macro_rules! shared_map {
    ($index:ident) => {
        impl<K: Key> $index<K> {
            /// The entries whose keys lie in `bounds`, ascending, and descending with
            /// [`rev`](Iterator::rev). Bounds that no key can lie between yield nothing.
            pub fn range(&self, bounds: impl std::ops::RangeBounds<K>) -> crate::map::range::Range<'_, K> {
                crate::map::range::Range::new(self, bounds)
            }

            /// The entry with the least key.
            #[must_use]
            pub fn first(&self) -> Option<(K, u64)> {
                self.range(..).next()
            }

            /// The entry with the greatest key.
            #[must_use]
            pub fn last(&self) -> Option<(K, u64)> {
                self.range(..).next_back()
            }

            /// Whether there is no entry.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.first().is_none()
            }
        }

        impl<K: Key> Default for $index<K> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<K: Key> std::fmt::Debug for $index<K> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_map().entries(self.range(..)).finish()
            }
        }

        impl<K: Key> crate::map::shared_map::SharedMap<K> for $index<K> {
            fn insert(&self, key: K, value: u64) {
                self.insert(key, value);
            }

            fn get(&self, key: K) -> Option<u64> {
                self.get(key)
            }

            fn remove(&self, key: K) -> Option<u64> {
                self.remove(key)
            }

            fn range(
                &self,
                bounds: (std::ops::Bound<K>, std::ops::Bound<K>),
            ) -> crate::map::range::Range<'_, K> {
                self.range(bounds)
            }

            fn scan(
                &self,
                bounds: (std::ops::Bound<K>, std::ops::Bound<K>),
                keys: &mut [K],
                values: &mut [u64],
            ) -> usize {
                self.scan(bounds, keys, values)
            }

            fn check_structure(&self) -> Result<(), String> {
                self.check_structure()
            }
        }

        impl<K: Key> crate::map::memory_use::Measured for $index<K> {
            fn memory_use(&self) -> crate::map::memory_use::MemoryUse {
                self.memory_use()
            }
        }
    };
}

pub(crate) use shared_map;
