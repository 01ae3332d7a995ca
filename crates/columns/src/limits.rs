//! Limits of a leaf.

/// The most rows of one leaf.
pub const MAX_ROWS: usize = 1 << 16;

/// The most columns of one leaf.
pub const MAX_COLUMNS: usize = 4096;

/// The most bytes that one column of a leaf takes uncompressed in memory. Leaves of long text have
/// fewer rows.
pub const MAX_COLUMN_BYTES: usize = 1 << 28;
