//! Trees on pages that do not hold what was written: errors or wrong answers, never a panic, never
//! a hang.

use std::ops::Bound;

use bedload_pages::{Fault, FaultyPages, HeapPages, MimicPages, PageId, PageRead};
use bedload_testkit::{Rng, go_through_corpus};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{
    ByteOrder, Columns, Entry, FixedRow, KeyOrder, NoRow, Position, Row, RowLayout, U64Order,
};

use crate::model::{Supply, borrowed, row};
use bedload_trees::Entries;
use bedload_trees::be_tree::{BeTree, Progress};
use bedload_trees::bplus_tree::OwnedEntry;
use bedload_trees::contract::{CarelessOrder, check_damaged_be_tree, check_damaged_tree, small_be_tree};
use bedload_trees::run::{RunBuilder, RunOptions, RunReader};

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

type RunTree<'p, O> = BeTree<O, NoRow, &'p FaultyPages<HeapPages>>;

/// A tree whose runs have filters and nodes above their leaves.
fn tree_of_runs<'p, O: Supply>(pages: &'p FaultyPages<HeapPages>, order: &O, keys: u64) -> RunTree<'p, O> {
    let options = small_be_tree().filter_bits(10);
    let tree = BeTree::create(pages, order.clone(), NoRow, options).expect("an empty tree");
    for round in 0..4 {
        let mut of_round: Vec<Vec<u8>> = (round..keys).step_by(4).map(|key| order.key(key, 0)).collect();
        of_round.sort_by(|a, b| order.compare(a, b));
        let mut batch = tree.batch().expect("begun");
        for (tie, key) in (0..).zip(&of_round) {
            let row = Row::default();
            batch.put(Entry { key, tie, row }).expect("ascending");
        }
        batch.publish().expect("published");
    }
    while tree.maintainer().work(1000).expect("maintained") == Progress::Paused {}
    tree
}

/// The entries that a scan gives, unless it fails.
fn scanned<O: Supply>(tree: &RunTree<'_, O>) -> Option<Vec<(Vec<u8>, u64)>> {
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded).ok()?;
    let (mut entries, mut scratch) = (Vec::new(), Vec::new());
    while let Some(entry) = cursor.next_entry().ok()? {
        entries.push((entry.key(&mut scratch).to_vec(), entry.tie()));
    }
    Some(entries)
}

fn hidden_keys_are_noticed<O: Supply>(order: &O, seed: u64) {
    let pages = FaultyPages::new(HeapPages::new(1536), []);
    let tree = tree_of_runs(&pages, order, 600);
    let (whole, mut rng) = (scanned(&tree).expect("sound"), Rng::new(seed));
    let (mut noticed, mut unseen_by_scans) = (0, 0);
    for page in tree.verify().expect("sound").pages {
        let [low, high, level] = *pages
            .read(page)
            .expect("it is there")
            .first_chunk()
            .expect("a header");
        let flips = match (u16::from_le_bytes([low, high]), level) {
            (0xBED2, _) | (0xBED4, _) => 40,
            _ => 0,
        };
        for _ in 0..flips {
            let (offset, mask) = (rng.index(1536), 1 << rng.index(8));
            pages.damage(page, offset, mask).expect("damaged");
            if !tree.verify().expect("a report").is_sound() {
                noticed += 1;
                unseen_by_scans += u64::from(scanned(&tree).as_ref() == Some(&whole));
            } else if scanned(&tree).as_ref() == Some(&whole) {
                for (key, tie) in &whole {
                    let found = tree.get_with(key, *tie, |_| ()).expect("a sound tree");
                    assert!(found.is_some(), "{key:?} is lost by byte {offset} of page {page}");
                }
            }
            pages.damage(page, offset, mask).expect("repaired");
        }
    }
    assert!(
        noticed > 50 && unseen_by_scans > 10,
        "{noticed}, {unseen_by_scans}"
    );
}

/// Damage that hides a key from lookups alone is found, too.
#[test]
fn keys_that_searches_miss_are_noticed() {
    hidden_keys_are_noticed(&U64Order, 1);
    hidden_keys_are_noticed(&ByteOrder, 2);
}

#[test]
fn a_page_that_cannot_be_read_hides_no_other_problem() {
    let pages = FaultyPages::new(HeapPages::new(1536), []);
    let tree = tree_of_runs(&pages, &U64Order, 600);
    let options = small_be_tree().filter_bits(10);
    let (meta, sound) = (tree.meta(), tree.verify().expect("sound"));
    let reads = pages.calls().reads;
    assert!(tree.verify().expect("sound").is_sound());
    let reads = pages.calls().reads - reads;
    let mut pages = pages.recover();
    for read in 1..reads {
        let faulty = FaultyPages::new(pages, [Fault::Read(read)]);
        if let Ok(tree) = BeTree::open(&faulty, meta, U64Order, NoRow, options) {
            let report = tree.verify().expect("a report, whatever cannot be read");
            let problems = report.problems.len();
            assert!(problems <= 1, "one read failed: {:?}", report.problems);
            assert!(
                problems == 1 || report.pages == sound.pages,
                "it was opened by that read"
            );
        }
        pages = faulty.recover();
    }
}

#[test]
fn a_cursor_of_a_run_goes_on_after_a_failed_read() {
    let config = RunOptions::new();
    let heap = HeapPages::new(256);
    let mut builder = RunBuilder::new(&heap, U64Order, NoRow, config).expect("begun");
    for number in 0..4000_u64 {
        let (key, tie, row) = (U64Order::key(number * number), number, Row::default());
        builder.push(Entry { key: &key, tie, row }).expect("pushed");
    }
    let run = builder.finish().expect("written").expect("it has entries");
    assert!(run.height > 2);
    let mut pages = heap;
    for read in 1..u64::from(run.pages) {
        let faulty = FaultyPages::new(pages, [Fault::Read(read)]);
        for is_descending in [false, true] {
            let reader = RunReader::new(&faulty, U64Order, NoRow, config, run);
            let cursor = if is_descending {
                reader.range_back(Bound::Unbounded, Bound::Unbounded)
            } else {
                reader.range(Bound::Unbounded, Bound::Unbounded)
            };
            let (mut cursor, mut ties) = (cursor.expect("a range"), Vec::new());
            loop {
                match cursor.next_entry() {
                    Ok(Some(entry)) => ties.push(entry.tie()),
                    Ok(None) => break,
                    Err(_) => assert!(!is_descending, "the planned read failed before"),
                }
            }
            if is_descending {
                ties.reverse();
            }
            assert!(ties.into_iter().eq(0..4000), "read {read} failed");
        }
        pages = faulty.recover();
    }
}

#[test]
fn what_fuzzers_found_does_no_harm() {
    go_through_corpus("tree", check_damaged_tree);
    go_through_corpus("be_tree", check_damaged_be_tree);
}
