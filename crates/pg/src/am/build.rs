//! Building an index: sort what the table has, and load it.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::{CStr, c_void};

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{PgSqlErrorCode, pg_guard};

use super::sort::Sorter;
use crate::error::{fail, name_of};
use crate::index::Index;
use crate::key::{Entry, Kind, entry_of};
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
        refuse_what_is_missing(index, info);
        pending::forget(index);
        let mut sorter = Sorter::new();
        let heap_tuples = for_each_row(table, index, info, &mut |entry| sorter.push(entry));
        let built = Index::create(PgPages::new(index));
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
    unsafe { Index::create(PgPages::initial(index)) };
}

/// Ends with an error if the index is asked for what it cannot do.
///
/// # Safety
///
/// The relation is open, and `info` describes it.
unsafe fn refuse_what_is_missing(index: pg_sys::Relation, info: *mut pg_sys::IndexInfo) {
    // SAFETY: the caller's; there is an option for each column, of which there is one.
    let (excludes, options) = unsafe { (!(*info).ii_ExclusionOps.is_null(), *(*index).rd_indoption) };
    if excludes {
        let message = "access method \"bedload\" does not support exclusion constraints".to_owned();
        fail(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message, None);
    }
    // SAFETY: the relation is open.
    if unsafe { Kind::of_index(index) }.is_none() {
        // SAFETY: as above; there is an input type for each column. The name is a string in the current memory context.
        let of = unsafe { CStr::from_ptr(pg_sys::format_type_be(*(*index).rd_opcintype)) };
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!(
                "access method \"bedload\" does not support type {}",
                of.to_string_lossy()
            ),
            Some("Use an operator class that comes with the extension, or a B-tree.".to_owned()),
        );
    }
    if !is_ordered_as_stored(options) && !is_ordered_backwards(options) {
        // SAFETY: the relation is open.
        let name = unsafe { name_of(index) };
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("index \"{name}\": access method \"bedload\" keeps nulls behind all values"),
            Some("Use ASC NULLS LAST or DESC NULLS FIRST, which are the defaults.".to_owned()),
        );
    }
}

const DESCENDING: i16 = 1;
const NULLS_FIRST: i16 = 2;

fn is_ordered_as_stored(options: i16) -> bool {
    options & (DESCENDING | NULLS_FIRST) == 0
}

/// Whether the index's order is that in which it is stored, read backwards.
pub(super) fn is_ordered_backwards(options: i16) -> bool {
    options & (DESCENDING | NULLS_FIRST) == (DESCENDING | NULLS_FIRST)
}

/// Shows the entries to be of a table to `visit`, in the order of the table; returns how many rows it has. It sees
/// all rows that are not dead, or those of a snapshot if `info` is of a concurrent build.
///
/// # Safety
///
/// Both relations are open and locked, and `info` describes the index.
pub(crate) unsafe fn for_each_row(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    visit: &mut dyn FnMut(Entry),
) -> f64 {
    let mut visit = visit;
    let state = (&raw mut visit).cast::<c_void>();
    // SAFETY: the callback gets `state` back while `visit` lives. The boundary catches errors of the table's access
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

#[pg_guard]
unsafe extern "C-unwind" fn show(
    index: pg_sys::Relation,
    address: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    _is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: called from within `for_each_row`, with its state and the values of the index's one column.
    unsafe {
        let visit = &mut *state.cast::<&mut dyn FnMut(Entry)>();
        visit(entry_of(index, values, nulls, address));
    }
}
