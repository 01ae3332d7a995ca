//! The contract of indexes in memory.

mod bytes;
mod concurrent;
mod removals;
mod scans;
mod soak;
mod sware;
mod sware_latched;
mod sware_near_sorted;
mod sware_rules;
