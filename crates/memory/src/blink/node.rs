//! The common header of all nodes of a tree, and pointers to nodes.

#![expect(
    unsafe_code,
    reason = "nodes of several types share a header and are reached through one pointer type"
)]

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use crossbeam_epoch::Guard;

use crate::search::columns::Words;
use crate::sync::primitive::{AtomicPtr, AtomicU32, Ordering};
use crate::sync::version_latch::{Latched, VersionLatch, Writer};

/// The header's cache line and the next 64 words.
const KEY_BYTES: usize = 9 * LINE_BYTES;

const LINE_BYTES: usize = 64;

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Inner,
    SortedLeaf,
    HashLeaf,
}

/// The first field of every node.
///
/// # Invariants
///
/// 1. A node covers the keys from its low fence up to, not including, its high fence. The low fence
///    never changes and is not stored: a descent learns it on the way.
/// 2. The high fence equals the low fence of the right sibling; a node without one is the rightmost
///    of its level.
/// 3. `kind`, `level` and `free` never change.
/// 4. An obsolete node is not reachable from any node that is not obsolete, and its memory lasts
///    until every guard that was pinned before it became obsolete is dropped.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header<W: Words> {
    pub(crate) latch: VersionLatch,
    right: AtomicPtr<Self>,
    high: W::KeyColumns<1>,
    len: AtomicU32,
    kind: Kind,
    level: u8,
    free: unsafe fn(NonNull<Self>),
}

impl<W: Words> Header<W> {
    /// Creates the header of a node of type `N`, without a right sibling; the node must become
    /// owned by a [`NodePtr`].
    pub(crate) fn new<N: Node<W>>(level: u8) -> Self {
        Self {
            latch: VersionLatch::new(),
            right: AtomicPtr::new(std::ptr::null_mut()),
            high: W::new_columns(),
            len: AtomicU32::new(0),
            kind: N::KIND,
            level,
            free: free_as::<W, N>,
        }
    }

    /// Returns whether nodes of this type merge with their neighbours.
    pub(crate) fn may_merge(&self) -> bool {
        self.kind != Kind::HashLeaf
    }

    /// Returns the level; 0 for leaves.
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// Returns the number of entries of a leaf, or separators of an inner node.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_len(&self, len: usize, _writer: Writer<'_>) {
        self.len
            .store(u32::try_from(len).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Returns the right sibling and the fence between (invariant 2).
    pub(crate) fn right<'g>(&self, _guard: &'g Guard) -> Option<(W, NodePtr<'g, W>)> {
        let right = NodePtr::from_raw(self.right.load(Ordering::Acquire))?;
        Some((W::load(&self.high, 0), right))
    }

    pub(crate) fn is_rightmost(&self) -> bool {
        self.right.load(Ordering::Relaxed).is_null()
    }

    pub(crate) fn set_right(&self, right: Option<(W, NodePtr<'_, W>)>, _writer: Writer<'_>) {
        match right {
            None => self.right.store(std::ptr::null_mut(), Ordering::Release),
            Some((high, right)) => {
                high.store(&self.high, 0);
                self.right.store(right.as_raw(), Ordering::Release);
            }
        }
    }
}

/// A type of node.
///
/// # Safety
///
/// The type is `repr(C)` with a [`Header`] as its first field, and no other type has its `KIND`.
pub(crate) unsafe trait Node<W: Words>: Sized {
    const KIND: Kind;
}

/// Frees a node.
///
/// # Safety
///
/// `node` came from a box of `N` and is not used afterwards.
unsafe fn free_as<W: Words, N: Node<W>>(node: NonNull<Header<W>>) {
    // SAFETY: by contract.
    drop(unsafe { Box::from_raw(node.cast::<N>().as_ptr()) });
}

/// A pointer to a node that stays allocated for `'g`, because an epoch guard lives that long or
/// because the tree is not shared. Its provenance covers the complete node, not only the header.
#[derive(Debug)]
pub(crate) struct NodePtr<'g, W: Words> {
    node: NonNull<Header<W>>,
    lives: PhantomData<&'g Header<W>>,
}

impl<W: Words> Clone for NodePtr<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Words> Copy for NodePtr<'_, W> {}

impl<W: Words> PartialEq for NodePtr<'_, W> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl<W: Words> Deref for NodePtr<'_, W> {
    type Target = Header<W>;

    fn deref(&self) -> &Header<W> {
        // SAFETY: the node stays allocated for the lifetime of the pointer, and its header is only
        // shared.
        unsafe { self.node.as_ref() }
    }
}

impl<'g, W: Words> NodePtr<'g, W> {
    /// Releases ownership of a new node; [`NodePtr::free`] or [`NodePtr::retire`] frees it.
    pub(crate) fn new<N: Node<W>>(node: Box<N>) -> Self {
        let node = NonNull::from(Box::leak(node)).cast();
        Self {
            node,
            lives: PhantomData,
        }
    }

    /// Returns the node at an address that [`NodePtr::as_raw`] gave, read from a live node or from
    /// the root.
    pub(crate) fn from_raw(raw: *mut Header<W>) -> Option<Self> {
        NonNull::new(raw).map(|node| Self {
            node,
            lives: PhantomData,
        })
    }

    pub(crate) fn as_raw(self) -> *mut Header<W> {
        self.node.as_ptr()
    }

    /// Returns the header, for as long as the node lives.
    pub(crate) fn header(self) -> &'g Header<W> {
        // SAFETY: as in `deref`.
        unsafe { self.node.as_ref() }
    }

    /// Returns the node, if it is an `N`.
    pub(crate) fn downcast<N: Node<W>>(self) -> Option<&'g N> {
        if self.kind != N::KIND {
            return None;
        }
        // SAFETY: the kind identifies the type (`Node`), the provenance covers the node, and nodes
        // are only shared.
        Some(unsafe { self.node.cast::<N>().as_ref() })
    }

    /// Prefetches the header and the keys after it, so that their cache lines arrive together.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.prefetch_bytes(0..KEY_BYTES);
    }

    /// Prefetches these bytes, as offsets from the node's start; they may lie beyond the node.
    #[inline]
    pub(crate) fn prefetch_bytes(self, _bytes: Range<usize>) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for byte in _bytes.step_by(LINE_BYTES) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.node.as_ptr().cast::<i8>().wrapping_add(byte);
            // SAFETY: a prefetch is a hint and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
        }
    }

    /// Makes a latched node obsolete, and frees it when no reader can have it (invariant 4). The
    /// caller has made it unreachable.
    pub(crate) fn retire(self, latched: Latched<'_>, guard: &Guard) {
        latched.retire();
        let node = Retired(self.node);
        // SAFETY: the node is unreachable; threads that reached it before are pinned. It is retired
        // once, because it cannot be latched again.
        unsafe { guard.defer_unchecked(move || node.free()) };
    }

    /// Frees a node.
    ///
    /// # Safety
    ///
    /// The node is neither used nor freed again.
    pub(crate) unsafe fn free(self) {
        let free = self.free;
        // SAFETY: `free` belongs to the node's type (`Header::new`), and the caller gives up the
        // node.
        unsafe { free(self.node) };
    }
}

/// A retired node, sent to the thread that frees it.
struct Retired<W: Words>(NonNull<Header<W>>);

impl<W: Words> Retired<W> {
    fn free(self) {
        let node = NodePtr {
            node: self.0,
            lives: PhantomData,
        };
        // SAFETY: retired once, and every guard that could reach the node is gone.
        unsafe { node.free() };
    }
}
