//! One commit over several tables.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::commit::{Added, Appended, Begun, Logged, NewRows};
use super::state::Engine;
use crate::error::{Error, Result};
use crate::rows::{Deletion, Place, SortedRows, TableId};
use crate::table::{Snap, StoredTable};
use crate::wal::{BODY_BYTES_MAX, Record};

/// A change of one table, as a part of a commit.
#[derive(Debug)]
pub(crate) enum Change {
    Append {
        table: Arc<StoredTable>,
        rows: Box<NewRows>,
    },
    Delete {
        table: Arc<StoredTable>,
        times: RangeInclusive<i64>,
        /// Whether the commit has other rows of these times.
        are_replaced: bool,
    },
    /// Rows that others of the commit replace, by their places, ascending.
    Replace {
        table: Arc<StoredTable>,
        rows: Arc<[Place]>,
    },
}

/// Changes that are committed together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    changes: Vec<Change>,
    appended: Appended,
    /// Bytes of memory that the rows take.
    bytes: usize,
    /// Bytes of the parts of the record.
    record_bytes: usize,
}

/// Where committed changes are.
struct Placed {
    /// Where their record ends in the log.
    position: u64,
    /// The sequence number of the first row that they add.
    first_row: Option<u64>,
}

impl Engine {
    /// Adds rows to what is going to be committed.
    ///
    /// # Errors
    ///
    /// The batch does not have the columns of the table; the commit would have more rows than the
    /// memory for them takes.
    pub(crate) fn group_append(
        &self,
        group: &mut Group,
        table: &Arc<StoredTable>,
        batch: &RecordBatch,
        snap: Snap,
    ) -> Result<()> {
        let schema = &table.entry.schema;
        let stored = schema.rows_to_store(batch)?;
        let placed = table.place(&stored, snap)?;
        let on_grid;
        let mut rows = &*stored;
        if let Some(placed) = &placed {
            on_grid = placed.apply(schema, rows)?;
            rows = &on_grid;
        }
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let rows = self.prepare(table, rows, SortedRows::bytes_of(schema, rows))?;
        let (bytes, record_bytes) = (
            group.bytes + rows.bytes(),
            group.record_bytes + rows.record().len(),
        );
        let limit_bytes = self.options.head_bytes.min(BODY_BYTES_MAX);
        if bytes.max(record_bytes) > limit_bytes {
            return Err(Error::TooLarge {
                what: "what is to be committed together".into(),
                len_bytes: bytes.max(record_bytes),
                limit_bytes,
            });
        }
        (group.bytes, group.record_bytes) = (bytes, record_bytes);
        group.appended.rows += batch.num_rows() as u64;
        if let Some(placed) = placed {
            group.appended.moved += placed.moved;
            group.appended.collided += placed.collided;
        }
        group.changes.push(Change::Append {
            table: table.clone(),
            rows: Box::new(rows),
        });
        Ok(())
    }

    /// Puts changes of several tables into the log and the heads. They become durable and visible
    /// together, once the commit is [finished](Self::finish), or a later one.
    pub(crate) fn begin_group(&self, group: Group) -> Result<Begun> {
        let Group {
            mut changes,
            mut appended,
            bytes,
            ..
        } = group;
        let _span = tracing::trace_span!("commit", changes = changes.len()).entered();
        self.check_writable()?;
        if changes.is_empty() {
            appended.first_sequence = self.next_sequence();
            return Ok(Begun::done(appended));
        }
        let (Placed { position, first_row }, numbers) = if changes.iter().all(Change::takes_back) {
            self.with_reserve(|| {
                self.make_room_to_delete()?;
                self.place_group(&mut changes)
            })
        } else {
            self.with_space(|| {
                self.make_room(bytes)?;
                self.place_group(&mut changes)
            })
        }?;
        appended.first_sequence = first_row.unwrap_or(numbers.start);
        self.counters.committed(appended.rows);
        let end = numbers.end;
        let logged = Some(Logged { position, end });
        Ok(Begun { appended, logged })
    }

    /// Puts changes into the log and the active generation; returns where they are, and their
    /// sequence numbers. On an error they are left as they are.
    fn place_group(&self, changes: &mut Vec<Change>) -> Result<(Placed, Range<u64>)> {
        let tables: Vec<TableId> = changes.iter().map(|change| change.table().entry.id).collect();
        let ((placed, added), numbers) = self.commit(tables, |first, view| {
            let (mut next, mut first_row) = (first, None);
            let mut heads = Vec::with_capacity(changes.len());
            let mut deletions = Vec::new();
            for change in &*changes {
                let id = change.table().entry.id;
                match change {
                    Change::Append { rows, .. } => {
                        heads.push(rows.record_head(id, next));
                        first_row = first_row.or(Some(next));
                        next += rows.len() as u64;
                    }
                    Change::Delete { times, .. } => {
                        let deletion = Deletion {
                            times: times.clone(),
                            from_sequence: 0,
                            at: next,
                        };
                        heads.push(Record::delete_body(id, &deletion));
                        deletions.push(deletion);
                        next += 1;
                    }
                    Change::Replace { rows, .. } => {
                        heads.push(Record::replace_body(id, next, rows));
                        next += 1;
                    }
                }
            }
            let bodies: Vec<[&[u8]; 2]> = heads
                .iter()
                .zip(&*changes)
                .map(|(head, change)| [&head[..], change.record()])
                .collect();
            let position = self.log.append_group(&bodies)?;
            let active = view.active();
            let (mut sequence, mut deletions) = (first, deletions.into_iter());
            let mut added = Vec::with_capacity(changes.len());
            for change in changes.drain(..) {
                match change {
                    Change::Append { table, rows } => {
                        let count = rows.len() as u64;
                        added.push(rows.add_to(view, table.entry.id, sequence));
                        sequence += count;
                    }
                    Change::Delete {
                        table, are_replaced, ..
                    } => {
                        let deletion = deletions.by_ref().take(1);
                        deletion.for_each(|deletion| active.delete(table.entry.id, deletion, !are_replaced));
                        sequence += 1;
                    }
                    Change::Replace { table, rows } => {
                        active.replace(table.entry.id, sequence, rows);
                        sequence += 1;
                    }
                }
            }
            Ok(((Placed { position, first_row }, added), next))
        })?;
        let to_merge = added.into_iter().filter_map(Added::settle);
        to_merge.for_each(|head| head.merge_small());
        Ok((placed, numbers))
    }
}

impl Group {
    /// Adds the deletion of a range of times.
    pub(crate) fn delete(&mut self, table: &Arc<StoredTable>, times: RangeInclusive<i64>) {
        self.changes.push(Change::Delete {
            table: table.clone(),
            times,
            are_replaced: false,
        });
    }

    /// Adds the replacement of all rows of a range of times, by rows that are added later and have
    /// each of these times.
    pub(crate) fn replace_times(&mut self, table: &Arc<StoredTable>, times: RangeInclusive<i64>) {
        self.changes.push(Change::Delete {
            table: table.clone(),
            times,
            are_replaced: true,
        });
    }

    /// Adds the replacement of rows, by their places, ascending. It removes rows added before it,
    /// and none added later.
    pub(crate) fn replace(&mut self, table: &Arc<StoredTable>, rows: Arc<[Place]>) {
        self.record_bytes += size_of_val(&*rows);
        let table = table.clone();
        self.changes.push(Change::Replace { table, rows });
    }

    /// The tables of the changes.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &StoredTable> {
        self.changes.iter().map(Change::table)
    }

    /// Whether there is a change of a table.
    pub(crate) fn has(&self, table: &StoredTable) -> bool {
        self.tables().any(|changed| changed.entry.id == table.entry.id)
    }

    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }
}

impl Change {
    fn table(&self) -> &StoredTable {
        match self {
            Self::Append { table, .. } | Self::Delete { table, .. } | Self::Replace { table, .. } => table,
        }
    }

    /// Whether it takes rows back, and adds none.
    fn takes_back(&self) -> bool {
        matches!(self, Self::Delete { .. })
    }

    /// The rows that follow the head of the part of the record.
    fn record(&self) -> &[u8] {
        match self {
            Self::Append { rows, .. } => rows.record(),
            Self::Delete { .. } | Self::Replace { .. } => &[],
        }
    }
}
