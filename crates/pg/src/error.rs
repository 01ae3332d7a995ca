//! Errors of the index as errors of the server.

#![expect(unsafe_code, reason = "the name of an index is read from its descriptor")]

use std::ffi::CStr;
use std::hint::black_box;

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

/// The hint if memory runs out in a build or a transaction.
pub(crate) const FEWER_ENTRIES: &str =
    "Lower maintenance_work_mem for a build, bedload.batch_entries for rows.";
/// The hint if memory runs out in a scan.
pub(crate) const FEWER_VALUES: &str = "Ask for fewer or shorter values at once.";

fn fail_without_memory(bytes: usize, hint: &str) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
        format!("out of memory: no {bytes} bytes for entries of an index"),
        Some(hint.to_owned()),
    )
}

/// Makes room for so many more values, or ends the transaction with an error if the system has no
/// memory for them: it would otherwise abort the process, and with it the server.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize) {
    if values.try_reserve_exact(more).is_err() {
        fail_without_memory((values.len() + more) * size_of::<T>(), FEWER_ENTRIES);
    }
}

/// Bytes that may be allocated besides those that memory was expected for.
const SPARE_BYTES: usize = 1 << 20;
/// Bytes assumed available to a process, so that small statements need not ask.
const AT_HAND_BYTES: usize = 1 << 17;

/// Ends the transaction with an error if the system has no memory for so many bytes, which are
/// about to be allocated in many pieces, as those allocations would abort the process.
pub(crate) fn expect_memory(bytes: usize, hint: &str) {
    if bytes <= AT_HAND_BYTES {
        return;
    }
    let mut probe = Vec::<u8>::new();
    let has_memory = probe.try_reserve_exact(bytes.saturating_add(SPARE_BYTES)).is_ok();
    // An allocation that nothing uses is left out by the compiler.
    black_box(probe.as_mut_ptr());
    if !has_memory {
        fail_without_memory(bytes, hint);
    }
}

/// Memory for the bytes beside many entries, which are allocated one by one: the system is asked
/// for a MiB before that is used.
#[derive(Debug)]
pub(crate) struct Headroom {
    left: usize,
}

impl Headroom {
    const BYTES: usize = 1 << 20;

    pub(crate) const fn new() -> Self {
        Self { left: AT_HAND_BYTES }
    }

    /// Takes so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) {
        if self.left < bytes {
            expect_memory(Self::BYTES + bytes, FEWER_ENTRIES);
            self.left = Self::BYTES + bytes;
        }
        self.left -= bytes;
    }
}

/// Ends the transaction with an error that a tree reported for the index.
///
/// # Safety
///
/// The relation is open.
pub(crate) unsafe fn fail_with(index: pg_sys::Relation, error: &Error) -> ! {
    // SAFETY: the caller's.
    let name = unsafe { name_of(index) };
    let (code, hint) = match error {
        Error::EntryTooLarge { .. } | Error::Busy { .. } => (PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, None),
        // The server has its own errors for a disk that fails. So what is left is damage: a page
        // that is named and does not exist, entries out of order or of another form.
        _ => (
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            Some(format!("REINDEX INDEX {name}.")),
        ),
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
