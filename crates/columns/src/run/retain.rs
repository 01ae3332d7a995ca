//! Taking rows out of a run.

use std::ops::Deref;

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter;
use bedload_pages::{PageId, PageStore, Result};
use bedload_trees::be_tree::EdgeRange;
use bedload_trees::run::{Run, RunEdge};

use super::corrupt;
use super::index::{LeafEntry, RunIndex};
use super::kind::ColumnRuns;
use super::leaf::RunLeaf;
use super::place::{Place, Places};
use super::writer::ColumnRunWriter;

/// A decision about a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafFate {
    /// It stays as it is.
    Kept,
    /// None of its rows is left. It is not read.
    Dropped,
    /// Some of its rows may be gone.
    Sifted,
}

/// A run without some of its rows.
#[derive(Debug)]
pub struct Retained {
    /// The run that takes its place; `None` if no row is left.
    pub run: Option<Run>,
    /// Pages that only the run as it was has: to be retired once it is replaced.
    pub retired: Vec<PageId>,
    /// How many rows are gone of those that readers looked at.
    pub removed: u64,
}

/// Rows that were taken out of a leaf.
#[derive(Debug, Clone, Copy, Default)]
struct Sifted {
    gone: u64,
    /// The part of them that readers looked at.
    visible: u64,
}

/// The ranges of a run that readers look at.
struct Visible(Vec<(Option<Place>, Option<Place>)>);

impl Visible {
    fn of_edges(ranges: &[EdgeRange]) -> Self {
        let place = |edge: Option<RunEdge>| edge.map(Place::of_edge);
        Self(
            ranges
                .iter()
                .map(|&(from, to)| (place(from), place(to)))
                .collect(),
        )
    }

    fn has(&self, place: Place) -> bool {
        let is_within = |&(from, to): &(Option<Place>, Option<Place>)| {
            from.is_none_or(|from| from <= place) && to.is_none_or(|to| place < to)
        };
        self.0.iter().any(is_within)
    }

    /// How many rows of a leaf are visible; `None` if that cannot be told without reading it.
    fn rows_of(&self, leaf: &LeafEntry) -> Option<u64> {
        let meets = |&&(from, to): &&(Option<Place>, Option<Place>)| {
            from.is_none_or(|from| from <= leaf.last) && to.is_none_or(|to| leaf.first < to)
        };
        let mut met = self.0.iter().filter(meets);
        match (met.next(), met.next()) {
            (None, _) => Some(0),
            (Some(_), None) if self.has(leaf.first) && self.has(leaf.last) => Some(leaf.rows.into()),
            _ => None,
        }
    }
}

impl ColumnRuns {
    /// Takes rows out of a run, of which readers look at the `visible` ranges: leaves that `judge` drops, and of those that it
    /// has sifted the rows that `is_gone` names.
    /// Leaves that are kept stay where they are, and are not read; `None` if all of them are.
    ///
    /// Until the run is replaced nothing has changed. Costs the index, and for each leaf that is sifted a read and a write.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn retain<S: PageStore>(
        &self,
        store: &S,
        (run, visible): (&Run, &[EdgeRange]),
        judge: impl Fn(&LeafEntry) -> LeafFate,
        mut is_gone: impl FnMut(Place) -> bool,
    ) -> Result<Option<Retained>> {
        let index = RunIndex::read(store, run, self.owner)?;
        if index.leaves().iter().all(|leaf| judge(leaf) == LeafFate::Kept) {
            return Ok(None);
        }
        let mut writer = ColumnRunWriter::of_run(store, *self, run)?;
        let visible = Visible::of_edges(visible);
        let (mut retired, mut removed) = (vec![run.root], 0);
        for (number, entry) in index.leaves().iter().enumerate() {
            match (judge(entry), visible.rows_of(entry)) {
                (LeafFate::Kept, _) => writer.keep(*entry)?,
                (LeafFate::Dropped, Some(rows)) => {
                    retired.push(entry.page);
                    removed += rows;
                }
                (LeafFate::Dropped | LeafFate::Sifted, _) => {
                    let leaf = index.open(store, number)?;
                    let sifted = self.sift(&leaf, &mut is_gone, &visible, &mut writer)?;
                    if sifted.gone == 0 {
                        writer.keep(*entry)?;
                    } else {
                        retired.push(entry.page);
                        removed += sifted.visible;
                    }
                }
            }
        }
        if retired.len() == 1 {
            return Ok(None);
        }
        let run = writer.finish()?;
        Ok(Some(Retained {
            run,
            retired,
            removed,
        }))
    }

    /// Gives the rows of a leaf that are left to the writer, unless all are.
    fn sift<G: Deref<Target = [u8]>, S: PageStore>(
        &self,
        leaf: &RunLeaf<G>,
        is_gone: &mut impl FnMut(Place) -> bool,
        visible: &Visible,
        writer: &mut ColumnRunWriter<'_, S>,
    ) -> Result<Sifted> {
        let rows = 0..leaf.rows();
        let foreign = || corrupt(leaf.page(), "it has not the columns of its table");
        let times = leaf.times(self.time, rows.clone())?;
        let places = Places::new(times, leaf.sequences(rows.clone())?).ok_or_else(foreign)?;
        let mut sifted = Sifted::default();
        let left = BooleanBuffer::collect_bool(places.len(), |row| {
            let place = places.get(row);
            let is_gone = is_gone(place);
            sifted.gone += u64::from(is_gone);
            sifted.visible += u64::from(is_gone && visible.has(place));
            !is_gone
        });
        if sifted.gone == 0 {
            return Ok(sifted);
        }
        let left = BooleanArray::new(left, None);
        let column = |column: usize| {
            let array = leaf.decode(column, rows.clone())?;
            filter(&array, &left).map_err(bedload_pages::Error::store)
        };
        writer.push((0..leaf.columns()).map(column).collect::<Result<_>>()?)?;
        Ok(sifted)
    }
}
