//! The check of a run.

use bedload_pages::{PageRead, Result};
use bedload_trees::run::Run;

use super::index::RunIndex;
use super::kind::ColumnRuns;
use super::leaf::RunLeaf;
use super::place::{Place, Places};

/// Reads a run, every value of it, and says what is wrong with it.
pub(super) fn check<S: PageRead>(
    store: &S,
    run: &Run,
    kind: ColumnRuns,
    (low, high): (Option<Place>, Option<Place>),
) -> Result<Vec<String>> {
    let index = RunIndex::read(store, run, kind.owner)?;
    let mut wrong = Vec::new();
    let rows: u64 = index.leaves().iter().map(|leaf| u64::from(leaf.rows)).sum();
    if rows != run.entries {
        wrong.push(format!(
            "its run has {rows} rows, and its node says {}",
            run.entries
        ));
    }
    let (first, last) = (Place::of_edge(run.first), Place::of_edge(run.last));
    let ends = index.leaves().first().zip(index.leaves().last());
    if ends.is_some_and(|(begin, end)| begin.first < first || end.last > last) {
        wrong.push("its run has rows outside of its edges".into());
    }
    if ends.is_some_and(|(begin, end)| {
        low.is_some_and(|low| begin.first < low) || high.is_some_and(|high| end.last >= high)
    }) {
        wrong.push("its run has rows outside of the node's interval".into());
    }
    for (number, entry) in index.leaves().iter().enumerate() {
        let checked = index.open(store, number).and_then(|leaf| check_leaf(&leaf, kind));
        match checked {
            Ok(problems) => {
                wrong.extend(
                    problems.map(|what| format!("leaf {number} of its run, page {}, {what}", entry.page)),
                );
            }
            Err(error) => wrong.push(format!("leaf {number} of its run: {error}")),
        }
    }
    Ok(wrong)
}

/// What is wrong with a leaf, beside what it takes to open it.
fn check_leaf<G: std::ops::Deref<Target = [u8]>>(
    leaf: &RunLeaf<G>,
    kind: ColumnRuns,
) -> Result<impl Iterator<Item = &'static str> + use<G>> {
    let rows = 0..leaf.rows();
    for column in 0..leaf.columns() {
        leaf.decode(column, rows.clone())?;
    }
    let header = leaf.header();
    let mut wrong = Vec::new();
    if leaf.columns() != kind.columns + 1 {
        wrong.push("has not the columns of its table");
        return Ok(wrong.into_iter());
    }
    let places = Places::new(leaf.times(kind.time, rows.clone())?, leaf.sequences(rows)?);
    let is_as_said = places.as_ref().is_some_and(|places| {
        places.ascend()
            && (places.get(0), places.get(places.len() - 1)) == (header.first, header.last)
            && places.sequence_bounds() == Some((header.min_sequence, header.max_sequence))
    });
    if !is_as_said {
        wrong.push("has rows out of order, or others than its header says");
    }
    Ok(wrong.into_iter())
}
