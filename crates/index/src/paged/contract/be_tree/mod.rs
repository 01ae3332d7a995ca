//! The contract of the Bε-tree, on any page store that can be vacuumed.
//!
//! - [`check_be_tree_schedule`]: writers, maintainers, cursors, lookups, bulk deletions and recycling, interleaved step by
//!   step as a seed says, against every version that an entry ever had.
//! - [`check_be_tree_crashes`]: such a schedule, stopped before and after each of its commits, and opened again.

mod crash;
mod history;
mod keys;
mod schedule;

pub use crash::check_be_tree_crashes;
pub use keys::NumberedKeys;
pub use schedule::{Counts, check_be_tree_schedule};
