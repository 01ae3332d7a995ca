//! The B+-tree when the store stops, or fails, at any point.

use std::collections::BTreeSet;
use std::ops::Bound;

use bedload_pages::{Error, Fault, FaultyPages, HeapPages, MimicPages, PageStore};
use bedload_testkit::{Rng, stride};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions, OwnedEntry};
use bedload_trees::{Columns, FixedRow, KeyOrder, RowLayout, U64Order};

use crate::model::{Checked, Operation, Oracle, Supply};
use bedload_trees::contract::CarelessOrder;

const NUMBERS: u64 = 60;
const OPERATIONS: usize = 120;

fn config() -> BPlusTreeOptions {
    BPlusTreeOptions::new().max_entries(4)
}

/// Inserts first, then everything, then removals: trees grow, change and shrink within few
/// operations.
fn operations(seed: u64, count: usize) -> Vec<Operation> {
    let mut rng = Rng::new(seed);
    let kinds: [&[u8]; 3] = [&[0, 0, 0, 11], &[0, 5, 11, 12], &[5, 5, 5, 12]];
    (0..count)
        .map(|number| {
            let kinds = kinds[number * kinds.len() / count];
            (
                kinds[rng.index(kinds.len())],
                rng.below(NUMBERS * 2),
                rng.below(NUMBERS * 2),
            )
        })
        .collect()
}

fn checked<O: Supply, L: RowLayout, S: PageStore>(tree: BPlusTree<O, L, S>) -> Checked<O, L, S> {
    Checked {
        tree,
        oracle: Oracle::new(),
        numbers: NUMBERS,
        ties: 2,
    }
}

fn contents<O: KeyOrder, L: RowLayout, S: PageStore>(tree: &BPlusTree<O, L, S>) -> Vec<OwnedEntry> {
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded).expect("a cursor");
    let mut entries = Vec::new();
    while let Some(entry) = cursor.next_entry().expect("an entry") {
        entries.push(entry.to_owned_entry());
    }
    entries
}

/// Every entry is as it was before the operation in flight, or as it should be behind it.
fn is_between<O: Supply>(order: &O, found: &[OwnedEntry], before: &Oracle, after: &Oracle) -> bool {
    let id = |entry: &OwnedEntry| (order.canonical(&entry.key), entry.tie);
    let ids: BTreeSet<_> = found.iter().map(id).collect();
    let is_known = |entry: &OwnedEntry| {
        [before, after]
            .iter()
            .any(|oracle| oracle.get(&id(entry)) == Some(entry))
    };
    let kept = before.keys().filter(|id| after.contains_key(*id));
    ids.len() == found.len() && found.iter().all(is_known) && kept.into_iter().all(|id| ids.contains(id))
}

/// Runs the operations over a store with one fault planned; returns whether the fault came about.
fn crash<O: Supply, L: RowLayout, S: PageStore>(
    order: &O,
    layout: &L,
    store: S,
    fault: Fault,
    seed: u64,
) -> bool {
    let shadow = BPlusTree::create(HeapPages::new(512), order.clone(), layout.clone(), config());
    let mut shadow = checked(shadow.expect("created"));
    let root = BPlusTree::create(&store, order.clone(), layout.clone(), config())
        .expect("created")
        .root();
    let pages = FaultyPages::new(store, [fault]);
    let open = BPlusTree::open(&pages, root, order.clone(), layout.clone(), config());
    let mut under_fault = checked(open.expect("opened"));
    let mut before = Oracle::new();
    for operation in operations(seed, OPERATIONS) {
        before.clone_from(&shadow.oracle);
        shadow.apply(operation).expect("no fault here");
        let outcome = under_fault.apply(operation);
        if pages.has_crashed() {
            break;
        }
        outcome.expect("applied before the crash");
    }
    let has_crashed = pages.has_crashed();
    drop(under_fault);
    let store = pages.recover();
    let tree = BPlusTree::open(&store, root, order.clone(), layout.clone(), config()).expect("opened again");
    let report = tree.verify().expect("verified");
    assert!(report.is_sound(), "{fault:?}: {:?}", report.problems);
    assert!(
        report.pending_splits <= 3,
        "{fault:?}: one operation leaves no more"
    );
    let found = contents(&tree);
    assert!(
        is_between(order, &found, &before, &shadow.oracle),
        "{fault:?}: {found:?}"
    );
    store.sweep(&|page| report.pages.contains(&page)).expect("swept");
    // Life goes on, and completes what was left pending.
    let mut after = checked(tree);
    for entry in found {
        after
            .oracle
            .insert((order.canonical(&entry.key), entry.tie), entry);
    }
    for number in 0..NUMBERS * 2 {
        after.apply((0, number, seed)).expect("inserted");
    }
    after.check().unwrap_or_else(|what| panic!("{fault:?}: {what}"));
    has_crashed
}

fn crash_everywhere<O: Supply, L: RowLayout, S: PageStore>(order: &O, layout: &L, store: impl Fn() -> S) {
    for (seed, fault) in [
        (1, Fault::CrashBeforeCommit as fn(u64) -> Fault),
        (2, Fault::CrashAfterCommit),
    ] {
        let reached = (1..)
            .step_by(stride())
            .take_while(|&commit| crash(order, layout, store(), fault(commit), seed))
            .count();
        assert!(
            reached * stride() > OPERATIONS,
            "commits of the whole run were hit: {reached}"
        );
    }
}

#[test]
fn crashes_around_every_commit_on_heap_pages() {
    crash_everywhere(&U64Order, &FixedRow::<8>, || HeapPages::new(512));
}

#[test]
fn crashes_around_every_commit_on_mimic_pages() {
    crash_everywhere(&CarelessOrder, &Columns::new(&[1], 1), || {
        MimicPages::new(512, 11)
    });
}

/// An operation that fails has changed nothing, or, if it works leaf by leaf, whole leaves.
fn fail_everywhere(fault: fn(u64) -> Fault) {
    for call in (1..).step_by(stride()) {
        let pages = FaultyPages::new(MimicPages::new(512, call), [fault(call)]);
        let Ok(tree) = BPlusTree::create(&pages, CarelessOrder, Columns::new(&[1], 1), config()) else {
            continue;
        };
        let shadow = BPlusTree::create(
            HeapPages::new(512),
            CarelessOrder,
            Columns::new(&[1], 1),
            config(),
        );
        let (mut under_fault, mut shadow) = (checked(tree), checked(shadow.expect("created")));
        let mut has_failed = false;
        for operation in operations(3, OPERATIONS / 2) {
            let before = shadow.oracle.clone();
            shadow.apply(operation).expect("no fault here");
            if let Err(what) = under_fault.apply(operation) {
                assert!(what.contains("as planned"), "{what}");
                has_failed = true;
                let found = contents(&under_fault.tree);
                assert!(
                    is_between(&CarelessOrder, &found, &before, &shadow.oracle),
                    "call {call}"
                );
                if matches!(operation.0, 0 | 5) {
                    assert!(
                        found.iter().eq(before.values()),
                        "call {call} changed something and failed"
                    );
                }
                break;
            }
        }
        let calls = pages.calls();
        let made = match fault(1) {
            Fault::Read(_) => calls.reads,
            Fault::Batch(_) => calls.latches,
            _ => calls.reserves,
        };
        if made < call {
            assert!(!has_failed);
            return;
        }
        let report = under_fault.tree.verify().expect("verified");
        assert!(report.is_sound(), "call {call}: {:?}", report.problems);
        let leaked = pages.sweep(&|page| report.pages.contains(&page)).expect("swept");
        assert_eq!(leaked, [], "call {call} lost a page");
    }
}

#[test]
fn every_read_may_fail() {
    fail_everywhere(Fault::Read);
}

#[test]
fn every_batch_may_fail() {
    fail_everywhere(Fault::Batch);
}

#[test]
fn every_reservation_may_fail() {
    fail_everywhere(Fault::Reserve);
}

/// A source that fails after so many entries.
struct ThenFails {
    left: u64,
    key: [u8; 8],
}

impl bedload_trees::EntrySource for ThenFails {
    fn next_entry(&mut self) -> bedload_pages::Result<Option<bedload_trees::Entry<'_>>> {
        if self.left == 0 {
            return Err(Error::store(std::io::Error::other("the source dried up")));
        }
        self.left -= 1;
        self.key = U64Order::key(5000 - self.left);
        Ok(Some(bedload_trees::Entry {
            key: &self.key,
            tie: 0,
            row: bedload_trees::Row {
                fixed: &self.key,
                variable: &[],
            },
        }))
    }
}

#[test]
fn sorted_entries_before_a_failure_are_inserted() {
    let pages = HeapPages::new(512);
    let tree = BPlusTree::create(&pages, U64Order, FixedRow::<8>, config()).expect("created");
    let source = &mut ThenFails {
        left: 1000,
        key: [0; 8],
    };
    assert!(matches!(tree.insert_sorted(source), Err(Error::Store(_))));
    assert_eq!(tree.verify().expect("verified").entries, 1000);
    let descending = [
        U64Order::key(10_001),
        U64Order::key(10_003),
        U64Order::key(10_002),
    ];
    let mut source = bedload_trees::Entries::new(descending.iter().map(|key| bedload_trees::Entry {
        key,
        tie: 0,
        row: bedload_trees::Row {
            fixed: key,
            variable: &[],
        },
    }));
    assert!(matches!(
        tree.insert_sorted(&mut source),
        Err(Error::NotAscending { position: 2 })
    ));
    assert_eq!(tree.verify().expect("verified").entries, 1002);
}
