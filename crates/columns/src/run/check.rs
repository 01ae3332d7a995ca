//! Checks a run.

use std::ops::Deref;

use bedload_pages::{PageId, PageRead, Result};
use bedload_trees::be_tree::RunProblem;
use bedload_trees::run::Run;

use super::index::RunIndex;
use super::kind::ColumnRuns;
use super::leaf::RunLeaf;
use super::place::{Place, Places};

/// Reads every value of a run and reports its damage.
pub(super) fn check<S: PageRead>(
    store: &S,
    run: &Run,
    kind: ColumnRuns,
    (low, high): (Option<Place>, Option<Place>),
) -> Result<Vec<RunProblem>> {
    let index = RunIndex::read(store, run, kind.owner)?;
    let mut problems = Vec::new();
    let mut wrong = |page: PageId, what: String| problems.push(RunProblem { page, what });
    let rows: u64 = index.leaves().iter().map(|leaf| u64::from(leaf.rows)).sum();
    if rows != run.entries {
        wrong(
            run.root,
            format!("its run has {rows} rows, and its node says {}", run.entries),
        );
    }
    let (first, last) = (Place::of_edge(run.first), Place::of_edge(run.last));
    let ends = index.leaves().first().zip(index.leaves().last());
    if ends.is_some_and(|(begin, end)| begin.first < first || end.last > last) {
        wrong(run.root, "its run has rows outside of its edges".into());
    }
    if ends.is_some_and(|(begin, end)| {
        low.is_some_and(|low| begin.first < low) || high.is_some_and(|high| end.last >= high)
    }) {
        wrong(run.root, "its run has rows outside of the node's interval".into());
    }
    for (number, entry) in index.leaves().iter().enumerate() {
        let checked = index.open(store, number).and_then(|leaf| check_leaf(&leaf, kind));
        match checked {
            Ok(None) => {}
            Ok(Some(what)) => wrong(entry.page, what.into()),
            Err(bedload_pages::Error::Corrupt { page, reason }) => wrong(page, reason.into()),
            Err(error) => wrong(entry.page, error.to_string()),
        }
    }
    Ok(problems)
}

/// Checks an open leaf; returns the first fault.
fn check_leaf<G: Deref<Target = [u8]>>(leaf: &RunLeaf<G>, kind: ColumnRuns) -> Result<Option<&'static str>> {
    let rows = 0..leaf.rows();
    for column in 0..leaf.columns() {
        leaf.decode(column, rows.clone())?;
    }
    if leaf.columns() != kind.columns + 1 {
        return Ok(Some("its leaf has not the columns of its table"));
    }
    let header = leaf.header();
    let places = Places::new(leaf.times(kind.time, rows.clone())?, leaf.sequences(rows)?);
    let is_as_said = places.is_some_and(|places| {
        places.ascend()
            && (places.get(0), places.get(places.len() - 1)) == (header.first, header.last)
            && places.sequence_bounds() == Some((header.min_sequence, header.max_sequence))
    });
    Ok((!is_as_said).then_some("its leaf has rows out of order, or others than its header says"))
}
