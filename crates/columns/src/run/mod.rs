//! Runs of compressed column leaves, for a [`BeTree`](bedload_trees::be_tree::BeTree).
//!
//! A run is a sequence of leaves, ordered by (time, sequence number), and an index of them. Each
//! leaf is one long page of the store, and so is the index, the run's root, so finding a leaf reads
//! one page regardless of the run's length. Leaves name their table and run, so that a stray leaf
//! can be identified. `docs/format.md` describes the bytes.
//!
//! An index names about 300,000 leaves at most. A writer or a merge that has more of them ends the
//! run there and begins another one.
//!
//! Rows are unique by (time, sequence number) and never replaced: runs have no tombstones, and a
//! merge takes every row of its inputs. [`ColumnRuns::retain`] removes deleted rows from a run, and
//! leaves unaffected leaves where they are.
//!
//! | | |
//! |---|---|
//! | [`ColumnRuns`] | which columns the runs have, as the tree wants to know it |
//! | [`ColumnRunWriter`] | writes a run, or several one after another |
//! | [`RunIndex`], [`RunIndexPage`], [`RunLeaf`] | read one |
//! | [`Stretches`] | rows of several sets of columns, put together in a given order |

mod check;
mod index;
mod kind;
mod leaf;
mod leaf_maker;
mod merge;
mod new_leaf;
mod place;
mod point;
mod retain;
mod stretches;
mod tree;
mod writer;

pub use index::{LeafEntry, RunIndex, RunIndexPage};
pub use kind::ColumnRuns;
pub use leaf::{LeafHeader, RunLeaf};
pub use merge::ColumnMerge;
pub use place::{Place, Places, times};
pub use point::RunRow;
pub use retain::{LeafFate, Retained};
pub use stretches::{ColumnSet, Stretches};
pub use writer::ColumnRunWriter;

use bedload_pages::PageId;

/// Returns the error of a page whose leaf or index is malformed.
fn corrupt(page: PageId, reason: &'static str) -> bedload_pages::Error {
    bedload_pages::Error::Corrupt { page, reason }
}

/// Converts the error of a leaf on a page.
fn of_leaf(page: PageId, error: crate::Error) -> bedload_pages::Error {
    match error {
        crate::Error::Damaged { what } => corrupt(page, what),
        other => bedload_pages::Error::store(other),
    }
}
