//! Building an index: sort what the table has, and load it.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::c_void;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{PgSqlErrorCode, pg_guard};

use super::sort::Sorter;
use crate::error::fail;
use crate::index::{Index, refuse_if_too_large};
use crate::key::{Entry, Form};
use crate::pages::PgPages;
use crate::pending;

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambuild(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: PostgreSQL has both relations open and locked, and the index is empty and known to nobody else.
    unsafe {
        let form = form_to_be(index, info);
        pending::forget(index);
        let mut sorter = Sorter::new(form);
        let heap_tuples = for_each_row((table, index), form, info, &mut |entry| {
            refuse_if_too_large(index, table, form, &entry);
            sorter.push(entry);
        });
        let built = Index::create(PgPages::new(index), form);
        let loaded = sorter.len();
        built.insert_sorted(sorter.finish(), || {});
        let result =
            pg_sys::palloc0(size_of::<pg_sys::IndexBuildResult>()).cast::<pg_sys::IndexBuildResult>();
        (*result).heap_tuples = heap_tuples;
        (*result).index_tuples = loaded as f64;
        result
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambuildempty(index: pg_sys::Relation) {
    // SAFETY: PostgreSQL has the relation open and locked, and its initial fork is empty.
    unsafe {
        let form = form_to_be(index, std::ptr::null_mut());
        Index::create(PgPages::initial(index), form);
    }
}

/// The form that the entries of an index will have. Ends with an error if the index is asked for what it cannot do.
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
        Ok(form) => form,
        Err(what) => fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"bedload\" does not support {what}"),
            Some("Use an operator class that comes with the extension, or a B-tree.".to_owned()),
        ),
    }
}

/// Shows the entries to be of a table to `visit`, in the order of the table; returns how many rows it has. It sees
/// all rows that are not dead, or those of a snapshot if `info` is of a concurrent build.
///
/// # Safety
///
/// Both relations are open and locked, `info` describes the index, and its entries have this form.
pub(crate) unsafe fn for_each_row(
    (table, index): (pg_sys::Relation, pg_sys::Relation),
    form: Form,
    info: *mut pg_sys::IndexInfo,
    visit: &mut dyn FnMut(Entry),
) -> f64 {
    let mut visitor = Visitor { form, visit };
    let state = (&raw mut visitor).cast::<c_void>();
    // SAFETY: the callback gets `state` back while `visitor` lives. The boundary catches errors of the table's access
    // method, a pointer that pgrx does not guard; there is nothing to drop in it.
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
    form: Form,
    visit: &'v mut dyn FnMut(Entry),
}

#[pg_guard]
unsafe extern "C-unwind" fn show(
    index: pg_sys::Relation,
    address: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    _is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called from within `for_each_row`, with its state and the values of the index's columns.
    unsafe {
        let visitor = &mut *state.cast::<Visitor<'_>>();
        (visitor.visit)(visitor.form.entry_of(index, values, nulls, address));
    }
}
