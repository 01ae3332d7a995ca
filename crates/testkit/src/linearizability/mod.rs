//! Did concurrent operations behave as if each took effect at one instant between its call and its return?
//!
//! Threads record what they did with a [`Recorder`]; [`check`] then looks for an order that explains every answer
//! (Herlihy, Wing, "Linearizability", 1990). Keys are independent registers, and linearizability is local, so each
//! key is checked by itself.

mod check;
mod history;

pub use check::{Violation, check};
pub use history::{Action, Clock, Event, Recorder};
