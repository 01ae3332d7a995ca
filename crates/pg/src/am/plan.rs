//! What the planner and `CREATE` statements ask.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::c_int;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{PgSqlErrorCode, pg_guard};

use crate::error::fail;
use crate::key::Kind;

/// The B-tree's estimate. It reads of the index what ours has too: strategies, order, and the column's statistics.
#[pg_guard]
#[expect(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
pub(super) unsafe extern "C-unwind" fn amcostestimate(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    unsafe extern "C-unwind" {
        fn btcostestimate(
            root: *mut pg_sys::PlannerInfo,
            path: *mut pg_sys::IndexPath,
            loop_count: f64,
            startup_cost: *mut pg_sys::Cost,
            total_cost: *mut pg_sys::Cost,
            selectivity: *mut pg_sys::Selectivity,
            correlation: *mut f64,
            pages: *mut f64,
        );
    }
    // SAFETY: the arguments are passed on as they came; the boundary catches errors.
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        pg_guard_ffi_boundary(|| {
            btcostestimate(
                root,
                path,
                loop_count,
                startup_cost,
                total_cost,
                selectivity,
                correlation,
                pages,
            );
        });
    }
}

/// Index-only scans return a column whose entries have the value as it is in the table.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amcanreturn(index: pg_sys::Relation, _column: c_int) -> bool {
    // SAFETY: PostgreSQL has the index open.
    unsafe { Kind::of_index(index) }.is_some_and(Kind::is_returnable)
}

/// There are no storage parameters.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amoptions(
    options: pg_sys::Datum,
    validate: bool,
) -> *mut pg_sys::bytea {
    if validate && !options.is_null() {
        let message = "access method \"bedload\" has no storage parameters".to_owned();
        fail(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message, None);
    }
    std::ptr::null_mut()
}

/// Whether an operator class is for a type whose values an index keeps.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amvalidate(class: pg_sys::Oid) -> bool {
    // SAFETY: a tuple of the cache is one of its catalogue, until it is released.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::CLAOID.cast_signed();
        let tuple = pg_sys::SearchSysCache1(id, pg_sys::Datum::from(class));
        if tuple.is_null() {
            return false;
        }
        let class = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_opclass>();
        let (of, family) = (class.opcintype, class.opcfamily);
        pg_sys::ReleaseSysCache(tuple);
        let hash = pg_sys::get_opfamily_proc(family, of, of, 1);
        hash != pg_sys::InvalidOid || Kind::of_type(of).is_some()
    }
}
