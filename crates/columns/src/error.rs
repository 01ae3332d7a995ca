//! Errors of leaves, separated by what the caller can do about them.

use arrow_schema::DataType;

/// Why a leaf was not encoded, opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column has a type that leaves do not keep.
    #[error("column {column} is of type {data_type}, which leaves do not keep")]
    UnsupportedType {
        /// The number of the column, from 0.
        column: usize,
        /// Its type.
        data_type: DataType,
    },
    /// The columns of one leaf differ in length.
    #[error("column {column} has {rows} rows, and column 0 has {expected}")]
    UnequalLengths {
        /// The number of the column, from 0.
        column: usize,
        /// How many rows it has.
        rows: usize,
        /// How many rows column 0 has.
        expected: usize,
    },
    /// More rows, columns or bytes than one leaf may hold. Fewer rows may fit.
    #[error("{what}: {found}, and a leaf holds at most {limit}")]
    TooLarge {
        /// The quantity over the limit.
        what: &'static str,
        /// How much there is.
        found: usize,
        /// The greatest that is allowed.
        limit: usize,
    },
    /// A column or row that the leaf does not have.
    #[error("{what} {index} does not exist: the leaf has {count}")]
    OutOfRange {
        /// `column` or `row`.
        what: &'static str,
        /// The one asked for; for a range, its end.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The literal of a predicate is not of the type of the column.
    #[error("the literal is of type {literal}, and the column of type {column}")]
    LiteralType {
        /// The type of the literal.
        literal: DataType,
        /// The type of the column.
        column: DataType,
    },
    /// The bytes are not what [`encode`](crate::encode) wrote.
    #[error("damaged leaf: {what}; restore the file from a backup, or salvage what is whole")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
}

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn damaged<T>(what: &'static str) -> Result<T> {
    Err(Error::Damaged { what })
}
