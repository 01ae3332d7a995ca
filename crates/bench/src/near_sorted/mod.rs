//! Ingest and queries of nearly sorted keys, one thread.

pub mod engines;
pub mod floor;
pub mod input;
pub mod subjects;
