//! Keys that arrive late (§5.6 of the Blink-hash paper): time stamps set back by a random delay, and shares of keys drawn
//! from the past.

use bedload_testkit::Rng;
use bedload_testkit::workload::{Late, LateKey, PoissonDelay};

use super::time_series::{load, mix, sensors, throughput};
use crate::record::Record;
use crate::runner::{Plan, Stamps, on_threads, rounds};
use crate::subjects::indexes_and_buffers;

/// Mean delays in microseconds: to a second.
const DELAYS_US: [u32; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

const SHARES_PERCENT: [u32; 6] = [0, 1, 10, 30, 60, 100];

/// When stamps begin: at minutes, so that no key is cut off at zero.
const ORIGIN_TICKS: u64 = 1 << 40;

/// So many delays for each thread, in ticks.
fn delays(stamps: &Stamps, mean_us: u32, (threads, share): (usize, usize), round: u64) -> Vec<Vec<u64>> {
    let mean_ticks = stamps.ticks(u64::from(mean_us) * 1_000);
    (0..threads)
        .map(|thread| {
            let mut delay = PoissonDelay::new(mean_ticks, round ^ thread as u64);
            (0..share).map(|_| delay.draw_ticks()).collect()
        })
        .collect()
}

/// What is loaded, untimed, before a share is measured counts too.
const PARTS: usize = DELAYS_US.len() + 2 * 2 * SHARES_PERCENT.len();

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds(
        "delayed",
        plan,
        &indexes_and_buffers(),
        |subject, threads, round| {
            let share = plan.entries() / threads / PARTS;
            let stamps = Stamps::beginning_at(ORIGIN_TICKS);
            // Late keys split what is full, so more room is needed than entries.
            subject.reserve(2 * plan.entries());
            let mut figures = Vec::new();
            let mut timed = |name: String, work: &(dyn Fn(usize) + Sync)| {
                let (_, inserting) = on_threads(threads, work);
                let (_, settling) = on_threads(1, |_| subject.settle());
                figures.push(throughput(&name, share * threads, inserting + settling));
            };
            for delay_us in DELAYS_US {
                let delays = delays(&stamps, delay_us, (threads, share), round);
                timed(format!("{delay_us} us late"), &|thread| {
                    let mut stream = sensors(thread);
                    for delay in &delays[thread] {
                        let key = stream.key_at(stamps.now() - delay);
                        subject.insert(key, !key);
                    }
                });
            }
            // Above all that was inserted: each measurement has keys of its own.
            let mut base = 1 << 63;
            for (kind, name) in [(LateKey::Existing, "existing"), (LateKey::Fresh, "fresh")] {
                for percent in SHARES_PERCENT {
                    base += 1 << 50;
                    let insert = |thread: usize, number: u64| {
                        let key = base + number * threads as u64 + thread as u64;
                        subject.insert(key, !key);
                    };
                    on_threads(threads, |thread| {
                        (0..share as u64).for_each(|number| insert(thread, 2 * number));
                    });
                    timed(format!("{percent} % late, {name}"), &|thread| {
                        let late = Late::new(percent.into(), kind, round ^ thread as u64);
                        let late = late.after(share as u64).take(share);
                        late.for_each(|number| insert(thread, number));
                    });
                }
            }
            figures
        },
    )
}

/// The mix, mostly of long scans, when as many entries are there as the plan says; what it inserts is late (Figure 8(b)).
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
                let delays = delays(&stamps, delay_us, (threads, share), round);
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
