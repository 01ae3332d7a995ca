//! Errors of leaves, separated by what the caller can do about them.

use arrow_schema::DataType;

/// Why a leaf was not encoded, opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column has an unsupported type.
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
    /// A leaf has too many rows, columns or bytes. Fewer rows may fit.
    #[error("{what}: {found}, and a leaf holds at most {limit}")]
    TooLarge {
        /// The quantity over the limit.
        what: &'static str,
        /// The amount found.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A column or row that the leaf does not have.
    #[error("{what} {index} does not exist: the leaf has {count}")]
    OutOfRange {
        /// `column` or `row`.
        what: &'static str,
        /// The index asked for; for a range, its end.
        index: usize,
        /// The number that exist.
        count: usize,
    },
    /// A predicate's literal is not of the column's type.
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
        /// The damage found.
        what: &'static str,
    },
}

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn damaged<T>(what: &'static str) -> Result<T> {
    Err(Error::Damaged { what })
}
