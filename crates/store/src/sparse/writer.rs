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
pub(super) const WRITE_BYTES: usize = if cfg!(any(test, fuzzing)) {
    4 << 10
} else {
    256 << 10
};
/// From so many bytes on they go past the system's cache, in longer pieces: that much memory takes longer to be found than the
/// disk does.
const PAST_CACHE_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    12 << 10
} else {
    32 << 20
};
/// Bytes of a write past the system's cache.
const PAST_CACHE_WRITE_BYTES: usize = 2 * WRITE_BYTES;
/// Writes that wait for the thread that does them.
const WAITING_WRITES: usize = 4;
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
    bytes: Vec<u8>,
    /// So many bytes before them bring them to an address that the disk can work with.
    padding: usize,
    /// Whether they go past the system's cache.
    past_cache: bool,
    written: Vec<Arc<BlockFile>>,
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
    failed: Option<Error>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Job {
    Write(Write),
    /// Says that everything before it is written.
    Report(Sender<()>),
    Sync(Vec<Arc<BlockFile>>, Sender<Result<()>>),
}

#[derive(Debug)]
struct Write {
    file: Arc<BlockFile>,
    offset: u64,
    bytes: Vec<u8>,
    /// Where in the buffer they begin.
    padding: usize,
    past_cache: bool,
}

impl Write {
    /// Writes it, and lets the disk begin with it if it is long: many short ones are better left to the sync.
    fn perform(&self) -> Result<()> {
        let bytes = &self.bytes[self.padding..];
        if self.past_cache {
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
                    Job::Report(done) => {
                        let _ = done.send(());
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
            failed: None,
            thread: Some(thread),
        })
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            jobs.send(job).expect("the thread ends after its sender");
        }
    }

    /// Waits for one write; returns its buffer, which is empty.
    fn receive(&mut self) -> Vec<u8> {
        let (buffer, outcome) = self.done.recv().expect("the thread ends after its sender");
        self.waiting -= 1;
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
        buffer
    }

    /// Hands a write over; returns an empty buffer to go on with.
    fn hand_over(&mut self, write: Write, files: &BlockFiles) -> Vec<u8> {
        let buffer = if self.waiting < WAITING_WRITES {
            files.take_buffer()
        } else {
            self.receive()
        };
        self.send(Job::Write(write));
        self.waiting += 1;
        buffer
    }

    /// Begins to sync files behind everything that was handed over.
    fn sync(&self, files: Vec<Arc<BlockFile>>) -> Receiver<Result<()>> {
        let (done, synced) = channel();
        self.send(Job::Sync(files, done));
        synced
    }

    /// Asks to be told once everything is written that was handed over, if there is such: to wake somebody for each write
    /// delays the next one.
    fn report(&self) -> Option<Receiver<()>> {
        (self.waiting > 0).then(|| {
            let (done, written) = channel();
            self.send(Job::Report(done));
            written
        })
    }

    /// Waits until everything is written, of which `report` tells.
    fn finish(&mut self, report: Option<Receiver<()>>, files: &BlockFiles) -> Result<()> {
        if let Some(report) = report {
            report.recv().expect("the thread ends after its sender");
        }
        while self.waiting > 0 {
            files.keep_buffer(self.receive());
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

    /// As [`new`](Self::new), with a thread that syncs what is written, and that writes while the caller makes the next
    /// blocks, if there are `bytes` enough.
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
        let longest = if self.past_cache {
            PAST_CACHE_WRITE_BYTES
        } else {
            WRITE_BYTES
        };
        if !goes_on || waiting >= longest {
            self.write_out()?;
            if !is_same {
                let opened = self.files.open_or_create(self.owner.table, file)?;
                self.written.push(opened.clone());
                self.file = Some((file, opened));
            }
            self.offset = offset;
        }
        self.files.count_write();
        if self.bytes.is_empty() && self.past_cache {
            // With room for all that goes there it stays where it is; blocks of much text may not, and go through the cache.
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
            past_cache: self.past_cache,
        };
        if self.hands_over && self.helper.is_none() && is_long {
            self.helper = self.files.take_helper();
        }
        if let Some(helper) = self.helper.as_mut().filter(|_| self.hands_over) {
            self.bytes = helper.hand_over(write, self.files);
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
            let report = helper.report();
            helper.finish(report, self.files)?;
        }
        Ok(std::mem::take(&mut self.written))
    }

    /// Writes what waits, and begins to sync it if there is somebody to do it and `now` is the time.
    pub(super) fn finish_syncing(mut self, now: bool) -> Result<Unsynced> {
        self.write_out()?;
        let files = std::mem::take(&mut self.written);
        let Some(helper) = &mut self.helper else {
            return Ok(Unsynced { files, begun: None });
        };
        let report = helper.report();
        let begun = now.then(|| Mutex::new(helper.sync(files.clone())));
        let unsynced = Unsynced { files, begun };
        // A failed sync is told once: who does not hear of it takes what was lost for durable.
        let finished = helper.finish(report, self.files);
        finished.or_else(|error| unsynced.wait().and(Err(error)))?;
        Ok(unsynced)
    }
}

impl Drop for BlockWriter<'_> {
    fn drop(&mut self) {
        self.files.keep_buffer(std::mem::take(&mut self.bytes));
        if let Some(mut helper) = self.helper.take() {
            // Nothing is written any more once the writer is gone, so that the places of blocks that are given up can be
            // given to others. If something failed, whoever gave up knows.
            let report = helper.report();
            let _ = helper.finish(report, self.files);
            self.files.keep_helper(helper);
        }
    }
}
