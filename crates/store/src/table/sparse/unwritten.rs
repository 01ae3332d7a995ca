//! Blocks that commits have made and left in memory: their rows are in the log, and the next flush
//! writes them, many together, to the places that were taken for them. Until then such a block is
//! read from here.
//!
//! A block is put here before a head names it, and taken out once a checkpoint names it, its place
//! is given up, or its table was dropped and no view has it. So a free place has no block here, and
//! a block that a head or map names is in its file unless it is here. A failed flush leaves blocks
//! here: those that it wrote may not be synced, and the next flush writes them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::block::Owner;
#[cfg(test)]
use super::files::BlockFiles;
use crate::pages::Page;
use crate::rows::BlockRef;

/// Table, block and layer.
type Key = (u32, i64, u8);

#[derive(Debug, Default)]
pub(super) struct Unwritten {
    blocks: RwLock<BTreeMap<Key, Arc<Page>>>,
    /// Those that the flush under way has written.
    flushed: Mutex<Vec<Key>>,
    /// Tables that were dropped, each with the first checkpoint that has it no more.
    dropped: Mutex<Vec<(u32, u64)>>,
}

fn key(owner: Owner<'_>, block: i64, named: &BlockRef) -> Key {
    (owner.table, block, named.layer)
}

impl Unwritten {
    pub(super) fn put(&self, owner: Owner<'_>, block: i64, named: &BlockRef, bytes: Box<[u8]>) {
        let page = Arc::new(Page::of_bytes(bytes));
        self.blocks.write().insert(key(owner, block, named), page);
    }

    pub(super) fn get(&self, owner: Owner<'_>, block: i64, named: &BlockRef) -> Option<Arc<Page>> {
        self.blocks.read().get(&key(owner, block, named)).cloned()
    }

    /// As [`get`](Self::get), for the flush under way, which writes the block.
    pub(super) fn take_note(&self, owner: Owner<'_>, block: i64, named: &BlockRef) -> Option<Arc<Page>> {
        let page = self.get(owner, block, named)?;
        self.flushed.lock().push(key(owner, block, named));
        Some(page)
    }

    /// The flush is part of a checkpoint.
    pub(super) fn settle(&self) {
        let flushed = std::mem::take(&mut *self.flushed.lock());
        let mut blocks = self.blocks.write();
        for key in flushed {
            blocks.remove(&key);
        }
    }

    /// The flush failed.
    pub(super) fn roll_back(&self) {
        self.flushed.lock().clear();
    }

    pub(super) fn remove(&self, owner: Owner<'_>, block: i64, named: &BlockRef) {
        self.blocks.write().remove(&key(owner, block, named));
    }

    /// A table is gone from this checkpoint on: its blocks stay until no earlier view is held.
    pub(super) fn dropped(&self, table: u32, dead: u64) {
        self.dropped.lock().push((table, dead));
    }

    /// Removes the blocks of dropped tables that no view needs; `is_held(dead)` says whether a view
    /// from before checkpoint `dead` is held.
    pub(super) fn release(&self, is_held: impl Fn(u64) -> bool) {
        let mut dropped = self.dropped.lock();
        let (held, gone): (Vec<_>, Vec<_>) = dropped.drain(..).partition(|&(_, dead)| is_held(dead));
        *dropped = held;
        if !gone.is_empty() {
            let is_gone = |table| gone.iter().any(|&(other, _)| other == table);
            self.blocks.write().retain(|key, _| !is_gone(key.0));
        }
    }
}

#[cfg(test)]
impl BlockFiles {
    /// How many blocks wait in memory to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.blocks.read().len()
    }
}
