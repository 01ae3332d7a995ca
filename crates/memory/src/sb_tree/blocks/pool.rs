//! The block allocator: memory for blocks, allocated in large pieces and reused, but freed only
//! with the index (rule 5 of [`block`](super::block)). So readers need nothing to keep a block
//! alive.

#![expect(
    unsafe_code,
    reason = "allocates pieces of many blocks, aligned for huge pages"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::block::Block;
use crate::search::columns::Words;

/// The size and alignment of a huge page, which are those of the pieces of a large index.
const PIECE_BYTES: usize = if cfg!(any(test, miri, loom)) {
    1 << 13
} else {
    2 << 20
};
/// Number of blocks in the first piece.
const FIRST_BLOCKS: usize = 4;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct BlockPool<W: Words> {
    pieces: Vec<BlockMemory<W>>,
    /// Number of initialised blocks in the last piece.
    begun: usize,
    /// Dead blocks.
    free: Vec<NonNull<Block<W>>>,
}

#[derive(Debug)]
struct BlockMemory<W: Words> {
    start: NonNull<Block<W>>,
    blocks: usize,
    layout: Layout,
}

// SAFETY: the pool owns its pieces, and blocks are `Send` and `Sync`.
unsafe impl<W: Words> Send for BlockPool<W> {}

impl<W: Words> BlockPool<W> {
    pub(crate) const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            begun: 0,
            free: Vec::new(),
        }
    }

    /// Takes a dead block, which the pool does not give out again.
    pub(crate) fn take(&mut self) -> NonNull<Block<W>> {
        if let Some(block) = self.free.pop() {
            return block;
        }
        if self.pieces.last().is_none_or(|piece| self.begun == piece.blocks) {
            self.add_piece(false);
        }
        self.begin_next()
    }

    /// Returns the block that will be taken next, if known.
    pub(crate) fn next(&self) -> Option<NonNull<Block<W>>> {
        self.free.last().copied()
    }

    /// Returns a dead block to the pool.
    pub(crate) fn give_back(&mut self, block: NonNull<Block<W>>) {
        self.free.push(block);
    }

    /// Ensures that `blocks` free blocks exist, with their memory touched.
    pub(crate) fn reserve(&mut self, blocks: usize) {
        while self.free.len() < blocks {
            if self.pieces.last().is_none_or(|piece| self.begun == piece.blocks) {
                self.add_piece(true);
            }
            let block = self.begin_next();
            self.free.push(block);
        }
        // Taken from the end, in address order.
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Returns the bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.layout.size()).sum()
    }

    fn begin_next(&mut self) -> NonNull<Block<W>> {
        let piece = self.pieces.last().expect("a piece was added");
        // SAFETY: `begun` is below the piece's number of blocks.
        let block = unsafe { piece.start.add(self.begun) };
        // SAFETY: the memory belongs to the piece, and this block was not given out before.
        unsafe { block.write(Block::new()) };
        self.begun += 1;
        block
    }

    /// Adds a piece as large as all earlier ones together, up to [`PIECE_BYTES`]. It leaves room
    /// after its blocks, so that no other piece begins where the next block would be: adjacent
    /// blocks are always of one piece. The memory is only remapped (`makes_anew`) where no thread
    /// waits for it: small pages that the allocator had in use stay small, but faults take long.
    fn add_piece(&mut self, makes_anew: bool) {
        let size = size_of::<Block<W>>();
        let room: usize = self.pieces.iter().map(|piece| piece.blocks).sum();
        let blocks = room.clamp(FIRST_BLOCKS, ((PIECE_BYTES - 1) / size).max(FIRST_BLOCKS));
        let is_huge = blocks * size > PIECE_BYTES / 2;
        let taken = blocks * size + 1;
        let bytes = if is_huge { taken.max(PIECE_BYTES) } else { taken };
        let align = if is_huge {
            PIECE_BYTES
        } else {
            align_of::<Block<W>>()
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
        self.pieces.push(BlockMemory {
            start,
            blocks,
            layout,
        });
        self.begun = 0;
    }
}

/// Requests huge pages, of which one fault maps as much as 512 others. To remap the memory, the
/// pages that the allocator had in use are first returned.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_page(start: NonNull<u8>, bytes: usize, makes_anew: bool) {
    if makes_anew {
        // SAFETY: the memory is owned and unwritten. A refusal leaves it as it is.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
    }
    // SAFETY: the advice does not change the contents of the memory.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
const fn advise_huge_page(_start: NonNull<u8>, _bytes: usize, _makes_anew: bool) {}

impl<W: Words> Drop for BlockPool<W> {
    fn drop(&mut self) {
        for (number, piece) in self.pieces.iter().enumerate().rev() {
            let is_last = number + 1 == self.pieces.len();
            let begun = if is_last { self.begun } else { piece.blocks };
            for place in 0..begun {
                // SAFETY: these blocks exist, and the index has no other user.
                let block = unsafe { piece.start.add(place) };
                // SAFETY: likewise.
                unsafe { block.drop_in_place() };
            }
            // SAFETY: allocated with this layout.
            unsafe { dealloc(piece.start.as_ptr().cast(), piece.layout) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Adjacency in memory identifies blocks of one piece.
    #[test]
    fn pieces_do_not_touch() {
        let mut pool = BlockPool::<[u64; 1]>::new();
        pool.reserve(20 * FIRST_BLOCKS);
        assert!(pool.pieces.len() > 2);
        for piece in &pool.pieces {
            assert!(piece.layout.size() > piece.blocks * size_of::<Block<[u64; 1]>>());
        }
    }
}
