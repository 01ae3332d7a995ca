//! Merging runs into one.

use std::cmp::Ordering;
use std::ops::Bound;

use super::builder::RunBuilder;
use super::cursor::{RunCursor, RunReader};
use super::shape::Shape;
use super::{Run, RunConfig};
use crate::paged::{KeyOrder, PageStore, Result, RowLayout};

/// Makes one run of several. Of entries of one key and tie the one of the newest run counts; tombstones stay, unless
/// `is_last`: with no older run behind them they have nothing left to say.
///
/// `None` if nothing is left.
///
/// # Errors
///
/// The store failed, or a page is damaged. The new run's pages are then leaks until the store is swept.
pub fn merge<O: KeyOrder, L: RowLayout, S: PageStore>(
    store: &S,
    newest_first: &[RunReader<O, L, &S>],
    order: O,
    layout: L,
    config: RunConfig,
    is_last: bool,
) -> Result<Option<Run>> {
    let mut merge = Merge::new(store, newest_first, order, layout, config, is_last)?;
    while merge.advance(u64::MAX)? {}
    merge.finish()
}

/// A merge under way, which goes on for as many entries as it is told to.
pub struct Merge<'s, O, L, S: PageStore> {
    order: O,
    shape: Shape<L>,
    /// The newest first.
    sources: Vec<RunCursor<'s, O, L, &'s S>>,
    builder: RunBuilder<'s, O, L, S>,
    is_last: bool,
}

impl<'s, O: KeyOrder, L: RowLayout, S: PageStore> Merge<'s, O, L, S> {
    /// Begins to merge; see [`merge`].
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn new(
        store: &'s S,
        newest_first: &'s [RunReader<O, L, &'s S>],
        order: O,
        layout: L,
        config: RunConfig,
        is_last: bool,
    ) -> Result<Self> {
        let shape = Shape::new(layout.clone(), &order, store.payload_len(), config.ties);
        let builder = RunBuilder::new(store, order.clone(), layout, config)?;
        let mut sources = Vec::with_capacity(newest_first.len());
        for reader in newest_first {
            let mut cursor = reader.range(Bound::Unbounded, Bound::Unbounded)?;
            if cursor.fill()? {
                sources.push(cursor);
            }
        }
        Ok(Self {
            order,
            shape,
            sources,
            builder,
            is_last,
        })
    }

    /// Takes up to `entries` entries further, of all runs together; whether there is more to do.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged. The merge can only be given up then.
    pub fn advance(&mut self, entries: u64) -> Result<bool> {
        for _ in 0..entries {
            let Some(least) = self.least() else {
                return Ok(false);
            };
            let (columns, range) = self.sources[least].leaf();
            let is_tombstone = columns.numbers[self.shape.tombstones_at()][range.start] != 0;
            if !(is_tombstone && self.is_last) {
                self.builder.push_from(columns, range.start)?;
            }
            self.pass_equals(least)?;
        }
        Ok(!self.sources.is_empty())
    }

    /// The source with the least entry; of equals the newest.
    fn least(&self) -> Option<usize> {
        let mut least = 0;
        for other in 1..self.sources.len() {
            if self.compare(other, least).is_lt() {
                least = other;
            }
        }
        (!self.sources.is_empty()).then_some(least)
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let ((left, i), (right, j)) = (self.sources[a].leaf(), self.sources[b].leaf());
        let (i, j) = (i.start, j.start);
        left.prefix(i)
            .cmp(&right.prefix(j))
            .then_with(|| {
                if self.shape.keys {
                    self.order
                        .compare(left.string(&self.shape, 0, i), right.string(&self.shape, 0, j))
                } else {
                    Ordering::Equal
                }
            })
            .then_with(|| left.tie(&self.shape, i).cmp(&right.tie(&self.shape, j)))
    }

    /// Passes over the entry that was taken, and what older runs have of the same key and tie.
    fn pass_equals(&mut self, taken: usize) -> Result<()> {
        for other in (taken + 1..self.sources.len()).rev() {
            if self.compare(other, taken).is_eq() {
                self.pass(other)?;
            }
        }
        self.pass(taken)
    }

    fn pass(&mut self, source: usize) -> Result<()> {
        self.sources[source].pass();
        if !self.sources[source].fill()? {
            self.sources.remove(source);
        }
        Ok(())
    }

    /// Ends the merge, which must have nothing more to do; `None` if nothing was left.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn finish(self) -> Result<Option<Run>> {
        debug_assert!(self.sources.is_empty(), "there is more to do");
        self.builder.finish()
    }
}
