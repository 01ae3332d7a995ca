//! Histories: what each thread called, when, and what it was answered.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was done to a key, and the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Put a value in place.
    Insert(u64),
    /// Looked the key up and saw this.
    Get(Option<u64>),
    /// Removed the key and learnt what was there.
    Remove(Option<u64>),
    /// Removed the key and learnt nothing.
    RemoveBlind,
}

/// One operation of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The thread that called.
    pub thread: usize,
    /// The key it called for, by rank or any other number.
    pub key: u64,
    /// What it did and saw.
    pub action: Action,
    /// When it called.
    pub invoked: u64,
    /// When it was answered: after `invoked`.
    pub responded: u64,
}

/// Stamps the calls and returns of all threads of one history.
///
/// A counter and not a time: two readings of a processor's clock may be reordered with what lies between them, and
/// then a correct history looks wrong.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// A clock at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn stamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Records what one thread does.
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
    /// A recorder for one thread.
    #[must_use]
    pub const fn new(clock: &'c Clock, thread: usize) -> Self {
        Self {
            clock,
            thread,
            events: Vec::new(),
        }
    }

    /// Calls `operation` on `key` and records the action it says it performed.
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

    /// What was recorded, in the order of this thread.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }
}
