//! Commits: rows and deletions on their way into the log and the active generation.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_buffer::MutableBuffer;

use super::flush::flush_generation;
use super::state::Engine;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::rows::{
    BatchRows, Deletion, EncodedRows, Generation, Head, SortedBatch, SortedRows, TableId, are_few, are_many,
    check_row_bytes,
};
use crate::table::{Placed, Snap, StoredTable, View};
use crate::wal::{BODY_BYTES_MAX, Pending, Record};

/// The result of [`Table::append`](crate::Table::append).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// How many rows.
    pub rows: u64,
    /// The sequence number of the first one; the others of its table follow it. Rows replaced by
    /// later ones of their batch have none.
    pub first_sequence: u64,
    /// Rows of a sparse table that were moved to a time of its grid.
    pub moved: u64,
    /// Rows of a sparse table whose place a later row of the same batch took.
    pub collided: u64,
    /// In a table with a key, rows of the table, and of the batch, that another row of the same key
    /// replaced.
    pub replaced: u64,
}

/// A commit in the log and the head, which may not be durable or visible yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    pub(crate) appended: Appended,
    /// None if it is durable and visible.
    pub(super) logged: Option<Logged>,
}

/// Where the record of a commit ends in the log, and one above its last sequence number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logged {
    pub(super) position: u64,
    pub(super) end: u64,
}

impl Begun {
    pub(crate) fn done(appended: Appended) -> Self {
        let logged = None;
        Self { appended, logged }
    }
}

/// The longest memory of a record that is kept for the next one.
const RECORD_BYTES_KEPT: usize = 1 << 20;

thread_local! {
    /// The buffer of the thread's last record: faulting in fresh memory costs more than copying.
    static RECORD_MEMORY: Cell<Option<MutableBuffer>> = const { Cell::new(None) };
}

/// Under [`Durability::Relaxed`], how much log may wait for a sync.
const RELAXED_BYTES: u64 = 8 << 20;

/// Keeps the memory of a record for the next one, unless rows use it or it is long.
fn keep_memory(rows: EncodedRows) {
    if let Some(memory) = rows
        .into_memory()
        .filter(|memory| memory.capacity() <= RECORD_BYTES_KEPT)
    {
        // A thread that is ending keeps nothing.
        let _ = RECORD_MEMORY.try_with(|kept| kept.set(Some(memory)));
    }
}

/// Rows that are about to be committed.
#[derive(Debug)]
pub(super) struct NewRows {
    logged: BatchRows,
    /// None if they are few, and stay encoded in the head.
    sorted: Option<SortedBatch>,
    /// Bytes of memory that they take.
    bytes: usize,
}

/// Rows that were added to a head: their memory can be reused, and the head may want a merge, once
/// the commit lock is free.
#[derive(Debug)]
pub(super) struct Added {
    logged: BatchRows,
    to_merge: Option<Arc<Head>>,
}

impl NewRows {
    /// The rows as the log has them.
    pub(super) fn record(&self) -> &[u8] {
        self.logged.bytes()
    }

    /// Returns the first bytes of their record, up to the rows, whose sequence numbers begin at
    /// `first`.
    pub(super) fn record_head(&self, table: TableId, first: u64) -> Vec<u8> {
        Record::head_of(table, first, &self.logged)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.logged.len()
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds them to the head of their table in a view, numbered from `first`. The table may have
    /// got columns since they were prepared.
    ///
    /// # Panics
    ///
    /// The view does not have the table.
    pub(super) fn add_to(self, view: &View, table: TableId, first: u64) -> Added {
        let (active, table) = (view.active(), view.catalogue.get(table));
        let table = &table.expect("a commit looks for its tables first").entry;
        let schema = &table.schema;
        let lack_columns = self.logged.columns() < schema.places().len();
        let to_merge = match (self.sorted, &self.logged) {
            (sorted, logged) if lack_columns => {
                let decode = || {
                    logged
                        .decode(schema)
                        .expect("they are decoded as they were encoded")
                };
                let sorted = sorted.unwrap_or_else(decode).numbered(first);
                Some(active.append(table.id, sorted.filled_up(schema)))
            }
            (Some(sorted), _) => Some(active.append(table.id, sorted.numbered(first))),
            (None, BatchRows::Plain(few)) => active.append_few(table, few, (first, self.bytes)),
            (None, BatchRows::Packed(_)) => unreachable!("packed rows are sorted"),
        };
        Added {
            logged: self.logged,
            to_merge,
        }
    }
}

impl Added {
    /// Keeps the memory of the record for the next one; returns the head if it is time to merge its
    /// runs.
    pub(super) fn settle(self) -> Option<Arc<Head>> {
        if let BatchRows::Plain(rows) = self.logged {
            keep_memory(rows);
        }
        self.to_merge
    }
}

pub(super) fn no_such_table() -> Error {
    Error::NoSuchTable {
        name: "this one, which was dropped".into(),
    }
}

/// Fails if a row of a batch, or the batch of `len_bytes` bytes, is too long.
fn check_batch(table: &StoredTable, batch: &RecordBatch, len_bytes: usize) -> Result<()> {
    check_row_bytes(&table.entry.schema, batch, 0, table.row_limit())?;
    if len_bytes > BODY_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "the batch".into(),
            len_bytes,
            limit_bytes: BODY_BYTES_MAX,
        });
    }
    Ok(())
}

/// The rows of a batch as they are, for the log.
fn encode(table: &StoredTable, batch: &RecordBatch) -> EncodedRows {
    let memory = RECORD_MEMORY.try_with(Cell::take).ok().flatten();
    let memory = memory.unwrap_or_else(|| MutableBuffer::new(0));
    EncodedRows::encode(&table.entry.schema, batch, memory)
}

impl Engine {
    /// Appends the rows of a batch, and waits until they are durable and visible.
    pub(crate) fn append(&self, table: &StoredTable, batch: &RecordBatch, snap: Snap) -> Result<Appended> {
        let begun = self.begin_append(table, batch, snap)?;
        self.finish(&begun)?;
        Ok(begun.appended)
    }

    /// Appends the rows of a batch to the log and the head. They are durable and visible once the
    /// commit is [finished](Self::finish), or a later one.
    pub(crate) fn begin_append(&self, table: &StoredTable, batch: &RecordBatch, snap: Snap) -> Result<Begun> {
        let _span =
            tracing::trace_span!("append", table = &*table.entry.name, rows = batch.num_rows()).entered();
        self.check_writable()?;
        let begun = self.with_space(|| self.try_append(table, batch, snap))?;
        self.counters.committed(begun.appended.rows);
        Ok(begun)
    }

    fn try_append(&self, table: &StoredTable, batch: &RecordBatch, snap: Snap) -> Result<Begun> {
        let mut appended = Appended {
            rows: batch.num_rows() as u64,
            first_sequence: self.order.visible(),
            ..Appended::default()
        };
        let stored = table.entry.schema.rows_to_store(batch)?;
        let on_grid;
        let mut batch = &*stored;
        if let Some(placed) = table.place(batch, snap)? {
            // Before rows are moved, as the error names the row of the caller's batch.
            check_row_bytes(&table.entry.schema, batch, 0, table.row_limit())?;
            (appended.moved, appended.collided) = (placed.moved, placed.collided);
            on_grid = placed.apply(&table.entry.schema, batch)?;
            batch = &on_grid;
            if let Some(first) = self.append_blocks(table, batch, &placed)? {
                appended.first_sequence = first;
                return Ok(Begun::done(appended));
            }
        }
        if batch.num_rows() == 0 {
            return Ok(Begun::done(appended));
        }
        let bytes = SortedRows::bytes_of(&table.entry.schema, batch);
        if bytes > self.options.head_bytes.min(BODY_BYTES_MAX) {
            appended.first_sequence = self.append_long(table, batch)?;
            return Ok(Begun::done(appended));
        }
        let rows = self.prepare(table, batch, bytes)?;
        self.make_room(bytes)?;
        let ((position, added), numbers) = self.commit([table.entry.id], |first, view| {
            let head = rows.record_head(table.entry.id, first);
            let position = self.log.append_naming(&[&head, rows.record()], None)?;
            let added = rows.add_to(view, table.entry.id, first);
            Ok(((position, added), first + batch.num_rows() as u64))
        })?;
        if let Some(head) = added.settle() {
            head.merge_small();
        }
        appended.first_sequence = numbers.start;
        let end = numbers.end;
        let logged = Some(Logged { position, end });
        Ok(Begun { appended, logged })
    }

    /// Prepares the rows of a batch, which takes `bytes` bytes of memory, for the log and the head.
    pub(super) fn prepare(&self, table: &StoredTable, batch: &RecordBatch, bytes: usize) -> Result<NewRows> {
        let schema = &table.entry.schema;
        check_batch(table, batch, bytes)?;
        let packing = table.packing().filter(|_| are_many(batch.num_rows()));
        if let Some(packing) = packing.filter(|packing| packing.is_due()) {
            let mut sorted = SortedBatch::new(schema, batch.columns().to_vec())?;
            let packed = sorted.pack(schema);
            packing.note(packed.is_some());
            if let Some(packed) = packed {
                return Ok(NewRows {
                    logged: BatchRows::Packed(packed),
                    sorted: Some(sorted),
                    bytes,
                });
            }
        }
        let encoded = encode(table, batch);
        let sorted = if are_few(&encoded) {
            None
        } else {
            let columns = encoded.decode(schema).map_err(Error::schema)?;
            Some(SortedBatch::new(schema, columns)?)
        };
        Ok(NewRows {
            logged: BatchRows::Plain(encoded),
            sorted,
            bytes,
        })
    }

    /// Appends a batch that is longer than the memory for rows: part by part into pages, all of it
    /// in one checkpoint, which makes it durable and visible as a whole. The log has nothing of it.
    /// Returns the first sequence number.
    ///
    /// The sequence numbers of its rows are skipped by the log: they follow those of all rows
    /// sealed for that checkpoint, and precede those of all rows that others commit meanwhile.
    fn append_long(&self, table: &StoredTable, batch: &RecordBatch) -> Result<u64> {
        let (rows, schema) = (batch.num_rows(), &table.entry.schema);
        let row_bytes = SortedRows::bytes_of(schema, batch).div_ceil(rows.max(1)).max(1);
        let part_rows = (self.options.head_bytes / 2 / row_bytes).max(table.part_rows_min(rows));
        check_row_bytes(schema, batch, 0, table.row_limit())?;
        let _flushing = self.flush.lock();
        self.check_writable()?;
        let first = self.seal_before(true, rows as u64)?;
        self.flush_sealed(|pages, catalogue| {
            if catalogue.get(table.entry.id).is_none() {
                return Err(no_such_table());
            }
            for begin in (0..rows).step_by(part_rows) {
                let part = batch.slice(begin, part_rows.min(rows - begin));
                let sorted = SortedBatch::new(schema, part.columns().to_vec())?;
                let generation = Generation::new(0, first);
                generation.append(table.entry.id, sorted.numbered(first + begin as u64));
                let rows = flush_generation(self.storage(pages), catalogue, &generation, |table| {
                    self.are_settled(table)
                })?;
                self.counters.wrote(rows);
            }
            Ok(())
        })?;
        Ok(first)
    }

    /// Appends a batch for a sparse table as blocks, if it fills any; returns the first sequence
    /// number.
    fn append_blocks(
        &self,
        table: &StoredTable,
        batch: &RecordBatch,
        placed: &Placed,
    ) -> Result<Option<u64>> {
        self.check_writable()?;
        let is_synced = self.options.durability != Durability::Relaxed;
        let Some(target) = table.target(&self.blocks, self.options.head_bytes, is_synced) else {
            return Ok(None);
        };
        let id = table.entry.id;
        let latest = || StoredTable::latest(&self.view(), id);
        let written = target.write(batch, placed, (latest, self.next_sequence()));
        let Some(direct) = written.map_err(|error| self.fail_if_unknown(error))? else {
            return Ok(None);
        };
        let rest = target
            .rest(&direct, batch)
            .map_err(|error| Error::schema(error.to_string()));
        let committed = rest.and_then(|rest| {
            // If the log is replayed, unwritten blocks are built again from their rows.
            let unsynced = direct.unsynced();
            let logged = if unsynced.is_some() { &rest } else { batch };
            check_batch(table, logged, SortedRows::bytes_of(&table.entry.schema, logged))?;
            let logged = encode(table, logged);
            let columns = rest.columns().to_vec();
            let rest = SortedBatch::new(&table.entry.schema, columns)?;
            let in_memory_bytes = target.memory_bytes(&direct);
            self.make_room(rest.bytes() + in_memory_bytes)?;
            let (position, numbers) = self.commit([id], |first, view| {
                if !target.still_holds(&direct, &latest())? {
                    return Ok((None, first));
                }
                let (rows, in_memory) = (batch.num_rows() as u64, unsynced.is_none());
                let head = match unsynced {
                    Some(_) => Record::blocks_head(id, first, direct.blocks()),
                    None => Record::append_head(table.entry.id, first),
                };
                let pending = unsynced.map(|unsynced| unsynced as Arc<dyn Pending>);
                let position = self.log.append_naming(&[&head, logged.bytes()], pending)?;
                let active = view.active();
                let next = active.append_blocks(id, rest.numbered(first), first, direct.blocks());
                active.count_blocks(in_memory_bytes);
                // The log numbers each row; blocks, which are fewer, get one number each.
                Ok((Some(position), if in_memory { first + rows } else { next }))
            })?;
            keep_memory(logged);
            Ok(position.map(|position| (position, numbers)))
        });
        match committed {
            Ok(Some((position, numbers))) => {
                let end = numbers.end;
                self.make_durable(&Logged { position, end })?;
                Ok(Some(numbers.start))
            }
            // Another commit came first; the next flush merges its rows with these.
            Ok(None) => target
                .give_up(&direct)
                .map(|()| None)
                .map_err(|error| self.fail(error)),
            Err(error) => {
                target.give_up(&direct).map_err(|error| self.fail(error))?;
                Err(error)
            }
        }
    }

    /// Removes the rows that `deletion_at` describes, given the sequence number of the deletion.
    pub(crate) fn delete(&self, table: TableId, deletion_at: impl Fn(u64) -> Deletion) -> Result<()> {
        self.check_writable()?;
        self.with_reserve(|| {
            self.make_room_to_delete()?;
            let (position, numbers) = self.commit([table], |first, view| {
                let deletion = deletion_at(first);
                let position = self.log.append(&Record::delete_body(table, &deletion))?;
                view.active().delete(table, deletion, true);
                Ok((position, first + 1))
            })?;
            let end = numbers.end;
            self.make_durable(&Logged { position, end })?;
            self.counters.committed(0);
            Ok(())
        })
    }

    /// The sequence number the next row would get.
    pub(crate) fn next_sequence(&self) -> u64 {
        if self.is_to_read() {
            return self.order.visible();
        }
        self.order.next_sequence()
    }

    /// Commits changes of some tables by [`Order::commit`](super::order::Order::commit): `place`
    /// puts them into the log and the active generation of the view.
    ///
    /// # Errors
    ///
    /// The store takes no more writes; one of the tables was dropped; those of `place`.
    pub(super) fn commit<T>(
        &self,
        tables: impl IntoIterator<Item = TableId>,
        place: impl FnOnce(u64, &View) -> Result<(T, u64)>,
    ) -> Result<(T, Range<u64>)> {
        self.order.commit(|first, view| {
            self.check_sound()?;
            let Some(view) = view else {
                let path = self.dir.clone();
                return Err(Error::OpenForReading { path });
            };
            if tables.into_iter().any(|id| view.catalogue.get(id).is_none()) {
                return Err(no_such_table());
            }
            place(first, view)
        })
    }

    /// Waits until a commit is as durable as the store's durability says, then makes it visible.
    pub(crate) fn finish(&self, begun: &Begun) -> Result<()> {
        let Some(logged) = &begun.logged else {
            return Ok(());
        };
        // In a forked process the log's buffer is a copy of the parent's, which writes it itself.
        self.process.check(&self.dir)?;
        self.make_durable(logged)
    }

    fn make_durable(&self, &Logged { position, end }: &Logged) -> Result<()> {
        let durable = match self.options.durability {
            Durability::Always => self.log.sync_to(position),
            Durability::Group { every } => self.log.sync_paced(position, every),
            Durability::Relaxed => self.log.write_to(position).and_then(|waiting| {
                if waiting >= RELAXED_BYTES / 2 {
                    self.wake.sync();
                }
                if waiting >= RELAXED_BYTES || self.wake.sync_is_due(Instant::now()) {
                    self.log.sync_to(position)?;
                    self.wake.synced(Instant::now());
                }
                Ok(())
            }),
        };
        durable.map_err(|error| self.fail(error))?;
        self.order.show(end);
        Ok(())
    }

    /// As [`make_room`](Self::make_room), for deletions alone: they take next to no memory, and may
    /// be what makes room on a full disk.
    pub(super) fn make_room_to_delete(&self) -> Result<()> {
        match self.make_room(0) {
            Err(Error::NoSpace { .. }) => Ok(()),
            done => done,
        }
    }

    /// Begins a flush early, slows down while it is under way, and waits for it once the memory for
    /// rows is full. The caller is about to commit `bytes` bytes.
    pub(super) fn make_room(&self, bytes: usize) -> Result<()> {
        let limit = self.options.head_bytes;
        let (used, lacks_room, may_be_due) = self.order.with_view(|view| {
            let active = view.active();
            (active.bytes(), self.lacks_room(active), self.may_be_due(active))
        });
        if lacks_room {
            // Flushes of other threads make room too; look again once they are done.
            let begun = Instant::now();
            let flushing = self.flush.lock();
            if self.lacks_room(self.view().active()) {
                self.relieve(&flushing)?;
            }
            self.counters.waited(begun.elapsed());
        } else if may_be_due {
            self.wake.flush();
        }
        if used < limit && self.flush.is_locked() {
            let waited = self.pace.wait(bytes, used as f64 / limit as f64);
            self.counters.waited(waited);
        }
        Ok(())
    }
}
