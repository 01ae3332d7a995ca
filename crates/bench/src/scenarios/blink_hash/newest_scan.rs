//! Scans of the newest entries, as dashboards run them, compared with scans of old ones.

use std::hint::black_box;

use super::time_series::{load, sensors};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::INDEXES;
use crate::threads::on_threads;

/// Inserts between two scans.
const INSERTS: usize = 16;
/// Distance of a scan's start from the newest key, in keys of this thread.
const BEHIND: usize = 100;
const LIMIT: usize = 50;

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds("newest-scan", plan, INDEXES, |subject, threads, round| {
        let stamps = Stamps::new();
        let (keys, _) = load(subject, threads, plan.entries(), &stamps, round);
        let share = plan.share(keys.len() / 64, threads);
        let (seconds, _) = on_threads(threads, |thread| {
            let mut stream = sensors(thread);
            let mut recent = Vec::with_capacity(share * INSERTS);
            let (mut newest_ns, mut old_ns) = (0, 0);
            for old in &keys[thread * share..(thread + 1) * share] {
                for _ in 0..INSERTS {
                    let key = stream.key_at(stamps.now());
                    subject.insert(key, !key);
                    recent.push(key);
                }
                let from = recent[recent.len().saturating_sub(BEHIND)];
                let before = stamps.now();
                black_box(subject.scan(from, LIMIT));
                let between = stamps.now();
                black_box(subject.scan(*old, LIMIT));
                newest_ns += stamps.nanoseconds(before, between);
                old_ns += stamps.nanoseconds(between, stamps.now());
            }
            (newest_ns as f64 / share as f64, old_ns as f64 / share as f64)
        });
        let mean = |of: fn(&(f64, f64)) -> f64| seconds.iter().map(of).sum::<f64>() / threads as f64;
        let (newest, old) = (mean(|ns| ns.0), mean(|ns| ns.1));
        [
            ("newest", "ns", newest),
            ("old", "ns", old),
            ("old over newest", "", old / newest),
        ]
        .map(|(metric, unit, value)| Figure::new(metric, unit, value))
        .to_vec()
    })
}
