#![expect(
    unsafe_code,
    reason = "memory for pages is cut from slabs, which no safe type allows to be given back piece by piece"
)]

//! Memory of cached pages: pieces of one length, cut from slabs that are asked for as huge pages.
//!
//! A random read of a page costs a page-table walk for each 4 KiB of it, and a long copy stalls at
//! each; huge pages avoid both (measured on one machine: blocks copied one after another at 13
//! GB/s, and at 20).
//!
//! Invariants:
//! 1. The memory of a slab is initialised, is [`SLAB_BYTES`] long, and is freed with its last
//!    `Arc`. Each piece has one.
//! 2. The number of a piece is either free, in [`Class::free`], or belongs to exactly one
//!    [`Piece`]; all are less than `SLAB_BYTES / piece_bytes`. So pieces do not overlap.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The size of a huge page on today's processors.
const SLAB_BYTES: usize = 2 << 20;
/// The fewest pieces of a slab: longer ones would waste too much of it.
const PIECES_MIN: usize = 16;

/// The memory of pages. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct PageMemory(Arc<Mutex<HashMap<usize, Class>>>);

/// All slabs of pieces of one length.
#[derive(Debug, Default)]
struct Class {
    free: Vec<(Arc<Slab>, usize)>,
    /// How many pieces are out, by the address of their slab.
    used: HashMap<usize, usize>,
}

/// Memory at an address that is a multiple of its length.
#[derive(Debug)]
struct Slab(NonNull<u8>);

// SAFETY: a slab is only memory; invariant 2 says who may read and write which part of it.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// A part of a slab, owned exclusively.
#[derive(Debug)]
pub(super) struct Piece {
    /// Where it begins in its slab, so that a reader need not look that up.
    begin: NonNull<u8>,
    piece_bytes: usize,
    number: usize,
    slab: Arc<Slab>,
    home: Weak<Mutex<HashMap<usize, Class>>>,
}

impl Slab {
    const LAYOUT: Layout = match Layout::from_size_align(SLAB_BYTES, SLAB_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

    fn new() -> Self {
        // SAFETY: the layout has a length.
        let memory = unsafe { alloc(Self::LAYOUT) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(Self::LAYOUT)
        };
        // Before it is touched; where the system does not know the advice, nothing is lost.
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the advice changes no content, and the memory is ours.
        unsafe {
            libc::madvise(memory.as_ptr().cast(), SLAB_BYTES, libc::MADV_HUGEPAGE);
        }
        // SAFETY: the memory was just allocated with this length.
        unsafe { memory.write_bytes(0, SLAB_BYTES) };
        Self(memory)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and no piece is left (invariant 1).
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}

impl PageMemory {
    /// A piece of this many bytes, with arbitrary contents; none if they are too many.
    pub(super) fn take(&self, bytes: usize) -> Option<Piece> {
        if bytes == 0 || SLAB_BYTES / bytes < PIECES_MIN {
            return None;
        }
        let mut classes = self.0.lock();
        let class = classes.entry(bytes).or_default();
        if class.free.is_empty() {
            let slab = Arc::new(Slab::new());
            // The first is taken first, so that what is read in order lies in order.
            let numbers = (0..SLAB_BYTES / bytes).rev();
            class.free.extend(numbers.map(|number| (slab.clone(), number)));
        }
        let (slab, number) = class.free.pop()?;
        *class.used.entry(slab.0.addr().get()).or_default() += 1;
        // SAFETY: the piece ends within the slab (2).
        let begin = unsafe { slab.0.add(number * bytes) };
        Some(Piece {
            begin,
            piece_bytes: bytes,
            number,
            slab,
            home: Arc::downgrade(&self.0),
        })
    }
}

// SAFETY: what `begin` points to belongs to the piece alone (2), and lives as long as its slab (1).
unsafe impl Send for Piece {}
// SAFETY: as above; only an exclusive owner changes it.
unsafe impl Sync for Piece {}

impl Drop for Piece {
    /// Frees unused slabs, but for the last of them.
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut classes = home.lock();
        let Some(class) = classes.get_mut(&self.piece_bytes) else {
            return;
        };
        class.free.push((self.slab.clone(), self.number));
        let address = self.slab.0.addr().get();
        let Some(used) = class.used.get_mut(&address) else {
            return;
        };
        *used -= 1;
        if *used == 0 {
            class.used.remove(&address);
            if class.free.len() > SLAB_BYTES / self.piece_bytes {
                class.free.retain(|(slab, _)| slab.0.addr().get() != address);
            }
        }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the part lies in the slab and is initialised (1), and only the owner of this
        // piece may change it (2).
        unsafe { std::slice::from_raw_parts(self.begin.as_ptr(), self.piece_bytes) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the part lies in the slab and is initialised (1), and no other piece has it (2).
        unsafe { std::slice::from_raw_parts_mut(self.begin.as_ptr(), self.piece_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_are_used_again() {
        let memory = PageMemory::default();
        let per_slab = SLAB_BYTES / 40_000;
        let take = |mark: usize| {
            let mut piece = memory.take(40_000).expect("not too long");
            piece.fill(u8::try_from(mark % 251).expect("less than 251"));
            piece
        };
        let mut pieces: Vec<Piece> = (0..3 * per_slab).map(take).collect();
        let slabs = |memory: &PageMemory| memory.0.lock()[&40_000].used.len();
        assert_eq!(slabs(&memory), 3);
        // Each third is given back and taken again.
        for mark in (0..pieces.len()).step_by(3) {
            pieces[mark] = take(mark);
        }
        assert_eq!(slabs(&memory), 4, "one was taken before one was given back");
        for (mark, piece) in pieces.iter().enumerate() {
            let expected = u8::try_from(mark % 251).expect("less than 251");
            assert!(piece[..] == [expected; 40_000], "piece {mark}");
        }
        pieces.truncate(1);
        assert_eq!(slabs(&memory), 1);
        assert!(
            memory.0.lock()[&40_000].free.len() <= 2 * per_slab,
            "slabs are given back"
        );
        drop(memory);
        assert_eq!(pieces[0][39_999], 0, "it outlives the cache");
    }

    #[test]
    fn long_pieces_are_refused() {
        let memory = PageMemory::default();
        assert!(memory.take(SLAB_BYTES / PIECES_MIN + 1).is_none());
        assert!(memory.take(0).is_none());
        assert_eq!(
            memory.take(SLAB_BYTES / PIECES_MIN).map(|piece| piece.len()),
            Some(SLAB_BYTES / PIECES_MIN)
        );
    }
}
