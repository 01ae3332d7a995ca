//! The Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010), as in Table 1 of the Blink-hash
//! paper: keys have no time order. Keys are scattered integers, or strings like e-mail addresses;
//! accesses follow Zipf's law.

use std::hint::black_box;

use bedload_testkit::Rng;
use bedload_testkit::workload::scattered;

use super::super::zipf::Zipf;
use super::time_series::throughput;
use crate::latencies::Latencies;
use crate::plan::Plan;
use crate::record::{Figure, Record};
use crate::runner::Entrant;
use crate::scenarios::by_threads::rounds;
use crate::stamps::Stamps;
use crate::subjects::{Address, INDEXES, Make, OF_ADDRESSES, SCAN_MAX, Subject};
use crate::threads::on_threads;

/// The percentages of reads, updates, scans and inserts.
struct Mix {
    name: &'static str,
    read: u64,
    update: u64,
    scan: u64,
}

const MIXES: &[Mix] = &[
    Mix {
        name: "A",
        read: 50,
        update: 50,
        scan: 0,
    },
    Mix {
        name: "B",
        read: 95,
        update: 5,
        scan: 0,
    },
    Mix {
        name: "C",
        read: 100,
        update: 0,
        scan: 0,
    },
    Mix {
        name: "E",
        read: 0,
        update: 0,
        scan: 95,
    },
];

/// Returns an address of 12 to 32 bytes, padded with zeros: scattered letters, a number, and one of
/// a few domains.
pub(super) fn address(number: u64) -> Address {
    const DOMAINS: [&str; 4] = ["@mail.org", "@post.example", "@web.de", "@university.edu"];
    let mut bits = scattered(number);
    let mut address = Address::default();
    let [low, high, ..] = bits.to_le_bytes();
    let domain = DOMAINS[usize::from(low) % DOMAINS.len()].as_bytes();
    let name_len = 4 + usize::from(high) % 4;
    for letter in &mut address[..name_len] {
        bits = bits.rotate_right(7);
        *letter = b'a' + bits.to_le_bytes()[0] % 26;
    }
    // Nine hexadecimal digits of the number make addresses distinct.
    let digits = format!("{number:09x}");
    let tail = digits.bytes().chain(domain.iter().copied());
    for (place, byte) in address[name_len..].iter_mut().zip(tail) {
        *place = byte;
    }
    address
}

pub(super) fn integers(plan: &Plan) -> Vec<Record> {
    with_keys("ycsb", plan, INDEXES, scattered)
}

pub(super) fn addresses(plan: &Plan) -> Vec<Record> {
    with_keys("ycsb-addresses", plan, OF_ADDRESSES, address)
}

fn with_keys<K: Copy + Sync>(
    scenario: &'static str,
    plan: &Plan,
    entrants: &[Entrant<Make<K>>],
    key: impl Fn(u64) -> K + Sync,
) -> Vec<Record> {
    let loaded = plan.entries() as u64;
    let zipf = Zipf::new(loaded);
    rounds(scenario, plan, entrants, |subject, threads, round| {
        let share = loaded / threads as u64;
        let (_, seconds) = on_threads(threads, |thread| {
            for number in thread as u64 * share..(thread as u64 + 1) * share {
                subject.insert(key(number), number);
            }
        });
        let loaded = share * threads as u64;
        for number in (0..loaded).step_by(plan.entries().div_ceil(1000)) {
            assert_eq!(
                subject.get(key(number)),
                Some(number),
                "a loaded key is not found"
            );
        }
        let mut figures = vec![throughput("load", plan.entries() / threads * threads, seconds)];
        for (number, mix) in MIXES.iter().enumerate() {
            let first_new = loaded * (number as u64 + 2);
            figures.extend(run_mix(
                subject,
                mix,
                threads,
                round,
                &|rng: &mut Rng| zipf.draw(rng) % loaded,
                first_new,
                plan.entries() / threads / 4,
                &key,
            ));
        }
        figures
    })
}

#[expect(clippy::too_many_arguments, reason = "the parts of a mix")]
fn run_mix<K>(
    subject: &dyn Subject<K>,
    mix: &Mix,
    threads: usize,
    round: u64,
    draw: &(impl Fn(&mut Rng) -> u64 + Sync),
    first_new: u64,
    operations: usize,
    key: &(impl Fn(u64) -> K + Sync),
) -> Vec<Figure> {
    let stamps = Stamps::new();
    let (latencies, seconds) = on_threads(threads, |thread| {
        let mut latencies = Latencies::new();
        let mut rng = Rng::stream(round, thread as u64);
        let mut new = first_new + (thread * operations) as u64;
        for _ in 0..operations {
            let number = draw(&mut rng);
            let what = rng.below(100);
            latencies.time(&stamps, || {
                if what < mix.read {
                    black_box(subject.get(key(number)));
                } else if what < mix.read + mix.update {
                    subject.insert(key(number), number);
                } else if what < mix.read + mix.update + mix.scan {
                    black_box(subject.scan(key(number), rng.index(SCAN_MAX)));
                } else {
                    subject.insert(key(new), new);
                    new += 1;
                }
            });
        }
        latencies
    });
    let mut figures = Latencies::merge(latencies.into_iter()).figures(mix.name);
    figures.push(throughput(mix.name, operations * threads, seconds));
    figures
}
