//! The command among failing disks, signals, strange files and damaged input.
//!
//! Whatever happens to it, the command ends in one of three ways: with the right answer; with one
//! line that says what went wrong, a documented exit code and the store as it was; or with such a
//! line that also says what could not be put back. It never panics, hangs or leaves a store that
//! fails `verify`.
//!
//! `make test` runs a seeded sample. `BEDLOAD_HOSTILE_SECONDS` makes each test draw cases for that
//! long.

mod disks;
#[cfg(target_arch = "x86_64")]
mod faults;
mod files;
mod mutants;
mod outcome;
mod scenario;
mod signals;
#[cfg(target_arch = "x86_64")]
mod trace;
