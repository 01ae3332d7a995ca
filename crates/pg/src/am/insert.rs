//! Inserting the entry of a new row.

#![expect(unsafe_code, reason = "a function of an access method")]

use pgrx::{pg_guard, pg_sys};

use crate::index::{Index, refuse_if_too_large};
use crate::pending;

#[pg_guard]
#[expect(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
pub(super) unsafe extern "C-unwind" fn aminsert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    address: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    _index_unchanged: bool,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    // SAFETY: PostgreSQL has both relations open and locked, passes the values of the index's columns, and the row was
    // just inserted.
    unsafe {
        let form = Index::open(index).form();
        let entry = form.entry_of(index, values, nulls, address);
        refuse_if_too_large(index, table, form, &entry);
        pending::insert(index, table, entry);
    }
    false
}
