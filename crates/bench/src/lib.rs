//! Measures Bedload's indexes beside their peers.
//!
//! Absolute figures are the machine's; what counts are ratios within one run. So a run makes several rounds, in each
//! of which every subject has its turn, checks each subject's answers before it is timed, and reports medians, extremes
//! and the ratio to a baseline of the same run.

mod crossing;
pub mod near_sorted;
pub mod record;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocksdb;
pub mod runner;
pub mod scenarios;
pub mod stores;
pub mod subjects;
