//! Histories: the calls of each thread, their times, and their answers.

use std::sync::atomic::{AtomicU64, Ordering};

/// An operation on a key, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Set a value.
    Insert(u64),
    /// Looked the key up and saw this.
    Get(Option<u64>),
    /// Removed the key and returned its value.
    Remove(Option<u64>),
    /// Removed the key without an answer.
    RemoveBlind,
}

/// One operation of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The thread that called.
    pub thread: usize,
    /// The key, as a rank or any other number.
    pub key: u64,
    /// The operation and its answer.
    pub action: Action,
    /// The stamp of the call.
    pub invoked: u64,
    /// The stamp of the return, after `invoked`.
    pub responded: u64,
}

/// Stamps the calls and returns of all threads of one history.
///
/// It is a counter: readings of a processor's clock may be reordered with the operation between
/// them, so that a correct history looks wrong.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// Creates a clock at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn stamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Records the operations of one thread.
///
/// ```
/// use bedload_testkit::linearizability::{Action, Clock, Recorder, check};
/// let clock = Clock::new();
/// let mut recorder = Recorder::new(&clock, 0);
/// recorder.record(7, || Action::Insert(1));
/// recorder.record(7, || Action::Get(Some(1)));
/// assert!(check(&recorder.into_events()).is_ok());
/// ```
#[derive(Debug)]
pub struct Recorder<'c> {
    clock: &'c Clock,
    thread: usize,
    events: Vec<Event>,
}

impl<'c> Recorder<'c> {
    /// Creates a recorder for one thread.
    #[must_use]
    pub const fn new(clock: &'c Clock, thread: usize) -> Self {
        Self {
            clock,
            thread,
            events: Vec::new(),
        }
    }

    /// Calls `operation` on `key` and records the action that it returns.
    pub fn record(&mut self, key: u64, operation: impl FnOnce() -> Action) {
        let invoked = self.clock.stamp();
        let action = operation();
        let responded = self.clock.stamp();
        self.events.push(Event {
            thread: self.thread,
            key,
            action,
            invoked,
            responded,
        });
    }

    /// Returns the recorded events in the order of this thread.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}
