//! A leaf that is made, and has no page yet.

use arrow_array::{Array, ArrayRef};
use bedload_pages::{PageId, Result};

use super::index::LeafEntry;
use super::kind::ColumnRuns;
use super::leaf::HEADER_BYTES;
use super::place::Place;
use super::writer::{bytes_of, slices};
use crate::column;
use crate::leaf::{EncodeOptions, encode};
use crate::limits::MAX_COLUMN_BYTES;

/// A leaf to be written, with what its run's index says of it.
#[derive(Debug)]
pub(super) struct NewLeaf {
    pub(super) rows: u32,
    pub(super) first: Place,
    pub(super) last: Place,
    min_sequence: u64,
    max_sequence: u64,
    /// The encoded columns, which follow the header on its page.
    pub(super) bytes: Vec<u8>,
}

impl NewLeaf {
    /// Makes a leaf of rows, which are in order, or several if one does not fit in a page of
    /// `payload_max` bytes.
    pub(super) fn of_rows(kind: &ColumnRuns, columns: &[ArrayRef], payload_max: usize) -> Result<Vec<Self>> {
        let mut made = Vec::with_capacity(1);
        Self::add(kind, columns, payload_max - HEADER_BYTES, &mut made)?;
        Ok(made)
    }

    fn add(kind: &ColumnRuns, columns: &[ArrayRef], limit_bytes: usize, made: &mut Vec<Self>) -> Result<()> {
        let rows = columns[0].len();
        let is_wide = columns
            .iter()
            .any(|column| column::content_bytes(column) > MAX_COLUMN_BYTES);
        let leaf = if is_wide {
            None
        } else {
            let leaf = encode(columns, &EncodeOptions::default()).map_err(bedload_pages::Error::store)?;
            Some(leaf.bytes).filter(|bytes| bytes.len() <= limit_bytes)
        };
        let Some(bytes) = leaf else {
            if rows == 1 {
                return Err(bedload_pages::Error::EntryTooLarge {
                    len_bytes: bytes_of(columns),
                    limit_bytes,
                });
            }
            Self::add(kind, &slices(columns, 0, rows / 2), limit_bytes, made)?;
            return Self::add(
                kind,
                &slices(columns, rows / 2, rows - rows / 2),
                limit_bytes,
                made,
            );
        };
        let shape = || bedload_pages::Error::Shape {
            reason: "a leaf without rows",
        };
        let places = kind.places(columns).filter(|places| !places.is_empty());
        let places = places.ok_or_else(shape)?;
        let (min_sequence, max_sequence) = places.sequence_bounds().ok_or_else(shape)?;
        made.push(Self {
            rows: u32::try_from(rows).map_err(|_| shape())?,
            first: places.get(0),
            last: places.get(places.len() - 1),
            min_sequence,
            max_sequence,
            bytes,
        });
        Ok(())
    }

    /// The entry of the leaf in its run's index, once it has a page.
    pub(super) fn entry(&self, page: PageId) -> LeafEntry {
        LeafEntry {
            page,
            rows: self.rows,
            first: self.first,
            last: self.last,
            min_sequence: self.min_sequence,
            max_sequence: self.max_sequence,
        }
    }
}
