//! The hand-over from logs to blocks, and from blocks to the search layer, with those who read and write meanwhile.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p bedload-index --lib --release loom_`. Up to two preemptions are
//! explored, and one where it is whole life cycles of keys that are modelled.
//!
//! Two take longer than the others together, as each store of a node's outline is explored: not ended after 40 minutes of shared
//! time are `..._while_it_moves_to_the_right_neighbour` and `..._while_blocks_and_nodes_split`. Ask for the others by name.

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::super::primitive::{AtomicU64, Ordering};
use super::blocks::{Blocks, Change};
use super::edge::Edge;
use super::log::{Append, Kind, Log, Mode};
use super::{Appended, SbTree};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    explore_preempted(2, model);
}

fn explore_preempted(times: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(times);
    builder.max_branches = 100_000;
    builder.check(model);
}

/// Writer 0 has inserted these; two fill a log.
fn tree_of(keys: &[u64]) -> Arc<SbTree<u64>> {
    let tree = SbTree::new();
    keys.iter()
        .for_each(|&key| tree.insert_as(0, [key], key * 10, None));
    Arc::new(tree)
}

/// Seals the open segment and converts it.
fn seal_and_convert(tree: &SbTree<u64>) {
    let mut role = tree.segments.role();
    tree.segments.seal(&mut role, &tree.blocks, None);
    tree.segments.convert(&mut role, &tree.blocks);
}

#[test]
fn loom_what_is_counted_at_the_close_is_what_was_appended() {
    explore(|| {
        let log = Arc::new(*Log::<[u64; 1]>::new());
        log.prepare(1, [0], 2, Mode::OneOfMany(Kind::Stamped));
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let appended = [5, 6].map(|key| log.append(([key], key), Kind::Stamped, || true, || key));
                appended
                    .iter()
                    .filter(|append| **append != Append::Refused)
                    .count()
            })
        };
        let counted = log.close();
        let seen: Vec<_> = (0..counted.len())
            .map(|place| (log.key(place), log.value(place)))
            .collect();
        assert_eq!(seen, [([5], 5), ([6], 6)][..counted.len()]);
        // Another generation begins under the writer's hands.
        log.prepare(2, [100], 2, Mode::OneOfMany(Kind::Stamped));
        assert_eq!(writer.join().expect("the writer ends"), counted.len());
        assert_eq!(log.counted().len(), 0);
    });
}

#[test]
fn loom_an_insert_during_a_seal_is_not_lost() {
    explore(|| {
        let tree = tree_of(&[1]);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || tree.insert_as(0, [2], 20, None))
        };
        seal_and_convert(&tree);
        writer.join().expect("the writer ends");
        assert_eq!([1, 2].map(|key| tree.get(key)), [Some(10), Some(20)]);
    });
}

#[test]
fn loom_a_reader_finds_its_key_while_it_moves_to_a_block() {
    explore(|| {
        let tree = tree_of(&[1, 2]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                assert_eq!(tree.get(2), Some(20));
                let (mut keys, mut values) = ([0; 4], [0; 4]);
                let filled = tree.scan(1.., &mut keys, &mut values);
                assert_eq!(keys[..filled], [1, 2]);
            })
        };
        seal_and_convert(&tree);
        reader.join().expect("the reader ends");
    });
}

/// What a reader has seen in a block it does not see undone in a log that is out of date.
#[test]
fn loom_a_late_value_is_not_hidden_by_an_old_log() {
    explore_preempted(1, || {
        let tree = tree_of(&[1, 2]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let (first, second) = (tree.get(2), tree.get(2));
                assert!(first.is_some() && first <= second, "{first:?}, then {second:?}");
            })
        };
        seal_and_convert(&tree);
        tree.insert_as(0, [2], 21, None);
        assert_eq!(tree.get(2), Some(21));
        reader.join().expect("the reader ends");
    });
}

/// One preemption. What goes before is the same in each run, so it is as little as leads to two logs with the key.
#[test]
fn loom_two_writers_of_one_key_leave_the_later_value() {
    explore_preempted(1, || {
        let tree = tree_of(&[1]);
        // One after the other: which thread acts for which of them does not matter.
        tree.insert_as(1, [2], 21, None);
        tree.insert_as(0, [2], 20, None);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || assert_eq!(tree.get(2), Some(20)))
        };
        seal_and_convert(&tree);
        reader.join().expect("the reader ends");
    });
}

#[test]
fn loom_removals_of_one_key_agree() {
    explore_preempted(1, || {
        let tree = tree_of(&[1, 2]);
        let other = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || tree.remove(2))
        };
        let removed = [tree.remove(2), other.join().expect("it ends")];
        assert_eq!(removed.iter().flatten().collect::<Vec<_>>(), [&20]);
        assert_eq!(tree.get(2), None);
    });
}

/// Blocks are appended, and made known to the search layer, under a reader's feet.
#[test]
fn loom_a_descent_ends_at_the_right_block_while_the_search_layer_grows() {
    explore(|| {
        let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
        let entries: Vec<_> = (1..=12_u64).map(|key| ([key], key)).collect();
        // The node that is the root is full after this.
        blocks.0.append(&entries, &blocks.1);
        let reader = {
            let blocks = Arc::clone(&blocks);
            thread::spawn(move || {
                assert_eq!(blocks.0.get(&[3]), Some(Some(3)));
                assert_eq!(blocks.0.get(&[11]), Some(Some(11)));
            })
        };
        let more: Vec<_> = (13..=20_u64).map(|key| ([key], key)).collect();
        blocks.0.append(&more, &blocks.1);
        reader.join().expect("the reader ends");
        assert_eq!(blocks.0.get(&[20]), Some(Some(20)));
    });
}

/// A separator is seen before the child behind it: what is at that place is a block all the same.
#[test]
fn loom_a_descent_between_two_stores_ends_at_a_block() {
    explore(|| {
        let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
        let entries: Vec<_> = (1..=4_u64).map(|key| ([key], key)).collect();
        blocks.0.append(&entries, &blocks.1);
        let reader = {
            let blocks = Arc::clone(&blocks);
            thread::spawn(move || {
                let found = blocks.0.get(&[6]);
                assert!(found.is_none_or(|value| value == Some(6)), "{found:?}");
            })
        };
        let more: Vec<_> = (5..=8_u64).map(|key| ([key], key)).collect();
        blocks.0.append(&more, &blocks.1);
        reader.join().expect("the reader ends");
        assert_eq!(blocks.0.get(&[6]), Some(Some(6)));
    });
}

/// A late key makes a full block leave entries to its right neighbour.
#[test]
fn loom_a_reader_finds_its_key_while_it_moves_to_the_right_neighbour() {
    explore(|| {
        let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
        let entries: Vec<_> = (1..=6_u64).map(|key| ([2 * key], key)).collect();
        blocks.0.append(&entries, &blocks.1);
        let reader = {
            let blocks = Arc::clone(&blocks);
            thread::spawn(move || {
                assert_eq!(blocks.0.get(&[8]), Some(Some(4)));
                assert_eq!(blocks.0.get(&[10]), Some(Some(5)));
            })
        };
        assert_eq!(blocks.0.insert([3], 0, || true), Change::Made(()));
        reader.join().expect("the reader ends");
        assert_eq!(
            [3, 6, 8].map(|key| blocks.0.get(&[key])),
            [Some(Some(0)), Some(Some(3)), Some(Some(4))]
        );
        assert_eq!(blocks.0.check(), Ok([12]));
    });
}

/// Two late keys for the same full block.
#[test]
fn loom_writers_of_a_full_block_lose_nothing() {
    explore(|| {
        let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
        let entries: Vec<_> = (1..=6_u64).map(|key| ([2 * key], key)).collect();
        blocks.0.append(&entries, &blocks.1);
        let writer = {
            let blocks = Arc::clone(&blocks);
            thread::spawn(move || assert_eq!(blocks.0.insert([7], 7, || true), Change::Made(())))
        };
        assert_eq!(blocks.0.insert([3], 3, || true), Change::Made(()));
        writer.join().expect("the writer ends");
        for key in [2, 3, 4, 6, 7, 8, 10, 12] {
            let value = if key % 2 == 0 { key / 2 } else { key };
            assert_eq!(blocks.0.get(&[key]), Some(Some(value)), "key {key}");
        }
        assert_eq!(blocks.0.check(), Ok([12]));
    });
}

/// A late key splits a block in the middle of a full node.
#[test]
fn loom_a_reader_finds_its_key_while_blocks_and_nodes_split() {
    explore(|| {
        let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
        let entries: Vec<_> = (1..=16_u64).map(|key| ([2 * key], key)).collect();
        blocks.0.append(&entries, &blocks.1);
        let reader = {
            let blocks = Arc::clone(&blocks);
            thread::spawn(move || {
                assert_eq!(blocks.0.get(&[14]), Some(Some(7)));
                assert_eq!(blocks.0.get(&[32]), Some(Some(16)));
            })
        };
        assert_eq!(blocks.0.insert([13], 0, || true), Change::Made(()));
        reader.join().expect("the reader ends");
        assert_eq!(blocks.0.get(&[13]), Some(Some(0)));
    });
}

/// Late keys wait in lanes, and go to blocks while somebody looks.
#[test]
fn loom_a_reader_finds_its_key_while_a_lane_is_drained() {
    explore_preempted(1, || {
        let tree = tree_of(&[1, 4]);
        seal_and_convert(&tree);
        tree.insert_as(0, [2], 20, None);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let (first, second) = (tree.get(2), tree.get(2));
                assert!(first.is_some() && first <= second, "{first:?}, then {second:?}");
                let (mut keys, mut values) = ([0; 4], [0; 4]);
                let filled = tree.scan(1..=2, &mut keys, &mut values);
                assert_eq!(keys[..filled], [1, 2]);
            })
        };
        tree.insert_as(0, [2], 21, None);
        tree.lanes.drain_all(&tree.blocks);
        assert_eq!(tree.get(2), Some(21));
        reader.join().expect("the reader ends");
    });
}

/// What is removed stays removed, though it is in a lane that is being drained.
#[test]
fn loom_a_removal_during_a_drain_is_not_undone() {
    explore_preempted(1, || {
        let tree = tree_of(&[1, 4]);
        seal_and_convert(&tree);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                tree.insert_as(0, [2], 20, None);
                tree.lanes.drain_all(&tree.blocks);
            })
        };
        let removed = tree.remove(2);
        let seen = [tree.get(2), tree.get(2)];
        if removed.is_some() {
            assert_eq!((removed, seen), (Some(20), [None, None]));
        } else {
            assert!(seen[0].is_none() || seen[1].is_some(), "{seen:?}");
        }
        writer.join().expect("the writer ends");
        assert_eq!(tree.get(2).is_some(), removed.is_none());
    });
}

/// An index above changes its mind, and has the tree sealed: what was appended to a lane on the old one's word is counted by then.
#[test]
fn loom_an_append_to_a_lane_is_counted_before_a_seal_or_refused() {
    explore(|| {
        let tree = tree_of(&[1, 4]);
        seal_and_convert(&tree);
        tree.insert_as(0, [2], 20, None);
        let has_changed = Arc::new(AtomicU64::new(0));
        let writer = {
            let (tree, has_changed) = (Arc::clone(&tree), Arc::clone(&has_changed));
            thread::spawn(move || {
                let may = || has_changed.load(Ordering::Acquire) == 0;
                tree.append_as(0, ([3], 30), None, may)
            })
        };
        has_changed.store(1, Ordering::Release);
        tree.seal();
        let seen = tree.get(3);
        let is_there = writer.join().expect("the writer ends") == Appended::ToLane;
        assert_eq!(seen, is_there.then_some(30));
    });
}

/// A class goes from one writer to another while the one appends.
#[test]
fn loom_a_class_changes_hands_with_what_waits() {
    explore(|| {
        let tree = tree_of(&[1, 4]);
        seal_and_convert(&tree);
        tree.insert_as(0, [3], 30, None);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                tree.insert_as(1, [2], 21, None);
                tree.get(2)
            })
        };
        tree.insert_as(0, [2], 20, None);
        let seen = [tree.get(2), writer.join().expect("the writer ends")];
        let last = tree.get(2);
        assert!(last == Some(20) || last == Some(21), "{last:?}");
        assert!(seen.contains(&last), "{seen:?}, then {last:?}");
        tree.lanes.drain_all(&tree.blocks);
        assert_eq!((tree.get(2), tree.get(3)), (last, Some(30)));
    });
}
