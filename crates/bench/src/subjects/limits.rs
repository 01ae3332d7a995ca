//! Bounds that no ordered index can be expected to beat.

use std::cell::RefCell;
use std::hint::black_box;

use scc::HashMap;
use thread_local::ThreadLocal;

use super::contract::{Answers, Subject};

/// Entries after which a thread overwrites its memory, to stay in the cache.
const KEPT: usize = 4096;

/// Stores each entry in thread-local memory.
#[derive(Default)]
struct Ceiling(ThreadLocal<RefCell<Vec<(u64, u64)>>>);

impl Subject for Ceiling {
    fn answers(&self) -> Answers {
        Answers::Nothing
    }

    fn insert(&self, key: u64, value: u64) {
        let mut entries = self
            .0
            .get_or(|| RefCell::new(Vec::with_capacity(KEPT)))
            .borrow_mut();
        if entries.len() == KEPT {
            black_box(entries.as_slice());
            entries.clear();
        }
        entries.push((key, value));
    }

    fn get(&self, _key: u64) -> Option<u64> {
        None
    }

    fn scan(&self, _from: u64, _limit: usize) -> (usize, u64) {
        (0, 0)
    }
}

pub(super) fn ceiling() -> Box<dyn Subject> {
    Box::<Ceiling>::default()
}

impl Subject for HashMap<u64, u64> {
    fn answers(&self) -> Answers {
        Answers::Lookups
    }

    fn insert(&self, key: u64, value: u64) {
        self.upsert_sync(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.read_sync(&key, |_, value| *value)
    }

    fn scan(&self, _from: u64, _limit: usize) -> (usize, u64) {
        (0, 0)
    }
}

pub(super) fn hash_table() -> Box<dyn Subject> {
    Box::new(HashMap::<u64, u64>::new())
}
