//! Cache-line transfers between writers, counted in a model: writers take turns on one thread, so
//! that the counts depend on the code alone and apply to more writers than the machine has cores.

use bedload_memory::coherence::{acting_as, take_counts};

use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::scenarios::by_threads::rounds;
use crate::subjects::{INDEXES, LOG_SIZES};

const WRITERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The modelled indexes; the model cannot observe peers.
const OURS: [&str; 3] = ["blink-tree", "blink-hash", "sb-tree"];

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let ours: Vec<_> = INDEXES
        .iter()
        .copied()
        .filter(|entrant| OURS.contains(&entrant.name))
        .chain(LOG_SIZES.iter().copied())
        .collect();
    let plan = plan.clone().with_threads_max(1).with_rounds(1);
    rounds("coherence", &plan, &ours, |subject, _, _| {
        let mut keys = 0..;
        let mut figures = Vec::new();
        for writers in WRITERS {
            let inserts = plan.entries() / WRITERS.len();
            let _ = take_counts();
            let allocated = allocation_counter::measure(|| {
                for (turn, key) in (0..inserts).zip(&mut keys) {
                    let writer = u32::try_from(turn).unwrap_or(0) % writers;
                    acting_as(writer, || subject.insert(key, !key));
                }
            });
            let counts = take_counts();
            let figure = |what: &str, count: u64| {
                Figure::new(
                    format!("{what}, {writers} writers"),
                    "/insert",
                    count as f64 / inserts as f64,
                )
            };
            figures.extend([
                figure("reads of others' lines", counts.reads_of_others),
                figure("writes to others' lines", counts.writes_to_others),
                figure("exchanges", counts.exchanges),
                figure("allocations", allocated.count_total),
            ]);
        }
        figures
    })
}
