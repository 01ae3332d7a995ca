//! The interface between a tree and its runs, whatever they hold.

use std::ops::Bound;

use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use crate::run::{Merge, Run, RunEdge, RunOptions, RunReader};
use bedload_pages::{PageId, PageRead, PageStore, Result};

/// A kind of runs: how they are read and merged. A tree moves runs about and never looks into them.
///
/// Every [`RowLayout`] is one, whose runs are those of [`run`](crate::run). Another kind may keep
/// its entries in another form, on pages of its own; it describes a run with the same [`Run`].
pub trait Runs<O: KeyOrder>: Clone {
    /// A merge under way.
    type Merge<'t, S>: RunMerge
    where
        Self: 't,
        O: 't,
        S: PageStore + 't;

    /// The shape of rows that the meta page keeps, so that a tree is not opened with runs of
    /// another kind.
    fn form(&self) -> RowForm;

    /// Whether a tree whose meta page keeps this shape has runs of this kind.
    fn admits(&self, form: RowForm) -> bool {
        form == self.form()
    }

    /// The most pages of a run: a merge whose output needs more of them gives several runs.
    fn pages_max<S: PageRead>(&self, _store: &S) -> u32 {
        u32::MAX
    }

    /// All pages of a run.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    fn pages<S: PageRead>(&self, run: &TreeRun<'_, O, S>) -> Result<Vec<PageId>>;

    /// About how many entries of a run lie before a position.
    ///
    /// # Errors
    ///
    /// As for [`pages`](Self::pages).
    fn estimate_rank<S: PageRead>(&self, run: &TreeRun<'_, O, S>, position: Position<'_>) -> Result<u64>;

    /// Begins to merge slices of runs, the newest first. With `is_last` no older entries are left
    /// below.
    ///
    /// # Errors
    ///
    /// As for [`pages`](Self::pages).
    fn merge<'t, S: PageStore>(
        &'t self,
        newest_first: &[RunSlice<'_, 't, O, S>],
        target: MergeTarget<'t, O, S>,
    ) -> Result<Self::Merge<'t, S>>;

    /// Reads a whole run and reports its damage. Its entries should lie from the first of two
    /// positions, inclusive, to the second, exclusive.
    ///
    /// # Errors
    ///
    /// As for [`pages`](Self::pages).
    fn check<S: PageRead>(
        &self,
        run: &TreeRun<'_, O, S>,
        between: (Option<Position<'_>>, Option<Position<'_>>),
    ) -> Result<Vec<RunProblem>>;
}

/// Something wrong with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProblem {
    /// The page where it is.
    pub page: PageId,
    /// The damage.
    pub what: String,
}

/// A merge of runs into others, one after another.
pub trait RunMerge {
    /// Takes up to `entries` entries further; whether there is more to do.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged. The merge can only be given up then.
    fn advance(&mut self, entries: u64) -> Result<bool>;

    /// Entries taken so far.
    fn taken(&self) -> u64;

    /// Writes the next entry's key to `key` and returns its tie; `None` after the last.
    fn next_position(&self, key: &mut Vec<u8>) -> Option<u64>;

    /// Ends the present run and begins another. Returns the runs since the last cut, in order: one,
    /// or more if one cannot have [so many pages](Runs::pages_max); none if they have no entries.
    ///
    /// # Errors
    ///
    /// As for [`advance`](Self::advance).
    fn cut(&mut self) -> Result<Vec<Run>>;

    /// Ends the last run; returns the runs since the last cut, as [`cut`](Self::cut) does.
    ///
    /// # Errors
    ///
    /// As for [`advance`](Self::advance).
    fn finish(self) -> Result<Vec<Run>>;
}

/// The shape of rows, as a tree's meta page keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowForm {
    /// Bytes of the fixed columns of a row.
    pub fixed_bytes: u32,
    /// Columns of variable width.
    pub variable_columns: u32,
}

/// A run of a tree, and what it takes to read it.
#[derive(Debug)]
pub struct TreeRun<'t, O, S> {
    /// The store that keeps its pages.
    pub store: &'t S,
    /// The order of its keys.
    pub order: &'t O,
    /// How it was built.
    pub options: RunOptions,
    /// The run.
    pub run: Run,
}

/// Entries of a run between two positions.
#[derive(Debug)]
pub struct RunSlice<'p, 't, O, S> {
    /// The run.
    pub run: TreeRun<'t, O, S>,
    /// Where the slice begins.
    pub from: Bound<Position<'p>>,
    /// Where it ends.
    pub to: Bound<Position<'p>>,
}

/// Where a merge writes to.
#[derive(Debug)]
pub struct MergeTarget<'t, O, S> {
    /// The store.
    pub store: &'t S,
    /// The order of keys.
    pub order: &'t O,
    /// How runs are built.
    pub options: RunOptions,
    /// Whether no older entries are left below, so that tombstones have nothing left to say.
    pub is_last: bool,
}

impl<'t, O: KeyOrder, S: PageRead> TreeRun<'t, O, S> {
    fn reader<L: RowLayout>(&self, layout: &L) -> RunReader<O, L, &'t S> {
        RunReader::new(
            self.store,
            self.order.clone(),
            layout.clone(),
            self.options,
            self.run,
        )
    }
}

impl<O: KeyOrder, L: RowLayout> Runs<O> for L {
    type Merge<'t, S>
        = Merge<'t, O, L, S>
    where
        O: 't,
        S: PageStore + 't;

    fn form(&self) -> RowForm {
        RowForm {
            fixed_bytes: u32::try_from(self.fixed_len()).unwrap_or(u32::MAX),
            variable_columns: u32::try_from(self.variable_columns()).unwrap_or(u32::MAX),
        }
    }

    fn pages<S: PageRead>(&self, run: &TreeRun<'_, O, S>) -> Result<Vec<PageId>> {
        Ok(run.reader(self).pages()?.iter().collect())
    }

    fn estimate_rank<S: PageRead>(&self, run: &TreeRun<'_, O, S>, position: Position<'_>) -> Result<u64> {
        run.reader(self).estimate_rank(position)
    }

    fn merge<'t, S: PageStore>(
        &'t self,
        newest_first: &[RunSlice<'_, 't, O, S>],
        target: MergeTarget<'t, O, S>,
    ) -> Result<Merge<'t, O, L, S>> {
        let cursors = newest_first
            .iter()
            .map(|slice| slice.run.reader(self).range(slice.from, slice.to))
            .collect::<Result<_>>()?;
        // A lookup that reaches a leaf usually finds its entry there.
        let options = if target.is_last {
            target.options.filter_bits(0)
        } else {
            target.options
        };
        let order = target.order.clone();
        Merge::of_cursors(
            target.store,
            cursors,
            order,
            self.clone(),
            options,
            target.is_last,
        )
    }

    fn check<S: PageRead>(
        &self,
        run: &TreeRun<'_, O, S>,
        between: (Option<Position<'_>>, Option<Position<'_>>),
    ) -> Result<Vec<RunProblem>> {
        let order = run.order;
        let point = |position: Option<Position<'_>>| {
            position
                .map(|at| Point::new(order, at).map(Point::to_buf))
                .transpose()
        };
        let (low, high) = (point(between.0)?, point(between.1)?);
        let reader = run.reader(self);
        reader.check_nodes()?;
        let has_filter = run.run.filter.is_some();
        let mut cursor = reader.range(Bound::Unbounded, Bound::Unbounded)?;
        let mut entries = 0_u64;
        let mut last: Option<PointBuf> = None;
        let mut last_hash = None;
        let mut scratch = Vec::new();
        let mut wrong = None;
        while let Some(entry) = cursor.next_entry()? {
            entries += 1;
            let (prefix, tie) = (entry.prefix(), entry.tie());
            let key: &[u8] = if order.prefix_is_exact() && !has_filter {
                &[]
            } else {
                entry.key(&mut scratch)
            };
            if has_filter && let Some(hash) = order.hash(key).filter(|&hash| last_hash != Some(hash)) {
                last_hash = Some(hash);
                if !reader.may_contain(hash)? {
                    wrong = Some("its run's filter lacks a key");
                }
            }
            let key = if order.prefix_is_exact() { &[] } else { key };
            if !order.prefix_is_exact() && order.prefix(key) != prefix {
                wrong = Some("its run has a prefix that is not the key's");
            }
            let point = Point { prefix, tie, key };
            let compare = |other: &PointBuf| other.as_point().cmp(order, &point);
            if last.as_ref().is_some_and(|last| compare(last).is_ge()) {
                wrong = Some("its run's entries do not ascend");
            }
            let is_below = low.as_ref().is_some_and(|low| compare(low).is_gt());
            if is_below || high.as_ref().is_some_and(|high| compare(high).is_le()) {
                wrong = Some("its run has entries outside of the node's interval");
            }
            let edge = RunEdge { prefix, tie };
            let (first_edge, last_edge) = (run.run.first, run.run.last);
            let is_outside = if order.prefix_is_exact() {
                edge < first_edge || edge > last_edge
            } else {
                prefix < first_edge.prefix || prefix > last_edge.prefix
            };
            if is_outside {
                wrong = Some("its run has entries outside of its edges");
            }
            match &mut last {
                Some(last) => last.set(point),
                None => last = Some(point.to_buf()),
            }
        }
        // An interrupted vacuum has deleted entries that it did not count.
        if entries > run.run.entries {
            wrong = Some("its run has more entries than its node says");
        }
        let problem = |what: &str| RunProblem {
            page: run.run.root,
            what: what.into(),
        };
        Ok(wrong.into_iter().map(problem).collect())
    }
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> RunMerge for Merge<'_, O, L, S> {
    fn advance(&mut self, entries: u64) -> Result<bool> {
        Self::advance(self, entries)
    }

    fn taken(&self) -> u64 {
        Self::taken(self)
    }

    fn next_position(&self, key: &mut Vec<u8>) -> Option<u64> {
        Self::next_position(self, key)
    }

    fn cut(&mut self) -> Result<Vec<Run>> {
        Ok(Self::cut(self)?.into_iter().collect())
    }

    fn finish(self) -> Result<Vec<Run>> {
        Ok(Self::finish(self)?.into_iter().collect())
    }
}
