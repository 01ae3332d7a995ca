//! A thread that writes, and syncs what it wrote, beside the one that makes blocks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::block_file::BlockFile;
use crate::error::{Error, Result};

/// Bytes written in one call to the disk: few enough that they are still in the processor's caches,
/// and that the disk has something to do soon.
pub(super) const WRITE_BYTES: usize = if cfg!(any(test, fuzzing)) {
    4 << 10
} else {
    256 << 10
};
/// Writes that wait for the thread that does them.
const WAITING_WRITES: usize = 4;

/// A thread that writes while the next blocks are made, and syncs while the log is. Idle threads
/// wait for the next writer.
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

/// Bytes on their way to a file.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) file: Arc<BlockFile>,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    /// Where in the buffer they begin.
    pub(super) padding: usize,
    pub(super) past_cache: bool,
}

impl Write {
    /// Writes it, and lets the disk begin with it if it is long: many short ones are better left to
    /// the sync.
    pub(super) fn perform(&self) -> Result<()> {
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

pub(super) fn sync_all(files: &[Arc<BlockFile>]) -> Result<()> {
    files.iter().try_for_each(|file| file.sync())
}

impl Helper {
    /// None if there is no thread to be had.
    pub(super) fn start() -> Option<Self> {
        let (jobs, waiting) = channel::<Job>();
        let (give_back, done) = channel();
        let work = move || {
            for job in waiting {
                // The thread that waited for it may be gone.
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

    /// Hands a write over; returns an empty buffer to go on with, a spare one if few writes wait.
    pub(super) fn hand_over(&mut self, write: Write, spare: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let buffer = if self.waiting < WAITING_WRITES {
            spare()
        } else {
            self.receive()
        };
        self.send(Job::Write(write));
        self.waiting += 1;
        buffer
    }

    /// Begins to sync files after all writes that were handed over.
    pub(super) fn sync(&self, files: Vec<Arc<BlockFile>>) -> Receiver<Result<()>> {
        let (done, synced) = channel();
        self.send(Job::Sync(files, done));
        synced
    }

    /// Asks for one report once all writes that were handed over are done, if there are any: waking
    /// a thread for each would delay the next.
    pub(super) fn report(&self) -> Option<Receiver<()>> {
        (self.waiting > 0).then(|| {
            let (done, written) = channel();
            self.send(Job::Report(done));
            written
        })
    }

    /// Waits until everything is written, of which `report` tells; gives back the buffers.
    pub(super) fn finish(
        &mut self,
        report: Option<Receiver<()>>,
        mut give_back: impl FnMut(Vec<u8>),
    ) -> Result<()> {
        if let Some(report) = report {
            report.recv().expect("the thread ends after its sender");
        }
        while self.waiting > 0 {
            give_back(self.receive());
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its result is ignored: no thread waits for it.
            let _ = thread.join();
        }
    }
}
