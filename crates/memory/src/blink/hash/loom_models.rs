//! The hand-over between a lazy split, a conversion, and concurrent readers and writers.
//!
//! Up to two preemptions are explored: with more, models of complete operations do not finish.

use crossbeam_epoch::Guard;
use loom::sync::Arc;
use loom::thread;

use super::convert::{complete_view, freeze};
use super::hash_leaf::{HashLeaf, Insert};
use super::{BlinkHash, BlinkHashOptions};
use crate::blink::aim::Aim;
use crate::blink::node::NodePtr;
use crate::blink::sorted_leaf::SortedLeaf;
use crate::sync::exploration::explore;

/// Two buckets, one probe for each hash.
fn index_of(keys: &[u64]) -> Arc<BlinkHash<u64>> {
    let index = BlinkHash::with_options(BlinkHashOptions::new().node_bytes(1).probes(1));
    keys.iter().for_each(|&key| index.insert(key, key));
    Arc::new(index)
}

fn split_rightmost(index: &BlinkHash<u64>) {
    split_rightmost_for(index, 0);
}

/// The same, as if there was no room for this key.
fn split_rightmost_for(index: &BlinkHash<u64>, key: u64) {
    let guard = &crossbeam_epoch::pin();
    let node = index.trunk.rightmost(guard).expect("there is a leaf");
    let leaf = node.downcast::<HashLeaf<[u64; 1]>>().expect("it is a hash leaf");
    index.split(node, leaf, [key], guard);
}

fn leftmost<'g>(index: &BlinkHash<u64>, guard: &'g Guard) -> (NodePtr<'g, [u64; 1]>, &'g HashLeaf<[u64; 1]>) {
    let found = index
        .trunk
        .find_leaf(&Aim::At([0]), guard)
        .expect("there is a leaf");
    (found.node, found.node.downcast().expect("it is a hash leaf"))
}

#[test]
fn loom_an_insert_during_a_split_is_not_lost() {
    explore(2, || {
        let index = index_of(&[1, 5]);
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.insert(9, 90))
        };
        split_rightmost(&index);
        writer.join().expect("the writer ends");
        assert_eq!([1, 5, 9].map(|key| index.get(key)), [Some(1), Some(5), Some(90)]);
        // Settles both halves, which would go on for ever with a bucket that nobody can settle.
        index.check_structure().expect("a sound index");
    });
}

#[test]
fn loom_a_reader_finds_its_key_while_it_moves() {
    explore(2, || {
        let index = index_of(&[1, 5]);
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(index.get(5), Some(5)))
        };
        split_rightmost(&index);
        assert_eq!(index.get(5), Some(5));
        reader.join().expect("the reader ends");
    });
}

#[test]
fn loom_a_removal_during_a_split_is_not_undone() {
    explore(2, || {
        let index = index_of(&[1, 5]);
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(index.remove(5), Some(5)))
        };
        split_rightmost(&index);
        writer.join().expect("the writer ends");
        assert_eq!([1, 5].map(|key| index.get(key)), [Some(1), None]);
    });
}

/// A scan finds every earlier insert, wherever a split has moved it meanwhile.
#[test]
fn loom_a_scan_during_a_split_misses_nothing() {
    explore(2, || {
        let index = index_of(&[1]);
        let (mut keys, mut values) = ([0; 4], [0; 4]);
        assert_eq!(index.scan(.., &mut keys, &mut values), 1);
        index.insert(5, 5);
        index.insert(9, 9);
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let (mut keys, mut values) = ([0; 4], [0; 4]);
                let filled = index.scan(5.., &mut keys, &mut values);
                assert_eq!(keys[..filled], [5, 9]);
            })
        };
        split_rightmost(&index);
        reader.join().expect("the reader ends");
    });
}

/// A scan of the left half leaves the marks of what has yet to move.
#[test]
fn loom_scans_of_both_halves_miss_nothing() {
    explore(2, || {
        let index = index_of(&[1, 5, 9]);
        split_rightmost(&index);
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let (mut keys, mut values) = ([0; 1], [0; 1]);
                assert_eq!(index.scan(..2, &mut keys, &mut values), 1);
            })
        };
        let (mut keys, mut values) = ([0; 4], [0; 4]);
        let filled = index.scan(5.., &mut keys, &mut values);
        assert_eq!(keys[..filled], [5, 9]);
        reader.join().expect("the reader ends");
    });
}

/// Either the scan has the entry, or the insert marks its bucket after the scan unmarked it.
#[test]
fn loom_an_insert_during_a_scan_is_in_the_next() {
    explore(2, || {
        let index = index_of(&[1, 5]);
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.insert(9, 90))
        };
        let (mut keys, mut values) = ([0; 4], [0; 4]);
        index.scan(.., &mut keys, &mut values);
        writer.join().expect("the writer ends");
        assert_eq!(index.scan(.., &mut keys, &mut values), 3);
        assert_eq!(values[..3], [1, 5, 90]);
    });
}

/// A scan that waits for another one's update takes it for its own only if it began later.
#[test]
fn loom_a_scan_that_waits_for_another_misses_nothing() {
    explore(2, || {
        let index = index_of(&[1]);
        let scanners: Vec<_> = [5, 9]
            .into_iter()
            .map(|key| {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    index.insert(key, key);
                    let (mut keys, mut values) = ([0; 1], [0; 1]);
                    assert_eq!(index.scan(key..=key, &mut keys, &mut values), 1);
                })
            })
            .collect();
        for scanner in scanners {
            scanner.join().expect("the scanner ends");
        }
    });
}

/// A writer that began before a leaf was frozen is waited for or turned away.
#[test]
fn loom_an_insert_during_a_conversion_is_not_lost() {
    explore(2, || {
        let index = index_of(&[1, 5]);
        split_rightmost(&index);
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let guard = &crossbeam_epoch::pin();
                let (node, leaf) = leftmost(&index, guard);
                let version = node.latch.optimistic().expect("not obsolete");
                leaf.insert([2], 20, version) == Ok(Insert::Done)
            })
        };
        let guard = &crossbeam_epoch::pin();
        let (node, leaf) = leftmost(&index, guard);
        assert!(freeze(node, leaf, guard));
        complete_view(node, leaf, guard);
        let is_copied = leaf.view().lock().contains(&([2], 20));
        assert_eq!(writer.join().expect("the writer ends"), is_copied);
    });
}

/// When two removals together empty a leaf, one of them converts it.
#[test]
fn loom_one_of_two_removals_converts_the_emptied_leaf() {
    explore(1, || {
        let index = index_of(&[1, 2, 5]);
        split_rightmost_for(&index, 9);
        let other = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(index.remove(1), Some(1)))
        };
        assert_eq!(index.remove(2), Some(2));
        other.join().expect("it ends");
        let guard = &crossbeam_epoch::pin();
        let found = index.trunk.find_leaf(&Aim::At([0]), guard);
        let found = found.expect("there is a leaf").node;
        assert!(
            found.downcast::<SortedLeaf<[u64; 1]>>().is_some(),
            "it is converted"
        );
        assert_eq!([1, 2, 5].map(|key| index.get(key)), [None, None, Some(5)]);
    });
}
