//! The store on the simulated disk: power cut at every call, every call failing once, the disk
//! full.
//!
//! How many cuts are tried is set by `BEDLOAD_POWER_CUTS` (default: a fixed slice); a failure
//! prints the one line that runs it again.

mod backup;
mod blocks;
mod closing;
mod columns;
mod damage;
mod deletions;
mod descriptors;
mod failing_flush;
mod faults;
mod full;
mod given_back;
mod groups;
mod log_end;
mod marks;
mod places;
mod points;
mod power;
mod readers;
mod retention;
mod rewritten;
mod salvaged;
mod scans;
mod spares;
mod stopped;
mod tables;
mod together;
mod unreadable;
mod wide;
mod workload;

use std::io::Write;

/// Says how much was tried, also where the output of tests that pass is kept back.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "simulation: {what}");
}
