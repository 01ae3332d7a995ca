//! Iterators over ranges, from both ends.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::key::Key;
use crate::search::columns::Words;

/// From which end of a range entries are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Least,
    Greatest,
}

/// Reads an index one leaf at a time. Every key of a leaf that is there all the while is read, and
/// no key that is not there at some instant of it.
pub(crate) trait Leaves<W: Words>: Sync {
    /// Appends, ascending, the entries between the bounds that are nearest to the end: those of one
    /// leaf, or fewer. Returns the key from which on nothing was read, or, at the greatest end,
    /// below which; none where there are no more entries, whatever the other bound. Unless it
    /// `is_first`, the read continues at the key that the one before it from this end returned.
    fn read(
        &self,
        from: End,
        is_first: bool,
        bounds: (Bound<W>, Bound<W>),
        entries: &mut Vec<(W, u64)>,
    ) -> Option<W>;
}

/// The entries of a range of keys, ascending; [`rev`](Iterator::rev) makes it descending, and both
/// ends may be drawn from at once.
///
/// It reads one leaf at a time and holds nothing in between: entries come from the time at which
/// their leaf was read. Every key that is present from the making of the iterator to its end is
/// yielded once.
///
/// ```
/// use bedload_memory::BlinkTree;
/// let tree = BlinkTree::<u64>::new();
/// for key in 0..10 {
///     tree.insert(key, key * key);
/// }
/// let mut range = tree.range(2..=8);
/// assert_eq!(range.next(), Some((2, 4)));
/// assert_eq!(range.next_back(), Some((8, 64)));
/// assert_eq!(range.count(), 5);
/// ```
#[must_use = "iterators do nothing unless consumed"]
pub struct Range<'t, K: Key> {
    leaves: &'t dyn Leaves<K::Words>,
    /// Keys between the bounds have not been read.
    lower: Bound<K::Words>,
    upper: Bound<K::Words>,
    is_read: bool,
    /// Whether nothing was read from an end yet: the least, and the greatest.
    is_first: [bool; 2],
    front: VecDeque<(K::Words, u64)>,
    back: VecDeque<(K::Words, u64)>,
    key: PhantomData<K>,
}

impl<'t, K: Key> Range<'t, K> {
    pub(crate) fn new(leaves: &'t dyn Leaves<K::Words>, bounds: impl RangeBounds<K>) -> Self {
        let (lower, upper) = words_of(bounds);
        Self {
            leaves,
            lower,
            upper,
            is_read: false,
            is_first: [true; 2],
            front: VecDeque::new(),
            back: VecDeque::new(),
            key: PhantomData,
        }
        .close_if_empty()
    }

    fn close_if_empty(mut self) -> Self {
        self.note_end();
        self
    }

    /// Notes when nothing can lie between the bounds any more.
    fn note_end(&mut self) {
        self.is_read |= is_empty(self.lower, self.upper);
    }

    /// Reads on from one end, whose entries have all been drawn.
    fn read(&mut self, from: End) {
        let [least_is_first, greatest_is_first] = &mut self.is_first;
        let (read, is_first) = match from {
            End::Least => (&mut self.front, least_is_first),
            End::Greatest => (&mut self.back, greatest_is_first),
        };
        let is_first = std::mem::take(is_first);
        let mut entries = Vec::from(std::mem::take(read));
        entries.clear();
        let bounds = (self.lower, self.upper);
        let fence = self.leaves.read(from, is_first, bounds, &mut entries);
        *read = entries.into();
        match (fence, from) {
            (Some(fence), End::Least) => self.lower = Bound::Included(fence),
            (Some(fence), End::Greatest) => self.upper = Bound::Excluded(fence),
            (None, _) => self.is_read = true,
        }
        self.note_end();
    }
}

/// The bounds of a range of keys, in words.
pub(crate) fn words_of<K: Key>(bounds: impl RangeBounds<K>) -> (Bound<K::Words>, Bound<K::Words>) {
    let to_words = |key: &K| key.to_words();
    (
        bounds.start_bound().map(to_words),
        bounds.end_bound().map(to_words),
    )
}

/// The least and the greatest key between the bounds; none if there is none.
pub(crate) fn inclusive<W: Words>((lower, upper): (Bound<W>, Bound<W>)) -> Option<(W, W)> {
    let start = match lower {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.successor()?,
        Bound::Unbounded => W::MIN,
    };
    let end = match upper {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.predecessor()?,
        Bound::Unbounded => W::MAX,
    };
    (start <= end).then_some((start, end))
}

/// Whether no key lies between the bounds, whatever the keys.
pub(crate) fn is_empty<W: Words>(lower: Bound<W>, upper: Bound<W>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, Bound::Excluded(upper)) => upper == W::MIN,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower >= upper,
    }
}

impl<K: Key> Iterator for Range<'_, K> {
    type Item = (K, u64);

    fn next(&mut self) -> Option<(K, u64)> {
        loop {
            if let Some((words, value)) = self.front.pop_front() {
                return Some((K::from_words(words), value));
            }
            if self.is_read {
                let (words, value) = self.back.pop_front()?;
                return Some((K::from_words(words), value));
            }
            self.read(End::Least);
        }
    }
}

impl<K: Key> DoubleEndedIterator for Range<'_, K> {
    fn next_back(&mut self) -> Option<(K, u64)> {
        loop {
            if let Some((words, value)) = self.back.pop_back() {
                return Some((K::from_words(words), value));
            }
            if self.is_read {
                let (words, value) = self.front.pop_back()?;
                return Some((K::from_words(words), value));
            }
            self.read(End::Greatest);
        }
    }
}

impl<K: Key> std::iter::FusedIterator for Range<'_, K> {}

impl<K: Key> fmt::Debug for Range<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("lower", &self.lower.map(K::from_words))
            .field("upper", &self.upper.map(K::from_words))
            .finish_non_exhaustive()
    }
}
