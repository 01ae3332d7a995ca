//! The entries of a page of a run as columns in memory: gathered to be written, or taken out of a
//! page.

use super::shape::Shape;
use crate::entry::{Entry, RowLayout};
use crate::key_order::KeyOrder;

/// Entries, column by column.
#[derive(Debug, Clone, Default)]
pub(super) struct RunColumns {
    /// Columns of numbers in the order in which pages have them: prefixes; ties, if kept; whether
    /// it is a tombstone; fixed columns of at most eight bytes, widened; where byte strings end,
    /// keys first.
    pub(super) numbers: Vec<Vec<u64>>,
    /// Fixed columns of more than eight bytes.
    pub(super) wide: Vec<Vec<u8>>,
    /// The byte strings of each column of them, end to end: keys first, if they are kept, then
    /// variable columns.
    pub(super) strings: Vec<Vec<u8>>,
}

/// An entry of one of several columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pick {
    source: u32,
    index: u32,
}

impl Pick {
    /// The entry at `index` of a page's entries, of which there are less than 2^16, or of as many
    /// columns.
    pub(super) fn new(source: usize, index: usize) -> Self {
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Self {
            source: narrow(source),
            index: narrow(index),
        }
    }

    pub(super) fn source(self) -> usize {
        self.source as usize
    }

    pub(super) fn index(self) -> usize {
        self.index as usize
    }
}

impl RunColumns {
    pub(super) fn new<L: RowLayout>(shape: &Shape<L>) -> Self {
        Self {
            numbers: vec![Vec::new(); shape.number_columns()],
            wide: vec![Vec::new(); shape.wide.len()],
            strings: vec![Vec::new(); shape.string_columns()],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers[0].len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        self.numbers.iter_mut().for_each(Vec::clear);
        self.wide.iter_mut().for_each(Vec::clear);
        self.strings.iter_mut().for_each(Vec::clear);
    }

    /// Appends an entry that has the shape's columns.
    pub(super) fn push<L: RowLayout>(
        &mut self,
        shape: &Shape<L>,
        order: &impl KeyOrder,
        entry: &Entry<'_>,
        is_tombstone: bool,
    ) {
        self.numbers[0].push(order.prefix(entry.key));
        if shape.ties {
            self.numbers[1].push(entry.tie);
        }
        self.numbers[shape.tombstones_at()].push(is_tombstone.into());
        let mut narrow = self.numbers[shape.narrow_at()..].iter_mut();
        let mut wide = self.wide.iter_mut();
        let mut fixed = entry.row.fixed;
        for &width in shape.layout.fixed_widths() {
            let (value, rest) = fixed.split_at(width.into());
            fixed = rest;
            if value.len() <= 8 {
                let mut bytes = [0; 8];
                bytes[..value.len()].copy_from_slice(value);
                narrow
                    .next()
                    .into_iter()
                    .for_each(|column| column.push(u64::from_le_bytes(bytes)));
            } else {
                wide.next()
                    .into_iter()
                    .for_each(|column| column.extend_from_slice(value));
            }
        }
        let keys = shape.keys.then_some(entry.key);
        let strings = keys.into_iter().chain(entry.row.variable.iter().copied());
        for (index, bytes) in strings.enumerate() {
            self.push_string(shape, index, bytes);
        }
    }

    /// Appends entries of other columns of the same shape.
    pub(super) fn push_picked<L: RowLayout>(&mut self, shape: &Shape<L>, from: &[&Self], picked: &[Pick]) {
        let mut sources: Vec<&[u64]> = Vec::with_capacity(from.len());
        for column in 0..shape.ends_at() {
            sources.clear();
            sources.extend(from.iter().map(|columns| &columns.numbers[column][..]));
            let numbers = picked.iter().map(|pick| sources[pick.source()][pick.index()]);
            self.numbers[column].extend(numbers);
        }
        for (column, &width) in shape.wide.iter().enumerate() {
            for pick in picked {
                let bytes = &from[pick.source()].wide[column];
                self.wide[column].extend_from_slice(&bytes[pick.index() * width..(pick.index() + 1) * width]);
            }
        }
        for column in 0..self.strings.len() {
            for pick in picked {
                self.push_string(
                    shape,
                    column,
                    from[pick.source()].string(shape, column, pick.index()),
                );
            }
        }
    }

    fn push_string<L: RowLayout>(&mut self, shape: &Shape<L>, column: usize, bytes: &[u8]) {
        let strings = &mut self.strings[column];
        strings.extend_from_slice(bytes);
        let end = strings.len() as u64;
        self.numbers[shape.ends_at() + column].push(end);
    }

    pub(super) fn prefix(&self, index: usize) -> u64 {
        self.numbers[0][index]
    }

    pub(super) fn tie<L>(&self, shape: &Shape<L>, index: usize) -> u64 {
        if shape.ties { self.numbers[1][index] } else { 0 }
    }

    /// A byte string. Where strings end was checked when they were taken out of their page.
    pub(super) fn string<L: RowLayout>(&self, shape: &Shape<L>, column: usize, index: usize) -> &[u8] {
        let ends = &self.numbers[shape.ends_at() + column];
        let begin = index.checked_sub(1).map_or(0, |before| ends[before]);
        let at = |end: u64| usize::try_from(end).unwrap_or(usize::MAX);
        self.strings[column]
            .get(at(begin)..at(ends[index]))
            .unwrap_or_default()
    }

    /// Removes the entries that `is_kept` does not keep.
    pub(super) fn retain<L: RowLayout>(&mut self, shape: &Shape<L>, is_kept: impl Fn(usize) -> bool) {
        let kept: Vec<Pick> = (0..self.len())
            .filter(|&index| is_kept(index))
            .map(|index| Pick::new(0, index))
            .collect();
        let mut retained = Self::new(shape);
        retained.push_picked(shape, &[self], &kept);
        *self = retained;
    }

    /// Removes the first `count` entries.
    pub(super) fn remove_first<L: RowLayout>(&mut self, shape: &Shape<L>, count: usize) {
        for (column, strings) in self.strings.iter_mut().enumerate() {
            let ends = &mut self.numbers[shape.ends_at() + column];
            let removed = count.checked_sub(1).map_or(0, |last| ends[last]);
            ends.iter_mut().for_each(|end| *end = end.saturating_sub(removed));
            strings.drain(..usize::try_from(removed).unwrap_or(usize::MAX).min(strings.len()));
        }
        for column in &mut self.numbers {
            column.drain(..count);
        }
        for (column, &width) in self.wide.iter_mut().zip(&shape.wide) {
            column.drain(..count * width);
        }
    }
}
