//! Storage parameters: `CREATE INDEX … WITH (batch_entries = 0, filter_bits = 8)`.
//!
//! They say how an index is written from now on. Pages do not depend on them, so that they may be
//! changed at any time.

#![expect(
    unsafe_code,
    reason = "PostgreSQL parses options, and keeps them with a relation"
)]

use std::ffi::{CStr, c_int};
use std::mem::offset_of;
use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

use crate::compat;

/// Lookups of one key ask the filters of the runs above the leaves.
pub(crate) const FILTER_BITS: u8 = 12;
/// A page of 8 KiB has the bits of 2,000 keys then.
const FILTER_BITS_MAX: c_int = 32;

pub(crate) const BATCH_ENTRIES_MAX: c_int = 16 * 1024 * 1024;
/// The setting of the session alone.
const BATCH_ENTRIES_OF_SESSION: c_int = -1;

const FILTER_BITS_NAME: &CStr = c"filter_bits";
const BATCH_ENTRIES_NAME: &CStr = c"batch_entries";

/// The options of an index, as PostgreSQL keeps them: a value of variable length.
#[repr(C)]
struct Options {
    header: i32,
    filter_bits: c_int,
    batch_entries: c_int,
}

/// The kind of options that these are.
static KIND: OnceLock<pg_sys::relopt_kind::Type> = OnceLock::new();

/// Makes the options known; to be called once, when the module is loaded.
pub(crate) fn register() {
    KIND.get_or_init(|| {
        // A change lets other sessions read and write; they see it with their next statement.
        let lock = pg_sys::ShareUpdateExclusiveLock.cast_signed();
        // SAFETY: texts are copied, or stay as they are; limits include the defaults.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            pg_sys::add_int_reloption(
                kind,
                FILTER_BITS_NAME.as_ptr(),
                c"Bits for each key in the filters of runs above the leaves, 0 for no filters.".as_ptr(),
                FILTER_BITS.into(),
                0,
                FILTER_BITS_MAX,
                lock,
            );
            pg_sys::add_int_reloption(
                kind,
                BATCH_ENTRIES_NAME.as_ptr(),
                c"The most entries of this index that wait in a session, 0 for none, -1 for as many as bedload.batch_entries says.".as_ptr(),
                BATCH_ENTRIES_OF_SESSION,
                BATCH_ENTRIES_OF_SESSION,
                BATCH_ENTRIES_MAX,
                lock,
            );
            kind
        }
    });
}

/// Parses options; refuses those that there are not, if it is to validate them.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amoptions(
    options: pg_sys::Datum,
    validate: bool,
) -> *mut pg_sys::bytea {
    let elements = [
        compat::integer_option(FILTER_BITS_NAME, offset_of!(Options, filter_bits)),
        compat::integer_option(BATCH_ENTRIES_NAME, offset_of!(Options, batch_entries)),
    ];
    let Some(&kind) = KIND.get() else {
        return std::ptr::null_mut();
    };
    // SAFETY: PostgreSQL passes its array of options, or null; elements lie within the structure.
    unsafe {
        pg_sys::build_reloptions(
            options,
            validate,
            kind,
            size_of::<Options>(),
            elements.as_ptr(),
            c_int::try_from(elements.len()).unwrap_or(0),
        )
        .cast()
    }
}

/// # Safety
///
/// The index is open as long as the result is used.
unsafe fn options<'r>(index: pg_sys::Relation) -> Option<&'r Options> {
    // SAFETY: the caller's; its options are null, or what `amoptions` made.
    unsafe { (*index).rd_options.cast::<Options>().as_ref() }
}

/// Bits for each key in filters of the index.
///
/// # Safety
///
/// The index is open.
pub(crate) unsafe fn filter_bits(index: pg_sys::Relation) -> u8 {
    // SAFETY: the caller's.
    let options = unsafe { options(index) };
    options.map_or(FILTER_BITS, |options| {
        u8::try_from(options.filter_bits).unwrap_or(FILTER_BITS)
    })
}

/// The most entries of the index that wait in a session, if it has a bound of its own.
///
/// # Safety
///
/// The index is open.
pub(crate) unsafe fn batch_entries(index: pg_sys::Relation) -> Option<usize> {
    // SAFETY: the caller's.
    unsafe { options(index) }.and_then(|options| usize::try_from(options.batch_entries).ok())
}
