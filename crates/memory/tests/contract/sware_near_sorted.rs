//! Where a tree for nearly sorted keys puts them, counted; and what its ranges visit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;

use bedload_memory::near_sorted::NearSortedTree;
use bedload_sortedness::Estimator;
use bedload_testkit::Rng;
use bedload_testkit::workload::{DEGREES, NearlySorted, arrivals, scrambled};

use crate::sware::small;

#[test]
fn what_is_in_order_is_appended_and_what_is_not_waits() {
    let len = 200_000;
    for (ranks, (k, _)) in arrivals(len).zip(DEGREES).take(5) {
        let mut tree = NearSortedTree::new();
        for &rank in &ranks {
            tree.insert(rank * 10, rank);
        }
        let went = tree.arrivals();
        let out_of_order = went.into_tail + went.ahead + went.pending;
        // The first leaf takes everything; beyond it, no key that was not swapped may have left the
        // fast path.
        let swapped = k / 100.0 * len as f64;
        assert!(out_of_order as f64 <= swapped + 1024.0, "{k}: {went:?}");
        tree.drain();
        tree.check_structure().unwrap();
        if k <= 20.0 {
            assert!(tree.fill() >= 0.9, "{k}: leaves are filled to {}", tree.fill());
        }
        // Beside the entries there are the leaves and tables kept for the next use, whatever the
        // size of the tree.
        let kept = 1 << 20;
        assert!(tree.bytes() <= 22 * len + kept, "{k}: {} bytes", tree.bytes());
    }
}

/// The departures of a year in the order in which they were scheduled, each a key of its own.
fn flights() -> Vec<u64> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).expect("the flights are part of the repository"))
        .read_to_string(&mut text)
        .expect("they are compressed text");
    let digits = |time: &str| -> String { time.chars().filter(char::is_ascii_digit).collect() };
    let times = text.lines().skip(1).filter_map(|line| line.split(',').nth(1));
    let times = times.filter_map(|time| digits(time).parse::<u64>().ok());
    times
        .zip(0..)
        .map(|(time, arrival)| time << 20 | arrival)
        .collect()
}

/// However many keys are a little late, they are sorted in the tail, and packed: none waits for its
/// leaf but few, and each is written a few times only.
#[test]
fn what_is_a_little_late_is_sorted_in_the_tail() {
    let len = 200_000;
    let made = |(k, l)| {
        let spec = NearlySorted {
            swapped_percent: k,
            displacement_percent: l,
            ..NearlySorted::new(len, 11)
        };
        spec.generate().keys
    };
    let inputs = [
        (made((0.0, 0.0)), 0, 2),
        (made((96.67, 0.1)), 5, 7),
        (made((50.0, 0.1)), 5, 7),
        (made((100.0, 1.0)), 25, 7),
        (flights(), 5, 5),
    ];
    for (number, (keys, percent_elsewhere, moved)) in inputs.into_iter().enumerate() {
        let mut tree = NearSortedTree::new();
        keys.iter().for_each(|&key| tree.insert(key, !key));
        let went = tree.arrivals();
        let elsewhere = (went.pending + went.ahead) * 100;
        let all = keys.len() as u64;
        assert!(elsewhere <= all * percent_elsewhere, "input {number}: {went:?}");
        assert!(went.moved <= all * moved, "input {number}: {went:?}");
        tree.drain();
        tree.check_structure().expect("the structure holds");
        assert!(tree.fill() >= 0.9, "leaves are filled to {}", tree.fill());
        assert!(keys.iter().all(|&key| tree.get(key) == Some(!key)));
        assert!(
            tree.bytes() <= 22 * keys.len() + (1 << 20),
            "{} bytes",
            tree.bytes()
        );
    }
}

/// The tail is sorted by the first scan that meets it, and by no other until more keys are late.
#[test]
fn a_scan_sorts_the_tail_once() {
    let mut tree = NearSortedTree::new();
    (0..10_000_u64).for_each(|key| tree.insert(key ^ 7, key));
    let scan = |tree: &mut NearSortedTree| {
        let mut next = 0;
        tree.scan(.., |keys, _| {
            assert!(keys.iter().copied().eq(next..next + keys.len() as u64));
            next += keys.len() as u64;
        });
        assert_eq!(next, 10_000);
        tree.arrivals().moved
    };
    let before = tree.arrivals().moved;
    let once = scan(&mut tree);
    assert!(once > before);
    assert_eq!(scan(&mut tree), once);
    tree.insert(9_990, 0);
    assert!(scan(&mut tree) > once);
}

/// Runs in order are counted late, but what is told is that of all keys, whatever else moves
/// entries meanwhile.
#[test]
fn the_order_is_that_of_all_keys() {
    for ranks in arrivals(30_000) {
        let mut tree = NearSortedTree::with_options(small());
        let mut order = Estimator::new();
        let mut rng = Rng::new(3);
        for (number, &rank) in ranks.iter().enumerate() {
            tree.insert(rank, rank);
            order.observe(rank);
            match rng.below(400) {
                0 => tree.scan(rank.saturating_sub(50)..=rank, |_, _| {}),
                // One of the last, of which nothing may be counted yet.
                1 => _ = tree.remove(ranks[number - rng.index(number.min(20) + 1)]),
                2 => tree.prepare_range(..),
                3 => tree.drain(),
                4..10 => {}
                _ => continue,
            }
            assert_eq!(tree.order().save(), order.save(), "after {number} keys");
        }
        assert_eq!(tree.order().save(), order.save());
    }
}

/// It is kept aside, so later keys are in order.
#[test]
fn the_greatest_of_all_keys_makes_no_other_late() {
    let mut tree = NearSortedTree::new();
    tree.insert(u64::MAX, 7);
    (0..50_000).for_each(|key| tree.insert(key, key));
    tree.insert(u64::MAX, 8);
    tree.insert(50_000, 50_000);
    let order = tree.order().total();
    assert_eq!(
        (order.rows, order.k, order.l, order.below_running_max),
        (50_001, 0, 0, 0)
    );
    assert_eq!((tree.get(u64::MAX), tree.get(50_000)), (Some(8), Some(50_000)));
    assert_eq!(tree.range(49_999..).count(), 3);
    assert_eq!(tree.remove(u64::MAX), Some(8));
    tree.check_structure().unwrap();
}

#[test]
fn draining_leaves_nothing_pending() {
    for ranks in arrivals(30_000) {
        let mut tree = NearSortedTree::with_options(small());
        for &rank in &ranks {
            tree.insert(rank, rank);
        }
        tree.drain();
        tree.check_structure().unwrap();
        let mut visited = 0;
        tree.visit(.., |keys, values| {
            assert_eq!(keys, values);
            assert!(keys.iter().copied().eq(visited..visited + keys.len() as u64));
            visited += keys.len() as u64;
        });
        assert_eq!(visited, 30_000);
    }
}

/// More late keys for one leaf than may wait for it, some of them again and again.
#[test]
fn late_keys_may_all_belong_to_one_leaf() {
    let mut tree = NearSortedTree::new();
    let mut oracle = BTreeMap::new();
    let mut insert = |tree: &mut NearSortedTree, key: u64, value: u64| {
        tree.insert(key, value);
        oracle.insert(key, value);
    };
    for key in 0..40_000 {
        insert(&mut tree, key * 1000, key);
    }
    let mut rng = Rng::new(17);
    for value in 0..20_000 {
        let key = 5_000_000 + rng.below(if value % 3 == 0 { 50 } else { 100_000 });
        insert(&mut tree, key, value);
        assert_eq!(tree.get(key), Some(value));
        if value % 1000 == 0 {
            tree.check_structure().unwrap();
        }
    }
    let mut visited = Vec::new();
    tree.visit(.., |keys, values| {
        visited.extend(keys.iter().copied().zip(values.iter().copied()))
    });
    assert!(visited.iter().copied().eq(oracle.into_iter()));
    tree.drain();
    tree.check_structure().unwrap();
    assert!(tree.range(..).eq(visited));
}

#[test]
fn ranges_visit_what_lies_between_the_bounds() {
    let mut rng = Rng::new(9);
    for ranks in arrivals(5_000) {
        let mut tree = NearSortedTree::with_options(small());
        let mut oracle = BTreeMap::new();
        for &rank in ranks.iter().chain([&u64::MAX, &(u64::MAX - 1)]) {
            tree.insert(rank, !rank);
            oracle.insert(rank, !rank);
            let (lower, upper) = (rng.below(5_000), rng.below(5_000));
            if rank % 16 == 0 && lower <= upper {
                let mut visited = Vec::new();
                let mut visit = |keys: &[u64], values: &[u64]| {
                    visited.extend(keys.iter().copied().zip(values.iter().copied()));
                };
                if rank % 32 == 0 {
                    tree.scan(lower..=upper, &mut visit);
                    tree.check_structure().unwrap();
                } else {
                    tree.visit(lower..=upper, &mut visit);
                }
                let expected = oracle.range(lower..=upper).map(|(&key, &value)| (key, value));
                assert!(expected.eq(visited), "{lower}..={upper}");
            }
        }
        assert!(
            tree.range(..)
                .eq(oracle.iter().map(|(&key, &value)| (key, value)))
        );
    }
}

/// Merged entries are visited where they stand, joined ones where they were joined, all of them in
/// the same place.
#[test]
fn scans_merge_what_they_meet() {
    const KEYS: u64 = 200_000;
    let mut tree = NearSortedTree::new();
    for key in scrambled(200_000, 3) {
        tree.insert(key, !key);
    }
    let slices = |tree: &NearSortedTree, range: Range<u64>| {
        let (mut keys, mut slices) = (range.clone(), Vec::new());
        tree.visit(range, |visited, _| {
            assert!(visited.iter().all(|&key| keys.next() == Some(key)));
            slices.push(visited.as_ptr());
        });
        assert!(keys.is_empty());
        slices
    };
    let all = slices(&tree, 0..KEYS);
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
    let place = twice.expect("neighbours are joined")[0];
    let joined = |tree: &NearSortedTree, range: &Range<u64>| {
        let slices = slices(tree, range.clone());
        slices.into_iter().filter(|&slice| slice == place).count()
    };
    let scan = |tree: &mut NearSortedTree, range: &Range<u64>| {
        let mut keys = range.clone();
        tree.scan(range.clone(), |visited, values| {
            assert!(visited.iter().all(|&key| keys.next() == Some(key)));
            assert!(visited.iter().zip(values).all(|(key, value)| *value == !key));
        });
        assert!(keys.is_empty());
        tree.check_structure().unwrap();
    };
    assert!(joined(&tree, &(0..KEYS)) > 500);
    // Leaves with room at once; the others, and the first and the last one, when four scans have
    // joined them.
    let long = 50_000..150_000;
    let before = joined(&tree, &long);
    scan(&mut tree, &long);
    let costly = joined(&tree, &long);
    assert!(0 < costly && costly < before * 2 / 3, "{costly} of {before}");
    for _ in 0..3 {
        scan(&mut tree, &long);
        assert_eq!(joined(&tree, &long), costly);
    }
    scan(&mut tree, &long);
    assert_eq!(joined(&tree, &long), 0);
    // A part of a leaf. That more keys come late meanwhile is no reason to begin to count anew.
    let short = 10_000..10_050;
    for key in short.clone().take(4) {
        assert!(joined(&tree, &short) > 0);
        scan(&mut tree, &short);
        tree.insert(key, !key);
    }
    assert!(joined(&tree, &short) > 0);
    scan(&mut tree, &short);
    assert_eq!(joined(&tree, &short), 0);
    tree.prepare_range(..);
    tree.check_structure().unwrap();
    assert_eq!(joined(&tree, &(0..KEYS)), 0);
    assert!(tree.fill() > 0.9, "{} filled", tree.fill());
}
