//! Memory of removed entries, in nodes of full size.

use std::ops::Bound;

use bedload_memory::{BlinkHash, BlinkTree, Measured, SbTree, SharedMap};
use bedload_testkit::contract::first_in_first_out;

const KEYS: u64 = 400_000;

/// Inserts ascending keys with several threads, each of which removes its oldest one for each new
/// one, and checks that the index has at most twice the bytes of one that only has what is left.
fn gives_back<M: SharedMap<u64> + Measured>(new: impl Fn() -> M, threads: u64, kept: u64) -> M {
    let map = new();
    let (keys, kept) = (KEYS / threads, kept / threads);
    first_in_first_out(
        (threads, keys, kept),
        |key, value| map.insert(key, value),
        |key| map.remove(key),
    );
    let fresh = new();
    let left = (keys - kept) * threads..keys * threads;
    left.clone().for_each(|key| fresh.insert(key, key / threads));
    let [bytes, expected] = [&map, &fresh].map(|map| map.memory_use().total());
    assert!(
        bytes <= 2 * expected,
        "{bytes} bytes, {expected} without removed keys, {threads} threads"
    );
    assert_eq!(map.check_structure(), Ok(()));
    let everything = (Bound::Unbounded, Bound::Unbounded);
    assert!(map.range(everything).eq(left.map(|key| (key, key / threads))));
    map
}

#[test]
fn blink_tree_gives_emptied_leaves_back() {
    gives_back(BlinkTree::new, 1, 20_000);
    gives_back(BlinkTree::new, 4, 20_000);
}

/// In a window that spans two leaves, and in one that fits into one.
#[test]
fn blink_hash_gives_emptied_leaves_back() {
    for (threads, kept) in [(1, 20_000), (4, 20_000), (1, 8_000), (4, 8_000)] {
        let index = gives_back(BlinkHash::new, threads, kept);
        let (first, _) = index.first().expect("not empty");
        let passed = index.fences().iter().filter(|&&fence| fence <= first).count();
        assert!(
            passed <= 8,
            "{passed} leaves before the first key, {threads} threads"
        );
    }
}

/// Logs of each thread and pieces of blocks are kept.
#[test]
fn sb_tree_uses_emptied_blocks_again() {
    gives_back(SbTree::new, 1, 100_000);
    gives_back(SbTree::new, 4, 100_000);
}
