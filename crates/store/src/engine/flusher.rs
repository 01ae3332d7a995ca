//! The background thread: flushes when asked to, and syncs the log of a store that commits without
//! waiting for it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::state::Engine;
use super::wake::Woken;
use crate::error::Result;
use crate::options::Durability;

/// The running thread; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Flusher {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(crate) fn start(engine: Arc<Engine>) -> Self {
        let run = {
            let engine = engine.clone();
            move || while engine.flush_when_woken() {}
        };
        let thread = std::thread::Builder::new()
            .name("bedload-flush".into())
            .spawn(run);
        if let Err(error) = &thread {
            // Writers flush for themselves when there is no thread.
            tracing::warn!(%error, "there is no background thread");
        }
        Self {
            engine,
            thread: thread.ok(),
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        if self.engine.is_inherited() {
            // The thread belongs to another process; here there is nothing to join or detach.
            std::mem::forget(self.thread.take());
            return;
        }
        self.engine.wake.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the background thread ended by a panic");
        }
    }
}

impl Engine {
    /// Waits for something to do and does it; `false` once the thread is to stop.
    fn flush_when_woken(&self) -> bool {
        let done = match self.wake.wait(self.options.durability == Durability::Relaxed) {
            Woken::Stop => return false,
            Woken::Flush => self.relieve_in_background(),
            Woken::Sync => {
                let synced = self.sync();
                self.wake.sync_answered();
                synced
            }
            Woken::GiveBack => {
                self.give_more_space_back();
                Ok(())
            }
        };
        if let Err(error) = done {
            // A writer that finds the memory for rows full tries again and gets the error.
            tracing::warn!(%error, "a flush in the background failed");
        }
        true
    }

    /// Makes everything committed so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.log
            .sync_to(self.log.end())
            .map_err(|error| self.fail(error))?;
        self.wake.synced(Instant::now());
        Ok(())
    }
}
