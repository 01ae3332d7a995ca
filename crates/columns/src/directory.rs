//! The directory of a leaf: the offsets of the chunks, and the zone map of each column.

use std::ops::Range;

use arrow_array::Array;
use arrow_schema::DataType;

use crate::bounds::Bounds;
use crate::column;
use crate::error::{Error, Result, damaged};
use crate::limits::{MAX_COLUMN_BYTES, MAX_COLUMNS, MAX_ROWS};
use crate::types;
use crate::value::Value;
use crate::wire::{Bytes, as_u32, put_length};
use crate::zone::Predicate;

/// `BCL` and the version of the format of leaves.
const MAGIC: [u8; 4] = *b"BCL\x01";

/// Bytes before the first column's entry.
const HEADER_BYTES: usize = 16;

const CRC_BYTES: usize = 4;

const SORTED: u8 = 1;
const WITH_MIN: u8 = 2;
const WITH_MAX: u8 = 4;
const EXACT: u8 = 8;

/// The directory of a leaf: its length, and for each column its type, the offset of its chunk, and
/// its zone map.
///
/// It is at the front of a leaf, and can be stored and read without the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafDirectory {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ColumnDirectory>,
    pub(crate) bytes: usize,
}

/// One column's entry in the directory of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDirectory {
    pub(crate) data_type: DataType,
    pub(crate) nulls: usize,
    pub(crate) sorted: bool,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) chunk: Range<usize>,
    pub(crate) crc: u32,
}

impl LeafDirectory {
    /// Reads the directory at the front of `bytes`, which may end with the directory.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the bytes are not a directory or fail its checksum.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let directory = Self::frame(bytes)?;
        let (content, crc) = directory.split_at(directory.len() - CRC_BYTES);
        if crc32c::crc32c(content).to_le_bytes() != *crc {
            return damaged("the checksum of the directory is wrong");
        }
        Self::parse_unchecked(bytes)
    }

    /// Returns the bytes of the directory at the front of `bytes`.
    fn frame(bytes: &[u8]) -> Result<&[u8]> {
        let mut header = Bytes::new(bytes);
        if header.array()? != MAGIC {
            return damaged("there is no leaf, or one of another version");
        }
        let length = header.u32()? as usize;
        match bytes.get(..length) {
            Some(directory) if length >= HEADER_BYTES + CRC_BYTES => Ok(directory),
            _ => damaged("the directory ends too early"),
        }
    }

    /// Like [`parse`](Self::parse), without verifying the checksum.
    pub(crate) fn parse_unchecked(bytes: &[u8]) -> Result<Self> {
        let directory = Self::frame(bytes)?;
        let mut bytes = Bytes::new(&directory[MAGIC.len() + 4..directory.len() - CRC_BYTES]);
        let rows = bytes.u32()? as usize;
        let count = usize::from(bytes.u16()?);
        if rows > MAX_ROWS || count > MAX_COLUMNS || bytes.u16()? != 0 {
            return damaged("a leaf has too many rows or columns");
        }
        // An entry has several bytes.
        let mut columns = Vec::with_capacity(count.min(directory.len()));
        let mut start = directory.len();
        for _ in 0..count {
            let column = ColumnDirectory::parse(rows, start, &mut bytes)?;
            start = column.chunk.end;
            columns.push(column);
        }
        if !bytes.rest().is_empty() {
            return damaged("the directory has bytes after its last column");
        }
        Ok(Self {
            rows,
            columns,
            bytes: directory.len(),
        })
    }

    /// Appends the directory of a leaf whose chunks follow it.
    pub(crate) fn put(rows: usize, columns: &mut [ColumnDirectory], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&as_u32(rows).to_le_bytes());
        out.extend_from_slice(
            &u16::try_from(columns.len())
                .expect("at most MAX_COLUMNS")
                .to_le_bytes(),
        );
        out.extend_from_slice(&[0; 2]);
        for column in columns.iter() {
            column.put(out);
        }
        let length = out.len() - start + CRC_BYTES;
        out[start + MAGIC.len()..][..4].copy_from_slice(&as_u32(length).to_le_bytes());
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut at = length;
        for column in columns {
            column.chunk = at..at + column.chunk.len();
            at = column.chunk.end;
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the columns in order.
    pub fn columns(&self) -> &[ColumnDirectory] {
        &self.columns
    }

    /// Returns the bytes of the directory.
    pub fn directory_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of the leaf, directory included.
    pub fn leaf_bytes(&self) -> usize {
        self.columns.last().map_or(self.bytes, |column| column.chunk.end)
    }

    /// Returns false only if no row of the leaf can match `predicate` on `column`. Takes time
    /// logarithmic in the number of literals and reads no data.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a column that does not exist, [`Error::LiteralType`] if the
    /// predicate's literal is of another type.
    pub fn may_match(&self, column: usize, predicate: &Predicate) -> Result<bool> {
        let column = self.column(column)?;
        predicate.may_match(&column.data_type, column.bounds.as_ref(), column.nulls, self.rows)
    }

    pub(crate) fn column(&self, column: usize) -> Result<&ColumnDirectory> {
        let found = self.columns.get(column);
        found.ok_or(Error::OutOfRange {
            what: "column",
            index: column,
            count: self.columns.len(),
        })
    }
}

impl ColumnDirectory {
    fn put(&self, out: &mut Vec<u8>) {
        let kept = types::put(&self.data_type, out);
        debug_assert!(kept, "encode refuses types that are not kept");
        let mut flags = u8::from(self.sorted) * SORTED;
        if let Some(bounds) = &self.bounds {
            flags |= WITH_MIN;
            flags |= u8::from(bounds.max.is_some()) * WITH_MAX;
            flags |= u8::from(bounds.exact) * EXACT;
        }
        out.push(flags);
        put_length(out, self.nulls);
        put_length(out, self.chunk.len());
        out.extend_from_slice(&self.crc.to_le_bytes());
        if let Some(bounds) = &self.bounds {
            bounds.put(out);
        }
    }

    fn parse(rows: usize, start: usize, bytes: &mut Bytes<'_>) -> Result<Self> {
        let data_type = types::parse(bytes)?;
        if let DataType::FixedSizeBinary(width) = data_type
            && usize::try_from(width).is_ok_and(|width| width.saturating_mul(rows) > MAX_COLUMN_BYTES)
        {
            return damaged("strings of a fixed size are longer than a leaf may hold");
        }
        let flags = bytes.u8()?;
        let (nulls, length) = (bytes.length()?, bytes.length()?);
        // Compression may enlarge incompressible data a little.
        if nulls > rows || length > 2 * MAX_COLUMN_BYTES {
            return damaged("a column has more nulls than rows, or too many bytes");
        }
        let crc = bytes.u32()?;
        let bounds = match flags & WITH_MIN {
            0 => None,
            _ => Some(Bounds::parse(
                &data_type,
                bytes,
                flags & WITH_MAX > 0,
                flags & EXACT > 0,
            )?),
        };
        let known = flags & !(SORTED | WITH_MIN | WITH_MAX | EXACT) == 0;
        if !known || bounds.is_none() && flags & (WITH_MAX | EXACT) > 0 {
            return damaged("a column has unknown flags");
        }
        let chunk = start..start + length;
        Ok(Self {
            data_type,
            nulls,
            sorted: flags & SORTED > 0,
            bounds,
            chunk,
            crc,
        })
    }

    /// Compares the entry with all values of its column.
    pub(crate) fn check(&self, values: &dyn Array) -> Result<()> {
        if values.logical_null_count() != self.nulls {
            return damaged("a column has other nulls than its directory says");
        }
        let found = column::summary(values);
        if self.sorted && !found.sorted {
            return damaged("a column is not in order, as its directory says");
        }
        let Some(said) = &self.bounds else {
            return Ok(());
        };
        let are_bounds = found.bounds.is_some_and(|found| match said.exact {
            true => *said == found,
            false => {
                said.min <= found.min
                    && said
                        .max
                        .as_ref()
                        .is_none_or(|max| Some(max) >= found.max.as_ref())
            }
        });
        match are_bounds {
            true => Ok(()),
            false => damaged("the least or greatest value of a column is not the one in its directory"),
        }
    }

    /// Returns the type of the arrays that the column decodes to.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns the number of nulls.
    pub fn null_count(&self) -> usize {
        self.nulls
    }

    /// Returns the bytes of the compressed chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk.len()
    }

    /// Returns whether the column has no nulls and its values ascend.
    pub fn is_sorted(&self) -> bool {
        self.sorted
    }

    /// Returns whether all values are known to be equal and none is null.
    pub fn is_constant(&self) -> bool {
        let same = |bounds: &Bounds| bounds.exact && bounds.max.as_ref() == Some(&bounds.min);
        self.nulls == 0 && self.bounds.as_ref().is_some_and(same)
    }

    /// Returns the least and greatest non-null values; `None` if all are null, or if text or bytes
    /// are longer than [`EncodeOptions::bound_bytes`](crate::EncodeOptions::bound_bytes).
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if they are not of the column's type.
    pub fn bounds(&self) -> Result<Option<(Value, Value)>> {
        match &self.bounds {
            Some(Bounds {
                min,
                max: Some(max),
                exact: true,
            }) => {
                let value = |bound| column::value_of_bound(&self.data_type, bound);
                Ok(Some((value(min)?, value(max)?)))
            }
            _ => Ok(None),
        }
    }
}
