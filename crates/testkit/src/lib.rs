//! What the tests and benchmarks of ordered indexes share, and nothing of the indexes themselves.
//!
//! - [`workload`]: seeded keys. The same seed gives the same keys on every machine and in every version.
//! - [`contract`]: the suite that every ordered index passes, sequential and concurrent, against an oracle.
//! - [`linearizability`]: records what concurrent threads did and decides whether some order explains it.

pub mod contract;
pub mod linearizability;
mod rng;
pub mod workload;

pub use rng::Rng;
