//! Switches and moves, with concurrent readers and writers.
//!
//! One preemption is explored, as each model runs through complete life cycles of keys.

use loom::sync::Arc;
use loom::thread;

use super::presence::{Barrier, WriterSlot};
use super::{HeadIndex, HeadIndexOptions, HeadKind};
use crate::sync::exploration::explore;
use crate::sync::primitive::{AtomicU64, Ordering};

/// An index into which writer 0 has inserted these keys.
fn index_of(keys: &[u64]) -> HeadIndex<u64> {
    let index = HeadIndex::with_options(HeadIndexOptions::new().adapts(false));
    keys.iter().for_each(|&key| index.insert_as(0, key, key * 10));
    index
}

/// An SB-tree with 1, a B-link tree with 2 and 3, and a head with 40: enough parts for the middle
/// one to be moved.
fn index_of_parts() -> Arc<HeadIndex<u64>> {
    let index = index_of(&[1]);
    assert!(index.switch_head(HeadKind::BlinkTree));
    index.insert_as(0, 2, 20);
    index.insert_as(0, 3, 30);
    assert!(index.switch_head(HeadKind::SbTree));
    index.insert_as(0, 40, 400);
    Arc::new(index)
}

/// Freezes and moves until nothing is left to do, or a writer is in the way.
fn unite(index: &HeadIndex<u64>) {
    let mut role = index.role();
    while index.unite_some(&mut role, Some(0)) {}
}

#[test]
fn loom_who_is_present_is_seen_or_sees_the_change() {
    explore(3, || {
        let shared = Arc::new((
            WriterSlot::<[u64; 1]>::new(),
            AtomicU64::new(0),
            AtomicU64::new(0),
        ));
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (slot, change, written) = &*shared;
                let present = slot.enter(Barrier::OfEach);
                if change.load(Ordering::Relaxed) == 0 {
                    written.store(1, Ordering::Relaxed);
                }
                drop(present);
            })
        };
        let (slot, change, written) = &*shared;
        change.store(1, Ordering::Relaxed);
        Barrier::OfEach.pass();
        if slot.turn_under_way().is_none() {
            // Present writers have left and new ones see the change: no write follows.
            let before = written.load(Ordering::Relaxed);
            writer.join().expect("the writer ends");
            assert_eq!(written.load(Ordering::Relaxed), before);
        } else {
            writer.join().expect("the writer ends");
        }
    });
}

#[test]
fn loom_inserts_during_a_switch_are_not_lost() {
    explore(1, || {
        let index = Arc::new(index_of(&[1]));
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                for key in [2, 9] {
                    index.insert_as(1, key, key * 10);
                    assert_eq!(index.get(key), Some(key * 10));
                }
            })
        };
        assert!(index.switch_head(HeadKind::BlinkTree));
        index.insert_as(0, 5, 50);
        writer.join().expect("the writer ends");
        assert_eq!(
            [1, 2, 5, 9].map(|key| index.get(key)),
            [Some(10), Some(20), Some(50), Some(90)]
        );
        assert_eq!(index.check_structure(), Ok(()));
    });
}

/// An append that has begun in an SB-tree head survives a switch of the head and the move of
/// its part.
#[test]
fn loom_an_append_during_a_switch_and_a_move_is_not_lost() {
    explore(2, || {
        let options = HeadIndexOptions::new().adapts(false).first(HeadKind::BlinkTree);
        let index = Arc::new(HeadIndex::<u64>::with_options(options));
        index.insert_as(0, 1, 10);
        assert!(index.switch_head(HeadKind::SbTree));
        // The writer has a log, and a lease that covers the next key.
        index.insert_as(1, 8, 80);
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || index.insert_as(1, 9, 90))
        };
        assert!(index.switch_head(HeadKind::BlinkTree));
        unite(&index);
        writer.join().expect("the writer ends");
        assert_eq!(index.get(9), Some(90));
        assert_eq!(index.check_structure(), Ok(()));
    });
}

#[test]
fn loom_an_insert_during_a_move_is_not_lost() {
    explore(1, || {
        let index = index_of_parts();
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                index.insert_as(1, 2, 21);
                assert_eq!(index.get(2), Some(21));
            })
        };
        unite(&index);
        writer.join().expect("the writer ends");
        assert_eq!(
            [1, 2, 3, 40].map(|key| index.get(key)),
            [Some(10), Some(21), Some(30), Some(400)]
        );
        assert_eq!(index.check_structure(), Ok(()));
    });
}

#[test]
fn loom_a_removal_during_a_move_is_not_undone() {
    explore(1, || {
        let index = index_of_parts();
        let writer = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                assert_eq!(index.remove_as(1, 2), Some(20));
                assert_eq!(index.get(2), None);
            })
        };
        unite(&index);
        writer.join().expect("the writer ends");
        assert_eq!([1, 2, 3].map(|key| index.get(key)), [Some(10), None, Some(30)]);
    });
}

#[test]
fn loom_a_reader_finds_its_key_while_it_moves() {
    explore(1, || {
        let index = index_of_parts();
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || assert_eq!(index.get(2), Some(20)))
        };
        unite(&index);
        reader.join().expect("the reader ends");
        assert_eq!(index.work().parts, 1);
    });
}

#[test]
fn loom_a_scan_finds_its_keys_while_they_move() {
    explore(1, || {
        let index = index_of_parts();
        let reader = {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let (mut keys, mut values) = ([0; 2], [0; 2]);
                let filled = index.scan(2.., &mut keys, &mut values);
                assert_eq!(keys[..filled], [2, 3]);
            })
        };
        unite(&index);
        reader.join().expect("the reader ends");
    });
}
