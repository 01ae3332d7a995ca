//! The contract of the Bε-tree, on any page store that can be vacuumed.
//!
//! - [`check_be_tree_schedule`]: writers, maintainers, cursors, lookups, bulk deletions and
//!   recycling, interleaved step by step as a seed says, against every version that an entry ever
//!   had.
//! - [`check_be_tree_crashes`]: such a schedule, stopped before and after each of its commits, and
//!   opened again.
//! - [`check_be_tree_threads`]: the same roles as threads.

mod counts;
mod crash;
mod history;
mod keys;
mod reading;
mod rows;
mod schedule;
mod threads;

pub use counts::Counts;
pub use crash::check_be_tree_crashes;
pub use keys::NumberedKeys;
pub use schedule::{check_be_tree_schedule, small_be_tree};
pub use threads::check_be_tree_threads;
