//! Memory for many things of one kind at once, on huge pages: small pages take longer to be made than to be filled, and
//! whoever reads at random waits for their addresses.

#![expect(unsafe_code, reason = "allocates memory, aligned for huge pages")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The size, and the alignment, of a huge page: that of the larger pieces.
const PIECE_BYTES: usize = if cfg!(any(test, miri, loom)) {
    1 << 13
} else {
    2 << 20
};

/// Room for things, which its owner writes, uses and drops; it goes with the piece.
#[derive(Debug)]
pub(crate) struct Piece<T> {
    start: NonNull<T>,
    room: usize,
    layout: Layout,
}

// SAFETY: a piece is memory without an owner but itself.
unsafe impl<T: Send> Send for Piece<T> {}

// SAFETY: a shared piece gives addresses alone.
unsafe impl<T: Sync> Sync for Piece<T> {}

impl<T> Piece<T> {
    /// Room for so many, or for as many as a huge page holds. With `makes_anew` the memory comes from the system: small
    /// pages that the allocator had in use stay small, but to fault takes long.
    pub(crate) fn new(wanted: usize, makes_anew: bool) -> Self {
        let size = size_of::<T>();
        let room = wanted.min(PIECE_BYTES / size).max(1);
        let is_huge = room * size > PIECE_BYTES / 2;
        let (bytes, align) = if is_huge {
            ((room * size).max(PIECE_BYTES), PIECE_BYTES)
        } else {
            (room * size, align_of::<T>())
        };
        let layout = Layout::from_size_align(bytes, align).expect("a piece is small");
        // SAFETY: its size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start.cast()) else {
            handle_alloc_error(layout)
        };
        if is_huge {
            advise_huge_page(start.cast(), bytes, makes_anew);
        }
        Self { start, room, layout }
    }

    /// How many there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Bytes set aside.
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Where one of them stands.
    pub(crate) fn place(&self, number: usize) -> NonNull<T> {
        assert!(number < self.room, "a place outside of the piece");
        // SAFETY: it lies within the piece.
        unsafe { self.start.add(number) }
    }
}

impl<T> Drop for Piece<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) };
    }
}

/// Asks the system for huge pages, of which one fault brings as much as 512 others. To make the memory anew, the pages
/// that the allocator had in use are given back first.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_page(start: NonNull<u8>, bytes: usize, makes_anew: bool) {
    if makes_anew {
        // SAFETY: the memory is ours, and nothing has been written to it. A refusal leaves it as it is.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
    }
    // SAFETY: advice changes nothing that is in the memory.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
const fn advise_huge_page(_start: NonNull<u8>, _bytes: usize, _makes_anew: bool) {}
