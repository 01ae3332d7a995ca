//! The scenarios: a folder for each paper, one for tables, and one for orders of keys.

mod blink_hash;
mod by_threads;
mod example_data;
mod patterns;
mod sb_tree;
mod scenario;
mod splinterdb;
mod sware;
mod tables;
mod xstore;
mod zipf;

pub use scenario::Scenario;
pub use tables::{WORKER, serve};

/// Returns every scenario.
pub fn all() -> impl Iterator<Item = Scenario> {
    let papers = [
        blink_hash::SCENARIOS,
        sb_tree::SCENARIOS,
        splinterdb::SCENARIOS,
        sware::SCENARIOS,
        xstore::SCENARIOS,
        tables::SCENARIOS,
        patterns::SCENARIOS,
    ];
    papers.into_iter().flatten().copied()
}

/// Returns the scenario with this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Scenario> {
    all().find(|scenario| scenario.name == name)
}
