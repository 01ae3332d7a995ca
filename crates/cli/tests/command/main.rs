//! Drives the `bedload` command as a user does: arguments in, exit code, output and error line out.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets an error it does not expect has failed"
)]

mod beside_a_feed;
mod convert;
mod count;
mod crash;
mod demo;
mod dry_run;
mod errors;
mod feeds;
mod follow;
mod formats;
mod harness;
mod hostile;
mod ingest;
mod manual;
mod missing;
mod new_rows;
mod new_table;
mod output;
mod partition;
mod query;
mod reports;
mod retention;
mod round_trip;
mod running;
mod signals;
mod sortedness;
mod source_id;
mod sparse;
mod sql;
mod tail;
mod types;
mod undo;
