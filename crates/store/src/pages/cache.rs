//! The page cache: whole, immutable pages under their place in the data file.
//!
//! Rules:
//! 1. A page in the cache never changes. A place whose page becomes free is dropped from the cache before anything
//!    else is written there.
//! 2. The cache holds at most `capacity` pages. A page that a reader holds is not evicted; when all are held, a
//!    page is handed out without being kept, and belongs to its reader alone.
//! 3. Eviction is CLOCK (Corbató 1968): a hand passes over the slots, sparing once those used since its last visit.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::page::Page;

const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    capacity: usize,
    places: HashMap<u32, usize>,
    slots: Vec<Held>,
    hand: usize,
}

#[derive(Debug)]
struct Held {
    place: u32,
    page: Arc<Page>,
    used: bool,
}

impl Cache {
    /// A cache of at most `capacity` pages, and at least one in each shard.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = (capacity / SHARDS).max(1);
        Self {
            shards: std::array::from_fn(|_| {
                Mutex::new(Shard {
                    capacity,
                    ..Shard::default()
                })
            }),
        }
    }

    pub(crate) fn get(&self, place: u32) -> Option<Arc<Page>> {
        let mut shard = self.shard(place).lock();
        let &slot = shard.places.get(&place)?;
        let held = &mut shard.slots[slot];
        held.used = true;
        Some(held.page.clone())
    }

    /// Keeps the page, evicting another if need be (rule 2). If two readers loaded it at once, the first one's stays.
    pub(crate) fn insert(&self, place: u32, page: Arc<Page>) -> Arc<Page> {
        let mut shard = self.shard(place).lock();
        if let Some(&slot) = shard.places.get(&place) {
            return shard.slots[slot].page.clone();
        }
        let held = Held {
            place,
            page: page.clone(),
            used: false,
        };
        if shard.slots.len() < shard.capacity {
            let slot = shard.slots.len();
            shard.slots.push(held);
            shard.places.insert(place, slot);
        } else if let Some(slot) = shard.victim() {
            let evicted = std::mem::replace(&mut shard.slots[slot], held);
            shard.places.remove(&evicted.place);
            shard.places.insert(place, slot);
        }
        page
    }

    /// Forgets the page at a place that is about to be free (rule 1).
    pub(crate) fn remove(&self, place: u32) {
        let mut shard = self.shard(place).lock();
        if let Some(slot) = shard.places.remove(&place) {
            shard.slots.swap_remove(slot);
            if let Some(moved) = shard.slots.get(slot).map(|held| held.place) {
                shard.places.insert(moved, slot);
            }
        }
    }

    fn shard(&self, place: u32) -> &Mutex<Shard> {
        // Neighbouring places are read together; spread them over the shards.
        &self.shards[place as usize % SHARDS]
    }
}

impl Shard {
    /// The slot to give up: one pass clears every mark, so a second finds whatever nobody holds.
    fn victim(&mut self) -> Option<usize> {
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let held = &mut self.slots[self.hand];
            if Arc::strong_count(&held.page) == 1 && !std::mem::take(&mut held.used) {
                return Some(self.hand);
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
        let cache = Cache::new(32);
        for place in 1..=1000 {
            cache.insert(place, page());
        }
        assert_eq!((1..=1000).filter(|&place| cache.get(place).is_some()).count(), 32);
    }

    #[test]
    fn held_pages_are_not_evicted() {
        let cache = Cache::new(16);
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
        let cache = Cache::new(4 * SHARDS);
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
        let cache = Cache::new(64);
        for place in 1..=64 {
            cache.insert(place, page());
        }
        cache.remove(17);
        assert!(cache.get(17).is_none());
        assert_eq!((1..=64).filter(|&place| cache.get(place).is_some()).count(), 63);
    }
}
