//! Keys by degree of order.

use std::fmt;

use bedload_testkit::workload::{NearlySorted, scattered, scrambled};

/// A degree of order: K and L of the generator in percent, or none at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Degree {
    /// K and L: the share of keys that are swapped, and by how much at most.
    Nearly(f64, f64),
    /// In random order.
    Scrambled,
}

/// The degrees of the scenarios.
pub const DEGREES: [Degree; 7] = [
    Degree::Nearly(0.0, 0.0),
    Degree::Nearly(10.0, 5.0),
    Degree::Nearly(20.0, 10.0),
    Degree::Nearly(50.0, 25.0),
    Degree::Nearly(5.0, 95.0),
    Degree::Nearly(100.0, 50.0),
    Degree::Scrambled,
];

impl fmt::Display for Degree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearly(k, l) => write!(f, "{k}/{l}"),
            Self::Scrambled => write!(f, "scrambled"),
        }
    }
}

/// Distinct keys in the order in which they are inserted; the value of a key is [`value_of`] it.
#[derive(Debug)]
pub struct Input {
    /// How far from order.
    pub degree: Degree,
    /// Sparse keys.
    pub keys: Vec<u64>,
}

impl Input {
    /// So many keys.
    #[must_use]
    pub fn new(degree: Degree, len: usize, seed: u64) -> Self {
        let mut keys = match degree {
            Degree::Scrambled => scrambled(len, seed),
            Degree::Nearly(k, l) => {
                let spec = NearlySorted {
                    swapped_percent: k,
                    displacement_percent: l,
                    ..NearlySorted::new(len, seed)
                };
                spec.generate().keys
            }
        };
        for key in &mut keys {
            *key = key_of(*key);
        }
        Self { degree, keys }
    }
}

/// The key of a rank: keys keep the order of ranks, and their distances vary.
#[must_use]
pub const fn key_of(rank: u64) -> u64 {
    rank << 20 | scattered(rank) & 0xf_ffff
}

/// The value that is stored with a key.
#[must_use]
pub const fn value_of(key: u64) -> u64 {
    !key
}
