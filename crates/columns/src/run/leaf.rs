//! A leaf on its page.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | magic `BCR`, version 1 |
//! | 4 | 4 | the table that the rows belong to |
//! | 8 | 4 | first page of the run |
//! | 12 | 4 | rows |
//! | 16 | 8 | generation of the run |
//! | 24 | 16 | time and sequence number of the first row |
//! | 40 | 16 | time and sequence number of the last row |
//! | 56 | 16 | least and greatest sequence number |
//! | 72 | 4 | bytes of the leaf |
//! | 76 | 4 | zero |
//! | 80 | … | the leaf: the table's columns, then the sequence numbers |

use std::ops::{Bound, Deref, Range, RangeInclusive};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use bedload_pages::{PageId, Result};

use super::place::{Place, times};
use super::{corrupt, of_leaf};
use crate::bits::BLOCK;
use crate::ints::Ints;
use crate::leaf::LeafReader;
use crate::value::Value;
use crate::wire::Bytes;
use crate::zone::Predicate;

const MAGIC: [u8; 4] = *b"BCR\x01";

/// Bytes before the leaf.
pub(super) const HEADER_BYTES: usize = 80;

/// The header of a leaf's page, before its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafHeader {
    /// The table that the rows belong to.
    pub owner: u32,
    /// The first page of the run.
    pub first_page: u32,
    /// The generation of the run.
    pub generation: u64,
    /// How many rows there are.
    pub rows: u32,
    /// The first row.
    pub first: Place,
    /// The last row.
    pub last: Place,
    /// The least sequence number.
    pub min_sequence: u64,
    /// The greatest sequence number.
    pub max_sequence: u64,
}

impl LeafHeader {
    /// Parses the header of a page, and the length of its leaf; `None` if it is not a leaf's page.
    #[must_use]
    pub fn parse(page: &[u8]) -> Option<(Self, usize)> {
        let mut fields = Bytes::new(page);
        let mut read = || -> crate::Result<_> {
            if fields.array()? != MAGIC {
                return crate::error::damaged("it is no leaf of a run");
            }
            let (owner, first_page, rows) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let generation = fields.u64()?;
            let mut place = || -> crate::Result<Place> {
                let time = fields.u64()?.cast_signed();
                let sequence = fields.u64()?;
                Ok(Place { time, sequence })
            };
            let header = Self {
                owner,
                first_page,
                generation,
                rows,
                first: place()?,
                last: place()?,
                min_sequence: fields.u64()?,
                max_sequence: fields.u64()?,
            };
            let leaf_bytes = fields.u32()? as usize;
            fields.array::<4>()?;
            Ok((header, leaf_bytes))
        };
        read().ok()
    }

    /// Appends the header of a leaf of `leaf_bytes` bytes.
    pub(super) fn put(&self, leaf_bytes: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        for number in [self.owner, self.first_page, self.rows] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let numbers = [
            self.generation,
            self.first.time.cast_unsigned(),
            self.first.sequence,
            self.last.time.cast_unsigned(),
            self.last.sequence,
            self.min_sequence,
            self.max_sequence,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let leaf_bytes = u32::try_from(leaf_bytes).expect("a leaf fits in a page");
        out.extend_from_slice(&leaf_bytes.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }
}

/// An open leaf of a run. `G` holds its page.
#[derive(Debug)]
pub struct RunLeaf<G> {
    page: PageId,
    header: LeafHeader,
    reader: LeafReader<LeafBytes<G>>,
}

/// The bytes of a page that are its leaf.
#[derive(Debug)]
pub(super) struct LeafBytes<G> {
    guard: G,
    bytes: usize,
}

impl<G: Deref<Target = [u8]>> AsRef<[u8]> for LeafBytes<G> {
    fn as_ref(&self) -> &[u8] {
        &self.guard[HEADER_BYTES..HEADER_BYTES + self.bytes]
    }
}

impl<G: Deref<Target = [u8]>> RunLeaf<G> {
    /// Opens the leaf on a page whose bytes the store has verified.
    ///
    /// # Errors
    ///
    /// It is not a leaf's page, or the leaf is damaged.
    pub fn open(page: PageId, guard: G) -> Result<Self> {
        let Some((header, bytes)) = LeafHeader::parse(&guard) else {
            return Err(corrupt(page, "it is no leaf of a run"));
        };
        if header.rows == 0 || header.first > header.last {
            return Err(corrupt(page, "its leaf has no rows, or ends before it begins"));
        }
        if bytes > guard.len().saturating_sub(HEADER_BYTES) {
            return Err(corrupt(page, "its leaf reaches out of it"));
        }
        let bytes = LeafBytes { guard, bytes };
        let reader = LeafReader::open_unchecked(bytes).map_err(|error| of_leaf(page, error))?;
        if reader.rows() != header.rows as usize || reader.directory().columns().len() < 2 {
            return Err(corrupt(
                page,
                "its leaf has not the rows and columns it should have",
            ));
        }
        Ok(Self { page, header, reader })
    }

    /// Returns the page.
    pub fn page(&self) -> PageId {
        self.page
    }

    /// Returns the header of its page.
    pub fn header(&self) -> &LeafHeader {
        &self.header
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.reader.rows()
    }

    /// Returns the number of columns, sequence numbers included.
    pub fn columns(&self) -> usize {
        self.reader.directory().columns().len()
    }

    /// Whether the leaf has a column of its table. In columns that were added to the table later
    /// its rows are null.
    pub fn has(&self, column: usize) -> bool {
        column < self.columns() - 1
    }

    /// Returns false only if no row can match a predicate on a column of the table, judged by the
    /// leaf's zone map.
    ///
    /// # Errors
    ///
    /// The column's type differs from the predicate's literals.
    pub fn may_match(&self, column: usize, predicate: &Predicate) -> Result<bool> {
        if !self.has(column) {
            return Ok(predicate.matches_null());
        }
        self.reader
            .directory()
            .may_match(column, predicate)
            .map_err(|error| of_leaf(self.page, error))
    }

    /// Verifies the leaf's checksums, values and directory.
    ///
    /// # Errors
    ///
    /// The leaf is damaged.
    pub(super) fn check(&self) -> Result<()> {
        self.reader.check().map_err(|error| of_leaf(self.page, error))
    }

    /// Decodes rows of a column.
    ///
    /// # Errors
    ///
    /// The leaf has no such column or rows, or is damaged.
    pub fn decode(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        self.reader
            .decode(column, rows)
            .map_err(|error| of_leaf(self.page, error))
    }

    /// Returns one value.
    ///
    /// # Errors
    ///
    /// As for [`decode`](Self::decode).
    pub fn value_at(&self, column: usize, row: usize) -> Result<Value> {
        self.reader
            .value_at(column, row)
            .map_err(|error| of_leaf(self.page, error))
    }

    /// Returns the ticks of the time column.
    ///
    /// # Errors
    ///
    /// As for [`decode`](Self::decode), or the column is not a time column.
    pub fn times(&self, column: usize, rows: Range<usize>) -> Result<ScalarBuffer<i64>> {
        let array = self.decode(column, rows)?;
        times(&array)
            .filter(|_| array.null_count() == 0)
            .ok_or_else(|| corrupt(self.page, "its column of times has none"))
    }

    /// Returns the sequence number of a row.
    ///
    /// # Errors
    ///
    /// As for [`times`](Self::times).
    pub fn sequence(&self, row: usize) -> Result<u64> {
        match self.value_at(self.columns() - 1, row)? {
            Value::UInt(sequence) => Ok(sequence),
            _ => Err(corrupt(self.page, "a row has no sequence number")),
        }
    }

    /// Returns the first row at or after a position, or the number of rows. Reads one value of a
    /// few blocks, and the times of one block.
    ///
    /// # Errors
    ///
    /// As for [`times`](Self::times).
    pub fn search(&self, time: usize, place: Place) -> Result<usize> {
        if self.header.first >= place {
            return Ok(0);
        }
        if self.header.last < place {
            return Ok(self.rows());
        }
        let Range { start: first, end } = self.of_time(time, place, place.time)?;
        if place.sequence == 0 || first == end {
            return Ok(first);
        }
        let sequences = self.sequences(first..end)?;
        Ok(first + sequences.partition_point(|&sequence| sequence < place.sequence))
    }

    /// Returns the last row with a position's time and a sequence number up to its own; `None` if
    /// there is none.
    ///
    /// # Errors
    ///
    /// As for [`times`](Self::times).
    pub fn last_of_time(&self, time: usize, place: Place) -> Result<Option<usize>> {
        if self.header.first > place || self.header.last.time < place.time {
            return Ok(None);
        }
        let Some(next) = place.next().filter(|next| *next <= self.header.last) else {
            return Ok(Some(self.rows() - 1).filter(|_| self.header.last.time == place.time));
        };
        let Range { start: first, end } = self.of_time(time, next, place.time)?;
        if place.sequence == u64::MAX || first == end {
            return Ok((first < end).then(|| end - 1));
        }
        let sequences = self.sequences(first..end)?;
        let count = sequences.partition_point(|&sequence| sequence <= place.sequence);
        Ok((count > 0).then(|| first + count - 1))
    }

    /// Returns the rows of a time in the last block that begins before a position, which is above
    /// the first row. If there are none, returns an empty range where they would be.
    fn of_time(&self, column: usize, place: Place, time: i64) -> Result<Range<usize>> {
        let ticks = self.ticks(column)?;
        let block = self.block_before(&ticks, place)?;
        self.of_times(&ticks, &block, time..=time)
    }

    fn ticks(&self, column: usize) -> Result<Ints<'_>> {
        let ticks = self.reader.ticks(column);
        let ticks = ticks.map_err(|error| of_leaf(self.page, error))?;
        ticks.ok_or_else(|| corrupt(self.page, "its column of times has none"))
    }

    /// Returns the last block that begins before a position, which is above the first row.
    fn block_before(&self, ticks: &Ints<'_>, place: Place) -> Result<TimeBlock> {
        // Times are often spread evenly.
        let (mut low, mut high) = (0, (self.rows() - 1) / BLOCK);
        let (mut begin, mut end) = (self.header.first.time, self.header.last.time);
        let mut guesses = 2;
        while low < high {
            let middle = if guesses > 0 {
                guesses -= 1;
                low + share_of(high + 1 - low, (begin, end), place.time)
            } else {
                usize::midpoint(low, high) + 1
            };
            let middle = middle.clamp(low + 1, high);
            let at = ticks
                .get(middle * BLOCK)
                .map_err(|error| of_leaf(self.page, error))?;
            if at < place.time || at == place.time && self.sequence(middle * BLOCK)? < place.sequence {
                (low, begin) = (middle, at);
            } else {
                (high, end) = (middle - 1, at);
            }
        }
        Ok(TimeBlock {
            rows: low * BLOCK..self.rows().min((low + 1) * BLOCK),
            times: (begin, end),
        })
    }

    /// Returns the rows of a block whose times lie in a range. If there are none, returns an empty
    /// range where they would be.
    fn of_times(
        &self,
        ticks: &Ints<'_>,
        TimeBlock { rows: block, times }: &TimeBlock,
        of: RangeInclusive<i64>,
    ) -> Result<Range<usize>> {
        // Reading a value within a block costs a sum over the earlier values there.
        const AROUND: usize = 64;
        let (first, last) = of.into_inner();
        let row = |time| block.start + share_of(block.len(), *times, time);
        let near = row(first).saturating_sub(AROUND).max(block.start)..(row(last) + AROUND).min(block.end);
        for window in [near, block.clone()] {
            let (mut before, mut through) = (0, 0);
            let counted = ticks.for_each(window.clone(), |values| {
                before += values.iter().filter(|value| **value < first).count();
                through += values.iter().filter(|value| **value <= last).count();
                Ok(())
            });
            counted.map_err(|error| of_leaf(self.page, error))?;
            let (begin, end) = (window.start + before, window.start + through);
            let is_whole = (begin > window.start || window.start == block.start)
                && (end < window.end || window.end == block.end);
            if is_whole {
                return Ok(begin..end);
            }
        }
        Err(corrupt(self.page, "its times are not in order"))
    }

    /// Returns the rows between two positions; an empty range if the bounds are inverted.
    ///
    /// # Errors
    ///
    /// As for [`times`](Self::times).
    pub fn between(&self, time: usize, (from, to): (Bound<Place>, Bound<Place>)) -> Result<Range<usize>> {
        let from = match from {
            Bound::Unbounded => None,
            Bound::Included(from) => Some(from),
            Bound::Excluded(from) => match from.next() {
                Some(from) => Some(from),
                None => return Ok(self.rows()..self.rows()),
            },
        };
        let to = match to {
            Bound::Unbounded => None,
            Bound::Included(to) => to.next(),
            Bound::Excluded(to) => Some(to),
        };
        if let (Some(from), Some(to)) = (from, to)
            && let Some(rows) = self.between_times(time, from, to)?
        {
            return Ok(rows);
        }
        let begin = from.map_or(Ok(0), |from| self.search(time, from))?;
        let end = to.map_or(Ok(self.rows()), |to| self.search(time, to))?;
        Ok(begin..end.max(begin))
    }

    /// Returns the rows from one position up to another if these are the beginnings of two times,
    /// neither at an end of the leaf, that lie in one block: it is searched once.
    fn between_times(&self, time: usize, from: Place, to: Place) -> Result<Option<Range<usize>>> {
        let is_within = self.header.first < from && from.time < to.time && to <= self.header.last;
        if !is_within || (from.sequence, to.sequence) != (0, 0) {
            return Ok(None);
        }
        let ticks = self.ticks(time)?;
        let block = self.block_before(&ticks, from)?;
        if block.times.1 < to.time {
            return Ok(None);
        }
        let rows = self.of_times(&ticks, &block, from.time..=to.time - 1)?;
        Ok(Some(rows))
    }

    /// Returns the sequence numbers.
    ///
    /// # Errors
    ///
    /// As for [`times`](Self::times).
    pub fn sequences(&self, rows: Range<usize>) -> Result<ScalarBuffer<u64>> {
        let array = self.decode(self.columns() - 1, rows)?;
        let numbers = array.as_primitive_opt::<UInt64Type>();
        numbers
            .filter(|numbers| numbers.null_count() == 0)
            .map(|numbers| numbers.values().clone())
            .ok_or_else(|| corrupt(self.page, "its column of sequence numbers has none"))
    }
}

/// A block of a leaf.
struct TimeBlock {
    rows: Range<usize>,
    /// The time of its first row, and one that no row of it exceeds and none behind it precedes.
    times: (i64, i64),
}

/// Interpolates how many of some rows lie before a time, given their first time and one that none
/// exceeds.
fn share_of(rows: usize, (first, last): (i64, i64), time: i64) -> usize {
    let (span, before) = (last.abs_diff(first), time.saturating_sub(first).max(0));
    let share = rows as u128 * u128::from(before.cast_unsigned()) / u128::from(span.max(1));
    usize::try_from(share).map_or(rows, |share| share.min(rows))
}
