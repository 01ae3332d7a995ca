//! The contract, with nodes so small that splits and merges are common.

use bedload_testkit::contract::{Keys, first_in_first_out};

use super::SbTree;
use super::SbTreeOptions;
use super::blocks::block::BLOCK_CAP;
use super::data::layer::WALK_MAX;
use super::late::lanes::LANE_CAP;
use super::segments::convert::STEP;
use super::segments::log::LOG_CAP;
use super::segments::writer_number::WRITERS;
use crate::map::contract::Subject;
use crate::map::key::Key;
use crate::map::small_nodes::keeps_the_contract;
use bedload_testkit::Rng;

fn subject<K: Keys<Key: Key>>(keys: K) -> Subject<SbTree<K::Key>, K> {
    Subject(SbTree::new(), keys)
}

keeps_the_contract!(subject);

/// If two writers insert one key in one segment, the later insert wins, in whichever log it is.
#[test]
fn the_later_insert_counts() {
    let tree = SbTree::<u64>::new();
    // Both have a log in the open segment.
    let insert = |writer, key: u64, value| tree.insert_as(writer, [key], value);
    insert(0, 1, 0);
    insert(1, 2, 0);
    insert(1, 10, 101);
    insert(0, 10, 100);
    insert(0, 11, 110);
    insert(1, 11, 111);
    assert_eq!([10, 11].map(|key| tree.get(key)), [Some(100), Some(111)]);
    let entries = [(10, 100), (11, 111)];
    assert_eq!(tree.range(10..).collect::<Vec<_>>(), entries);
    assert!(tree.remove(2).is_some(), "all is converted");
    assert_eq!(tree.work().pending, 0);
    assert_eq!(tree.range(10..).collect::<Vec<_>>(), entries);
}

/// Two series, one per thread, whose newest keys are rewritten while segments take entries over.
#[test]
fn what_is_taken_over_is_older_than_what_comes() {
    let tree = SbTree::<u64>::new();
    for step in 0..if cfg!(miri) { 40 } else { 4_000_u64 } {
        for writer in 0..2 {
            let key = 4 * step + writer as u64;
            for value in [1, 2, 3] {
                tree.insert_as(writer, [key], value);
                assert_eq!(tree.get(key), Some(value), "key {key} of writer {writer}");
            }
        }
    }
    assert!(tree.work().seals >= 4, "{:?}", tree.work());
    tree.check_structure().expect("sound");
}

/// Two writers of the same class of keys, while the counter of the stamps begins again.
#[test]
fn writers_see_their_own_newest_value_though_stamps_begin_again() {
    let tree = SbTree::<u64>::with_options(SbTreeOptions::new().processor_stamps(false));
    for step in 0..if cfg!(miri) { 40 } else { 1_000_u64 } {
        for writer in 0..2 {
            let key = 4 * (2 * (step + 2) + writer as u64);
            for value in [1, 2, 3] {
                tree.insert_as(writer, [key], value);
                assert_eq!(tree.get(key), Some(value), "key {key} of writer {writer}");
            }
            assert!(tree.range(key..).eq([(key, 3)]));
            if step % 5 == writer as u64 {
                tree.stamps.begin_again();
            }
            // Those before may have been taken over.
            for key in [key - 16, key - 8, key] {
                tree.insert_as(writer, [key], 4);
                assert_eq!(tree.get(key), Some(4), "key {key} of writer {writer}");
            }
        }
    }
    assert!(tree.work().seals >= 4, "{:?}", tree.work());
    tree.settle();
    assert!(tree.range(..).all(|(_, value)| value == 4));
    tree.check_structure().expect("sound");
}

/// The key for which a writer seals stays above the floor, though another writer is ahead by more
/// than is always taken over.
#[test]
fn the_key_that_a_segment_is_sealed_for_is_not_late() {
    let tree = SbTree::<u64>::new();
    let insert = |writer: usize, key: u64| tree.insert_as(writer, [key], !key);
    for key in (0..400).step_by(2) {
        insert(0, key);
        insert(1, key + 1);
    }
    let seals = tree.work().seals;
    let ahead = LOG_CAP as u64 * 3 / 8;
    (1_000..1_000 + ahead).for_each(|key| insert(1, key));
    assert_eq!(tree.work().seals, seals, "all are in the open segment");
    let mut key = 500;
    while tree.work().seals == seals {
        insert(0, key);
        assert_eq!(tree.get(key), Some(!key));
        assert!(tree.segments.edge.get() < [key], "key {key} was late");
        key += 1;
    }
    assert_eq!(tree.check_structure(), Ok(()));
    assert_eq!(tree.range(400..).count() as u64, ahead + key - 500);
}

/// Where a segment is divided at a key that it does not have, that key and those around it always
/// have a home.
#[test]
fn a_key_between_two_segments_has_a_home() {
    let tree = SbTree::<u64>::new();
    let mut rng = Rng::new(3);
    let mut expected = std::collections::BTreeMap::new();
    let mut seals = 0;
    for step in 0..if cfg!(miri) { 100 } else { 4_000 } {
        let key = 10 * (100 + step - rng.below(6)) + rng.below(10);
        for key in [key, key - 1] {
            tree.insert(key, step);
            expected.insert(key, step);
            if tree.work().seals > seals {
                seals = tree.work().seals;
                tree.settle();
                assert_eq!(tree.check_structure(), Ok(()), "after {seals} seals");
            }
        }
    }
    assert!(seals > if cfg!(miri) { 3 } else { 10 }, "{seals} seals");
    assert!(tree.range(..).eq(expected.into_iter()));
}

/// One series whose keys come a little late: a segment takes over the entries near the end, and the
/// last value of a rewritten key wins.
#[test]
fn disorder_goes_on_from_segment_to_segment() {
    let tree = SbTree::<u64>::new();
    let mut rng = Rng::new(7);
    let mut expected = std::collections::BTreeMap::new();
    let keys: u64 = if cfg!(miri) { 150 } else { 20_000 };
    for step in 0..keys {
        let key = 100 + step - rng.below(6);
        tree.insert(key, step);
        expected.insert(key, step);
        assert_eq!(tree.get(key), Some(step), "key {key}");
    }
    assert!(
        tree.range(..)
            .eq(expected.iter().map(|(&key, &value)| (key, value)))
    );
    assert_eq!(tree.check_structure(), Ok(()));
    assert!(tree.work().seals >= 4, "{:?}", tree.work());
    tree.settle();
    assert!(tree.range(..).eq(expected.into_iter()));
}

/// Full blocks fill their right neighbours before they split: untouched blocks in the middle stay
/// full, the others are more than two thirds full after as many random keys as there were in order.
#[test]
fn random_keys_fill_neighbours() {
    let tree = SbTree::<u64>::new();
    let keys: u64 = if cfg!(miri) { 200 } else { 20_000 };
    (1..=keys).for_each(|key| tree.insert(key << 32, key));
    let mut rng = Rng::new(3);
    for _ in 0..keys {
        tree.insert(rng.below(keys << 32), 0);
    }
    tree.settle();
    assert_eq!(tree.check_structure(), Ok(()));
    let memory = tree.memory_use();
    let fill = memory.entries_occupied as f64 / (memory.entries_occupied + memory.entries_unoccupied) as f64;
    assert!(fill > 0.72, "{fill}");
}

/// A few blocks that fill, split, empty and merge concurrently.
#[test]
fn crowded_merges_lose_nothing() {
    const THREADS: u64 = 4;
    const KEYS_PER_THREAD: usize = 16;
    let tree = SbTree::<u64>::new();
    // All later keys are late.
    tree.insert(1_000, 0);
    assert_eq!(tree.remove(1_000), Some(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree = &tree;
            scope.spawn(move || {
                let mut rng = Rng::stream(3, thread);
                let mut expected = [None; KEYS_PER_THREAD];
                for round in 0..if cfg!(miri) { 70 } else { 60_000 } {
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
                    let key = other as u64 * THREADS + thread;
                    assert_eq!(tree.get(key), expected[other], "round {round}");
                }
            });
        }
    });
    assert_eq!(tree.check_structure(), Ok(()));
}

#[test]
fn ascending_keys_fill_blocks_and_leave_one_segment() {
    let tree = SbTree::<u64>::new();
    const KEYS: usize = if cfg!(miri) { 300 } else { 20_000 };
    (1..=KEYS as u64).for_each(|key| tree.insert(key, key));
    tree.settle();
    let work = tree.work();
    assert!(work.pending <= LOG_CAP, "{work:?}");
    assert_eq!((work.walks, work.walked), (0, 0));
    // A step takes its maximum, or fills a block, or reaches the end of a segment.
    let whole = (KEYS - work.pending).div_ceil(STEP) as u64;
    assert!(
        work.steps <= whole + 2 * work.seals,
        "{work:?}, {whole} whole steps"
    );
    let memory = tree.memory_use();
    assert_eq!(memory.entries_occupied, 16 * KEYS);
    assert!(memory.entries_unoccupied < 16 * BLOCK_CAP, "{memory:?}");
}

/// A thread that splits a block off updates the search layer: walks along blocks are short, and
/// there are none without inserts.
#[test]
fn ways_along_blocks_are_short_and_end_with_the_splits() {
    const KEYS: u64 = if cfg!(miri) { 60 } else { 20_000 };
    let tree = SbTree::<u64>::new();
    (0..KEYS).for_each(|key| tree.insert(100 * key, key));
    tree.settle();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tree = &tree;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for number in 0..KEYS {
                    // Close together, so that blocks are split next to those that were just split.
                    let key = 100 * (number / 8 + rng.below(4)) + 1 + thread;
                    tree.insert(key, key);
                    assert_eq!(tree.get(key), Some(key));
                }
            });
        }
    });
    tree.settle();
    assert_eq!(tree.check_structure(), Ok(()));
    let work = tree.work();
    assert!(work.walked <= WALK_MAX * work.walks, "{work:?}");
    let found = (0..100 * KEYS).filter(|&key| tree.get(key).is_some()).count();
    assert_eq!(found, tree.range(..).count());
    assert_eq!(tree.work().walks, work.walks, "all blocks are known");
}

/// Unconverted entries are at most a log of this size per writer, plus those that segments took
/// over.
#[test]
fn shorter_logs_are_sealed_sooner() {
    let seals = [8, LOG_CAP].map(|entries| {
        let tree = SbTree::<u64>::with_options(SbTreeOptions::new().log_entries_max(entries));
        for key in 1..=400 {
            tree.insert(key, key);
        }
        tree.settle();
        let work = tree.work();
        assert!(work.pending <= entries, "{work:?}");
        assert_eq!(tree.range(..).count(), 400);
        assert_eq!(tree.check_structure(), Ok(()));
        work.seals
    });
    assert!(seals[0] > 2 * seals[1], "{seals:?}");
}

/// Blocks emptied by removals are reused.
#[test]
fn emptied_blocks_are_used_again() {
    let tree = SbTree::<u64>::new();
    let keys: u64 = if cfg!(miri) { 80 } else { 4_000 };
    let mut bytes = Vec::new();
    for round in 0..4 {
        let keys = round * keys + 1..=(round + 1) * keys;
        keys.clone().for_each(|key| tree.insert(key, key));
        for key in keys {
            assert_eq!(tree.remove(key), Some(key));
        }
        assert!(tree.is_empty());
        assert_eq!(tree.check_structure(), Ok(()));
        bytes.push(tree.memory_use().total());
    }
    assert!(bytes[3] <= bytes[0] + bytes[0] / 4, "{bytes:?}");
}

/// Four threads remove their oldest keys, and are in each other's way at every block.
#[test]
fn emptied_blocks_are_used_again_by_several_threads() {
    const THREADS: u64 = 4;
    const KEYS: u64 = if cfg!(miri) { 60 } else { 40_000 };
    const KEPT: u64 = if cfg!(miri) { 20 } else { 100 };
    let tree = SbTree::<u64>::new();
    first_in_first_out(
        (THREADS, KEYS, KEPT),
        |key, value| tree.insert(key, value),
        |key| tree.remove(key),
    );
    tree.settle();
    assert_eq!(tree.check_structure(), Ok(()));
    assert_eq!(tree.range(..).count() as u64, KEPT * THREADS);
    let fresh = SbTree::<u64>::new();
    for key in 0..KEPT * THREADS {
        fresh.insert_as((key % THREADS) as usize, [key], key);
    }
    let [bytes, expected] = [&tree, &fresh].map(|tree| tree.memory_use().total());
    assert!(
        bytes <= 4 * expected,
        "{bytes}, {expected} without the removed keys"
    );
}

/// A block that had no neighbour to merge with when it became empty is taken in by its right one.
#[test]
fn an_empty_left_neighbour_is_absorbed() {
    let tree = tree_in_blocks(18 * BLOCK_CAP as u64);
    let blocks = || tree.blocks.search.blocks();
    let full = blocks().len();
    // In the middle of a node: its right neighbour is full.
    let [empty, next] = [blocks()[6], blocks()[7]];
    let latched = empty.latch.latch().expect("not obsolete");
    (0..empty.len()).for_each(|_| empty.remove(0, latched.writer()));
    drop(latched);
    let keys: Vec<u64> = next.entries(0..next.len()).map(|([key], _)| key).collect();
    for key in &keys[1..] {
        assert_eq!(tree.remove(*key), Some(*key));
    }
    assert_eq!(blocks().len(), full - 1);
    assert_eq!(tree.get(keys[0]), Some(keys[0]));
    assert_eq!(tree.check_structure(), Ok(()));
}

/// Entries that a conversion has moved into blocks are not counted as pending.
#[test]
fn an_entry_is_pending_or_in_a_block() {
    let tree = SbTree::<u64>::new();
    for key in 1..=if cfg!(miri) { 60 } else { 1_000 } {
        // A sole writer's segments take nothing over.
        tree.insert_as(0, [key], key);
        let blocks = tree.blocks.search.blocks();
        let in_blocks: usize = blocks.iter().map(|block| block.len()).sum();
        assert_eq!((tree.work().pending + in_blocks) as u64, key);
    }
}

/// Disordered keys above the floor are sorted by the conversion; the last value of a key wins.
#[test]
fn disorder_within_a_segment_is_sorted() {
    let tree = SbTree::<u64>::new();
    for round in 0..20 {
        let base = 100 * round;
        for key in [7, 3, 9, 3, 1, 8, 7] {
            tree.insert(base + key, 10 * round + key);
            assert_eq!(tree.get(base + key), Some(10 * round + key));
        }
        tree.insert(base + 3, round);
        assert_eq!(tree.get(base + 3), Some(round));
        let keys: Vec<u64> = tree.range(base..).map(|(key, _)| key - base).collect();
        assert_eq!(keys, [1, 3, 7, 8, 9]);
        let keys: Vec<u64> = tree.range(base..).rev().map(|(key, _)| key - base).collect();
        assert_eq!(keys, [9, 8, 7, 3, 1]);
    }
    assert_eq!(tree.range(..).count(), 100);
    assert_eq!(tree.check_structure(), Ok(()));
}

/// More threads than logs.
#[test]
fn threads_without_a_log_share_one() {
    let tree = SbTree::<u64>::new();
    let threads = 2 * WRITERS as u64;
    let barrier = std::sync::Barrier::new(2 * WRITERS);
    let keys = if cfg!(miri) { 6 } else { 500 };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (tree, barrier) = (&tree, &barrier);
            scope.spawn(move || {
                tree.insert(thread, thread);
                barrier.wait();
                for n in 1..keys {
                    tree.insert(n * threads + thread, n);
                    assert_eq!(tree.get(n * threads + thread), Some(n));
                }
                barrier.wait();
            });
        }
    });
    assert_eq!(tree.range(..).count() as u64, threads * keys);
    assert_eq!(tree.check_structure(), Ok(()));
}

/// The descent to the greatest key takes the last child of each node, however many there are.
#[test]
fn the_greatest_key_is_found_while_the_search_layer_grows() {
    let tree = SbTree::<u64>::new();
    tree.insert(u64::MAX, 0);
    assert_eq!(tree.remove(u64::MAX), Some(0), "all that follows goes to blocks");
    let keys: u64 = if cfg!(miri) { 100 } else { 2_000 };
    for key in 1..=keys {
        // A late key, and every second time a split.
        tree.insert(key << 40, key);
        tree.insert(u64::MAX, key);
        assert_eq!(tree.get(u64::MAX), Some(key));
        assert_eq!(tree.last(), Some((u64::MAX, key)));
        let (mut last, mut value) = ([0], [0]);
        assert_eq!(tree.scan(u64::MAX.., &mut last, &mut value), 1);
        assert_eq!((last, value), ([u64::MAX], [key]));
        if key % 64 == 0 {
            assert_eq!(tree.check_structure(), Ok(()));
        }
    }
    for key in (1..=keys).rev() {
        assert_eq!(tree.remove(key << 40), Some(key));
        assert_eq!(tree.last(), Some((u64::MAX, keys)));
    }
    assert_eq!(tree.check_structure(), Ok(()));
}

#[test]
fn the_ends_of_the_keys_are_keys() {
    let tree = SbTree::<u64>::new();
    for key in [u64::MAX, 0, 5, u64::MAX - 1] {
        tree.insert(key, key);
        assert_eq!(tree.get(key), Some(key));
    }
    assert_eq!(
        tree.range(..).map(|(key, _)| key).collect::<Vec<_>>(),
        [0, 5, u64::MAX - 1, u64::MAX]
    );
    assert_eq!(tree.last(), Some((u64::MAX, u64::MAX)));
    assert_eq!(tree.remove(u64::MAX), Some(u64::MAX));
    tree.insert(u64::MAX, 1);
    tree.insert(0, 1);
    assert_eq!((tree.first(), tree.last()), (Some((0, 1)), Some((u64::MAX, 1))));
    assert_eq!(tree.check_structure(), Ok(()));
}

/// An index with the even keys below `keys` in blocks, from writer 0.
fn tree_in_blocks(keys: u64) -> SbTree<u64> {
    let tree = SbTree::new();
    (0..keys).step_by(2).for_each(|key| tree.insert_as(0, [key], key));
    let mut role = tree.segments.role();
    tree.segments.seal(&mut role, &tree.blocks, None);
    tree.segments.convert(&mut role, &tree.blocks);
    drop(role);
    // The least key belongs to blocks from the beginning.
    tree.lanes.drain_all(&tree.blocks);
    tree
}

/// Late keys of a thread's own class go to blocks a lane at a time, and are visible to all threads
/// at once.
#[test]
fn late_keys_wait_with_their_thread_and_are_found() {
    let keys = if cfg!(miri) { 80 } else { 4_000 };
    let tree = tree_in_blocks(keys);
    let drains = tree.work().drains;
    let late: Vec<u64> = (1..keys).step_by(4).collect();
    for &key in &late {
        tree.insert_as(1, [key], !key);
    }
    let drains = tree.work().drains - drains;
    assert_eq!(drains, (late.len() - 1) as u64 / LANE_CAP as u64);
    let waiting = tree.lanes.entries();
    assert!((1..=LANE_CAP).contains(&waiting), "{waiting} wait");
    // Lookups pass the waiting entries until one of them drains the lane.
    assert!(late.iter().rev().all(|&key| tree.get(key) == Some(!key)));
    assert_eq!((tree.lanes.entries(), tree.get(keys + 1)), (0, None));
    let expected = |key: u64| match key % 4 {
        0 | 2 => Some((key, key)),
        1 => Some((key, !key)),
        _ => None,
    };
    assert!(tree.range(..).eq((0..keys).filter_map(expected)));
    tree.check_structure().expect("sound");
}

/// A range drains the lanes it overlaps, at any bounds, and leaves the others.
#[test]
fn ranges_read_what_waits_in_lanes() {
    let tree = tree_in_blocks(200);
    for from in 0..40_u64 {
        let late = [4 * from + 3, 4 * from + 1];
        late.iter().for_each(|&key| tree.insert_as(2, [key], 7));
        let (mut keys, mut values) = ([0; 6], [0; 6]);
        assert_eq!(tree.scan(4 * from.., &mut keys, &mut values), 6);
        let expected: [u64; 6] = [0, 1, 2, 3, 4, 6];
        assert_eq!(keys, expected.map(|key| 4 * from + key));
        assert_eq!(tree.lanes.entries(), 0, "the range ran over both");
        tree.insert_as(2, [late[0]], 8);
        assert_eq!(
            tree.scan(..4 * from, &mut keys, &mut values),
            (4 * from).min(6) as usize
        );
        assert_eq!(tree.lanes.entries(), 1, "the range ends before");
        assert_eq!(tree.range(late[0]..).next(), Some((late[0], 8)));
        assert_eq!(tree.range(..=late[0]).next_back(), Some((late[0], 8)));
    }
    tree.check_structure().expect("sound");
}

/// Writers take classes from one another until they are out of credit, and again when they have
/// earned some: each key has the value inserted last, in whichever lane it waits, and is removed
/// once.
#[test]
fn a_class_changes_hands_with_what_waits() {
    let tree = tree_in_blocks(64);
    let mut rng = Rng::new(3);
    let mut expected: std::collections::BTreeMap<u64, u64> =
        (0..64).step_by(2).map(|key| (key, key)).collect();
    let rounds = if cfg!(miri) { 200 } else { 20_000 };
    for value in 100..100 + rounds {
        // In some phases each class has one writer.
        let key = rng.below(62);
        let writer = if value / 500 % 2 == 0 {
            rng.index(3)
        } else {
            (key % 3) as usize
        };
        match rng.below(8) {
            0 => assert_eq!(tree.remove(key), expected.remove(&key), "key {key}"),
            1 | 2 => assert_eq!(tree.get(key), expected.get(&key).copied(), "key {key}"),
            3 if value % 16 == 3 => assert!(
                tree.range(key..)
                    .eq(expected.range(key..).map(|(key, value)| (*key, *value)))
            ),
            _ => {
                tree.insert_as(writer, [key], value);
                expected.insert(key, value);
            }
        }
    }
    assert!(tree.work().drains > rounds / 100);
    assert!(tree.range(..).eq(expected));
    tree.check_structure().expect("sound");
}
