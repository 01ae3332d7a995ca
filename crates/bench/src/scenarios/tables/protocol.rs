//! Requests to the process that runs a store, and its replies. Each is a line of JSON.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::arrival::{Arrival, Input};
use super::upserts::Upserts;
use crate::record::Figure;
use crate::subjects::tables::TableOptions;

/// A request to a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Request {
    /// Opens or creates a store in a directory.
    Open {
        store: String,
        dir: PathBuf,
        options: TableOptions,
        /// The rows that it already has.
        input: Option<Input>,
    },
    /// Appends rows in batches.
    Load {
        input: Input,
        batch_rows: usize,
        writers: usize,
        flushes: bool,
        /// Ends the load after so long; for rows in order, as others change with their number.
        most: Option<Duration>,
    },
    /// Compares all answers with the expected ones.
    Check,
    /// Reads ranges of `rows` rows into Arrow.
    Ranges { rows: usize, ranges: usize, seed: u64 },
    /// Reads rows one by one.
    Points { rows: usize, seed: u64 },
    /// Reads the newest rows.
    Newest { rows: usize, times: usize },
    /// Reads the newest rows so often, if time allows, while a thread appends at least so many
    /// batches.
    NewestBeside {
        rows: usize,
        batches: usize,
        reads: usize,
    },
    /// Counts all rows, and a third of them.
    Count { seed: u64 },
    /// Removes the older half, and reclaims its space.
    DeleteOlderHalf,
    /// Reads all rows, before and after so many deletions of a few rows each.
    DeleteFew { ranges: usize },
    /// Reads the rows of a condition that one of a thousand meets.
    Filter,
    /// Loads a table with a key, and puts rows of which some take the place of others.
    Upsert(Upserts),
    /// Appends batches for so long while other threads read.
    Sustain {
        arrival: Arrival,
        batch_rows: usize,
        milliseconds: u64,
    },
    /// Closes the store and opens it again.
    Reopen,
}

/// The response.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    /// The process of the store.
    pub(super) process: u32,
    pub(super) figures: Vec<Figure>,
}
