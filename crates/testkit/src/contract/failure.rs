//! A violation of the contract, and how to reproduce it.

use std::fmt;

/// A violation of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed that reproduces it.
    pub seed: u64,
    /// The number of operations to request so that the run repeats.
    pub operations: usize,
    /// The actual and the expected behaviour.
    pub what: String,
}

impl Failure {
    /// Panics with the [`Display`](fmt::Display) form of this failure.
    ///
    /// # Panics
    ///
    /// Always.
    pub fn report(&self) -> ! {
        panic!("{self}");
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = std::thread::current();
        let test = current.name().filter(|name| *name != "main").unwrap_or("TEST");
        write!(
            f,
            "contract broken: {}\nreproduce: BEDLOAD_TEST_SEED={} BEDLOAD_TEST_OPERATIONS={} cargo test {test}",
            self.what, self.seed, self.operations
        )
    }
}
