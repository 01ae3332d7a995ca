//! Pages of a run: packed columns behind a header.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 2 | magic `0xBED2` |
//! | 2 | 1 | level: 0 for a leaf, a parent's is its children's plus one |
//! | 3 | 1 | flags: 1 there is a tie column |
//! | 4 | 2 | entries |
//! | 6 | 2 | bytes that all keys begin with |
//! | 8 | 8 | generation of the run, that of its first page |
//! | 16 | 4 | first page of the run |
//! | 20 | 4 | zero |
//! | 24 | … | columns of numbers, as [`frame`](super::frame) has them: prefixes; ties, if kept; 1 for a tombstone, else 0; fixed columns of at most 8 bytes; the ends of keys, if keys are kept, and of each variable column |
//! | … | … | fixed columns of more than 8 bytes |
//! | … | … | what all keys begin with; the rest of each key, end to end; the byte strings of each variable column |
//! | … | ⌈entries / 8⌉ | the *deletion map*: a bit for each entry, lowest first, set when the entry was deleted in place |
//! | … | ⌈entries / 8⌉ | the *hint map*: a bit for each entry that readers may pass over; not written with the page, so zero at first |
//!
//! Nodes above the leaves are pages of the same form, whose rows are one fixed column, the child's
//! page id, and whose entries are the first of each child.
//!
//! # Invariants of a page
//!
//! 1. Entries ascend strictly by (key, tie).
//! 2. The ends of a column of byte strings ascend, and the last one is what the page has of them.
//! 3. A page never changes except for its maps. Removing entries and repacking the rest could need
//!    more room, since the rest may lie further from a line.
//! 4. Bits of the deletion map are only ever set. A store may clear the hint map at any time.
//! 5. A bit of the hint map of a leaf says that the entry was found dead. In a node above the
//!    leaves it says that all entries below the child are deleted or dead.

use std::ops::Range;

use super::columns::RunColumns;
use super::frame::{Frame, Frames, Line};
use super::shape::Shape;
use crate::entry::RowLayout;
use bedload_pages::{Error, PageId, Result};

const MAGIC: u16 = 0xBED2;
const HEADER_LEN: usize = 24;
const HAS_TIES: u8 = 1;

/// No run of 2³² pages is higher, as every node has at least two children.
pub(super) const LEVEL_MAX: u8 = 32;

/// How the first entries of some columns will lie on a page.
pub(super) struct Plan {
    count: usize,
    common_len: usize,
    lines: Vec<Line>,
    /// Bytes of the page, its hint map included, which is not written.
    pub(super) len: usize,
}

impl Plan {
    pub(super) fn new<L: RowLayout>(shape: &Shape<L>, columns: &RunColumns, count: usize) -> Self {
        let common_len = common_len(shape, columns, count);
        let mut lines: Vec<Line> = columns
            .numbers
            .iter()
            .map(|column| Line::through(&column[..count]))
            .collect();
        if shape.keys {
            let line = Line::through(&shortened(&columns.numbers[shape.ends_at()][..count], common_len));
            lines[shape.ends_at()] = line;
        }
        let numbers: usize = lines.iter().map(|line| line.len(count)).sum();
        let wide: usize = shape.wide.iter().map(|width| width * count).sum();
        let ends = columns.numbers[shape.ends_at()..].iter();
        let strings: u64 = ends
            .map(|ends| count.checked_sub(1).map_or(0, |last| ends[last]))
            .sum();
        let strings = usize::try_from(strings).unwrap_or(usize::MAX);
        let saved = common_len * count.saturating_sub(1);
        Self {
            count,
            common_len,
            lines,
            len: HEADER_LEN + numbers + wide + strings - saved + 2 * map_len(count),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Writes the page. `level` and `run` go to its header.
    pub(super) fn write<L: RowLayout>(
        &self,
        shape: &Shape<L>,
        columns: &RunColumns,
        level: u8,
        run: &RunName,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[level, if shape.ties { HAS_TIES } else { 0 }]);
        out.extend_from_slice(&narrow(self.count).to_le_bytes());
        out.extend_from_slice(&narrow(self.common_len).to_le_bytes());
        out.extend_from_slice(&run.generation.to_le_bytes());
        out.extend_from_slice(&run.first_page.get().to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let ends_at = shape.ends_at();
        for (index, (line, numbers)) in self.lines.iter().zip(&columns.numbers).enumerate() {
            if shape.keys && index == ends_at {
                line.write(&shortened(&numbers[..self.count], self.common_len), out);
            } else {
                line.write(&numbers[..self.count], out);
            }
        }
        for (column, &width) in columns.wide.iter().zip(&shape.wide) {
            out.extend_from_slice(&column[..width * self.count]);
        }
        for column in 0..columns.strings.len() {
            let is_key = shape.keys && column == 0;
            if is_key && self.count > 0 {
                out.extend_from_slice(&columns.string(shape, 0, 0)[..self.common_len]);
            }
            let skipped = if is_key { self.common_len } else { 0 };
            for index in 0..self.count {
                out.extend_from_slice(&columns.string(shape, column, index)[skipped..]);
            }
        }
        out.resize(out.len() + map_len(self.count), 0);
        debug_assert_eq!(out.len() + map_len(self.count), self.len);
    }
}

/// Bytes of a map of a page: a bit for each entry.
fn map_len(count: usize) -> usize {
    count.div_ceil(8)
}

/// The bytes that the keys of the first `count` entries begin with.
fn common_len<L: RowLayout>(shape: &Shape<L>, columns: &RunColumns, count: usize) -> usize {
    if !shape.keys || count == 0 {
        return 0;
    }
    let first = columns.string(shape, 0, 0);
    (1..count).fold(first.len().min(usize::from(u16::MAX)), |len, index| {
        let key = columns.string(shape, 0, index);
        let shared = first[..len].iter().zip(key).take_while(|(a, b)| a == b);
        shared.count()
    })
}

/// Where strings end when the first `common_len` bytes of each are left out.
fn shortened(ends: &[u64], common_len: usize) -> Vec<u64> {
    let lens = (1..).map(|count: u64| count * common_len as u64);
    ends.iter().zip(lens).map(|(end, saved)| end - saved).collect()
}

/// A count or a length within a page, which is shorter than 64 KiB.
fn narrow(value: usize) -> u16 {
    u16::try_from(value).expect("pages are shorter than 64 KiB")
}

/// The fields about the run in each of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunName {
    pub(super) first_page: PageId,
    pub(super) generation: u64,
}

/// A page of a run whose columns were found where they should be.
#[derive(Debug, Clone)]
pub(super) struct RunPage<'p, L> {
    shape: &'p Shape<L>,
    id: PageId,
    count: usize,
    numbers: Frames<'p>,
    wide: Vec<&'p [u8]>,
    common: &'p [u8],
    strings: Vec<&'p [u8]>,
    deleted: &'p [u8],
    hinted: &'p [u8],
    deleted_at: usize,
}

/// The fields of a page of any run about itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageHeader {
    pub(super) level: u8,
    pub(super) run: RunName,
}

impl PageHeader {
    /// The header of a page; `None` if it is no page of a run.
    pub(super) fn read(page: &[u8]) -> Option<Self> {
        let (words, _) = page.first_chunk::<HEADER_LEN>()?.as_chunks::<8>();
        let [magic_low, magic_high, level, ..] = words[0];
        let first_page = u32::from_le_bytes([words[2][0], words[2][1], words[2][2], words[2][3]]);
        let run = RunName {
            first_page: PageId::new(first_page)?,
            generation: u64::from_le_bytes(words[1]),
        };
        (u16::from_le_bytes([magic_low, magic_high]) == MAGIC).then_some(Self { level, run })
    }
}

/// A hint map to be put into its page.
pub(super) struct HintMap {
    at: usize,
    bytes: Vec<u8>,
}

impl HintMap {
    pub(super) fn put(&self, page: &mut [u8]) {
        page[self.at..self.at + self.bytes.len()].copy_from_slice(&self.bytes);
    }
}

impl<'p, L: RowLayout> RunPage<'p, L> {
    /// The page of a run, at the level at which it is expected.
    #[inline]
    pub(super) fn parse(
        page: &'p [u8],
        shape: &'p Shape<L>,
        id: PageId,
        run: &RunName,
        level: u8,
    ) -> Result<Self> {
        let corrupt = |reason| Error::Corrupt { page: id, reason };
        let header: &[u8; HEADER_LEN] = page
            .first_chunk()
            .ok_or_else(|| corrupt("it is not a page of a run"))?;
        let (words, _) = header.as_chunks::<8>();
        let [
            magic_low,
            magic_high,
            found_level,
            flags,
            count_low,
            count_high,
            common_low,
            common_high,
        ] = words[0];
        let first_page = u32::from_le_bytes([words[2][0], words[2][1], words[2][2], words[2][3]]);
        let reason = if u16::from_le_bytes([magic_low, magic_high]) != MAGIC {
            "it is not a page of a run"
        } else if first_page != run.first_page.get() || u64::from_le_bytes(words[1]) != run.generation {
            "it belongs to another run"
        } else if found_level != level {
            "its level is not the one its parent has it for"
        } else if (flags & HAS_TIES != 0) != shape.ties {
            "it differs from its run in whether ties are kept"
        } else {
            let count = u16::from_le_bytes([count_low, count_high]).into();
            let common_len = u16::from_le_bytes([common_low, common_high]).into();
            return Self::parse_columns(&page[HEADER_LEN..], shape, id, count, common_len)
                .ok_or_else(|| corrupt("its columns reach out of it"));
        };
        Err(corrupt(reason))
    }

    #[inline]
    fn parse_columns(
        mut rest: &'p [u8],
        shape: &'p Shape<L>,
        id: PageId,
        count: usize,
        common_len: usize,
    ) -> Option<Self> {
        let len_bytes = rest.len();
        let numbers = Frames::take(&mut rest, shape.number_columns(), count)?;
        let mut take = |len: usize| {
            let (taken, behind) = rest.split_at_checked(len)?;
            rest = behind;
            Some(taken)
        };
        let wide = shape
            .wide
            .iter()
            .map(|&width| take(width * count))
            .collect::<Option<_>>()?;
        let common = take(common_len)?;
        let ends = numbers[shape.ends_at()..].iter();
        let len = |ends: &Frame<'_>| {
            count
                .checked_sub(1)
                .map_or(Some(0), |last| usize::try_from(ends.get(last)).ok())
        };
        let strings = ends.map(|ends| take(len(ends)?)).collect::<Option<_>>()?;
        let deleted = take(map_len(count))?;
        let hinted = take(map_len(count))?;
        let deleted_at = HEADER_LEN + (len_bytes - rest.len()) - 2 * map_len(count);
        Some(Self {
            shape,
            id,
            count,
            numbers,
            wide,
            common,
            strings,
            deleted,
            hinted,
            deleted_at,
        })
    }

    /// Whether an entry was deleted in place.
    #[inline]
    pub(super) fn is_deleted(&self, index: usize) -> bool {
        self.deleted[index / 8] >> (index % 8) & 1 == 1
    }

    /// Whether an entry was deleted in place, or has a hint.
    #[inline]
    pub(super) fn is_dead(&self, index: usize) -> bool {
        (self.deleted[index / 8] | self.hinted[index / 8]) >> (index % 8) & 1 == 1
    }

    /// The hint map with the bits of some more entries set; `None` if they are set already. And
    /// whether every entry is deleted or has a hint then.
    pub(super) fn with_hints(&self, indexes: &[usize]) -> (Option<HintMap>, bool) {
        let mut bytes = self.hinted.to_vec();
        for &index in indexes {
            bytes[index / 8] |= 1 << (index % 8);
        }
        let is_dead = |index: usize| (self.deleted[index / 8] | bytes[index / 8]) >> (index % 8) & 1 == 1;
        let is_all_dead = (0..self.count).all(is_dead);
        let is_changed = bytes != self.hinted;
        let at = self.deleted_at + self.deleted.len();
        (is_changed.then_some(HintMap { at, bytes }), is_all_dead)
    }

    /// Whether an entry is a tombstone.
    pub(super) fn is_tombstone(&self, index: usize) -> bool {
        self.numbers[self.shape.tombstones_at()].get(index) != 0
    }

    /// The error of a page that breaks a rule.
    pub(super) fn corrupt(&self, reason: &'static str) -> Error {
        Error::Corrupt {
            page: self.id,
            reason,
        }
    }

    /// Where the deletion map begins in the page.
    pub(super) fn deleted_at(&self) -> usize {
        self.deleted_at
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn prefix(&self, index: usize) -> u64 {
        self.numbers[0].get(index)
    }

    /// The column of prefixes, for a search.
    #[inline]
    pub(super) fn prefixes(&self) -> &Frame<'p> {
        &self.numbers[0]
    }

    #[inline]
    pub(super) fn tie(&self, index: usize) -> u64 {
        if self.shape.ties {
            self.numbers[1].get(index)
        } else {
            0
        }
    }

    /// A fixed column of at most eight bytes, the first of them being 0.
    pub(super) fn narrow(&self, column: usize, index: usize) -> u64 {
        self.numbers[self.shape.narrow_at() + column].get(index)
    }

    /// The key, put together in `scratch`; empty where the prefix says it all.
    pub(super) fn key<'s>(&self, index: usize, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        scratch.clear();
        if self.shape.keys {
            scratch.extend_from_slice(self.common);
            scratch.extend_from_slice(self.string(0, index)?);
        }
        Ok(scratch)
    }

    fn string(&self, column: usize, index: usize) -> Result<&'p [u8]> {
        let ends = &self.numbers[self.shape.ends_at() + column];
        let begin = index.checked_sub(1).map_or(0, |before| ends.get(before));
        let at = |end: u64| usize::try_from(end).unwrap_or(usize::MAX);
        self.strings[column]
            .get(at(begin)..at(ends.get(index)))
            .ok_or_else(|| self.corrupt("its byte strings overlap"))
    }

    /// Takes one entry out of the page.
    pub(super) fn unpack_one(&self, index: usize, columns: &mut RunColumns) -> Result<()> {
        columns.clear();
        let ends_at = self.shape.ends_at();
        for (frame, numbers) in self.numbers[..ends_at].iter().zip(&mut columns.numbers) {
            numbers.push(frame.get(index));
        }
        for ((bytes, column), &width) in self.wide.iter().zip(&mut columns.wide).zip(&self.shape.wide) {
            column.extend_from_slice(&bytes[index * width..(index + 1) * width]);
        }
        for column in 0..self.strings.len() {
            if self.shape.keys && column == 0 {
                columns.strings[column].extend_from_slice(self.common);
            }
            columns.strings[column].extend_from_slice(self.string(column, index)?);
            let len = columns.strings[column].len() as u64;
            columns.numbers[ends_at + column].push(len);
        }
        Ok(())
    }

    /// Takes those of a range of entries out of the page that were not deleted and, if it
    /// `skips_dead`, have no hint.
    pub(super) fn unpack(
        &self,
        range: Range<usize>,
        skips_dead: bool,
        columns: &mut RunColumns,
    ) -> Result<()> {
        if skips_dead && range.clone().all(|index| self.is_dead(index)) {
            columns.clear();
            return Ok(());
        }
        columns.clear();
        if range.is_empty() {
            return Ok(());
        }
        for (frame, numbers) in self.numbers.iter().zip(&mut columns.numbers) {
            frame.unpack(range.clone(), numbers);
        }
        for ((bytes, column), &width) in self.wide.iter().zip(&mut columns.wide).zip(&self.shape.wide) {
            column.extend_from_slice(&bytes[range.start * width..range.end * width]);
        }
        for column in 0..self.strings.len() {
            self.unpack_strings(column, range.clone(), columns)?;
        }
        let bytes = range.start / 8..range.end.div_ceil(8);
        let is_marked = |map: &[u8]| map[bytes.clone()].iter().any(|&byte| byte != 0);
        if skips_dead && is_marked(self.hinted) {
            columns.retain(self.shape, |index| !self.is_dead(range.start + index));
        } else if is_marked(self.deleted) {
            columns.retain(self.shape, |index| !self.is_deleted(range.start + index));
        }
        Ok(())
    }

    /// Takes a range of a column of byte strings out, whose ends, as the page has them, are in
    /// `columns` already.
    fn unpack_strings(&self, column: usize, range: Range<usize>, columns: &mut RunColumns) -> Result<()> {
        let corrupt = || self.corrupt("its byte strings overlap");
        let frame = &self.numbers[self.shape.ends_at() + column];
        let before = range.start.checked_sub(1).map_or(0, |last| frame.get(last));
        let ends = &mut columns.numbers[self.shape.ends_at() + column];
        let last = ends.last().copied().unwrap_or(before);
        if !ends.is_sorted() || ends.first().is_some_and(|&first| first < before) {
            return Err(corrupt());
        }
        let strings = &mut columns.strings[column];
        if !(self.shape.keys && column == 0) || self.common.is_empty() {
            let at = |end: u64| usize::try_from(end).unwrap_or(usize::MAX);
            let Some(bytes) = self.strings[column].get(at(before)..at(last)) else {
                return Err(corrupt());
            };
            strings.extend_from_slice(bytes);
            ends.iter_mut().for_each(|end| *end -= before);
            return Ok(());
        }
        for (end, index) in ends.iter_mut().zip(range) {
            strings.extend_from_slice(self.common);
            strings.extend_from_slice(self.string(column, index)?);
            *end = strings.len() as u64;
        }
        Ok(())
    }
}
