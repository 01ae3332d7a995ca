//! Writing blocks, neighbours in one call.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::block::Owner;
use super::files::{BlockFile, BlockFiles};
use crate::error::Result;

/// Bytes written in one call to the disk: few enough that they are still in the processor's caches, and that the disk
/// has something to do soon.
const WRITE_BYTES: usize = 256 << 10;
/// Writes that wait for the thread that does them.
const WAITING_WRITES: usize = 4;

/// Writes blocks of a table. Best in the order of their numbers.
pub(super) struct BlockWriter<'f> {
    files: &'f BlockFiles,
    owner: Owner<'f>,
    /// The file to which `bytes` go, at `offset`.
    file: Option<(i64, Arc<BlockFile>)>,
    offset: u64,
    bytes: Vec<u8>,
    written: Vec<Arc<BlockFile>>,
    helper: Option<Helper>,
}

/// A thread that writes while the next blocks are made. Nothing is written any more once it is dropped, so that the
/// places of blocks that are given up can be given to others.
struct Helper {
    /// None once the last write was handed over.
    writes: Option<SyncSender<Write>>,
    /// Buffers that were written.
    spare: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<Result<()>>>,
}

struct Write {
    file: Arc<BlockFile>,
    offset: u64,
    bytes: Vec<u8>,
}

impl Write {
    /// Writes it, and lets the disk begin with it.
    fn perform(&self) -> Result<()> {
        self.file.write(self.offset, &self.bytes)?;
        self.file.file.begin_sync(self.offset, self.bytes.len() as u64);
        Ok(())
    }
}

impl Helper {
    /// None if there is no thread to be had.
    fn start() -> Option<Self> {
        let (writes, waiting) = sync_channel::<Write>(WAITING_WRITES);
        let (give_back, spare) = channel();
        let work = move || {
            let mut outcome = Ok(());
            for mut write in waiting {
                outcome = outcome.and_then(|()| write.perform());
                write.bytes.clear();
                // Whoever waited for it may be gone.
                let _ = give_back.send(write.bytes);
            }
            outcome
        };
        let thread = thread::Builder::new()
            .name("bedload-write".into())
            .spawn(work)
            .ok()?;
        Some(Self {
            writes: Some(writes),
            spare,
            thread: Some(thread),
        })
    }

    /// Hands a write over; returns an empty buffer.
    fn hand_over(&self, write: Write) -> Vec<u8> {
        if let Some(writes) = &self.writes {
            writes.send(write).expect("the thread ends after its sender");
        }
        self.spare.try_recv().unwrap_or_default()
    }

    /// Waits until everything is written.
    fn finish(&mut self) -> Result<()> {
        self.writes = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => resume_unwind(panic),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            // What it says does not matter: what it wrote is given up.
            let _ = thread.join();
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
            written: Vec::new(),
            helper: None,
        }
    }

    /// As [`new`](Self::new), with a thread that writes while the caller makes the next blocks.
    pub(super) fn with_helper(files: &'f BlockFiles, owner: Owner<'f>) -> Self {
        let mut writer = Self::new(files, owner);
        writer.helper = Helper::start();
        writer
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
        let Some((_, file)) = self.file.as_ref().filter(|_| !bytes.is_empty()) else {
            self.bytes = bytes;
            return Ok(());
        };
        let write = Write {
            file: file.clone(),
            offset: self.offset,
            bytes,
        };
        if let Some(helper) = &self.helper {
            self.bytes = helper.hand_over(write);
            return Ok(());
        }
        let outcome = write.perform();
        // Keeps the allocation.
        self.bytes = write.bytes;
        self.bytes.clear();
        outcome
    }

    /// Writes what waits; returns the files that are to be synced.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<BlockFile>>> {
        self.write_out()?;
        if let Some(helper) = &mut self.helper {
            helper.finish()?;
        }
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for BlockWriter<'_> {
    fn drop(&mut self) {
        self.files.keep_buffer(std::mem::take(&mut self.bytes));
    }
}
