//! Compressed column leaves: up to 65,536 rows of a table, each column a separately compressed
//! chunk.
//!
//! [`encode`] turns Arrow arrays into a leaf, and [`LeafReader`] turns a leaf into arrays, slices
//! of arrays or single [`Value`]s. A leaf begins with a [`LeafDirectory`], which has the least and
//! greatest values and the number of nulls of each column; with it a [`Predicate`] excludes leaves
//! before anything is decompressed.
//!
//! Compression is lossless to the bit, NaN payloads and −0.0 included. The encoding of a chunk is
//! chosen from its data; `docs/format.md` describes the bytes.

mod bitmap;
mod bits;
mod bounds;
mod column;
mod directory;
mod error;
mod float_filter;
mod floats;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod ints;
mod leaf;
mod limits;
mod native;
mod processor;
mod run;
mod strings;
mod types;
mod value;
mod wire;
mod zone;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

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
