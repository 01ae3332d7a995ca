//! UNIQUE: a key is looked up and its entry put into the index under a lock on the key.
//!
//! 1. Entries of a unique index do not wait in their session: the checks of other sessions have to
//!    find them. Only keys with a null that is distinct from others wait, as they conflict with
//!    none.
//! 2. The check and the insertion happen under a lock on the hash of the key, a heavyweight lock,
//!    so it takes part in deadlock detection, and an error releases it. Keys of types in which
//!    different bytes may be equal have no hash and share one lock.
//! 3. The lock is released before a wait for another transaction. The check starts again
//!    afterwards.
//! 4. A row address is worth something only while no bulk deletion has ended since its entry was
//!    read: after that it may be another row's. A check that found something starts again then.
//!
//! Tests in `crates/pg/tests/cluster` that fail where a rule is broken: `entries_do_not_wait` (1)
//! and `of_three_sessions_one_wins` (3) of `unique.rs`,
//! `no_other_session_comes_between_check_and_insertion` (2) and
//! `a_row_in_the_place_of_a_dead_one_is_no_duplicate` (4) of `unique_pauses.rs`.
//!
//! Rows are judged as `_bt_check_unique` of PostgreSQL's B-tree judges them
//! (src/backend/access/nbtree/nbtinsert.c).

#![expect(unsafe_code, reason = "rows and locks are PostgreSQL's")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use pgrx::{PgLogLevel, PgSqlErrorCode, check_for_interrupts, pg_sys};

use crate::error::{fail, name_of};
use crate::index::Index;
use crate::key::{Entry, Form, RowValues};
use crate::pending;

/// A lock on a key of an index, or on those that have its hash.
struct KeyLock {
    index: pg_sys::Relation,
    tag: pg_sys::ItemPointerData,
}

impl KeyLock {
    const MODE: pg_sys::LOCKMODE = pg_sys::ExclusiveLock.cast_signed();

    /// # Safety
    ///
    /// The index stays open until the lock is released.
    unsafe fn take(index: pg_sys::Relation, hash: u64) -> Self {
        let [a, b, c, d, e, f, _, _] = hash.to_le_bytes();
        // An index has no row locks of its own: any address of an odd row will do. Locks of nodes
        // are of row 0.
        let mut tag = pg_sys::ItemPointerData {
            ip_blkid: pg_sys::BlockIdData {
                bi_hi: u16::from_le_bytes([a, b]),
                bi_lo: u16::from_le_bytes([c, d]),
            },
            ip_posid: u16::from_le_bytes([e, f]) | 1,
        };
        // SAFETY: the caller's.
        unsafe { pg_sys::LockTuple(index, &raw mut tag, Self::MODE) };
        Self { index, tag }
    }

    /// Not done by `Drop`: while an error unwinds, the end of its (sub)transaction releases the
    /// lock.
    fn release(mut self) {
        // SAFETY: the index is open, and the lock was taken and is released once.
        unsafe { pg_sys::UnlockTuple(self.index, &raw mut self.tag, Self::MODE) };
    }
}

/// The finding of a check.
enum Found {
    Nothing,
    /// Perhaps a duplicate: a deferred check will tell.
    Perhaps,
    Duplicate,
    /// Another transaction decides, or the speculative insertion of it that has this token,
    /// unless 0.
    Undecided {
        transaction: pg_sys::TransactionId,
        token: u32,
    },
}

/// A row to be inserted into a unique index.
pub(super) struct Row {
    pub(super) index: pg_sys::Relation,
    pub(super) table: pg_sys::Relation,
    pub(super) values: *mut pg_sys::Datum,
    pub(super) nulls: *mut bool,
}

/// Inserts the entry of a row; whether it is known to be unique. A violation leaves the key locked
/// until the error that has to follow.
///
/// # Safety
///
/// Both relations are open, and locked for writing; the row was just inserted, and the entry is
/// its.
pub(super) unsafe fn insert(
    row: &Row,
    entry: Entry,
    check: pg_sys::IndexUniqueCheck::Type,
) -> Result<bool, Violation> {
    use pg_sys::IndexUniqueCheck::{UNIQUE_CHECK_EXISTING, UNIQUE_CHECK_NO};
    let Row { index, table, .. } = *row;
    // SAFETY: the caller's.
    unsafe {
        if entry.has_null() && !(*(*index).rd_index).indnullsnotdistinct {
            if check != UNIQUE_CHECK_EXISTING {
                pending::insert(index, table, entry);
            }
            return Ok(true);
        }
        let opened = Index::open(index);
        let hash = opened.form().key_hash(&entry);
        loop {
            check_for_interrupts!();
            let lock = KeyLock::take(index, hash);
            let found = if check == UNIQUE_CHECK_NO {
                Found::Nothing
            } else {
                look_up(row, &opened, &entry, check)
            };
            match found {
                Found::Undecided { transaction, token } => {
                    lock.release();
                    wait_for(index, &entry, transaction, token);
                    continue;
                }
                Found::Duplicate => {
                    // As a B-tree does: a serialization failure is worth more than a duplicate.
                    pending::check_for_serializable_conflict(index);
                    return Err(Violation::of_row(row));
                }
                Found::Nothing | Found::Perhaps => {}
            }
            if check == UNIQUE_CHECK_EXISTING {
                lock.release();
            } else {
                #[cfg(feature = "harness")]
                crate::hooks::pause(crate::hooks::Pause::Insertion);
                pending::publish(index, std::slice::from_ref(&entry), || lock.release());
            }
            return Ok(matches!(found, Found::Nothing));
        }
    }
}

/// Looks for rows with the key of an entry; the key is locked.
///
/// # Safety
///
/// As for [`insert`].
unsafe fn look_up(row: &Row, index: &Index, entry: &Entry, check: pg_sys::IndexUniqueCheck::Type) -> Found {
    use pg_sys::IndexUniqueCheck::UNIQUE_CHECK_EXISTING;
    loop {
        let (in_head, in_tree, deletions) = index.entries_of_key(entry);
        #[cfg(feature = "harness")]
        crate::hooks::pause(crate::hooks::Pause::Judgement);
        let mut found = Found::Nothing;
        let mut is_refound = false;
        let mut dead = (Vec::new(), Vec::new());
        let of_head = in_head.iter().map(|entry| (entry, true));
        let of_tree = in_tree.iter().map(|entry| (entry, false));
        for (other, is_in_head) in of_head.chain(of_tree) {
            if check == UNIQUE_CHECK_EXISTING && other.address_bits() == entry.address_bits() {
                is_refound = true;
                continue;
            }
            let mut is_dead = false;
            // SAFETY: the caller's.
            match unsafe { judge(row, entry, other, check, &mut is_dead) } {
                Found::Nothing if is_dead && is_in_head => dead.0.push(other.clone()),
                Found::Nothing if is_dead => dead.1.push(other.clone()),
                Found::Nothing => {}
                other => {
                    found = other;
                    break;
                }
            }
        }
        let is_lost = check == UNIQUE_CHECK_EXISTING && !is_refound && matches!(found, Found::Nothing);
        if (is_lost || !matches!(found, Found::Nothing)) && index.deletions() != deletions {
            check_for_interrupts!();
            continue;
        }
        if is_lost {
            // SAFETY: the index is open.
            let name = unsafe { name_of(row.index) };
            fail(
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                format!("failed to re-find tuple within index \"{name}\""),
                Some("This may be because of a non-immutable index expression.".to_owned()),
            );
        }
        index.hint_dead((&dead.0, deletions), (&dead.1, deletions));
        return found;
    }
}

/// Whether the row of an entry with the same key is in the way of a row.
///
/// # Safety
///
/// As for [`insert`].
unsafe fn judge(
    row: &Row,
    entry: &Entry,
    other: &Entry,
    check: pg_sys::IndexUniqueCheck::Type,
    is_dead: &mut bool,
) -> Found {
    let mut dirty = pg_sys::SnapshotData {
        snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
        ..Default::default()
    };
    let (mut address, mut own) = (other.address(), entry.address());
    // SAFETY: the table is open. An entry is of all versions of its row that are on one page with
    // it.
    unsafe {
        let is_there =
            pg_sys::table_index_fetch_tuple_check(row.table, &raw mut address, &raw mut dirty, is_dead);
        if !is_there {
            return Found::Nothing;
        }
        if check == pg_sys::IndexUniqueCheck::UNIQUE_CHECK_PARTIAL {
            return Found::Perhaps;
        }
        let transaction = if dirty.xmin == pg_sys::InvalidTransactionId {
            dirty.xmax
        } else {
            dirty.xmin
        };
        if transaction != pg_sys::InvalidTransactionId {
            let token = dirty.speculativeToken;
            return Found::Undecided { transaction, token };
        }
        // The row itself may have been deleted meanwhile: CREATE INDEX CONCURRENTLY inserts rows of
        // an older snapshot.
        let itself = &raw mut pg_sys::SnapshotSelfData;
        let is_alive = pg_sys::table_index_fetch_tuple_check(
            row.table,
            &raw mut own,
            itself.cast(),
            std::ptr::null_mut(),
        );
        if is_alive {
            Found::Duplicate
        } else {
            Found::Nothing
        }
    }
}

/// Waits until a transaction, or its speculative insertion, is over.
///
/// # Safety
///
/// The index is open, and no lock on a key is held.
unsafe fn wait_for(index: pg_sys::Relation, entry: &Entry, transaction: pg_sys::TransactionId, token: u32) {
    let mut address = entry.address();
    // SAFETY: the caller's.
    unsafe {
        if token == 0 {
            let what = pg_sys::XLTW_Oper::XLTW_InsertIndex;
            pg_sys::XactLockTableWait(transaction, index, &raw mut address, what);
        } else {
            pg_sys::SpeculativeInsertionWait(transaction, token);
        }
    }
}

/// Passes on entries, ascending, up to the first that has the key of the one before it, which
/// becomes `duplicate`.
pub(super) fn until_duplicate(
    are_nulls_distinct: bool,
    entries: impl Iterator<Item = Entry>,
    duplicate: &Cell<Option<Entry>>,
) -> impl Iterator<Item = Entry> {
    let mut last: Option<Entry> = None;
    entries.take_while(move |entry| {
        let is_same = last.as_ref().is_some_and(|last| last.has_key_of(entry));
        let is_duplicate = is_same && !(are_nulls_distinct && entry.has_null());
        if is_duplicate {
            duplicate.set(Some(entry.clone()));
        }
        last = Some(entry.clone());
        !is_duplicate
    })
}

/// A unique violation, to be raised where nothing is left to be dropped.
#[derive(Clone, Copy)]
pub(super) struct Violation {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    message: &'static CStr,
    detail: &'static CStr,
    /// Null if the user may not see the key.
    key: *mut c_char,
}

impl Violation {
    /// That of a row that is inserted.
    ///
    /// # Safety
    ///
    /// The relations are open, and the values those of the index.
    unsafe fn of_row(row: &Row) -> Self {
        Self {
            table: row.table,
            index: row.index,
            message: c"duplicate key value violates unique constraint \"%s\"",
            detail: c"Key %s already exists.",
            // SAFETY: the caller's.
            key: unsafe { pg_sys::BuildIndexValueDescription(row.index, row.values, row.nulls) },
        }
    }

    /// That of an entry that an index is built with.
    ///
    /// # Safety
    ///
    /// The relations are open, and the entry is of the index and has this form.
    pub(super) unsafe fn of_build(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        form: Form,
        entry: &Entry,
    ) -> Self {
        let mut row = RowValues::default();
        form.values_of(entry, &mut row);
        let (values, nulls) = (row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
        // SAFETY: the caller's; the arrays have an element for each column.
        let key = unsafe { pg_sys::BuildIndexValueDescription(index, values, nulls) };
        Self {
            table,
            index,
            message: c"could not create unique index \"%s\"",
            detail: if key.is_null() {
                c"Duplicate keys exist."
            } else {
                c"Key %s is duplicated."
            },
            key,
        }
    }

    /// Ends with the error. A guard of pgrx would lose the fields that name table and constraint,
    /// by which drivers tell violations apart, so there must be none around the call.
    ///
    /// # Safety
    ///
    /// The relations are open. Nothing is to be dropped between PostgreSQL's call and this one.
    #[expect(ffi_unwind_calls, reason = "errors pass by, and there is nothing to drop")]
    pub(super) unsafe fn raise(self) -> ! {
        unsafe extern "C-unwind" {
            fn errstart(level: c_int, domain: *const c_char) -> bool;
            fn errcode(code: c_int) -> c_int;
            fn errmsg(format: *const c_char, ...) -> c_int;
            fn errdetail(format: *const c_char, ...) -> c_int;
            fn errtableconstraint(table: pg_sys::Relation, constraint: *const c_char) -> c_int;
            fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
        }
        // SAFETY: the caller's. The formats take one string at most; a name in `pg_class` ends with
        // a zero.
        unsafe {
            let name = (*(*self.index).rd_rel).relname.data.as_ptr();
            errstart(PgLogLevel::ERROR as c_int, std::ptr::null());
            errcode(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION as c_int);
            errmsg(self.message.as_ptr(), name);
            if !self.key.is_null() || self.detail == c"Duplicate keys exist." {
                errdetail(self.detail.as_ptr(), self.key);
            }
            errtableconstraint(self.table, name);
            errfinish(c"unique.rs".as_ptr(), line!().cast_signed(), c"raise".as_ptr());
        }
        unreachable!("an error does not return")
    }
}
