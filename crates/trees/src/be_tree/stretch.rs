//! Cutting a range into stretches, which several readers read at the same time.

use std::ops::Bound;

use super::descend::IntervalTarget;
use super::tree::BeTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use bedload_pages::{PageRead, Result};

impl<O: KeyOrder, L: RowLayout, S: PageRead> BeTree<O, L, S> {
    /// Where to end a stretch that begins at a bound and takes up to `leaves` leaves of each run:
    /// puts the key into `key` and returns the tie. `None` if the range is to be read to its end.
    ///
    /// Ascending, a stretch is what lies before its end; descending, it is what lies at its end or
    /// after it. An end lies strictly beyond the beginning, and is never beyond the leaf interval
    /// in which the stretch begins. It is a cut of the order, not of the tree: stretches that
    /// follow one another have each position once, whatever changes meanwhile.
    ///
    /// Reads one page for each level of the tree, and for each level above the leaves of each run.
    ///
    /// # Errors
    ///
    /// The key of the bound has not the order's width, the store failed, or a page is damaged.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_trees::{Entry, NoRow, Position, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
    /// let mut batch = tree.batch()?;
    /// for key in 0..50_000_u64 {
    ///     batch.put(Entry { key: &U64Order::key(key * key), tie: 0, row: Row::default() })?;
    /// }
    /// batch.publish()?;
    /// let (mut stretches, mut count) = (0, 0);
    /// let (mut begin, mut end) = (U64Order::key(0).to_vec(), Vec::new());
    /// loop {
    ///     let from = Bound::Included(Position { key: &begin, tie: 0 });
    ///     let tie = tree.stretch_end(from, true, 4, &mut end)?;
    ///     let to = tie.map_or(Bound::Unbounded, |tie| Bound::Excluded(Position { key: &end, tie }));
    ///     let mut cursor = tree.range(from, to)?;
    ///     while cursor.next_entry()?.is_some() {
    ///         count += 1;
    ///     }
    ///     stretches += 1;
    ///     if tie.is_none() {
    ///         break;
    ///     }
    ///     std::mem::swap(&mut begin, &mut end);
    /// }
    /// assert_eq!(count, 50_000);
    /// assert!(stretches > 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stretch_end(
        &self,
        begin: Bound<Position<'_>>,
        is_ascending: bool,
        leaves: usize,
        key: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let order = &self.order;
        let (begin, is_included) = match begin {
            Bound::Unbounded => (None, true),
            Bound::Included(position) => (Some(Point::new(order, position)?), true),
            Bound::Excluded(position) => (Some(Point::new(order, position)?), false),
        };
        let target = match (begin, is_ascending) {
            (None, true) => IntervalTarget::First,
            (None, false) => IntervalTarget::Last,
            (Some(point), false) if !is_included => IntervalTarget::Before(point),
            (Some(point), _) => IntervalTarget::At(point),
        };
        let interval = self.interval(target)?;
        let counts_equal = is_ascending || is_included;
        // A run that cannot be read was merged away, or is for the reader of the stretch to report.
        let in_runs = interval.runs.iter().filter_map(|live| {
            let reader = self.reader(live.run);
            let end = reader.leaves_beyond(begin, counts_equal, is_ascending, leaves);
            end.ok().flatten()
        });
        let fence = if is_ascending { interval.high } else { interval.low };
        let is_before = |a: &PointBuf, b: Point<'_>| {
            let ordering = a.as_point().cmp(order, &b);
            if is_ascending {
                ordering.is_lt()
            } else {
                ordering.is_gt()
            }
        };
        let lies_beyond = |end: &PointBuf| {
            begin.is_none_or(|begin| {
                let ordering = end.as_point().cmp(order, &begin);
                if is_ascending {
                    ordering.is_gt()
                } else {
                    ordering.is_lt()
                }
            })
        };
        let nearest = in_runs.chain(fence).filter(lies_beyond).reduce(|nearest, end| {
            if is_before(&end, nearest.as_point()) {
                end
            } else {
                nearest
            }
        });
        Ok(nearest.map(|end| {
            let mut scratch = Vec::new();
            key.clear();
            key.extend_from_slice(self.position(&end, &mut scratch).key);
            end.tie
        }))
    }
}
