//! Memory of leaves: pages of 4 KiB, each for the columns of one leaf, cut from larger pieces.
//!
//! A random read of a leaf costs one page-table walk per page it touches, so a leaf lies on one
//! page. A general allocator cannot pack such pages: its headers would take another page each.
//!
//! Invariants:
//! 1. The memory of a piece is freed with its last `Arc`; each page in use has one.
//! 2. A page is given to one [`LeafPage`], once, after it was initialised. So pages do not overlap.

#![expect(
    unsafe_code,
    reason = "pages are cut from large pieces of memory, which no safe type allows"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::near_sorted::options::LEAF_ENTRIES;
use crate::search::keys::{EntryColumns, NO_KEY};

/// Pages in the first piece.
const FIRST_PAGES: usize = 4;
/// Maximum number of pages in a piece.
const MOST_PAGES: usize = if cfg!(any(test, miri)) { 16 } else { 512 };

/// Keys and values of a leaf.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Page {
    pub(crate) keys: [u64; LEAF_ENTRIES],
    pub(crate) values: [u64; LEAF_ENTRIES],
}

const _: () = assert!(
    size_of::<Page>() == 4096 && size_of::<Page>() == size_of::<[[u64; LEAF_ENTRIES]; 2]>(),
    "a leaf lies on one page"
);

/// Writes a complete column: its entries, then `behind` in all slots after them.
fn write_column(column: &mut [MaybeUninit<u64>; LEAF_ENTRIES], entries: &[u64], behind: u64) {
    let (filled, rest) = column.split_at_mut(entries.len());
    for (place, &entry) in filled.iter_mut().zip(entries) {
        place.write(entry);
    }
    rest.fill(MaybeUninit::new(behind));
}

/// A page with one owner.
#[derive(Debug)]
pub(crate) struct LeafPage {
    page: NonNull<Page>,
    /// Keeps the page alive.
    _piece: Arc<PageMemory>,
}

// SAFETY: the page belongs to this alone (2), and lives as long as its piece (1).
unsafe impl Send for LeafPage {}
// SAFETY: as above; only its exclusive owner changes it.
unsafe impl Sync for LeafPage {}

/// Cuts new pages from pieces.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// The last piece.
    piece: Option<Arc<PageMemory>>,
    /// Pages taken from the last piece.
    taken: usize,
    /// Pages taken in total.
    pages: usize,
}

#[derive(Debug)]
struct PageMemory {
    start: NonNull<Page>,
    layout: Layout,
}

// SAFETY: a piece is plain memory; invariant 2 governs which thread may access which part.
unsafe impl Send for PageMemory {}
// SAFETY: as above.
unsafe impl Sync for PageMemory {}

impl PagePool {
    pub(crate) const fn new() -> Self {
        Self {
            piece: None,
            taken: 0,
            pages: 0,
        }
    }

    /// Returns a page without keys.
    pub(crate) fn take(&mut self) -> LeafPage {
        self.take_filled((&[], &[]))
    }

    /// Returns a page of these entries, at most as many as a leaf has room for, followed by
    /// [`NO_KEY`].
    pub(crate) fn take_filled(&mut self, (keys, values): EntryColumns<'_>) -> LeafPage {
        let room = self.piece.as_ref().map_or(0, |piece| piece.pages());
        let piece = if self.taken < room {
            self.piece.as_ref()
        } else {
            // Each piece is as large as all earlier ones together.
            self.taken = 0;
            self.piece = Some(Arc::new(PageMemory::new(
                self.pages.clamp(FIRST_PAGES, MOST_PAGES),
            )));
            self.piece.as_ref()
        };
        let piece = piece.expect("a piece was made").clone();
        // SAFETY: fewer pages were taken from the piece than it has.
        let page = unsafe { piece.start.add(self.taken) };
        // SAFETY: the memory belongs to the piece (1), and the page was not given out before (2).
        let columns: &mut [[MaybeUninit<u64>; LEAF_ENTRIES]; 2] = unsafe { page.cast().as_mut() };
        let [page_keys, page_values] = columns;
        write_column(page_keys, keys, NO_KEY);
        write_column(page_values, values, 0);
        self.taken += 1;
        self.pages += 1;
        LeafPage { page, _piece: piece }
    }

    /// Returns the bytes of all pieces, if none was freed.
    pub(crate) fn bytes(&self) -> usize {
        let free = self.piece.as_ref().map_or(0, |piece| piece.pages() - self.taken);
        (self.pages + free) * size_of::<Page>()
    }
}

impl PageMemory {
    fn new(pages: usize) -> Self {
        let layout = Layout::array::<Page>(pages).expect("a piece is small");
        // SAFETY: its size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start.cast()) else {
            handle_alloc_error(layout)
        };
        Self { start, layout }
    }

    fn pages(&self) -> usize {
        self.layout.size() / size_of::<Page>()
    }
}

impl Drop for PageMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and no page of it is in use (1).
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) };
    }
}

impl Deref for LeafPage {
    type Target = Page;

    #[inline(always)]
    fn deref(&self) -> &Page {
        // SAFETY: the page is alive (1) and initialised, and is changed only through exclusive
        // access (2).
        unsafe { self.page.as_ref() }
    }
}

impl DerefMut for LeafPage {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Page {
        // SAFETY: the page is alive (1) and initialised, and has no other owner (2).
        unsafe { self.page.as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_do_not_overlap_and_outlive_the_pool() {
        let mut pool = PagePool::new();
        let mut pages = Vec::new();
        for number in 0..3 * MOST_PAGES as u64 {
            let mut page = pool.take();
            assert!(page.keys.iter().all(|&key| key == NO_KEY), "a page without keys");
            page.keys.fill(number);
            page.values.fill(!number);
            pages.push(page);
            assert!(pool.bytes() >= pages.len() * 4096);
        }
        assert_eq!(pool.bytes(), pages.len() * 4096, "the last piece is used up");
        drop(pool);
        // Drops every other page, and with them the pieces without remaining pages.
        let mut number = 0;
        pages.retain(|_| {
            number += 1;
            number % 2 == 0 && number > MOST_PAGES
        });
        for page in &pages {
            let number = page.keys[0];
            assert!(page.keys.iter().all(|&key| key == number), "keys of {number}");
            assert!(
                page.values.iter().all(|&value| value == !number),
                "values of {number}"
            );
        }
    }
}
