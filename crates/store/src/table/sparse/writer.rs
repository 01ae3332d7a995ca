//! Writing blocks, neighbours in one call.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use parking_lot::Mutex;

use super::block::Owner;
use super::block_file::BlockFile;
use super::files::{BlockFiles, UNSYNCED_FILES};
use super::write_helper::{Helper, WRITE_BYTES, Write, sync_all};
use crate::disk::DIRECT_ALIGNMENT;
use crate::error::Result;
use crate::wal::Pending;

/// Bytes of a write past the system's cache.
const PAST_CACHE_WRITE_BYTES: usize = 2 * WRITE_BYTES;
/// At or above this many bytes writes bypass the cache, whose memory takes longer to be found than
/// the disk takes to write. With eight writes or more, it costs little that the disk waits for the
/// first and that nothing is made during the last.
const PAST_CACHE_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    12 << 10
} else {
    8 * PAST_CACHE_WRITE_BYTES
};
/// At or above this many bytes a thread syncs them while the log is synced.
const SYNC_HELPER_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    8 << 10
} else {
    32 << 10
};
/// At or above this many bytes it writes, too, while blocks are made.
const WRITE_HELPER_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    16 << 10
} else {
    512 << 10
};

/// Writes blocks of a table. Best in the order of their numbers.
pub(super) struct BlockWriter<'f> {
    files: &'f BlockFiles,
    owner: Owner<'f>,
    /// The file to which `bytes` go, at `offset`.
    file: Option<(i64, Arc<BlockFile>)>,
    offset: u64,
    bytes: Vec<u8>,
    /// This many bytes before them align them for the disk.
    padding: usize,
    /// Whether they go past the system's cache.
    past_cache: bool,
    written: Vec<Arc<BlockFile>>,
    helper: Option<Helper>,
    /// Whether the helper writes, too.
    hands_over: bool,
}

/// Blocks that were written, and are being synced or are still to be.
#[derive(Debug)]
pub(crate) struct Unsynced {
    files: Vec<Arc<BlockFile>>,
    begun: Option<Mutex<Receiver<Result<()>>>>,
}

impl Pending for Unsynced {
    fn wait(&self) -> Result<()> {
        match &self.begun {
            Some(begun) => begun.lock().recv().unwrap_or_else(|_| sync_all(&self.files)),
            None => sync_all(&self.files),
        }
    }
}

impl<'f> BlockWriter<'f> {
    pub(super) fn new(files: &'f BlockFiles, owner: Owner<'f>) -> Self {
        Self {
            files,
            owner,
            file: None,
            offset: 0,
            bytes: files.take_buffer(),
            padding: 0,
            past_cache: false,
            written: Vec::new(),
            helper: None,
            hands_over: false,
        }
    }

    /// As [`new`](Self::new), with a thread that syncs what is written, and that writes while the
    /// caller makes the next blocks, if there are `bytes` enough.
    pub(super) fn with_helper(files: &'f BlockFiles, owner: Owner<'f>, bytes: usize) -> Self {
        let mut writer = Self::new(files, owner);
        if bytes >= SYNC_HELPER_BYTES_MIN {
            writer.helper = files.take_helper();
            writer.hands_over = bytes >= WRITE_HELPER_BYTES_MIN;
        }
        writer.past_cache = bytes >= PAST_CACHE_BYTES_MIN;
        writer
    }

    /// For blocks of which there may be many: a thread writes those that fill a buffer.
    pub(super) fn of_many(files: &'f BlockFiles, owner: Owner<'f>) -> Self {
        let mut writer = Self::new(files, owner);
        writer.hands_over = true;
        writer
    }

    /// Says how many bytes are about to be written. Pending bytes are written before.
    pub(super) fn expect(&mut self, bytes: usize) -> Result<()> {
        self.write_out()?;
        self.past_cache = bytes >= PAST_CACHE_BYTES_MIN;
        Ok(())
    }

    /// Writes a block to its place in a layer, which was taken for it; it may wait for the next
    /// ones.
    pub(super) fn write(&mut self, block: i64, layer: u8, bytes: &[u8]) -> Result<()> {
        self.place(block, layer)?.extend_from_slice(bytes);
        Ok(())
    }

    /// As [`write`](Self::write), for a block that is appended to the buffer as soon as this returns.
    pub(super) fn place(&mut self, block: i64, layer: u8) -> Result<&mut Vec<u8>> {
        let shape = self.owner.shape;
        let (file, offset) = (shape.file_of(block).0, shape.offset(block, layer));
        let is_same = self.file.as_ref().is_some_and(|(open, _)| *open == file);
        let waiting = self.bytes.len() - self.padding;
        let goes_on = is_same && self.offset + waiting as u64 == offset;
        let longest = if self.past_cache {
            PAST_CACHE_WRITE_BYTES
        } else {
            WRITE_BYTES
        };
        if !goes_on || waiting >= longest {
            self.write_out()?;
            if !is_same {
                if self.written.len() >= UNSYNCED_FILES {
                    self.sync_written()?;
                }
                let opened = self.files.open_or_create(self.owner.table, file)?;
                self.written.push(opened.clone());
                self.file = Some((file, opened));
            }
            self.offset = offset;
        }
        self.files.count_write();
        if self.bytes.is_empty() && self.past_cache {
            // With room for everything the buffer is not moved; blocks of much text may move it,
            // and go through the cache.
            self.bytes
                .reserve(DIRECT_ALIGNMENT + PAST_CACHE_WRITE_BYTES + shape.block_bytes());
            self.padding = self.bytes.as_ptr().align_offset(DIRECT_ALIGNMENT);
            self.bytes.resize(self.padding, 0);
        }
        Ok(&mut self.bytes)
    }

    fn write_out(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let padding = std::mem::take(&mut self.padding);
        let Some((_, file)) = self.file.as_ref().filter(|_| bytes.len() > padding) else {
            self.bytes = bytes;
            self.bytes.clear();
            return Ok(());
        };
        let is_long = bytes.len() >= WRITE_BYTES;
        let write = Write {
            file: file.clone(),
            offset: self.offset,
            bytes,
            padding,
            // There may be many short ones, and the disk is waited for after each.
            past_cache: self.past_cache && is_long,
        };
        if self.hands_over && self.helper.is_none() && is_long {
            self.helper = self.files.take_helper();
        }
        if let Some(helper) = self.helper.as_mut().filter(|_| self.hands_over) {
            self.bytes = helper.hand_over(write, || self.files.take_buffer());
            return Ok(());
        }
        let outcome = write.perform();
        // Keeps the allocation.
        self.bytes = write.bytes;
        self.bytes.clear();
        outcome
    }

    /// Waits for the helper's writes.
    fn wait_for_writes(&mut self) -> Result<()> {
        let Some(helper) = &mut self.helper else {
            return Ok(());
        };
        let report = helper.report();
        helper.finish(report, |buffer| self.files.keep_buffer(buffer))
    }

    /// Syncs what was written so far, so that a process need not have all files open at a time.
    /// Nothing names the blocks yet.
    fn sync_written(&mut self) -> Result<()> {
        self.wait_for_writes()?;
        sync_all(&self.written)?;
        self.written.clear();
        Ok(())
    }

    /// Writes what waits; returns the files that are to be synced.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<BlockFile>>> {
        self.write_out()?;
        self.wait_for_writes()?;
        Ok(std::mem::take(&mut self.written))
    }

    /// Writes what waits, and begins to sync it if there is a helper and `now` is the time.
    pub(super) fn finish_syncing(mut self, now: bool) -> Result<Unsynced> {
        self.write_out()?;
        let files = std::mem::take(&mut self.written);
        let Some(helper) = &mut self.helper else {
            return Ok(Unsynced { files, begun: None });
        };
        let report = helper.report();
        let begun = now.then(|| Mutex::new(helper.sync(files.clone())));
        let unsynced = Unsynced { files, begun };
        // A failed sync is reported once: a thread that misses it takes what was lost for durable.
        let finished = helper.finish(report, |buffer| self.files.keep_buffer(buffer));
        finished.or_else(|error| unsynced.wait().and(Err(error)))?;
        Ok(unsynced)
    }
}

impl Drop for BlockWriter<'_> {
    fn drop(&mut self) {
        self.files.keep_buffer(std::mem::take(&mut self.bytes));
        if let Some(mut helper) = self.helper.take() {
            // Nothing is written any more once the writer is gone, so that the places of blocks
            // that are given up can be reused. If something failed, the caller that gave up knows.
            let report = helper.report();
            let _ = helper.finish(report, |buffer| self.files.keep_buffer(buffer));
            self.files.keep_helper(helper);
        }
    }
}
