//! A generation: the heads of all tables between two seals.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::{BlockRef, Deletion, EncodedRows, Head, Place, SortedRows, TableEntry, TableId, TableSchema};

/// Bytes a deletion counts for: itself, and the two stretches of times that it may add.
const DELETION_BYTES: usize = 256;

/// Bytes a replaced row counts for: its place, and once more where places are merged.
const REPLACED_BYTES: usize = 2 * size_of::<Place>();

/// How many replaced rows weigh as much as a deletion: they share memory between the states that
/// readers want.
pub(crate) const DELETION_WEIGHT: usize = 64;

/// Bytes that a block which stands on the disk counts for.
const BLOCK_BYTES: usize = 128;

/// The rows and deletions of all tables between two seals.
#[derive(Debug)]
pub(crate) struct Generation {
    /// The position in the log of the generation's first record.
    pub(crate) log_start: u64,
    /// The generation's first sequence number.
    pub(crate) first_sequence: u64,
    heads: RwLock<HashMap<TableId, Arc<Head>>>,
    /// Where in the log the records of rows held back from the previous generation end.
    held_until: AtomicU64,
    bytes: AtomicUsize,
    /// The part of these bytes that are blocks of sparse tables waiting to be written.
    block_bytes: AtomicUsize,
    deletions_weight: AtomicUsize,
}

impl Generation {
    pub(crate) fn new(log_start: u64, first_sequence: u64) -> Self {
        Self {
            log_start,
            first_sequence,
            heads: RwLock::default(),
            held_until: AtomicU64::new(log_start),
            bytes: AtomicUsize::new(0),
            block_bytes: AtomicUsize::new(0),
            deletions_weight: AtomicUsize::new(0),
        }
    }

    /// Adds rows to the head of a table, and returns it.
    pub(crate) fn append(&self, table: TableId, rows: SortedRows) -> Arc<Head> {
        let head = self.head_or_new(table);
        let bytes = head.append(rows);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        head
    }

    /// Adds the rows of a short commit to the head of a table: the sequence number of the first,
    /// and bytes of memory that they count for. Returns the head if it is time to merge runs.
    pub(crate) fn append_few(
        &self,
        table: &TableEntry,
        rows: &EncodedRows,
        (first, bytes): (u64, usize),
    ) -> Option<Arc<Head>> {
        let head = self.head_or_new(table.id);
        let is_to_merge = head.append_few(&table.schema, rows, first);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        is_to_merge.then_some(head)
    }

    /// Notes where a record of rows from the previous generation ends.
    pub(crate) fn hold_until(&self, position: u64) {
        self.held_until.fetch_max(position, Ordering::Relaxed);
    }

    /// Up to where the log must be durable before a checkpoint may leave out the generation before.
    pub(crate) fn held_until(&self) -> u64 {
        self.held_until.load(Ordering::Relaxed)
    }

    /// Takes the heads of another generation as they are, with its bytes.
    pub(crate) fn take_heads(&self, other: &Self) {
        self.heads.write().clone_from(&other.heads.read());
        self.bytes.store(other.bytes(), Ordering::Relaxed);
        self.block_bytes.store(other.block_bytes(), Ordering::Relaxed);
        self.deletions_weight
            .store(other.deletions_weight(), Ordering::Relaxed);
    }

    /// Puts another head in the place of a table's.
    pub(crate) fn put_head(&self, table: TableId, head: Arc<Head>) {
        self.heads.write().insert(table, head);
    }

    /// Adds nulls to the rows of a table for the columns of `schema` that they lack. No rows may be
    /// added meanwhile.
    pub(crate) fn fill_up(&self, table: TableId, schema: &TableSchema) {
        if let Some(head) = self.head(table) {
            let rows = head.runs(u64::MAX);
            let filled = head.filled_up(schema);
            let bytes = |runs: Vec<Arc<SortedRows>>| runs.iter().map(|run| run.bytes()).sum::<usize>();
            let more = bytes(filled.runs(u64::MAX)).saturating_sub(bytes(rows));
            self.put_head(table, Arc::new(filled));
            self.bytes.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Adds what one commit wrote to a sparse table: rows, whose sequence numbers begin at `first`,
    /// and blocks, whose follow. Returns the next one.
    pub(crate) fn append_blocks(
        &self,
        table: TableId,
        rest: SortedRows,
        first: u64,
        blocks: impl Iterator<Item = (i64, BlockRef)>,
    ) -> u64 {
        let mut next = first + rest.len() as u64;
        if rest.len() > 0 {
            self.append(table, rest);
        }
        for (block, written) in blocks {
            self.put_block(table, block, next, written);
            next += 1;
        }
        next
    }

    /// Adds a block of a sparse table that is written, and counts as one write of this sequence
    /// number.
    fn put_block(&self, table: TableId, block: i64, sequence: u64, written: BlockRef) {
        self.head_or_new(table).put_block(block, sequence, written);
        self.bytes.fetch_add(BLOCK_BYTES, Ordering::Relaxed);
    }

    /// Counts bytes of blocks that wait to be written.
    pub(crate) fn count_blocks(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.block_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of blocks that wait to be written.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes.load(Ordering::Relaxed)
    }

    /// Adds a deletion: see [`Head::delete`].
    pub(crate) fn delete(&self, table: TableId, deletion: Deletion, takes_back: bool) {
        self.head_or_new(table).delete(deletion, takes_back);
        self.bytes.fetch_add(DELETION_BYTES, Ordering::Relaxed);
        self.deletions_weight
            .fetch_add(DELETION_WEIGHT, Ordering::Relaxed);
    }

    /// Removes rows of a table by their places, ascending, from a sequence number on.
    pub(crate) fn replace(&self, table: TableId, at: u64, rows: Arc<[Place]>) {
        let count = rows.len();
        self.head_or_new(table).replace(at, rows);
        self.bytes.fetch_add(count * REPLACED_BYTES, Ordering::Relaxed);
        self.deletions_weight.fetch_add(count, Ordering::Relaxed);
    }

    /// How much there is to search for deleted rows: see [`DELETION_WEIGHT`].
    pub(crate) fn deletions_weight(&self) -> usize {
        self.deletions_weight.load(Ordering::Relaxed)
    }

    /// Bytes of memory the generation takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    pub(crate) fn head(&self, table: TableId) -> Option<Arc<Head>> {
        self.heads.read().get(&table).cloned()
    }

    /// The tables that have rows or deletions here, in ascending order.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self.heads.read().keys().copied().collect();
        tables.sort_unstable();
        tables
    }

    /// Sees to it that the table is flushed, whether it has rows or not.
    pub(crate) fn touch(&self, table: TableId) {
        self.head_or_new(table);
    }

    fn head_or_new(&self, table: TableId) -> Arc<Head> {
        if let Some(head) = self.head(table) {
            return head;
        }
        self.heads.write().entry(table).or_default().clone()
    }
}
