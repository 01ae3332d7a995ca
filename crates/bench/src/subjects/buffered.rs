//! The straw men of the Blink-hash paper (§5.6): a B-link tree with two alternating hash buffers of
//! 512 KiB.
//!
//! Ascending keys go to the buffer. Out-of-order keys, those below the tree's greatest key, either
//! flush the buffer first or bypass it. Lookups search the buffer too; scans flush it.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bedload_memory::BlinkTree;
use parking_lot::{Mutex, RwLock};
use scc::HashMap;

use super::contract::{AnyKey, Subject, count_and_sum};

/// Entries of 16 bytes in 512 KiB.
const BUFFER_ENTRIES: usize = (512 << 10) / 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnLate {
    Flush,
    Insert,
}

struct Buffered {
    late: OnLate,
    tree: BlinkTree<u64>,
    buffer: RwLock<HashMap<u64, u64>>,
    buffered: AtomicUsize,
    /// The other buffer, and the tree's greatest key; locked during a flush.
    flush: Mutex<HashMap<u64, u64>>,
    greatest: AtomicU64,
}

impl Buffered {
    fn new(late: OnLate) -> Self {
        Self {
            late,
            tree: BlinkTree::new(),
            buffer: RwLock::new(HashMap::with_capacity(BUFFER_ENTRIES)),
            buffered: AtomicUsize::new(0),
            flush: Mutex::new(HashMap::with_capacity(BUFFER_ENTRIES)),
            greatest: AtomicU64::new(0),
        }
    }

    fn flush(&self) {
        let mut other = self.flush.lock();
        let mut full = {
            // A buffer is not written while it is flushed.
            let mut buffer = self.buffer.write();
            self.buffered.store(0, Ordering::Relaxed);
            mem::replace(&mut *buffer, mem::take(&mut *other))
        };
        let mut entries = Vec::with_capacity(full.len());
        full.iter_sync(|key, value| {
            entries.push((*key, *value));
            true
        });
        entries.sort_unstable();
        if let Some(&(greatest, _)) = entries.last() {
            self.greatest.fetch_max(greatest, Ordering::Relaxed);
        }
        for (key, value) in entries {
            self.tree.insert(key, value);
        }
        full.clear_sync();
        mem::swap(&mut *other, &mut full);
    }
}

impl Subject for Buffered {
    fn insert(&self, key: u64, value: u64) {
        if key < self.greatest.load(Ordering::Relaxed) {
            if self.late == OnLate::Flush && self.buffered.load(Ordering::Relaxed) > 0 {
                self.flush();
            }
            self.tree.insert(key, value);
            return;
        }
        let is_full = {
            let buffer = self.buffer.read();
            buffer.upsert_sync(key, value);
            self.buffered.fetch_add(1, Ordering::Relaxed) + 1 >= BUFFER_ENTRIES
        };
        if is_full {
            self.flush();
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        let buffered = self.buffer.read().read_sync(&key, |_, value| *value);
        // During a flush, entries may be in neither.
        buffered.or_else(|| self.tree.get(key)).or_else(|| {
            let _flush = self.flush.lock();
            self.tree.get(key)
        })
    }

    fn scan(&self, from: u64, limit: usize) -> (usize, u64) {
        if self.buffered.load(Ordering::Relaxed) > 0 {
            self.flush();
        }
        u64::with_room(|keys, values| {
            let filled = self.tree.scan(from.., &mut keys[..limit], &mut values[..limit]);
            count_and_sum(values[..filled].iter().copied())
        })
    }
}

pub(super) fn flush_on_late() -> Box<dyn Subject> {
    Box::new(Buffered::new(OnLate::Flush))
}

pub(super) fn insert_late() -> Box<dyn Subject> {
    Box::new(Buffered::new(OnLate::Insert))
}
