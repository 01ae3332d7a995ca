//! The least and greatest values of a column.

use arrow_schema::DataType;

use crate::error::{Result, damaged};
use crate::wire::{Bytes, put_counted, put_signed};

/// A value in its column's order: numbers of up to 64 bits and booleans as integers, others as
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bound {
    Int(i64),
    Bytes(Vec<u8>),
}

/// The least and greatest non-null values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) min: Bound,
    /// `None` if no short string is above all values.
    pub(crate) max: Option<Bound>,
    /// Whether both are values of the column; otherwise they are cut off and only enclose the
    /// values.
    pub(crate) exact: bool,
}

impl Bounds {
    /// Cuts the bounds to about `bytes` bytes each at most.
    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        if let Bound::Bytes(min) = &mut self.min {
            self.exact &= min.len() <= bytes;
            min.truncate(bytes);
        }
        if let Some(Bound::Bytes(max)) = &mut self.max
            && max.len() > bytes
        {
            self.exact = false;
            max.truncate(bytes);
            // The least string above all strings with this prefix.
            while max.last() == Some(&u8::MAX) {
                max.pop();
            }
            match max.last_mut() {
                Some(last) => *last += 1,
                None => self.max = None,
            }
        }
        self
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for bound in std::iter::once(&self.min).chain(&self.max) {
            match bound {
                Bound::Int(int) => put_signed(out, *int),
                Bound::Bytes(bytes) => put_counted(out, bytes),
            }
        }
    }

    pub(crate) fn parse(
        data_type: &DataType,
        bytes: &mut Bytes<'_>,
        with_max: bool,
        exact: bool,
    ) -> Result<Self> {
        let mut bound = || -> Result<Bound> {
            if is_narrow(data_type) {
                return Ok(Bound::Int(bytes.signed()?));
            }
            Ok(Bound::Bytes(bytes.counted()?.to_vec()))
        };
        let min = bound()?;
        let max = if with_max { Some(bound()?) } else { None };
        if max.as_ref().is_some_and(|max| *max < min) || exact && max.is_none() {
            return damaged("the least value of a column is above its greatest");
        }
        Ok(Self { min, max, exact })
    }
}

/// Returns whether bounds of a column of this supported type are integers.
pub(crate) fn is_narrow(data_type: &DataType) -> bool {
    !matches!(
        data_type,
        DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}
