//! Why ascending keys are hard for trees and random ones are not (Figures 1 and 2 of the Blink-hash
//! paper).

use bedload_testkit::Rng;

use super::time_series::{load, throughput, verify};
use crate::plan::Plan;
use crate::record::Record;
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::indexes_and_hash_table;
use crate::threads::on_threads;

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let random = rounds(
        "motivation",
        plan,
        &indexes_and_hash_table(),
        |subject, threads, round| {
            let (keys, seconds) = on_threads(threads, |thread| {
                let mut rng = Rng::stream(round, thread as u64);
                let keys = (0..plan.entries() / threads).map(|_| {
                    // Uniform bits, except the bit that distinguishes keys never loaded.
                    let key = rng.next_u64() & !(1 << 5);
                    subject.insert(key, !key);
                    key
                });
                keys.collect::<Vec<_>>()
            });
            let keys = keys.concat();
            verify(subject, &keys);
            vec![throughput("random insert", keys.len(), seconds)]
        },
    );
    let ascending = rounds(
        "motivation",
        plan,
        &indexes_and_hash_table(),
        |subject, threads, round| {
            let (keys, seconds) = load(subject, threads, plan.entries(), &Stamps::new(), round);
            vec![throughput("ascending insert", keys.len(), seconds)]
        },
    );
    [random, ascending].concat()
}
