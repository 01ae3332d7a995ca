//! Building an index: sort what the table has, and load it.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::cell::Cell;
use std::ffi::c_void;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary, panic::pgrx_extern_c_guard};
use pgrx::{PgSqlErrorCode, pg_guard};

use super::progress::{Phase, begin_load, reported};
use super::sort::{Sorter, memory};
use super::unique::{Violation, until_duplicate};
use crate::error::fail;
use crate::index::{Index, entry_of_row};
use crate::key::{Entry, Form};
use crate::pages::PgPages;
use crate::pending;

/// One in this many bytes of a unique build's memory sorts entries of dead rows.
const DEAD_SHARE: usize = 8;

/// Not a guarded function as a whole: see [`Violation::raise`].
pub(super) unsafe extern "C-unwind" fn ambuild(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: PostgreSQL has both relations open and locked, and the index is empty and known to
    // nobody else. It calls from outside of Rust.
    unsafe {
        match pgrx_extern_c_guard(|| build(table, index, info)) {
            Ok(result) => result,
            Err(violation) => violation.raise(),
        }
    }
}

/// # Safety
///
/// Both relations are open and locked, the index is empty and known to nobody else, and `info`
/// describes it.
unsafe fn build(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> Result<*mut pg_sys::IndexBuildResult, Violation> {
    // SAFETY: the caller's.
    unsafe {
        let form = form_to_be(index, info);
        pending::forget(index);
        let is_unique = (*info).ii_Unique;
        // Rows that are dead to this transaction, though not to all, are no duplicates. They are
        // few.
        let memory_of_dead = if is_unique { memory() / DEAD_SHARE } else { 0 };
        let mut sorter = Sorter::new(form, memory() - memory_of_dead);
        let mut of_dead = Sorter::new(form, memory_of_dead);
        Phase::ScanTable.begin();
        let heap_tuples = for_each_row((table, index), form, info, &mut |entry, is_alive| {
            if is_alive || !is_unique {
                sorter.push(entry);
            } else {
                of_dead.push(entry);
            }
        });
        let built = Index::create(PgPages::new(index), form);
        let loaded = sorter.len() + of_dead.len();
        begin_load(loaded);
        if is_unique {
            let are_nulls_distinct = !(*info).ii_NullsNotDistinct;
            let duplicate = Cell::default();
            let alive = until_duplicate(are_nulls_distinct, sorter.finish(), &duplicate);
            built.insert_sorted(reported(merged(alive, of_dead.finish()), loaded), || {});
            if let Some(entry) = duplicate.into_inner() {
                return Err(Violation::of_build(table, index, form, &entry));
            }
        } else {
            built.insert_sorted(reported(sorter.finish(), loaded), || {});
        }
        let result =
            pg_sys::palloc0(size_of::<pg_sys::IndexBuildResult>()).cast::<pg_sys::IndexBuildResult>();
        (*result).heap_tuples = heap_tuples;
        (*result).index_tuples = loaded as f64;
        Ok(result)
    }
}

/// Two ascending sequences as one.
fn merged(a: impl Iterator<Item = Entry>, b: impl Iterator<Item = Entry>) -> impl Iterator<Item = Entry> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match b.peek() {
        Some(next) => a.next_if(|entry| entry < next).or_else(|| b.next()),
        None => a.next(),
    })
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambuildempty(index: pg_sys::Relation) {
    // SAFETY: PostgreSQL has the relation open and locked, and its initial fork is empty.
    unsafe {
        let form = form_to_be(index, std::ptr::null_mut());
        Index::create(PgPages::initial(index), form);
    }
}

/// The form that the entries of an index will have. Ends with an error if the index is asked for
/// what it cannot do.
///
/// # Safety
///
/// The relation is open, and `info` describes it or is null.
unsafe fn form_to_be(index: pg_sys::Relation, info: *mut pg_sys::IndexInfo) -> Form {
    // SAFETY: the caller's.
    if unsafe { info.as_ref() }.is_some_and(|info| !info.ii_ExclusionOps.is_null()) {
        let message = "access method \"bedload\" does not support exclusion constraints".to_owned();
        fail(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message, None);
    }
    // SAFETY: the relation is open.
    match unsafe { Form::of_index(index) } {
        // SAFETY: the relation is open.
        Ok(form) if form.is_lossy() && unsafe { (*(*index).rd_index).indisunique } => fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "access method \"bedload\" does not support UNIQUE with an operator class that keeps hashes"
                .to_owned(),
            Some("Use the type's default operator class, or a B-tree.".to_owned()),
        ),
        Ok(form) => form,
        Err(what) => fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"bedload\" does not support {what}"),
            Some("Use an operator class that comes with the extension, or a B-tree.".to_owned()),
        ),
    }
}

/// Shows the entries to be of a table to `visit`, in the order of the table, and whether the row of
/// each is alive; returns how many rows it has. It sees all rows that are not dead, or those of a
/// snapshot if `info` is of a concurrent build.
///
/// # Safety
///
/// Both relations are open and locked, `info` describes the index, and its entries have this form.
pub(crate) unsafe fn for_each_row(
    (table, index): (pg_sys::Relation, pg_sys::Relation),
    form: Form,
    info: *mut pg_sys::IndexInfo,
    visit: &mut dyn FnMut(Entry, bool),
) -> f64 {
    let mut visitor = Visitor { table, form, visit };
    let state = (&raw mut visitor).cast::<c_void>();
    // SAFETY: the callback gets `state` back while `visitor` lives. The boundary catches errors of
    // the table's access method, a pointer that pgrx does not guard; there is nothing to drop in
    // it.
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        let scan_rows = (*(*table).rd_tableam).index_build_range_scan;
        let scan_rows = scan_rows.expect("a table access method can build indexes");
        let (first, count) = (0, pg_sys::InvalidBlockNumber);
        pg_guard_ffi_boundary(|| {
            scan_rows(
                table,
                index,
                info,
                true,
                false,
                true,
                first,
                count,
                Some(show),
                state,
                std::ptr::null_mut(),
            )
        })
    }
}

/// The rows of a table are shown to it.
struct Visitor<'v> {
    table: pg_sys::Relation,
    form: Form,
    visit: &'v mut dyn FnMut(Entry, bool),
}

#[pg_guard]
unsafe extern "C-unwind" fn show(
    index: pg_sys::Relation,
    address: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called from within `for_each_row`, with its state and the values of the index's
    // columns.
    unsafe {
        let visitor = &mut *state.cast::<Visitor<'_>>();
        let entry = entry_of_row((visitor.table, index), visitor.form, values, nulls, address);
        (visitor.visit)(entry, is_alive);
    }
}
