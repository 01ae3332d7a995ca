//! Points of a tree's order, with their prefixes computed.

use std::cmp::Ordering;
use std::ops::Bound;

use super::entry::Position;
use super::key_order::KeyOrder;
use bedload_pages::Result;

/// A key and a tie with the key's prefix. Where prefixes are exact, `key` is not looked at and may
/// be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Point<'k> {
    pub(super) prefix: u64,
    pub(super) tie: u64,
    pub(super) key: &'k [u8],
}

impl<'k> Point<'k> {
    /// The point at `position`, if its key is one of the order's.
    pub(super) fn new(order: &impl KeyOrder, position: Position<'k>) -> Result<Self> {
        position.check_width(order)?;
        Ok(Self {
            prefix: order.prefix(position.key),
            tie: position.tie,
            key: position.key,
        })
    }

    pub(super) fn cmp(&self, order: &impl KeyOrder, other: &Point<'_>) -> Ordering {
        self.cmp_key(order, other).then(self.tie.cmp(&other.tie))
    }

    pub(super) fn cmp_key(&self, order: &impl KeyOrder, other: &Point<'_>) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| {
            if order.prefix_is_exact() {
                Ordering::Equal
            } else {
                order.compare(self.key, other.key)
            }
        })
    }

    pub(super) fn to_buf(self) -> PointBuf {
        PointBuf {
            prefix: self.prefix,
            tie: self.tie,
            key: self.key.to_vec(),
        }
    }
}

/// An owned [`Point`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PointBuf {
    pub(super) prefix: u64,
    pub(super) tie: u64,
    pub(super) key: Vec<u8>,
}

impl PointBuf {
    pub(super) fn as_point(&self) -> Point<'_> {
        Point {
            prefix: self.prefix,
            tie: self.tie,
            key: &self.key,
        }
    }

    /// Takes the value of `point`, reusing the allocation.
    pub(super) fn set(&mut self, point: Point<'_>) {
        self.prefix = point.prefix;
        self.tie = point.tie;
        self.key.clear();
        self.key.extend_from_slice(point.key);
    }
}

/// A cut between two entries: before every entry at the point, or behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) point: PointBuf,
    pub(super) behind: bool,
}

impl Cut {
    /// The cut at which a range with the bound `start` begins; `None` where it is unbounded.
    pub(super) fn at_start(order: &impl KeyOrder, start: Bound<Position<'_>>) -> Result<Option<Self>> {
        Self::at(order, start, false)
    }

    /// The cut at which a range with the bound `end` ends; `None` where it is unbounded.
    pub(super) fn at_end(order: &impl KeyOrder, end: Bound<Position<'_>>) -> Result<Option<Self>> {
        Self::at(order, end, true)
    }

    fn at(order: &impl KeyOrder, bound: Bound<Position<'_>>, is_end: bool) -> Result<Option<Self>> {
        let (position, behind) = match bound {
            Bound::Unbounded => return Ok(None),
            Bound::Included(position) => (position, is_end),
            Bound::Excluded(position) => (position, !is_end),
        };
        Ok(Some(Self {
            point: Point::new(order, position)?.to_buf(),
            behind,
        }))
    }

    /// The cut just before `point`.
    pub(super) fn before(point: Point<'_>) -> Self {
        Self {
            point: point.to_buf(),
            behind: false,
        }
    }

    /// Compares two cuts.
    pub(super) fn cmp(&self, order: &impl KeyOrder, other: &Self) -> Ordering {
        self.point
            .as_point()
            .cmp(order, &other.point.as_point())
            .then(self.behind.cmp(&other.behind))
    }
}
