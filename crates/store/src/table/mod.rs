//! Tables, whichever way they keep their rows.
//!
//! A table has one of two layouts, which are siblings behind [`StoredTable`]: each of its functions
//! asks which one it is, and nothing outside of this folder does. The layouts know neither each
//! other nor what is above them.
//!
//! | | |
//! |---|---|
//! | [`indexed`] | a Bε-tree of compressed column runs: rows of any times |
//! | [`sparse`] | places that follow from the time: a row at each time of a grid |
//! | [`stored`] | a table of either layout: creating, appending, flushing, what the catalogue has of it |
//! | [`reading`] | one row, rows in order, counting |
//! | [`upkeep`] | verify, back up, drop |
//! | [`remains`] | salvage: what is left of a table in a damaged store |
//! | [`catalogue`], [`view`] | all tables of a checkpoint; what a reader sees of them |

mod catalogue;
mod indexed;
mod layout;
mod reading;
mod remains;
mod sparse;
mod stored;
mod upkeep;
mod view;

pub(crate) use catalogue::Catalogue;
pub(crate) use indexed::{FlushedRows, FoundRow as IndexedRow};
pub use layout::Layout;
pub(crate) use reading::{FoundRow, TableRows};
pub(crate) use remains::{TableRemains, owner_of};
pub(crate) use sparse::{BlockFiles, Placed, SPARSE_DIR};
pub use sparse::{Density, Grid, Snap};
pub(crate) use stored::{Storage, StoredTable};
pub(crate) use upkeep::PageChanges;
pub(crate) use view::View;
