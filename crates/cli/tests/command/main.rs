//! Drives the `bedload` command as a user does: arguments in, exit code, output and error line out.

mod crash;
mod demo;
mod errors;
mod harness;
mod ingest;
mod query;
mod round_trip;
mod sortedness;
mod undo;
