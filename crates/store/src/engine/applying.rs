//! Applies records of the log to a generation, in recovery and in a store that is open for reading.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::pages::{COUNTER_MAX, WorkingPages};
use crate::rows::{Generation, SortedRows};
use crate::table::{Catalogue, StoredTable};
use crate::wal::Record;

/// The reason for refusing a record whose sequence numbers are too great.
pub(super) const OUT_OF_NUMBERS: &str = "its sequence numbers end further than any store gets";

/// A generation to which the log is applied, after the checkpoint at which reading the log began.
pub(super) struct Applying<'a> {
    /// The data file, for messages.
    pub(super) path: &'a Path,
    pub(super) catalogue: &'a Catalogue,
    pub(super) generation: &'a Generation,
    pub(super) next_sequence: &'a mut u64,
    /// The last sequence numbers that were left out between two records, those of a long batch.
    pub(super) left_out: &'a mut Range<u64>,
    /// Where the applied log begins.
    pub(super) log_start: u64,
    /// In salvage, the pages to which rows of the log may have been copied from leaves.
    pub(super) copied: Option<&'a WorkingPages>,
}

impl Applying<'_> {
    /// Adds what a record, or a part of a group, says to the generation. It ends at position `end`
    /// of the log.
    ///
    /// # Errors
    ///
    /// The record cannot follow those before it, and nothing of it was applied.
    pub(super) fn take(&mut self, record: Record, end: u64) -> Result<()> {
        let damaged = |reason| Error::corrupt(self.path, format!("the log before position {end}"), reason);
        let (table, first, numbers) = match &record {
            Record::Append {
                table,
                first_sequence,
                rows,
            } => (*table, *first_sequence, rows.len() as u64),
            Record::Delete { table, deletion } => (*table, deletion.at, 1),
            Record::Replace { table, at, .. } => (*table, *at, 1),
            Record::Blocks {
                table,
                first_sequence,
                rest,
                blocks,
            } => (*table, *first_sequence, (rest.len() + blocks.len()) as u64),
            Record::NoOp => return Ok(()),
            Record::Group(_) => return Err(damaged("it has groups within one another")),
            Record::Held { .. } => return self.take_held(record, end),
        };
        let next = first.checked_add(numbers);
        let next = next.filter(|&next| next <= COUNTER_MAX);
        let next = next.ok_or_else(|| damaged(OUT_OF_NUMBERS))?;
        if first < *self.next_sequence {
            return Err(damaged("its sequence numbers do not ascend"));
        }
        let known = self.catalogue.get(table);
        if known.is_none() && !self.catalogue.was_dropped(table) {
            return Err(damaged("it names a table that never existed"));
        }
        // Rows of a table that was dropped while they were committed are ignored.
        let rows = match (&record, known) {
            (Record::Append { rows, .. }, Some(known)) => Some(known.rows_of(rows, first)),
            (Record::Blocks { rest, .. }, Some(known)) => Some(known.rest_of(rest, first)),
            _ => None,
        };
        let rows = rows.transpose().map_err(damaged)?;
        let rows = match (rows, known) {
            (Some(rows), Some(known)) => Some(self.without_copied(known, rows)?),
            _ => None,
        };
        if let (Record::Blocks { blocks, .. }, Some(known)) = (&record, known) {
            known.check_blocks(blocks).map_err(damaged)?;
        }
        if let (Record::Replace { .. }, Some(known)) = (&record, known) {
            known.check_replaces().map_err(damaged)?;
        }
        if first > *self.next_sequence {
            *self.left_out = *self.next_sequence..first;
        }
        *self.next_sequence = next;
        match record {
            Record::Append { table, .. } => {
                if let Some(rows) = rows.filter(|rows| rows.len() > 0) {
                    self.generation.append(table, rows).merge_small();
                }
            }
            Record::Delete { table, deletion } if known.is_some() => {
                self.generation.delete(table, deletion, true);
            }
            Record::Replace { table, at, places } if known.is_some() => {
                self.generation.replace(table, at, places.into());
            }
            Record::Blocks { table, blocks, .. } => {
                let Some(rest) = rows else { return Ok(()) };
                self.generation
                    .append_blocks(table, rest, first, blocks.into_iter());
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds rows that were held back from the checkpoint at which the log begins.
    fn take_held(&mut self, record: Record, end: u64) -> Result<()> {
        let damaged = |reason| Error::corrupt(self.path, format!("the log before position {end}"), reason);
        let Record::Held {
            table,
            segment,
            sequences,
            rows,
        } = record
        else {
            return Ok(());
        };
        let greatest = sequences.iter().copied().max().unwrap_or(0);
        // A reader that began before has the rows already (`hold.rs`, rule 2).
        if segment != self.log_start {
            return Ok(());
        }
        if greatest >= COUNTER_MAX {
            return Err(damaged(OUT_OF_NUMBERS));
        }
        match self.catalogue.get(table) {
            Some(known) => {
                let rows = known.held_rows(&rows, sequences).map_err(damaged)?;
                let rows = self.without_copied(known, rows)?;
                if rows.len() > 0 {
                    self.generation.append(table, rows);
                }
                *self.next_sequence = (*self.next_sequence).max(greatest + 1);
                Ok(())
            }
            None if self.catalogue.was_dropped(table) => Ok(()),
            None => Err(damaged("it names a table that never existed")),
        }
    }

    /// Rows of a record without those that were copied from leaves.
    fn without_copied(&self, known: &StoredTable, rows: SortedRows) -> Result<SortedRows> {
        match self.copied {
            Some(pages) => known.without_copied(pages, rows),
            None => Ok(rows),
        }
    }
}
