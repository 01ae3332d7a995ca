//! Counting rows from the indexes of runs.

use std::ops::Bound;

use bedload_columns::{Place, RunIndexPage};
use bedload_pages::PageRead;
use bedload_trees::be_tree::LeafTarget;

use super::body::{Body, kind_of, open};
use crate::error::Result;
use crate::rows::Place as RowPlace;
use crate::rows::TableEntry;

/// Rows between two places.
type Bounds = (Bound<Place>, Bound<Place>);

/// How many rows of a table lie between two places: a page for each run, and one more where a run
/// begins or ends to count within a leaf.
pub(crate) fn count(
    pages: &impl PageRead,
    table: &TableEntry,
    (from, to): (Bound<RowPlace>, Bound<RowPlace>),
) -> Result<u64> {
    let tree = open(pages, table)?;
    let (from, to) = (from.map(place), to.map(place));
    let mut target = match from {
        Bound::Unbounded => LeafTarget::First,
        Bound::Included(from) | Bound::Excluded(from) => LeafTarget::At(from.edge()),
    };
    let mut rows = 0_u64;
    loop {
        let interval = tree.leaf_interval(target)?;
        let low = match (interval.low.map(Place::of_edge), from) {
            (Some(low), Bound::Included(from) | Bound::Excluded(from)) if low > from => Bound::Included(low),
            (Some(low), Bound::Unbounded) => Bound::Included(low),
            _ => from,
        };
        let high = interval.high.map(Place::of_edge);
        let ends_here = high.is_none_or(|high| !is_within(high, (Bound::Unbounded, to)));
        let until = match high {
            Some(high) if !ends_here => Bound::Excluded(high),
            _ => to,
        };
        for run in &interval.runs {
            // A damaged node may say anything.
            let in_run = count_in_run(&tree, table, run, (low, until))?;
            rows = rows.saturating_add(in_run);
        }
        match high {
            Some(high) if !ends_here => target = LeafTarget::At(high.edge()),
            _ => return Ok(rows),
        }
    }
}

fn place((time, sequence): RowPlace) -> Place {
    Place { time, sequence }
}

fn is_within(place: Place, (from, to): Bounds) -> bool {
    !is_before(place, from) && !is_behind(place, to)
}

fn is_before(place: Place, from: Bound<Place>) -> bool {
    match from {
        Bound::Unbounded => false,
        Bound::Included(from) => place < from,
        Bound::Excluded(from) => place <= from,
    }
}

fn is_behind(place: Place, to: Bound<Place>) -> bool {
    match to {
        Bound::Unbounded => false,
        Bound::Included(to) => place > to,
        Bound::Excluded(to) => place >= to,
    }
}

fn count_in_run<S: PageRead>(
    tree: &Body<S>,
    table: &TableEntry,
    run: &bedload_trees::run::Run,
    bounds: Bounds,
) -> Result<u64> {
    let (first, last) = (Place::of_edge(run.first), Place::of_edge(run.last));
    if is_behind(first, bounds.1) || is_before(last, bounds.0) {
        return Ok(0);
    }
    if is_within(first, bounds) && is_within(last, bounds) {
        return Ok(run.entries);
    }
    let kind = kind_of(table.id, &table.schema);
    let index = RunIndexPage::read(tree.store(), run, kind.owner())?;
    let mut rows = 0;
    for number in index.between(bounds.0, bounds.1)? {
        let entry = index.entry(number)?;
        if is_within(entry.first, bounds) && is_within(entry.last, bounds) {
            rows += u64::from(entry.rows);
            continue;
        }
        let leaf = index.open(tree.store(), number)?;
        rows += leaf.between(kind.time(), bounds)?.len() as u64;
    }
    Ok(rows)
}
