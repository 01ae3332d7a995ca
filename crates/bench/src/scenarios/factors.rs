//! What each part of Blink-hash contributes (Figure 12 of the paper), and what each of its parameters does (Tables 2 and
//! 3).

use std::hint::black_box;

use bedload_testkit::Rng;

use super::time_series::{Operation, draw, load, sensors, throughput};
use crate::record::Record;
use crate::runner::{Figure, Plan, Stamps, on_threads, rounds};
use crate::subjects::{Entrant, FACTORS, SCAN_MAX, Subject, TUNINGS};

pub(super) fn factor_analysis(plan: &Plan) -> Vec<Record> {
    inserts_and_queries("factor-analysis", plan, FACTORS)
}

/// Figures 13 and 14 are there as the share of memory that holds entries.
pub(super) fn tuning(plan: &Plan) -> Vec<Record> {
    inserts_and_queries("blink-hash-tuning", plan, TUNINGS)
}

fn inserts_and_queries(scenario: &'static str, plan: &Plan, entrants: &[Entrant]) -> Vec<Record> {
    rounds(scenario, plan, entrants, |subject, threads, round| {
        let stamps = Stamps::new();
        let (keys, seconds) = load(subject, threads, plan.entries(), &stamps, round);
        let mut figures = vec![throughput("insert", keys.len(), seconds)];
        figures.extend(fill(subject));
        // A hash leaf that is never converted is slow to scan, which a part of the keys shows as well.
        let share = keys.len() / threads / 20;
        let own = |thread: usize| &keys[thread * share..(thread + 1) * share];
        let (_, seconds) = on_threads(threads, |thread| {
            for key in own(thread) {
                black_box(subject.get(*key));
            }
        });
        figures.push(throughput("lookup", share * threads, seconds));
        let (_, seconds) = on_threads(threads, |thread| {
            let mut rng = Rng::stream(round, thread as u64);
            for key in own(thread) {
                black_box(subject.scan(*key, rng.index(SCAN_MAX)));
            }
        });
        figures.push(throughput("scan", share * threads, seconds));
        let (_, seconds) = on_threads(threads, |thread| {
            let mut rng = Rng::stream(round, thread as u64);
            let mut stream = sensors(thread);
            for key in own(thread) {
                match draw(&mut rng, true) {
                    Operation::Insert => {
                        let key = stream.key_at(stamps.now());
                        subject.insert(key, !key);
                    }
                    Operation::Lookup => {
                        black_box(subject.get(*key));
                    }
                    Operation::Scan(limit) => {
                        black_box(subject.scan(*key, limit));
                    }
                }
            }
        });
        figures.push(throughput("mix", share * threads, seconds));
        figures
    })
}

fn fill(subject: &dyn Subject) -> Option<Figure> {
    let memory = subject.memory_use()?;
    let room = memory.entries_occupied + memory.entries_unoccupied;
    Some(Figure {
        metric: "fill".to_owned(),
        unit: "%",
        value: memory.entries_occupied as f64 / room as f64 * 100.0,
    })
}
