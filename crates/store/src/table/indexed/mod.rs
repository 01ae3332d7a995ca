//! Tables of the indexed layout: rows in a Bε-tree of compressed column runs, ordered by (time,
//! sequence number).
//!
//! A flush sorts the rows of a head and writes them as runs. Rows after everything the table has go
//! to its right edge, where they stay; late rows go to the root, and the flusher pushes them down
//! in batches, a bounded piece at each flush. Readers take the runs of one leaf interval after
//! another and merge what overlaps.
//!
//! | | |
//! |---|---|
//! | [`body`] | creating and opening a table's tree |
//! | [`flush`] | rows and deletions of a head into the tree, and maintenance |
//! | [`scan`] | reading: the rows of all runs and heads between two places |
//! | [`piece`], [`run_rows`], [`head_rows`] | some rows of one run, of the tree and of a head |
//! | [`output`] | the rows of a batch, without those that are deleted or filtered out |
//! | [`point`] | reading one row by its time |
//! | [`count`] | how many rows, from what indexes of runs say |
//! | [`verify`] | the check of a table |
//! | [`remains`] | salvage: what is left of a table |

mod body;
mod count;
mod flush;
mod head_rows;
mod ordered_batches;
mod output;
mod piece;
mod point;
mod remains;
mod run_rows;
mod scan;
mod verify;

pub(crate) use body::{check, create, pages_of, row_limit};
pub(crate) use count::count;
pub(crate) use flush::{FlushedRows, flush};
pub(crate) use point::{FoundRow, find};
pub(crate) use remains::{LeafRemains, owner_of, without_copied};
pub(crate) use scan::IndexedScan;
pub(crate) use verify::verify;
