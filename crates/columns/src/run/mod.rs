//! Runs of compressed column leaves, for a [`BeTree`](bedload_trees::be_tree::BeTree).
//!
//! A run is a sequence of leaves, ordered by (time, sequence number), and an index of them. Each leaf is one long page of
//! the store, and so is the index, which the run's root is: finding a leaf reads one page, whatever the length of the run.
//! Leaves say to which table and which run they belong, so that one that is found by itself can be told apart.
//! `docs/format.md` describes the bytes.
//!
//! Rows are unique by (time, sequence number), and nothing replaces a row: runs have no tombstones, and a merge takes
//! every row of its inputs. Rows that were deleted are taken out of a run by [`ColumnRuns::retain`], which leaves whole
//! leaves where they are.
//!
//! | | |
//! |---|---|
//! | [`ColumnRuns`] | which columns the runs have, as the tree wants to know it |
//! | [`ColumnRunWriter`] | writes a run |
//! | [`RunIndex`], [`RunIndexPage`], [`RunLeaf`] | read one |
//! | [`Stretches`] | rows of several sets of columns, put together in a given order |

mod check;
mod index;
mod kind;
mod leaf;
mod merge;
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

/// The error of a page whose leaf or index makes no sense.
fn corrupt(page: PageId, reason: &'static str) -> bedload_pages::Error {
    bedload_pages::Error::Corrupt { page, reason }
}

/// The error of a leaf on a page.
fn of_leaf(page: PageId, error: crate::Error) -> bedload_pages::Error {
    match error {
        crate::Error::Damaged { what } => corrupt(page, what),
        other => bedload_pages::Error::store(other),
    }
}
