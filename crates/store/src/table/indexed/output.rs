//! The rows that a batch of a scan gets.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use bedload_columns::{ColumnSet, Place};

use super::piece::{Piece, take_first};
use crate::rows::Deletions;

/// Rows whose deletion is looked up at a time: no more are looked at in vain once a batch is full.
const SIFTED_ROWS: usize = 1024;

/// Rows of a batch in the direction of the scan.
#[derive(Default)]
pub(super) struct Output {
    pub(super) sets: Vec<ColumnSet>,
    /// Numbers of sets, and rows of them.
    pub(super) stretches: Vec<(usize, Range<usize>)>,
}

impl Output {
    /// Adds rows of a stretch that the filter and deletions leave, at most `most`. Returns how many
    /// they are, and the rows of the stretch after the last of them.
    pub(super) fn add(
        &mut self,
        (piece, set): (&Piece, usize),
        stretch: Range<usize>,
        most: usize,
        (deletions, reverse): (&Deletions, bool),
    ) -> (usize, Range<usize>) {
        let times = piece.places.get(stretch.start).time..=piece.places.get(stretch.end - 1).time;
        let may_be_gone = !deletions.is_empty() && deletions.may_cover(times, 0..=u64::MAX);
        let mut rest = stretch;
        if !may_be_gone && piece.matching.is_none() {
            let rows = take_first(&mut rest, most, reverse);
            let left = rows.len();
            self.stretches.push((set, rows));
            return (left, rest);
        }
        if rest.len() == 1 {
            // Sources take turns, often for many rows.
            let row = take_first(&mut rest, 1, reverse);
            let Place { time, sequence } = piece.places.get(row.start);
            let matches = piece.matching.as_ref().is_none_or(|rows| rows.value(row.start));
            let is_left = matches && !(may_be_gone && deletions.covers(time, sequence));
            if is_left {
                self.stretches.push((set, row));
            }
            return (usize::from(is_left), rest);
        }
        let mut left = 0;
        while left < most && !rest.is_empty() {
            if may_be_gone && skip_gone(piece, &mut rest, (deletions, reverse)) {
                continue;
            }
            let rows = take_first(&mut rest, SIFTED_ROWS, reverse);
            let bits = sifted(piece, rows.clone(), may_be_gone.then_some(deletions));
            let slices = bits.set_slices();
            let slices = slices.map(|(begin, end)| rows.start + begin..rows.start + end);
            let end = if reverse {
                let slices: Vec<_> = slices.collect();
                self.push(set, slices.into_iter().rev(), (&mut left, most), reverse)
            } else {
                self.push(set, slices, (&mut left, most), reverse)
            };
            match end {
                Some(end) if reverse => rest.end = end,
                Some(end) => rest.start = end,
                None => {}
            }
        }
        (left, rest)
    }

    /// Adds stretches of rows until there are `most`; tells where it ended if there were more.
    fn push(
        &mut self,
        set: usize,
        stretches: impl Iterator<Item = Range<usize>>,
        (left, most): (&mut usize, usize),
        reverse: bool,
    ) -> Option<usize> {
        for mut rows in stretches {
            if *left == most {
                return Some(if reverse { rows.end } else { rows.start });
            }
            let added = take_first(&mut rows, most - *left, reverse);
            *left += added.len();
            self.stretches.push((set, added));
            if !rows.is_empty() {
                return Some(if reverse { rows.end } else { rows.start });
            }
        }
        None
    }
}

/// Passes over rows of times of which none is left, however many they are; tells whether there were
/// some.
fn skip_gone(piece: &Piece, rest: &mut Range<usize>, (deletions, reverse): (&Deletions, bool)) -> bool {
    let next = if reverse { rest.end - 1 } else { rest.start };
    let Some(gone) = deletions.gone_times(piece.places.get(next).time, piece.sequences.clone()) else {
        return false;
    };
    if reverse {
        rest.end = piece
            .places
            .search(rest.clone(), |place| place.time >= *gone.start());
    } else {
        rest.start = piece
            .places
            .gallop(rest.clone(), |place| place.time > *gone.end());
    }
    true
}

/// Which of some rows the filter and deletions leave.
fn sifted(piece: &Piece, rows: Range<usize>, deletions: Option<&Deletions>) -> BooleanBuffer {
    let matching = piece
        .matching
        .as_ref()
        .map(|matching| matching.slice(rows.start, rows.len()));
    let Some(deletions) = deletions else {
        return matching.unwrap_or_else(|| BooleanBuffer::new_set(rows.len()));
    };
    let mut left = BooleanBufferBuilder::new(rows.len());
    match &matching {
        Some(matching) => left.append_buffer(matching),
        None => left.append_n(rows.len(), true),
    }
    deletions.sift(&piece.places, rows, &mut left);
    left.finish()
}
