//! Entries that wait in this process for the end of their transaction.
//!
//! An index is cheaper to write to in batches. What may wait, and until when, follows from one rule: *an entry is in
//! the index before any other process can need it, and is never published after its row's address may have become
//! another row's.*
//!
//! 1. Other sessions see a row when its transaction has committed: entries are published before the commit (or
//!    `PREPARE`), behind deferred triggers. What arrives after that goes straight into the index.
//! 2. Rows of a subtransaction that aborts are dead at once, and their addresses may be used again before the
//!    transaction ends: entries know their subtransaction, and are dropped with it. One that commits hands them to its
//!    parent.
//! 3. A row of `INSERT … ON CONFLICT` can be taken back without the index being told: a transaction that has run such
//!    a statement writes straight into the index from then on (`executor.rs`).
//! 4. Workers of a parallel query belong to the transaction and do not see this memory: entries are published before a
//!    statement that may have any.
//! 5. Scans of this process search what waits as they search the index, so they need not have it published; but
//!    under a snapshot that sees other than committed rows they do.
//! 6. Under SERIALIZABLE, conflicts are looked for again when entries have been published: a scan may have passed
//!    since they were looked for first.
//! 7. An index may get another file within the transaction (`TRUNCATE`, `REINDEX`), and its old one back: entries
//!    belong to a file. Those of a file that is not the index's at the end are dropped then, and not before. An index
//!    that is built in its old file is built with their rows, so they are dropped.
//! 8. The index stays locked until the transaction ends, so nobody else gives it another file.
//! 9. What waits is bounded (`bedload.batch_entries`); beyond that a batch is published early, which is always safe.

#![expect(
    unsafe_code,
    reason = "indexes are opened and locked by calls into PostgreSQL"
)]

mod batch;
mod executor;
mod transaction;

use std::cell::RefCell;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

use crate::index::Index;
use crate::key::Entry;
use batch::Batch;

/// The most entries of one index that wait; 0: none does.
static BATCH_ENTRIES: GucSetting<i32> = GucSetting::<i32>::new(256 * 1024);

const TOP_SUBTRANSACTION: pg_sys::SubTransactionId = 1;

thread_local! {
    static PENDING: RefCell<Pending> = const { RefCell::new(Pending::new()) };
}

/// What waits in this process.
struct Pending {
    batches: Vec<Batch>,
    subtransaction: pg_sys::SubTransactionId,
    /// Whether nothing may wait any more (rules 1 and 3).
    writes_through: bool,
    /// Whether this module was loaded within the present transaction: a statement that it has not seen begin may
    /// take rows back, so each row is looked at.
    is_first_transaction: bool,
}

impl Pending {
    const fn new() -> Self {
        Self {
            batches: Vec::new(),
            subtransaction: TOP_SUBTRANSACTION,
            writes_through: false,
            is_first_transaction: true,
        }
    }

    /// The batch for the index's present file.
    fn position(&self, index: pg_sys::Relation) -> Option<usize> {
        // SAFETY: whoever asks has the index open.
        let (id, file) = unsafe { ((*index).rd_id, (*index).rd_node) };
        self.batches.iter().rposition(|batch| batch.is_of(id, file))
    }
}

/// Registers what keeps the rules above; to be called once, when the module is loaded.
pub(crate) fn init() {
    GucRegistry::define_int_guc(
        c"bedload.batch_entries",
        c"The most entries of a bedload index that wait in a backend for the end of their transaction.",
        c"At most 16 bytes each. 0 writes each entry to the index at once.",
        &BATCH_ENTRIES,
        0,
        16 * 1024 * 1024,
        GucContext::Userset,
        GucFlags::default(),
    );
    #[cfg(feature = "harness")]
    crate::harness::register();
    transaction::register();
    executor::register();
}

/// Puts an entry into the index, or has it wait.
///
/// # Safety
///
/// `index` and `table` are open, and locked for writing; the entry's row was just inserted into `table`.
pub(crate) unsafe fn insert(index: pg_sys::Relation, table: pg_sys::Relation, entry: Entry) {
    let limit = usize::try_from(BATCH_ENTRIES.get()).unwrap_or(0);
    let due = PENDING.with_borrow_mut(|pending| {
        if pending.writes_through || limit == 0 {
            return Some(vec![entry]);
        }
        // SAFETY: the caller's.
        if pending.is_first_transaction && unsafe { executor::may_be_taken_back(table, entry) } {
            pending.writes_through = true;
            return Some(vec![entry]);
        }
        let at = pending.position(index).unwrap_or_else(|| {
            // SAFETY: the index is open. Rule 8.
            let (id, file) = unsafe {
                pg_sys::LockRelationOid((*index).rd_id, pg_sys::RowExclusiveLock.cast_signed());
                ((*index).rd_id, (*index).rd_node)
            };
            pending.batches.push(Batch::new(id, file));
            pending.batches.len() - 1
        });
        let batch = &mut pending.batches[at];
        batch.push(pending.subtransaction, entry);
        (batch.len() >= limit).then(|| batch.take())
    });
    if let Some(entries) = due {
        // SAFETY: the caller's.
        unsafe { publish(index, entries) };
    }
}

/// Publishes what waits for an index's present file (rules 5 and 9).
///
/// # Safety
///
/// `index` is open, and locked for writing.
pub(crate) unsafe fn flush(index: pg_sys::Relation) {
    let entries = PENDING.with_borrow_mut(|pending| {
        let at = pending.position(index)?;
        Some(pending.batches[at].take())
    });
    // SAFETY: the caller's.
    unsafe { publish(index, entries.unwrap_or_default()) };
}

/// Publishes all that waits. `is_last`: the transaction is about to end, and what belongs to no index is dropped.
fn flush_all(is_last: bool) {
    let indexes = PENDING.with_borrow(|pending| pending.batches.iter().map(Batch::index).collect::<Vec<_>>());
    for id in indexes {
        // SAFETY: locked since the first entry waited (rule 8). An index dropped by this transaction is not found.
        unsafe {
            let index = pg_sys::try_relation_open(id, pg_sys::NoLock.cast_signed());
            if !index.is_null() {
                flush(index);
                pg_sys::relation_close(index, pg_sys::NoLock.cast_signed());
            }
        }
    }
    if is_last {
        PENDING.with_borrow_mut(|pending| pending.batches.clear());
    }
}

/// # Safety
///
/// `index` is open, and locked for writing.
unsafe fn publish(index: pg_sys::Relation, mut entries: Vec<Entry>) {
    if entries.is_empty() {
        return;
    }
    if !entries.is_sorted() {
        entries.sort_unstable();
    }
    // SAFETY: the caller's.
    unsafe {
        Index::open(index).insert_sorted(entries.into_iter());
        check_for_serializable_conflict(index);
    }
}

/// Rule 6.
///
/// # Safety
///
/// `index` is open.
unsafe fn check_for_serializable_conflict(index: pg_sys::Relation) {
    unsafe extern "C-unwind" {
        fn CheckForSerializableConflictIn(
            relation: pg_sys::Relation,
            address: pg_sys::ItemPointer,
            block: pg_sys::BlockNumber,
        );
    }
    // SAFETY: the caller's; a scan of another access method locks the whole relation, so no row or block is named.
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        pg_guard_ffi_boundary(|| {
            CheckForSerializableConflictIn(index, std::ptr::null_mut(), pg_sys::InvalidBlockNumber);
        });
    }
}

/// What waits for the index between two entries, inclusively and ascending (rule 5).
pub(crate) fn between(index: pg_sys::Relation, from: Entry, to: Entry) -> Vec<Entry> {
    PENDING.with_borrow_mut(|pending| match pending.position(index) {
        Some(at) => pending.batches[at].between(from, to),
        None => Vec::new(),
    })
}

/// How many entries wait for the index.
pub(crate) fn len(index: pg_sys::Relation) -> usize {
    PENDING.with_borrow(|pending| pending.position(index).map_or(0, |at| pending.batches[at].len()))
}

/// Drops what waits for a file whose index is about to be built anew, from rows that include theirs (rule 7).
pub(crate) fn forget(index: pg_sys::Relation) {
    PENDING.with_borrow_mut(|pending| {
        if let Some(at) = pending.position(index) {
            pending.batches.remove(at);
        }
    });
}
