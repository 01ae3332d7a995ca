//! The background thread: flushes when asked to, and syncs the log of a store that commits without waiting for it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Engine;
use crate::error::Result;
use crate::options::Durability;

/// Under [`Durability::Relaxed`], how long the log may wait for a sync.
const RELAXED_INTERVAL: Duration = Duration::from_secs(1);

/// What wakes the thread, and when the log was last synced for good.
#[derive(Debug)]
pub(super) struct Wake {
    state: Mutex<WakeState>,
    changed: Condvar,
}

#[derive(Debug)]
struct WakeState {
    flush: bool,
    stop: bool,
    synced: Instant,
}

impl Wake {
    pub(super) fn new() -> Self {
        let state = WakeState {
            flush: false,
            stop: false,
            synced: Instant::now(),
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Asks for a flush; nothing happens without a thread.
    pub(super) fn flush(&self) {
        let mut state = self.state.lock();
        if !state.flush {
            state.flush = true;
            self.changed.notify_one();
        }
    }

    pub(super) fn sync_is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.state.lock().synced) >= RELAXED_INTERVAL
    }

    pub(super) fn synced(&self, now: Instant) {
        self.state.lock().synced = now;
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }
}

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
            // The thread is one of another process; here there is nothing to be joined, nor to be detached.
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
        let mut state = self.wake.state.lock();
        if !state.flush && !state.stop {
            match self.options.durability {
                Durability::Relaxed => drop(self.wake.changed.wait_for(&mut state, RELAXED_INTERVAL)),
                _ => self.wake.changed.wait(&mut state),
            }
        }
        if state.stop {
            return false;
        }
        let flush = std::mem::take(&mut state.flush);
        drop(state);
        let done = if flush { self.flush() } else { self.sync() };
        if let Err(error) = done {
            // Whoever next finds the memory for rows full tries again and gets the error.
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
