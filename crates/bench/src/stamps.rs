//! Time stamps for keys, and for short operations.

use quanta::Clock;

/// Time stamps for keys: ticks since their creation, which fit in 48 bits for the length of a run.
#[derive(Debug, Clone)]
pub struct Stamps {
    clock: Clock,
    start: u64,
}

impl Stamps {
    /// Begins at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::beginning_at(0)
    }

    /// Begins at this many ticks, for keys that are set back by as many.
    #[must_use]
    pub fn beginning_at(ticks: u64) -> Self {
        let clock = Clock::new();
        let start = clock.raw().wrapping_sub(ticks);
        Self { clock, start }
    }

    /// Returns the ticks of the processor's clock since the beginning.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.raw().wrapping_sub(self.start)
    }

    /// Returns about how many ticks there are in a number of nanoseconds.
    #[must_use]
    pub fn ticks(&self, nanoseconds: u64) -> f64 {
        const SAMPLE: u64 = 1 << 32;
        nanoseconds as f64 * SAMPLE as f64 / self.clock.delta_as_nanos(0, SAMPLE) as f64
    }

    /// Returns the nanoseconds between two stamps.
    #[must_use]
    pub fn nanoseconds(&self, from: u64, to: u64) -> u64 {
        self.clock.delta_as_nanos(from, to)
    }
}

impl Default for Stamps {
    fn default() -> Self {
        Self::new()
    }
}
