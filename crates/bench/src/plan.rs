//! The size and selection of a run.

use std::path::{Path, PathBuf};
use std::thread;

/// The amount of work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// For tests.
    Tiny,
    /// Seconds for each subject.
    Small,
    /// The scale of published figures.
    Full,
}

impl Scale {
    /// Returns the scale with this name.
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
    seconds: Option<u64>,
    only: Vec<String>,
    degrees: Vec<String>,
    command: Option<PathBuf>,
}

impl Plan {
    /// Creates a plan of every subject at this scale.
    #[must_use]
    pub const fn new(scale: Scale) -> Self {
        Self {
            scale,
            entries: None,
            operations_max: None,
            rounds: None,
            threads_max: None,
            seconds: None,
            only: Vec::new(),
            degrees: Vec::new(),
            command: None,
        }
    }

    /// Changes the scale.
    #[must_use]
    pub fn with_scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// Sets the number of loaded entries.
    #[must_use]
    pub const fn with_entries(mut self, entries: usize) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Limits the timed lookups, scans and mixed operations of all threads together.
    #[must_use]
    pub const fn with_operations_max(mut self, operations: usize) -> Self {
        self.operations_max = Some(operations);
        self
    }

    /// Sets the number of rounds.
    #[must_use]
    pub const fn with_rounds(mut self, rounds: usize) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Sets how long scenarios run that run for a time.
    #[must_use]
    pub const fn with_seconds(mut self, seconds: u64) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// Limits the number of threads.
    #[must_use]
    pub const fn with_threads_max(mut self, threads: usize) -> Self {
        self.threads_max = Some(threads);
        self
    }

    /// Excludes all subjects but these and the baseline.
    #[must_use]
    pub fn only(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.only = names.into_iter().collect();
        self
    }

    /// Excludes all degrees of order but these, in scenarios that have several.
    #[must_use]
    pub fn with_degrees(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.degrees = names.into_iter().collect();
        self
    }

    /// Sets the `bedload-bench` program that measures stores in their own processes. The default is
    /// the running program.
    #[must_use]
    pub fn with_command(mut self, command: impl AsRef<Path>) -> Self {
        self.command = Some(command.as_ref().into());
        self
    }

    /// Returns the program that measures a store in its own process.
    ///
    /// # Panics
    ///
    /// If the system does not name the running program.
    #[must_use]
    pub fn command(&self) -> PathBuf {
        let own = || std::env::current_exe().expect("the system knows what runs");
        self.command.clone().unwrap_or_else(own)
    }

    /// Returns whether a degree of order is selected, in scenarios that have several.
    #[must_use]
    pub fn takes_degree(&self, name: &str) -> bool {
        self.degrees.is_empty() || self.degrees.iter().any(|degree| degree == name)
    }

    /// Returns the number of entries loaded.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.unwrap_or(match self.scale {
            Scale::Tiny => 4_000,
            Scale::Small => 1_000_000,
            Scale::Full => 10_000_000,
        })
    }

    /// Returns the operations that each thread times, given the scenario's default for all threads
    /// together.
    #[must_use]
    pub fn share(&self, operations: usize, threads: usize) -> usize {
        operations.min(self.operations_max.unwrap_or(operations)) / threads
    }

    /// Chooses between a number for tests and one for other runs.
    #[must_use]
    pub fn tiny_or<T>(&self, tiny: T, otherwise: T) -> T {
        if self.scale == Scale::Tiny {
            tiny
        } else {
            otherwise
        }
    }

    /// Returns the number of rounds.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(match self.scale {
            Scale::Tiny => 1,
            Scale::Small => 3,
            Scale::Full => 5,
        })
    }

    /// Returns the numbers of threads: 1, 2, 4 … as the machine allows.
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

    /// Returns the entries loaded by a scenario with its own sizes: small, and full.
    #[must_use]
    pub fn entries_of(&self, small: usize, full: usize) -> usize {
        match (self.entries, self.scale) {
            (None, Scale::Small) => small,
            (None, Scale::Full) => full,
            _ => self.entries(),
        }
    }

    /// Returns how long a scenario runs that runs for a time: small, and full.
    #[must_use]
    pub fn milliseconds_of(&self, small: u64, full: u64) -> u64 {
        let of_scale = match self.scale {
            Scale::Tiny => 50,
            Scale::Small => small,
            Scale::Full => full,
        };
        self.seconds.map_or(of_scale, |seconds| seconds * 1_000)
    }

    /// Returns whether a subject is selected, in a scenario with this baseline.
    #[must_use]
    pub fn takes(&self, name: &str, baseline: &str) -> bool {
        self.only.is_empty() || name == baseline || self.only.iter().any(|only| only == name)
    }

    /// Returns the limit of timed operations, if any.
    #[must_use]
    pub const fn operations_max(&self) -> Option<usize> {
        self.operations_max
    }
}
