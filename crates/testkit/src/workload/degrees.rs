//! Sequences of every degree of order that the scenarios measure.

use super::ahead::ahead;
use super::{NearlySorted, scrambled};

/// The generator's K and L of the scenarios, in percent.
pub const DEGREES: [(f64, f64); 8] = [
    (0.0, 0.0),
    (10.0, 5.0),
    (20.0, 10.0),
    (50.0, 25.0),
    (5.0, 95.0),
    (100.0, 50.0),
    (96.67, 0.1),
    (100.0, 1.0),
];

/// Yields permutations of `0..len`: one of each of the [`DEGREES`], a scrambled one, the descending
/// one, and some with rows that come ahead of their time.
pub fn arrivals(len: usize) -> impl Iterator<Item = Vec<u64>> {
    let made = move |(k, l)| NearlySorted {
        swapped_percent: k,
        displacement_percent: l,
        ..NearlySorted::new(len, 11)
    };
    let ranks = DEGREES
        .into_iter()
        .map(move |degree| made(degree).generate().keys);
    ranks
        .chain([scrambled(len, 11), (0..len as u64).rev().collect()])
        .chain(ahead(len))
}
