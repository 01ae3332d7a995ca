//! Marks: moments in the life of a table.

use std::ops::{Range, RangeInclusive};

use crate::disk::FileId;
use crate::rows::TableId;

/// A moment in the life of a table, between earlier and later appends.
///
/// A row becomes visible a little after its append began. The mark knows which rows were visible,
/// for [`Table::since`](crate::Table::since), and which appends had begun, for
/// [`Table::retract_since`](crate::Table::retract_since).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub(crate) store: StoreIdentity,
    pub(crate) table: TableId,
    pub(crate) unseen: Unseen,
    /// The sequence number of the first row that is retracted.
    pub(crate) next: u64,
}

/// Which store a mark is of. A backup has the name of the store that it was made of, and another
/// data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreIdentity {
    pub(crate) name: [u8; 16],
    pub(crate) data: FileId,
}

/// The sequence numbers of rows that are not visible at a moment and may be later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// All from here on.
    from: u64,
    /// And those of a long batch that is being written, from the first to before the second.
    being_written: (u64, u64),
}

impl Unseen {
    /// Those from `visible` on, and a range below it.
    pub(crate) fn new(visible: u64, being_written: &Range<u64>) -> Self {
        Self {
            from: visible,
            being_written: (being_written.start, being_written.end),
        }
    }

    /// The least of them.
    pub(crate) fn least(&self) -> u64 {
        let (first, end) = self.being_written;
        if first < end {
            self.from.min(first)
        } else {
            self.from
        }
    }

    /// Whether one of these numbers may be among them.
    pub(crate) fn may_have(&self, sequences: RangeInclusive<u64>) -> bool {
        let (first, end) = self.being_written;
        *sequences.end() >= self.from || *sequences.start() < end && first <= *sequences.end()
    }

    pub(crate) fn has(&self, sequence: u64) -> bool {
        let (first, end) = self.being_written;
        sequence >= self.from || (first..end).contains(&sequence)
    }
}
