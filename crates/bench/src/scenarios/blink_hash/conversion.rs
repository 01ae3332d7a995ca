//! Scans of Blink-hash while they convert hash leaves, the same scans afterwards, and scans of one
//! entry, whose time is that of the descent (Figures 1 and 2 of the SB-tree paper).

use std::hint::black_box;

use super::time_series::{load, throughput};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::{CONVERTING, Subject};
use crate::threads::on_threads;

/// Entries of a scan.
const LIMIT: usize = 50;

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds(
        "blink-hash-conversion",
        plan,
        CONVERTING,
        |subject, threads, round| {
            let stamps = Stamps::new();
            let (keys, _) = load(subject, threads, plan.entries(), &stamps, round);
            let scans = |metric: &str, limit: usize| -> Figure {
                let share = plan.share(keys.len() / 2, threads);
                throughput(
                    metric,
                    share * threads,
                    seconds(subject, threads, &keys[..share * threads], limit),
                )
            };
            vec![
                scans("scan, as loaded", LIMIT),
                scans("scan, again", LIMIT),
                scans("scan of one entry, again", 1),
            ]
        },
    )
}

/// Scans from each of these keys, divided among threads.
fn seconds(subject: &dyn Subject, threads: usize, keys: &[u64], limit: usize) -> f64 {
    let share = keys.len() / threads;
    let (_, seconds) = on_threads(threads, |thread| {
        for &key in &keys[thread * share..(thread + 1) * share] {
            black_box(subject.scan(key, limit));
        }
    });
    seconds
}
