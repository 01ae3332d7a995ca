//! Writes a run.

use arrow_array::{Array, ArrayRef};
use bedload_pages::{PageId, PageStore, Reserved, Result, RunWriter};
use bedload_trees::run::Run;

use super::index::{LeafEntry, RunIndex, describe};
use super::kind::ColumnRuns;
use super::leaf::{HEADER_BYTES, LeafHeader};
use super::new_leaf::NewLeaf;
use super::place::Place;
use super::stretches::Stretches;
use crate::column;

/// Writes rows, which come in order, as the leaves of a run, and of further runs once that has as
/// many leaves as its index can name. The pages are leaks until the runs are published, and stay
/// leaks if the writer is dropped or fails.
#[derive(Debug)]
pub struct ColumnRunWriter<'s, S: PageStore + 's> {
    store: &'s S,
    kind: ColumnRuns,
    writer: S::RunWriter<'s>,
    /// The most leaves of a run.
    leaves_max: usize,
    /// Whether the leaves that are kept name this run, so that they cannot go to another one.
    is_rewrite: bool,
    /// The first page of the present run, and its generation.
    name: Option<(PageId, u64)>,
    leaves: Vec<LeafEntry>,
    /// Runs that are complete.
    ended: Vec<Run>,
    /// Rows buffered until they fill a leaf.
    waiting: Vec<Vec<ArrayRef>>,
    waiting_rows: usize,
    waiting_bytes: usize,
    last: Option<Place>,
    rows: u64,
}

impl<'s, S: PageStore> ColumnRunWriter<'s, S> {
    /// Begins a run.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes.
    pub fn new(store: &'s S, kind: ColumnRuns) -> Result<Self> {
        Ok(Self {
            store,
            writer: store.run_writer()?,
            leaves_max: kind.leaves_max(store.payload_max()),
            kind,
            is_rewrite: false,
            name: None,
            leaves: Vec::new(),
            ended: Vec::new(),
            waiting: Vec::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            last: None,
            rows: 0,
        })
    }

    /// Begins to rewrite a run, some of whose leaves may be kept.
    pub(super) fn of_run(store: &'s S, kind: ColumnRuns, run: &Run) -> Result<Self> {
        let mut writer = Self::new(store, kind)?;
        writer.name = Some((run.first_page, run.generation));
        writer.is_rewrite = true;
        Ok(writer)
    }

    /// Appends the rows left of a leaf of the run that is rewritten; `leaves_to_come` more of its
    /// leaves follow. The run never has more leaves than before if it has no room for more.
    pub(super) fn push_left(&mut self, columns: Vec<ArrayRef>, leaves_to_come: usize) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        let most = self.leaves.len() + self.waiting_rows + rows + leaves_to_come;
        if rows == 0 || most <= self.leaves_max {
            return self.push(columns);
        }
        self.write_waiting()?;
        self.check_order(&columns)?;
        self.rows += rows as u64;
        self.write_leaf(&columns)
    }

    /// Appends a leaf that is already written.
    pub(super) fn keep(&mut self, leaf: LeafEntry) -> Result<()> {
        self.write_waiting()?;
        self.last = Some(leaf.last);
        self.leaves.push(leaf);
        Ok(())
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends rows: the table's columns, then the sequence numbers. The arrays are shared, and
    /// copied only when a leaf is made of them.
    ///
    /// # Errors
    ///
    /// The rows are out of order or do not have the table's columns; a row does not fit in a page;
    /// the store failed.
    pub fn push(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok(());
        }
        self.check_order(&columns)?;
        self.rows += rows as u64;
        self.wait(columns);
        if self.waiting_rows < self.kind.leaf_rows && self.waiting_bytes < self.kind.leaf_bytes {
            return Ok(());
        }
        let (columns, rows) = self.take_waiting()?;
        let leaf_rows = self.kind.leaf_rows_of(&columns);
        let whole = rows - rows % leaf_rows;
        for begin in (0..whole).step_by(leaf_rows) {
            self.write_leaf(&slices(&columns, begin, leaf_rows))?;
        }
        if whole < rows {
            self.wait(slices(&columns, whole, rows - whole));
        }
        Ok(())
    }

    fn wait(&mut self, columns: Vec<ArrayRef>) {
        self.waiting_rows += columns[0].len();
        self.waiting_bytes += bytes_of(&columns);
        self.waiting.push(columns);
    }

    /// Ends the last run; returns the runs in the order of their rows, none if there are no rows.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn finish(mut self) -> Result<Vec<Run>> {
        self.write_waiting()?;
        if self.leaves.is_empty() {
            return Ok(Vec::new());
        }
        self.end_run()?;
        self.writer.finish()?;
        Ok(self.ended)
    }

    /// Writes the index of the present run. The next leaf begins another one.
    fn end_run(&mut self) -> Result<()> {
        let Some((first_page, generation)) = self.name.take() else {
            return Ok(());
        };
        let leaves = std::mem::take(&mut self.leaves);
        let root = self.writer.reserve()?;
        let id = root.id;
        let index = RunIndex::encode(self.kind.owner, first_page, generation, &leaves);
        let limit_bytes = self.store.payload_max();
        if index.len() > limit_bytes {
            return Err(bedload_pages::Error::EntryTooLarge {
                len_bytes: index.len(),
                limit_bytes,
            });
        }
        self.writer.write(root, &index)?;
        self.ended.extend(describe(id, first_page, generation, &leaves));
        Ok(())
    }

    /// Writes the buffered rows, however few.
    fn write_waiting(&mut self) -> Result<()> {
        if self.waiting_rows > 0 {
            let (columns, rows) = self.take_waiting()?;
            let leaf_rows = self.kind.leaf_rows_of(&columns);
            for begin in (0..rows).step_by(leaf_rows) {
                self.write_leaf(&slices(&columns, begin, leaf_rows.min(rows - begin)))?;
            }
        }
        Ok(())
    }

    fn check_order(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let shape = |reason| bedload_pages::Error::Shape { reason };
        let places = self.kind.places(columns);
        let places = places.ok_or_else(|| shape("the rows have not the columns of the table"))?;
        if self.last.is_some_and(|before| before >= places.get(0)) || !places.ascend() {
            let position = self.rows;
            return Err(bedload_pages::Error::NotAscending { position });
        }
        self.last = Some(places.get(places.len() - 1));
        Ok(())
    }

    /// Takes the buffered rows as one set of columns, and their number.
    fn take_waiting(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        let waiting = std::mem::take(&mut self.waiting);
        let rows = std::mem::take(&mut self.waiting_rows);
        self.waiting_bytes = 0;
        let mut stretches = Stretches::new();
        for columns in waiting {
            let all = 0..columns[0].len();
            let set = stretches.add_set(columns.into());
            stretches.push_of(set, all);
        }
        stretches.fill_up();
        let columns = stretches.build().map_err(bedload_pages::Error::store)?;
        Ok((columns, rows))
    }

    /// Appends a leaf of rows after all others, which are in order.
    pub(super) fn push_leaf(&mut self, leaf: &NewLeaf) -> Result<()> {
        self.write_waiting()?;
        if self.last.is_some_and(|before| before >= leaf.first) {
            let position = self.rows;
            return Err(bedload_pages::Error::NotAscending { position });
        }
        self.last = Some(leaf.last);
        self.rows += u64::from(leaf.rows);
        self.put(leaf)
    }

    /// Writes rows as a leaf, or as several if one does not fit in a page.
    fn write_leaf(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let leaves = NewLeaf::of_rows(&self.kind, columns, self.store.payload_max())?;
        leaves.iter().try_for_each(|leaf| self.put(leaf))
    }

    /// Writes a leaf to a page.
    fn put(&mut self, leaf: &NewLeaf) -> Result<()> {
        if self.leaves.len() >= self.leaves_max && !self.is_rewrite {
            self.end_run()?;
        }
        let reserved = self.writer.reserve()?;
        let Reserved { id, generation } = reserved;
        let (first_page, generation) = *self.name.get_or_insert((id, generation));
        let entry = leaf.entry(id);
        let header = LeafHeader {
            owner: self.kind.owner,
            first_page: first_page.get(),
            generation,
            rows: entry.rows,
            first: entry.first,
            last: entry.last,
            min_sequence: entry.min_sequence,
            max_sequence: entry.max_sequence,
        };
        let mut page = Vec::with_capacity(HEADER_BYTES + leaf.bytes.len());
        header.put(leaf.bytes.len(), &mut page);
        page.extend_from_slice(&leaf.bytes);
        self.writer.write(reserved, &page)?;
        self.leaves.push(entry);
        Ok(())
    }
}

/// Returns the uncompressed bytes of columns.
pub(super) fn bytes_of(columns: &[ArrayRef]) -> usize {
    columns.iter().map(|column| column::content_bytes(column)).sum()
}

/// Returns some rows of columns, without a copy.
pub(super) fn slices(columns: &[ArrayRef], begin: usize, rows: usize) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(begin, rows)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{TimestampSecondArray, UInt64Array};
    use bedload_pages::HeapPages;

    use super::*;

    #[test]
    fn a_run_has_no_more_leaves_than_its_index_can_name() {
        let pages = HeapPages::new(4096);
        let mut writer = ColumnRunWriter::new(&pages, ColumnRuns::new(1, 1, 0)).expect("begins");
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampSecondArray::from(vec![1])),
            Arc::new(UInt64Array::from(vec![7])),
        ];
        writer.write_leaf(&columns).expect("writes");
        let leaf = writer.leaves[0];
        writer.leaves.resize(writer.leaves_max, leaf);
        writer.write_leaf(&columns).expect("writes");
        let runs = writer.finish().expect("the index of each run has its page");
        let pages: Vec<u32> = runs.iter().map(|run| run.pages).collect();
        assert!(pages[0] > 290_000 && pages[1..] == [2], "{pages:?}");
    }
}
