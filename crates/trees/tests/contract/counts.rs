//! Counts calls of the page store for each operation.

use std::ops::Bound;

use bedload_pages::{Calls, Error, FaultyPages, HeapPages};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{Entries, Entry, FixedRow, KeyOrder, Position, Row, U64Order};

use super::removal::remove_between;

type Pages = FaultyPages<HeapPages>;
type Tree<'s> = BPlusTree<U64Order, FixedRow<8>, &'s Pages>;

const N: u64 = 20_000;

fn pages() -> Pages {
    FaultyPages::new(HeapPages::new(1024), [])
}

fn tree(pages: &Pages) -> Tree<'_> {
    BPlusTree::create(pages, U64Order, FixedRow, BPlusTreeOptions::new().ties(false)).expect("created")
}

fn entry(key: &[u8; 8]) -> Entry<'_> {
    Entry {
        key,
        tie: 0,
        row: Row {
            fixed: key,
            variable: &[],
        },
    }
}

/// The calls that `work` makes.
fn calls(pages: &Pages, work: impl FnOnce()) -> Calls {
    let before = pages.calls();
    work();
    let after = pages.calls();
    Calls {
        reads: after.reads - before.reads,
        latches: after.latches - before.latches,
        commits: after.commits - before.commits,
        reserves: after.reserves - before.reserves,
    }
}

fn keys(step: usize) -> Vec<[u8; 8]> {
    (0..N).step_by(step).map(U64Order::key).collect()
}

fn fill(tree: &Tree<'_>) -> u64 {
    let report = tree.verify().expect("verified");
    assert!(report.is_sound());
    report.leaf_bytes_used * 100 / report.leaf_bytes
}

#[test]
fn ascending_inserts_need_no_descent() {
    let pages = pages();
    let tree = tree(&pages);
    let calls = calls(&pages, || {
        for key in keys(1) {
            tree.insert(entry(&key)).expect("inserted");
        }
    });
    let leaves = tree.verify().expect("verified").leaves as u64;
    assert!(calls.reads < 8 * leaves, "{calls:?}, {leaves} leaves");
    assert!(calls.commits < N + 3 * leaves, "{calls:?}, {leaves} leaves");
    assert!(fill(&tree) >= 92, "{}", fill(&tree));
}

#[test]
fn ascending_runs_are_packed() {
    let pages = pages();
    let tree = tree(&pages);
    let keys = keys(1);
    let calls = calls(&pages, || {
        tree.insert_sorted(&mut Entries::new(keys.iter().map(entry)))
            .expect("inserted");
    });
    let leaves = tree.verify().expect("verified").leaves as u64;
    // A leaf costs its pivot and its share of the batch that packs three of them.
    assert!(calls.commits < 3 * leaves / 2 + 10, "{calls:?}, {leaves} leaves");
    assert!(fill(&tree) >= 92, "{}", fill(&tree));
}

#[test]
fn a_sorted_run_touches_each_leaf_once() {
    let pages = pages();
    let tree = tree(&pages);
    let even = keys(2);
    tree.insert_sorted(&mut Entries::new(even.iter().map(entry)))
        .expect("inserted");
    let leaves = tree.verify().expect("verified").leaves as u64;
    let again = calls(&pages, || {
        tree.insert_sorted(&mut Entries::new(even.iter().map(entry)))
            .expect("inserted");
    });
    assert!(
        again.commits <= leaves + leaves / 50 + 2,
        "{again:?}, {leaves} leaves"
    );
    let few: Vec<_> = even.iter().step_by(500).collect();
    let few_calls = calls(&pages, || {
        tree.insert_sorted(&mut Entries::new(few.iter().map(|key| entry(key))))
            .expect("inserted");
    });
    assert_eq!(few_calls.commits, few.len() as u64, "{few_calls:?}");
}

#[test]
fn removing_an_entry_touches_its_leaf_and_now_and_then_merges_it() {
    let pages = pages();
    let tree = tree(&pages);
    let keys = keys(1);
    tree.insert_sorted(&mut Entries::new(keys.iter().map(entry)))
        .expect("inserted");
    let report = tree.verify().expect("verified");
    let calls = calls(&pages, || {
        for key in N / 2..N / 2 + N / 10 {
            assert!(tree.remove(&U64Order::key(key), 0).expect("removed"));
        }
    });
    let touched = report.leaves as u64 / 10 + 2;
    assert!(
        calls.commits <= N / 10 + 3 * touched,
        "{calls:?}, {touched} leaves of {}",
        report.leaves
    );
}

#[test]
fn lookups_read_a_page_a_level() {
    let pages = pages();
    let tree = tree(&pages);
    let keys = keys(1);
    tree.insert_sorted(&mut Entries::new(keys.iter().map(entry)))
        .expect("inserted");
    let height = tree.verify().expect("verified").height as u64;
    for key in keys.iter().step_by(997) {
        let calls = calls(&pages, || assert!(tree.get(key, 0).expect("read").is_some()));
        assert_eq!((calls.reads, calls.latches), (height, 0));
    }
}

/// An order that allows no comparison: whoever asks it panics.
#[derive(Clone)]
struct Incomparable;

impl KeyOrder for Incomparable {
    fn compare(&self, _: &[u8], _: &[u8]) -> std::cmp::Ordering {
        panic!("a key was compared whose prefix says all")
    }

    fn prefix(&self, key: &[u8]) -> u64 {
        U64Order.prefix(key)
    }

    fn prefix_is_exact(&self) -> bool {
        true
    }

    fn key_of_prefix(&self, prefix: u64, key: &mut Vec<u8>) {
        U64Order.key_of_prefix(prefix, key);
    }

    fn hash(&self, _: &[u8]) -> Option<u64> {
        None
    }
}

#[test]
fn exact_prefixes_are_never_compared() {
    let tree = BPlusTree::create(
        HeapPages::new(256),
        Incomparable,
        FixedRow::<8>,
        BPlusTreeOptions::new().max_entries(4),
    );
    let tree = tree.expect("created");
    for key in keys(100) {
        tree.insert(entry(&key)).expect("inserted");
        tree.insert(entry(&key)).expect("replaced");
    }
    let (from, to) = (U64Order::key(50), U64Order::key(5000));
    let (from, to) = (Position::of_key(&from), Position::of_key(&to));
    let removed = remove_between(&tree, Bound::Included(from), Bound::Included(to), |_| true);
    assert_eq!(removed.expect("removed").len(), 50);
    assert!(
        tree.first()
            .expect("read")
            .is_some_and(|entry| entry.key == U64Order::key(0))
    );
    assert!(tree.last().expect("read").is_some());
    assert!(tree.verify().expect("verified").is_sound());
}

#[test]
fn what_does_not_fit_is_refused() {
    use bedload_trees::{ByteOrder, Columns, NoRow};
    let tree = BPlusTree::create(
        HeapPages::new(512),
        ByteOrder,
        Columns::new(&[2], 1),
        BPlusTreeOptions::new().ties(false),
    );
    let tree = tree.expect("created");
    let row = Row {
        fixed: &[1, 2],
        variable: &[b"value"],
    };
    let long = [b'k'; 400];
    let entry = |key, tie, row| Entry { key, tie, row };
    let limit = match tree.insert(entry(&long, 0, row)) {
        Err(Error::EntryTooLarge {
            len_bytes,
            limit_bytes,
        }) => {
            assert!(len_bytes > 400);
            limit_bytes
        }
        other => panic!("{other:?}"),
    };
    assert!(
        tree.insert(entry(&long[..limit - 40], 0, row)).is_ok(),
        "up to {limit} bytes fit"
    );
    assert!(
        matches!(tree.insert(entry(b"k", 1, row)), Err(Error::Shape { .. })),
        "no ties are kept"
    );
    let narrow = Row { fixed: &[1], ..row };
    assert!(matches!(
        tree.insert(entry(b"k", 0, narrow)),
        Err(Error::Shape { .. })
    ));
    let bare = Row { variable: &[], ..row };
    assert!(matches!(
        tree.insert(entry(b"k", 0, bare)),
        Err(Error::Shape { .. })
    ));
    assert_eq!(tree.verify().expect("verified").entries, 1);
    let tree =
        BPlusTree::create(HeapPages::new(512), U64Order, NoRow, BPlusTreeOptions::new()).expect("created");
    let bare = Row::default();
    assert!(matches!(
        tree.insert(entry(b"short", 0, bare)),
        Err(Error::KeyWidth { len_bytes: 5, .. })
    ));
    assert!(matches!(tree.get(b"short", 0), Err(Error::KeyWidth { .. })));
    let wide = BPlusTree::create(
        HeapPages::new(256),
        U64Order,
        FixedRow::<100>,
        BPlusTreeOptions::new(),
    );
    assert!(
        matches!(wide, Err(Error::EntryTooLarge { .. })),
        "not four rows fit on a page"
    );
}

#[test]
fn work_within_a_leaf_allocates_nothing() {
    let tree = BPlusTree::create(
        HeapPages::new(1024),
        U64Order,
        FixedRow::<8>,
        BPlusTreeOptions::new().ties(false),
    );
    let tree = tree.expect("created");
    for key in keys(2) {
        tree.insert(entry(&key)).expect("inserted");
    }
    let probes: Vec<[u8; 8]> = keys(2).into_iter().step_by(501).collect();
    let allocations = allocation_counter::measure(|| {
        for key in &probes {
            tree.insert(entry(key)).expect("replaced");
            let is_same = tree
                .get_with(key, 0, |entry| entry.fixed(0) == key)
                .expect("read");
            assert_eq!(is_same, Some(true));
            assert!(tree.remove(key, 0).expect("removed"));
            tree.insert(entry(key)).expect("inserted in the gap");
        }
    });
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
}

/// Where splits leave least on the side that gets no more, a level must still have fewer nodes than
/// the one below it.
#[test]
fn one_sided_splits_do_not_make_trees_high() {
    for (percent, is_ascending) in [(90, false), (10, true)] {
        let config = BPlusTreeOptions::new().max_entries(4).split_percent(percent);
        let tree = BPlusTree::create(HeapPages::new(512), U64Order, FixedRow::<8>, config).expect("created");
        for number in 0..5_000_u64 {
            // Not at the right edge, where leaves are filled before they are split.
            let number = if is_ascending { number } else { 5_000 - number };
            let key = U64Order::key(number);
            if number == 0 {
                tree.insert(entry(&U64Order::key(u64::MAX))).expect("inserted");
            }
            tree.insert(entry(&key)).expect("inserted");
        }
        let report = tree.verify().expect("read");
        assert!(report.is_sound(), "{report:?}");
        // log₂ of the leaves, of which there are at most as many as entries.
        assert!(report.height <= 14, "{} levels", report.height);
    }
}
