//! The cache: whole, immutable pages under their place in the data file, and blocks of sparse
//! tables under theirs.
//!
//! Rules:
//! 1. A page in the cache never changes. A place whose page becomes free is dropped from the cache
//!    before anything else is written there.
//! 2. The cache holds at most `capacity` bytes. A page that a reader holds is not evicted; when all
//!    are held, a page is handed out without being kept, and belongs to its reader alone.
//! 3. Pages that a scan passes ([`Cache::offer`]) fill unused room, and evict nothing.
//! 4. Eviction is CLOCK (Corbató 1968): a hand passes over the slots, sparing once those used since
//!    its last visit.
//! 5. Neighbouring places share an entry, in the table of one shard, while one of them has a page:
//!    a lookup of several ([`Cache::get_each`]) takes one lock, and waits for memory once for all
//!    of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::page::Page;
use super::page_memory::PageMemory;
use crate::prefetch::prefetch_to_write;

/// The most shards. A cache has fewer if they would be small: neighbours that are read together
/// must have room in one.
const SHARDS_MAX: usize = 16;
/// Pages that a shard has room for, at least, if there is more than one.
const SHARD_PAGES_MIN: usize = 8 * NEIGHBOURS;
/// Pages that a cache has room for, at least, however few it is to have: a path of a tree must be
/// read once.
const PAGES_MIN: usize = 16;

/// A cache of at least this many bytes has its pages in slabs.
const SLABS_FROM_BYTES: usize = 32 << 20;

/// The location of something in the cache.
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
    shards: Box<[Mutex<Shard>]>,
    /// None for a small cache, of which slabs would be too large a part.
    memory: Option<PageMemory>,
}

#[derive(Debug, Default)]
struct Shard {
    capacity: usize,
    bytes: usize,
    hits: u64,
    misses: u64,
    /// The pages are in the table itself, so that a hit waits for memory once.
    table: HashMap<GroupKey, Group, BuildHasherDefault<GroupHasher>>,
    /// The slots over which the hand goes, each with its group.
    slots: Vec<(GroupKey, usize)>,
    hand: usize,
}

/// How a cache was used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheCounts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes: usize,
}

/// Neighbouring places that share an entry of the table.
const NEIGHBOURS: usize = 8;

/// The owner of some places, and the number of their group of [`NEIGHBOURS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct GroupKey {
    owner: u64,
    group: u64,
}

/// The frames at neighbouring places.
#[derive(Debug, Default)]
struct Group {
    pages: [Option<Arc<Page>>; NEIGHBOURS],
    /// The slot of each page.
    slots: [u32; NEIGHBOURS],
    /// Those that were used since the hand passed over them.
    used: [bool; NEIGHBOURS],
}

impl CacheKey {
    /// The places around it, and which of them it is.
    fn group(self) -> (GroupKey, usize) {
        let (owner, place) = match self {
            Self::Page(place) => (0, place.into()),
            Self::Block(table, block, layer) => (
                1 + (u64::from(table) << 8 | u64::from(layer)),
                block.cast_unsigned(),
            ),
        };
        let neighbours = NEIGHBOURS as u64;
        let number = usize::try_from(place % neighbours).expect("less than there are neighbours");
        let group = place / neighbours;
        (GroupKey { owner, group }, number)
    }
}

/// Mixes the numbers of a place by multiplication: no outsider chooses them, and the standard
/// library's hash takes longer than the rest of a hit.
#[derive(Debug, Default)]
struct GroupHasher(u64);

/// 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for GroupHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(GOLDEN);
    }

    fn finish(&self) -> u64 {
        // The high bits depend on all others. The table begins with the low ones.
        self.0.rotate_left(32)
    }
}

impl Group {
    fn get(&mut self, number: usize) -> Option<Arc<Page>> {
        let page = self.pages[number].clone()?;
        self.used[number] = true;
        Some(page)
    }

    fn is_empty(&self) -> bool {
        self.pages.iter().all(Option::is_none)
    }
}

impl Cache {
    /// A cache of at most `capacity` bytes, and at least [`PAGES_MIN`] pages of `page_bytes`.
    pub(crate) fn new(capacity: usize, page_bytes: usize) -> Self {
        let memory = (capacity >= SLABS_FROM_BYTES).then(PageMemory::default);
        let capacity = capacity.max(PAGES_MIN * page_bytes);
        let shards = capacity / (SHARD_PAGES_MIN * page_bytes.max(1));
        let shards = 1 << shards.clamp(1, SHARDS_MAX).ilog2();
        let shard = || {
            Mutex::new(Shard {
                capacity: capacity / shards,
                ..Shard::default()
            })
        };
        Self {
            memory,
            shards: (0..shards).map(|_| shard()).collect(),
        }
    }

    /// Memory for a page that is to be kept here, whatever is in it.
    pub(crate) fn page(&self, bytes: usize) -> Page {
        let piece = self.memory.as_ref().and_then(|memory| memory.take(bytes));
        piece.map_or_else(|| Page::zeroed(bytes), Page::from)
    }

    /// Whether it has the page, which does not count as a use of it.
    pub(crate) fn has(&self, key: impl Into<CacheKey>) -> bool {
        let (group, number) = key.into().group();
        self.shard(group).lock().find(group, number).is_some()
    }

    pub(crate) fn get(&self, key: impl Into<CacheKey>) -> Option<Arc<Page>> {
        let (group, number) = key.into().group();
        self.shard(group).lock().get(group, number)
    }

    /// Returns hits, misses, and the bytes that are kept.
    pub(crate) fn counts(&self) -> CacheCounts {
        let shards = self.shards.iter().map(|shard| shard.lock());
        shards.fold(CacheCounts::default(), |all, shard| CacheCounts {
            hits: all.hits + shard.hits,
            misses: all.misses + shard.misses,
            bytes: all.bytes + shard.bytes,
        })
    }

    /// Looks up several pages, at best neighbours (rule 5); gives each in its turn, if it is there.
    pub(crate) fn get_each(
        &self,
        keys: impl Iterator<Item = CacheKey>,
        mut give: impl FnMut(Option<Arc<Page>>),
    ) {
        let mut keys = keys.map(CacheKey::group).peekable();
        while let Some((group, number)) = keys.next() {
            let mut numbers = [number; NEIGHBOURS];
            let mut len = 1;
            while len < NEIGHBOURS
                && let Some((_, number)) = keys.next_if(|(of, _)| *of == group)
            {
                numbers[len] = number;
                len += 1;
            }
            let mut pages: [Option<Arc<Page>>; NEIGHBOURS] = Default::default();
            let numbers = &numbers[..len];
            let mut shard = self.shard(group).lock();
            if let Some(found) = shard.table.get_mut(&group) {
                // Cloning a page writes its reference count: all are prefetched before the first is
                // waited for.
                for page in numbers.iter().filter_map(|&number| found.pages[number].as_ref()) {
                    prefetch_to_write(Arc::as_ptr(page).cast());
                }
                for (page, &number) in pages.iter_mut().zip(numbers) {
                    *page = found.get(number);
                }
            }
            let hits = pages.iter().flatten().count() as u64;
            shard.hits += hits;
            shard.misses += len as u64 - hits;
            drop(shard);
            // The receiver may take locks of its own: this one is released first.
            pages.into_iter().take(len).for_each(&mut give);
        }
    }

    /// Keeps the page, evicting others if need be (rule 2). If two readers loaded it at once, the
    /// first one's stays.
    pub(crate) fn insert(&self, key: impl Into<CacheKey>, page: Arc<Page>) -> Arc<Page> {
        let (group, number) = key.into().group();
        let mut shard = self.shard(group).lock();
        if let Some(held) = shard.find(group, number) {
            return held.clone();
        }
        let len = page.bytes().len();
        if len > shard.capacity {
            return page;
        }
        while shard.bytes + len > shard.capacity {
            let Some((group, number)) = shard.victim() else {
                return page;
            };
            shard.remove(group, number);
        }
        shard.add(group, number, page.clone());
        page
    }

    /// Keeps a copy of a page that is not in the cache, if there is room (rule 3).
    pub(crate) fn offer(&self, key: impl Into<CacheKey>, bytes: &[u8]) {
        let (group, number) = key.into().group();
        let has_room = |shard: &Shard| shard.bytes + bytes.len() <= shard.capacity;
        if !has_room(&self.shard(group).lock()) {
            return;
        }
        let mut page = self.page(bytes.len());
        page.bytes_mut().copy_from_slice(bytes);
        let page = Arc::new(page);
        let mut shard = self.shard(group).lock();
        if has_room(&shard) && shard.find(group, number).is_none() {
            shard.add(group, number, page);
        }
    }

    /// Forgets the page at a place that is about to be free (rule 1).
    pub(crate) fn remove(&self, key: impl Into<CacheKey>) {
        let (group, number) = key.into().group();
        self.shard(group).lock().remove(group, number);
    }

    fn shard(&self, group: GroupKey) -> &Mutex<Shard> {
        // Other layers of the same blocks are in other shards.
        let number = usize::from(group.group.wrapping_add(group.owner).to_le_bytes()[0]);
        // Their number is a power of two, and at most 256.
        &self.shards[number & (self.shards.len() - 1)]
    }
}

impl Shard {
    fn get(&mut self, group: GroupKey, number: usize) -> Option<Arc<Page>> {
        let found = self.table.get_mut(&group).and_then(|group| group.get(number));
        if found.is_some() {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        found
    }

    fn find(&self, group: GroupKey, number: usize) -> Option<&Arc<Page>> {
        self.table.get(&group)?.pages[number].as_ref()
    }

    /// Adds a page that is not there.
    fn add(&mut self, group: GroupKey, number: usize, page: Arc<Page>) {
        self.bytes += page.bytes().len();
        let found = self.table.entry(group).or_default();
        found.pages[number] = Some(page);
        found.slots[number] = u32::try_from(self.slots.len()).expect("fewer pages than memory has room for");
        found.used[number] = false;
        self.slots.push((group, number));
    }

    fn remove(&mut self, group: GroupKey, number: usize) {
        let Entry::Occupied(mut found) = self.table.entry(group) else {
            return;
        };
        let Some(page) = found.get_mut().pages[number].take() else {
            return;
        };
        let slot = found.get().slots[number];
        if found.get().is_empty() {
            found.remove();
        }
        self.bytes -= page.bytes().len();
        self.slots.swap_remove(slot as usize);
        if let Some(&(group, number)) = self.slots.get(slot as usize)
            && let Some(moved) = self.table.get_mut(&group)
        {
            moved.slots[number] = slot;
        }
    }

    /// The page to give up: one pass clears every mark, so a second finds any that is not held.
    fn victim(&mut self) -> Option<(GroupKey, usize)> {
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let (group, number) = self.slots[self.hand];
            let found = self.table.get_mut(&group)?;
            let is_held = found.pages[number]
                .as_ref()
                .is_none_or(|page| Arc::strong_count(page) > 1);
            if !is_held && !std::mem::take(&mut found.used[number]) {
                return Some((group, number));
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
        for place in 48_000..48_032 {
            cache.insert(place, page());
        }
        assert!(cache.get(16).is_none(), "no longer held, it makes room");
    }

    #[test]
    fn recently_used_pages_outlive_a_scan() {
        let cache = Cache::new(PAGES_MIN * 4096, 4096);
        let places: Vec<u32> = (1..=3).map(|i| i * 16).collect();
        for &place in &places {
            cache.insert(place, page());
        }
        for place in 10_000..10_160 {
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

    #[test]
    fn several_are_found_in_their_order_whoever_their_neighbours_are() {
        let cache = Cache::new(SHARDS_MAX * SHARD_PAGES_MIN * 4096, 4096);
        assert_eq!(cache.shards.len(), SHARDS_MAX);
        let key = |n: i64| CacheKey::Block(7, n, u8::from(n % 5 == 0));
        let keys = || (-40..40).chain([3, 3, -17]).map(key);
        let pages: HashMap<usize, Arc<Page>> = keys()
            .enumerate()
            .filter(|(n, _)| n % 3 != 0)
            .map(|(n, key)| (n, cache.insert(key, page())))
            .collect();
        let mut found = Vec::new();
        cache.get_each(keys(), |page| found.push(page));
        assert_eq!(found.len(), keys().count());
        for (n, (found, key)) in found.iter().zip(keys()).enumerate() {
            let alone = cache.get(key);
            assert_eq!(found.as_ref().map(Arc::as_ptr), alone.as_ref().map(Arc::as_ptr));
            if let Some(page) = pages.get(&n) {
                assert!(
                    found.as_ref().is_some_and(|found| Arc::ptr_eq(found, page)),
                    "{key:?}"
                );
            }
        }
        assert_eq!(
            found.iter().filter(|page| page.is_none()).count(),
            (0..80).step_by(3).filter(|n| ![43, 23].contains(n)).count()
        );
        keys().for_each(|key| cache.remove(key));
        let is_empty = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            (shard.bytes, shard.table.len(), shard.slots.len()) == (0, 0, 0)
        };
        assert!(
            cache.shards.iter().all(is_empty),
            "nothing is left of those removed"
        );
    }
}
