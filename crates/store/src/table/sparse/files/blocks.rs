//! Reading blocks: from what is not written yet, the cache, or the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::block::{BlockBytes, Owner};
use super::BlockFiles;
use crate::error::{Error, Result};
use crate::pages::{CacheKey, Page};
use crate::rows::BlockRef;

impl BlockFiles {
    /// The block that the map names, from the cache or from the disk.
    pub(in super::super) fn load(
        &self,
        owner: Owner<'_>,
        block: i64,
        named: &BlockRef,
    ) -> Result<BlockBytes> {
        if let Some(bytes) = self.cached(owner, block, named) {
            return Ok(bytes);
        }
        let key = CacheKey::Block(owner.table, block, named.layer);
        let page = Arc::new(self.read(owner, block, named)?);
        Ok(BlockBytes::of_page(self.cache.insert(key, page)))
    }

    /// Keeps a block that is being written in the cache.
    pub(in super::super) fn remember_block(&self, owner: Owner<'_>, block: i64, layer: u8, bytes: &[u8]) {
        let mut page = self.cache.page(bytes.len());
        page.bytes_mut().copy_from_slice(bytes);
        let page = Arc::new(page);
        self.cache
            .insert(CacheKey::Block(owner.table, block, layer), page);
    }

    /// Keeps a block that was read and checked in the cache, if there is room.
    pub(in super::super) fn offer(&self, owner: Owner<'_>, block: i64, named: &BlockRef, bytes: &[u8]) {
        self.cache
            .offer(CacheKey::Block(owner.table, block, named.layer), bytes);
    }

    /// The block if it is in memory.
    pub(in super::super) fn cached(
        &self,
        owner: Owner<'_>,
        block: i64,
        named: &BlockRef,
    ) -> Option<BlockBytes> {
        let cached = self.cache.get(CacheKey::Block(owner.table, block, named.layer));
        cached
            .or_else(|| self.unwritten.get(owner, block, named))
            .map(BlockBytes::of_page)
    }

    /// As [`cached`](Self::cached), for blocks that are named together; gives each in its turn.
    pub(in super::super) fn cached_each<'b>(
        &self,
        owner: Owner<'_>,
        mut blocks: impl Iterator<Item = (i64, &'b BlockRef)> + Clone,
        mut give: impl FnMut(Option<BlockBytes>),
    ) {
        let key = |(block, named): (i64, &BlockRef)| CacheKey::Block(owner.table, block, named.layer);
        self.cache.get_each(blocks.clone().map(key), |page| {
            let (block, named) = blocks.next().expect("one for each key");
            give(
                page.or_else(|| self.unwritten.get(owner, block, named))
                    .map(BlockBytes::of_page),
            );
        });
    }

    /// The block that the map names, from the disk if it is written, checked.
    pub(in super::super) fn read(&self, owner: Owner<'_>, block: i64, named: &BlockRef) -> Result<Page> {
        if !owner.shape.admits(named) {
            let path = self.path_of(owner.table, owner.shape.file_of(block).0);
            let reason = "its block map names a block that the table cannot have";
            return Err(Error::corrupt(&path, format!("block {block}"), reason));
        }
        if let Some(page) = self.unwritten.get(owner, block, named) {
            return Ok(Page::of_bytes(page.bytes().into()));
        }
        let mut page = self.cache.page(usize::from(named.units) * owner.shape.unit_bytes);
        self.read_at(owner, block, named.layer, page.bytes_mut())?;
        self.check(owner, block, named, page.bytes())?;
        Ok(page)
    }

    /// Fills `bytes`, beginning at the place of a block.
    pub(in super::super) fn read_at(
        &self,
        owner: Owner<'_>,
        block: i64,
        layer: u8,
        bytes: &mut [u8],
    ) -> Result<()> {
        let (file, _) = owner.shape.file_of(block);
        let opened = self.open(owner.table, file)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let offset = owner.shape.offset(block, layer);
        opened.file.read_at(offset, bytes).map_err(|source| {
            let place = format!("block {block} at offset {offset}");
            if source.kind() == io::ErrorKind::UnexpectedEof {
                Error::corrupt(&opened.path, place, "the file ends before it")
            } else {
                Error::of_read(&opened.path, place, source)
            }
        })
    }

    /// Checks that `bytes` are the block that the map names.
    pub(in super::super) fn check(
        &self,
        owner: Owner<'_>,
        block: i64,
        named: &BlockRef,
        bytes: &[u8],
    ) -> Result<()> {
        owner.check_named(bytes, block, named).map_err(|reason| {
            let offset = owner.shape.offset(block, named.layer);
            let path = self.path_of(owner.table, owner.shape.file_of(block).0);
            Error::corrupt(&path, format!("block {block} at offset {offset}"), reason)
        })
    }
}
