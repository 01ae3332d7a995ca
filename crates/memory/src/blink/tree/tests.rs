//! The contract, with nodes so small that splits and merges are common.

use std::ops::Range;
use std::time::{Duration, Instant};

use bedload_testkit::contract::Keys;

use super::BlinkTree;
use crate::blink::aim::Aim;
use crate::blink::inner::INNER_CAP;
use crate::blink::sorted_leaf::{LEAF_CAP, SortedLeaf};
use crate::map::contract::Subject;
use crate::map::key::Key;
use crate::map::small_nodes::keeps_the_contract;
use bedload_testkit::Rng;

fn subject<K: Keys<Key: Key>>(keys: K) -> Subject<BlinkTree<K::Key>, K> {
    Subject(BlinkTree::new(), keys)
}

keeps_the_contract!(subject);

#[test]
fn emptied_nodes_are_given_back() {
    const KEYS: u64 = if cfg!(miri) { 100 } else { 2_000 };
    let tree = BlinkTree::<u64>::new();
    let guard = &crossbeam_epoch::pin();
    let leaves = || tree.trunk.check(guard).expect("sound").len();
    for oldest_first in [true, false] {
        (0..KEYS).for_each(|key| tree.insert(key, key));
        assert!(leaves() as u64 >= KEYS.div_ceil(8), "{}", leaves());
        for n in 0..KEYS {
            let key = if oldest_first { n } else { KEYS - 1 - n };
            assert_eq!(tree.remove(key), Some(key));
        }
        assert!(tree.is_empty());
        assert!(leaves() <= 8, "{}", leaves());
    }
}

/// An inner node whose neighbour is full keeps its only leaf. When there is room, both merge.
#[test]
fn an_only_child_merges_with_its_parent() {
    let tree = BlinkTree::<u64>::new();
    let guard = &crossbeam_epoch::pin();
    let leaves = || tree.trunk.check(guard).expect("sound").len();
    let remove = |keys: Range<u64>| keys.for_each(|key| assert_eq!(tree.remove(key), Some(key)));
    // Leaves of 7 entries; 8 of them below the first inner node, the rest below a full one.
    let first = INNER_CAP as u64 * 7;
    (0..first + 7 * (INNER_CAP as u64 + 1)).for_each(|key| tree.insert(key, key));
    let full = leaves();
    remove(0..first - 1);
    assert_eq!(leaves(), full - INNER_CAP + 1, "one with the last key");
    // Makes room in the full node.
    remove(first + 14..first + 21);
    assert_eq!(leaves(), full - INNER_CAP);
    remove(first - 1..first);
    assert_eq!(leaves(), full - INNER_CAP - 1);
    assert_eq!(tree.check_structure(), Ok(()));
}

#[test]
fn ascending_keys_fill_leaves() {
    let tree = BlinkTree::<u64>::new();
    const LEAVES: u64 = if cfg!(miri) { 30 } else { 1_000 };
    (0..7 * LEAVES).for_each(|key| tree.insert(key, key));
    let leaves = tree.trunk.check(&crossbeam_epoch::pin()).expect("sound").len();
    assert_eq!(leaves as u64, LEAVES, "leaves of 8 entries");
}

#[test]
fn descending_keys_fill_leaves() {
    let tree = BlinkTree::<u64>::new();
    const LEAVES: u64 = if cfg!(miri) { 30 } else { 1_000 };
    (0..7 * LEAVES).rev().for_each(|key| tree.insert(key, key));
    let leaves = tree.trunk.check(&crossbeam_epoch::pin()).expect("sound").len();
    assert!(leaves as u64 <= LEAVES + 2, "{leaves} leaves of 8 entries");
}

/// A few leaves that fill, split, empty and merge concurrently.
#[test]
fn crowded_merges_lose_nothing() {
    const THREADS: u64 = 4;
    const KEYS_PER_THREAD: usize = 16;
    let tree = BlinkTree::<u64>::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                let mut rng = Rng::stream(3, thread);
                let mut expected = [None; KEYS_PER_THREAD];
                for round in 0..if cfg!(miri) { 60 } else { 60_000 } {
                    let own = rng.index(expected.len());
                    let key = own as u64 * THREADS + thread;
                    // Phases of growth and of decay alternate.
                    if rng.percent(if round / 64 % 2 == 0 { 80.0 } else { 20.0 }) {
                        tree.insert(key, round);
                        expected[own] = Some(round);
                    } else {
                        assert_eq!(tree.remove(key), expected[own].take(), "round {round}, key {key}");
                    }
                    let other = rng.index(expected.len());
                    assert_eq!(
                        tree.get(other as u64 * THREADS + thread),
                        expected[other],
                        "round {round}"
                    );
                }
            });
        }
    });
    assert_eq!(tree.check_structure(), Ok(()));
}

/// Between the two steps of a split, the new leaf is reachable only through its left sibling, which
/// is emptied meanwhile.
#[test]
fn a_split_half_done_survives_an_attempt_to_merge() {
    let tree = BlinkTree::<u64>::new();
    (0..400).step_by(10).for_each(|key| tree.insert(key, key));
    let guard = &crossbeam_epoch::pin();
    let leaf_of = |key| tree.leaf_at(&Aim::At([key]), guard).expect("there are leaves").1;
    let full_leaf = leaf_of(200);
    for key in 201.. {
        if full_leaf.is_full() {
            break;
        }
        tree.insert(key, key);
    }
    let everything: Vec<u64> = tree.range(..).map(|(key, _)| key).collect();
    let [last] = full_leaf.key(full_leaf.len() - 1);
    let latched = full_leaf.header().latch.try_latch_now().expect("free");
    let (fence, right) = full_leaf.split(false, LEAF_CAP, [last + 1], last + 1, latched.writer(), guard);
    drop(latched);

    let removed: Vec<u64> = (0..full_leaf.len())
        .map(|place| full_leaf.key(place)[0])
        .collect();
    for key in &removed {
        assert_eq!(tree.remove(*key), Some(*key));
    }
    tree.trunk.insert_separator(fence, right, guard);
    assert_eq!(tree.check_structure(), Ok(()));
    for key in everything
        .into_iter()
        .filter(|key| !removed.contains(key))
        .chain([last + 1])
    {
        assert_eq!(tree.get(key), Some(key));
    }
}

/// Does the first step of a split of the leaf that covers a key, in a tree of every tenth key below
/// `end`. Another thread then empties a leaf, and the second step follows once that thread has
/// ended or waits. No leaf may stay empty.
fn empties_beside_a_split_half_done(end: u64, key: u64, emptied: Emptied) {
    let tree = BlinkTree::<u64>::new();
    (0..end).step_by(10).for_each(|key| tree.insert(key, key));
    let guard = &crossbeam_epoch::pin();
    let leaf_of = |key| tree.leaf_at(&Aim::At([key]), guard).expect("there are leaves").1;
    let keys_of = |leaf: &SortedLeaf<[u64; 1]>| -> Vec<u64> {
        leaf.entries(0..leaf.len()).map(|([key], _)| key).collect()
    };
    let leaf = leaf_of(key);
    let [first] = leaf.key(0);
    for key in first + 1.. {
        if leaf.is_full() {
            break;
        }
        tree.insert(key, key);
    }
    let [last] = leaf.key(LEAF_CAP - 1);
    let latched = leaf.header().latch.try_latch_now().expect("free");
    let was_rightmost = leaf.header().is_rightmost();
    let (fence, right) = leaf.split(false, LEAF_CAP, [last + 1], last + 1, latched.writer(), guard);
    if was_rightmost {
        tree.trunk.set_rightmost(right, latched.writer());
    }
    drop(latched);

    let victim = match emptied {
        Emptied::LeftHalf => leaf,
        Emptied::RightHalf => right.downcast().expect("a sorted leaf"),
        Emptied::Rightmost => leaf_of(u64::MAX),
    };
    let removed = keys_of(victim);
    std::thread::scope(|scope| {
        let remover = scope.spawn(|| {
            for key in removed {
                assert_eq!(tree.remove(key), Some(key));
            }
        });
        let begun = Instant::now();
        while !remover.is_finished() && begun.elapsed() < Duration::from_millis(100) {
            std::thread::yield_now();
        }
        tree.trunk.insert_separator(fence, right, guard);
    });
    let leaves = tree.trunk.check(guard).expect("sound");
    for leaf in leaves {
        let sorted = leaf
            .node
            .downcast::<SortedLeaf<[u64; 1]>>()
            .expect("a sorted leaf");
        assert!(
            sorted.len() > 0,
            "{key} below {end}, {emptied:?}: {:?} to {:?} is empty",
            leaf.low,
            leaf.high
        );
    }
}

#[derive(Debug, Clone, Copy)]
enum Emptied {
    LeftHalf,
    RightHalf,
    Rightmost,
}

#[test]
fn a_leaf_that_is_emptied_beside_a_split_half_done_is_given_back() {
    const END: u64 = 400;
    const ONE_LEAF: u64 = 70;
    for (end, key, emptied) in [
        // The first child of its parent, whose only neighbour is the new leaf.
        (END, 0, Emptied::LeftHalf),
        // Not known to the parent.
        (END, END / 2, Emptied::RightHalf),
        // The same, right of the parent's last child.
        (END, END - 1, Emptied::RightHalf),
        // The last child of its parent, whose only neighbour is the new leaf.
        (END, END - 80, Emptied::Rightmost),
        // The root, and its sibling.
        (ONE_LEAF, 0, Emptied::LeftHalf),
        (ONE_LEAF, 0, Emptied::RightHalf),
    ] {
        empties_beside_a_split_half_done(end, key, emptied);
    }
}
