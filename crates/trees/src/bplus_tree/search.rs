//! Where a search goes, and searching a node.

use std::cmp::Ordering;

use super::node::{Branch, Node};
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::{Cut, Point};
use bedload_pages::Result;

/// Which leaf a reader goes to.
#[derive(Debug, Clone, Copy)]
pub(super) enum DescentTarget<'k> {
    Lowest,
    /// The leaf that covers the point.
    At(Point<'k>),
    /// The leaf that covers what lies just below the point.
    Below(Point<'k>),
    Highest,
}

/// Below this many prefixes counting beats halving: they are two cache lines.
const COUNT_LEN: usize = 16;

/// How many of `prefixes`, which ascend, are less than `prefix`. No branch depends on them.
fn lower_bound(prefixes: &[[u8; 8]], prefix: u64) -> usize {
    let mut base = 0;
    let mut len = prefixes.len();
    while len > COUNT_LEN {
        let half = len / 2;
        let is_less = u64::from_le_bytes(prefixes[base + half - 1]) < prefix;
        base = if is_less { base + half } else { base };
        len -= half;
    }
    base + prefixes[base..base + len]
        .iter()
        .filter(|&&bytes| u64::from_le_bytes(bytes) < prefix)
        .count()
}

/// How many of `prefixes`, which ascend, are not greater than `prefix`.
fn upper_bound(prefixes: &[[u8; 8]], prefix: u64) -> usize {
    prefix
        .checked_add(1)
        .map_or(prefixes.len(), |next| lower_bound(prefixes, next))
}

impl<L: RowLayout> Node<'_, L> {
    /// The first entry from `first` on that does not lie below `point`, and whether it lies at it.
    pub(super) fn find(
        &self,
        order: &impl KeyOrder,
        first: usize,
        point: &Point<'_>,
    ) -> Result<(usize, bool)> {
        let prefixes = &self.prefixes()[first.min(self.count())..];
        let start = first + lower_bound(prefixes, point.prefix);
        if start >= self.count() || self.prefix(start) != point.prefix {
            return Ok((start, false));
        }
        let is_exact = order.prefix_is_exact();
        if is_exact && !self.shape().ties {
            return Ok((start + usize::from(point.tie > 0), point.tie == 0));
        }
        let (mut low, mut high) = (start, first + upper_bound(prefixes, point.prefix));
        let mut is_at = false;
        while low < high {
            let middle = low.midpoint(high);
            let by_key = if is_exact {
                Ordering::Equal
            } else {
                order.compare(self.key(middle)?, point.key)
            };
            match by_key.then(self.tie(middle).cmp(&point.tie)) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => (high, is_at) = (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, is_at))
    }

    /// [`find`](Self::find) from the first entry on, for a point that probably lies behind the last.
    pub(super) fn find_from_end(&self, order: &impl KeyOrder, point: &Point<'_>) -> Result<(usize, bool)> {
        match self.prefixes().last() {
            Some(&last) if u64::from_le_bytes(last) < point.prefix => Ok((self.count(), false)),
            _ => self.find(order, 0, point),
        }
    }

    /// The number of entries before `cut`.
    pub(super) fn rank(&self, order: &impl KeyOrder, cut: &Cut) -> Result<usize> {
        let (index, is_at) = self.find(order, 0, &cut.point.as_point())?;
        Ok(index + usize::from(is_at && cut.behind))
    }

    /// Whether `point` lies below the high fence.
    pub(super) fn covers(&self, order: &impl KeyOrder, point: &Point<'_>) -> bool {
        self.high()
            .is_none_or(|high| point.cmp(order, &high) == Ordering::Less)
    }
}

impl Branch<'_> {
    /// The child that covers `point`.
    pub(super) fn slot_of(&self, order: &impl KeyOrder, point: &Point<'_>) -> Result<usize> {
        let (index, is_at) = self.find(order, 1, point)?;
        Ok(if is_at { index } else { index - 1 })
    }

    /// The child that covers what lies just below `point`.
    pub(super) fn slot_below(&self, order: &impl KeyOrder, point: &Point<'_>) -> Result<usize> {
        Ok(self.find(order, 1, point)?.0 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_agree_with_a_linear_count() {
        for len in 0..if cfg!(miri) { 20 } else { 100_u64 } {
            let prefixes: Vec<[u8; 8]> = (0..len).map(|i| (i / 3 * 2).to_le_bytes()).collect();
            for prefix in (0..70).chain([u64::MAX]) {
                let count = |keep: &dyn Fn(u64) -> bool| {
                    prefixes
                        .iter()
                        .filter(|&&bytes| keep(u64::from_le_bytes(bytes)))
                        .count()
                };
                assert_eq!(lower_bound(&prefixes, prefix), count(&|other| other < prefix));
                assert_eq!(upper_bound(&prefixes, prefix), count(&|other| other <= prefix));
            }
        }
    }
}
