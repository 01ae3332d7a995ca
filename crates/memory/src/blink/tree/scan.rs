//! Reading many entries.

use std::ops::{Bound, RangeBounds};

use crossbeam_epoch as epoch;

use super::BlinkTree;
use crate::blink::aim::Aim;
use crate::blink::trunk::{Scanned, read_sorted, scan_sorted};
use crate::map::key::Key;
use crate::map::output::Output;
use crate::map::range::{End, Leaves, is_empty, words_of};

impl<K: Key> BlinkTree<K> {
    /// Copies the first entries whose keys lie in `bounds`, ascending, to the beginning of `keys`
    /// and `values`; returns how many. It stops at the end of the range or of the shorter slice: to
    /// continue, begin after the last key.
    ///
    /// This is the fastest way to read a range: keys and values are copied leaf by leaf into the
    /// caller's slices.
    ///
    /// ```
    /// use bedload_memory::BlinkTree;
    /// let tree = BlinkTree::<u64>::new();
    /// (0..100).for_each(|key| tree.insert(key, key + 1));
    /// let (mut keys, mut values) = ([0; 10], [0; 10]);
    /// assert_eq!(tree.scan(95.., &mut keys, &mut values), 5);
    /// assert_eq!(values[..5], [96, 97, 98, 99, 100]);
    /// ```
    pub fn scan(&self, bounds: impl RangeBounds<K>, keys: &mut [K], values: &mut [u64]) -> usize {
        let (mut lower, upper) = words_of(bounds);
        let mut output = Output::new(keys, values);
        let guard = &epoch::pin();
        while output.room() > 0 && !is_empty(lower, upper) {
            let Some((found, leaf)) = self.leaf_at(&Aim::least(lower), guard) else {
                continue;
            };
            match scan_sorted(&found, leaf, (lower, upper), &mut output, guard) {
                Scanned::ToTheEnd => break,
                Scanned::UpTo(bound) => lower = bound,
            }
        }
        output.filled()
    }
}

impl<K: Key> Leaves<K::Words> for BlinkTree<K> {
    fn read(
        &self,
        from: End,
        _: bool,
        bounds: (Bound<K::Words>, Bound<K::Words>),
        entries: &mut Vec<(K::Words, u64)>,
    ) -> Option<K::Words> {
        let guard = &epoch::pin();
        loop {
            let (found, leaf) = self.leaf_at(&Aim::end(from, bounds), guard)?;
            if let Some(fences) = read_sorted(&found, leaf, bounds, entries, guard) {
                return fences.behind(from);
            }
        }
    }
}
