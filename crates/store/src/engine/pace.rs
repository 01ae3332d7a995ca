//! Slowing writers gently while a flush is behind, so that none of them waits for a whole flush.
//!
//! A flush works while writers fill the memory for rows again. If they are faster, some must wait:
//! each a little, rather than one until the flush is done. Above a quarter of the memory, each
//! commit waits in proportion to its bytes, to how full the memory is, and to the time per byte of
//! the slowest recent flush, or of the one under way if that takes longer. At full memory writers
//! would take four times as long as the flush, so they settle before it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Writers are slowed above this share of the memory for rows.
const BEGIN: f64 = 0.25;

/// At full memory, writers take this many times as long as a flush.
const STEEPNESS: f64 = 4.0;

/// Shorter waits are added to the next one: a thread that sleeps wakes up later than that.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest wait that slows one commit.
const LONGEST: Duration = Duration::from_millis(100);

/// The rate of flushes, and when the next commit may go on.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The time for a MiB of rows in recent slow flushes; zero before the first flush.
    recent: Duration,
    under_way: Option<UnderWay>,
    /// Threads are slowed one after another, as they share the flush.
    free_at: Option<Instant>,
}

/// A flush that is not done.
#[derive(Debug)]
struct UnderWay {
    begun: Instant,
    mib: u32,
}

impl UnderWay {
    fn taken_for_a_mib(&self, now: Instant) -> Duration {
        now.duration_since(self.begun) / self.mib
    }

    /// Estimates the time for a MiB of rows, as if the flush were half done.
    fn expected_for_a_mib(&self, now: Instant) -> Duration {
        2 * self.taken_for_a_mib(now)
    }
}

impl Pace {
    /// Measures `flush`, which flushes `bytes` bytes of rows.
    pub(super) fn measure<T, E>(&self, bytes: usize, flush: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.0.lock().begin(bytes, Instant::now());
        let done = flush();
        self.0.lock().end(done.is_ok(), Instant::now());
        done
    }

    /// Delays a commit of `bytes` while a flush is under way, with the share `full` of the memory
    /// in use; returns for how long.
    pub(super) fn wait(&self, bytes: usize, full: f64) -> Duration {
        if full <= BEGIN {
            return Duration::ZERO;
        }
        let wait = self.0.lock().turn(bytes, full, Instant::now());
        if wait < SHORTEST {
            return Duration::ZERO;
        }
        std::thread::sleep(wait);
        wait
    }
}

impl State {
    fn begin(&mut self, bytes: usize, now: Instant) {
        // A small flush is mostly its checkpoint, and no measure.
        let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        self.under_way = (mib > 0).then_some(UnderWay { begun: now, mib });
    }

    fn end(&mut self, is_measure: bool, now: Instant) {
        let Some(flush) = self.under_way.take().filter(|_| is_measure) else {
            return;
        };
        // Flushes that push down take several times as long as others, and it is those that writers
        // would wait for.
        let taken = flush.taken_for_a_mib(now);
        self.recent = taken.max((self.recent * 7 + taken) / 8);
    }

    /// How long a commit of `bytes` waits at `now`, without its turn.
    fn delay(&self, bytes: usize, full: f64, now: Instant) -> Duration {
        let slowness = STEEPNESS * (full.clamp(BEGIN, 1.0) - BEGIN) / (1.0 - BEGIN);
        let under_way = self.under_way.as_ref().map(|flush| flush.expected_for_a_mib(now));
        let flush = self.recent.max(under_way.unwrap_or_default());
        let mib = bytes as f64 / f64::from(1 << 20);
        flush.mul_f64((slowness * mib).min(1e6)).min(LONGEST)
    }

    /// Takes the next turn of a commit that is delayed at `now`; returns how long it is until then.
    /// A turn is never later than the longest wait: commits would go on waiting for time that none
    /// of them slept, long after the flush.
    fn turn(&mut self, bytes: usize, full: f64, now: Instant) -> Duration {
        let delay = self.delay(bytes, full, now);
        if delay.is_zero() {
            return delay;
        }
        let at = self.free_at.map_or(now, |at| at.max(now)) + delay;
        let at = at.min(now + LONGEST);
        self.free_at = Some(at);
        at - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// As if a flush of `mib` had taken `took`.
    fn flushed(pace: &mut State, mib: usize, took: Duration) {
        let begun = Instant::now();
        pace.begin(mib * MIB, begun);
        pace.end(true, begun + took);
    }

    #[test]
    fn the_fuller_the_memory_the_longer_the_wait() {
        let (mut pace, now) = (State::default(), Instant::now());
        assert_eq!(
            pace.delay(MIB, 1.0, now),
            Duration::ZERO,
            "before the first flush"
        );
        flushed(&mut pace, 0, Duration::from_secs(1));
        assert_eq!(pace.delay(MIB, 1.0, now), Duration::ZERO, "little is no measure");
        flushed(&mut pace, 16, Duration::from_millis(16));
        assert_eq!(pace.delay(MIB, BEGIN, now), Duration::ZERO);
        assert_eq!(pace.delay(MIB, 1.0, now), Duration::from_millis(4));
        assert!(pace.delay(MIB, 0.5, now) < pace.delay(MIB, 0.75, now));
        assert_eq!(pace.delay(2 * MIB, 1.0, now), Duration::from_millis(8));
        assert_eq!(pace.delay(1 << 30, 1.0, now), LONGEST);
        // A slow flush counts at once, and is forgotten by and by.
        flushed(&mut pace, 1, Duration::from_millis(8));
        assert_eq!(pace.delay(MIB, 1.0, now), Duration::from_millis(32));
        flushed(&mut pace, 8, Duration::ZERO);
        assert_eq!(pace.delay(MIB, 1.0, now), Duration::from_millis(28));
    }

    #[test]
    fn a_flush_that_failed_is_no_measure() {
        let pace = Pace::default();
        let failed = pace.measure(MIB, || Err::<(), _>("no space"));
        assert_eq!(failed, Err("no space"));
        let state = pace.0.lock();
        assert!(state.recent.is_zero() && state.under_way.is_none(), "{state:?}");
    }

    #[test]
    fn a_flush_that_takes_far_longer_than_those_before_slows_writers_too() {
        let (mut pace, begun) = (State::default(), Instant::now());
        flushed(&mut pace, 16, Duration::from_millis(160));
        pace.begin(16 * MIB, begun);
        // Commits of half a MiB fill 32 MiB while it takes ten times as long.
        let (mut used, mut now) = (0, begun);
        while used < 32 * MIB {
            now += pace.turn(MIB / 2, used as f64 / (32 * MIB) as f64, now);
            used += MIB / 2;
        }
        assert!(now - begun > Duration::from_millis(1600), "{:?}", now - begun);
    }

    #[test]
    fn no_commit_waits_for_turns_that_were_not_slept() {
        let (mut pace, now) = (State::default(), Instant::now());
        flushed(&mut pace, 1, LONGEST);
        for _ in 0..100 {
            assert!(pace.turn(MIB, 1.0, now) <= LONGEST);
        }
        // All of them are awake by then, whatever they would have waited without the limit.
        let awake = now + LONGEST;
        let short = MIB / 1000;
        let first = pace.turn(short, 1.0, awake);
        assert!(first < SHORTEST, "{first:?}");
        assert_eq!(pace.turn(short, 1.0, awake), 2 * first, "one after another");
    }
}
