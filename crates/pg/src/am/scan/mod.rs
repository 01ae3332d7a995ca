//! Scans: in order and both ways, and into a bitmap.
//!
//! A scan copies some entries at a time, its *window*, and holds no latch and no pin between two
//! calls. Its reader goes on where the window before ended. Where that is not where the scan is, as
//! it has turned round, was restored to a mark or a bulk deletion has ended, it descends again: a
//! place is one in the order and not on a page.
//!
//! That a row's address may become another row's while a scan has it is no matter under an MVCC
//! snapshot, which does not see the other row. Under another one the server would take the other
//! row for one with the scan's key: `INSERT … ON CONFLICT` (version 18) and logical replication
//! scan unique indexes so. Such a scan keeps block 0 pinned from before it reads entries to its
//! end, and a bulk deletion waits for these pins before it returns. Tests that fail without the
//! wait: `the_row_of_another_key_is_no_conflict` and `the_row_of_another_key_is_not_replicated_to`.

#![expect(unsafe_code, reason = "functions of an access method")]

mod index_only;
mod parallel;
mod position;
mod rows_ahead;
mod search;

use std::ffi::c_int;
use std::ops::Bound;
use std::ptr::NonNull;

use pgrx::{PgMemoryContexts, PgSqlErrorCode, pg_guard, pg_sys};

use crate::compat;
use crate::error::fail;
use crate::head::{Dead, Sorted};
use crate::index::{Index, Way};
use crate::interrupts::merge_sort;
use crate::key::{Entry, Form, RowValues};
use crate::pending;
use crate::reader::Reader;
use index_only::MAP_PAGES;
pub(super) use parallel::set_functions as set_parallel_functions;
use parallel::{SharedFence, Stretch};
use position::{Place, Position, Window};
use rows_ahead::RowsAhead;
pub(super) use search::RANGES_MAX;
use search::Search;

/// A scan under way.
struct Scan {
    /// The memory context that ends the scan when it is deleted: by `amendscan`, as a statement may
    /// begin many scans in one context, or with the one above it after an error.
    memory: pg_sys::MemoryContext,
    /// Whether "forward" is towards lesser entries.
    is_backward: bool,
    form: Form,
    /// Made by the first window, and kept for further ranges.
    reader: Option<Reader>,
    search: Search,
    /// The fence, in a parallel scan. Its memory belongs to the query and outlives every request
    /// for an entry.
    shared: Option<NonNull<SharedFence>>,
    /// The stretch that this process reads; none in other scans, and before the first one.
    stretch: Option<Stretch>,
    /// Entries that wait in this process and those in the head of the index, as of the beginning of
    /// the scan, within the ranges.
    pending: Sorted,
    position: Position,
    /// A position, and `deletions_of_window` of its window.
    marked: Option<(Position, u64)>,
    /// The most entries of the next window: small at first, as many scans end soon.
    window_len: usize,
    /// How many bulk deletions had ended when the scan began, and before any entry of its present
    /// window was read.
    deletions: u64,
    deletions_of_window: u64,
    /// How many had ended before the reader read any of the entries that it has at hand.
    deletions_of_reader: u64,
    /// Whether to pass over entries that are known to be of dead rows: not in a transaction that
    /// began on a standby, whose snapshot may be older than those that were asked.
    dead: Dead,
    /// Entries of the present window whose rows were found dead to everybody.
    killed: Vec<Entry>,
    rows_ahead: RowsAhead,
    /// Whether the snapshot is MVCC.
    is_mvcc: bool,
    /// Block 0, pinned, under a snapshot that is not.
    barrier: pg_sys::Buffer,
    /// Pages of the visibility map that an index-only scan has looked at, pinned.
    maps: [pg_sys::Buffer; MAP_PAGES],
    /// The tuple that an index-only scan returned last, whether it has a null, and the slot for
    /// looking rows up; null at first. Tuples are in the scan's memory.
    tuple: pg_sys::IndexTuple,
    tuple_has_null: bool,
    /// The values of such a tuple of columns.
    row: RowValues,
    slot: *mut pg_sys::TupleTableSlot,
}

/// Entries that do not match between two looks for a cancelled statement.
const INTERRUPT_ENTRIES: u32 = 1024;
const WINDOW_LEN_MIN: usize = 4;
/// The first window of a range that has two ends, which most queries read to its end.
const WINDOW_LEN_BOUNDED: usize = 256;
const WINDOW_GROWTH: usize = 4;
/// As many as the processor's nearer caches hold.
const WINDOW_LEN_MAX: usize = 1024;

impl Scan {
    /// # Safety
    ///
    /// The index is open and locked.
    unsafe fn begin(&mut self, index: pg_sys::Relation, search: Search) {
        // SAFETY: the caller's.
        unsafe { self.hint_killed(index) };
        if let Some(reader) = &mut self.reader {
            reader.reset();
        }
        let mut recent = Sorted::default();
        if let Some((from, to)) = search.hull() {
            let mut waiting = pending::between(index, from, to);
            // SAFETY: the caller's.
            let index = unsafe { Index::open(index) };
            (recent, self.deletions) = index.head_between(from, to, self.dead);
            if !waiting.is_empty() {
                waiting.extend_from_slice(&recent);
                merge_sort(&mut waiting);
                waiting.dedup();
                recent = waiting.into();
            }
            if search.ranges.len() > 1 && !recent.is_empty() {
                let within = recent.iter().filter(|entry| search.has(entry));
                recent = within.cloned().collect::<Vec<_>>().into();
            }
        }
        self.window_len = if search.is_bounded {
            WINDOW_LEN_BOUNDED
        } else {
            WINDOW_LEN_MIN
        };
        self.search = search;
        self.stretch = None;
        self.pending = recent;
        self.position.reset(Place::Unbegun);
        self.marked = None;
        self.rows_ahead.begin();
    }

    /// Has later scans pass over the entries whose rows this one has found dead.
    ///
    /// # Safety
    ///
    /// The index is open and locked.
    unsafe fn hint_killed(&mut self, index: pg_sys::Relation) {
        if self.killed.is_empty() {
            return;
        }
        let mut killed = std::mem::take(&mut self.killed);
        killed.sort_unstable();
        let (in_head, in_tree): (Vec<Entry>, Vec<Entry>) = killed
            .into_iter()
            .partition(|entry| self.pending.binary_search(entry).is_ok());
        // SAFETY: the caller's.
        let index = unsafe { Index::open(index) };
        // Entries of the head were read when the scan began, whichever window they came with.
        index.hint_dead((&in_head, self.deletions), (&in_tree, self.deletions_of_window));
    }

    /// Goes to the next matching entry in the direction; `false` after the last. `table` is null
    /// except for index-only scans.
    ///
    /// # Safety
    ///
    /// The index and the table are open and locked.
    unsafe fn next(&mut self, index: pg_sys::Relation, table: pg_sys::Relation, way: Way) -> bool {
        let Some(last) = self.search.ranges.len().checked_sub(1) else {
            return false;
        };
        if self.position.place == Place::Unbegun {
            // SAFETY: the caller's.
            if self.shared.is_some() && !unsafe { self.take_stretch(index, way) } {
                return false;
            }
            if self.shared.is_none() {
                self.position.range = if way == Way::Up { 0 } else { last };
            }
        }
        let mut passed = 0_u32;
        loop {
            // SAFETY: the caller's.
            if unsafe { self.next_in_range(index, table, way) } {
                if self
                    .position
                    .entry()
                    .is_some_and(|entry| self.search.matches(entry))
                {
                    return true;
                }
                passed = passed.wrapping_add(1);
                if passed.is_multiple_of(INTERRUPT_ENTRIES) {
                    pgrx::check_for_interrupts!();
                }
                continue;
            }
            // Ranges without an entry may be many, one after another.
            pgrx::check_for_interrupts!();
            // SAFETY: the caller's.
            if !unsafe { self.next_range(index, way) } {
                return false;
            }
        }
    }

    /// Goes before the next range in the direction; `false` behind the last.
    ///
    /// # Safety
    ///
    /// As for [`Scan::next`].
    unsafe fn next_range(&mut self, index: pg_sys::Relation, way: Way) -> bool {
        let (first, last) = match &self.stretch {
            Some(stretch) => (*stretch.ranges.start(), *stretch.ranges.end()),
            None => (0, self.search.ranges.len().saturating_sub(1)),
        };
        let position = &mut self.position;
        match way {
            Way::Up if position.range < last => {
                position.range += 1;
                position.reset(Place::Below);
            }
            Way::Down if position.range > first => {
                position.range -= 1;
                position.reset(Place::Above);
            }
            // SAFETY: the caller's.
            _ => return unsafe { self.take_stretch(index, way) },
        }
        true
    }

    /// Goes to the next entry of the present range in the direction; `false` behind the last.
    ///
    /// # Safety
    ///
    /// As for [`Scan::next`].
    #[inline]
    unsafe fn next_in_range(&mut self, index: pg_sys::Relation, table: pg_sys::Relation, way: Way) -> bool {
        let position = &mut self.position;
        match (position.place, way) {
            (Place::Above, Way::Up) | (Place::Below, Way::Down) => return false,
            (Place::At, Way::Up) if position.at + 1 < position.window.entries.len() => position.at += 1,
            (Place::At, Way::Down) if position.at > 0 => position.at -= 1,
            _ => {
                // SAFETY: the caller's.
                unsafe { self.next_window(index, table, way) };
                let position = &mut self.position;
                let Some(last) = position.window.entries.len().checked_sub(1) else {
                    position.reset(match way {
                        Way::Up => Place::Above,
                        Way::Down => Place::Below,
                    });
                    return false;
                };
                position.place = Place::At;
                position.at = if way == Way::Up { 0 } else { last };
            }
        }
        true
    }

    /// Has the window be that which follows the place in the direction.
    ///
    /// # Safety
    ///
    /// As for [`Scan::next`].
    // Kept apart from the code that runs for each row, which is small.
    #[inline(never)]
    unsafe fn next_window(&mut self, index: pg_sys::Relation, table: pg_sys::Relation, way: Way) {
        // SAFETY: the caller's.
        unsafe { self.hint_killed(index) };
        self.rows_ahead.enter_window();
        let last = self.position.entry().cloned();
        let mut window = std::mem::take(self.position.emptied_window());
        if !self.is_over(last.as_ref(), way) {
            // SAFETY: the caller's.
            unsafe {
                self.deletions_of_window = match self.position.place {
                    Place::Unbegun => self.deletions,
                    _ => Index::open(index).deletions(),
                };
                self.window(index, self.position.range, (last, way), &mut window.entries);
                if !table.is_null() {
                    self.visible_to_all(index, table, &mut window);
                }
            }
        }
        *self.position.emptied_window() = window;
    }

    /// Whether it is known that nothing follows an entry in the direction.
    fn is_over(&self, last: Option<&Entry>, way: Way) -> bool {
        match (&self.reader, last) {
            (Some(reader), Some(last)) => self.pending.is_empty() && reader.is_over(way, last),
            _ => false,
        }
    }

    /// Appends the entries of a range that follow an entry, or its end, in the direction,
    /// ascending: a stretch of the index, and what waits between. So many bulk deletions as
    /// `deletions_of_window` had ended before any of them was read.
    ///
    /// # Safety
    ///
    /// The index is open and locked; the search has the range.
    unsafe fn window(
        &mut self,
        index: pg_sys::Relation,
        range: usize,
        (last, way): (Option<Entry>, Way),
        window: &mut Vec<Entry>,
    ) {
        let Some((from, to)) = self.search.ranges.get(range) else {
            return;
        };
        let (mut from, mut to) = match &self.stretch {
            Some(stretch) => stretch.clip(from, to),
            None => (Bound::Included(from), Bound::Included(to)),
        };
        match (&last, way) {
            (Some(entry), Way::Up) => from = Bound::Excluded(entry),
            (Some(entry), Way::Down) => to = Bound::Excluded(entry),
            _ => {}
        }
        // SAFETY: the caller's; the relation stays open until the scan has ended.
        let reader = (self.reader).get_or_insert_with(|| unsafe { Reader::new(Index::open(index)) });
        if self.deletions_of_reader != self.deletions_of_window {
            // The reader may hold entries that it read earlier.
            reader.reset();
            self.deletions_of_reader = self.deletions_of_window;
        }
        reader.window(
            (from, to),
            (way, last.as_ref()),
            self.dead,
            self.window_len,
            window,
        );
        self.window_len = (self.window_len * WINDOW_GROWTH).min(WINDOW_LEN_MAX);
        if self.pending.is_empty() {
            return;
        }
        // Entries that wait beyond the stretch come with the next one, which may begin before it.
        match (way, window.first(), window.last()) {
            (Way::Up, _, Some(last)) => to = Bound::Included(last),
            (Way::Down, Some(first), _) => from = Bound::Included(first),
            _ => {}
        }
        let pending = &self.pending;
        let start = pending.partition_point(|entry| match from {
            Bound::Included(from) => entry < from,
            Bound::Excluded(from) => entry <= from,
            Bound::Unbounded => false,
        });
        let end = pending.partition_point(|entry| match to {
            Bound::Included(to) => entry <= to,
            Bound::Excluded(to) => entry < to,
            Bound::Unbounded => true,
        });
        if start < end {
            window.extend_from_slice(&pending[start..end]);
            merge_sort(window);
            // Entries that waited when the scan began may have been published since.
            window.dedup();
        }
    }
}

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
