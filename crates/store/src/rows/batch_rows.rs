//! The rows of a batch as a record of the log has them.

use super::{EncodedRows, PackedRows, SortedBatch, TableSchema};

/// Rows of a batch: as they are, or packed if they are many.
#[derive(Debug)]
pub(crate) enum BatchRows {
    Plain(EncodedRows),
    Packed(PackedRows),
}

impl BatchRows {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(rows) => rows.len(),
            Self::Packed(rows) => rows.len(),
        }
    }

    /// How many columns of their table they have.
    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Plain(rows) => rows.columns,
            Self::Packed(rows) => rows.columns(),
        }
    }

    /// Returns the bytes for the log.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(rows) => rows.bytes(),
            Self::Packed(rows) => rows.bytes(),
        }
    }

    /// The rows as those of a table with this schema, or what is wrong with them.
    pub(crate) fn decode(&self, schema: &TableSchema) -> Result<SortedBatch, &'static str> {
        match self {
            Self::Plain(rows) => {
                SortedBatch::new(schema, rows.decode(schema)?).map_err(|_| "its text is too long")
            }
            Self::Packed(rows) => rows.decode(schema),
        }
    }
}
