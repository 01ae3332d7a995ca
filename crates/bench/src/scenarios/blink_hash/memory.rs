//! Memory per entry (Figure 11 of the Blink-hash paper): memory allocated and not freed while one
//! thread inserts ascending keys, by use where the index can tell; and again after as many random
//! keys.

use bedload_testkit::Rng;

use super::time_series::sensors;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::{INDEXES, OF_ADDRESSES, Subject};

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let plan = &plan.clone().with_threads_max(1);
    let integers = rounds("memory", plan, INDEXES, |subject, _, _| {
        let stamps = Stamps::new();
        let mut stream = sensors(0);
        measure(subject, plan.entries(), "8-byte keys", |_| {
            stream.key_at(stamps.now())
        })
    });
    let addresses = rounds("memory", plan, OF_ADDRESSES, |subject, _, _| {
        measure(subject, plan.entries(), "32-byte keys", super::ycsb::address)
    });
    let late = rounds("memory", plan, INDEXES, |subject, _, round| {
        let (stamps, mut rng) = (Stamps::new(), Rng::new(round));
        let mut stream = sensors(0);
        let (mut first, mut last) = (u64::MAX, 0);
        let in_order = plan.entries().div_ceil(2) as u64;
        measure(
            subject,
            plan.entries(),
            "the second half of 8-byte keys random",
            |number| {
                if number < in_order {
                    last = stream.key_at(stamps.now());
                    first = first.min(last);
                    last
                } else {
                    first + rng.below(last - first)
                }
            },
        )
    });
    [integers, addresses, late].concat()
}

fn measure<K: Copy>(
    subject: &dyn Subject<K>,
    entries: usize,
    keys: &str,
    mut key: impl FnMut(u64) -> K,
) -> Vec<Figure> {
    let allocated = allocation_counter::measure(|| {
        for number in 0..entries as u64 {
            subject.insert(key(number), number);
        }
        subject.settle();
    });
    let figure =
        |what: &str, bytes: f64| Figure::new(format!("{what}, {keys}"), "B/entry", bytes / entries as f64);
    let mut figures = vec![figure("allocated", allocated.bytes_current as f64)];
    if let Some(memory) = subject.memory_use() {
        figures.extend(
            [
                ("metadata", memory.metadata),
                ("separators and pointers", memory.structure_occupied),
                ("room for them", memory.structure_unoccupied),
                ("entries", memory.entries_occupied),
                ("room for entries", memory.entries_unoccupied),
            ]
            .map(|(what, bytes)| figure(what, bytes as f64)),
        );
    }
    figures
}
