//! Late keys (§5.6 of the Blink-hash paper): time stamps set back by a random delay, and shares of
//! keys drawn from the past.

use bedload_testkit::Rng;
use bedload_testkit::workload::{Late, LateKey, PoissonDelay};

use super::time_series::{load, mix, sensors, throughput};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Entrant;
use crate::scenarios::by_threads::{rounds, rounds_of_all};
use crate::stamps::Stamps;
use crate::subjects::{Make, Subject, indexes_and_buffers};
use crate::threads::{on_threads, on_threads_after};

/// Mean delays in microseconds, up to a second.
const DELAYS_US: [u32; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

const SHARES_PERCENT: [u32; 6] = [0, 1, 10, 30, 60, 100];

/// The first stamp, late enough that no delayed key is cut off at zero.
const ORIGIN_TICKS: u64 = 1 << 40;

/// Draws `share` delays for each thread, in ticks.
fn delays(stamps: &Stamps, mean_us: u32, threads: usize, share: usize, round: u64) -> Vec<Vec<u64>> {
    let mean_ticks = stamps.ticks(u64::from(mean_us) * 1_000);
    (0..threads)
        .map(|thread| {
            let mut delay = PoissonDelay::new(mean_ticks, round ^ thread as u64);
            (0..share).map(|_| delay.draw_ticks()).collect()
        })
        .collect()
}

const POINTS: usize = DELAYS_US.len() + 2 * SHARES_PERCENT.len();

/// Measurements of a point per round. Subjects alternate every few milliseconds, so that slow
/// changes of the machine affect all alike.
const REPETITIONS: usize = 6;

/// A subject and its own clock, which stops during the turns of others.
struct Turn {
    subject: Box<dyn Subject>,
    ticks: u64,
    /// Above all keys inserted for shares: each repetition has new keys.
    base: u64,
}

impl Turn {
    fn new(entrant: &Entrant<Make>, plan: &Plan) -> Self {
        let subject = (entrant.make)();
        // Late keys split full nodes, so they need more space than there are entries.
        subject.reserve(2 * plan.entries());
        Self {
            subject,
            ticks: ORIGIN_TICKS,
            base: 1 << 63,
        }
    }
}

/// The inserts of a subject in a repetition: first as many in order, untimed, then those of the
/// point.
struct Inserts {
    threads: usize,
    share: usize,
    seed: u64,
}

impl Inserts {
    /// Inserts keys on time, and then keys late by this delay.
    fn delayed(&self, turn: &mut Turn, delay_us: u32) -> Figure {
        let subject = turn.subject.as_ref();
        let insert = |stamps: &Stamps, thread: usize, delays: &[u64]| {
            let mut stream = sensors(thread);
            for delay in delays {
                let key = stream.key_at(stamps.now() - delay);
                subject.insert(key, !key);
            }
        };
        let stamps = Stamps::beginning_at(turn.ticks);
        let delays = delays(&stamps, delay_us, self.threads, self.share, self.seed);
        let none = vec![0; self.share];
        let stamps = Stamps::beginning_at(turn.ticks);
        on_threads_after(
            self.threads,
            |thread| insert(&stamps, thread, &none[..1]),
            |thread| insert(&stamps, thread, &none),
        );
        subject.settle();
        let (_, seconds) = on_threads_after(
            self.threads,
            |thread| insert(&stamps, thread, &none[..1]),
            |thread| insert(&stamps, thread, &delays[thread]),
        );
        let figure = self.with_settling(subject, &format!("{delay_us} us late"), seconds);
        turn.ticks = stamps.now();
        figure
    }

    /// Inserts keys in order, and then with this share of late keys.
    fn mixed_with(&self, turn: &mut Turn, kind: LateKey, percent: u32) -> Figure {
        turn.base += 1 << 50;
        let insert = |thread: usize, number: u64| {
            let key = turn.base + number * self.threads as u64 + thread as u64;
            turn.subject.insert(key, !key);
        };
        let first = |thread: usize| insert(thread, 0);
        on_threads_after(self.threads, first, |thread| {
            (0..self.share as u64).for_each(|number| insert(thread, 2 * number));
        });
        turn.subject.settle();
        let (_, seconds) = on_threads_after(self.threads, first, |thread| {
            let late = Late::new(percent.into(), kind, self.seed ^ thread as u64);
            let late = late.after(self.share as u64).take(self.share);
            late.for_each(|number| insert(thread, number));
        });
        let name = match kind {
            LateKey::Existing => "existing",
            LateKey::Fresh => "fresh",
        };
        self.with_settling(
            turn.subject.as_ref(),
            &format!("{percent} % late, {name}"),
            seconds,
        )
    }

    /// Returns the figure of timed inserts, including the deferred work.
    fn with_settling(&self, subject: &dyn Subject, metric: &str, seconds: f64) -> Figure {
        let (_, settling) = on_threads(1, |_| subject.settle());
        throughput(metric, self.share * self.threads, seconds + settling)
    }
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds_of_all(
        "delayed",
        plan,
        &indexes_and_buffers(),
        |entrants, threads, round, samples| {
            let mut turns: Vec<_> = entrants
                .iter()
                .map(|entrant| (*entrant, Turn::new(entrant, plan)))
                .collect();
            let mut point = |measure: &dyn Fn(&Inserts, &mut Turn) -> Figure| {
                for repetition in 0..REPETITIONS {
                    let inserts = Inserts {
                        threads,
                        share: plan.entries() / threads / POINTS / REPETITIONS / 2,
                        seed: round * REPETITIONS as u64 + repetition as u64,
                    };
                    // Random, so that no subject always follows the same one.
                    Rng::new(inserts.seed).shuffle(&mut turns);
                    turns.retain_mut(|(entrant, turn)| {
                        let figure = entrant.unless_it_panics(|| measure(&inserts, turn));
                        let is_in = figure.is_some();
                        samples.add(entrant.name, figure.into_iter().collect());
                        is_in
                    });
                }
            };
            for delay_us in DELAYS_US {
                point(&|inserts, turn| inserts.delayed(turn, delay_us));
            }
            for kind in [LateKey::Existing, LateKey::Fresh] {
                for percent in SHARES_PERCENT {
                    point(&|inserts, turn| inserts.mixed_with(turn, kind, percent));
                }
            }
        },
    )
}

/// Runs the mix of mostly long scans once the plan's entries are loaded; its inserts are late
/// (Figure 8(b)).
pub(super) fn mixed(plan: &Plan) -> Vec<Record> {
    rounds(
        "delayed-mixed",
        plan,
        &indexes_and_buffers(),
        |subject, threads, round| {
            let stamps = Stamps::beginning_at(ORIGIN_TICKS);
            let (keys, _) = load(subject, threads, plan.entries(), &stamps, round);
            let share = plan.share(keys.len() / DELAYS_US.len(), threads);
            let mut own = keys.chunks(share);
            let mut figures = Vec::new();
            for delay_us in DELAYS_US {
                let delays = delays(&stamps, delay_us, threads, share, round);
                let own: Vec<&[u64]> = own.by_ref().take(threads).collect();
                let (_, seconds) = on_threads(threads, |thread| {
                    let mut rng = Rng::stream(round, u64::from(delay_us) + thread as u64);
                    let mut stream = sensors(thread);
                    let mut delays = delays[thread].iter();
                    mix(subject, own[thread], &mut rng, true, || {
                        let delay = delays.next().copied().unwrap_or(0);
                        stream.key_at(stamps.now() - delay)
                    });
                });
                figures.push(throughput(
                    &format!("mix, {delay_us} us late"),
                    share * threads,
                    seconds,
                ));
            }
            figures
        },
    )
}
