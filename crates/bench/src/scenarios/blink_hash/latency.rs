//! Latencies of inserts, and of queries under the mix.

use std::hint::black_box;

use bedload_testkit::Rng;

use super::time_series::{Operation, draw, load, sensors};
use crate::latencies::Latencies;
use crate::plan::Plan;
use crate::record::Record;
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::INDEXES;
use crate::threads::on_threads;

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    rounds("timeseries-latency", plan, INDEXES, |subject, threads, round| {
        let stamps = Stamps::new();
        let (keys, _) = load(subject, threads, plan.entries() / 2, &stamps, round);
        let share = plan.share(keys.len(), threads);
        let (measured, _) = on_threads(threads, |thread| {
            let (mut inserts, mut queries, mut nothing) =
                (Latencies::new(), Latencies::new(), Latencies::new());
            let mut rng = Rng::stream(round, thread as u64);
            let mut stream = sensors(thread);
            for _ in 0..share {
                let key = stream.key_at(stamps.now());
                inserts.time(&stamps, || subject.insert(key, !key));
                nothing.time(&stamps, || black_box(key));
            }
            for key in &keys[thread * share..(thread + 1) * share] {
                match draw(&mut rng, false) {
                    Operation::Insert => {
                        let key = stream.key_at(stamps.now());
                        subject.insert(key, !key);
                    }
                    Operation::Lookup => {
                        queries.time(&stamps, || black_box(subject.get(*key)));
                    }
                    Operation::Scan(limit) => {
                        queries.time(&stamps, || black_box(subject.scan(*key, limit)));
                    }
                }
            }
            (inserts, queries, nothing)
        });
        let (mut inserts, mut queries, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
        for (insert, query, empty) in measured {
            inserts.push(insert);
            queries.push(query);
            nothing.push(empty);
        }
        [
            ("insert", inserts),
            ("query under the mix", queries),
            ("nothing", nothing),
        ]
        .into_iter()
        .flat_map(|(metric, latencies)| Latencies::merge(latencies.into_iter()).figures(metric))
        .collect()
    })
}
