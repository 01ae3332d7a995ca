//! The contract, with windows and chunks so small that switches and moves are common, and under
//! constant switching.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bedload_testkit::Rng;
use bedload_testkit::contract::{ConcurrentIndex, Keys, OneThread, U64Keys, check, check_disjoint_writers};

use super::index::own_writer;
use super::layout::PARTS;
use super::measure::WINDOW;
use super::moving::CHUNK;
use super::role::UNITED_FROM;
use super::{HeadIndex, HeadIndexOptions, HeadKind};
use crate::map::contract::{Subject, WithInsert};
use crate::map::key::Key;
use crate::map::shared_map::SharedMap;
use crate::map::small_nodes::{keeps_the_contract, plan};
use crate::sb_tree::WRITERS;

/// Switches the head at every fifth insert, if a part is free.
fn restless_index<K: Key>() -> impl SharedMap<K> {
    let inserts = AtomicU64::new(0);
    let insert = move |index: &HeadIndex<K>, key, value| {
        index.insert(key, value);
        let inserts = inserts.fetch_add(1, Ordering::Relaxed);
        if inserts.is_multiple_of(5) {
            index.switch_head(HeadKind::ALL[(inserts / 5 % 3) as usize]);
        }
    };
    let index = HeadIndex::with_options(HeadIndexOptions::new().adapts(false));
    WithInsert(index, insert)
}

fn restless<K: Keys<Key: Key>>(keys: K) -> impl ConcurrentIndex<Keys = K> {
    Subject(restless_index(), keys)
}

fn subject<K: Keys<Key: Key>>(keys: K) -> Subject<HeadIndex<K::Key>, K> {
    Subject(HeadIndex::new(), keys)
}

keeps_the_contract!(restless);

/// The index itself chooses when to switch.
#[test]
fn the_contract_holds_by_its_own_choice() {
    check(|| OneThread(subject(U64Keys)), plan(80_000));
    check_disjoint_writers(|| subject(U64Keys), 4, plan(40_000));
}

/// Every insert is found as soon as it has returned, and the entries at the end are those
/// inserted, while the writers switch now and then and one thread switches all the time.
#[test]
fn no_acknowledged_insert_is_lost_in_a_switch() {
    const WRITING: u64 = 3;
    let keys: u64 = if cfg!(miri) { 60 } else { 40_000 };
    let index = HeadIndex::<u64>::with_options(HeadIndexOptions::new().adapts(false));
    let is_writing = AtomicBool::new(true);
    let now = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITING)
            .map(|writer| {
                let (index, now) = (&index, &now);
                scope.spawn(move || {
                    let mut rng = Rng::stream(5, writer);
                    let mut own = Vec::new();
                    for _ in 0..keys {
                        // Mostly ascending, some from the past; each key once.
                        let time = now.fetch_add(1, Ordering::Relaxed);
                        let key = if rng.percent(10.0) {
                            time / 2 * 8 + 1 + writer
                        } else {
                            time * 8
                        };
                        index.insert(key, time);
                        assert_eq!(index.get(key), Some(time), "{key} was acknowledged");
                        if time.is_multiple_of(64) {
                            index.switch_head(HeadKind::ALL[(time / 64 % 3) as usize]);
                        }
                        own.push((key, time));
                    }
                    own
                })
            })
            .collect();
        scope.spawn(|| {
            for kind in HeadKind::ALL.iter().cycle() {
                index.switch_head(*kind);
                if !is_writing.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut expected: Vec<_> = writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("every insert was found"))
            .collect();
        is_writing.store(false, Ordering::Relaxed);
        // The latest insert of a late key wins; a writer draws its times in order.
        expected.sort_by_key(|&(key, time)| (key, std::cmp::Reverse(time)));
        expected.dedup_by_key(|entry| entry.0);
        assert!(index.range(..).eq(expected.iter().copied()));
        assert_eq!(index.range(..).count(), expected.len());
    });
    let switches = index.work().switches;
    assert!(switches >= if cfg!(miri) { 1 } else { 20 }, "{switches} switches");
    assert_eq!(index.check_structure(), Ok(()));
}

/// An index with one part of each of these kinds in turn, `keys` entries each.
fn index_of_parts(kinds: &[HeadKind], keys: u64) -> HeadIndex<u64> {
    let options = HeadIndexOptions::new().adapts(false).first(kinds[0]);
    let index = HeadIndex::with_options(options);
    for (part, &kind) in kinds.iter().enumerate() {
        assert!(part == 0 || index.switch_head(kind), "part {part}");
        // Above the limit: only the part's last keys may come near it.
        let base = (part as u64) << 32;
        (base..base + keys).for_each(|key| index.insert(key, !key));
    }
    index
}

fn expect_parts(index: &HeadIndex<u64>, parts: usize, keys: u64) {
    let expected = (0..parts as u64).flat_map(|part| (part << 32)..(part << 32) + keys);
    assert!(index.range(..).map(|(key, _)| key).eq(expected.clone()));
    let (mut keys, mut values) = (vec![0; 10_000], vec![0; 10_000]);
    let filled = index.scan(.., &mut keys, &mut values);
    assert!(keys[..filled].iter().copied().eq(expected.clone()));
    assert!(expected.clone().all(|key| index.get(key) == Some(!key)));
    let backwards = index.range(..).rev().map(|(key, _)| key).collect::<Vec<_>>();
    assert!(backwards.into_iter().rev().eq(expected));
    assert_eq!(index.check_structure(), Ok(()));
}

#[test]
fn parts_are_united_and_maps_given_back() {
    use HeadKind::{BlinkHash, BlinkTree, SbTree};
    let keys = if cfg!(miri) { 8 } else { 100 };
    let index = index_of_parts(&[SbTree, BlinkTree, SbTree, BlinkHash, SbTree], keys);
    // Helping inserts may have united some already.
    expect_parts(&index, 5, keys);
    index.unite();
    expect_parts(&index, 5, keys);
    let work = index.work();
    assert!(work.parts < UNITED_FROM, "{work:?}");
    assert!(work.moved >= keys, "{work:?}");
    assert!(work.chunks >= keys / CHUNK as u64, "{work:?}");
    let guard = &crossbeam_epoch::pin();
    let parts = index.layout.parts();
    for kind in [BlinkHash, BlinkTree] {
        let is_there = index.maps.map(kind, guard).is_some();
        assert_eq!(is_there, parts.kinds.contains(&kind), "{kind:?} in {parts:?}");
    }
}

/// The SB-tree is kept when it is home to no part, and its moved entries are removed.
#[test]
fn an_sb_tree_that_is_home_to_nothing_is_empty() {
    use HeadKind::{BlinkHash, BlinkTree, SbTree};
    let keys = if cfg!(miri) { 8 } else { 100 };
    let index = index_of_parts(&[BlinkTree, SbTree, BlinkHash], keys);
    // Makes the SB-tree's part the smallest.
    (keys..3 * keys).for_each(|key| index.insert((2 << 32) + key, key));
    assert!(index.switch_head(BlinkTree));
    index.unite();
    assert_eq!(index.range(..).count() as u64, 5 * keys);
    assert_eq!(index.check_structure(), Ok(()));
    assert_eq!(index.layout.parts().kinds, [BlinkTree, BlinkHash, BlinkTree]);
    assert!(index.maps.sb_tree.is_empty());
}

#[test]
fn there_are_never_more_parts_than_there_may_be() {
    let index = HeadIndex::<u64>::with_options(HeadIndexOptions::new().adapts(false));
    let mut refused = 0;
    for part in 0..3 * PARTS as u64 {
        // One insert per part: too few for any thread to help.
        index.insert(part << 32, part);
        refused += u64::from(!index.switch_head(HeadKind::ALL[(part % 3) as usize]));
        assert!(index.work().parts <= PARTS);
    }
    assert!(refused > 0);
    assert_eq!(index.range(..).count(), 3 * PARTS);
    assert_eq!(index.check_structure(), Ok(()));
}

/// A writer does not wait for a frozen chunk; the chunk is moved later, with the new write.
#[test]
fn a_writer_thaws_what_is_in_its_way() {
    use HeadKind::{BlinkTree, SbTree};
    let index = index_of_parts(&[SbTree, BlinkTree, SbTree], 3);
    // Writes are counted a few at a time: the margin makes the middle part the smallest.
    (3..20).for_each(|key| index.insert((2 << 32) + key, key));
    assert!(index.switch_head(BlinkTree));
    let key = (1 << 32) + 1;
    let mut role = index.role();
    assert!(index.unite_some(&mut role, own_writer()), "a chunk is frozen");
    index.insert(key, 7);
    assert_eq!(index.remove(key - 1), Some(!(key - 1)));
    assert_eq!(index.layout.counts().1, 1, "thawed once");
    while index.unite_some(&mut role, own_writer()) {}
    drop(role);
    assert_eq!((index.get(key), index.get(key - 1)), (Some(7), None));
    assert_eq!(index.range(..).count(), 25);
    assert!(index.work().parts < UNITED_FROM);
    assert_eq!(index.check_structure(), Ok(()));
}

/// A chunk is not moved before a writer that was present when it froze has left.
#[test]
fn a_chunk_waits_for_who_is_present() {
    use HeadKind::{BlinkTree, SbTree};
    let index = index_of_parts(&[SbTree, BlinkTree, SbTree], 3);
    assert!(index.switch_head(BlinkTree));
    let present = index.slots[WRITERS - 2].enter(index.barrier);
    let mut role = index.role();
    assert!(index.unite_some(&mut role, own_writer()), "a chunk is frozen");
    assert!(!index.unite_some(&mut role, own_writer()), "it waits");
    assert_eq!(role.chunks, 0);
    drop(present);
    assert!(index.unite_some(&mut role, own_writer()));
    assert_eq!(role.chunks, 1);
}

#[test]
fn the_limit_is_raised_rarely() {
    let index = HeadIndex::<u64>::new();
    let keys = if cfg!(miri) { 2_000 } else { 100_000 };
    let mut rng = Rng::new(1);
    let mut time = 0;
    for _ in 0..keys {
        time += rng.below(1 << 20);
        index.insert(time, time);
    }
    let raises = index.work().raises;
    assert!(raises <= 24 + keys / 200, "{raises} raises");
}

#[test]
fn the_head_follows_what_is_late() {
    let index = HeadIndex::<u64>::with_options(HeadIndexOptions::new().late_writers_min(1));
    let mut rng = Rng::new(1);
    let mut time = 0;
    let mut season = |late_percent: f64, removed_percent: f64| {
        for _ in 0..300 * WINDOW {
            time += 1;
            let key = if rng.percent(late_percent) {
                rng.below(time)
            } else {
                time
            };
            index.insert(2 * key, time);
            if rng.percent(removed_percent) {
                assert_eq!(index.remove(2 * key), Some(time));
            }
        }
        index.head()
    };
    assert_eq!(season(5.0, 0.0), HeadKind::SbTree);
    if cfg!(miri) {
        return;
    }
    assert_eq!(season(95.0, 0.0), HeadKind::BlinkHash);
    assert!(index.late_share() > 0.8, "{}", index.late_share());
    assert_eq!(season(30.0, 0.0), HeadKind::BlinkHash, "between the bounds");
    assert_eq!(season(0.0, 0.0), HeadKind::SbTree);
    assert_eq!(season(0.0, 30.0), HeadKind::BlinkTree);
    assert_eq!(season(0.0, 0.0), HeadKind::SbTree);
    let work = index.work();
    assert_eq!(work.switches, 4);
    assert!(work.parts <= UNITED_FROM, "{work:?}");
    assert_eq!(index.check_structure(), Ok(()));
}

/// Keys out of order by less than a window are not late.
#[test]
fn disorder_within_a_window_is_not_late() {
    let index = HeadIndex::<u64>::new();
    let mut rng = Rng::new(1);
    for time in 0..40 * WINDOW {
        index.insert(time + rng.below(WINDOW / 2), time);
    }
    assert!(index.late_share() < 0.01, "{}", index.late_share());
    assert_eq!(index.head(), HeadKind::SbTree);
}

/// Late keys that go to a lane are counted, even if readers drain it before it is full.
#[test]
fn what_waits_in_a_lane_is_counted() {
    for lookups in [0, 1] {
        let index = HeadIndex::<u64>::new();
        let mut rng = Rng::new(1);
        (0..40 * WINDOW).for_each(|time| index.insert(2 * time, time));
        assert!(index.late_share() < 0.01, "{}", index.late_share());
        let drains = index.maps.sb_tree.work().drains;
        for _ in 0..40 * WINDOW {
            index.insert(4 * rng.below(15 * WINDOW) + 1, 0);
            (0..lookups).for_each(|_| assert_eq!(index.get(60 * WINDOW + 1), None));
        }
        assert!(index.late_share() > 0.9, "{}", index.late_share());
        assert!(index.maps.sb_tree.work().drains - drains >= WINDOW);
    }
}

/// More threads than slots.
#[test]
fn threads_without_a_slot_share_one() {
    let index = restless_index::<u64>();
    let threads = 2 * WRITERS as u64;
    let barrier = std::sync::Barrier::new(2 * WRITERS);
    let keys = if cfg!(miri) { 20 } else { 300 };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (index, barrier) = (&index, &barrier);
            scope.spawn(move || {
                index.insert(thread, thread);
                barrier.wait();
                for n in 1..keys {
                    index.insert(n * threads + thread, n);
                    assert_eq!(index.get(n * threads + thread), Some(n));
                    if n % 8 == 0 {
                        assert_eq!(index.remove(n * threads + thread), Some(n));
                        index.insert(n * threads + thread, n);
                    }
                }
                barrier.wait();
            });
        }
    });
    let everything = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(index.range(everything).count() as u64, threads * keys);
    assert_eq!(index.check_structure(), Ok(()));
}

#[test]
fn the_ends_of_the_keys_are_keys() {
    let index = HeadIndex::<u64>::new();
    for key in [u64::MAX, 0, 5, u64::MAX - 1] {
        index.insert(key, key);
        assert_eq!(index.get(key), Some(key));
    }
    assert!(
        !index.switch_head(HeadKind::BlinkTree),
        "no key is above the limit"
    );
    assert_eq!(
        index.range(..).map(|(key, _)| key).collect::<Vec<_>>(),
        [0, 5, u64::MAX - 1, u64::MAX]
    );
    assert_eq!(
        (index.first(), index.last()),
        (Some((0, 0)), Some((u64::MAX, u64::MAX)))
    );
    assert_eq!(index.remove(u64::MAX), Some(u64::MAX));
    assert_eq!(index.check_structure(), Ok(()));
}
