//! Writing blocks, neighbours in one call.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::block::Owner;
use super::block_file::BlockFile;
use super::files::BlockFiles;
use crate::disk::DIRECT_ALIGNMENT;
use crate::error::{Error, Result};
use crate::wal::Pending;

/// Bytes written in one call to the disk: few enough that they are still in the processor's caches, and that the disk
/// has something to do soon.
const WRITE_BYTES: usize = if cfg!(any(test, fuzzing)) {
    4 << 10
} else {
    256 << 10
};
/// Bytes of a write past the system's cache: there is no copy, and no memory to be found for it, but the disk has to be waited
/// for. Fewer than an eighth are better left to a sync of all.
const DIRECT_BYTES: usize = if cfg!(any(test, fuzzing)) {
    8 << 10
} else {
    2 << 20
};
const DIRECT_BYTES_MIN: usize = DIRECT_BYTES / 8;
/// Writes that wait for the thread that does them.
const WAITING_WRITES: usize = 2;
/// From so many bytes on a thread syncs them while the log is synced.
const SYNC_HELPER_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    8 << 10
} else {
    32 << 10
};
/// From so many bytes on it writes, too, while blocks are made.
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
    /// What is to be written stands behind so many bytes, which bring it to an address that the disk can work with.
    bytes: Vec<u8>,
    padding: usize,
    written: Vec<Arc<BlockFile>>,
    /// Whether long writes go past the system's cache.
    is_direct: bool,
    /// From so many bytes on they are written.
    longest: usize,
    helper: Option<Helper>,
    /// Whether the helper writes, too.
    hands_over: bool,
}

/// A thread that writes while the next blocks are made, and syncs while the log is. Threads that nobody uses wait for
/// the next writer.
#[derive(Debug)]
pub(super) struct Helper {
    /// None once the thread is to end.
    jobs: Option<Sender<Job>>,
    /// Buffers that were written.
    done: Receiver<(Vec<u8>, Result<()>)>,
    /// How many are on their way.
    waiting: usize,
    /// Buffers to be used again.
    idle: Vec<Vec<u8>>,
    failed: Option<Error>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job {
    Write(Write),
    Sync(Vec<Arc<BlockFile>>, Sender<Result<()>>),
}

#[derive(Debug)]
struct Write {
    file: Arc<BlockFile>,
    offset: u64,
    bytes: Vec<u8>,
    /// Where in the buffer they begin.
    padding: usize,
    is_direct: bool,
}

impl Write {
    /// Writes it, and lets the disk begin with it if it is long: many short ones are better left to the sync.
    fn perform(&self) -> Result<()> {
        let bytes = &self.bytes[self.padding..];
        if self.is_direct {
            return self.file.write_past_cache(self.offset, bytes);
        }
        self.file.write(self.offset, bytes)?;
        if bytes.len() >= WRITE_BYTES {
            self.file.file.begin_sync(self.offset, bytes.len() as u64);
        }
        Ok(())
    }
}

fn sync_all(files: &[Arc<BlockFile>]) -> Result<()> {
    files.iter().try_for_each(|file| file.sync())
}

impl Helper {
    /// None if there is no thread to be had.
    pub(super) fn start() -> Option<Self> {
        let (jobs, waiting) = channel::<Job>();
        let (give_back, done) = channel();
        let work = move || {
            for job in waiting {
                // Whoever waited for it may be gone.
                match job {
                    Job::Write(mut write) => {
                        let outcome = write.perform();
                        write.bytes.clear();
                        let _ = give_back.send((write.bytes, outcome));
                    }
                    Job::Sync(files, done) => {
                        let _ = done.send(sync_all(&files));
                    }
                }
            }
        };
        let thread = thread::Builder::new()
            .name("bedload-write".into())
            .spawn(work)
            .ok()?;
        Some(Self {
            jobs: Some(jobs),
            done,
            waiting: 0,
            idle: Vec::new(),
            failed: None,
            thread: Some(thread),
        })
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            jobs.send(job).expect("the thread ends after its sender");
        }
    }

    /// Waits for one write.
    fn receive(&mut self) {
        let (buffer, outcome) = self.done.recv().expect("the thread ends after its sender");
        self.waiting -= 1;
        self.idle.push(buffer);
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    /// Hands a write over; returns an empty buffer.
    fn hand_over(&mut self, write: Write) -> Vec<u8> {
        if self.waiting == WAITING_WRITES {
            self.receive();
        }
        self.send(Job::Write(write));
        self.waiting += 1;
        self.idle.pop().unwrap_or_default()
    }

    /// Begins to sync files behind everything that was handed over.
    fn sync(&self, files: Vec<Arc<BlockFile>>) -> Receiver<Result<()>> {
        let (done, synced) = channel();
        self.send(Job::Sync(files, done));
        synced
    }

    /// Waits until everything is written.
    fn finish(&mut self) -> Result<()> {
        while self.waiting > 0 {
            self.receive();
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // What it says does not matter: nobody waits for it any more.
            let _ = thread.join();
        }
    }
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
    fn new(files: &'f BlockFiles, owner: Owner<'f>) -> Self {
        Self {
            files,
            owner,
            file: None,
            offset: 0,
            bytes: files.take_buffer(),
            padding: 0,
            written: Vec::new(),
            is_direct: false,
            longest: WRITE_BYTES,
            helper: None,
            hands_over: false,
        }
    }

    /// For blocks of which there may be many: long writes go to the disk at once, while the next blocks are made.
    pub(super) fn of_many(files: &'f BlockFiles, owner: Owner<'f>) -> Self {
        let mut writer = Self::new(files, owner);
        writer.is_direct = true;
        writer.longest = DIRECT_BYTES;
        writer.hands_over = true;
        writer
    }

    /// With a thread that syncs what is written, and that writes while the caller makes the next blocks, if there are `bytes`
    /// enough. If the caller waits for the disk anyway, `is_direct` lets long writes go there at once.
    pub(super) fn with_helper(
        files: &'f BlockFiles,
        owner: Owner<'f>,
        bytes: usize,
        is_direct: bool,
    ) -> Self {
        let mut writer = Self::new(files, owner);
        writer.is_direct = is_direct;
        let mut handed_over = WRITE_HELPER_BYTES_MIN;
        if is_direct {
            // Of about the same length, so that none is much too short. Blocks have a little more bytes than their rows.
            let even = bytes.div_ceil(bytes.div_ceil(DIRECT_BYTES).max(1));
            writer.longest = even + even / 16;
            handed_over = DIRECT_BYTES;
        }
        if bytes >= SYNC_HELPER_BYTES_MIN {
            writer.helper = files.take_helper();
            writer.hands_over = bytes > handed_over;
        }
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
        let waiting = self.bytes.len() - self.padding;
        let goes_on = is_same && self.offset + waiting as u64 == offset;
        if !goes_on || waiting >= self.longest {
            self.write_out()?;
            if !is_same {
                let opened = self.files.open_or_create(self.owner.table, file)?;
                self.written.push(opened.clone());
                self.file = Some((file, opened));
            }
            self.offset = offset;
        }
        self.files.count_write();
        if self.bytes.is_empty() && self.is_direct {
            // With room for all that goes there it stays where it is; blocks of much text may not.
            let stride = usize::try_from(shape.stride).unwrap_or(usize::MAX);
            self.bytes
                .reserve(DIRECT_ALIGNMENT + self.longest + stride.min(DIRECT_BYTES));
            self.padding = self.bytes.as_ptr().align_offset(DIRECT_ALIGNMENT);
            self.bytes.resize(self.padding, 0);
        }
        Ok(&mut self.bytes)
    }

    fn write_out(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let (padding, len) = (std::mem::take(&mut self.padding), bytes.len());
        let Some((_, file)) = self.file.as_ref().filter(|_| len > padding) else {
            self.bytes = bytes;
            self.bytes.clear();
            return Ok(());
        };
        let write = Write {
            file: file.clone(),
            offset: self.offset,
            bytes,
            padding,
            is_direct: self.is_direct && len - padding >= DIRECT_BYTES_MIN,
        };
        if self.hands_over && self.helper.is_none() && write.is_direct {
            self.helper = self.files.take_helper();
        }
        if let Some(helper) = self.helper.as_mut().filter(|_| self.hands_over) {
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
        self.helper.as_mut().map_or(Ok(()), Helper::finish)?;
        Ok(std::mem::take(&mut self.written))
    }

    /// Writes what waits, and begins to sync it if there is somebody to do it and `now` is the time.
    pub(super) fn finish_syncing(mut self, now: bool) -> Result<Unsynced> {
        self.write_out()?;
        let files = std::mem::take(&mut self.written);
        let Some(helper) = &mut self.helper else {
            return Ok(Unsynced { files, begun: None });
        };
        let begun = now.then(|| Mutex::new(helper.sync(files.clone())));
        let unsynced = Unsynced { files, begun };
        // A failed sync is told once: who does not hear of it takes what was lost for durable.
        helper.finish().or_else(|error| unsynced.wait().and(Err(error)))?;
        Ok(unsynced)
    }
}

impl Drop for BlockWriter<'_> {
    fn drop(&mut self) {
        self.files.keep_buffer(std::mem::take(&mut self.bytes));
        if let Some(mut helper) = self.helper.take() {
            // Nothing is written any more once the writer is gone, so that the places of blocks that are given up can be
            // given to others. If something failed, whoever gave up knows.
            let _ = helper.finish();
            self.files.keep_helper(helper);
        }
    }
}
