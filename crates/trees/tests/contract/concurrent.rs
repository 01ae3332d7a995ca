//! Whole runs inserted and ranges removed, entry by entry, by threads, under cursors that go both
//! ways.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bedload_pages::{HeapPages, MimicPages, PageStore};
use bedload_testkit::Rng;
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions, EntryRef};
use bedload_trees::{Entries, Entry, FixedRow, KeyOrder, Position, Row, U64Order};

use bedload_trees::contract::CarelessOrder;

use super::removal::remove_between;

const THREADS: u64 = 4;
const ROUNDS: u64 = 150;
const KEYS: u64 = 4000;

/// Every tenth key stays throughout; the others come and go, each the business of one thread.
fn is_lasting(key: u64) -> bool {
    key.is_multiple_of(10)
}

fn entry<'a>(key: &'a [u8], value: &'a [u8; 8]) -> Entry<'a> {
    Entry {
        key,
        tie: 0,
        row: Row {
            fixed: value,
            variable: &[],
        },
    }
}

fn value_of<O: KeyOrder>(entry: &EntryRef<'_, O, FixedRow<8>>) -> u64 {
    u64::from_le_bytes(entry.fixed(0).try_into().expect("8 bytes"))
}

/// Ascending or descending without repetition, and nothing that should be there is missing.
fn check_pass<O: KeyOrder, S: PageStore>(tree: &BPlusTree<O, FixedRow<8>, S>, is_backward: bool) {
    let cursor = if is_backward {
        tree.range_back(Bound::Unbounded, Bound::Unbounded)
    } else {
        tree.range(Bound::Unbounded, Bound::Unbounded)
    };
    let mut cursor = cursor.expect("a cursor");
    let mut keys = Vec::new();
    while let Some(entry) = cursor.next_entry().expect("an entry") {
        keys.push(value_of(&entry));
    }
    if is_backward {
        keys.reverse();
    }
    assert!(keys.is_sorted_by(|a, b| a < b), "each once, in order");
    let lasting = keys.iter().filter(|&&key| is_lasting(key)).count() as u64;
    assert_eq!(lasting, KEYS / 10, "every entry present throughout is seen");
}

fn come_and_go<O: KeyOrder, S: PageStore + Sync>(
    tree: &BPlusTree<O, FixedRow<8>, S>,
    key_of: impl Fn(u64) -> Vec<u8> + Sync,
    seed: u64,
) {
    for key in (0..KEYS).filter(|&key| is_lasting(key)) {
        tree.insert(entry(&key_of(key), &key.to_le_bytes()))
            .expect("inserted");
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let key_of = &key_of;
                scope.spawn(move || {
                    let mut rng = Rng::stream(seed, thread);
                    // A thread's keys lie between everybody's, so that all meet in the same leaves.
                    let is_own = |key: &u64| key % THREADS == thread && !is_lasting(*key);
                    let mut present = 0;
                    for _ in 0..ROUNDS {
                        let start = rng.below(KEYS);
                        let end = (start + rng.below(400)).min(KEYS);
                        let run: Vec<(Vec<u8>, [u8; 8])> = (start..end)
                            .filter(is_own)
                            .map(|key| (key_of(key), key.to_le_bytes()))
                            .collect();
                        let entries = run.iter().map(|(key, value)| entry(key, value));
                        if rng.below(3) > 0 {
                            let inserted = tree.insert_sorted(&mut Entries::new(entries)).expect("inserted");
                            assert_eq!(inserted, run.len() as u64);
                            present += inserted;
                            continue;
                        }
                        let (from, to) = (key_of(start), key_of(end));
                        let removed = remove_between(
                            tree,
                            Bound::Included(Position::of_key(&from)),
                            Bound::Excluded(Position::of_key(&to)),
                            |entry| is_own(&value_of(entry)),
                        );
                        assert!(
                            removed.expect("removed").len() as u64 <= present,
                            "nobody else removes this thread's entries"
                        );
                    }
                    let all = Bound::Unbounded;
                    let own = remove_between(tree, all, all, |entry| is_own(&value_of(entry)));
                    own.expect("removed");
                })
            })
            .collect();
        for is_backward in [false, true] {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    check_pass(tree, is_backward);
                }
            });
        }
        let ends: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Release);
        assert!(ends.iter().all(Result::is_ok), "a writer panicked");
    });
    let report = tree.verify().expect("verified");
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.entries, KEYS / 10);
    assert_eq!(
        tree.store()
            .sweep(&|page| report.pages.contains(&page))
            .expect("swept"),
        []
    );
}

fn config() -> BPlusTreeOptions {
    BPlusTreeOptions::new().max_entries(4)
}

fn careless(number: u64) -> Vec<u8> {
    format!("{number:08} ").into_bytes()
}

#[test]
fn runs_and_ranges_on_heap_pages() {
    for seed in 0..3 {
        let tree = BPlusTree::create(HeapPages::new(512), U64Order, FixedRow, config());
        come_and_go(&tree.expect("created"), |key| U64Order::key(key).into(), seed);
        let tree = BPlusTree::create(
            HeapPages::new(512),
            CarelessOrder,
            FixedRow,
            BPlusTreeOptions::new(),
        );
        come_and_go(&tree.expect("created"), careless, seed);
    }
}

#[test]
fn runs_and_ranges_on_mimic_pages() {
    for seed in 0..3 {
        let tree = BPlusTree::create(MimicPages::new(512, seed), U64Order, FixedRow, config());
        come_and_go(&tree.expect("created"), |key| U64Order::key(key).into(), seed);
        let tree = BPlusTree::create(MimicPages::new(512, seed), CarelessOrder, FixedRow, config());
        come_and_go(&tree.expect("created"), careless, seed);
    }
}

#[test]
fn a_remembered_right_edge_is_checked() {
    // An unlinked page stands there unchanged among heap pages, and is a stranger among mimic
    // pages.
    two_handles(&HeapPages::new(256));
    two_handles(&MimicPages::new(256, 3));
}

/// Two handles, each remembering a right edge of its own, over one tree that grows and shrinks at
/// that edge.
fn two_handles<S: PageStore>(pages: &S) {
    let one = BPlusTree::create(pages, U64Order, FixedRow::<8>, config()).expect("created");
    let other = BPlusTree::open(pages, one.root(), U64Order, FixedRow::<8>, config()).expect("opened");
    let mut expected = 0;
    let mut rng = Rng::new(5);
    for round in 0..300 {
        let len = rng.below(30);
        for key in 0..len {
            let key = U64Order::key(round * 100 + key);
            let tree = if rng.below(2) == 0 { &one } else { &other };
            tree.insert(entry(&key, &key)).expect("inserted");
        }
        expected += len;
        if rng.below(3) == 0 {
            let from = U64Order::key((round * 100).saturating_sub(rng.below(2000)));
            let tree = if rng.below(2) == 0 { &one } else { &other };
            let from = Bound::Included(Position::of_key(&from));
            let removed = remove_between(tree, from, Bound::Unbounded, |_| true).expect("removed");
            expected -= removed.len() as u64;
        }
    }
    let report = one.verify().expect("verified");
    assert_eq!((report.is_sound(), report.entries), (true, expected));
}
