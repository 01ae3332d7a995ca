//! The write-ahead log: what was committed since the last checkpoint. Format: docs/format.md,
//! "Log".
//!
//! [`Log`] appends records and makes them durable, many writers sharing one sync; [`replay`] reads
//! them back; a [`Follower`] reads them while another process appends.

mod buffer;
mod follower;
mod log;
mod reader;
mod record;
mod remains;
mod replay;
mod segment;

pub(crate) use follower::Follower;
pub(crate) use log::{Log, Pending};
pub(crate) use record::{BODY_BYTES_MAX, Record};
pub(crate) use remains::LogRemains;
pub(crate) use replay::{check_end, replay};
