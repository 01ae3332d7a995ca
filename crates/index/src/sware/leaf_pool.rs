//! Memory for the leaves of a tree, taken in large pieces and used again, but given back only when the tree goes.
//!
//! Invariants:
//!
//! 1. a [`LeafBox`] stays in the structure that owns the pool it came from: the tree, and whoever owns that tree;
//! 2. no two of them name the same leaf: one that is not needed any more goes back to the pool, or is lost to it;
//! 3. what is dropped together with the pool does not touch its leaves, and leaves have nothing to drop.

#![expect(unsafe_code, reason = "leaves stand in memory of the pool")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::leaf::Leaf;
use crate::mem::piece::Piece;

/// Leaves in the first piece.
const FIRST_LEAVES: usize = 2;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LeafPool {
    pieces: Vec<Piece<Leaf>>,
    /// Leaves of the last piece that have begun to exist.
    begun: usize,
    free: Vec<LeafBox>,
}

/// A leaf of a pool, owned.
#[derive(Debug)]
pub(super) struct LeafBox(NonNull<Leaf>);

// SAFETY: it owns its leaf (invariant 2), which is plain data.
unsafe impl Send for LeafBox {}

// SAFETY: as before.
unsafe impl Sync for LeafBox {}

impl Deref for LeafBox {
    type Target = Leaf;

    #[inline(always)]
    fn deref(&self) -> &Leaf {
        // SAFETY: the pool wrote the leaf, and is there as long as this (invariant 1); nobody else has it (invariant 2).
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for LeafBox {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Leaf {
        // SAFETY: as before.
        unsafe { self.0.as_mut() }
    }
}

impl LeafPool {
    pub(super) const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            begun: 0,
            free: Vec::new(),
        }
    }

    /// An empty leaf.
    pub(super) fn leaf(&mut self) -> LeafBox {
        match self.free.pop() {
            None => self.begin_next(),
            Some(mut leaf) => {
                leaf.truncate(0);
                leaf
            }
        }
    }

    /// A leaf that is to be filled.
    pub(super) fn leaf_to_fill(&mut self) -> LeafBox {
        let mut leaf = self.free.pop().unwrap_or_else(|| self.begin_next());
        leaf.begin_filling();
        leaf
    }

    /// Takes back a leaf of this pool.
    pub(super) fn keep(&mut self, leaf: LeafBox) {
        self.free.push(leaf);
    }

    /// Bytes set aside.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    /// Each piece has a quarter of the room of all before it, up to a huge page: as much at most is set aside in vain.
    fn begin_next(&mut self) -> LeafBox {
        static EMPTY: Leaf = Leaf::new();
        if self.pieces.last().is_none_or(|piece| self.begun == piece.room()) {
            let room: usize = self.pieces.iter().map(Piece::room).sum();
            self.pieces.push(Piece::new((room / 4).max(FIRST_LEAVES), false));
            self.begun = 0;
        }
        let piece = self.pieces.last().expect("a piece was added");
        let leaf = piece.place(self.begun);
        // SAFETY: the memory is the piece's, and nobody has been given it; the other leaf lies elsewhere.
        unsafe { leaf.copy_from_nonoverlapping(NonNull::from_ref(&EMPTY), 1) };
        self.begun += 1;
        LeafBox(leaf)
    }
}
