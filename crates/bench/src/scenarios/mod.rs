//! The scenarios, a folder for each paper.

mod blink_hash;
mod by_threads;
mod sb_tree;
mod scenario;
mod sware;
mod xstore;

pub use scenario::Scenario;

/// Every scenario.
pub fn all() -> impl Iterator<Item = Scenario> {
    let papers = [
        blink_hash::SCENARIOS,
        sb_tree::SCENARIOS,
        sware::SCENARIOS,
        xstore::SCENARIOS,
    ];
    papers.into_iter().flatten().copied()
}

/// The scenario of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<Scenario> {
    all().find(|scenario| scenario.name == name)
}
