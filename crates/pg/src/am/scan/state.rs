//! A scan under way: its ranges, and one window after another.

#![expect(unsafe_code, reason = "scans read an open index")]

use std::ops::Bound;
use std::ptr::NonNull;

use pgrx::pg_sys;

use super::index_only::MAP_PAGES;
use super::parallel::{SharedFence, Stretch};
use super::position::{Place, Position};
use super::rows_ahead::RowsAhead;
use super::search::Search;
use crate::head::{Dead, Sorted};
use crate::index::{Index, Way};
use crate::interrupts::merge_sort;
use crate::key::{Entry, Form, RowValues};
use crate::pending;
use crate::reader::Reader;

/// A scan under way.
pub(super) struct Scan {
    /// The memory context that ends the scan when it is deleted: by `amendscan`, as a statement may
    /// begin many scans in one context, or with the one above it after an error.
    pub(super) memory: pg_sys::MemoryContext,
    /// Whether "forward" is towards lesser entries.
    pub(super) is_backward: bool,
    pub(super) form: Form,
    /// Made by the first window, and kept for further ranges.
    pub(super) reader: Option<Reader>,
    pub(super) search: Search,
    /// The fence, in a parallel scan. Its memory belongs to the query and outlives every request
    /// for an entry.
    pub(super) shared: Option<NonNull<SharedFence>>,
    /// The stretch that this process reads; none in other scans, and before the first one.
    pub(super) stretch: Option<Stretch>,
    /// Entries that wait in this process and those in the head of the index, as of the beginning of
    /// the scan, within the ranges.
    pub(super) pending: Sorted,
    pub(super) position: Position,
    /// A position, and `deletions_of_window` of its window.
    pub(super) marked: Option<(Position, u64)>,
    /// The most entries of the next window: small at first, as many scans end soon.
    pub(super) window_len: usize,
    /// How many bulk deletions had ended when the scan began, and before any entry of its present
    /// window was read.
    pub(super) deletions: u64,
    pub(super) deletions_of_window: u64,
    /// How many had ended before the reader read any of the entries that it has at hand.
    pub(super) deletions_of_reader: u64,
    /// Whether to pass over entries that are known to be of dead rows: not in a transaction that
    /// began on a standby, whose snapshot may be older than those that were asked.
    pub(super) dead: Dead,
    /// Entries of the present window whose rows were found dead to everybody.
    pub(super) killed: Vec<Entry>,
    pub(super) rows_ahead: RowsAhead,
    /// Whether the snapshot is MVCC.
    pub(super) is_mvcc: bool,
    /// Block 0, pinned, under a snapshot that is not.
    pub(super) barrier: pg_sys::Buffer,
    /// Pages of the visibility map that an index-only scan has looked at, pinned.
    pub(super) maps: [pg_sys::Buffer; MAP_PAGES],
    /// The tuple that an index-only scan returned last, whether it has a null, and the slot for
    /// looking rows up; null at first. Tuples are in the scan's memory.
    pub(super) tuple: pg_sys::IndexTuple,
    pub(super) tuple_has_null: bool,
    /// The values of such a tuple of columns.
    pub(super) row: RowValues,
    pub(super) slot: *mut pg_sys::TupleTableSlot,
}

/// Entries that do not match between two looks for a cancelled statement.
const INTERRUPT_ENTRIES: u32 = 1024;
pub(super) const WINDOW_LEN_MIN: usize = 4;
/// The first window of a range that has two ends, which most queries read to its end.
const WINDOW_LEN_BOUNDED: usize = 256;
const WINDOW_GROWTH: usize = 4;
/// As many as the processor's nearer caches hold.
const WINDOW_LEN_MAX: usize = 1024;

impl Scan {
    /// # Safety
    ///
    /// The index is open and locked.
    pub(super) unsafe fn begin(&mut self, index: pg_sys::Relation, search: Search) {
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
    pub(super) unsafe fn hint_killed(&mut self, index: pg_sys::Relation) {
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
    pub(super) unsafe fn next(&mut self, index: pg_sys::Relation, table: pg_sys::Relation, way: Way) -> bool {
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
    pub(super) fn is_over(&self, last: Option<&Entry>, way: Way) -> bool {
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
    pub(super) unsafe fn window(
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
