//! Holding back the newest rows when a generation is sealed, so that a little lateness never
//! reaches a tree.
//!
//! A row that is late by some duration precedes only rows within that duration of the latest time.
//! So the rows of a table within its recent lateness of the latest time are not flushed with the
//! others: they move to the next generation, and the flushed rows precede all rows still to come.
//! Otherwise a handful of late rows would send the last leaf of the tree through a merge after a
//! few flushes.
//!
//! Rules:
//! 1. Rows keep their sequence numbers: marks, snapshots and cursors see them at the same place.
//! 2. The next generation begins at a new segment of the log, whose first record repeats all rows
//!    that were held back. That record counts only for a reader that begins at this segment: the
//!    checkpoint whose log begins there has all other rows in pages. A reader that began earlier
//!    has read the rows from their own records, and makes no checkpoint just before the repeating
//!    one.
//! 3. One change of the view moves them from the sealed generation to the next one.
//! 4. All rows of one time are held back or none, and only for a head without deletions.

use std::sync::Arc;

use super::state::Engine;
use crate::error::{Error, Result};
use crate::rows::{EncodedRows, Generation, Head, SortedRows, TableId};
use crate::table::{StoredTable, View};
use crate::wal::{BODY_BYTES_MAX, Record};

/// At most one in this many rows of a head is held back, as each is logged again. None is if that
/// would cover fewer than half of the late rows.
const SHARE_MAX: usize = 4;

/// A head without its newest rows, and these.
struct Held {
    table: TableId,
    flushed: Head,
    held: SortedRows,
}

impl Engine {
    /// Moves the newest rows of the tables of a generation that is sealed to the next one, whose
    /// segment of the log has begun; returns the generation as it is to be flushed. The caller
    /// holds the commit lock and publishes both.
    pub(super) fn hold_back(&self, view: &View, next: &Generation) -> Result<Arc<Generation>> {
        let sealed = view.active();
        let mut parts = Vec::new();
        for id in sealed.tables() {
            let table = view.catalogue.get(id);
            if let (Some(table), Some(head)) = (table, sealed.head(id)) {
                parts.extend(split(table, &head)?);
            }
        }
        if parts.is_empty() {
            return Ok(sealed.clone());
        }
        let heads: Vec<Vec<u8>> = parts
            .iter()
            .map(|(part, _)| Record::held_head(part.table, next.log_start, part.held.places().sequences()))
            .collect();
        let bodies: Vec<[&[u8]; 2]> = heads
            .iter()
            .zip(&parts)
            .map(|(head, (_, rows))| [&head[..], rows.bytes()])
            .collect();
        match self.log.append_group(&bodies) {
            Ok(position) => next.hold_until(position),
            // Rather than fail, hold nothing back.
            Err(Error::NoSpace { .. } | Error::TooLarge { .. }) => return Ok(sealed.clone()),
            Err(error) => return Err(self.fail_if_unknown(error)),
        }
        let flushed = Generation::new(sealed.log_start, sealed.first_sequence);
        flushed.take_heads(sealed);
        for (part, _) in parts {
            self.counters.held_back(part.held.len() as u64);
            flushed.put_head(part.table, Arc::new(part.flushed));
            next.append(part.table, part.held);
        }
        Ok(Arc::new(flushed))
    }
}

/// The newest rows of a head, if worth holding back, and their encoding for the log.
fn split(table: &StoredTable, head: &Head) -> Result<Option<(Held, EncodedRows)>> {
    let (Some(order), Some(latest)) = (table.order(), head.latest()) else {
        return Ok(None);
    };
    if head.has_deletions() {
        return Ok(None);
    }
    let most = head.len() / SHARE_MAX;
    let mut times = order
        .lateness()
        .bounds()
        .filter_map(|late| latest.checked_sub_unsigned(late));
    let Some(time) = times.find(|&time| head.later_than(time) <= most) else {
        return Ok(None);
    };
    let schema = &table.entry.schema;
    // Text too long for one array is not held back, nor what is too long for a record.
    let Ok((flushed, held)) = head.split_after(time) else {
        return Ok(None);
    };
    if held.bytes() > BODY_BYTES_MAX {
        return Ok(None);
    }
    let encoded = EncodedRows::of_columns(schema, held.columns());
    let table = table.entry.id;
    Ok(Some((Held { table, flushed, held }, encoded)))
}
