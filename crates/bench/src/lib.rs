//! Measures Bedload's indexes beside their peers.
//!
//! Absolute figures are the machine's; what counts are ratios within one run. So a run makes several rounds, in each
//! of which every subject has its turn, checks each subject's answers before it is timed, and reports medians, extremes
//! and the ratio to a baseline of the same run.

mod crossing;
mod latencies;
pub mod plan;
pub mod record;
pub mod report;
pub mod runner;
pub mod scenarios;
pub mod stamps;
pub mod subjects;
pub mod threads;
