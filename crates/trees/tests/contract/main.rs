//! The contract of trees of pages, in every key order and on every page store in memory.

mod be_tree;
mod be_tree_counts;
mod be_tree_stretches;
mod concurrent;
mod counts;
mod crash;
mod damage;
mod model;
mod read_ahead;
mod removal;
mod run;
mod snapshot;
mod suite;
