//! Shared tools for tests and benchmarks of ordered indexes, independent of the indexes.
//!
//! - [`workload`]: seeded keys. The same seed gives the same keys on every machine and in every
//!   version.
//! - [`contract`]: the suite that every ordered index passes, sequential and concurrent, checked by
//!   an oracle.
//! - [`linearizability`]: records concurrent operations and decides whether an order explains them.
//! - [`stride`]: which share of its cases an everyday test run tries.

pub mod contract;
mod effort;
pub mod linearizability;
mod rng;
pub mod workload;

pub use effort::stride;
pub use rng::Rng;
