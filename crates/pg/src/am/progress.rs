//! How far a build is, for `pg_stat_progress_create_index`.

#![expect(unsafe_code, reason = "progress is told to PostgreSQL")]

use std::ffi::{CStr, c_char};

use pgrx::{pg_guard, pg_sys};

use crate::key::Entry;

/// Entries that are loaded between two reports.
const REPORT_ENTRIES: usize = 1024;

/// The phase of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Initialize,
    ScanTable,
    Load,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Initialize, Self::ScanTable, Self::Load];

    /// The first number is PostgreSQL's.
    fn number(self) -> i64 {
        i64::from(pg_sys::PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE) + self as i64
    }

    fn name(self) -> &'static CStr {
        match self {
            Self::Initialize => c"initializing",
            Self::ScanTable => c"scanning table",
            Self::Load => c"sorting and loading entries",
        }
    }

    pub(super) fn begin(self) {
        report(pg_sys::PROGRESS_CREATEIDX_SUBPHASE, self.number());
    }
}

fn report(what: u32, value: i64) {
    // SAFETY: takes any value, which is dropped unless a command reports its progress.
    unsafe { pg_sys::pgstat_progress_update_param(what.cast_signed(), value) };
}

/// Begins to load so many entries.
pub(super) fn begin_load(total: usize) {
    report(pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL, number(total));
    Phase::Load.begin();
}

/// Reports how many entries have been taken.
pub(super) fn reported(entries: impl Iterator<Item = Entry>, total: usize) -> impl Iterator<Item = Entry> {
    (1..).zip(entries).map(move |(taken, entry)| {
        if taken % REPORT_ENTRIES == 0 || taken == total {
            report(pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, number(taken));
        }
        entry
    })
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The name of a phase, or null for a number that is none's.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambuildphasename(number: i64) -> *mut c_char {
    let phase = Phase::ALL.into_iter().find(|phase| phase.number() == number);
    // PostgreSQL copies the name.
    phase.map_or(std::ptr::null_mut(), |phase| phase.name().as_ptr().cast_mut())
}
