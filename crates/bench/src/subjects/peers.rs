//! Indexes from the registry.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;

use bplustree::BPlusTree;
use concurrent_map::ConcurrentMap;
use congee::{Congee, DefaultAllocator};
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use scc::{Guard, TreeIndex};
use thread_local::ThreadLocal;

use super::contract::{AnyKey, SCAN_MAX, Subject, count_and_sum};

pub(super) fn bplustree<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(BPlusTree::<K, u64>::new())
}

impl<K: AnyKey> Subject<K> for BPlusTree<K, u64> {
    fn insert(&self, key: K, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.lookup(&key, |value| *value)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        let mut iterator = self.raw_iter();
        iterator.seek(&from);
        let mut found = (0, 0_u64);
        while found.0 < limit
            && let Some((_, value)) = iterator.next()
        {
            found = (found.0 + 1, found.1.wrapping_add(*value));
        }
        found
    }
}

pub(super) fn scc_tree<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(TreeIndex::<K, u64>::new())
}

impl<K: AnyKey> Subject<K> for TreeIndex<K, u64> {
    /// An insert of an existing key fails, and there is no update, so the key is removed first.
    fn insert(&self, key: K, value: u64) {
        while self.insert_sync(key, value).is_err() {
            self.remove_sync(&key);
        }
    }

    fn get(&self, key: K) -> Option<u64> {
        self.peek_with(&key, |_, value| *value)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        let guard = Guard::new();
        count_and_sum(self.range(from.., &guard).take(limit).map(|(_, value)| *value))
    }
}

pub(super) fn skip_map<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(SkipMap::<K, u64>::new())
}

impl<K: AnyKey> Subject<K> for SkipMap<K, u64> {
    fn insert(&self, key: K, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        count_and_sum(self.range(from..).take(limit).map(|entry| *entry.value()))
    }
}

pub(super) fn btree_map<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(RwLock::new(BTreeMap::<K, u64>::new()))
}

impl<K: AnyKey> Subject<K> for RwLock<BTreeMap<K, u64>> {
    fn insert(&self, key: K, value: u64) {
        self.write().insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.read().get(&key).copied()
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        count_and_sum(self.read().range(from..).take(limit).map(|(_, value)| *value))
    }
}

/// A map that needs a handle per thread.
struct Handles<K: AnyKey> {
    first: Mutex<ConcurrentMap<K, u64>>,
    of_threads: ThreadLocal<ConcurrentMap<K, u64>>,
}

impl<K: AnyKey> Handles<K> {
    fn own(&self) -> &ConcurrentMap<K, u64> {
        self.of_threads
            .get_or(|| self.first.lock().expect("cloning does not panic").clone())
    }
}

pub(super) fn concurrent_map<K: AnyKey>() -> Box<dyn Subject<K>> {
    Box::new(Handles::<K> {
        first: Mutex::new(ConcurrentMap::new()),
        of_threads: ThreadLocal::new(),
    })
}

impl<K: AnyKey> Subject<K> for Handles<K> {
    fn insert(&self, key: K, value: u64) {
        self.own().insert(key, value);
    }

    fn get(&self, key: K) -> Option<u64> {
        self.own().get(&key)
    }

    fn scan(&self, from: K, limit: usize) -> (usize, u64) {
        count_and_sum(self.own().range(from..).take(limit).map(|(_, value)| value))
    }
}

pub(super) fn congee() -> Box<dyn Subject> {
    Box::new(Congee::<usize, usize>::new(DefaultAllocator {}))
}

impl Subject for Congee<usize, usize> {
    fn insert(&self, key: u64, value: u64) {
        let guard = self.pin();
        self.insert(to_usize(key), to_usize(value), &guard)
            .expect("there is memory");
    }

    fn get(&self, key: u64) -> Option<u64> {
        let guard = self.pin();
        self.get(&to_usize(key), &guard).map(|value| value as u64)
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        thread_local! {
            static ROOM: RefCell<[(usize, usize); SCAN_MAX]> = const { RefCell::new([(0, 0); SCAN_MAX]) };
        }
        let guard = self.pin();
        ROOM.with_borrow_mut(|entries| {
            let filled = self.range(&to_usize(from), &usize::MAX, &mut entries[..limit], &guard);
            count_and_sum(entries[..filled].iter().map(|&(_, value)| value as u64))
        })
    }
}

fn to_usize(word: u64) -> usize {
    usize::try_from(word).expect("the benchmarks run where a word is 64 bits")
}
