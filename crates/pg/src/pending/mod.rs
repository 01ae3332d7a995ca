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
//!    entries' rows. A file that is copied (`ALTER INDEX … SET TABLESPACE`) lacks them: entries are
//!    published before a utility statement that may copy files (`utility.rs`). Entries that arrive
//!    between that and the copy, from an event trigger, are published into the copy, and wait until
//!    the end of the transaction all the same: a rollback to a savepoint may take the copy back.
//!    Another index may get the file: `ALTER COLUMN … TYPE` drops an index and creates it again
//!    with the file that it had, if its order stays the same; extensions that rewrite tables
//!    (pg_repack, pg_squeeze) exchange the files of two indexes without a utility statement.
//!    Entries go with their file, and into a copy only if no index has the file. Entries of other
//!    files are dropped at the end, and not before.
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
//! - 7: those of `files.rs`, and `entries_belong_to_a_file`
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
mod transaction;
mod utility;

use std::cell::RefCell;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PgSqlErrorCode};

use crate::am::options::{BATCH_ENTRIES_MAX, batch_entries};
use crate::compat;
use crate::error::{fail, name_of};
use crate::index::Index;
use crate::interrupts::{are_sorted, merge_sort};
use crate::key::Entry;
use crate::list::ids;
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
    /// Indexes that were built within the transaction, in which subtransaction and files.
    built: Vec<(pg_sys::SubTransactionId, Origin)>,
    subtransaction: pg_sys::SubTransactionId,
    /// Whether nothing may wait any more (rules 1 and 3).
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
            built: Vec::new(),
            subtransaction: TOP_SUBTRANSACTION,
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

    /// The batches whose entries belong into the index's present file: those of the file, whichever
    /// index had it, and, if the file was copied within the transaction, those of the files that it
    /// was copied from, which no index has now (rule 7).
    fn positions(&self, index: pg_sys::Relation) -> Vec<usize> {
        // SAFETY: the caller has the index open.
        let origin = unsafe { Origin::of(index) };
        let is_built = self.built.iter().any(|(_, built)| built.index == origin.index);
        let belongs = |batch: Origin| {
            let may_be_copied = || batch.index == origin.index && !is_built;
            batch.shares_file(origin) || (may_be_copied() && index_with_file(batch).is_none())
        };
        let batches = self.batches.iter().enumerate();
        batches
            .filter(|(_, batch)| belongs(batch.origin()))
            .map(|(at, _)| at)
            .collect()
    }

    /// Whether entries wait that may or may not belong into the index's present file, as its index
    /// was both built and copied within the transaction (rule 7).
    fn is_ambiguous(&self, index: pg_sys::Relation) -> bool {
        // SAFETY: the caller has the index open.
        let origin = unsafe { Origin::of(index) };
        let of_index = |other: &Origin| other.index == origin.index;
        let builds = self.built.iter().map(|(_, built)| built);
        let mut builds = builds.filter(|built| of_index(built)).peekable();
        let mut others = self.batches.iter().filter(|batch| batch.len() > 0);
        builds.peek().is_some()
            && builds.all(|built| !built.shares_file(origin))
            && others.any(|batch| {
                let batch = batch.origin();
                of_index(&batch) && !batch.shares_file(origin) && index_with_file(batch).is_none()
            })
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
        if pending.writes_through || limit == 0 || limit_of_index == 0 {
            return (Some(entry), Over::None);
        }
        // SAFETY: the caller's.
        if pending.is_first_transaction && unsafe { executor::may_be_taken_back(table, &entry) } {
            pending.writes_through = true;
            return (Some(entry), Over::None);
        }
        let at = pending.position(index).unwrap_or_else(|| {
            // SAFETY: the index is open. Rule 8.
            let origin = unsafe {
                pg_sys::LockRelationOid((*index).rd_id, pg_sys::RowExclusiveLock.cast_signed());
                Origin::of(index)
            };
            pending.batches.push(Batch::new(origin));
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
        Over::Index => unsafe { flush_with(index, Copied::Left) },
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
    unsafe { flush_with(index, Copied::Published) };
}

/// What becomes of entries of a file of which the index has a copy (rule 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// They wait on.
    Left,
    /// They are published, and wait on.
    Published,
    /// They are published and forgotten, as those of the index's file are.
    Forgotten,
}

/// # Safety
///
/// `index` is open, and locked for writing.
unsafe fn flush_with(index: pg_sys::Relation, copied: Copied) {
    // SAFETY: the caller's.
    let origin = unsafe { Origin::of(index) };
    for at in PENDING.with_borrow(|pending| pending.positions(index)) {
        let is_copied = PENDING.with_borrow(|pending| !pending.batches[at].origin().shares_file(origin));
        if is_copied && copied == Copied::Left {
            continue;
        }
        let entries = PENDING.with_borrow(|pending| pending.batches[at].sorted());
        let forget = || {
            if !is_copied || copied == Copied::Forgotten {
                PENDING.with_borrow_mut(|pending| {
                    pending.batches[at].clear();
                    pending.count();
                });
            }
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
            unsafe { flush_with(index, Copied::Left) };
            weight() < before
        });
        if is_published == Some(true) {
            return;
        }
    }
}

/// Calls with the index that has the file for which entries wait, or with the one that had it (rule
/// 7); `None` if this transaction has dropped that.
fn with_open<T>(origin: Origin, call: impl FnOnce(pg_sys::Relation) -> T) -> Option<T> {
    let id = index_with_file(origin).unwrap_or(origin.index);
    // SAFETY: the index is locked: since the first entry waited (rule 8), or as it was created
    // since then by this transaction, or from now on.
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

/// The index that has the file now: the same one, another of its table, or one of another table.
fn index_with_file(origin: Origin) -> Option<pg_sys::Oid> {
    if number_of_file(origin.index) == Some(origin.file.number()) {
        return Some(origin.index);
    }
    index_of_table_with_file(origin).or_else(|| compat::relation_with_file(origin.file))
}

fn index_of_table_with_file(origin: Origin) -> Option<pg_sys::Oid> {
    // SAFETY: the table is locked, unless it was dropped: entries came for it. The list is of
    // indexes, and the server frees it with the memory of the transaction at the latest.
    unsafe {
        let table = pg_sys::try_relation_open(origin.table, pg_sys::NoLock.cast_signed());
        if table.is_null() {
            return None;
        }
        let indexes = pg_sys::RelationGetIndexList(table);
        pg_sys::relation_close(table, pg_sys::NoLock.cast_signed());
        ids(indexes).find(|&index| number_of_file(index) == Some(origin.file.number()))
    }
}

/// The number of a relation's file, in the catalogue: others may have the relation locked.
fn number_of_file(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a tuple of the cache is one of its catalogue, until it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID.cast_signed();
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(relation));
        let found = tuple.as_mut()?;
        let number = (*pg_sys::GETSTRUCT(found).cast::<pg_sys::FormData_pg_class>()).relfilenode;
        pg_sys::ReleaseSysCache(tuple);
        Some(number)
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
        with_open(origin, |index| {
            check_unambiguous(index);
            // SAFETY: the index is open and locked.
            unsafe { flush(index) };
        });
    }
}

/// Publishes all that waits, as the transaction is about to end. Entries that belong into no index
/// are dropped (rule 7).
fn flush_last() {
    for origin in origins() {
        with_open(origin, |index| {
            check_unambiguous(index);
            // SAFETY: the index is open and locked.
            unsafe { flush_with(index, Copied::Forgotten) };
        });
    }
    PENDING.with_borrow_mut(|pending| {
        pending.batches.clear();
        pending.count();
    });
}

/// Fails if entries [may or may not](Pending::is_ambiguous) belong into the index, which is open.
fn check_unambiguous(index: pg_sys::Relation) {
    if PENDING.with_borrow(|pending| pending.is_ambiguous(index)) {
        // SAFETY: the caller's.
        let name = unsafe { name_of(index) };
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("index \"{name}\" was rebuilt and moved while rows were inserted by an event trigger"),
            Some(
                "Run the statements in transactions of their own, or set bedload.batch_entries = 0."
                    .to_owned(),
            ),
        );
    }
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
    check_unambiguous(index);
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
        pending.built.push((pending.subtransaction, origin));
    });
}
