//! The Bε-tree on every store of this crate.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use bedload_pages::{Error, FaultyPages, HeapPages, MimicPages, PageId, PageRead, PageStore, VacuumStore};
use bedload_testkit::contract::Plan;
use bedload_testkit::{Rng, stride};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, Pressure, Progress};
use bedload_trees::contract::{
    CarelessOrder, NumberedKeys, check_be_tree_crashes, check_be_tree_schedule, check_be_tree_threads,
    small_be_tree,
};
use bedload_trees::{ByteOrder, Entry, FixedRow, I64Order, NoRow, Row, U64Order};

const PAYLOAD_LEN: usize = 1536;

/// Publishes keys and ties that ascend, without rows, as one batch.
pub(crate) fn publish_keys<S: PageStore>(
    tree: &BeTree<U64Order, NoRow, S>,
    entries: impl IntoIterator<Item = (u64, u64)>,
) -> Pressure {
    let mut batch = tree.batch().expect("begun");
    for (key, tie) in entries {
        let (key, row) = (U64Order::key(key), Row::default());
        let entry = Entry { key: &key, tie, row };
        batch.put(entry).expect("ascending");
    }
    batch.publish().expect("published")
}

fn schedule<O: NumberedKeys, S: VacuumStore>(name: &str, order: &O, seed: u64, make: impl Fn() -> S) {
    let plan = Plan {
        seed,
        operations: 60_000,
    };
    let counts = check_be_tree_schedule(order, make, plan, 20_000);
    println!("{name}: {counts}");
    assert!(counts.work.push_downs > 100 && counts.work.merges > 50 && counts.work.splits > 5);
    assert!(counts.bulk_deletes > 5 && counts.deleted > 100 && counts.cursors > 100);
    assert!(counts.height >= 3, "trees grow");
}

#[test]
fn be_tree_schedules_on_heap_pages() {
    let make = || HeapPages::new(PAYLOAD_LEN);
    schedule("u64 on heap pages", &U64Order, 1, make);
    schedule("bytes on heap pages", &ByteOrder, 2, make);
}

#[test]
fn be_tree_schedules_on_mimic_pages() {
    let make = || MimicPages::new(PAYLOAD_LEN, 7);
    schedule("i64 on mimic pages", &I64Order, 3, make);
    schedule("careless keys on mimic pages", &CarelessOrder, 4, make);
}

/// Every commit where time is taken, some of them otherwise.
fn crashes<O: NumberedKeys, S: VacuumStore>(name: &str, order: &O, seed: u64, make: impl Fn() -> S) {
    let is_long = std::env::var_os("BEDLOAD_TEST_OPERATIONS").is_some();
    let skip = if is_long { 1 } else { 7 };
    let counts = check_be_tree_crashes(order, make, seed, 1000, skip);
    println!("{name}, crashing: {counts}");
    assert!(counts.crashes > 50 && counts.work.push_downs > 500);
}

#[test]
fn be_tree_crashes_around_commits_on_heap_pages() {
    crashes("u64 on heap pages", &U64Order, 5, || HeapPages::new(PAYLOAD_LEN));
}

#[test]
fn be_tree_crashes_around_commits_on_mimic_pages() {
    crashes("careless keys on mimic pages", &CarelessOrder, 16, || {
        MimicPages::new(PAYLOAD_LEN, 9)
    });
}

#[test]
fn be_tree_threads_on_heap_pages() {
    check_be_tree_threads(&U64Order, &HeapPages::new(PAYLOAD_LEN), 1);
    check_be_tree_threads(&ByteOrder, &HeapPages::new(PAYLOAD_LEN), 2);
}

#[test]
fn be_tree_threads_on_mimic_pages() {
    for seed in 3..6 {
        check_be_tree_threads(&I64Order, &MimicPages::new(PAYLOAD_LEN, seed), seed);
    }
}

/// A run that is appended to a leaf hides nothing of what is due at the root: neither in a batch
/// whose other runs went there, nor when it comes alone.
#[test]
fn appended_runs_report_the_pressure_of_the_root() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
    publish_keys(&tree, (0..48).map(|key| (key * 100, 0)));
    let mut pressures = Vec::new();
    for round in 1..8 {
        // A run among those that are there, and one after all of them.
        let (late, next) = ((0..48).map(|key| key * 100 + round), 100_000 * round..);
        pressures.push(publish_keys(&tree, late.chain(next.take(8)).map(|key| (key, 0))));
    }
    assert_eq!(tree.levels().expect("sound").pop().expect("a root").runs, 7);
    assert!(pressures.contains(&Pressure::Due), "{pressures:?}");
    assert_eq!(pressures.last(), Some(&Pressure::High), "{pressures:?}");
    let alone = publish_keys(&tree, (1_000_000..1_000_008).map(|key| (key, 0)));
    assert_eq!(alone, Pressure::High);
    while tree.maintainer().work(1000).expect("maintained") == Progress::Paused {}
    let alone = publish_keys(&tree, (2_000_000..2_000_008).map(|key| (key, 0)));
    assert_eq!(alone, Pressure::None);
}

/// A root keeps room for children by the lengths of its pivots, and the rest is for runs. Leaves
/// are cut all the same when they have come down.
#[test]
fn a_root_of_short_keys_has_room_for_many_runs() {
    let pages = HeapPages::new(8144);
    let tree = BeTree::create(&pages, ByteOrder, NoRow, BeTreeOptions::new().shrunk(1024));
    let tree = tree.expect("an empty tree");
    let seal = |numbers: &mut dyn Iterator<Item = u64>| {
        let mut batch = tree.batch().expect("begun");
        for number in numbers {
            let key = format!("{number:014}");
            let (key, row) = (key.as_bytes(), Row::default());
            batch.put(Entry { key, tie: 0, row }).expect("ascending");
        }
        batch.seal().expect("sealed")
    };
    // Some leaves in order.
    let mut some = seal(&mut (0..512).map(|number| number * 1_000_000));
    some.try_publish().expect("published").expect("room");
    let mut round = 0;
    loop {
        round += 1;
        let mut late = seal(&mut (0..32).map(|number| number * 10_000_000 + round));
        if late.try_publish().expect("published").is_none() {
            late.discard().expect("given back");
            break;
        }
    }
    let root = tree.levels().expect("sound").pop().expect("a root");
    assert!(root.runs >= 60, "{root:?}");
    let mut maintainer = tree.maintainer();
    while maintainer.work(1000).expect("maintained") == Progress::Paused {}
    while maintainer.drain(1000).expect("maintained") == Progress::Paused {}
    assert_eq!(maintainer.done().lost, 0);
    let report = tree.verify().expect("sound");
    assert!(report.is_sound(), "{:?}", report.problems);
    assert!(report.leaves >= 12, "{} leaves", report.leaves);
}

/// A tree with several levels and runs everywhere.
fn grown<S: PageStore>(pages: S, seed: u64) -> BeTree<ByteOrder, FixedRow<4>, S> {
    let tree = BeTree::create(pages, ByteOrder, FixedRow, small_be_tree()).expect("an empty tree");
    let mut rng = Rng::new(seed);
    let mut maintainer = tree.maintainer();
    for _ in 0..60 {
        let numbers: BTreeSet<u64> = (0..30).map(|_| rng.below(1000)).collect();
        let mut batch = tree.batch().expect("begun");
        for number in numbers {
            let key = ByteOrder.key_of(number, 0);
            let row = Row {
                fixed: &[1; 4],
                variable: &[],
            };
            batch
                .put(Entry {
                    key: &key,
                    tie: number % 5,
                    row,
                })
                .expect("ascending");
        }
        batch.publish().expect("published");
        while maintainer.work(20).expect("maintained") == Progress::Paused {}
    }
    drop(maintainer);
    tree
}

#[test]
fn damaged_pages_do_no_more_than_harm() {
    for seed in (0..250).step_by(stride()) {
        let pages = FaultyPages::new(HeapPages::new(PAYLOAD_LEN), []);
        let tree = grown(&pages, seed % 8);
        let meta = tree.meta();
        let all: Vec<PageId> = tree.verify().expect("sound").pages.into_iter().collect();
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.index(3) {
            // Nodes more often than pages of runs, and fields more often than what lies behind
            // them.
            let is_node = |page: &PageId| pages.read(*page).is_ok_and(|page| page[0] != 0xD2);
            let nodes: Vec<PageId> = all.iter().copied().filter(is_node).collect();
            let among = if rng.below(3) > 0 { &nodes } else { &all };
            let page = among[rng.index(among.len())];
            let within = [24, 400, PAYLOAD_LEN][rng.index(3)];
            let offset = rng.index(within);
            let mask = if rng.below(3) == 0 {
                0xFF
            } else {
                1 << rng.index(8)
            };
            pages.damage(page, offset, mask).expect("a page");
        }
        let Ok(tree) = BeTree::open(&pages, meta, ByteOrder, FixedRow::<4>, small_be_tree()) else {
            continue;
        };
        let _ = tree.verify();
        for is_back in [false, true] {
            let cursor = if is_back {
                tree.range_back(Bound::Unbounded, Bound::Unbounded)
            } else {
                tree.range(Bound::Unbounded, Bound::Unbounded)
            };
            let mut cursor = cursor.expect("unbounded");
            let mut entries = 0;
            while let Ok(Some(entry)) = cursor.next_entry() {
                let mut fixed = Vec::new();
                entry.fixed_into(&mut fixed);
                entries += 1;
                assert!(entries < 100_000, "a cursor does not end");
            }
        }
        for number in 0..100 {
            let _ = tree.get_with(&ByteOrder.key_of(number, 0), number % 5, |_| ());
        }
        if let Ok(mut delete) = tree.begin_bulk_delete() {
            let mut steps = 0;
            while steps < 2000 && delete.step(&mut |tie| tie == 3).unwrap_or(false) {
                steps += 1;
            }
        }
        let mut maintainer = tree.maintainer();
        for round in 0..20 {
            let mut batch = tree.batch().expect("begun");
            batch.remove(&ByteOrder.key_of(round, 0), 1).expect("the first");
            let _ = batch.publish();
            let _ = maintainer.work(20);
            let _ = maintainer.finish_one();
        }
    }
}

#[test]
fn a_tree_is_opened_as_what_it_is() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
    let meta = tree.meta();
    assert!(BeTree::open(&pages, meta, U64Order, NoRow, small_be_tree()).is_ok());
    let strange = BeTree::open(&pages, meta, ByteOrder, NoRow, small_be_tree());
    assert!(matches!(strange, Err(Error::Shape { .. })));
    let strange = BeTree::open(&pages, meta, U64Order, FixedRow::<2>, small_be_tree());
    assert!(matches!(strange, Err(Error::Shape { .. })));
    let strange = BeTree::open(&pages, meta, U64Order, NoRow, small_be_tree().ties(false));
    assert!(matches!(strange, Err(Error::Shape { .. })));
    let root = PageId::new(meta.get() + 1).expect("a page");
    let strange = BeTree::open(&pages, root, U64Order, NoRow, small_be_tree());
    assert!(matches!(strange, Err(Error::Corrupt { .. })));
    let narrow = BeTree::create(HeapPages::new(512), U64Order, NoRow, small_be_tree());
    assert!(matches!(narrow, Err(Error::EntryTooLarge { .. })));
}

#[test]
fn batches_ascend_also_from_run_to_run_and_keys_leave_room_for_pivots() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, ByteOrder, NoRow, small_be_tree()).expect("an empty tree");
    let mut batch = tree.batch().expect("begun");
    for number in 0..48 {
        batch.remove(&ByteOrder.key_of(number, 0), 0).expect("ascending");
    }
    let again = batch.remove(&ByteOrder.key_of(47, 0), 0);
    assert!(matches!(again, Err(Error::NotAscending { position: 48 })));
    let most = BeTree::<ByteOrder, NoRow, HeapPages>::key_len_max(PAYLOAD_LEN, &ByteOrder, &small_be_tree());
    assert!(matches!(
        batch.remove(&vec![b'x'; most + 1], 0),
        Err(Error::EntryTooLarge { .. })
    ));
    batch.remove(&vec![b'x'; most], 0).expect("fits");
    batch.publish().expect("published");
}

#[test]
fn one_vacuum_at_a_time() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
    let first = tree.begin_bulk_delete().expect("begun");
    assert!(matches!(tree.begin_bulk_delete(), Err(Error::Busy { .. })));
    drop(first);
    assert!(tree.begin_bulk_delete().is_ok());
}

#[test]
fn a_cursor_in_a_retired_run_does_not_bring_back_what_a_vacuum_has_deleted() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
    let put = |keys: std::ops::Range<u64>| {
        publish_keys(&tree, keys.map(|key| (key, key % 2)));
    };
    put(0..40);
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded).expect("unbounded");
    let first = cursor.next_entry().expect("sound").map(|entry| entry.prefix());
    assert_eq!(first, Some(0));
    // The run that the cursor reads is merged with another, and its pages are retired and not yet
    // reclaimed.
    put(0..3);
    let mut maintainer = tree.maintainer();
    while maintainer.drain(100).expect("maintained") == Progress::Paused {}
    assert_eq!(maintainer.done().push_downs, 1);
    tree.bulk_delete(&mut |tie| tie == 1).expect("deleted");
    let mut seen = Vec::new();
    while let Some(entry) = cursor.next_entry().expect("sound") {
        seen.push(entry.prefix());
    }
    // The four entries that were unpacked before, and then only those that are left.
    let expected: Vec<u64> = (1..40).filter(|key| *key < 4 || key % 2 == 0).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_run_of_which_nothing_is_left_goes() {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
    let empty = tree.verify().expect("sound").pages.len();
    for keys in [10..50_u64, 0..30] {
        publish_keys(&tree, keys.map(|key| (key, 7)));
    }
    assert_eq!(tree.verify().expect("sound").entries, 70);
    assert_eq!(tree.bulk_delete(&mut |tie| tie == 7).expect("deleted"), 70);
    assert_eq!(tree.verify().expect("sound").pages.len(), empty);
    pages.reclaim().expect("reclaimed");
    assert_eq!(pages.live_pages(), empty);
}

/// A vacuum leaves the rightmost leaf empty: what lies below its pivot does not belong there,
/// though it lies above all that is left.
#[test]
fn what_lies_below_an_empty_rightmost_leaf_goes_elsewhere() {
    let pages = HeapPages::new(8192);
    let config = BeTreeOptions::new().leaf_entries(100).max_entries(20);
    let tree = BeTree::create(&pages, U64Order, NoRow, config).expect("an empty tree");
    let insert = |numbers: std::ops::Range<u64>| {
        publish_keys(&tree, numbers.map(|number| (number, number)));
    };
    insert(0..100);
    insert(100..200);
    insert(200..300);
    for delete_from in [250, 150, 120] {
        tree.bulk_delete(&mut |tie| tie >= delete_from).expect("deleted");
        insert(delete_from..280);
        let report = tree.verify().expect("sound pages");
        assert!(report.is_sound(), "{:?}", report.problems);
        let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded).expect("begun");
        for number in 0..280 {
            let found = cursor.next_entry().expect("sound").map(|entry| entry.tie());
            assert_eq!(found, Some(number), "deleted from {delete_from} on");
        }
        assert!(cursor.next_entry().expect("sound").is_none());
    }
}

/// A run is about to be appended with a leaf of its own, when another with greater entries comes to
/// the root: the one that is published last counts.
#[test]
fn what_comes_to_the_root_meanwhile_is_not_appended_below() {
    let pages = Arc::new(FaultyPages::new(HeapPages::new(8192), []));
    let config = BeTreeOptions::new().leaf_entries(100).max_entries(20);
    let tree = BeTree::create(pages.clone(), U64Order, FixedRow::<1>, config).expect("an empty tree");
    let tree = Arc::new(tree);
    let publish = |tree: &BeTree<U64Order, FixedRow<1>, _>, numbers: &[u64], writer: u8| {
        let mut batch = tree.batch().expect("begun");
        for &number in numbers {
            let (key, fixed) = (U64Order::key(number), [writer]);
            let row = Row {
                fixed: &fixed,
                variable: &[],
            };
            let entry = Entry {
                key: &key,
                tie: 0,
                row,
            };
            batch.put(entry).expect("ascending");
        }
        batch.publish().expect("published");
    };
    publish(&tree, &(0..100).collect::<Vec<_>>(), 1);
    let other = tree.clone();
    pages.during_next_reserve(move || publish(&other, &[50, 150], 2));
    publish(&tree, &(100..200).collect::<Vec<_>>(), 3);
    let writer_of = |number: u64| {
        let found = tree.get_with(&U64Order::key(number), 0, |entry| {
            let mut fixed = Vec::new();
            entry.fixed_into(&mut fixed);
            fixed.first().copied()
        });
        found.expect("sound pages").flatten()
    };
    assert_eq!(
        [0, 50, 100, 150].map(writer_of),
        [Some(1), Some(2), Some(3), Some(3)]
    );
    let report = tree.verify().expect("sound pages");
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// A full parent is drained before it splits, and what it pushes down meanwhile may make its
/// children too many in turn, for whose halves it has no room.
fn nodes_without_room_for_halves<O: NumberedKeys>(order: &O, key: impl Fn(u64) -> Vec<u8>) {
    let options = BeTreeOptions::new()
        .shrunk(8192)
        .max_entries(8)
        .fan_out(3)
        .runs(4);
    let tree = BeTree::create(HeapPages::new(PAYLOAD_LEN), order.clone(), NoRow, options);
    let tree = tree.expect("an empty tree");
    let mut rng = Rng::new(1);
    let mut numbers = BTreeSet::new();
    for _ in 0..600 {
        let added: BTreeSet<u64> = (0..64).map(|_| rng.below(1 << 24)).collect();
        let mut batch = tree.batch().expect("begun");
        for &number in &added {
            let (key, row) = (key(number), Row::default());
            let entry = Entry {
                key: &key,
                tie: 0,
                row,
            };
            batch.put(entry).expect("ascending");
        }
        batch
            .publish()
            .expect("the root has room, or what is due makes some");
        let progress = tree.maintainer().work(u64::MAX).expect("maintained");
        assert_eq!(progress, Progress::Idle, "nobody else is busy");
        numbers.extend(added);
    }
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded).expect("unbounded");
    let (mut read, mut scratch) = (Vec::new(), Vec::new());
    while cursor
        .next_entries(1000, |entry| read.push(entry.key(&mut scratch).to_vec()))
        .expect("sound")
        > 0
    {}
    assert!(
        read.into_iter().eq(numbers.into_iter().map(key)),
        "all of them in order"
    );
    let report = tree.verify().expect("sound");
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn maintenance_goes_on_where_a_parent_has_no_room_for_another_child() {
    nodes_without_room_for_halves(&U64Order, |number| U64Order::key(number).to_vec());
    nodes_without_room_for_halves(&ByteOrder, |number| {
        let mut key = vec![b'k'; 17];
        key.extend(number.to_be_bytes());
        key
    });
}
