//! Scans: in order and both ways, and into a bitmap.
//!
//! A scan copies some entries at a time, its *window*, and holds no latch and no pin between two
//! calls. Its reader goes on where the window before ended. Where that is not where the scan is, as
//! it has turned round, was restored to a mark or a bulk deletion has ended, it descends again: a
//! place is one in the order and not on a page.
//!
//! Under an MVCC snapshot it does not matter that a row's address may become another row's while a
//! scan has it: the snapshot does not see the other row. Under other snapshots the server would
//! take the other row for one with the scan's key: `INSERT … ON CONFLICT` (version 18) and logical
//! replication scan unique indexes so. Such a scan keeps block 0 pinned from before it reads
//! entries to its end, and a bulk deletion waits for these pins before it returns. Tests that fail
//! without the wait: `the_row_of_another_key_is_no_conflict` and
//! `the_row_of_another_key_is_not_replicated_to`.

#![expect(unsafe_code, reason = "functions of an access method")]

mod index_only;
mod parallel;
mod position;
mod rows_ahead;
mod search;
mod state;

use std::ffi::c_int;
use std::ptr::NonNull;

use pgrx::{PgMemoryContexts, PgSqlErrorCode, pg_guard, pg_sys};

use crate::compat;
use crate::error::fail;
use crate::head::{Dead, Sorted};
use crate::index::{Index, Way};
use crate::key::{Entry, RowValues};
use crate::pending;
use index_only::MAP_PAGES;
pub(super) use parallel::set_functions as set_parallel_functions;
use position::{Place, Position};
use rows_ahead::RowsAhead;
pub(super) use search::RANGES_MAX;
use search::Search;
use state::{Scan, WINDOW_LEN_MIN};

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambeginscan(
    index: pg_sys::Relation,
    keys: c_int,
    order_bys: c_int,
) -> pg_sys::IndexScanDesc {
    // SAFETY: PostgreSQL has the index open and locked. The scan is dropped with its memory
    // context, so also when an error ends it.
    unsafe {
        if compat::snapshots_expire() {
            let message = "access method \"bedload\" does not support old_snapshot_threshold".to_owned();
            fail(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message, None);
        }
        let descriptor = pg_sys::RelationGetIndexScan(index, keys, order_bys);
        let form = Index::open(index).form();
        let memory = pg_sys::AllocSetContextCreateInternal(
            pg_sys::CurrentMemoryContext,
            c"bedload scan".as_ptr(),
            0,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        );
        let scan = Scan {
            memory,
            is_backward: form.is_backward(index),
            form,
            reader: None,
            search: Search::default(),
            shared: None,
            stretch: None,
            pending: Sorted::default(),
            position: Position::new(Place::Unbegun),
            marked: None,
            window_len: WINDOW_LEN_MIN,
            deletions: 0,
            deletions_of_window: 0,
            deletions_of_reader: 0,
            dead: if (*descriptor).ignore_killed_tuples {
                Dead::Skipped
            } else {
                Dead::Shown
            },
            killed: Vec::new(),
            rows_ahead: RowsAhead::default(),
            is_mvcc: true,
            barrier: pg_sys::InvalidBuffer.cast_signed(),
            maps: [pg_sys::InvalidBuffer.cast_signed(); MAP_PAGES],
            tuple: std::ptr::null_mut(),
            tuple_has_null: false,
            row: RowValues::default(),
            slot: std::ptr::null_mut(),
        };
        (*descriptor).xs_itupdesc = (*index).rd_att;
        (*descriptor).opaque = PgMemoryContexts::For(memory).leak_and_drop_on_delete(scan).cast();
        descriptor
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amrescan(
    descriptor: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    key_count: c_int,
    _order_bys: pg_sys::ScanKey,
    _order_by_count: c_int,
) {
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` has begun, with room for its keys, and
    // new keys or null.
    unsafe {
        let (scan, index) = parts(descriptor);
        let count = usize::try_from(key_count).unwrap_or(0);
        if !keys.is_null() && count > 0 {
            std::ptr::copy(keys, (*descriptor).keyData, count);
        }
        let count = usize::try_from((*descriptor).numberOfKeys).unwrap_or(0);
        let keys = if count == 0 {
            &[]
        } else {
            std::slice::from_raw_parts((*descriptor).keyData, count)
        };
        let snapshot = (*descriptor)
            .xs_snapshot
            .as_ref()
            .map(|snapshot| snapshot.snapshot_type);
        scan.is_mvcc = snapshot.is_none_or(|snapshot| snapshot == pg_sys::SnapshotType::SNAPSHOT_MVCC);
        if !scan.is_mvcc {
            // The planner's search for the least or the greatest value (version 18) would publish
            // what waits with every statement.
            if snapshot != Some(pg_sys::SnapshotType::SNAPSHOT_NON_VACUUMABLE) {
                pending::flush(index);
            }
            if scan.barrier == pg_sys::InvalidBuffer.cast_signed() {
                scan.barrier = pg_sys::ReadBuffer(index, 0);
            }
        }
        scan.shared = compat::shared_of_scan(descriptor).map(NonNull::cast);
        scan.begin(index, Search::new(index, scan.form, keys));
    }
}

/// The scan and the index of a descriptor.
///
/// # Safety
///
/// `ambeginscan` has made it, and nothing else of it is borrowed.
unsafe fn parts<'s>(descriptor: pg_sys::IndexScanDesc) -> (&'s mut Scan, pg_sys::Relation) {
    // SAFETY: the caller's.
    unsafe {
        (
            &mut *(*descriptor).opaque.cast::<Scan>(),
            (*descriptor).indexRelation,
        )
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amgettuple(
    descriptor: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a scan under way, whose index is open and locked.
    unsafe {
        let (scan, index) = parts(descriptor);
        let is_down = (direction == pg_sys::ScanDirection::BackwardScanDirection) != scan.is_backward;
        let way = if is_down { Way::Down } else { Way::Up };
        // Without conditions there is none to look at again, and `CLUSTER` refuses to.
        (*descriptor).xs_recheck = scan.form.is_lossy() && (*descriptor).numberOfKeys > 0;
        if scan.position.place == Place::Unbegun {
            compat::count_search(descriptor);
        }
        if (*descriptor).kill_prior_tuple
            && let Some(entry) = scan.position.entry()
        {
            scan.killed.push(entry.clone());
        }
        let is_index_only = (*descriptor).xs_want_itup;
        let table = if is_index_only {
            (*descriptor).heapRelation
        } else {
            std::ptr::null_mut()
        };
        while scan.next(index, table, way)
            && let Some(entry) = scan.position.entry()
        {
            (*descriptor).xs_heaptid = entry.address();
            // Nobody looks at such a row.
            if is_index_only && scan.position.is_visible() {
                scan.form_tuple(descriptor);
                return true;
            }
            scan.fetch_rows_ahead((*descriptor).heapRelation, way);
            if !is_index_only {
                #[cfg(feature = "harness")]
                crate::hooks::pause(crate::hooks::Pause::Row);
                return true;
            }
            // Under another snapshot the caller looks at rows itself: the planner gives up after
            // some that are dead.
            if !scan.is_mvcc || scan.sees_row(descriptor) {
                scan.form_tuple(descriptor);
                return true;
            }
            if (*descriptor).kill_prior_tuple {
                scan.killed.extend(scan.position.entry().cloned());
            }
            // Invisible rows may be many, one after another.
            pgrx::check_for_interrupts!();
        }
        false
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amgetbitmap(
    descriptor: pg_sys::IndexScanDesc,
    bitmap: *mut pg_sys::TIDBitmap,
) -> i64 {
    // SAFETY: PostgreSQL passes a scan under way, whose index is open and locked, and a bitmap.
    unsafe {
        let (scan, index) = parts(descriptor);
        let mut count = 0;
        let mut addresses = Vec::new();
        let mut window = Vec::new();
        compat::count_search(descriptor);
        for range in 0..scan.search.ranges.len() {
            let mut last = None;
            loop {
                pgrx::check_for_interrupts!();
                window.clear();
                if !scan.is_over(last.as_ref(), Way::Up) {
                    scan.window(index, range, (last, Way::Up), &mut window);
                }
                last = window.last().cloned();
                if last.is_none() {
                    break;
                }
                addresses.clear();
                let matching = window.iter().filter(|entry| scan.search.matches(entry));
                addresses.extend(matching.map(Entry::address));
                let len = c_int::try_from(addresses.len()).expect("a window is a few pages");
                pg_sys::tbm_add_tuples(bitmap, addresses.as_mut_ptr(), len, scan.form.is_lossy());
                count += i64::from(len);
            }
        }
        count
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amendscan(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan under way.
    let (scan, index) = unsafe { parts(descriptor) };
    // SAFETY: the index is open and locked.
    unsafe { scan.hint_killed(index) };
    if !scan.slot.is_null() {
        // SAFETY: made by the scan, and dropped once.
        unsafe { pg_sys::ExecDropSingleTupleTableSlot(scan.slot) };
        scan.slot = std::ptr::null_mut();
    }
    for pinned in scan.maps.iter_mut().chain([&mut scan.barrier]) {
        let pinned = std::mem::replace(pinned, pg_sys::InvalidBuffer.cast_signed());
        if pinned != pg_sys::InvalidBuffer.cast_signed() {
            // SAFETY: pinned by the scan, and given up once.
            unsafe { pg_sys::ReleaseBuffer(pinned) };
        }
    }
    let memory = scan.memory;
    // SAFETY: made by `ambeginscan`. This drops the scan, which nothing borrows any more.
    unsafe {
        (*descriptor).opaque = std::ptr::null_mut();
        pg_sys::MemoryContextDelete(memory);
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ammarkpos(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan under way.
    let (scan, _) = unsafe { parts(descriptor) };
    scan.marked = Some((scan.position.clone(), scan.deletions_of_window));
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amrestrpos(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan under way.
    let (scan, index) = unsafe { parts(descriptor) };
    // They were found dead in a later window, which is left here.
    // SAFETY: the index is open and locked.
    unsafe { scan.hint_killed(index) };
    if let Some((position, deletions)) = &scan.marked {
        scan.position = position.clone();
        scan.deletions_of_window = *deletions;
        scan.rows_ahead.enter_window();
    }
}
