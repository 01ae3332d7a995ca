//! Where versions of PostgreSQL differ.

#![expect(unsafe_code, reason = "structures and functions of PostgreSQL")]

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

/// A column of an index.
///
/// # Safety
///
/// The index is open as long as the result is used, and has the column.
pub(crate) unsafe fn attribute<'r>(index: pg_sys::Relation, at: usize) -> &'r pg_sys::FormData_pg_attribute {
    // SAFETY: the caller's.
    unsafe { &*(*(*index).rd_att).attrs.as_ptr().add(at) }
}

/// Whether a collation compares the bytes of text.
pub(crate) fn collates_bytes(collation: pg_sys::Oid) -> bool {
    unsafe extern "C-unwind" {
        fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    }
    // SAFETY: takes any collation; the boundary catches errors.
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        pg_guard_ffi_boundary(|| lc_collate_is_c(collation))
    }
}
