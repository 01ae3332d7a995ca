//! The hand-over from logs to blocks, and from blocks to the search layer, with concurrent readers
//! and writers.
//!
//! Up to two preemptions are explored; one where a model runs through complete life cycles of keys.

use loom::sync::Arc;
use loom::thread;

use super::SbTree;
use super::data::edge::Edge;
use super::data::layer::{Blocks, Change};
use super::segments::convert::{Home, Next};
use super::segments::log::{Append, Log, Mode};
use crate::sync::exploration::explore;

/// A tree into which writer 0 has inserted these keys; two fill a log.
fn tree_of(keys: &[u64]) -> Arc<SbTree<u64>> {
    let tree = SbTree::new();
    keys.iter().for_each(|&key| tree.insert_as(0, [key], key * 10));
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
    explore(2, || {
        let log = Arc::new(*Log::<[u64; 1]>::new());
        let mode = Mode::OneOfMany;
        log.prepare(1, [0], 2, mode, &[]);
        log.open(mode);
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let appended = [5, 6].map(|key| log.append(([key], key), || key));
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
        // Another generation begins while the writer appends.
        log.prepare(2, [100], 2, mode, &[]);
        log.open(mode);
        assert_eq!(writer.join().expect("the writer ends"), counted.len());
        assert_eq!(log.counted().len(), 0);
    });
}

#[test]
fn loom_an_insert_during_a_seal_is_not_lost() {
    explore(2, || {
        let tree = tree_of(&[1]);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || tree.insert_as(0, [2], 20))
        };
        seal_and_convert(&tree);
        writer.join().expect("the writer ends");
        assert_eq!([1, 2].map(|key| tree.get(key)), [Some(10), Some(20)]);
    });
}

/// Explores `read` while the keys 1 and 2 move from a log to a block.
fn explore_reading_while_keys_move_to_a_block(read: impl Fn(&SbTree<u64>) + Copy + Send + Sync + 'static) {
    explore(2, move || {
        let tree = tree_of(&[1, 2]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || read(&tree))
        };
        seal_and_convert(&tree);
        reader.join().expect("the reader ends");
    });
}

#[test]
fn loom_a_reader_finds_its_key_while_it_moves_to_a_block() {
    explore_reading_while_keys_move_to_a_block(|tree| assert_eq!(tree.get(2), Some(20)));
}

#[test]
fn loom_a_scan_finds_its_keys_while_they_move_to_a_block() {
    explore_reading_while_keys_move_to_a_block(|tree| {
        let (mut keys, mut values) = ([0; 4], [0; 4]);
        let filled = tree.scan(1.., &mut keys, &mut values);
        assert_eq!((&keys[..filled], &values[..filled]), (&[1, 2][..], &[10, 20][..]));
    });
}

/// The first key that is less than the one before makes the owner chain its entries.
#[test]
fn loom_a_reader_finds_its_key_while_a_log_becomes_disordered() {
    explore(2, || {
        let tree = tree_of(&[5]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let seen = [tree.get(3), tree.get(3)];
                assert!(seen[0].is_none() || seen == [Some(30); 2], "{seen:?}");
                assert_eq!([5, 4].map(|key| tree.get(key)), [Some(50), None]);
            })
        };
        tree.insert_as(0, [3], 30);
        assert_eq!(tree.get(3), Some(30));
        reader.join().expect("the reader ends");
    });
}

/// A reader that was directed to a disordered log finds its key, or that the log's generation is
/// over, though the owner chains entries of a later one.
#[test]
fn loom_a_reader_of_old_chains_takes_nothing_from_new_ones() {
    explore(1, || {
        let tree = tree_of(&[2, 1]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                if let Some(Home::Open(view)) = tree.segments.home(&[2]) {
                    let found = [2, 6].map(|key| view.get(&[key]));
                    if view.is_valid() {
                        assert!(
                            found == [Some(20), None] || found == [None, Some(60)],
                            "{found:?}"
                        );
                    }
                }
            })
        };
        // The third generation uses the first one's log.
        seal_and_convert(&tree);
        let (writer, key) = (0, [7]);
        let mut role = tree.segments.role();
        tree.segments
            .seal(&mut role, &tree.blocks, Some(Next { writer, key }));
        drop(role);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                tree.insert_as(writer, key, 70);
                tree.insert_as(writer, [6], 60);
                assert_eq!([6, 7].map(|key| tree.get(key)), [Some(60), Some(70)]);
            })
        };
        writer.join().expect("the writer ends");
        reader.join().expect("the reader ends");
    });
}

/// A writer that skipped a generation finds its log open again, and its insert is visible at once.
#[test]
fn loom_an_insert_into_the_next_segment_is_found_at_once() {
    explore(1, || {
        let tree = tree_of(&[1]);
        (1..3).for_each(|writer| tree.insert_as(writer, [2 + writer as u64], 0));
        seal_and_convert(&tree);
        let seals = tree.work().seals;
        (0..2).for_each(|writer| tree.insert_as(writer, [10 + writer as u64], 0));
        assert_eq!(tree.work().seals, seals);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                tree.insert_as(2, [20], 200);
                assert_eq!(tree.get(20), Some(200));
            })
        };
        seal_and_convert(&tree);
        writer.join().expect("the writer ends");
        assert_eq!(tree.get(20), Some(200));
    });
}

/// A reader of an earlier generation takes nothing from the log's current one. The writer is not
/// the sealing thread: only the log's word orders the seal before the writer's stores.
#[test]
fn loom_a_reader_of_an_old_generation_takes_nothing_from_a_new_one() {
    explore(1, || {
        let tree = tree_of(&[1, 2]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                if let Some(Home::Open(view)) = tree.segments.home(&[5]) {
                    let found = view.get(&[5]);
                    assert!(
                        !view.is_valid() || found.is_none_or(|value| value == 50),
                        "{found:?}"
                    );
                }
            })
        };
        // The third generation uses the first one's log.
        seal_and_convert(&tree);
        let (writer, key) = (0, [4]);
        let mut role = tree.segments.role();
        tree.segments
            .seal(&mut role, &tree.blocks, Some(Next { writer, key }));
        drop(role);
        let writer = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                tree.insert_as(writer, key, 40);
                tree.insert_as(writer, [5], 50);
            })
        };
        writer.join().expect("the writer ends");
        assert_eq!(tree.work().seals, 2);
        reader.join().expect("the reader ends");
    });
}

/// A reader that was directed to a segment's log, and finds another segment's entries there,
/// retries. The reader is the first thread, so that one preemption stops it between the two steps.
#[test]
fn loom_a_reader_finds_its_key_though_its_log_is_used_again() {
    let get = |tree: &SbTree<u64>| assert_eq!(tree.get(2), Some(20));
    let scan = |tree: &SbTree<u64>| {
        let (mut keys, mut values) = ([0; 2], [0; 2]);
        let filled = tree.scan(2.., &mut keys, &mut values);
        assert_eq!((&keys[..filled], &values[..filled]), (&[2][..], &[20][..]));
    };
    for read in [get as fn(&_), scan] {
        explore(1, move || {
            let tree = tree_of(&[1, 2]);
            let sealer = {
                let tree = Arc::clone(&tree);
                // The third generation uses the first one's log.
                thread::spawn(move || (0..2).for_each(|_| seal_and_convert(&tree)))
            };
            read(&tree);
            sealer.join().expect("the sealer ends");
        });
    }
}

/// An entry removed from a block while its segment is still being converted is not found in a log,
/// by a scan that skips blocks because they seem to end before.
#[test]
fn loom_a_scan_does_not_find_what_was_removed_during_a_conversion() {
    explore(1, || {
        let tree = tree_of(&[1, 2]);
        let remover = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                assert_eq!(tree.remove(2), Some(20));
                let (mut keys, mut values) = ([0], [0]);
                assert_eq!(tree.scan(2.., &mut keys, &mut values), 0);
            })
        };
        seal_and_convert(&tree);
        remover.join().expect("the remover ends");
    });
}

/// The same for a lane, whose writer's number passes to another thread meanwhile.
#[test]
fn loom_a_reader_of_a_drained_lane_takes_nothing_from_the_next_entries() {
    explore(1, || {
        let tree = tree_of(&[1, 9]);
        seal_and_convert(&tree);
        tree.insert_as(0, [2], 20);
        tree.insert_as(0, [3], 30);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let found = tree.lanes.get(&[5], &tree.blocks);
                assert!(found.is_none_or(|value| value == 50), "{found:?}");
            })
        };
        tree.lanes.drain_all(&tree.blocks);
        tree.insert_as(0, [4], 40);
        let next = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || tree.insert_as(0, [5], 50))
        };
        next.join().expect("the next writer ends");
        reader.join().expect("the reader ends");
    });
}

/// A value seen in a block is not superseded by an outdated one in a log.
#[test]
fn loom_a_late_value_is_not_hidden_by_an_old_log() {
    explore(1, || {
        let tree = tree_of(&[1, 2]);
        let reader = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let (first, second) = (tree.get(2), tree.get(2));
                assert!(first.is_some() && first <= second, "{first:?}, then {second:?}");
            })
        };
        seal_and_convert(&tree);
        tree.insert_as(0, [2], 21);
        assert_eq!(tree.get(2), Some(21));
        reader.join().expect("the reader ends");
    });
}

/// The setup is the same in each run, so it is the minimum that leads to two logs with the key.
/// Seal and conversion are explored one by one: what a reader may see of either multiplies.
#[test]
fn loom_two_writers_of_one_key_leave_the_later_value() {
    for converting in [false, true] {
        explore(1, move || {
            let tree = tree_of(&[1]);
            // Sequential: which thread acts for which writer does not matter.
            tree.insert_as(1, [2], 21);
            tree.insert_as(0, [2], 20);
            let mut role = tree.segments.role();
            let seal = |role: &mut _| tree.segments.seal(role, &tree.blocks, None);
            if converting {
                seal(&mut role);
            }
            let reader = {
                let tree = Arc::clone(&tree);
                thread::spawn(move || assert_eq!(tree.get(2), Some(20)))
            };
            if converting {
                tree.segments.convert(&mut role, &tree.blocks);
            } else {
                seal(&mut role);
            }
            reader.join().expect("the reader ends");
        });
    }
}

#[test]
fn loom_removals_of_one_key_agree() {
    explore(1, || {
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

/// Blocks are appended, and added to the search layer, during a descent.
#[test]
fn loom_a_descent_ends_at_the_right_block_while_the_search_layer_grows() {
    explore(2, || {
        let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
        let entries: Vec<_> = (1..=12_u64).map(|key| ([key], key)).collect();
        // The root node is full after this.
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

/// A separator is seen before the child after it: any child at that position is a block.
#[test]
fn loom_a_descent_between_two_stores_ends_at_a_block() {
    explore(2, || {
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

/// A late key makes a full block move entries to its right neighbour.
#[test]
fn loom_a_reader_finds_its_key_while_it_moves_to_the_right_neighbour() {
    // The key that moves, and one that makes room for it. A single reader of both would multiply
    // the interleavings.
    for place in [4, 5] {
        explore(2, move || {
            let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
            let entries: Vec<_> = (1..=6_u64).map(|key| ([2 * key], key)).collect();
            blocks.0.append(&entries, &blocks.1);
            let reader = {
                let blocks = Arc::clone(&blocks);
                thread::spawn(move || assert_eq!(blocks.0.get(&[2 * place]), Some(Some(place))))
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
}

/// Two late keys for the same full block.
#[test]
fn loom_writers_of_a_full_block_lose_nothing() {
    explore(2, || {
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
    // The node is the root, and a new root is added; or it has a parent, which gets another child.
    for (len, place) in [(16, 7), (16, 16), (20, 7), (20, 16)] {
        let preemptions = if len == 16 { 2 } else { 1 };
        explore(preemptions, move || {
            let blocks = Arc::new((Blocks::<[u64; 1]>::new(), Edge::new()));
            let entries: Vec<_> = (1..=len).map(|key| ([2 * key], key)).collect();
            blocks.0.append(&entries, &blocks.1);
            let reader = {
                let blocks = Arc::clone(&blocks);
                thread::spawn(move || assert_eq!(blocks.0.get(&[2 * place]), Some(Some(place))))
            };
            assert_eq!(blocks.0.insert([13], 0, || true), Change::Made(()));
            reader.join().expect("the reader ends");
            assert_eq!(blocks.0.get(&[13]), Some(Some(0)));
        });
    }
}

/// Late keys wait in lanes, and are drained during a read.
#[test]
fn loom_a_reader_finds_its_key_while_a_lane_is_drained() {
    explore(1, || {
        let tree = tree_of(&[1, 4]);
        seal_and_convert(&tree);
        tree.insert_as(0, [2], 20);
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
        tree.insert_as(0, [2], 21);
        tree.lanes.drain_all(&tree.blocks);
        assert_eq!(tree.get(2), Some(21));
        reader.join().expect("the reader ends");
    });
}

/// A removed key stays removed, though it is in a lane that is being drained.
#[test]
fn loom_a_removal_during_a_drain_is_not_undone() {
    explore(1, || {
        let tree = tree_of(&[1, 4]);
        seal_and_convert(&tree);
        let remover = {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                let removed = tree.remove(2);
                let seen = [tree.get(2), tree.get(2)];
                if removed.is_some() {
                    assert_eq!((removed, seen), (Some(20), [None, None]));
                } else {
                    assert!(seen[0].is_none() || seen[1].is_some(), "{seen:?}");
                }
                removed.is_some()
            })
        };
        tree.insert_as(0, [2], 20);
        tree.lanes.drain_all(&tree.blocks);
        let is_removed = remover.join().expect("the remover ends");
        assert_eq!(tree.get(2).is_none(), is_removed);
    });
}

/// A class changes its writer during an append.
#[test]
fn loom_a_class_changes_hands_with_what_waits() {
    for [spawned, own] in [[1, 0], [0, 1]] {
        explore(2, move || {
            let tree = tree_of(&[1, 4]);
            seal_and_convert(&tree);
            tree.insert_as(0, [3], 30);
            let insert = |tree: &SbTree<u64>, writer: usize| {
                tree.insert_as(writer, [2], 20 + writer as u64);
                tree.get(2)
            };
            let writer = {
                let tree = Arc::clone(&tree);
                thread::spawn(move || insert(&tree, spawned))
            };
            let seen = [insert(&tree, own), writer.join().expect("the writer ends")];
            let last = tree.get(2);
            assert!(last == Some(20) || last == Some(21), "{last:?}");
            assert!(seen.contains(&last), "{seen:?}, then {last:?}");
            tree.lanes.drain_all(&tree.blocks);
            assert_eq!((tree.get(2), tree.get(3)), (last, Some(30)));
        });
    }
}
