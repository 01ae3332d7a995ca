//! Inserting the entry of a new row.

#![expect(unsafe_code, reason = "a function of an access method")]

use pgrx::{pg_guard, pg_sys};

use crate::key::entry_of;
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
    // SAFETY: PostgreSQL passes the values of the index's columns, of which there is one.
    let entry = unsafe { entry_of(index, values, nulls, address) };
    // SAFETY: PostgreSQL has both relations open and locked, and the row was just inserted.
    unsafe { pending::insert(index, table, entry) };
    false
}
