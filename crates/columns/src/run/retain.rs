//! Removes rows from a run.

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
    /// The leaf stays as it is.
    Kept,
    /// All of its rows are removed, without reading it.
    Dropped,
    /// Some of its rows may be removed.
    Sifted,
}

/// The result of removing rows from a run.
#[derive(Debug)]
pub struct Retained {
    /// The replacement; `None` if no row is left.
    pub run: Option<Run>,
    /// Pages of the old run alone, to be retired once it is replaced.
    pub retired: Vec<PageId>,
    /// Number of removed rows that were visible to readers.
    pub removed: u64,
}

/// Rows removed from a leaf.
#[derive(Debug, Clone, Copy, Default)]
struct Sifted {
    gone: u64,
    /// Those visible to readers.
    visible: u64,
}

/// The ranges of a run that are visible to readers.
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

    /// Returns the visible rows of a leaf; `None` if the leaf must be read to tell.
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
    /// Removes rows from a run of which the `visible` ranges are visible to readers: leaves that
    /// `judge` drops, and the rows that `is_gone` names in leaves that it sifts. Kept leaves are
    /// neither moved nor read; returns `None` if all are kept.
    ///
    /// Nothing changes until the run is replaced. Reads the index, and reads and rewrites each
    /// sifted leaf.
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
                    let leaves_to_come = index.leaves().len() - number - 1;
                    let sifted = self.sift(&leaf, (&mut is_gone, &visible), (&mut writer, leaves_to_come))?;
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
        let run = writer.finish()?.pop();
        Ok(Some(Retained {
            run,
            retired,
            removed,
        }))
    }

    /// Passes the remaining rows of a leaf to the writer, unless all remain.
    fn sift<G: Deref<Target = [u8]>, S: PageStore>(
        &self,
        leaf: &RunLeaf<G>,
        (is_gone, visible): (&mut impl FnMut(Place) -> bool, &Visible),
        (writer, leaves_to_come): (&mut ColumnRunWriter<'_, S>, usize),
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
        let left = (0..leaf.columns()).map(column).collect::<Result<_>>()?;
        writer.push_left(left, leaves_to_come)?;
        Ok(sifted)
    }
}
