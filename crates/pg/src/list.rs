//! Lists of the server.

#![expect(unsafe_code, reason = "lists are PostgreSQL's")]

use std::ffi::c_void;

use pgrx::pg_sys;

/// The elements of a list of pointers.
///
/// # Safety
///
/// The list is null, or a list of pointers that stays as it is while the result is used.
pub(crate) unsafe fn pointers(list: *const pg_sys::List) -> impl Iterator<Item = *mut c_void> {
    // SAFETY: the caller's.
    let len = unsafe { list.as_ref() }.map_or(0, |list| usize::try_from(list.length).unwrap_or(0));
    // SAFETY: the caller's; there are so many.
    (0..len).map(move |at| unsafe { (*(*list).elements.add(at)).ptr_value })
}
