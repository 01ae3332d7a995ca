//! Shared tools for tests and benchmarks of ordered indexes, independent of the indexes.
//!
//! - [`workload`]: seeded keys. The same seed gives the same keys on every machine and in every
//!   version.
//! - [`contract`]: the suite that every ordered index passes, sequential and concurrent, checked by
//!   an oracle.
//! - [`linearizability`]: records concurrent operations and decides whether an order explains them.
//! - [`stride`]: which share of its cases an everyday test run tries; [`go_through_corpus`]: what
//!   fuzzers have found.

pub mod contract;
mod corpus;
mod effort;
pub mod linearizability;
mod rng;
pub mod workload;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use corpus::go_through_corpus;
pub use effort::stride;
pub use rng::Rng;
