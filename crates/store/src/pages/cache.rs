//! The cache: whole, immutable pages under their place in the data file, and blocks of sparse tables under theirs.
//!
//! Rules:
//! 1. A page in the cache never changes. A place whose page becomes free is dropped from the cache before anything
//!    else is written there.
//! 2. The cache holds at most `capacity` bytes. A page that a reader holds is not evicted; when all are held, a
//!    page is handed out without being kept, and belongs to its reader alone.
//! 3. What a scan reads on its way ([`Cache::offer`]) fills room that nobody has taken, and evicts nothing.
//! 4. Eviction is CLOCK (Corbató 1968): a hand passes over the slots, sparing once those used since its last visit.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::page::Page;
use super::page_memory::PageMemory;

const SHARDS: usize = 16;

/// A cache of so many bytes has its pages in slabs.
const SLABS_FROM_BYTES: usize = 32 << 20;

/// Where something stands that is in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheKey {
    /// A place of the data file.
    Page(u32),
    /// A place of a block of a sparse table: table, block, layer.
    Block(u32, i64, u8),
}

impl From<u32> for CacheKey {
    fn from(place: u32) -> Self {
        Self::Page(place)
    }
}

#[derive(Debug)]
pub(crate) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// None for a small cache, of which slabs would be too large a part.
    memory: Option<PageMemory>,
}

#[derive(Debug, Default)]
struct Shard {
    capacity: usize,
    bytes: usize,
    /// The page stands in the table itself: who finds it has waited for memory once.
    places: HashMap<CacheKey, Held, BuildHasherDefault<PlaceHasher>>,
    /// What the hand passes over.
    slots: Vec<CacheKey>,
    hand: usize,
}

/// Places of a shard that stand side by side in its table: whoever reads them in order finds the next one near the last.
const NEIGHBOURS: u64 = 16;

impl CacheKey {
    /// Whose place it is, and the place.
    fn parts(self) -> (u64, u64) {
        match self {
            Self::Page(place) => (0, place.into()),
            Self::Block(table, block, layer) => (
                1 + (u64::from(table) << 8 | u64::from(layer)),
                block.cast_unsigned().wrapping_add(layer.into()),
            ),
        }
    }
}

impl Hash for CacheKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (owner, place) = self.parts();
        let in_shard = place / SHARDS as u64;
        state.write_u64(owner);
        state.write_u64(in_shard / NEIGHBOURS);
        state.write_u8(in_shard.to_le_bytes()[0] % NEIGHBOURS.to_le_bytes()[0]);
    }
}

/// Mixes the numbers of a place by multiplication: nobody outside chooses them, and the standard library's hash takes
/// longer than all else that a hit does.
#[derive(Debug, Default)]
struct PlaceHasher {
    mixed: u64,
    /// Which of its neighbours it is.
    near: u64,
}

/// 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u8(&mut self, number: u8) {
        self.near = number.into();
    }

    fn write_u64(&mut self, number: u64) {
        self.mixed = (self.mixed.rotate_left(23) ^ number).wrapping_mul(GOLDEN);
    }

    fn finish(&self) -> u64 {
        // The high bits depend on all others. The table begins with the low ones, and tells neighbours apart by the highest.
        let mixed = self.mixed.rotate_left(32);
        (mixed - mixed % NEIGHBOURS + self.near) ^ (self.near << 58)
    }
}

#[derive(Debug)]
struct Held {
    page: Arc<Page>,
    slot: usize,
    used: bool,
}

impl Cache {
    /// A cache of at most `capacity` bytes, and at least one page of `page_bytes` in each shard.
    pub(crate) fn new(capacity: usize, page_bytes: usize) -> Self {
        let memory = (capacity >= SLABS_FROM_BYTES).then(PageMemory::default);
        let capacity = (capacity / SHARDS).max(page_bytes);
        Self {
            memory,
            shards: std::array::from_fn(|_| {
                Mutex::new(Shard {
                    capacity,
                    ..Shard::default()
                })
            }),
        }
    }

    /// Memory for a page that is to be kept here, whatever is in it.
    pub(crate) fn page(&self, bytes: usize) -> Page {
        let piece = self.memory.as_ref().and_then(|memory| memory.take(bytes));
        piece.map_or_else(|| Page::zeroed(bytes), Page::from)
    }

    /// Whether it has the page, which does not count as a use of it.
    pub(crate) fn has(&self, key: impl Into<CacheKey>) -> bool {
        let key = key.into();
        self.shard(key).lock().places.contains_key(&key)
    }

    pub(crate) fn get(&self, key: impl Into<CacheKey>) -> Option<Arc<Page>> {
        let key = key.into();
        let mut shard = self.shard(key).lock();
        let held = shard.places.get_mut(&key)?;
        held.used = true;
        Some(held.page.clone())
    }

    /// Keeps the page, evicting others if need be (rule 2). If two readers loaded it at once, the first one's stays.
    pub(crate) fn insert(&self, key: impl Into<CacheKey>, page: Arc<Page>) -> Arc<Page> {
        let key = key.into();
        let mut shard = self.shard(key).lock();
        if let Some(held) = shard.places.get(&key) {
            return held.page.clone();
        }
        let len = page.bytes().len();
        if len > shard.capacity {
            return page;
        }
        while shard.bytes + len > shard.capacity {
            let Some(victim) = shard.victim() else {
                return page;
            };
            shard.remove(victim);
        }
        shard.add(key, page.clone());
        page
    }

    /// Keeps a copy of a page that is not in the cache, if there is room (rule 3).
    pub(crate) fn offer(&self, key: impl Into<CacheKey>, bytes: &[u8]) {
        let key = key.into();
        let has_room = |shard: &Shard| shard.bytes + bytes.len() <= shard.capacity;
        if !has_room(&self.shard(key).lock()) {
            return;
        }
        let mut page = self.page(bytes.len());
        page.bytes_mut().copy_from_slice(bytes);
        let page = Arc::new(page);
        let mut shard = self.shard(key).lock();
        if has_room(&shard) && !shard.places.contains_key(&key) {
            shard.add(key, page);
        }
    }

    /// Forgets the page at a place that is about to be free (rule 1).
    pub(crate) fn remove(&self, key: impl Into<CacheKey>) {
        let key = key.into();
        self.shard(key).lock().remove(key);
    }

    fn shard(&self, key: CacheKey) -> &Mutex<Shard> {
        // Neighbouring places are read together; spread them over the shards.
        let (_, number) = key.parts();
        &self.shards[usize::try_from(number % SHARDS as u64).unwrap_or_default()]
    }
}

impl Shard {
    fn add(&mut self, key: CacheKey, page: Arc<Page>) {
        self.bytes += page.bytes().len();
        let held = Held {
            page,
            slot: self.slots.len(),
            used: false,
        };
        self.places.insert(key, held);
        self.slots.push(key);
    }

    fn remove(&mut self, key: CacheKey) {
        let Some(removed) = self.places.remove(&key) else {
            return;
        };
        self.bytes -= removed.page.bytes().len();
        self.slots.swap_remove(removed.slot);
        let moved = self.slots.get(removed.slot);
        if let Some(moved) = moved.and_then(|key| self.places.get_mut(key)) {
            moved.slot = removed.slot;
        }
    }

    /// The page to give up: one pass clears every mark, so a second finds whatever nobody holds.
    fn victim(&mut self) -> Option<CacheKey> {
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let key = self.slots[self.hand];
            let held = self.places.get_mut(&key)?;
            if Arc::strong_count(&held.page) == 1 && !std::mem::take(&mut held.used) {
                return Some(key);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Arc<Page> {
        Arc::new(Page::zeroed(4096))
    }

    #[test]
    fn capacity_bounds_the_pages_kept() {
        let cache = Cache::new(32 * 4096, 4096);
        for place in 1..=1000 {
            cache.insert(place, page());
        }
        assert_eq!((1..=1000).filter(|&place| cache.get(place).is_some()).count(), 32);
    }

    #[test]
    fn what_is_offered_takes_room_and_evicts_nothing() {
        let cache = Cache::new(32 * 4096, 4096);
        for place in 1..=24 {
            cache.insert(place, page());
        }
        for place in 100..1000 {
            cache.offer(place, &[7; 4096]);
        }
        assert!((1..=24).all(|place| cache.has(place)));
        let kept: Vec<u32> = (100..1000).filter(|&place| cache.has(place)).collect();
        assert_eq!(kept.len(), 8);
        assert_eq!(cache.get(kept[0]).expect("just found").bytes(), [7; 4096]);
    }

    #[test]
    fn held_pages_are_not_evicted() {
        let cache = Cache::new(16 * 4096, 4096);
        let held = cache.insert(16, page());
        for place in (32..=16_000).step_by(16) {
            cache.insert(place, page());
        }
        assert!(Arc::ptr_eq(&cache.get(16).expect("held, so still there"), &held));
        drop(held);
        cache.insert(48_000, page());
        cache.insert(64_000, page());
        assert!(cache.get(16).is_none(), "no longer held, it makes room");
    }

    #[test]
    fn recently_used_pages_outlive_a_scan() {
        let cache = Cache::new(4 * SHARDS * 4096, 4096);
        let places: Vec<u32> = (1..=3).map(|i| i * 16).collect();
        for &place in &places {
            cache.insert(place, page());
        }
        for place in (10_000..10_160).step_by(16) {
            for &hot in &places {
                cache.get(hot);
            }
            cache.insert(place, page());
        }
        assert!(places.iter().all(|&place| cache.get(place).is_some()));
    }

    #[test]
    fn a_removed_place_is_forgotten_and_others_stay() {
        let cache = Cache::new(64 * 4096, 4096);
        for place in 1..=64 {
            cache.insert(place, page());
        }
        cache.remove(17);
        assert!(cache.get(17).is_none());
        assert_eq!((1..=64).filter(|&place| cache.get(place).is_some()).count(), 63);
    }
}
