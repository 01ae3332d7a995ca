//! Compressed column leaves: up to 65,536 rows of a table, each column a chunk that is compressed on its own.
//!
//! [`encode`] turns Arrow arrays into a leaf, and [`LeafReader`] turns a leaf into arrays, slices of arrays or single
//! [`Value`]s. At its front a leaf has a [`LeafDirectory`], which knows the least and greatest values of each column and
//! how many are null; by it a [`Predicate`] rules leaves out before anything is decompressed.
//!
//! Compression is lossless to the bit: NaN payloads and −0.0 come back. How a chunk is compressed follows from its data;
//! `docs/format.md` describes the bytes.

mod bitmap;
mod bits;
mod bounds;
mod column;
mod directory;
mod error;
mod floats;
mod ints;
mod leaf;
mod limits;
mod native;
mod run;
mod strings;
mod types;
mod value;
mod wire;
mod zone;

pub use directory::{ColumnDirectory, LeafDirectory};
pub use error::{Error, Result};
pub use leaf::{EncodeOptions, EncodedLeaf, LeafReader, encode};
pub use limits::{MAX_COLUMN_BYTES, MAX_COLUMNS, MAX_ROWS};
pub use run::{
    ColumnMerge, ColumnRunWriter, ColumnRuns, ColumnSet, LeafEntry, LeafFate, LeafHeader, Place, Places,
    Retained, RunIndex, RunIndexPage, RunLeaf, RunRow, Stretches, times,
};
pub use value::Value;
pub use zone::{Operator, Predicate};
