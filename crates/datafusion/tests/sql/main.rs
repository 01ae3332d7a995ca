//! SQL over stores, as a user runs it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets an error it does not expect has failed"
)]

mod duckdb;
mod exactness;
mod identity;
mod moments;
mod plans;
mod queries;
mod rows;
mod streaming;
