//! Rows that a scan has the server fetch before they are asked for.
//!
//! The executor reads the row of an entry when it gets the entry. If rows are far apart and not in
//! memory, it waits for the disk at each. So while pages are read that the server's buffers have
//! not, a scan announces the rows of entries that come next in its window: a few more than it has
//! returned, as most scans may end soon, up to [`REACH_MAX`].

#![expect(unsafe_code, reason = "it has PostgreSQL fetch pages of a table")]

use pgrx::pg_sys;

use super::state::Scan;
use crate::index::Way;
use crate::pages::buffer_misses;

/// Rows announced when the first one is returned.
const REACH_MIN: usize = 4;
/// The reach grows by one per so many returned rows that had to wait for a page.
const ROWS_PER_REACH: usize = 4;
/// The most rows between the one that is returned and the last one announced: enough to keep a disk
/// busy.
const REACH_MAX: usize = 32;

/// How far rows are announced.
#[derive(Debug, Default)]
pub(super) struct RowsAhead {
    /// How many pages outside the server's buffers this process had read when the scan began or
    /// last returned an entry.
    misses: i64,
    /// How many rows were returned that were waited for.
    waited: usize,
    /// The place in the window of the last one announced, if one of them is.
    last: Option<usize>,
    /// The block that was announced last.
    block: Option<pg_sys::BlockNumber>,
}

impl RowsAhead {
    /// Another search begins.
    pub(super) fn begin(&mut self) {
        *self = Self {
            misses: buffer_misses(),
            ..Self::default()
        };
    }

    /// The scan has another window.
    pub(super) fn enter_window(&mut self) {
        self.last = None;
    }
}

impl Scan {
    /// Announces rows of entries behind the present one, if pages had to be read since the one
    /// before was returned: its row, or pages of the index.
    ///
    /// # Safety
    ///
    /// The table is open and locked.
    #[inline]
    pub(super) unsafe fn fetch_rows_ahead(&mut self, table: pg_sys::Relation, way: Way) {
        let misses = buffer_misses();
        if misses != self.rows_ahead.misses {
            self.rows_ahead.misses = misses;
            // SAFETY: the caller's.
            unsafe { self.announce_rows(table, way) };
        }
    }

    /// # Safety
    ///
    /// As for [`Scan::fetch_rows_ahead`].
    #[cold]
    unsafe fn announce_rows(&mut self, table: pg_sys::Relation, way: Way) {
        // SAFETY: the table is open.
        let is_allowed = unsafe {
            let tablespace = (*(*table).rd_rel).reltablespace;
            pg_sys::get_tablespace_io_concurrency(tablespace) > 0
        };
        if !is_allowed {
            return;
        }
        let ahead = &mut self.rows_ahead;
        let (window, at) = (&*self.position.window, self.position.at);
        let last = ahead.last.unwrap_or(at);
        let (left, announced) = match way {
            Way::Up => (window.entries.len() - 1 - at, last.saturating_sub(at)),
            Way::Down => (at, at.saturating_sub(last)),
        };
        let place = |step: usize| if way == Way::Up { at + step } else { at - step };
        let reach = (REACH_MIN + ahead.waited / ROWS_PER_REACH).min(REACH_MAX);
        ahead.waited += 1;
        for step in announced + 1..=reach.min(left) {
            ahead.last = Some(place(step));
            // An index-only scan looks at no others.
            if window.is_visible.get(place(step)) == Some(&true) {
                continue;
            }
            let block = window.entries[place(step)].block();
            // Blocks that follow one another upwards the system fetches by itself.
            let is_near = ahead.block.is_some_and(|last| block == last || block == last + 1);
            ahead.block = Some(block);
            if !is_near {
                // SAFETY: the table is open, and has the block as long as it is locked: an entry's
                // row lies there.
                unsafe { pg_sys::PrefetchBuffer(table, pg_sys::ForkNumber::MAIN_FORKNUM, block) };
                #[cfg(feature = "harness")]
                crate::hooks::note_row_page();
            }
        }
    }
}
