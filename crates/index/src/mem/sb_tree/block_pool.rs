//! The block allocator: memory for blocks, taken in large pieces and used again, but given back only when the index goes
//! (rule 4 of [`block`](super::block)). So whoever reads needs nothing to keep a block alive.

#![expect(unsafe_code, reason = "writes and drops blocks in memory of its own")]

use std::ptr::NonNull;

use super::super::columns::Words;
use super::super::piece::Piece;
use super::block::Block;

/// Blocks in the first piece.
const FIRST_BLOCKS: usize = 4;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct BlockPool<W: Words> {
    pieces: Vec<Piece<Block<W>>>,
    /// Blocks of the last piece that have begun to exist.
    begun: usize,
    /// Dead blocks.
    free: Vec<NonNull<Block<W>>>,
}

// SAFETY: the pool owns its pieces, and blocks are `Send` and `Sync`.
unsafe impl<W: Words> Send for BlockPool<W> {}

impl<W: Words> BlockPool<W> {
    pub(super) const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            begun: 0,
            free: Vec::new(),
        }
    }

    /// A dead block, which nobody else will be given.
    pub(super) fn take(&mut self) -> NonNull<Block<W>> {
        if let Some(block) = self.free.pop() {
            return block;
        }
        if self.pieces.last().is_none_or(|piece| self.begun == piece.room()) {
            self.add_piece(false);
        }
        self.begin_next()
    }

    /// Takes back a dead block.
    pub(super) fn give_back(&mut self, block: NonNull<Block<W>>) {
        self.free.push(block);
    }

    /// Makes sure that so many blocks are there, and their memory with them.
    pub(super) fn reserve(&mut self, blocks: usize) {
        while self.free.len() < blocks {
            if self.pieces.last().is_none_or(|piece| self.begun == piece.room()) {
                self.add_piece(true);
            }
            let block = self.begin_next();
            self.free.push(block);
        }
        // Taken from the end: in the order in which they lie.
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Bytes set aside.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    fn begin_next(&mut self) -> NonNull<Block<W>> {
        let piece = self.pieces.last().expect("a piece was added");
        let block = piece.place(self.begun);
        // SAFETY: the memory is the piece's, and nobody has been given it.
        unsafe { block.write(Block::new()) };
        self.begun += 1;
        block
    }

    /// Each piece is as large as all before it, up to a huge page. Only where nobody waits for it is the memory made anew.
    fn add_piece(&mut self, makes_anew: bool) {
        let room: usize = self.pieces.iter().map(Piece::room).sum();
        self.pieces.push(Piece::new(room.max(FIRST_BLOCKS), makes_anew));
        self.begun = 0;
    }
}

impl<W: Words> Drop for BlockPool<W> {
    fn drop(&mut self) {
        for (number, piece) in self.pieces.iter().enumerate().rev() {
            let is_last = number + 1 == self.pieces.len();
            let begun = if is_last { self.begun } else { piece.room() };
            for place in 0..begun {
                // SAFETY: these blocks exist, and nobody has the index any more.
                unsafe { piece.place(place).drop_in_place() };
            }
        }
    }
}
