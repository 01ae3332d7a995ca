//! The contribution of each part of Blink-hash (Figure 12 of the paper), and the effect of each
//! parameter (Tables 2 and 3).

use bedload_testkit::Rng;

use super::time_series::{one_after_another, throughput};
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::scenarios::by_threads::rounds;
use crate::subjects::{FACTORS, Subject, TUNINGS};
use crate::threads::on_threads;

pub(super) fn factor_analysis(plan: &Plan) -> Vec<Record> {
    rounds("factor-analysis", plan, FACTORS, |subject, threads, round| {
        one_after_another(plan, subject, threads, round)
    })
}

/// Also reports the share of memory that holds entries; Figures 13 and 14 are the scenario
/// `blink-hash-splits`.
pub(super) fn tuning(plan: &Plan) -> Vec<Record> {
    rounds("blink-hash-tuning", plan, TUNINGS, |subject, threads, round| {
        let mut figures = one_after_another(plan, subject, threads, round);
        figures.extend(fill(subject));
        let share = plan.entries() / threads / 2;
        let (_, seconds) = on_threads(threads, |thread| {
            let mut rng = Rng::stream(round, thread as u64);
            for _ in 0..share {
                let key = ABOVE_ALL | rng.next_u64();
                subject.insert(key, !key);
            }
        });
        figures.push(throughput("random insert", share * threads, seconds));
        figures
    })
}

/// Above every time stamp, so that at most one leaf mixes these keys with others.
const ABOVE_ALL: u64 = 1 << 63;

fn fill(subject: &dyn Subject) -> Option<Figure> {
    let memory = subject.memory_use()?;
    let room = memory.entries_occupied + memory.entries_unoccupied;
    Some(Figure::new(
        "fill",
        "%",
        memory.entries_occupied as f64 / room as f64 * 100.0,
    ))
}
