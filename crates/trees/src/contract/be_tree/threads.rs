//! Writers, a maintainer, readers and a vacuum as threads.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bedload_testkit::Rng;

use super::keys::NumberedKeys;
use super::rows::{Rows, row_of, seen};
use super::schedule::config;
use crate::be_tree::{BeTree, Progress};
use crate::entry::{Entry, FixedRow, Row};
use bedload_pages::{Error, VacuumStore};

const NUMBERS: u64 = 600;
const ROUNDS: u64 = 60;
/// Entries with this tie are there throughout.
const LASTING: u64 = 0;
/// Ties from this one on die, one a round.
const MORTAL: u64 = 100;

/// Two threads put and remove, one puts entries and deletes them in bulk, one maintains, and two
/// read the whole tree, back and forth: what lasts is always seen, once and in order, and what was
/// deleted in bulk never again.
///
/// # Panics
///
/// If it is otherwise.
pub fn check_be_tree_threads<O: NumberedKeys + Sync, S: VacuumStore + Sync>(order: &O, store: &S, seed: u64) {
    let tree = BeTree::create(store, order.clone(), FixedRow, config()).expect("an empty tree");
    put(&tree, (0..NUMBERS).step_by(3).map(|number| (number, LASTING)));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let tree = &tree;
        let over = Over(&is_over);
        let readers = [false, true].map(|is_back| {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    read_all(tree, is_back, u64::MAX);
                }
            })
        });
        let maintainer = scope.spawn(|| {
            let mut maintainer = tree.maintainer();
            while !is_over.load(Ordering::Acquire) {
                if maintainer.work(8).expect("maintained") != Progress::Paused {
                    tree.store().reclaim().expect("reclaimed");
                    thread::yield_now();
                }
            }
        });
        let writers: Vec<_> = (1..3_u64)
            .map(|tie| {
                scope.spawn(move || {
                    let mut rng = Rng::stream(seed, tie);
                    for _ in 0..ROUNDS {
                        let first = rng.below(NUMBERS);
                        put(
                            tree,
                            (first..first + 1 + rng.below(40)).map(|number| (number, tie)),
                        );
                    }
                })
            })
            .collect();
        for round in 0..ROUNDS {
            let dead = MORTAL + round;
            put(tree, (round % 7..NUMBERS).step_by(5).map(|number| (number, dead)));
            tree.bulk_delete(&mut |tie| tie == dead).expect("deleted");
            read_all(tree, round % 2 == 0, dead);
        }
        for writer in writers {
            writer.join().expect("no panic");
        }
        drop(over);
        maintainer.join().expect("no panic");
        for reader in readers {
            reader.join().expect("no panic");
        }
    });
    read_all(&tree, false, MORTAL + ROUNDS);
    let report = tree.verify().expect("sound pages");
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// Ends the test for all threads, also if one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Publishes a batch of entries, or finds out that it has to be tried again.
fn put<O: NumberedKeys, S: VacuumStore>(
    tree: &BeTree<O, Rows, &S>,
    places: impl Iterator<Item = (u64, u64)> + Clone,
) {
    loop {
        let mut batch = tree.batch().expect("begun");
        for (number, tie) in places.clone() {
            let key = tree.order().key_of(number, tie);
            let fixed = row_of(number, tie);
            let row = Row {
                fixed: &fixed,
                variable: &[],
            };
            batch.put(Entry { key: &key, tie, row }).expect("ascending");
        }
        match batch.publish() {
            Ok(_) => return,
            Err(Error::Busy { .. }) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads everything; nothing may have a tie from `MORTAL` up to `dead`, if that is a tie of a
/// round.
fn read_all<O: NumberedKeys, S: VacuumStore>(tree: &BeTree<O, Rows, &S>, is_back: bool, dead: u64) {
    let cursor = if is_back {
        tree.range_back(Bound::Unbounded, Bound::Unbounded)
    } else {
        tree.range(Bound::Unbounded, Bound::Unbounded)
    };
    let mut cursor = cursor.expect("unbounded");
    let mut places = Vec::new();
    while let Some(entry) = cursor.next_entry().expect("sound pages") {
        let ((number, tie), value) = seen(tree.order(), &entry);
        assert_eq!(tie, value);
        places.push((number, tie));
    }
    if is_back {
        places.reverse();
    }
    assert!(places.is_sorted_by(|a, b| a < b), "each once, in order");
    let lasting = places.iter().filter(|&&(_, tie)| tie == LASTING).count() as u64;
    assert_eq!(lasting, NUMBERS.div_ceil(3), "what is there throughout is seen");
    if dead < u64::MAX {
        let revived = places.iter().find(|&&(_, tie)| (MORTAL..=dead).contains(&tie));
        assert_eq!(revived, None, "what was deleted in bulk is gone");
    }
}
