//! A batch of rows of a sparse table in the making.

use std::ops::Range;

use crate::error::Result;
use crate::rows::{BatchBuilder, Deletions, Place, RowSource, Stretch};

/// A batch in the making.
pub(super) struct Output<'s> {
    pub(super) builder: BatchBuilder<'s>,
    wanted: usize,
    /// The place of the last row looked at.
    pub(super) last: Option<Place>,
    /// The stretch of deleted rows around it.
    stretch: Option<Stretch>,
}

impl<'s> Output<'s> {
    pub(super) fn new(builder: BatchBuilder<'s>, wanted: usize) -> Self {
        Self {
            builder,
            wanted,
            last: None,
            stretch: None,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.builder.is_full(self.wanted)
    }

    /// Rows that it has room for.
    pub(super) fn room(&self) -> usize {
        self.wanted.saturating_sub(self.builder.len())
    }

    /// Says how many rows are left, if none has been taken.
    pub(super) fn expect(&mut self, rows: usize) {
        if self.builder.len() == 0 {
            self.builder.expect(rows.min(self.wanted));
        }
    }

    /// Whether `rows` are best taken at once: they are all there are, and few.
    pub(super) fn takes_whole(&self, rows: usize) -> bool {
        self.builder.takes_whole(rows)
    }

    /// Asks for the memory of rows that will be taken after others.
    pub(super) fn approach(&self, source: &impl RowSource, rows: Range<usize>) {
        self.builder.approach(source, rows);
    }

    /// Takes rows of a source, without those that were deleted, until the batch has as many as are
    /// wanted; returns the number of the first row that was not looked at.
    pub(super) fn take(
        &mut self,
        source: &impl RowSource,
        rows: Range<usize>,
        deletions: &Deletions,
    ) -> Result<usize> {
        let mut at = rows.start;
        while at < rows.end && self.builder.len() < self.wanted {
            let most = rows.end.min(at + (self.wanted - self.builder.len()));
            if deletions.is_empty() {
                self.builder.append(source, at..most)?;
                at = most;
                continue;
            }
            // Times ascend, or descend: those of one stretch stand together.
            let place = source.place(at);
            let known = self.stretch.filter(|stretch| stretch.contains(place));
            let stretch = known.unwrap_or_else(|| deletions.stretch(place));
            self.stretch = Some(stretch);
            let (mut end, mut beyond) = (at + 1, most);
            while end < beyond {
                let middle = usize::midpoint(end, beyond);
                if stretch.contains(source.place(middle)) {
                    end = middle + 1;
                } else {
                    beyond = middle;
                }
            }
            let is_gone = |row: &usize| deletions.covers_in(stretch, source.place(*row));
            if !deletions.leaves_all(stretch) {
                let left = (at..end).find(|row| !is_gone(row)).unwrap_or(end);
                end = (left..end).find(is_gone).unwrap_or(end);
                at = left;
            }
            if end > at {
                self.builder.append(source, at..end)?;
                at = end;
            }
        }
        if at > rows.start {
            self.last = Some(source.place(at - 1));
        }
        Ok(at)
    }
}
