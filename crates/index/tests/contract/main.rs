//! The contract of indexes in memory and in pages, and of the stores that pages stand on.

mod be_tree;
mod be_tree_counts;
mod concurrent;
mod counts;
mod crash;
mod damage;
mod mem;
mod mem_soak;
mod model;
mod page_stores;
mod read_ahead;
mod run;
mod snapshot;
mod sortedness;
mod suite;
mod sware;
mod sware_latched;
mod sware_near_sorted;
mod sware_rules;
