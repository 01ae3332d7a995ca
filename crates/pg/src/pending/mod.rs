//! Entries that wait in this process for the end of their transaction.
//!
//! An index is cheaper to write to in batches. One rule says which entries may wait, and until
//! when: *an entry is in the index before any other process can need it, and is never published
//! after its row's address may have become another row's.*
//!
//! 1. Other sessions see a row when its transaction has committed: entries are published before the
//!    commit (or `PREPARE`), behind deferred triggers. Later entries go straight into the index.
//! 2. Rows of a subtransaction that aborts are dead at once, and their addresses may be used again
//!    before the transaction ends: entries know their subtransaction, and are dropped with it. One
//!    that commits hands them to its parent.
//! 3. A row of `INSERT … ON CONFLICT` can be taken back without the index being told: a transaction
//!    that has run such a statement writes straight into the index from then on (`executor.rs`).
//! 4. Workers of a parallel query belong to the transaction and do not see this memory: entries are
//!    published before a statement that may have any.
//! 5. Scans of this process search pending entries as they search the index, so these need not be
//!    published. A scan under a snapshot that sees more than committed rows does publish them,
//!    unless it is the planner's search for the least or greatest value.
//! 6. Under SERIALIZABLE, conflicts are looked for again when entries have been published: a scan
//!    may have passed since they were looked for first.
//! 7. An index may get another file within the transaction, and its old one back: entries belong to
//!    a file. A file that is built (`REINDEX`, `TRUNCATE`, `CLUSTER`) is built with the waiting
//!    entries' rows. A file that is copied (`ALTER INDEX … SET TABLESPACE`) must have them: entries
//!    are published before a utility statement that may copy files, and those that arrive during
//!    it, from an event trigger, do not wait, nor do any if this module is loaded in an event
//!    trigger (`utility.rs`). Another index may get the file: extensions that rewrite tables
//!    (pg_repack, pg_squeeze) exchange the files of two indexes by changing the catalogue. Entries
//!    go with their file (`files.rs`). If no index has it, their index may have a copy that an
//!    extension made without a statement (TimescaleDB's `move_chunk`). A copy was built when its
//!    original was, and then the entries belong into it; a file that was built since, or comes from
//!    another index, was built at another time. While a subtransaction is open, whose abort may
//!    bring the original back, entries that have been published into a copy are kept. Entries of
//!    other files are dropped at the end, and not before.
//! 8. The index is locked until the transaction ends, so no other session gives it another file.
//! 9. The waiting entries of a session are bounded over all its indexes (`bedload.batch_entries`).
//!    Beyond the bound the largest batch is published early, which is always safe. An index may
//!    have a bound of its own.
//! 10. Entries of a unique index do not wait, as checks of other sessions have to find them
//!     (`am/unique.rs`).
//! 11. A batch keeps its entries until the page change that publishes them is in the WAL. An error
//!     on the way, in a subtransaction that is then rolled back, leaves the entries of its parents
//!     waiting. Entries that were published in part are published again: the tree takes an entry
//!     that it has as the same entry.
//!
//! Tests in `crates/pg/tests/cluster` that fail where a rule is broken, of `transactions.rs` if no
//! file is named:
//!
//! - 1: `a_session_sees_what_waits_and_others_see_it_when_it_is_committed`,
//!   `entries_are_published_before_a_transaction_is_prepared`,
//!   `rows_of_deferred_triggers_are_published`,
//!   `rows_that_come_after_the_publication_do_not_wait`
//! - 2: `entries_of_an_aborted_subtransaction_are_dropped`
//! - 3: `rows_that_may_be_taken_back_do_not_wait`
//! - 4: `entries_are_published_before_a_parallel_query`
//! - 5: `a_session_sees_what_waits_and_others_see_it_when_it_is_committed`,
//!   `entries_are_published_before_a_scan_that_sees_uncommitted_rows`,
//!   `a_failed_scan_leaves_no_unsorted_entries`
//! - 6: `serializable_transactions_are_serializable`
//! - 7: those of `files.rs`, `event_triggers.rs` and `repack.rs`, `entries_belong_to_a_file`, and
//!   `indexes_of_two_tablespaces_may_have_one_number` of `file_numbers.rs`
//! - 8: `an_index_is_locked_while_entries_wait_for_it`
//! - 9: `waiting_entries_are_bounded_over_all_indexes` of `flushes.rs`, and
//!   `entries_of_an_index_wait_as_it_says` of `options.rs`
//! - 10: `entries_do_not_wait` of `unique.rs`
//! - 11: the others of `flushes.rs`

#![expect(
    unsafe_code,
    reason = "indexes are opened and locked by calls into PostgreSQL"
)]

mod batch;
mod executor;
mod files;
mod transaction;
mod utility;

use std::cell::RefCell;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

use crate::am::options::{BATCH_ENTRIES_MAX, batch_entries};
use crate::index::Index;
use crate::interrupts::{are_sorted, merge_sort};
use crate::key::Entry;
use batch::{Batch, Origin};

/// The most entries that wait in a session, over all its indexes; 0: none does.
static BATCH_ENTRIES: GucSetting<i32> = GucSetting::<i32>::new(256 * 1024);

const TOP_SUBTRANSACTION: pg_sys::SubTransactionId = 1;

thread_local! {
    static PENDING: RefCell<Pending> = const { RefCell::new(Pending::new()) };
}

/// The pending entries of this process.
struct Pending {
    batches: Vec<Batch>,
    /// The sum over all batches.
    weight: usize,
    subtransaction: pg_sys::SubTransactionId,
    /// The subtransactions in which utility statements under way began that may copy files.
    copying: Vec<pg_sys::SubTransactionId>,
    /// Whether nothing may wait any more (rules 1, 3 and 7).
    writes_through: bool,
    /// Whether this module was loaded within the present transaction: a statement that began unseen
    /// may take rows back, so each row is checked.
    is_first_transaction: bool,
}

impl Pending {
    const fn new() -> Self {
        Self {
            batches: Vec::new(),
            weight: 0,
            subtransaction: TOP_SUBTRANSACTION,
            copying: Vec::new(),
            writes_through: false,
            is_first_transaction: true,
        }
    }

    /// The batch for the index and its present file.
    fn position(&self, index: pg_sys::Relation) -> Option<usize> {
        // SAFETY: the caller has the index open.
        let origin = unsafe { Origin::of(index) };
        self.batches.iter().rposition(|batch| batch.origin() == origin)
    }

    /// The batches with entries that belong into the index's present file (rule 7).
    fn positions(&self, index: pg_sys::Relation) -> Vec<usize> {
        // SAFETY: the caller has the index open.
        let origin = unsafe { Origin::of(index) };
        // SAFETY: as above.
        let built = || unsafe { Index::built(index) };
        let batches = self.batches.iter().enumerate();
        batches
            .filter(|(_, batch)| batch.belongs_to(origin, built))
            .map(|(at, _)| at)
            .collect()
    }

    fn count(&mut self) {
        self.weight = self.batches.iter().map(Batch::weight).sum();
    }
}

/// Registers what keeps the rules above; to be called once, when the module is loaded.
pub(crate) fn init() {
    GucRegistry::define_int_guc(
        c"bedload.batch_entries",
        c"The most entries of all bedload indexes that wait in a session for the end of their transaction.",
        c"24 bytes each, and as much again while a scan or a publication has them sorted. Entries of several columns count more, by their bytes. 0 writes each entry to the index at once.",
        &BATCH_ENTRIES,
        0,
        BATCH_ENTRIES_MAX,
        GucContext::Userset,
        GucFlags::default(),
    );
    #[cfg(feature = "harness")]
    crate::hooks::register();
    transaction::register();
    executor::register();
    utility::register();
}

/// The bound that waiting entries have reached (rule 9).
enum Over {
    None,
    /// That of the index.
    Index,
    /// That of the session.
    Session,
}

/// Puts an entry into the index, or has it wait.
///
/// # Safety
///
/// `index` and `table` are open, and locked for writing; the entry's row was just inserted into
/// `table`.
pub(crate) unsafe fn insert(index: pg_sys::Relation, table: pg_sys::Relation, entry: Entry) {
    let limit = usize::try_from(BATCH_ENTRIES.get()).unwrap_or(0);
    // SAFETY: the caller's.
    let limit_of_index = unsafe { batch_entries(index) }.unwrap_or(limit);
    let (direct, over) = PENDING.with_borrow_mut(|pending| {
        let may_be_copied = !pending.copying.is_empty();
        if pending.writes_through || may_be_copied || limit == 0 || limit_of_index == 0 {
            return (Some(entry), Over::None);
        }
        // SAFETY: the caller's.
        if pending.is_first_transaction && unsafe { executor::may_be_taken_back(table, &entry) } {
            pending.writes_through = true;
            return (Some(entry), Over::None);
        }
        let at = pending.position(index).unwrap_or_else(|| {
            // SAFETY: the index is open. Rule 8.
            let (origin, built) = unsafe {
                pg_sys::LockRelationOid((*index).rd_id, pg_sys::RowExclusiveLock.cast_signed());
                (Origin::of(index), Index::built(index))
            };
            pending.batches.push(Batch::new(origin, built));
            pending.batches.len() - 1
        });
        let weight = entry.weight();
        pending.batches[at].push(pending.subtransaction, entry);
        pending.weight += weight;
        let over = match pending.weight {
            _ if pending.batches[at].weight() >= limit_of_index => Over::Index,
            weight if weight >= limit => Over::Session,
            _ => Over::None,
        };
        (None, over)
    });
    if let Some(entry) = direct {
        // SAFETY: the caller's.
        unsafe { publish(index, &[entry], || {}) };
        return;
    }
    match over {
        Over::None => {}
        // SAFETY: the caller's.
        Over::Index => unsafe { flush(index) },
        Over::Session => flush_largest(),
    }
}

/// Publishes what waits for an index's present file (rules 5 and 11).
///
/// # Safety
///
/// `index` is open, and locked for writing.
pub(crate) unsafe fn flush(index: pg_sys::Relation) {
    // SAFETY: the caller's.
    let origin = unsafe { Origin::of(index) };
    for at in PENDING.with_borrow(|pending| pending.positions(index)) {
        let entries = PENDING.with_borrow(|pending| pending.batches[at].sorted());
        let forget = || {
            PENDING.with_borrow_mut(|pending| {
                let is_in_copy = !pending.batches[at].origin().shares_file(origin);
                if is_in_copy && pending.subtransaction != TOP_SUBTRANSACTION {
                    pending.batches[at].note_copy(origin.file);
                } else {
                    pending.batches[at].clear();
                    pending.count();
                }
            });
        };
        // SAFETY: the caller's. Meanwhile no batch comes or goes.
        unsafe { publish(index, &entries, forget) };
    }
}

/// Publishes the largest batch of an index's present file (rule 9).
fn flush_largest() {
    let mut batches = PENDING.with_borrow(|pending| {
        let sizes = pending
            .batches
            .iter()
            .map(|batch| (batch.weight(), batch.origin()));
        sizes.collect::<Vec<_>>()
    });
    batches.sort_unstable_by_key(|&(weight, _)| std::cmp::Reverse(weight));
    for (_, origin) in batches {
        let is_published = with_open(origin, |index| {
            let weight = || PENDING.with_borrow(|pending| pending.weight);
            let before = weight();
            // SAFETY: the index is open and locked.
            unsafe { flush(index) };
            weight() < before
        });
        if is_published == Some(true) {
            return;
        }
    }
}

/// Calls with the index that has the file for which entries wait, or else with the one that had it;
/// `None` if that does not exist either (rule 7).
fn with_open<T>(origin: Origin, call: impl FnOnce(pg_sys::Relation) -> T) -> Option<T> {
    let id = files::index_with_file(origin).unwrap_or(origin.index);
    // SAFETY: the index is locked: since the first entry waited (rule 8), or from now on.
    unsafe {
        if id != origin.index {
            let table = pg_sys::IndexGetRelation(id, true);
            for relation in [table, id] {
                pg_sys::LockRelationOid(relation, pg_sys::RowExclusiveLock.cast_signed());
            }
        }
        let index = pg_sys::try_relation_open(id, pg_sys::NoLock.cast_signed());
        if index.is_null() {
            return None;
        }
        let result = call(index);
        pg_sys::relation_close(index, pg_sys::NoLock.cast_signed());
        Some(result)
    }
}

/// The origins of all batches.
fn origins() -> Vec<Origin> {
    PENDING.with_borrow(|pending| pending.batches.iter().map(Batch::origin).collect())
}

/// Publishes all that waits, for a statement that needs it published.
fn flush_all() {
    if PENDING.with_borrow(|pending| pending.weight == 0) {
        return;
    }
    for origin in origins() {
        // SAFETY: the index is open and locked.
        with_open(origin, |index| unsafe { flush(index) });
    }
}

/// Publishes all that waits, as the transaction is about to end. Entries that belong into no file
/// that an index has are dropped (rule 7).
fn flush_last() {
    flush_all();
    PENDING.with_borrow_mut(|pending| {
        pending.batches.clear();
        pending.count();
    });
}

/// Publishes entries, ascending; calls `published` as soon as they are in the WAL (rule 11).
///
/// # Safety
///
/// `index` is open, and locked for writing.
pub(crate) unsafe fn publish(index: pg_sys::Relation, entries: &[Entry], published: impl FnOnce()) {
    if entries.is_empty() {
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        Index::open(index).insert(entries, published);
        check_for_serializable_conflict(index);
    }
}

/// Rule 6.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn check_for_serializable_conflict(index: pg_sys::Relation) {
    unsafe extern "C-unwind" {
        fn CheckForSerializableConflictIn(
            relation: pg_sys::Relation,
            address: pg_sys::ItemPointer,
            block: pg_sys::BlockNumber,
        );
    }
    // SAFETY: the caller's; a scan of another access method locks the whole relation, so no row or
    // block is named.
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        pg_guard_ffi_boundary(|| {
            CheckForSerializableConflictIn(index, std::ptr::null_mut(), pg_sys::InvalidBlockNumber);
        });
    }
}

/// Returns the pending entries of the index between two entries, inclusively and ascending (rule
/// 5).
pub(crate) fn between(index: pg_sys::Relation, from: &Entry, to: &Entry) -> Vec<Entry> {
    PENDING.with_borrow_mut(|pending| {
        let mut found = Vec::new();
        for at in pending.positions(index) {
            found.extend(pending.batches[at].between(from, to));
        }
        if !are_sorted(&found) {
            merge_sort(&mut found);
        }
        found
    })
}

/// How many entries wait for the index.
pub(crate) fn len(index: pg_sys::Relation) -> usize {
    PENDING.with_borrow(|pending| {
        let positions = pending.positions(index);
        positions.into_iter().map(|at| pending.batches[at].len()).sum()
    })
}

/// Notes that an index is about to be built in its present file. Entries that wait for that file
/// are dropped, as it is built from rows that include theirs (rule 7).
pub(crate) fn forget(index: pg_sys::Relation) {
    // SAFETY: the caller has the index open.
    let origin = unsafe { Origin::of(index) };
    PENDING.with_borrow_mut(|pending| {
        pending
            .batches
            .retain(|batch| !batch.origin().shares_file(origin));
        pending.count();
    });
}
