//! Marks: moments in the life of a table, and how they are saved.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use crate::disk::FileId;
use crate::error::{Error, Result};
use crate::rows::TableId;

/// A moment in the life of a table, between earlier and later appends.
///
/// A row becomes visible a little after its append began. The mark knows which rows were visible,
/// for [`Table::since`](crate::Table::since), and which appends had begun, for
/// [`Table::retract_since`](crate::Table::retract_since).
///
/// **Saved marks.** A mark can be written as text and read again by another process. It is refused
/// by other stores, by copies that [`Store::backup`](crate::Store::backup) or
/// [`restore`](crate::restore) made, and by a store that has not come as far, because it was put
/// back to an earlier state. A copy of the files that goes further than the mark is not told from
/// the store. Loss of power may take rows of a store with
/// [`Durability::Relaxed`](crate::Durability::Relaxed), and their numbers are given again:
/// [flush](crate::Store::flush) it between taking a mark and saving it. A store that is open for
/// reading shows no rows that may be lost.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{RecordBatch, TimestampSecondArray};
/// # use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("s");
/// # let at = Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false);
/// # let arrow = Arc::new(Schema::new(vec![at]));
/// # let rows = |times: Vec<i64>| {
/// #     RecordBatch::try_new(arrow.clone(), vec![Arc::new(TimestampSecondArray::from(times))])
/// # };
/// let store = bedload::Store::create(&path)?;
/// let table = store.create_table("t", bedload::TableSchema::new(arrow.clone(), "at")?)?;
/// table.append(&rows(vec![10, 20])?)?;
/// let saved = table.mark().to_string();
/// # drop(table);
/// store.close()?;
///
/// let table = bedload::Store::open(&path)?.table("t")?;
/// table.append(&rows(vec![15])?)?;
/// assert_eq!(table.since(saved.parse()?)?.count()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub(crate) store: StoreIdentity,
    pub(crate) table: TableId,
    pub(crate) unseen: Unseen,
    /// The sequence number of the first row that is retracted.
    pub(crate) next: u64,
}

/// The first word of a saved mark, which names its form.
const SAVED: &str = "bedload-mark-1";

impl fmt::Display for Mark {
    /// Writes one word without spaces, for [`FromStr`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |id: [u8; 16]| format!("{:032x}", u128::from_be_bytes(id));
        let Unseen { from, being_written } = self.unseen.joined();
        let text = format!(
            "{SAVED}:{}:{}:{}:{from}:{}:{}",
            hex(self.store.name),
            hex(self.store.copy),
            self.table.0,
            being_written.0,
            being_written.1
        );
        write!(f, "{text}:{:08x}", crc32c::crc32c(text.as_bytes()))
    }
}

impl FromStr for Mark {
    type Err = Error;

    /// Reads a saved mark. An append that had begun when the mark was taken, and was not visible,
    /// counts as one that begins later, unless it was a long batch and others have committed since
    /// it began.
    ///
    /// # Errors
    ///
    /// The text is not all of a saved mark, or was changed.
    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (saved, crc) = text.trim().rsplit_once(':')?;
            (format!("{:08x}", crc32c::crc32c(saved.as_bytes())) == crc).then_some(())?;
            let fields: Vec<&str> = saved.split(':').collect();
            let [SAVED, name, copy, table, from, first, end] = fields[..] else {
                return None;
            };
            let id = |hex| u128::from_str_radix(hex, 16).ok().map(u128::to_be_bytes);
            let from = from.parse().ok()?;
            Some(Self {
                store: StoreIdentity {
                    name: id(name)?,
                    copy: id(copy)?,
                    data: None,
                },
                table: TableId(table.parse().ok()?),
                unseen: Unseen {
                    from,
                    being_written: (first.parse().ok()?, end.parse().ok()?),
                },
                next: from,
            })
        };
        read().ok_or_else(|| Error::schema("the text is not a whole saved mark"))
    }
}

/// Which store a mark is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreIdentity {
    /// A backup has the name of the store that it was made of.
    pub(crate) name: [u8; 16],
    /// Tells copies of a store apart.
    pub(crate) copy: [u8; 16],
    /// The data file; none of a saved mark.
    pub(crate) data: Option<FileId>,
}

impl StoreIdentity {
    /// Whether a mark of this store may be used with an open one.
    pub(crate) fn is_of(&self, open: &Self) -> bool {
        (self.name, self.copy) == (open.name, open.copy) && (self.data.is_none() || self.data == open.data)
    }
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

    /// The same numbers, as one range if they are: the numbers of a batch that is being written
    /// are given out again if its process dies.
    fn joined(self) -> Self {
        match self.being_written {
            (first, end) if first < end && end == self.from => Self {
                from: first,
                being_written: (0, 0),
            },
            _ => self,
        }
    }

    /// The first of those that had not been given out.
    pub(crate) fn next(&self) -> u64 {
        self.from
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_is_being_written_is_saved_with_what_follows_it() {
        let saved = |visible, being_written: Range<u64>| {
            let mark = Mark {
                store: StoreIdentity {
                    name: [1; 16],
                    copy: [2; 16],
                    data: None,
                },
                table: TableId(7),
                unseen: Unseen::new(visible, &being_written),
                next: visible,
            };
            let read: Mark = mark.to_string().parse().expect("whole");
            assert_eq!((read.store, read.table), (mark.store, mark.table));
            for number in 0..40 {
                assert_eq!(
                    read.unseen.has(number),
                    mark.unseen.has(number),
                    "number {number}"
                );
            }
            read.unseen.next()
        };
        assert_eq!(saved(30, 0..0), 30);
        assert_eq!(saved(30, 10..30), 10, "its process may die before it is written");
        assert_eq!(saved(30, 10..20), 30);
    }
}
