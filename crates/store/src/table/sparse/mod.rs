//! The sparse layout: tables of a fixed interval, without any index. After "XStore" (a poster on
//! time series in sparse files; the fourth of the papers that the design cites), from which it
//! departs where that loses or confuses data.
//!
//! A row's place follows from its time alone: the *tick* is the number of intervals since the
//! epoch, a *block* holds the rows of so many neighbouring ticks, a *file* so many neighbouring
//! blocks. Format: docs/format.md, "Sparse tables".
//!
//! Departures from the paper:
//!
//! - A bitmap in each block says which ticks have rows, so that a row of zeros is told from none;
//!   blocks have checksums.
//! - A block is never written in place. Each has room in its file for several *layers*, all but one
//!   of which are holes; a changed block goes to a free layer, and its old place takes the next
//!   version, or becomes a hole. So a torn block is one that no checkpoint names, and a snapshot
//!   goes on reading what it began with.
//! - Which layer counts is written in the *block map*, one page for each file, beside the block's
//!   checksum. The pages are those of the store, and with them the map is versioned, rolled back
//!   and made durable by checkpoints.
//! - Rows wait in the head of their generation, and in the log, as those of other tables do.
//!
//! Rules:
//!
//! 1. A place (block and layer) is written only while no map that recovery may choose, and no view
//!    that is held, names it. [`places`] knows which are in use beside those that the newest map
//!    names.
//! 2. Blocks that a map names were synced before; those that a log record names are synced with the
//!    record, and recovery checks whether they were. Blocks that a head names stand in their file
//!    or in [`unwritten`]. The names of files were synced before either.
//! 3. A row or deletion counts for a tick if it has the greatest sequence number; a block counts as
//!    one write of all its rows, of the sequence number it was given, or older than every
//!    generation if it stands in the map.

mod append;
mod backup;
mod block;
mod block_file;
mod block_map;
mod builder;
mod density;
mod direct;
mod files;
mod flush;
mod grid;
mod head_rows;
mod holes;
mod output;
mod places;
mod point;
mod remains;
mod rows;
mod scan;
mod shape;
mod table;
mod unwritten;
mod verify;
mod view;
mod write_helper;
mod writer;

pub(crate) use append::Placed;
pub(crate) use backup::{change_map, copy_blocks, copy_written_blocks};
pub use density::Density;
pub(crate) use direct::Target;
pub(crate) use files::{BlockFiles, SPARSE_DIR};
pub(crate) use flush::{SparseFlush, drop_files};
pub use grid::{Grid, Snap};
pub(crate) use point::{FoundRow, find};
pub(crate) use remains::{BlockRemains, owner_of};
pub(crate) use rows::SparseScan;
pub(crate) use table::{SparseEntry, SparseRecord, create_files, pages_of};
pub(crate) use verify::verify;
pub(crate) use view::{Latest, SparseView};
