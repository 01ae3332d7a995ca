//! Measures Bedload's indexes and stores, and their peers.
//!
//! Absolute figures depend on the machine; compare ratios within one run. A run makes several
//! rounds, in each of which every subject has its turn, checks each subject's answers before timing
//! it, and reports medians, extremes and the ratio to a baseline of the same run.

mod crossing;
mod latencies;
pub mod plan;
pub mod record;
pub mod report;
pub mod runner;
pub mod runs;
pub mod scenarios;
pub mod stamps;
pub mod subjects;
pub mod threads;
