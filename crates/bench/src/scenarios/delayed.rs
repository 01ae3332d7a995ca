//! Keys that arrive late (§5.6 of the Blink-hash paper): time stamps set back by a random delay, and shares of keys drawn
//! from the past.

use bedload_testkit::workload::{Late, LateKey, PoissonDelay};

use super::time_series::{sensors, throughput};
use crate::record::Record;
use crate::runner::{Plan, Stamps, on_threads, rounds};
use crate::subjects::indexes_and_buffers;

/// Mean delays in microseconds: to a second.
const DELAYS_US: [u32; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

const SHARES_PERCENT: [u32; 6] = [0, 1, 10, 30, 60, 100];

/// When stamps begin, for keys: minutes, so that no key is cut off at zero.
const ORIGIN_TICKS: u64 = 1 << 40;

/// What is loaded, untimed, before a share is measured counts too.
const PARTS: usize = DELAYS_US.len() + 2 * 2 * SHARES_PERCENT.len();

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds(
        "delayed",
        plan,
        &indexes_and_buffers(),
        |subject, threads, round| {
            let share = plan.entries() / threads / PARTS;
            let stamps = Stamps::new();
            // Late keys split what is full, so more room is needed than entries.
            subject.reserve(2 * plan.entries());
            let mut figures = Vec::new();
            let mut timed = |name: String, work: &(dyn Fn(usize) + Sync)| {
                let (_, inserting) = on_threads(threads, work);
                let (_, settling) = on_threads(1, |_| subject.settle());
                figures.push(throughput(&name, share * threads, inserting + settling));
            };
            for delay_us in DELAYS_US {
                let ticks = stamps.ticks(u64::from(delay_us) * 1_000);
                let delays: Vec<Vec<u64>> = (0..threads)
                    .map(|thread| {
                        let mut delay = PoissonDelay::new(ticks, round ^ thread as u64);
                        (0..share).map(|_| delay.draw_ticks()).collect()
                    })
                    .collect();
                timed(format!("{delay_us} us late"), &|thread| {
                    let mut stream = sensors(thread);
                    for delay in &delays[thread] {
                        let key = stream.key_at(ORIGIN_TICKS + stamps.now() - delay);
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
