//! A view of a reader: the pages of a checkpoint, and the newer generations of rows.

use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

use super::catalogue::Catalogue;
use super::sparse::{BlockFiles, SparseView};
use crate::mark::Unseen;
use crate::pages::PageVersion;
use crate::rows::{BatchMemory, Deletions, Generation, Head, TableId};

/// A checkpoint and everything since.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) pages: Arc<PageVersion>,
    pub(crate) catalogue: Arc<Catalogue>,
    /// The files of sparse tables.
    pub(crate) blocks: Arc<BlockFiles>,
    /// For the batches that are read.
    pub(crate) memory: BatchMemory,
    /// Oldest first; the last one is active, the others are sealed and wait to be flushed.
    generations: Vec<Arc<Generation>>,
    /// The sequence numbers of a batch that is being written and is not in the view, though later
    /// commits may be. Empty if there is none.
    being_written: Range<u64>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("View");
        shown
            .field("checkpoint", &self.pages.number())
            .finish_non_exhaustive()
    }
}

impl View {
    pub(crate) fn new(
        pages: Arc<PageVersion>,
        catalogue: Arc<Catalogue>,
        blocks: Arc<BlockFiles>,
        memory: BatchMemory,
        active: Arc<Generation>,
    ) -> Self {
        Self {
            pages,
            catalogue,
            blocks,
            memory,
            generations: vec![active],
            being_written: 0..0,
        }
    }

    /// The view at a checkpoint, after which some of the generations are left.
    pub(crate) fn at_checkpoint(
        &self,
        pages: Arc<PageVersion>,
        catalogue: Arc<Catalogue>,
        left: &[Arc<Generation>],
    ) -> Self {
        Self {
            pages,
            catalogue,
            blocks: self.blocks.clone(),
            memory: self.memory.clone(),
            generations: left.to_vec(),
            being_written: 0..0,
        }
    }

    /// The generation that takes new rows.
    pub(crate) fn active(&self) -> &Arc<Generation> {
        self.generations
            .last()
            .expect("a view is made with an active generation and never loses it")
    }

    pub(crate) fn generations(&self) -> &[Arc<Generation>] {
        &self.generations
    }

    pub(crate) fn sealed(&self) -> &[Arc<Generation>] {
        &self.generations[..self.generations.len() - 1]
    }

    /// The view in which the active generation is sealed, as `sealed` has it, and `active` takes
    /// its place.
    pub(crate) fn sealed_before(&self, sealed: Arc<Generation>, active: Arc<Generation>) -> Self {
        let mut generations = self.generations.clone();
        generations.pop();
        generations.extend([sealed, active]);
        Self {
            pages: self.pages.clone(),
            catalogue: self.catalogue.clone(),
            blocks: self.blocks.clone(),
            memory: self.memory.clone(),
            generations,
            being_written: self.being_written.clone(),
        }
    }

    /// The view, in which the batch of some sequence numbers is being written. The one of before,
    /// if it is not in the view, never will be. Without numbers nothing changes.
    pub(crate) fn while_writing(mut self, numbers: Range<u64>) -> Self {
        if !numbers.is_empty() {
            self.being_written = numbers;
        }
        self
    }

    /// The sequence numbers of the batch that is being written.
    pub(crate) fn being_written(&self) -> &Range<u64> {
        &self.being_written
    }

    /// The sequence numbers of rows that are not in the view and may be in a later one.
    pub(crate) fn unseen(&self, visible: u64) -> Unseen {
        Unseen::new(visible, &self.being_written)
    }

    /// The heads of a table, the oldest first.
    pub(crate) fn heads(&self, table: TableId) -> impl DoubleEndedIterator<Item = Arc<Head>> {
        let generations = self.generations.iter();
        generations.filter_map(move |generation| generation.head(table))
    }

    /// Times between which all rows of an indexed table lie that were not seen at some moment; all
    /// times if some may be in pages.
    pub(crate) fn times_since(
        &self,
        table: TableId,
        unseen: Unseen,
        visible: u64,
    ) -> (Bound<i64>, Bound<i64>) {
        if unseen.least() < self.generations[0].first_sequence {
            return (Bound::Unbounded, Bound::Unbounded);
        }
        let runs = self.heads(table).flat_map(|head| head.runs(visible));
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for run in runs.filter(|run| run.sequences().end > unseen.least()) {
            let places = (0..run.len()).map(|row| run.place(row));
            for (time, _) in places.filter(|&(_, number)| unseen.has(number)) {
                (least, greatest) = (least.min(time), greatest.max(time));
            }
        }
        // Without such a row no time lies between them.
        match least <= greatest {
            true => (Bound::Included(least), Bound::Included(greatest)),
            false => (Bound::Excluded(i64::MAX), Bound::Unbounded),
        }
    }

    /// The deletions made in a table before sequence number `visible`, as one; none if there are
    /// none.
    pub(crate) fn deletions(&self, table: TableId, visible: u64) -> Option<Arc<Deletions>> {
        let mut sets = self
            .heads(table)
            .filter_map(|head| head.merged_deletions(visible));
        let first = sets.next()?;
        let Some(second) = sets.next() else {
            return Some(first);
        };
        let all: Vec<_> = [first, second].into_iter().chain(sets).collect();
        Some(Arc::new(Deletions::merge(all.iter().map(|set| &**set))))
    }

    /// Returns the sources of a sparse table's rows.
    pub(super) fn sparse(&self, table: TableId) -> SparseView {
        SparseView {
            pages: self.pages.clone(),
            blocks: self.blocks.clone(),
            memory: self.memory.clone(),
            heads: self.heads(table).collect(),
        }
    }
}
