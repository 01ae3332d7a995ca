//! The published buffer with latches of two levels: several threads insert and query.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use bedload_memory::Locked;
use bedload_memory::SharedMap;
use bedload_memory::near_sorted::PackedTree;
use bedload_memory::swa_buffer::{BufferOptions, LatchedSaTree, SaTree};
use bedload_pages::HeapPages;
use bedload_testkit::Rng;
use bedload_testkit::workload::arrivals;
use bedload_trees::bplus_tree::BPlusTreeOptions;

use crate::sware::{buffers, paged, small, suite};

#[test]
fn sa_trees_with_latches_of_two_levels() {
    let buffer = BufferOptions::new(300).page_entries(8);
    suite(|| LatchedSaTree::new(PackedTree::new(), buffer));
    let few = BufferOptions::new(10).page_entries(3);
    suite(|| LatchedSaTree::new(PackedTree::with_options(small()), few));
    let held = BufferOptions::new(50).page_entries(4).held_percent(50);
    let on_pages = || paged(HeapPages::new(512), BPlusTreeOptions::new().max_entries(4));
    suite(|| LatchedSaTree::new(on_pages(), held));
}

/// Some of the settings of a buffer, so that every pair of values of two of them is among them.
fn pairwise() -> Vec<BufferOptions> {
    let radixes = [3, 3, 3, 3, 3, 2, 2];
    let digits = |mut at: usize| {
        radixes.map(|radix| {
            let digit = at % radix;
            at /= radix;
            digit
        })
    };
    let pairs =
        |digits: [usize; 7]| (0..7).flat_map(move |a| (a + 1..7).map(move |b| (a, digits[a], b, digits[b])));
    let all: Vec<BufferOptions> = buffers().collect();
    let mut missing: BTreeSet<_> = (0..all.len()).flat_map(|at| pairs(digits(at))).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |at: &usize| pairs(digits(*at)).filter(|pair| missing.contains(pair)).count();
        let best = (0..all.len()).max_by_key(gain).expect("there are some");
        pairs(digits(best)).for_each(|pair| {
            missing.remove(&pair);
        });
        chosen.push(all[best]);
    }
    chosen
}

/// Two threads insert, each its half of the keys, in nearly sorted order and some keys again; two
/// threads look up and count what was there before they asked.
fn insert_and_query(map: &impl SharedMap<u64>, ranks: &[u64]) {
    const WRITERS: u64 = 2;
    let of_writer = |writer: u64| -> Vec<u64> {
        let own = ranks.iter().copied().filter(|rank| rank % WRITERS == writer);
        // Each third arrival is followed by an earlier key, with a new value.
        let own: Vec<u64> = own.collect();
        own.iter()
            .enumerate()
            .flat_map(|(at, &key)| std::iter::once(key).chain((at % 3 == 0).then(|| own[at / 2])))
            .collect()
    };
    let arrivals = [of_writer(0), of_writer(1)];
    let done = [AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        for (keys, done) in arrivals.iter().zip(&done) {
            scope.spawn(move || {
                for (number, &key) in (1..).zip(keys) {
                    map.insert(key, number as u64 - 1);
                    done.store(number, Ordering::Release);
                }
            });
        }
        for seed in 0..2 {
            let (arrivals, done) = (&arrivals, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while done
                    .iter()
                    .zip(arrivals)
                    .any(|(done, keys)| done.load(Ordering::Acquire) < keys.len())
                {
                    let writer = rng.index(2);
                    let inserted = done[writer].load(Ordering::Acquire);
                    if inserted == 0 {
                        continue;
                    }
                    let at = rng.index(inserted);
                    let key = arrivals[writer][at];
                    let found = map.get(key).expect("it was inserted");
                    assert!(found >= at as u64, "{key}: an older value came back");
                    let (lower, upper) = (key, key + 200);
                    let known = |number: usize| {
                        let keys = &arrivals[writer][..number];
                        keys.iter()
                            .filter(|key| (lower..=upper).contains(key))
                            .collect::<BTreeSet<_>>()
                            .len()
                    };
                    let entries: Vec<(u64, u64)> = map
                        .range((Bound::Included(lower), Bound::Included(upper)))
                        .collect();
                    let after = (done[writer].load(Ordering::Acquire) + 1).min(arrivals[writer].len());
                    assert!(
                        entries.is_sorted_by(|a, b| a.0 < b.0),
                        "keys come once, ascending"
                    );
                    let own = entries
                        .iter()
                        .filter(|entry| entry.0 % WRITERS == writer as u64)
                        .count();
                    assert!((known(inserted)..=known(after)).contains(&own), "{own} keys");
                }
            });
        }
    });
    let mut oracle = BTreeMap::new();
    for keys in &arrivals {
        oracle.extend(keys.iter().copied().zip(0..));
    }
    map.check_structure().expect("the structure holds");
    assert!(
        map.range((Bound::Unbounded, Bound::Unbounded))
            .eq(oracle.iter().map(|(&key, &value)| (key, value)))
    );
    for (&key, &value) in &oracle {
        assert_eq!(map.get(key), Some(value));
    }
    for (lower, upper) in [(0, 99), (1_000, 1_777), (2_990, u64::MAX)] {
        assert_eq!(
            map.range((Bound::Included(lower), Bound::Included(upper)))
                .count(),
            oracle.range(lower..=upper).count()
        );
    }
}

#[test]
fn inserts_and_queries_at_once_with_every_pair_of_settings_at_every_degree_of_order() {
    let pairwise = pairwise();
    assert!((9..40).contains(&pairwise.len()), "{}", pairwise.len());
    for ranks in arrivals(3_000) {
        for &options in &pairwise {
            insert_and_query(
                &LatchedSaTree::new(PackedTree::with_options(small()), options),
                &ranks,
            );
            insert_and_query(&Locked::new(SaTree::new(PackedTree::new(), options)), &ranks);
        }
        let on_pages = || paged(HeapPages::new(512), BPlusTreeOptions::new().split_percent(80));
        let options = BufferOptions::new(100).page_entries(4);
        insert_and_query(&LatchedSaTree::new(on_pages(), options), &ranks);
    }
}
