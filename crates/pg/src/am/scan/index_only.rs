//! Index-only scans: which rows are visible to all, and tuples of what entries say.

#![expect(unsafe_code, reason = "tuples and the visibility map are PostgreSQL's")]

use pgrx::pg_sys;

use super::position::Window;
use super::state::Scan;
use crate::compat;
use crate::index::Index;
use crate::key::{Form, Kind};

/// Bytes of a page of the visibility map before its bits.
const MAP_HEADER_LEN: u32 = 24;
const _: () = assert!(size_of::<pg_sys::PageHeaderData>() == MAP_HEADER_LEN as usize);
/// Each block of the table has two bits, of which the lower says that its rows are visible to all.
const BLOCKS_PER_BYTE: u32 = 4;
const BLOCKS_PER_PAGE: u32 = (pg_sys::BLCKSZ - MAP_HEADER_LEN) * BLOCKS_PER_BYTE;

/// Pages of the map that a scan keeps pinned, each of which is about 255 MiB of the table: rows of
/// neighbouring entries may be anywhere.
pub(super) const MAP_PAGES: usize = 8;

/// Where the visibility map says whether all rows of a block are visible to all: its page, a byte
/// of it, and the bit (`visibilitymap.c`). The server's own function looks it up anew for each row.
fn place_in_map(block: u32) -> (u32, usize, u8) {
    let in_page = block % BLOCKS_PER_PAGE;
    (
        block / BLOCKS_PER_PAGE,
        (MAP_HEADER_LEN + in_page / BLOCKS_PER_BYTE) as usize,
        1 << (2 * (in_page % BLOCKS_PER_BYTE)),
    )
}

impl Scan {
    /// Notes which entries of a window have rows that are visible to all; nothing if that is not
    /// known.
    ///
    /// An index-only scan asks the visibility map whether the rows of a page are visible to all,
    /// and then does not look at the row. This scan holds no pin that `VACUUM` would wait for, so
    /// by then `VACUUM` may have removed a dead row and set the bit. So the map is asked here, and
    /// its answer holds if no bulk deletion has ended since before the entries were read
    /// (`deletions_of_window`): `VACUUM` frees a dead row's address, and can set the bit of its
    /// page, only after a bulk deletion that has removed the entry has ended. A row that was
    /// visible to all then is not removed while the scan's snapshot lives.
    ///
    /// On a standby the map is not asked.
    ///
    /// # Safety
    ///
    /// The index and the table are open and locked.
    pub(super) unsafe fn visible_to_all(
        &mut self,
        index: pg_sys::Relation,
        table: pg_sys::Relation,
        window: &mut Window,
    ) {
        let deletions = self.deletions_of_window;
        // SAFETY: asks shared memory.
        let is_standby = unsafe { pg_sys::RecoveryInProgress() };
        // Entries of the head were read when the scan began.
        if is_standby || (!self.pending.is_empty() && self.deletions != deletions) {
            return;
        }
        #[cfg(feature = "harness")]
        crate::hooks::pause(crate::hooks::Pause::Visibility);
        let Window { entries, is_visible } = window;
        is_visible.reserve(entries.len());
        let mut known = [None; MAP_PAGES];
        let mut last = None;
        for entry in entries {
            let (page, byte, bit) = place_in_map(entry.block());
            let map = match last {
                Some((last_page, map)) if last_page == page => map,
                // SAFETY: the table is open.
                _ => unsafe { self.map_page(table, entry.block(), &mut known) },
            };
            last = Some((page, map));
            // A map that has no such page says of none of its rows that they are visible.
            // SAFETY: the page stays pinned until its slot is wanted for another one, which is then
            // the last one.
            is_visible.push(unsafe { !map.is_null() && map.add(byte).read_volatile() & bit != 0 });
        }
        // SAFETY: the index is open.
        if unsafe { Index::open(index) }.deletions() != deletions {
            is_visible.clear();
        }
    }

    /// The page of the map that has a block of the table, pinned until `amendscan` or until its
    /// slot is wanted for another page; null if the map has no such page. `known` are the pages in
    /// slots that were asked for already.
    ///
    /// # Safety
    ///
    /// The table is open.
    unsafe fn map_page(
        &mut self,
        table: pg_sys::Relation,
        block: u32,
        known: &mut [Option<(u32, *mut u8)>; MAP_PAGES],
    ) -> *mut u8 {
        let (page, ..) = place_in_map(block);
        let slot = page as usize % MAP_PAGES;
        if let Some((known_page, map)) = known[slot]
            && known_page == page
        {
            return map;
        }
        let buffer = &mut self.maps[slot];
        // SAFETY: the caller's.
        let map = unsafe {
            pg_sys::visibilitymap_get_status(table, block, &raw mut *buffer);
            if *buffer == pg_sys::InvalidBuffer.cast_signed() {
                std::ptr::null_mut()
            } else {
                pg_sys::BufferGetPage(*buffer).cast()
            }
        };
        known[slot] = Some((page, map));
        map
    }

    /// Whether the scan's snapshot sees the row that its descriptor is at.
    ///
    /// # Safety
    ///
    /// The descriptor is that of the scan, which is under way.
    pub(super) unsafe fn sees_row(&mut self, descriptor: pg_sys::IndexScanDesc) -> bool {
        // SAFETY: the caller's; the slot is dropped by `amendscan`.
        unsafe {
            if self.slot.is_null() {
                self.slot = pg_sys::table_slot_create((*descriptor).heapRelation, std::ptr::null_mut());
            }
            let address = (*descriptor).xs_heaptid;
            let is_seen = pg_sys::index_fetch_heap(descriptor, self.slot);
            (*descriptor).xs_heap_continue = false;
            if is_seen {
                // The executor fetches it again, which counts.
                compat::uncount_fetched_row((*descriptor).indexRelation);
            }
            // The fetch may have set it to the address of a newer version on the same page, which
            // the executor, when it fetches the row again, would take for dead.
            (*descriptor).xs_heaptid = address;
            is_seen
        }
    }

    /// Puts the entry that the scan is at into the descriptor as a tuple of the index.
    ///
    /// # Safety
    ///
    /// As for [`Scan::sees_row`].
    pub(super) unsafe fn form_tuple(&mut self, descriptor: pg_sys::IndexScanDesc) {
        let Some(entry) = self.position.entry() else {
            return;
        };
        // A tuple without a null has the bytes of such a value behind its header, which ends
        // aligned to them.
        if let Form::Integers(kind) = self.form
            && !self.tuple.is_null()
            && !self.tuple_has_null
            && let Some(value) = entry.integer()
            && kind.is_returnable()
        {
            let value = kind.datum_of(value).value();
            // SAFETY: the caller's; the tuple has one value, of this kind.
            unsafe {
                let place = self.tuple.cast::<u8>().add(size_of::<pg_sys::IndexTupleData>());
                let (bytes, width) = (value.to_ne_bytes(), kind.width());
                if width == bytes.len() {
                    place.cast::<[u8; size_of::<usize>()]>().write_unaligned(bytes);
                    return;
                }
                let low = if cfg!(target_endian = "big") {
                    &bytes[bytes.len() - width..]
                } else {
                    &bytes[..width]
                };
                place.copy_from_nonoverlapping(low.as_ptr(), width);
            }
            return;
        }
        let Form::Integers(kind) = self.form else {
            self.form.values_of(entry, &mut self.row);
            // SAFETY: the caller's.
            return unsafe { self.form_tuple_of_columns(descriptor) };
        };
        let value = entry.integer();
        // SAFETY: the caller's.
        unsafe { self.form_another_tuple(descriptor, kind, value) };
    }

    /// As [`Scan::form_tuple`], where the tuple before cannot be used again.
    ///
    /// # Safety
    ///
    /// As for [`Scan::sees_row`].
    #[inline(never)]
    unsafe fn form_another_tuple(
        &mut self,
        descriptor: pg_sys::IndexScanDesc,
        kind: Kind,
        value: Option<i64>,
    ) {
        // No column is asked for whose kind cannot be returned.
        let mut is_null = value.is_none() || !kind.is_returnable();
        let mut datum = kind.datum_of(value.unwrap_or(0));
        // SAFETY: the caller's; the index has one column, whose values are passed by value if they
        // are returned.
        unsafe {
            if !self.tuple.is_null() {
                pg_sys::pfree(self.tuple.cast());
            }
            let columns = (*descriptor).xs_itupdesc;
            let before = pg_sys::MemoryContextSwitchTo(self.memory);
            self.tuple = pg_sys::index_form_tuple(columns, &raw mut datum, &raw mut is_null);
            pg_sys::MemoryContextSwitchTo(before);
            self.tuple_has_null = is_null;
            (*descriptor).xs_itup = self.tuple;
        }
    }

    /// Puts the values of the row into the descriptor as a tuple of the index.
    ///
    /// # Safety
    ///
    /// As for [`Scan::sees_row`]; the row has the values of an entry of the index.
    unsafe fn form_tuple_of_columns(&mut self, descriptor: pg_sys::IndexScanDesc) {
        // SAFETY: the caller's; there are as many values as the index has columns, of their types.
        // The tuple stays until the next one is asked for.
        unsafe {
            if !self.tuple.is_null() {
                pg_sys::pfree(self.tuple.cast());
            }
            let columns = (*descriptor).xs_itupdesc;
            let (values, nulls) = (self.row.values.as_mut_ptr(), self.row.nulls.as_mut_ptr());
            let before = pg_sys::MemoryContextSwitchTo(self.memory);
            self.tuple = pg_sys::index_form_tuple(columns, values, nulls);
            pg_sys::MemoryContextSwitchTo(before);
            (*descriptor).xs_itup = self.tuple;
        }
    }
}
