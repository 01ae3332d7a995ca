//! Work of an SB-tree beyond appends and lookups: conversions, walks along the data layer, and the
//! division of time (§V-B and Figure 9 of the SB-tree paper).

use std::hint::black_box;

use bedload_memory::SbTreeWork;
use bedload_testkit::Rng;
use bedload_testkit::workload::{Late, LateKey};

use crate::latencies::Latencies;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Trial;
use crate::scenarios::blink_hash::time_series::{sensors, verify};
use crate::stamps::Stamps;
use crate::subjects::{SEGMENTED, Subject, names};
use crate::threads::on_threads;

/// The share of late keys among the last inserts.
const LATE_PERCENT: f64 = 10.0;
/// Multiple of the median from which an insert counts as slow: it converted something, split a
/// block, or waited.
const OUTSTANDING: u64 = 8;
const SCANS: [usize; 3] = [1, 50, 99];

pub(super) fn subjects() -> Vec<&'static str> {
    names(SEGMENTED)
}

pub(super) fn run(plan: &Plan) -> Vec<Record> {
    let of_threads = |threads: usize| {
        Trial::new("segment", SEGMENTED[0].name, plan)
            .param("threads", threads)
            .param("entries", plan.entries())
            .run_each(SEGMENTED, |entrant, number| {
                measure((entrant.make)().as_ref(), plan, threads, number)
            })
    };
    plan.threads().into_iter().flat_map(of_threads).collect()
}

fn measure(subject: &dyn Subject, plan: &Plan, threads: usize, round: u64) -> Vec<Figure> {
    let stamps = Stamps::new();
    let share = plan.entries() / threads;
    subject.reserve(2 * plan.entries());
    let mut figures = Vec::new();
    let (loaded, _) = on_threads(threads, |thread| {
        let mut stream = sensors(thread);
        let (mut inserts, mut nothing) = (Latencies::new(), Latencies::new());
        let keys: Vec<u64> = (0..share)
            .map(|_| {
                let key = stream.key_at(stamps.now());
                inserts.time(&stamps, || subject.insert(key, !key));
                nothing.time(&stamps, || black_box(key));
                key
            })
            .collect();
        (keys, inserts, nothing)
    });
    let (mut keys, mut inserts, mut nothing) = (Vec::new(), Vec::new(), Vec::new());
    for (own, insert, empty) in loaded {
        keys.extend(own);
        inserts.push(insert);
        nothing.push(empty);
    }
    let (inserts, nothing) = (
        Latencies::merge(inserts.into_iter()),
        Latencies::merge(nothing.into_iter()),
    );
    let (quick, slow) = inserts.parted(OUTSTANDING);
    let of_clock = nothing.median_ns();
    figures.push(Figure::new(
        "insert, the clock taken off",
        "ns",
        inserts.mean_ns() - of_clock,
    ));
    figures.push(Figure::new(
        "inserts that do more than append",
        "%",
        100.0 * slow.0,
    ));
    let (quick_ns, slow_ns) = (quick.1 - quick.0 * of_clock, slow.1 - slow.0 * of_clock);
    let share_of_slow = slow_ns / (quick_ns + slow_ns).max(f64::MIN_POSITIVE);
    figures.push(Figure::new("time in these", "%", 100.0 * share_of_slow));
    figures.extend(work_figures("in order", subject.work(), keys.len()));
    let before = subject.work();
    subject.settle();
    verify(subject, &keys);

    let mut rng = Rng::new(round);
    rng.shuffle(&mut keys);
    let looked_up = keys.len() / 4;
    let ns_each = |work: &dyn Fn(u64)| {
        let from = stamps.now();
        keys[..looked_up].iter().for_each(|&key| work(key));
        stamps.nanoseconds(from, stamps.now()) as f64 / looked_up as f64
    };
    figures.push(Figure::new(
        "lookup",
        "ns",
        ns_each(&|key| {
            black_box(subject.get(key));
        }),
    ));
    for limit in SCANS {
        let ns = ns_each(&|key| {
            black_box(subject.scan(key, limit));
        });
        figures.push(Figure::new(format!("scan of {limit}"), "ns", ns));
    }

    let base = 1 << 63;
    on_threads(threads, |thread| {
        let late = Late::new(LATE_PERCENT, LateKey::Fresh, round ^ thread as u64);
        for number in late.take(share / 2) {
            let key = base + number * threads as u64 + thread as u64;
            subject.insert(key, !key);
        }
    });
    let since = before.zip(subject.work()).map(|(before, mut after)| {
        after.seals -= before.seals;
        after.steps -= before.steps;
        after.walks -= before.walks;
        after.walked -= before.walked;
        after
    });
    figures.extend(work_figures("a tenth late", since, share / 2 * threads));
    figures
}

fn work_figures(order: &str, work: Option<SbTreeWork>, inserts: usize) -> Vec<Figure> {
    let Some(work) = work else { return Vec::new() };
    let inserts = inserts as f64;
    let each = |count: u64, of: f64| if of > 0.0 { count as f64 / of } else { 0.0 };
    [
        ("conversions", "/Minsert", each(work.seals, inserts / 1e6)),
        ("steps of a conversion", "", each(work.steps, work.seals as f64)),
        ("walks", "/Minsert", each(work.walks, inserts / 1e6)),
        ("blocks of a walk", "", each(work.walked, work.walks as f64)),
    ]
    .map(|(what, unit, value)| Figure::new(format!("{what}, {order}"), unit, value))
    .to_vec()
}
