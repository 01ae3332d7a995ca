//! The entries of a buffer.

/// An entry in the buffer; without a value it is a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buffered {
    pub(super) key: u64,
    pub(super) value: Option<u64>,
}
