//! Writing blocks, neighbours in one call.

use std::sync::Arc;

use super::block::Owner;
use super::files::{BlockFile, BlockFiles};
use crate::error::Result;

/// Bytes written in one call to the disk: few enough that they are still in the processor's caches, and that the disk
/// has something to do soon.
const WRITE_BYTES: usize = 256 << 10;

/// Writes blocks of a table. Best in the order of their numbers.
pub(super) struct BlockWriter<'f> {
    files: &'f BlockFiles,
    owner: Owner<'f>,
    /// The file to which `bytes` go, at `offset`.
    file: Option<(i64, Arc<BlockFile>)>,
    offset: u64,
    bytes: Vec<u8>,
    written: Vec<Arc<BlockFile>>,
}

impl<'f> BlockWriter<'f> {
    pub(super) fn new(files: &'f BlockFiles, owner: Owner<'f>) -> Self {
        Self {
            files,
            owner,
            file: None,
            offset: 0,
            bytes: files.take_buffer(),
            written: Vec::new(),
        }
    }

    /// Writes a block to its place in a layer, which was taken for it; it may wait for the next ones.
    pub(super) fn write(&mut self, block: i64, layer: u8, bytes: &[u8]) -> Result<()> {
        self.place(block, layer)?.extend_from_slice(bytes);
        Ok(())
    }

    /// As [`write`](Self::write), for a block that is appended to the buffer as soon as this returns.
    pub(super) fn place(&mut self, block: i64, layer: u8) -> Result<&mut Vec<u8>> {
        let shape = self.owner.shape;
        let (file, offset) = (shape.file_of(block).0, shape.offset(block, layer));
        let is_same = self.file.as_ref().is_some_and(|(open, _)| *open == file);
        let goes_on = is_same && self.offset + self.bytes.len() as u64 == offset;
        if !goes_on || self.bytes.len() >= WRITE_BYTES {
            self.write_out()?;
            if !is_same {
                let opened = self.files.open_or_create(self.owner.table, file)?;
                self.written.push(opened.clone());
                self.file = Some((file, opened));
            }
            self.offset = offset;
        }
        self.files.count_write();
        Ok(&mut self.bytes)
    }

    fn write_out(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some((_, file)) = self.file.as_ref().filter(|_| !bytes.is_empty()) {
            file.write(self.offset, &bytes)?;
            file.file.begin_sync(self.offset, bytes.len() as u64);
        }
        // Keeps the allocation.
        self.bytes = bytes;
        self.bytes.clear();
        Ok(())
    }

    /// Writes what waits; returns the files that are to be synced.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<BlockFile>>> {
        self.write_out()?;
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for BlockWriter<'_> {
    fn drop(&mut self) {
        self.files.keep_buffer(std::mem::take(&mut self.bytes));
    }
}
