//! Writes and reads leaves.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};

use crate::column::{self, Chunk};
use crate::directory::{ColumnDirectory, LeafDirectory};
use crate::error::{Error, Result, damaged};
use crate::ints::Ints;
use crate::limits::{MAX_COLUMN_BYTES, MAX_COLUMNS, MAX_ROWS};
use crate::value::Value;

/// Settings of [`encode`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Length in bytes to which the directory cuts the bounds of text and bytes. Default 24. Cut
    /// bounds still exclude leaves, but are not returned as values.
    pub bound_bytes: usize,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { bound_bytes: 24 }
    }
}

/// A leaf encoded by [`encode`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncodedLeaf {
    /// The complete leaf: the directory, then the chunks of the columns.
    pub bytes: Vec<u8>,
    /// The directory.
    pub directory: LeafDirectory,
}

/// Compresses columns of equal length, up to [`MAX_ROWS`] rows, each on its own.
///
/// Dictionary arrays are unpacked: the leaf decodes to arrays of their values. Sequence numbers are
/// one more column of type `UInt64`; while they ascend by one, it takes a few bytes regardless of
/// the number of rows.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, UInt64Array};
/// use bedload_columns::{EncodeOptions, LeafReader, encode};
///
/// let temperature: ArrayRef = Arc::new(Float64Array::from_iter_values((0..4000).map(|n| f64::from(n % 500) / 10.0)));
/// let sequence: ArrayRef = Arc::new(UInt64Array::from_iter_values(7_000_000..7_004_000));
/// let leaf = encode(&[temperature.clone(), sequence], &EncodeOptions::default())?;
/// assert!(leaf.bytes.len() < 5_000);
///
/// let reader = LeafReader::open(leaf.bytes)?;
/// assert_eq!(&reader.decode(0, 1000..1100)?, &temperature.slice(1000, 100));
/// # Ok::<(), bedload_columns::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::UnsupportedType`], [`Error::UnequalLengths`], and [`Error::TooLarge`] beyond the limits
/// of a leaf.
pub fn encode(columns: &[ArrayRef], options: &EncodeOptions) -> Result<EncodedLeaf> {
    let limit = |what, found, limit| match found <= limit {
        true => Ok(()),
        false => Err(Error::TooLarge { what, found, limit }),
    };
    let rows = columns.first().map_or(0, |column| column.len());
    limit("rows", rows, MAX_ROWS)?;
    limit("columns", columns.len(), MAX_COLUMNS)?;
    let mut chunks = Vec::new();
    let mut entries = Vec::with_capacity(columns.len());
    for (number, array) in columns.iter().enumerate() {
        if array.len() != rows {
            return Err(Error::UnequalLengths {
                column: number,
                rows: array.len(),
                expected: rows,
            });
        }
        let array = column::unpacked(array, number)?;
        limit(
            "bytes of a column",
            column::content_bytes(&array),
            MAX_COLUMN_BYTES,
        )?;
        let start = chunks.len();
        let summary = column::encode(&array, &mut chunks);
        limit("bytes of all columns", chunks.len(), MAX_LEAF_BYTES)?;
        entries.push(ColumnDirectory {
            data_type: array.data_type().clone(),
            nulls: array.logical_null_count(),
            sorted: summary.sorted,
            bounds: summary
                .bounds
                .map(|bounds| match column::is_text_or_bytes(array.data_type()) {
                    true => bounds.cut(options.bound_bytes),
                    false => bounds,
                }),
            chunk: start..chunks.len(),
            crc: crc32c::crc32c(&chunks[start..]),
        });
    }
    let mut bytes = Vec::with_capacity(chunks.len() + 64 * (columns.len() + 1));
    LeafDirectory::put(rows, &mut entries, &mut bytes);
    let directory = LeafDirectory {
        rows,
        columns: entries,
        bytes: bytes.len(),
    };
    bytes.extend_from_slice(&chunks);
    Ok(EncodedLeaf { bytes, directory })
}

/// The most bytes of the chunks of a leaf.
const MAX_LEAF_BYTES: usize = 1 << 31;

/// Reads a leaf: complete columns, ranges of rows, or single values.
///
/// `B` owns or borrows the bytes: a slice, a `Vec`, an `Arc<[u8]>` shared with a cache.
#[derive(Clone, Debug)]
pub struct LeafReader<B> {
    bytes: B,
    directory: LeafDirectory,
}

impl<B: AsRef<[u8]>> LeafReader<B> {
    /// Opens a leaf, which may be followed by other bytes, and verifies all checksums.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`].
    pub fn open(bytes: B) -> Result<Self> {
        let directory = LeafDirectory::parse(bytes.as_ref())?;
        let reader = Self::with_directory(bytes, directory)?;
        reader.check_chunks()?;
        Ok(reader)
    }

    /// Verifies the checksums of the chunks.
    fn check_chunks(&self) -> Result<()> {
        let is_sound = |column: &ColumnDirectory| {
            crc32c::crc32c(&self.bytes.as_ref()[column.chunk.clone()]) == column.crc
        };
        match self.directory.columns.iter().all(is_sound) {
            true => Ok(()),
            false => damaged("the checksum of a column is wrong"),
        }
    }

    /// Verifies all checksums, decodes every value, and compares the values with what the directory
    /// says of them: a wrong bound would hide rows from filters.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`].
    pub fn check(&self) -> Result<()> {
        LeafDirectory::parse(self.bytes.as_ref())?;
        self.check_chunks()?;
        for (number, column) in self.directory.columns.iter().enumerate() {
            self.chunk(number)?.check_nulls()?;
            column.check(&self.decode(number, 0..self.rows())?)?;
        }
        Ok(())
    }

    /// Opens a leaf without verifying checksums, for bytes already verified by the checksum of
    /// their page or by an earlier open. It is memory-safe: damaged bytes give errors or wrong
    /// values.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the directory is malformed.
    pub fn open_unchecked(bytes: B) -> Result<Self> {
        let directory = LeafDirectory::parse_unchecked(bytes.as_ref())?;
        Self::with_directory(bytes, directory)
    }

    fn with_directory(bytes: B, directory: LeafDirectory) -> Result<Self> {
        if bytes.as_ref().len() < directory.leaf_bytes() {
            return damaged("the leaf ends before its last column does");
        }
        Ok(Self { bytes, directory })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &LeafDirectory {
        &self.directory
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.directory.rows
    }

    /// Decodes a range of rows of a column. Reads the blocks of 1,024 rows that the range touches,
    /// and the column's dictionary, if any.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a column or rows that do not exist; [`Error::Damaged`].
    pub fn decode(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        if rows.start > rows.end || rows.end > self.rows() {
            return Err(Error::OutOfRange {
                what: "row",
                index: rows.end.max(rows.start),
                count: self.rows(),
            });
        }
        self.chunk(column)?.decode(rows)
    }

    /// Returns the value of one row of a column. Reads only the row's block, and allocates only for
    /// text and bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a column or row that does not exist; [`Error::Damaged`].
    pub fn value_at(&self, column: usize, row: usize) -> Result<Value> {
        if row >= self.rows() {
            return Err(Error::OutOfRange {
                what: "row",
                index: row,
                count: self.rows(),
            });
        }
        self.chunk(column)?.value_at(row)
    }

    /// Returns the ticks of a column of times without nulls, to be searched; `None` if it is
    /// another one.
    pub(crate) fn ticks(&self, column: usize) -> Result<Option<Ints<'_>>> {
        self.chunk(column)?.ticks()
    }

    fn chunk(&self, column: usize) -> Result<Chunk<'_>> {
        let column = self.directory.column(column)?;
        Ok(Chunk {
            data_type: &column.data_type,
            rows: self.directory.rows,
            nulls: column.nulls,
            bytes: &self.bytes.as_ref()[column.chunk.clone()],
        })
    }
}
