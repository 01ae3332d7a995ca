//! Reasons why a column is not cast.

use arrow_schema::DataType;

/// The result of casting a column.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a column is not cast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No value of the one type is one of the other.
    #[error("cannot cast {from} to {to}")]
    Types {
        /// The type of the column.
        from: DataType,
        /// The other type.
        to: DataType,
    },
    /// The column has times of a zone, and those of the other type have none.
    #[error("its times are of the zone {zone}, and {to} has no zone: convert them first")]
    ZoneLost {
        /// The zone of the column.
        zone: String,
        /// The other type.
        to: DataType,
    },
    /// The column has times without a zone, those of the other type have one, and no clock was
    /// given.
    #[error("its times have no zone, and {to} has one")]
    ZoneUnknown {
        /// The other type.
        to: DataType,
    },
    /// A value is none of the other type.
    #[error("row {row}: {value} is no {to}")]
    Value {
        /// The first row that has such a value, counted from 0.
        row: usize,
        /// The value as text.
        value: String,
        /// The other type.
        to: DataType,
    },
    /// A time is none, or two, on the clocks of its zone.
    #[error("row {row}: {reason}")]
    Reading {
        /// The first row that has such a time, counted from 0.
        row: usize,
        /// Why it is no time of the zone.
        reason: bedload_times::Error,
    },
    /// Arrow cannot cast the column; it may have too many bytes of text.
    #[error("cannot cast {from} to {to}: {reason}")]
    Arrow {
        /// The type of the column.
        from: DataType,
        /// The other type.
        to: DataType,
        /// Arrow's message.
        reason: String,
    },
}
