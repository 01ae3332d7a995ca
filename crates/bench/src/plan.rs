//! How much of what a run measures.

use std::path::{Path, PathBuf};
use std::thread;

/// How much work a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A moment: for tests.
    Tiny,
    /// Seconds for each subject.
    Small,
    /// The scale of published figures.
    Full,
}

impl Scale {
    /// The scale of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "tiny" => Some(Self::Tiny),
            "small" => Some(Self::Small),
            "full" => Some(Self::Full),
            _ => None,
        }
    }
}

/// The settings of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    scale: Scale,
    entries: Option<usize>,
    operations_max: Option<usize>,
    rounds: Option<usize>,
    threads_max: Option<usize>,
    only: Vec<String>,
    degrees: Vec<String>,
    command: Option<PathBuf>,
}

impl Plan {
    /// Every subject, at this scale.
    #[must_use]
    pub const fn new(scale: Scale) -> Self {
        Self {
            scale,
            entries: None,
            operations_max: None,
            rounds: None,
            threads_max: None,
            only: Vec::new(),
            degrees: Vec::new(),
            command: None,
        }
    }

    /// The same at another scale.
    #[must_use]
    pub fn with_scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// Loads so many entries instead of the scale's.
    #[must_use]
    pub const fn with_entries(mut self, entries: usize) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Times no more than so many lookups, scans or operations of a mix, of all threads together, whatever is loaded.
    #[must_use]
    pub const fn with_operations_max(mut self, operations: usize) -> Self {
        self.operations_max = Some(operations);
        self
    }

    /// Makes so many rounds instead of the scale's.
    #[must_use]
    pub const fn with_rounds(mut self, rounds: usize) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Runs on no more threads than this.
    #[must_use]
    pub const fn with_threads_max(mut self, threads: usize) -> Self {
        self.threads_max = Some(threads);
        self
    }

    /// Leaves all subjects out but these and the baseline.
    #[must_use]
    pub fn only(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.only = names.into_iter().collect();
        self
    }

    /// Leaves all degrees of order out but these, in scenarios that have several.
    #[must_use]
    pub fn with_degrees(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.degrees = names.into_iter().collect();
        self
    }

    /// Measures stores that have processes of their own by this program, which is `bedload-bench`; the program that runs if
    /// none is named.
    #[must_use]
    pub fn with_command(mut self, command: impl AsRef<Path>) -> Self {
        self.command = Some(command.as_ref().into());
        self
    }

    /// The program that measures a store in a process of its own.
    ///
    /// # Panics
    ///
    /// If the system does not tell which program runs.
    #[must_use]
    pub fn command(&self) -> PathBuf {
        let own = || std::env::current_exe().expect("the system knows what runs");
        self.command.clone().unwrap_or_else(own)
    }

    /// Whether a degree of order is wanted, in scenarios that have several.
    #[must_use]
    pub fn takes_degree(&self, name: &str) -> bool {
        self.degrees.is_empty() || self.degrees.iter().any(|degree| degree == name)
    }

    /// Entries loaded.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.unwrap_or(match self.scale {
            Scale::Tiny => 4_000,
            Scale::Small => 1_000_000,
            Scale::Full => 10_000_000,
        })
    }

    /// Operations that each of the threads times in a scenario that would have them time so many together.
    #[must_use]
    pub fn share(&self, operations: usize, threads: usize) -> usize {
        operations.min(self.operations_max.unwrap_or(operations)) / threads
    }

    /// One of two numbers, for tests and otherwise.
    #[must_use]
    pub fn tiny_or<T>(&self, tiny: T, otherwise: T) -> T {
        if self.scale == Scale::Tiny {
            tiny
        } else {
            otherwise
        }
    }

    /// Rounds of all subjects.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(match self.scale {
            Scale::Tiny => 1,
            Scale::Small => 3,
            Scale::Full => 5,
        })
    }

    /// Numbers of threads: 1, 2, 4 … as the machine allows.
    #[must_use]
    pub fn threads(&self) -> Vec<usize> {
        let available = thread::available_parallelism().map_or(1, usize::from);
        let most = if self.scale == Scale::Tiny { 2 } else { available };
        let most = most.min(self.threads_max.unwrap_or(most)).max(1);
        (0..)
            .map(|power| 1 << power)
            .take_while(|&threads| threads <= most)
            .collect()
    }

    /// Entries loaded by a scenario that has sizes of its own: small, and full.
    #[must_use]
    pub fn entries_of(&self, small: usize, full: usize) -> usize {
        match (self.entries, self.scale) {
            (None, Scale::Small) => small,
            (None, Scale::Full) => full,
            _ => self.entries(),
        }
    }

    /// Whether a subject is to run, in a scenario of this baseline.
    #[must_use]
    pub fn takes(&self, name: &str, baseline: &str) -> bool {
        self.only.is_empty() || name == baseline || self.only.iter().any(|only| only == name)
    }

    /// The most operations that are timed, if that is bounded.
    #[must_use]
    pub const fn operations_max(&self) -> Option<usize> {
        self.operations_max
    }
}
