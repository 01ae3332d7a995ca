//! Scans: in order and both ways, and into a bitmap.
//!
//! A scan copies some entries at a time, its *window*, and holds no latch and no pin between two calls.
//! Its reader goes on where the window before ended. Where that is not where the scan is, as it has turned round, was
//! restored to a mark or a bulk deletion has ended, it descends again: a place is one in the order and not on a page.
//!
//! That a row's address may become another row's while a scan has it is no matter under an MVCC snapshot, which does
//! not see the other row. Other snapshots do not come: there are no exclusion constraints, and the catalogues use
//! B-trees.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::c_int;
use std::ops::Bound;
use std::rc::Rc;

use pgrx::{PgMemoryContexts, PgSqlErrorCode, pg_guard, pg_sys};

use super::build::is_ordered_backwards;
use crate::error::fail;
use crate::index::{Dead, Index, Way};
use crate::key::{Entry, Kind};
use crate::pending;
use crate::reader::Reader;

/// A scan under way.
struct Scan {
    /// Whether "forward" is towards lesser entries.
    is_backward: bool,
    kind: Kind,
    /// Made by the first window, and kept for further ranges.
    reader: Option<Reader>,
    /// The first and last entry there may be; `None` if there is none.
    range: Option<(Entry, Entry)>,
    /// What waits in this process and what the head of the index has, as it was when the scan began, within the range.
    pending: Vec<Entry>,
    position: Position,
    marked: Option<Position>,
    /// The most entries of the next window: small at first, as many scans end soon.
    window_len: usize,
    /// How many bulk deletions had ended when the scan began, and before any entry of its present window was read.
    deletions: u64,
    deletions_of_window: u64,
    /// How many had ended before the reader read any of the entries that it has at hand.
    deletions_of_reader: u64,
    /// Whether to pass over entries that are known to be of dead rows: not in a transaction that began on a standby, whose
    /// snapshot may be older than those that were asked.
    dead: Dead,
    /// Entries of the present window whose rows were found dead to everybody.
    killed: Vec<Entry>,
    /// The page of the visibility map that an index-only scan looked at last, pinned.
    map: pg_sys::Buffer,
    /// The tuple that an index-only scan returned last, whether it has a null, and the slot for looking rows up; null at first.
    tuple: pg_sys::IndexTuple,
    tuple_has_null: bool,
    slot: *mut pg_sys::TupleTableSlot,
}

const WINDOW_LEN_MIN: usize = 4;
const WINDOW_GROWTH: usize = 4;
const WINDOW_LEN_MAX: usize = 8192;

/// Where a scan is. Cheap to copy, for marks.
#[derive(Clone)]
struct Position {
    place: Place,
    /// Entries that follow one another in the index.
    window: Rc<Vec<Entry>>,
    /// The place in the window, while it is there.
    at: usize,
    /// Of an index-only scan: whether the row of each entry of the window is visible to all.
    is_visible: Rc<Vec<bool>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At either end: the direction will tell.
    Unbegun,
    Below,
    At(Entry),
    Above,
}

impl Position {
    fn new(place: Place) -> Self {
        Self {
            place,
            window: Rc::default(),
            at: 0,
            is_visible: Rc::default(),
        }
    }

    /// Goes to a place without a window. Keeps the memory of the present one unless a mark has it too.
    fn reset(&mut self, place: Place) {
        self.place = place;
        self.at = 0;
        emptied(&mut self.window);
        emptied(&mut self.is_visible);
    }
}

/// A list that belongs to nobody else, empty.
fn emptied<T>(list: &mut Rc<Vec<T>>) -> &mut Vec<T> {
    if Rc::get_mut(list).is_none() {
        *list = Rc::default();
    }
    let list = Rc::get_mut(list).expect("it is nobody else's");
    list.clear();
    list
}

impl Scan {
    /// # Safety
    ///
    /// The index is open and locked.
    unsafe fn begin(&mut self, index: pg_sys::Relation, range: Option<(Entry, Entry)>) {
        // SAFETY: the caller's.
        unsafe { self.hint_killed(index) };
        self.range = range;
        if let Some(reader) = &mut self.reader {
            reader.reset();
        }
        let mut recent = Vec::new();
        if let Some((from, to)) = range {
            recent = pending::between(index, from, to);
            // SAFETY: the caller's.
            let index = unsafe { Index::open(index) };
            let (in_head, deletions) = index.head_between(from, to, self.dead);
            self.deletions = deletions;
            if !in_head.is_empty() {
                recent.extend(in_head);
                recent.sort();
                recent.dedup();
            }
        }
        self.pending = recent;
        self.position.reset(Place::Unbegun);
        self.marked = None;
        self.window_len = WINDOW_LEN_MIN;
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
        index.hint_dead(&in_head, &in_tree, self.deletions_of_window);
    }

    /// The next entry in the direction; `None` behind the last. `table` is null but for index-only scans.
    ///
    /// # Safety
    ///
    /// The index and the table are open and locked.
    unsafe fn next(&mut self, index: pg_sys::Relation, table: pg_sys::Relation, way: Way) -> Option<Entry> {
        let range = self.range?;
        let position = &mut self.position;
        let entry = match (position.place, way) {
            (Place::Above, Way::Up) | (Place::Below, Way::Down) => return None,
            (Place::At(_), Way::Up) if position.at + 1 < position.window.len() => {
                position.at += 1;
                position.window[position.at]
            }
            (Place::At(_), Way::Down) if position.at > 0 => {
                position.at -= 1;
                position.window[position.at]
            }
            (place, way) => {
                // SAFETY: the caller's.
                unsafe { self.next_window(index, table, range, place, way) };
                let position = &mut self.position;
                position.at = match way {
                    Way::Up => 0,
                    Way::Down => position.window.len().saturating_sub(1),
                };
                let Some(&entry) = position.window.get(position.at) else {
                    position.reset(match way {
                        Way::Up => Place::Above,
                        Way::Down => Place::Below,
                    });
                    return None;
                };
                entry
            }
        };
        self.position.place = Place::At(entry);
        Some(entry)
    }

    /// Has the window be that which follows the place in the direction.
    ///
    /// # Safety
    ///
    /// As for [`Scan::next`].
    unsafe fn next_window(
        &mut self,
        index: pg_sys::Relation,
        table: pg_sys::Relation,
        range: (Entry, Entry),
        place: Place,
        way: Way,
    ) {
        // SAFETY: the caller's.
        unsafe { self.hint_killed(index) };
        let mut window = std::mem::take(emptied(&mut self.position.window));
        let mut is_visible = std::mem::take(emptied(&mut self.position.is_visible));
        if !self.is_over(place, way) {
            // SAFETY: the caller's.
            unsafe {
                self.deletions_of_window = match place {
                    Place::Unbegun => self.deletions,
                    _ => Index::open(index).deletions(),
                };
                self.window(index, range, (place, way), &mut window);
                if !table.is_null() {
                    self.visible_to_all(index, table, &window, &mut is_visible);
                }
            }
        }
        *emptied(&mut self.position.window) = window;
        *emptied(&mut self.position.is_visible) = is_visible;
    }

    /// Whether it is known that nothing follows a place in the direction.
    fn is_over(&self, place: Place, way: Way) -> bool {
        match (&self.reader, place) {
            (Some(reader), Place::At(last)) => self.pending.is_empty() && reader.is_over(way, last),
            _ => false,
        }
    }

    /// Appends the entries that follow the place in the direction, ascending: a stretch of the index, and what waits
    /// between. So many bulk deletions as `deletions_of_window` had ended before any of them was read.
    ///
    /// # Safety
    ///
    /// The index is open and locked.
    unsafe fn window(
        &mut self,
        index: pg_sys::Relation,
        range: (Entry, Entry),
        (place, way): (Place, Way),
        window: &mut Vec<Entry>,
    ) {
        let (mut from, mut to) = (Bound::Included(range.0), Bound::Included(range.1));
        let mut last = None;
        match (place, way) {
            (Place::At(entry), Way::Up) => (from, last) = (Bound::Excluded(entry), Some(entry)),
            (Place::At(entry), Way::Down) => (to, last) = (Bound::Excluded(entry), Some(entry)),
            _ => {}
        }
        // SAFETY: the caller's; the relation stays open until the scan has ended.
        let reader = (self.reader).get_or_insert_with(|| unsafe { Reader::new(Index::open(index)) });
        if self.deletions_of_reader != self.deletions_of_window {
            // It may have entries at hand that it has read before.
            reader.reset();
            self.deletions_of_reader = self.deletions_of_window;
        }
        reader.window((from, to), (way, last), self.dead, self.window_len, window);
        self.window_len = (self.window_len * WINDOW_GROWTH).min(WINDOW_LEN_MAX);
        if self.pending.is_empty() {
            return;
        }
        // What waits beyond the stretch comes with the next one, which may begin before it.
        match (way, window.first(), window.last()) {
            (Way::Up, _, Some(&last)) => to = Bound::Included(last),
            (Way::Down, Some(&first), _) => from = Bound::Included(first),
            _ => {}
        }
        let start = self.pending.partition_point(|&entry| match from {
            Bound::Included(from) => entry < from,
            Bound::Excluded(from) => entry <= from,
            Bound::Unbounded => false,
        });
        let end = self.pending.partition_point(|&entry| match to {
            Bound::Included(to) => entry <= to,
            Bound::Excluded(to) => entry < to,
            Bound::Unbounded => true,
        });
        if start < end {
            window.extend_from_slice(&self.pending[start..end]);
            window.sort();
            // What waited when the scan began may have been published since.
            window.dedup();
        }
    }
}

/// The range of a scan's keys; `None` if nothing can match.
///
/// # Safety
///
/// The index is open. The keys are on its column, by the operators of its family.
unsafe fn range_of(
    index: pg_sys::Relation,
    keys: &[pg_sys::ScanKeyData],
    kind: Kind,
) -> Option<(Entry, Entry)> {
    let (mut from, mut to) = (Entry::FIRST, Entry::LAST);
    for key in keys {
        let flags = key.sk_flags.cast_unsigned();
        if flags & pg_sys::SK_SEARCHNULL != 0 {
            from = from.max(Entry::FIRST_NULL);
            continue;
        }
        // Whatever else is asked is not true of a null.
        to = to.min(Entry::LAST_VALUE);
        if flags & pg_sys::SK_SEARCHNOTNULL != 0 {
            continue;
        }
        if flags & pg_sys::SK_ISNULL != 0 {
            return None;
        }
        // SAFETY: the caller's.
        let value = unsafe { kind.argument_of(index, key) };
        let (least, greatest) = match u32::from(key.sk_strategy) {
            // Of equal entries some may be of lesser or greater values.
            pg_sys::BTLessStrategyNumber if kind.is_lossy() => (i64::MIN, value),
            pg_sys::BTGreaterStrategyNumber if kind.is_lossy() => (value, i64::MAX),
            pg_sys::BTLessStrategyNumber => (i64::MIN, value.checked_sub(1)?),
            pg_sys::BTLessEqualStrategyNumber => (i64::MIN, value),
            pg_sys::BTEqualStrategyNumber => (value, value),
            pg_sys::BTGreaterEqualStrategyNumber => (value, i64::MAX),
            pg_sys::BTGreaterStrategyNumber => (value.checked_add(1)?, i64::MAX),
            strategy => fail(
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                format!("access method \"bedload\" has no strategy {strategy}"),
                None,
            ),
        };
        from = from.max(Entry::first_of(least));
        to = to.min(Entry::last_of(greatest));
    }
    (from <= to).then_some((from, to))
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ambeginscan(
    index: pg_sys::Relation,
    keys: c_int,
    order_bys: c_int,
) -> pg_sys::IndexScanDesc {
    // SAFETY: PostgreSQL has the index open and locked. The scan is dropped with the memory that it is allocated in,
    // so also when an error ends it.
    unsafe {
        if pg_sys::old_snapshot_threshold >= 0 {
            let message = "access method \"bedload\" does not support old_snapshot_threshold".to_owned();
            fail(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message, None);
        }
        let descriptor = pg_sys::RelationGetIndexScan(index, keys, order_bys);
        let scan = Scan {
            is_backward: is_ordered_backwards(*(*index).rd_indoption),
            kind: Kind::of_index(index).unwrap_or(Kind::Signed(8)),
            reader: None,
            range: None,
            pending: Vec::new(),
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
            map: pg_sys::InvalidBuffer.cast_signed(),
            tuple: std::ptr::null_mut(),
            tuple_has_null: false,
            slot: std::ptr::null_mut(),
        };
        (*descriptor).xs_itupdesc = (*index).rd_att;
        (*descriptor).opaque = PgMemoryContexts::CurrentMemoryContext
            .leak_and_drop_on_delete(scan)
            .cast();
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
    // SAFETY: PostgreSQL passes a scan that `ambeginscan` has begun, with room for its keys, and new keys or null.
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
        let snapshot = (*descriptor).xs_snapshot;
        if !snapshot.is_null() && (*snapshot).snapshot_type != pg_sys::SnapshotType::SNAPSHOT_MVCC {
            pending::flush(index);
        }
        let range = range_of(index, keys, scan.kind);
        scan.begin(index, range);
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
        (*descriptor).xs_recheck = scan.kind.is_lossy();
        if (*descriptor).kill_prior_tuple
            && let Place::At(entry) = scan.position.place
        {
            scan.killed.push(entry);
        }
        let is_index_only = (*descriptor).xs_want_itup;
        let table = if is_index_only {
            (*descriptor).heapRelation
        } else {
            std::ptr::null_mut()
        };
        while let Some(entry) = scan.next(index, table, way) {
            (*descriptor).xs_heaptid = entry.address();
            if !is_index_only {
                return true;
            }
            let is_visible = scan.position.is_visible.get(scan.position.at) == Some(&true);
            if is_visible || scan.sees_row(descriptor) {
                scan.form_tuple(descriptor, entry);
                return true;
            }
            if (*descriptor).kill_prior_tuple {
                scan.killed.push(entry);
            }
        }
        false
    }
}

impl Scan {
    /// Appends which entries of a window have rows that are visible to all; nothing if that is not known.
    ///
    /// An index-only scan asks the visibility map whether the rows of a page are visible to all, and then does not look
    /// at the row. This scan holds no pin that `VACUUM` would wait for, so by then `VACUUM` may have removed a dead row
    /// and set the bit. So the map is asked here, and its answer holds if no bulk deletion has ended since before the
    /// entries were read (`deletions_of_window`): `VACUUM` frees a dead row's address, and can set the bit of its page, only after a
    /// bulk deletion that has removed the entry has ended. A row that was visible to all then is not removed while the
    /// scan's snapshot lives.
    ///
    /// On a standby the map is not asked.
    ///
    /// # Safety
    ///
    /// The index and the table are open and locked.
    unsafe fn visible_to_all(
        &mut self,
        index: pg_sys::Relation,
        table: pg_sys::Relation,
        window: &[Entry],
        is_visible: &mut Vec<bool>,
    ) {
        let deletions = self.deletions_of_window;
        // SAFETY: asks shared memory.
        let is_standby = unsafe { pg_sys::RecoveryInProgress() };
        // Entries of the head were read when the scan began.
        if is_standby || (!self.pending.is_empty() && self.deletions != deletions) {
            return;
        }
        let mut last = None;
        is_visible.extend(window.iter().map(|entry| {
            let block = entry.block();
            if let Some((same, is_visible)) = last
                && same == block
            {
                return is_visible;
            }
            // SAFETY: the table is open; the pin on the map's page is given up by `amendscan`.
            let bits = unsafe { pg_sys::visibilitymap_get_status(table, block, &raw mut self.map) };
            let is_visible = u32::from(bits) & pg_sys::VISIBILITYMAP_ALL_VISIBLE != 0;
            last = Some((block, is_visible));
            is_visible
        }));
        // SAFETY: the index is open.
        if unsafe { Index::open(index) }.deletions() != deletions {
            is_visible.clear();
        }
    }

    /// Whether the scan's snapshot sees the row that its descriptor is at.
    ///
    /// # Safety
    ///
    /// The descriptor is that of the scan, which is under way.
    unsafe fn sees_row(&mut self, descriptor: pg_sys::IndexScanDesc) -> bool {
        // SAFETY: the caller's; the slot is dropped by `amendscan`.
        unsafe {
            if self.slot.is_null() {
                self.slot = pg_sys::table_slot_create((*descriptor).heapRelation, std::ptr::null_mut());
            }
            let is_seen = pg_sys::index_fetch_heap(descriptor, self.slot);
            (*descriptor).xs_heap_continue = false;
            is_seen
        }
    }

    /// Puts the entry into the descriptor as a tuple of the index.
    ///
    /// # Safety
    ///
    /// As for [`Scan::sees_row`].
    unsafe fn form_tuple(&mut self, descriptor: pg_sys::IndexScanDesc, entry: Entry) {
        let value = entry.value();
        // Of kinds that cannot be returned no column is asked for.
        let is_returnable = self.kind.is_returnable();
        let mut datum = self.kind.datum_of(value.unwrap_or(0));
        let mut is_null = value.is_none() || !is_returnable;
        // SAFETY: the caller's; the index has one column, whose values are passed by value if they are returned. A tuple
        // without a null has the bytes of such a value behind its header, which ends aligned to them.
        unsafe {
            if !self.tuple.is_null() && !is_null && !self.tuple_has_null {
                let value = self.tuple.cast::<u8>().add(size_of::<pg_sys::IndexTupleData>());
                let bytes = datum.value().to_ne_bytes();
                let len = self.kind.width();
                let low = if cfg!(target_endian = "big") {
                    &bytes[bytes.len() - len..]
                } else {
                    &bytes[..len]
                };
                value.copy_from_nonoverlapping(low.as_ptr(), len);
                return;
            }
            if !self.tuple.is_null() {
                pg_sys::pfree(self.tuple.cast());
            }
            let columns = (*descriptor).xs_itupdesc;
            self.tuple = pg_sys::index_form_tuple(columns, &raw mut datum, &raw mut is_null);
            self.tuple_has_null = is_null;
            (*descriptor).xs_itup = self.tuple;
        }
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
        let Some(range) = scan.range else { return 0 };
        let mut place = Place::Unbegun;
        let mut window = Vec::new();
        loop {
            window.clear();
            if !scan.is_over(place, Way::Up) {
                scan.window(index, range, (place, Way::Up), &mut window);
            }
            let Some(&last) = window.last() else { return count };
            place = Place::At(last);
            addresses.clear();
            addresses.extend(window.iter().map(|entry| entry.address()));
            let len = c_int::try_from(addresses.len()).expect("a window is a few pages");
            pg_sys::tbm_add_tuples(bitmap, addresses.as_mut_ptr(), len, scan.kind.is_lossy());
            count += i64::from(len);
            pgrx::check_for_interrupts!();
        }
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amendscan(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan under way. What it holds goes now; the rest with its memory.
    let (scan, index) = unsafe { parts(descriptor) };
    // SAFETY: the index is open and locked.
    unsafe { scan.hint_killed(index) };
    scan.reader = None;
    scan.pending = Vec::new();
    scan.position = Position::new(Place::Unbegun);
    scan.marked = None;
    if !scan.slot.is_null() {
        // SAFETY: made by the scan, and dropped once.
        unsafe { pg_sys::ExecDropSingleTupleTableSlot(scan.slot) };
        scan.slot = std::ptr::null_mut();
    }
    if scan.map != pg_sys::InvalidBuffer.cast_signed() {
        // SAFETY: pinned by the scan, and given up once.
        unsafe { pg_sys::ReleaseBuffer(scan.map) };
        scan.map = pg_sys::InvalidBuffer.cast_signed();
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn ammarkpos(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan under way.
    let (scan, _) = unsafe { parts(descriptor) };
    scan.marked = Some(scan.position.clone());
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amrestrpos(descriptor: pg_sys::IndexScanDesc) {
    // SAFETY: PostgreSQL passes a scan under way.
    let (scan, _) = unsafe { parts(descriptor) };
    if let Some(marked) = &scan.marked {
        scan.position = marked.clone();
    }
}
