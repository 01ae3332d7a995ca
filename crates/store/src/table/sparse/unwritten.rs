//! Blocks that commits have made and left in memory: their rows are in the log, and the next flush
//! writes them, many together, to the places that were taken for them. Until then whoever looks for
//! such a block finds it here.
//!
//! A block is put here before a head names it, and taken out once a checkpoint names it, or its
//! place is given up: so a place that is free has none, and who finds none while a head or map
//! names the block finds it in its file. A flush that fails leaves it here: what that one wrote was
//! perhaps not synced, and the next one writes it again.

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

    /// Removes those of a table that is gone.
    pub(super) fn forget(&self, table: u32) {
        self.blocks.write().retain(|key, _| key.0 != table);
    }
}

#[cfg(test)]
impl BlockFiles {
    /// How many blocks wait in memory to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.blocks.read().len()
    }
}
