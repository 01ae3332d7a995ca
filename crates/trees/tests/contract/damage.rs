//! Trees on pages that do not hold what was written: errors or wrong answers, never a panic, never
//! a hang.

use std::ops::Bound;

use bedload_pages::{FaultyPages, MimicPages, PageId};
use bedload_testkit::{Rng, go_through_corpus};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{ByteOrder, Columns, Entry, FixedRow, KeyOrder, Position, Row, RowLayout, U64Order};

use crate::model::{Supply, borrowed, row};
use bedload_trees::Entries;
use bedload_trees::bplus_tree::OwnedEntry;
use bedload_trees::contract::{CarelessOrder, check_damaged_be_tree, check_damaged_tree};

const PAYLOAD_LEN: usize = 512;
const NUMBERS: u64 = 300;

type Tree<'s, O, L> = BPlusTree<O, L, &'s FaultyPages<MimicPages>>;

fn entry<O: Supply, L: RowLayout>(tree: &Tree<'_, O, L>, number: u64, seed: u64) -> OwnedEntry {
    OwnedEntry {
        key: tree.order().key(number, seed),
        tie: seed % 2,
        row: row(tree.layout(), seed),
    }
}

/// Entries that a cursor yields until it ends or fails. It must do either.
fn drain<O: KeyOrder, L: RowLayout>(tree: &Tree<'_, O, L>, is_backward: bool, from: Bound<Position<'_>>) {
    let cursor = if is_backward {
        tree.range_back(from, Bound::Unbounded)
    } else {
        tree.range(from, Bound::Unbounded)
    };
    let Ok(mut cursor) = cursor else { return };
    let mut leaves = 0;
    while let Ok(Some(slice)) = cursor.next_leaf() {
        let mut scratch = Vec::new();
        for index in 0..slice.len() {
            slice.key(index, &mut scratch);
            let entry = slice.entry(index).to_owned_entry();
            assert_eq!(entry.tie, slice.tie(index));
        }
        leaves += 1;
        assert!(leaves < 100_000, "a cursor does not end");
    }
}

fn fuzz<O: Supply, L: RowLayout>(order: &O, layout: &L, config: BPlusTreeOptions, rounds: u64) {
    let mut noticed = 0;
    for round in 0..rounds {
        let mut rng = Rng::new(round);
        let pages = FaultyPages::new(MimicPages::new(PAYLOAD_LEN, round), []);
        let tree = BPlusTree::create(&pages, order.clone(), layout.clone(), config).expect("created");
        for number in 0..NUMBERS {
            let entry = entry(&tree, number, rng.next_u64());
            borrowed(&[entry], |entries| {
                entries.next().map(|entry| tree.insert(entry)).transpose()
            })
            .expect("inserted");
        }
        let victims: Vec<PageId> = tree.verify().expect("verified").pages.into_iter().collect();
        for _ in 0..1 + rng.index(3) {
            let page = victims[rng.index(victims.len())];
            // Headers are a small part of a page, and the most dangerous one.
            let offset = if rng.chance() {
                rng.index(PAYLOAD_LEN)
            } else {
                rng.index(48)
            };
            pages.damage(page, offset, 1 << rng.index(8)).expect("damaged");
        }
        noticed += u64::from(!tree.verify().is_ok_and(|report| report.is_sound()));
        let tree = match BPlusTree::open(&pages, tree.root(), order.clone(), layout.clone(), config) {
            Ok(tree) => tree,
            Err(_) => continue,
        };
        drain(&tree, false, Bound::Unbounded);
        drain(&tree, true, Bound::Unbounded);
        for _ in 0..60 {
            let entry = entry(&tree, rng.below(NUMBERS), rng.next_u64());
            let (key, tie) = (entry.key.clone(), entry.tie);
            let position = Position { key: &key, tie };
            match rng.index(6) {
                0 => drop(tree.get(&key, tie)),
                1 | 2 => drop(tree.remove(&key, tie)),
                3 => drain(&tree, rng.chance(), Bound::Excluded(position)),
                4 => {
                    let entries: Vec<_> = std::iter::once(entry).collect();
                    drop(borrowed(&entries, |entries| {
                        tree.insert_sorted(&mut Entries::new(entries))
                    }));
                }
                _ => drop(borrowed(&[entry], |entries| {
                    entries
                        .next()
                        .map(|entry: Entry<'_>| tree.insert(entry))
                        .transpose()
                })),
            }
        }
        drop(tree.verify());
    }
    assert!(
        noticed * 2 > rounds,
        "most damage is noticed by the verifier: {noticed} of {rounds}"
    );
}

trait Chance {
    fn chance(&mut self) -> bool;
}

impl Chance for Rng {
    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }
}

#[test]
fn flipped_bits_do_no_more_than_harm() {
    for config in [BPlusTreeOptions::new().max_entries(4), BPlusTreeOptions::new()] {
        fuzz(&U64Order, &FixedRow::<8>, config, 120);
        fuzz(&ByteOrder, &Columns::new(&[3], 2), config, 120);
        fuzz(&CarelessOrder, &Columns::new(&[2], 1), config, 120);
    }
}

#[test]
fn noise_is_no_tree() {
    let pages = FaultyPages::new(MimicPages::new(PAYLOAD_LEN, 4), []);
    let tree = BPlusTree::create(&pages, U64Order, FixedRow::<8>, BPlusTreeOptions::new()).expect("created");
    for offset in 0..PAYLOAD_LEN {
        pages.damage(tree.root(), offset, 0x5a).expect("damaged");
    }
    let key = U64Order::key(1);
    let row = Row {
        fixed: &key,
        variable: &[],
    };
    assert!(tree.get(&key, 0).is_err());
    assert!(
        tree.insert(Entry {
            key: &key,
            tie: 0,
            row
        })
        .is_err()
    );
    assert!(tree.remove(&key, 0).is_err());
    assert_eq!(tree.verify().expect("a report").problems.len(), 1);
    let again = BPlusTree::open(
        &pages,
        tree.root(),
        U64Order,
        FixedRow::<8>,
        BPlusTreeOptions::new(),
    );
    assert!(again.is_err());
}

#[test]
fn what_fuzzers_found_does_no_harm() {
    go_through_corpus("tree", check_damaged_tree);
    go_through_corpus("be_tree", check_damaged_be_tree);
}
