//! Many entries of a cursor at a time.

use super::{Cursor, CursorState};
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::run::{RunEdge, RunEntry};
use bedload_pages::{PageRead, Result};

impl<O: KeyOrder, L: RowLayout, S: PageRead> Cursor<'_, O, L, S> {
    /// Shows up to `most` of the next entries in the cursor's direction to `visit`; returns how
    /// many there were, which are fewer at the end of the range.
    ///
    /// # Errors
    ///
    /// As for [`next_entry`](Self::next_entry); entries that were shown are passed.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_trees::{Entry, NoRow, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
    /// let mut batch = tree.batch()?;
    /// for key in (0..100).map(U64Order::key) {
    ///     batch.put(Entry { key: &key, tie: 0, row: Row::default() })?;
    /// }
    /// batch.publish()?;
    /// let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    /// let mut prefixes = Vec::new();
    /// assert_eq!(cursor.next_entries(70, |entry| prefixes.push(entry.prefix()))?, 70);
    /// assert_eq!(cursor.next_entries(70, |entry| prefixes.push(entry.prefix()))?, 30);
    /// assert!(prefixes.into_iter().eq(0..100));
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_entries(&mut self, most: usize, mut visit: impl FnMut(RunEntry<'_, O, L>)) -> Result<usize> {
        let mut count = 0;
        while count < most {
            match self.next_entry()? {
                Some(entry) => visit(entry),
                None => break,
            }
            count += 1;
            count += self.pass_following(most - count, &mut visit);
        }
        Ok(count)
    }

    /// Appends the positions of the next entries in the cursor's direction to `positions`, as
    /// prefix and tie: `most` of them or some more, fewer at the end of the range. Where prefixes
    /// are exact, and for callers that need no rows.
    ///
    /// Cheaper than asking for entries one by one, as it sorts all that the runs have unpacked.
    ///
    /// # Errors
    ///
    /// As for [`next_entry`](Self::next_entry); what was appended is passed.
    ///
    /// # Panics
    ///
    /// If prefixes are not exact.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_trees::{Entry, NoRow, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
    /// for first in [0, 1] {
    ///     let mut batch = tree.batch()?;
    ///     for key in (first..100).step_by(2) {
    ///         batch.put(Entry { key: &U64Order::key(key), tie: 7, row: Row::default() })?;
    ///     }
    ///     batch.publish()?;
    /// }
    /// let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
    /// let mut positions = Vec::new();
    /// while cursor.next_positions(10, &mut positions)? >= 10 {}
    /// assert!(positions.into_iter().eq((0..100).map(|key| (key, 7))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_positions(&mut self, most: usize, positions: &mut Vec<(u64, u64)>) -> Result<usize> {
        assert!(
            self.tree.order.prefix_is_exact(),
            "a position is a prefix and a tie where prefixes are exact"
        );
        let begin = positions.len();
        while positions.len() - begin < most {
            match self.state {
                CursorState::Over => break,
                CursorState::Before => {
                    let interval = self.descend()?;
                    self.enter(interval)?;
                }
                CursorState::Within
                    if self
                        .sources
                        .iter()
                        .any(|source| source.cursor.run().tombstones > 0) =>
                {
                    match self.next_entry()? {
                        Some(entry) => positions.push((entry.prefix(), entry.tie())),
                        None => break,
                    }
                }
                CursorState::Within => match self.least() {
                    Ok(Some(_)) => self.gather(positions),
                    Ok(None) => self.leave(),
                    Err((run, error)) => self.descend_unless_named(&run, error)?,
                },
            }
        }
        Ok(positions.len() - begin)
    }

    /// Passes the unpacked entries up to where some run may have others, and appends them to
    /// `positions`, in order.
    fn gather(&mut self, positions: &mut Vec<(u64, u64)>) {
        let begin = positions.len();
        // The first of where they end, and of where those begin that were not read.
        let (mut last, mut unread) = (None, None);
        let nearer = |edge: RunEdge, other: Option<RunEdge>| match other {
            Some(other) if self.is_ascending => edge.min(other),
            Some(other) => edge.max(other),
            None => edge,
        };
        for (source, &head) in self.sources.iter().zip(&self.heads) {
            if !source.is_read {
                unread = Some(nearer(head, unread));
            } else if let Some(edge) = source.cursor.last_at_hand() {
                last = Some(nearer(edge, last));
            }
        }
        for (source, head) in self.sources.iter_mut().zip(&mut self.heads) {
            if source.is_read {
                source.cursor.pass_positions(last, unread, positions);
                match source.cursor.edge() {
                    Some(edge) => *head = edge,
                    None => self.has_unfilled = true,
                }
            }
        }
        let gathered = &mut positions[begin..];
        // Each run's are sorted, which the stable sort makes use of.
        if self.is_ascending {
            gathered.sort();
        } else {
            gathered.sort_by(|a, b| b.cmp(a));
        }
        let mut kept = begin;
        for at in begin..positions.len() {
            if at == begin || positions[at] != positions[kept - 1] {
                positions[kept] = positions[at];
                kept += 1;
            }
        }
        positions.truncate(kept);
        if let Some(&(prefix, tie)) = positions[begin..].last() {
            self.set_passed(prefix, tie);
        }
    }

    /// Shows up to `most` entries to `visit` that follow the one that was given last, are at hand
    /// in the same source and come before those of all others; returns how many.
    fn pass_following(&mut self, most: usize, visit: &mut impl FnMut(RunEntry<'_, O, L>)) -> usize {
        let Some(passed) = self.passed else { return 0 };
        let (before, after) = self.heads.split_at(passed);
        let others = before.iter().chain(&after[1..]).copied();
        let limit = if self.is_ascending {
            others.min()
        } else {
            others.max()
        };
        let mut count = 0;
        let cursor = &mut self.sources[passed].cursor;
        let taken = cursor.pass_before(limit, most, |entry| {
            count += usize::from(!entry.is_tombstone());
            if !entry.is_tombstone() {
                visit(entry);
            }
        });
        if taken > 0 {
            self.note_passed(passed);
        }
        count
    }
}
