//! Wakes the background thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Under [`Durability::Relaxed`], how long the log may wait for a sync.
const RELAXED_INTERVAL: Duration = Duration::from_secs(1);

/// Wakes the thread, and remembers when the log was last synced.
#[derive(Debug)]
pub(super) struct Wake {
    state: Mutex<WakeState>,
    changed: Condvar,
    started: Instant,
    /// When the log was last synced, in milliseconds since the start.
    synced_ms: AtomicU64,
}

/// A task of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    Flush,
    Sync,
    GiveBack,
    Stop,
}

#[derive(Debug)]
struct WakeState {
    flush: bool,
    sync: bool,
    give_back: bool,
    stop: bool,
}

impl Wake {
    pub(super) fn new() -> Self {
        let state = WakeState {
            flush: false,
            sync: false,
            give_back: false,
            stop: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            started: Instant::now(),
            synced_ms: AtomicU64::new(0),
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

    /// Asks for free space to be given back, once nothing else is to be done.
    pub(super) fn give_back(&self) {
        let mut state = self.state.lock();
        if !state.give_back {
            state.give_back = true;
            self.changed.notify_one();
        }
    }

    /// Requests a sync of the log, unless a request is still not [answered](Self::sync_answered).
    pub(super) fn sync(&self) {
        let mut state = self.state.lock();
        if !state.sync {
            state.sync = true;
            self.changed.notify_one();
        }
    }

    /// A sync that was asked for, or was due, is done, or failed.
    pub(super) fn sync_answered(&self) {
        self.synced(Instant::now());
        self.state.lock().sync = false;
    }

    pub(super) fn sync_is_due(&self, now: Instant) -> bool {
        let synced = Duration::from_millis(self.synced_ms.load(Ordering::Relaxed));
        now.saturating_duration_since(self.started + synced) >= RELAXED_INTERVAL
    }

    pub(super) fn synced(&self, now: Instant) {
        let since_start = now.saturating_duration_since(self.started).as_millis();
        let since_start = u64::try_from(since_start).unwrap_or(u64::MAX);
        self.synced_ms.store(since_start, Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }

    /// Waits for something to do; with a limit if the log is synced `in_turns`.
    pub(super) fn wait(&self, in_turns: bool) -> Woken {
        let mut state = self.state.lock();
        if !state.flush && !state.sync && !state.give_back && !state.stop {
            if in_turns {
                self.changed.wait_for(&mut state, RELAXED_INTERVAL);
            } else {
                self.changed.wait(&mut state);
            }
        }
        if state.stop {
            Woken::Stop
        } else if std::mem::take(&mut state.flush) {
            Woken::Flush
        } else if state.sync || !state.give_back || in_turns && self.sync_is_due(Instant::now()) {
            // Giving space back takes several turns, and a sync does not wait for the last.
            Woken::Sync
        } else {
            state.give_back = false;
            Woken::GiveBack
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_is_due_comes_before_space_is_given_back() {
        let wake = Wake {
            started: Instant::now() - 2 * RELAXED_INTERVAL,
            ..Wake::new()
        };
        wake.give_back();
        assert_eq!(wake.wait(true), Woken::Sync);
        wake.sync_answered();
        assert_eq!(wake.wait(true), Woken::GiveBack);
    }
}
