//! The Bε-tree on every store of this crate.

use bedload_index::paged::contract::{
    CarelessOrder, NumberedKeys, check_be_tree_crashes, check_be_tree_schedule,
};
use bedload_index::paged::{ByteOrder, HeapPages, I64Order, MimicPages, U64Order, VacuumStore};
use bedload_testkit::contract::Plan;

const PAYLOAD_LEN: usize = 1536;

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
    crashes("careless keys on mimic pages", &CarelessOrder, 6, || {
        MimicPages::new(PAYLOAD_LEN, 9)
    });
}
