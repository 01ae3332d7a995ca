//! Checks that each concurrent operation seems to take effect at one instant between call and
//! return.
//!
//! Threads record their operations with a [`Recorder`]; [`check`] then searches for an order that
//! explains every answer (Herlihy, Wing, "Linearizability", 1990). Keys are independent registers,
//! and linearizability is local, so each key is checked separately.

mod check;
mod history;

pub use check::{Violation, check};
pub use history::{Action, Clock, Event, Recorder};
