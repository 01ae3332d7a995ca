//! Inserting the entry of a new row.

#![expect(unsafe_code, reason = "a function of an access method")]

use pgrx::pg_sys::{self, panic::pgrx_extern_c_guard};

use super::unique;
use crate::index::{Index, entry_of_row};
use crate::pending;

/// Not a guarded function as a whole: see [`unique::Violation::raise`].
pub(super) unsafe extern "C-unwind" fn aminsert(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    address: pg_sys::ItemPointer,
    table: pg_sys::Relation,
    check_unique: pg_sys::IndexUniqueCheck::Type,
    _index_unchanged: bool,
    _info: *mut pg_sys::IndexInfo,
) -> bool {
    let row = unique::Row {
        index,
        table,
        values,
        nulls,
    };
    // SAFETY: PostgreSQL has both relations open and locked, passes the values of the index's
    // columns, and the row was just inserted. It calls from outside of Rust.
    unsafe {
        match pgrx_extern_c_guard(|| insert(&row, address, check_unique)) {
            Ok(is_unique) => is_unique,
            Err(violation) => violation.raise(),
        }
    }
}

/// # Safety
///
/// As for [`unique::insert`]; the address is that of the row.
unsafe fn insert(
    row: &unique::Row,
    address: pg_sys::ItemPointer,
    check_unique: pg_sys::IndexUniqueCheck::Type,
) -> Result<bool, unique::Violation> {
    let unique::Row {
        index,
        table,
        values,
        nulls,
    } = *row;
    // SAFETY: the caller's.
    unsafe {
        let form = Index::form_of(index);
        let entry = entry_of_row((table, index), form, values, nulls, address);
        if (*(*index).rd_index).indisunique {
            return unique::insert(row, entry, check_unique);
        }
        pending::insert(index, table, entry);
    }
    Ok(false)
}
