//! The maps in which parts have their home.
//!
//! # Rules
//!
//! 1. The SB-tree lives as long as the index. The other two maps exist only while a part has its
//!    home in them.
//! 2. The role's holder makes a map before the layout names it, and retires it after the layout
//!    has stopped naming it. A thread that read the older layout may still use the map, so every
//!    user of these two maps is pinned.

#![expect(unsafe_code, reason = "maps are reached through atomic pointers")]

use std::ops::Bound;
use std::ptr::NonNull;

use crossbeam_epoch::{self as epoch, Guard};

use super::options::HeadKind;
use crate::blink::hash::BlinkHash;
use crate::blink::tree::BlinkTree;
use crate::map::key::Key;
use crate::map::memory_use::MemoryUse;
use crate::map::range::Leaves;
use crate::map::shared_map::SharedMap;
use crate::sb_tree::SbTree;
use crate::sync::primitive::{AtomicPtr, Ordering};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Maps<K: Key> {
    pub(super) sb_tree: SbTree<K>,
    blink_hash: AtomicPtr<BlinkHash<K>>,
    blink_tree: AtomicPtr<BlinkTree<K>>,
}

/// Operations common to the three kinds of map.
pub(super) trait HomeMap<K: Key>: SharedMap<K> + Leaves<K::Words> {
    fn add_memory_use(&self, memory: &mut MemoryUse);
}

macro_rules! maps {
    ($($map:ident)*) => {$(
        impl<K: Key> HomeMap<K> for $map<K> {
            fn add_memory_use(&self, memory: &mut MemoryUse) {
                memory.add(&self.memory_use());
            }
        }
    )*};
}

maps! { SbTree BlinkHash BlinkTree }

fn make<M>(place: &AtomicPtr<M>, new: impl FnOnce() -> M) {
    if place.load(Ordering::Acquire).is_null() {
        place.store(Box::into_raw(Box::new(new())), Ordering::Release);
    }
}

fn get<'g, M>(place: &AtomicPtr<M>, _guard: &'g Guard) -> Option<&'g M> {
    // SAFETY: null, or a map that is not dropped while a thread that loaded it is pinned (rule 2).
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// Takes a map away. Threads that have loaded it may go on reading it.
fn take<M>(place: &AtomicPtr<M>) -> Option<NonNull<M>> {
    let map = NonNull::new(place.load(Ordering::Acquire));
    place.store(std::ptr::null_mut(), Ordering::Release);
    map
}

/// A retired map, sent to the thread that drops it.
struct Retired<M>(NonNull<M>);

// SAFETY: the map is dropped by the thread that receives it and is sent only once.
unsafe impl<M: Send> Send for Retired<M> {}

impl<M> Retired<M> {
    fn free(self) {
        // SAFETY: it came from a box (`make`), was taken once, and every guard that could reach it
        // is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

fn retire<M: Send + 'static>(place: &AtomicPtr<M>, guard: &Guard) {
    if let Some(map) = take(place) {
        let map = Retired(map);
        // Loom's atomics belong to one run of a model; a deferred drop could happen in a later run.
        if cfg!(not(loom)) {
            guard.defer(move || map.free());
        }
    }
}

impl<K: Key> Maps<K> {
    /// Creates the SB-tree only.
    pub(super) fn new() -> Self {
        Self {
            sb_tree: SbTree::new(),
            blink_hash: AtomicPtr::default(),
            blink_tree: AtomicPtr::default(),
        }
    }

    /// Makes the map of this kind if it does not exist; the role's holder calls it (rule 2).
    pub(super) fn make(&self, kind: HeadKind) {
        match kind {
            HeadKind::SbTree => {}
            HeadKind::BlinkHash => make(&self.blink_hash, BlinkHash::new),
            HeadKind::BlinkTree => make(&self.blink_tree, BlinkTree::new),
        }
    }

    /// Retires a map that the layout does not name; the role's holder calls it (rule 2).
    pub(super) fn retire(&self, kind: HeadKind, guard: &Guard) {
        match kind {
            HeadKind::SbTree => {}
            HeadKind::BlinkHash => retire(&self.blink_hash, guard),
            HeadKind::BlinkTree => retire(&self.blink_tree, guard),
        }
    }

    /// Returns the map of this kind, if it exists.
    pub(super) fn map<'g>(&'g self, kind: HeadKind, guard: &'g Guard) -> Option<&'g dyn HomeMap<K>> {
        match kind {
            HeadKind::SbTree => Some(&self.sb_tree),
            HeadKind::BlinkHash => get(&self.blink_hash, guard).map(|map| map as _),
            HeadKind::BlinkTree => get(&self.blink_tree, guard).map(|map| map as _),
        }
    }

    /// Returns the value of a key in a map; `None` if the map does not exist.
    #[inline]
    pub(super) fn get(&self, kind: HeadKind, key: K) -> Option<Option<u64>> {
        if kind == HeadKind::SbTree {
            return Some(self.sb_tree.get(key));
        }
        let guard = &epoch::pin();
        Some(self.map(kind, guard)?.get(key))
    }

    /// Inserts into a map, as the given writer if there is one; `false` if the map does not exist.
    #[must_use]
    #[inline]
    pub(super) fn insert(&self, kind: HeadKind, writer: Option<usize>, key: K, value: u64) -> bool {
        if let (HeadKind::SbTree, Some(writer)) = (kind, writer) {
            self.sb_tree.insert_as(writer, key.to_words(), value);
            return true;
        }
        let guard = &epoch::pin();
        let map = self.map(kind, guard);
        if let Some(map) = map {
            map.insert(key, value);
        }
        map.is_some()
    }

    /// Removes a key from a map; `None` if the map does not exist.
    pub(super) fn remove(&self, kind: HeadKind, key: K) -> Option<Option<u64>> {
        let guard = &epoch::pin();
        Some(self.map(kind, guard)?.remove(key))
    }

    /// Copies entries of a map to slices; `None` if the map does not exist.
    pub(super) fn scan(
        &self,
        kind: HeadKind,
        bounds: (Bound<K>, Bound<K>),
        keys: &mut [K],
        values: &mut [u64],
    ) -> Option<usize> {
        if kind == HeadKind::SbTree {
            return Some(self.sb_tree.scan(bounds, keys, values));
        }
        let guard = &epoch::pin();
        Some(self.map(kind, guard)?.scan(bounds, keys, values))
    }
}

impl<K: Key> Drop for Maps<K> {
    fn drop(&mut self) {
        // No other reference to the index exists.
        if let Some(map) = take(&self.blink_hash) {
            Retired(map).free();
        }
        if let Some(map) = take(&self.blink_tree) {
            Retired(map).free();
        }
    }
}
