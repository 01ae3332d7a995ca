//! Hints about entries that readers may pass over.

use super::descend::IntervalTarget;
use super::node::may_hold;
use super::tree::BeTree;
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::{Result, VacuumStore};

/// Up to so many positions, the filters of runs are asked about each.
const FILTERED_MAX: usize = 8;

impl<O: KeyOrder, L: RowLayout, S: VacuumStore> BeTree<O, L, S> {
    /// Lets cursors that [skip dead entries](super::Cursor::skip_dead) pass over the entries at some positions, which
    /// ascend. Nothing is deleted, and hints may get lost.
    ///
    /// `is_current` is asked, for each leaf interval, when the runs to be marked are known; nothing
    /// more is marked once it says no. So a caller that gives an entry's position to another one
    /// only after that has changed marks none of the latter.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::{Entry, NoRow, Position, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
    /// let keys: Vec<[u8; 8]> = (0..100).map(U64Order::key).collect();
    /// let mut batch = tree.batch()?;
    /// for key in &keys {
    ///     batch.put(Entry { key, tie: 7, row: Row::default() })?;
    /// }
    /// batch.publish()?;
    /// let dead: Vec<Position<'_>> = keys[..60].iter().map(|key| Position { key, tie: 7 }).collect();
    /// tree.hint_dead(&dead, &mut || Ok(true))?;
    ///
    /// let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    /// cursor.skip_dead();
    /// assert_eq!(cursor.next_entry()?.map(|entry| entry.prefix()), Some(60));
    /// let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    /// assert_eq!(cursor.next_entry()?.map(|entry| entry.prefix()), Some(0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn hint_dead(
        &self,
        dead: &[Position<'_>],
        is_current: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<()> {
        let mut rest = dead;
        while let Some(&first) = rest.first() {
            let interval = self.interval(IntervalTarget::At(Point::new(&self.order, first)?))?;
            if !is_current()? {
                return Ok(());
            }
            let mut count = rest.len();
            if let Some(high) = &interval.high {
                count = 1;
                while let Some(&next) = rest.get(count)
                    && Point::new(&self.order, next)?
                        .cmp(&self.order, &high.as_point())
                        .is_lt()
                {
                    count += 1;
                }
            }
            let (here, later) = rest.split_at(count);
            for live in &interval.runs {
                let reader = self.reader(live.run);
                let mut held = Vec::with_capacity(here.len());
                for &position in here {
                    let point = Point::new(&self.order, position)?;
                    let is_filtered = || {
                        here.len() <= FILTERED_MAX
                            && (self.order.hash(position.key))
                                .is_some_and(|hash| matches!(reader.may_contain(hash), Ok(false)))
                    };
                    if may_hold(&self.order, live.edges(), &point) && !is_filtered() {
                        held.push(position);
                    }
                }
                reader.hint_dead(&held)?;
            }
            rest = later;
        }
        Ok(())
    }
}
