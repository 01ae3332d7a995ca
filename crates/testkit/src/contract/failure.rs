//! A broken contract, and how to see it again.

use std::fmt;

/// The contract was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// Operations to ask for so that the run takes the same course.
    pub operations: usize,
    /// What happened, and what should have.
    pub what: String,
}

impl Failure {
    /// Panics with [`Display`](fmt::Display) of this failure.
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
