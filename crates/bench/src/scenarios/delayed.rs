//! Keys that arrive late (§5.6 of the Blink-hash paper): time stamps set back by a random delay, and shares of keys drawn
//! from the past.

use std::sync::atomic::{AtomicU64, Ordering};

use bedload_testkit::workload::{Late, LateKey, PoissonDelay};

use super::time_series::{sensors, throughput};
use crate::record::Record;
use crate::runner::{Plan, Stamps, on_threads, rounds};
use crate::subjects::indexes_and_buffers;

/// Mean delays in microseconds: to a second.
const DELAYS_US: [u32; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

const SHARES_PERCENT: [u32; 5] = [1, 10, 30, 60, 100];

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds(
        "delayed",
        plan,
        &indexes_and_buffers(),
        |subject, threads, round| {
            let mut figures = Vec::new();
            let stamps = Stamps::new();
            let share = plan.entries() / threads / (DELAYS_US.len() + 2 * SHARES_PERCENT.len());
            for delay_us in DELAYS_US {
                let ticks = stamps.ticks(u64::from(delay_us) * 1_000);
                let (_, seconds) = on_threads(threads, |thread| {
                    let mut delay = PoissonDelay::new(ticks, round ^ thread as u64);
                    let mut stream = sensors(thread);
                    for _ in 0..share {
                        let key = stream.key_at(delay.set_back(stamps.now()));
                        subject.insert(key, !key);
                    }
                });
                figures.push(throughput(
                    &format!("{delay_us} us late"),
                    share * threads,
                    seconds,
                ));
            }
            // Above all that was inserted: each measurement has keys of its own.
            let base = AtomicU64::new(1 << 63);
            for (kind, name) in [(LateKey::Existing, "existing"), (LateKey::Fresh, "fresh")] {
                for percent in SHARES_PERCENT {
                    let base = base.fetch_add(1 << 50, Ordering::Relaxed);
                    let (_, seconds) = on_threads(threads, |thread| {
                        let late = Late::new(percent.into(), kind, round ^ thread as u64);
                        for number in late.take(share) {
                            let key = base + number * threads as u64 + thread as u64;
                            subject.insert(key, !key);
                        }
                    });
                    figures.push(throughput(
                        &format!("{percent} % late, {name}"),
                        share * threads,
                        seconds,
                    ));
                }
            }
            figures
        },
    )
}
