//! Slowing writers gently while a flush is behind, so that none of them waits for a whole flush.
//!
//! A flush works while writers fill the memory for rows again. If they are faster, some must wait:
//! each a little, rather than one until the flush is done. Above a quarter of the memory, each
//! commit waits in proportion to its bytes, to how full the memory is, and to the time per byte of
//! the slowest recent flush. At full memory writers would take four times as long as the flush, so
//! they settle before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Writers are slowed above this share of the memory for rows.
const BEGIN: f64 = 0.25;

/// At full memory, writers take this many times as long as a flush.
const STEEPNESS: f64 = 4.0;

/// Shorter waits are added to the next one: a thread that sleeps wakes up later than that.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest wait that slows one commit.
const LONGEST: Duration = Duration::from_millis(50);

/// The rate of flushes, and when the next commit may go on.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds that a slow flush takes for a MiB of rows; 0 before the first flush.
    flush_nanos: AtomicU64,
    /// Threads are slowed one after another, as they share the flush.
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    /// Records a flush of `bytes` bytes.
    pub(super) fn flushed(&self, bytes: usize, took: Duration) {
        let mib = (bytes >> 20) as u64;
        // A small flush is mostly its checkpoint, and no measure.
        if mib == 0 {
            return;
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / mib;
        // Flushes that push down take several times as long as others, and it is those that writers
        // would wait for.
        let known = self.flush_nanos.load(Ordering::Relaxed);
        let smoothed = nanos.max(known - known / 8 + nanos / 8);
        self.flush_nanos.store(smoothed, Ordering::Relaxed);
    }

    /// How long a commit of `bytes` waits, with the share `full` of the memory in use.
    fn delay(&self, bytes: usize, full: f64) -> Duration {
        let slowness = STEEPNESS * (full.clamp(BEGIN, 1.0) - BEGIN) / (1.0 - BEGIN);
        let flush = Duration::from_nanos(self.flush_nanos.load(Ordering::Relaxed));
        let mib = bytes as f64 / f64::from(1 << 20);
        flush.mul_f64((slowness * mib).min(1e6)).min(LONGEST)
    }

    /// Delays a commit of `bytes` while a flush is under way; returns for how long.
    pub(super) fn wait(&self, bytes: usize, full: f64) -> Duration {
        let delay = self.delay(bytes, full);
        if delay.is_zero() {
            return delay;
        }
        let wait = self.turn(delay, Instant::now());
        if wait < SHORTEST {
            return Duration::ZERO;
        }
        std::thread::sleep(wait);
        wait
    }

    /// Takes the next turn of a commit that is delayed now; returns how long it is until then. A
    /// turn is never later than the longest wait: commits would go on waiting for time that none
    /// of them slept, long after the flush.
    fn turn(&self, delay: Duration, now: Instant) -> Duration {
        let mut free_at = self.free_at.lock();
        let at = free_at.map_or(now, |at| at.max(now)) + delay;
        let at = at.min(now + LONGEST);
        *free_at = Some(at);
        at - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_the_memory_the_longer_the_wait() {
        let pace = Pace::default();
        assert_eq!(pace.delay(1 << 20, 1.0), Duration::ZERO, "before the first flush");
        pace.flushed(1000, Duration::from_secs(1));
        assert_eq!(pace.delay(1 << 20, 1.0), Duration::ZERO, "little is no measure");
        pace.flushed(16 << 20, Duration::from_millis(16));
        assert_eq!(pace.delay(1 << 20, BEGIN), Duration::ZERO);
        assert_eq!(pace.delay(1 << 20, 1.0), Duration::from_millis(4));
        assert!(pace.delay(1 << 20, 0.5) < pace.delay(1 << 20, 0.75));
        assert_eq!(pace.delay(2 << 20, 1.0), Duration::from_millis(8));
        assert_eq!(pace.delay(1 << 30, 1.0), LONGEST);
        // A slow flush counts at once, and is forgotten by and by.
        pace.flushed(1 << 20, Duration::from_millis(8));
        assert_eq!(pace.delay(1 << 20, 1.0), Duration::from_millis(32));
        pace.flushed(8 << 20, Duration::from_millis(0));
        assert_eq!(pace.delay(1 << 20, 1.0), Duration::from_millis(28));
    }

    #[test]
    fn no_commit_waits_for_turns_that_were_not_slept() {
        let (pace, now) = (Pace::default(), Instant::now());
        for _ in 0..100 {
            assert!(pace.turn(LONGEST, now) <= LONGEST);
        }
        // All of them are awake by then, whatever they would have waited without the limit.
        let awake = now + LONGEST;
        assert_eq!(pace.turn(SHORTEST, awake), SHORTEST);
        assert_eq!(pace.turn(SHORTEST, awake), 2 * SHORTEST, "one after another");
    }
}
