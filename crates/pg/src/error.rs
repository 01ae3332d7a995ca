//! Errors of the index as errors of the server.

#![expect(unsafe_code, reason = "the name of an index is read from its descriptor")]

use std::ffi::CStr;

use bedload_pages::Error;
use pgrx::pg_sys::{self, panic::ErrorReport};
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// The name of a relation, for messages.
///
/// # Safety
///
/// The relation is open.
pub(crate) unsafe fn name_of(relation: pg_sys::Relation) -> String {
    // SAFETY: the caller's; a name in `pg_class` ends with a zero.
    let name = unsafe { CStr::from_ptr((*(*relation).rd_rel).relname.data.as_ptr()) };
    name.to_string_lossy().into_owned()
}

/// Ends the transaction with an error.
pub(crate) fn fail(code: PgSqlErrorCode, message: String, hint: Option<String>) -> ! {
    let report = ErrorReport::new(code, message, "bedload");
    let report = match hint {
        Some(hint) => report.set_hint(hint),
        None => report,
    };
    report.report(PgLogLevel::ERROR);
    unreachable!("an error does not return")
}

/// Makes room for so many more values, or ends the transaction with an error if the system has no
/// memory for them: it would otherwise abort the process, and with it the server.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize) {
    if values.try_reserve_exact(more).is_err() {
        let code = PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY;
        let bytes = (values.len() + more) * size_of::<T>();
        fail(
            code,
            format!("out of memory: no {bytes} bytes for entries of an index"),
            Some("Lower maintenance_work_mem for a build, bedload.batch_entries for rows.".to_owned()),
        );
    }
}

/// Ends the transaction because of what a tree said of the index.
///
/// # Safety
///
/// The relation is open.
pub(crate) unsafe fn fail_with(index: pg_sys::Relation, error: &Error) -> ! {
    // SAFETY: the caller's.
    let name = unsafe { name_of(index) };
    let (code, hint) = match error {
        Error::Corrupt { .. } => (
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            Some(format!("REINDEX INDEX {name}.")),
        ),
        _ => (PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, None),
    };
    fail(code, format!("index \"{name}\": {error}"), hint)
}

/// A point at which an error may end what is under way: the tests raise one at each.
#[inline]
pub(crate) fn error_point() {
    #[cfg(feature = "harness")]
    if crate::hooks::is_error_due() {
        let message = "raised by the tests".to_owned();
        fail(PgSqlErrorCode::ERRCODE_DISK_FULL, message, None);
    }
}
