//! VACUUM: removing the entries of dead rows, and finding free pages.
//!
//! When `ambulkdelete` has returned, no entry of a row reported dead is left, nor comes back: the
//! tree's vacuum cycle covers entries that merges carry along, one VACUUM at a time works on a
//! table, and entries pending in other processes are of rows that are not dead. Nor does a scan
//! hold such an entry if its snapshot would see another row at its address (`scan/mod.rs`). Due
//! merges are then done, and unreachable pages become free.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::c_void;

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};
use pgrx::{PgBox, pg_guard};

use crate::index::Index;
use crate::key::Entry;

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambulkdelete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    let callback = callback.expect("a bulk deletion says what to delete");
    let mut is_dead = |entry: Entry| {
        let mut address = entry.address();
        // SAFETY: called as PostgreSQL asks; the boundary catches errors, and has nothing to drop
        // in it.
        #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
        unsafe {
            pg_guard_ffi_boundary(|| callback(&raw mut address, state))
        }
    };
    // SAFETY: PostgreSQL has the index open and locked; `stats` is null or what an earlier call has
    // returned. Only one process waits for pins on block 0, as one VACUUM at a time has the table.
    unsafe {
        let index = Index::open((*info).index);
        index.pages().read_into((*info).strategy);
        let stats = or_new(stats);
        (*stats).tuples_removed += index.remove(&mut is_dead) as f64;
        let barrier = pg_sys::ReadBuffer((*info).index, 0);
        pg_sys::LockBufferForCleanup(barrier);
        pg_sys::UnlockReleaseBuffer(barrier);
        // The number of entries is for `amvacuumcleanup` to say.
        (*stats).estimated_count = true;
        stats
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amvacuumcleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: as for `ambulkdelete`.
    unsafe {
        if (*info).analyze_only {
            return stats;
        }
        let index = Index::open((*info).index);
        let stats = or_new(stats);
        index.maintain(false);
        index.pages().read_into((*info).strategy);
        let free = index.reclaim();
        (*stats).pages_free = u32::try_from(free).unwrap_or(u32::MAX);
        (*stats).num_pages = index.pages().block_count();
        // Each row has an entry, unless the index is partial. Then entries are counted, of which
        // those on their way from one run to another count twice.
        let (rows, is_estimate) = ((*info).num_heap_tuples, (*info).estimated_count);
        let is_partial = !pg_sys::heap_attisnull(
            (*(*info).index).rd_indextuple,
            pg_sys::Anum_pg_index_indpred.cast_signed(),
            std::ptr::null_mut(),
        );
        ((*stats).num_index_tuples, (*stats).estimated_count) = if is_partial {
            let most = if is_estimate { f64::INFINITY } else { rows };
            (most.min(index.entries() as f64), false)
        } else {
            (rows, is_estimate)
        };
        stats
    }
}

unsafe fn or_new(stats: *mut pg_sys::IndexBulkDeleteResult) -> *mut pg_sys::IndexBulkDeleteResult {
    if stats.is_null() {
        // SAFETY: zero is "none" for every field.
        unsafe { PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0() }.into_pg()
    } else {
        stats
    }
}
