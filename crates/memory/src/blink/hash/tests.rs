//! The contract, with leaves and buckets so small that splits, settling and conversions are common.

use std::sync::atomic::{AtomicBool, Ordering};

use bedload_testkit::Rng;
use bedload_testkit::contract::{Keys, first_in_first_out};

use super::convert::freeze;
use super::fingerprints::BUCKET_CAP;
use super::hash_leaf::HashLeaf;
use super::{BlinkHash, BlinkHashOptions};
use crate::blink::aim::Aim;
use crate::blink::inner::INNER_CAP;
use crate::blink::sorted_leaf::{LEAF_CAP, SortedLeaf};
use crate::map::contract::Subject;
use crate::map::key::Key;
use crate::map::small_nodes::keeps_the_contract;

fn options() -> BlinkHashOptions {
    BlinkHashOptions::new()
        .node_bytes(1 << 10)
        .probes(2)
        .scans_before_conversion(3)
}

fn subject<K: Keys<Key: Key>>(keys: K) -> Subject<BlinkHash<K::Key>, K> {
    Subject(BlinkHash::with_options(options()), keys)
}

keeps_the_contract!(subject);

/// Counts hash leaves and sorted leaves.
fn leaves(index: &BlinkHash<u64>) -> (usize, usize) {
    let guard = &crossbeam_epoch::pin();
    let leaves = index.trunk.check(guard).expect("sound");
    let hashed = leaves
        .iter()
        .filter(|leaf| leaf.node.downcast::<HashLeaf<[u64; 1]>>().is_some());
    let hashed = hashed.count();
    (hashed, leaves.len() - hashed)
}

const KEYS: u64 = if cfg!(miri) { 60 } else { 5_000 };

fn ascending() -> BlinkHash<u64> {
    let index = BlinkHash::with_options(options());
    (0..KEYS).for_each(|key| index.insert(key, key));
    index
}

/// The left-most leaf splits near its least key, so that the leaves behind stay as full as those
/// that ascending keys leave behind.
#[test]
fn descending_keys_fill_leaves() {
    let descending = BlinkHash::with_options(options());
    (0..KEYS).rev().for_each(|key| descending.insert(key, key));
    let ([ascending, descending], middle) = (
        [ascending(), descending].map(|index| leaves(&index).0),
        BlinkHash::with_options(options().append_percentile(50)),
    );
    (0..KEYS).rev().for_each(|key| middle.insert(key, key));
    assert!(
        descending <= ascending * 5 / 4,
        "{descending}, ascending {ascending}"
    );
    assert!(descending < leaves(&middle).0, "{descending}");
}

/// The left-most leaf, at which inserts of the least keys begin, is replaced by sorted ones.
#[test]
fn keys_descend_past_a_converted_leaf() {
    let index = BlinkHash::with_options(options());
    let keys = if cfg!(miri) { 40 } else { 400 };
    for round in (0..4).rev() {
        let keys = round * keys..(round + 1) * keys;
        keys.rev().for_each(|key| index.insert(key, key));
        (0..4).for_each(|_| assert!(index.range(..).map(|(key, _)| key).is_sorted()));
    }
    assert!(leaves(&index).1 > 0, "{:?}", leaves(&index));
    assert!(index.range(..).map(|(key, _)| key).eq(0..4 * keys));
    assert_eq!(index.check_structure(), Ok(()));
}

#[test]
fn leaves_stay_hashed_until_they_are_scanned() {
    let index = ascending();
    let (hashed, sorted) = leaves(&index);
    assert!(hashed as u64 > KEYS / 50 && sorted == 0, "{hashed} {sorted}");
    for _ in 0..2 {
        assert!(index.range(..).map(|(key, _)| key).eq(0..KEYS));
    }
    assert_eq!(
        leaves(&index),
        (hashed, 0),
        "no writer came by, and two scans are not three"
    );
    let right_most_from = *index.fences().last().expect("there are several leaves");
    assert_eq!(index.range(..).count() as u64, KEYS);
    let (hashed, sorted) = leaves(&index);
    assert_eq!(hashed, 1, "the right-most leaf alone");
    assert!(
        sorted as u64 >= right_most_from / LEAF_CAP as u64,
        "{sorted} {right_most_from}"
    );
    assert_eq!(index.check_structure(), Ok(()));
}

#[test]
fn writers_convert_what_was_scanned() {
    let index = ascending();
    let (hashed, _) = leaves(&index);
    let mut buffer = ([0; 8], [0; 8]);
    assert_eq!(index.scan(10.., &mut buffer.0, &mut buffer.1), 8);
    assert_eq!(leaves(&index).1, 0);
    for key in KEYS.. {
        index.insert(key, key);
        if leaves(&index).0 + leaves(&index).1 > hashed {
            break;
        }
    }
    assert!(
        leaves(&index).1 > 0,
        "the leaf that was scanned is converted at the next split"
    );
    assert_eq!(index.check_structure(), Ok(()));
}

#[test]
fn convert_all_leaves_the_rightmost_alone() {
    let index = ascending();
    let (hashed, _) = leaves(&index);
    assert_eq!(index.convert_all(), hashed - 1);
    assert_eq!(index.convert_all(), 0);
    assert_eq!(leaves(&index).0, 1);
    assert!(index.range(..).rev().map(|(key, _)| key).eq((0..KEYS).rev()));
    (0..KEYS).for_each(|key| assert_eq!(index.get(key), Some(key)));
}

/// Returns the number of levels, including the leaves.
fn levels(index: &BlinkHash<u64>) -> u8 {
    let guard = &crossbeam_epoch::pin();
    let level_is_there = |level: &u8| index.trunk.find(&Aim::Last, *level, guard).is_some();
    (0..)
        .take_while(level_is_there)
        .count()
        .try_into()
        .expect("a few")
}

/// A leaf of this size converts to several times more sorted leaves than fit one parent.
const LARGE_LEAF_BYTES: usize = if cfg!(miri) { 12 << 10 } else { 16 << 10 };

/// A conversion adds more leaves than fit one parent: the parent, and the single-node root above
/// it, split repeatedly.
#[test]
fn a_conversion_overflows_parents_and_the_root() {
    let index = BlinkHash::<u64>::with_options(
        options()
            .node_bytes(LARGE_LEAF_BYTES)
            .scans_before_conversion(u32::MAX),
    );
    let mut keys = 0;
    while leaves(&index).0 < 4 {
        (keys..keys + 64).for_each(|key| index.insert(key, key));
        keys += 64;
    }
    assert_eq!(levels(&index), 2, "one root above the leaves");
    let guard = &crossbeam_epoch::pin();
    let fences = index.fences();
    let lows = [None, Some([fences[0]]), Some([fences[1]])];
    let roots_overflowed = lows.map(|low| {
        let before = levels(&index);
        assert!(index.convert(low, guard));
        assert_eq!(index.check_structure(), Ok(()));
        assert!(index.range(..).map(|(key, _)| key).eq(0..keys));
        levels(&index) - before
    });
    assert!(roots_overflowed[0] >= 2, "{roots_overflowed:?}");
    assert_eq!(leaves(&index).0, 1, "the right-most");
    assert!(leaves(&index).1 > 8 * INNER_CAP, "many parents overflowed, too");
    (0..keys).for_each(|key| assert_eq!(index.get(key), Some(key)));
    assert!(index.range(..).rev().map(|(key, _)| key).eq((0..keys).rev()));
}

/// The same with concurrent inserts, lookups and scans: two conversions at a time share parents and
/// roots.
#[test]
fn roots_overflow_beside_concurrent_operations() {
    const ROUNDS: u64 = if cfg!(miri) { 1 } else { 40 };
    let mut roots_overflowed = 0;
    for round in 0..ROUNDS {
        let index = BlinkHash::<u64>::with_options(options().node_bytes(LARGE_LEAF_BYTES));
        let mut keys = 0;
        while leaves(&index).0 < 5 {
            (keys..keys + 64).for_each(|number| index.insert(4 * number, number));
            keys += 64;
        }
        let operations = if cfg!(miri) { 50 } else { keys };
        let fences = index.fences();
        let before = levels(&index);
        std::thread::scope(|scope| {
            let index = &index;
            for low in [None, Some([fences[0]]), Some([fences[1]])] {
                scope.spawn(move || index.convert(low, &crossbeam_epoch::pin()));
            }
            for thread in 1..3 {
                scope.spawn(move || {
                    let mut rng = Rng::stream(round, thread);
                    for _ in 0..operations {
                        let key = 4 * rng.below(keys);
                        index.insert(key + thread, key);
                        assert_eq!(index.get(key), Some(key / 4));
                        let found = index.range(key..).take(9).filter(|(key, _)| key % 4 == 0);
                        let expected = (key / 4..keys).map(|number| (4 * number, number));
                        let found: Vec<_> = found.collect();
                        assert!(expected.take(found.len()).eq(found.into_iter()));
                    }
                });
            }
        });
        assert_eq!(index.check_structure(), Ok(()));
        let loaded = index.range(..).filter(|(key, _)| key % 4 == 0);
        assert!(loaded.eq((0..keys).map(|number| (4 * number, number))));
        roots_overflowed += u64::from(levels(&index) - before);
    }
    assert!(
        roots_overflowed >= ROUNDS,
        "{roots_overflowed} in {ROUNDS} rounds"
    );
}

/// Leaves that ascending keys have left behind are packed as a B-link tree's leaves are; others
/// leave room for more.
#[test]
fn conversion_packs_what_ascending_keys_left_behind() {
    let entries_a_leaf = |index: &BlinkHash<u64>| {
        let hashed = leaves(index).0;
        let right_most_from = *index.fences().last().expect("there are several leaves");
        assert_eq!(index.convert_all(), hashed - 1);
        index.range(..right_most_from).count() as f64 / leaves(index).1 as f64
    };
    let packed = entries_a_leaf(&ascending());
    let scattered = BlinkHash::<u64>::with_options(options());
    let mut keys: Vec<u64> = (0..KEYS).collect();
    Rng::new(6).shuffle(&mut keys);
    keys.iter().for_each(|&key| scattered.insert(key, key));
    let loose = entries_a_leaf(&scattered);
    assert!(packed > 6.0, "{packed} entries a leaf, of {LEAF_CAP}");
    assert!(loose < 6.0, "{loose} entries a leaf, of {LEAF_CAP}");
}

#[test]
fn an_existing_key_is_replaced_and_not_stored_twice() {
    let index = ascending();
    for round in 1..4 {
        (0..KEYS).for_each(|key| index.insert(key, key + round));
        assert!(index.range(..).eq((0..KEYS).map(|key| (key, key + round))));
        assert_eq!(index.check_structure(), Ok(()));
    }
}

/// Keys leave from either end. The right-most leaf stays a hash leaf.
#[test]
fn emptied_nodes_are_given_back() {
    for oldest_first in [true, false] {
        let index = BlinkHash::with_options(options());
        let empty = index.memory_use().total();
        (0..KEYS).for_each(|key| index.insert(key, key));
        let full = leaves(&index).0;
        for n in 0..KEYS {
            let key = if oldest_first { n } else { KEYS - 1 - n };
            assert_eq!(index.remove(key), Some(key));
        }
        assert!(index.is_empty());
        let (hashed, sorted) = leaves(&index);
        assert!(hashed == 1 && sorted <= 4, "{hashed} {sorted} of {full}");
        let bytes = index.memory_use().total();
        assert!(bytes <= 4 * empty, "{bytes}, {empty} at first");
        assert_eq!(index.check_structure(), Ok(()));
    }
}

/// Each thread removes its oldest key for each one that it inserts.
#[test]
fn the_oldest_leaves_are_given_back_as_keys_ascend() {
    const KEPT: u64 = if cfg!(miri) { 10 } else { 200 };
    for threads in [1, 4] {
        let index = BlinkHash::<u64>::with_options(options());
        first_in_first_out(
            (threads, KEYS, KEPT),
            |key, value| index.insert(key, value),
            |key| index.remove(key),
        );
        let live = (KEYS - KEPT) * threads..KEYS * threads;
        assert_eq!(index.first(), Some((live.start, KEYS - KEPT)));
        let guard = &crossbeam_epoch::pin();
        let all = index.trunk.check(guard).expect("sound");
        let is_passed = |high: Option<[u64; 1]>| high.is_some_and(|high| high <= [live.start]);
        let passed = all.iter().filter(|leaf| is_passed(leaf.high)).count();
        assert!(passed <= 4, "first() passes {passed} leaves");
        let fresh = BlinkHash::<u64>::with_options(options());
        live.clone().for_each(|key| fresh.insert(key, key));
        let [bytes, expected] = [&index, &fresh].map(|index| index.memory_use().total());
        assert!(
            bytes <= 3 * expected,
            "{bytes}, {expected} without the removed keys"
        );
        assert_eq!(index.check_structure(), Ok(()));
    }
}

/// Removals leave the marks of their buckets behind.
#[test]
fn a_leaf_without_entries_gets_no_view() {
    let index = BlinkHash::<u64>::with_options(options());
    (0..20).for_each(|key| index.insert(key, key));
    (0..20).for_each(|key| assert_eq!(index.remove(key), Some(key)));
    let guard = &crossbeam_epoch::pin();
    let leaf = index.trunk.rightmost(guard).expect("there is a leaf");
    let leaf = leaf.downcast::<HashLeaf<[u64; 1]>>().expect("a hash leaf");
    assert!(index.is_empty());
    assert_eq!(leaf.view().lock().capacity(), 0);
    index.insert(7, 7);
    assert_eq!(index.first(), Some((7, 7)));
    assert_eq!(leaf.view().lock().capacity(), leaf.buckets().len() * BUCKET_CAP);
}

#[test]
fn removers_convert_what_was_scanned() {
    let index = ascending();
    let guard = &crossbeam_epoch::pin();
    let is_sorted = |key: u64| {
        let found = index.trunk.find_leaf(&Aim::At([key]), guard);
        found.is_some_and(|found| found.node.downcast::<SortedLeaf<[u64; 1]>>().is_some())
    };
    let [from, to] = [index.fences()[0], index.fences()[1]];
    let mut buffer = ([0; 8], [0; 8]);
    assert_eq!(index.scan(0.., &mut buffer.0, &mut buffer.1), 8);
    assert!(!is_sorted(0));
    (from..to).for_each(|key| assert_eq!(index.remove(key), Some(key)));
    assert!(is_sorted(0), "scanned");
    assert!(is_sorted(from), "emptied");
    assert_eq!(index.check_structure(), Ok(()));
}

/// A split is a few stores; entries move when their buckets are next accessed.
#[test]
fn splits_move_nothing_by_themselves() {
    let index = BlinkHash::<u64>::with_options(options());
    let guard = &crossbeam_epoch::pin();
    let root = index.trunk.rightmost(guard).expect("there is a leaf");
    let left = root.downcast::<HashLeaf<[u64; 1]>>().expect("a hash leaf");
    let entries =
        |leaf: &HashLeaf<[u64; 1]>| leaf.buckets().iter().map(|bucket| bucket.entries().count()).sum();
    let total: usize = 20;
    (0..total as u64).for_each(|key| index.insert(key, key));
    index.split(root, left, [0], guard);
    let right = index.trunk.rightmost(guard).expect("there is a leaf");
    let right = right.downcast::<HashLeaf<[u64; 1]>>().expect("a hash leaf");
    assert_eq!((entries(left), entries(right)), (total, 0));
    assert!(!left.all_settled() && !right.all_settled());

    let Some([fence]) = right.low() else {
        panic!("the right half has a low fence")
    };
    assert_eq!(index.get(fence), Some(fence));
    assert!(entries(right) > 0 && entries(right) + entries(left) == total);
    assert_eq!(index.get(0), Some(0));
    assert!(index.range(..).map(|(key, _)| key).eq(0..total as u64));
    assert!(left.all_settled() && right.all_settled());
}

/// A latched bucket that is not sampled does not delay a split.
#[test]
fn a_split_latches_no_bucket() {
    let index = BlinkHash::<u64>::with_options(options());
    let guard = &crossbeam_epoch::pin();
    let node = index.trunk.rightmost(guard).expect("there is a leaf");
    let leaf = node.downcast::<HashLeaf<[u64; 1]>>().expect("a hash leaf");
    (0..20).for_each(|key| index.insert(key, key));
    let held = leaf
        .buckets()
        .last()
        .and_then(|bucket| bucket.latch.try_latch_now());
    assert!(held.is_some());
    index.split(node, leaf, [0], guard);
    assert_eq!(leaves(&index), (2, 0));
    drop(held);
    assert!(index.range(..).map(|(key, _)| key).eq(0..20));
    assert_eq!(index.check_structure(), Ok(()));
}

/// While writers are kept out of a leaf, until it is replaced, readers find its entries.
#[test]
fn a_leaf_that_is_being_converted_is_read() {
    let index = ascending();
    let guard = &crossbeam_epoch::pin();
    let found = index
        .trunk
        .find_leaf(&Aim::At([0]), guard)
        .expect("there is a leaf");
    let leaf = found.node.downcast::<HashLeaf<[u64; 1]>>().expect("a hash leaf");
    assert!(freeze(found.node, leaf, guard));
    assert!(leaf.is_frozen());
    (0..KEYS).for_each(|key| assert_eq!(index.get(key), Some(key)));
    let (mut keys, mut values) = ([0; 8], [0; 8]);
    assert_eq!(index.scan(1.., &mut keys, &mut values), 8);
    assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(index.convert(None, guard));
    index.insert(0, 1);
    assert_eq!((index.get(0), leaves(&index).1 > 0), (Some(1), true));
    assert_eq!(index.check_structure(), Ok(()));
}

/// A few leaves that fill, split, are scanned and converted concurrently.
#[test]
fn crowded_conversions_lose_nothing() {
    const THREADS: u64 = 4;
    const KEYS_PER_THREAD: usize = 64;
    let index = BlinkHash::<u64>::with_options(options().scans_before_conversion(1));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let index = &index;
            scope.spawn(move || {
                let mut rng = Rng::stream(4, thread);
                let mut expected = [None; KEYS_PER_THREAD];
                // The key range moves upwards, so that there are always hash leaves.
                for round in 0..if cfg!(miri) { 30 } else { 30_000 } {
                    let base = round / 2_000 * 1_000;
                    let own = rng.index(KEYS_PER_THREAD);
                    let key = base + own as u64 * THREADS + thread;
                    if round % 2_000 == 0 {
                        expected = [None; KEYS_PER_THREAD];
                    }
                    if rng.percent(70.0) {
                        index.insert(key, round);
                        expected[own] = Some(round);
                    } else {
                        assert_eq!(
                            index.remove(key),
                            expected[own].take(),
                            "round {round}, key {key}"
                        );
                    }
                    let other = rng.index(KEYS_PER_THREAD);
                    let key = base + other as u64 * THREADS + thread;
                    assert_eq!(index.get(key), expected[other], "round {round}, key {key}");
                    if rng.percent(5.0) {
                        let found: Vec<_> = index
                            .range(base..base + KEYS_PER_THREAD as u64 * THREADS)
                            .filter(|(key, _)| key % THREADS == thread)
                            .map(|(_, value)| value)
                            .collect();
                        assert!(
                            found.into_iter().eq(expected.iter().flatten().copied()),
                            "round {round}"
                        );
                    }
                }
            });
        }
    });
    assert_eq!(index.check_structure(), Ok(()));
}

/// Keys that leave and come back, to whichever of two buckets has room, while ranges read one
/// bucket after the other.
#[test]
fn a_key_that_moves_during_a_scan_is_yielded_once() {
    let index = BlinkHash::<u64>::with_options(BlinkHashOptions::new().node_bytes(1).probes(1));
    let guard = &crossbeam_epoch::pin();
    let leaf = index.trunk.rightmost(guard).expect("there is a leaf");
    let leaf = leaf.downcast::<HashLeaf<[u64; 1]>>().expect("a hash leaf");
    // Half as many again as their common home has room for.
    let probes = |key: u64| [0, 1].map(|probe| leaf.probe(&leaf.place_of(&[key]), probe));
    let keys: Vec<u64> = (0..)
        .filter(|&key| probes(key) == [0, 1])
        .take(BUCKET_CAP * 3 / 2)
        .collect();
    keys.iter().for_each(|&key| index.insert(key, key));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, is_done) = (&index, &is_done);
        for (own, thread) in keys.chunks(keys.len() / 2).zip(0..) {
            scope.spawn(move || {
                let mut rng = Rng::stream(5, thread);
                while !is_done.load(Ordering::Relaxed) {
                    let key = own[rng.index(own.len())];
                    index.remove(key);
                    index.insert(key, key);
                }
            });
        }
        for round in 0..if cfg!(miri) { 4 } else { 60_000 } {
            let keys: Vec<u64> = if round % 2 == 0 {
                index.range(..).map(|(key, _)| key).collect()
            } else {
                let mut keys: Vec<u64> = index.range(..).rev().map(|(key, _)| key).collect();
                keys.reverse();
                keys
            };
            if !keys.is_sorted_by(|a, b| a < b) {
                is_done.store(true, Ordering::Relaxed);
                panic!("{keys:?}");
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
