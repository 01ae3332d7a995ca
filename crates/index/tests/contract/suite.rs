//! The suite of the testkit over the B+-tree: every order, on every store.

use bedload_index::paged::HeapPages;
use bedload_index::paged::bplus_tree::Config;
use bedload_index::paged::contract::{OrderedKeys, TieKeys, TreeIndex};
use bedload_testkit::contract::{ByteKeys, I64Keys, OneThread, Plan, U64Keys, check, check_shrinking, check_disjoint_writers, check_ascending_writers, check_ranges_over_writers, check_histories};

const PLAN: Plan = Plan {
    seed: 0x5eed,
    operations: 100_000,
};

fn tiny() -> Config {
    Config::new().max_entries(4)
}

fn all<K: OrderedKeys + Default>() {
    for config in [tiny(), Config::new()] {
        let make = || TreeIndex::create(HeapPages::new(512), K::default(), config).unwrap();
        check(|| OneThread(make()), PLAN);
        check_shrinking(|| OneThread(make()), Plan { operations: 10_000, ..PLAN });
        check_disjoint_writers(make, 4, PLAN);
        check_ascending_writers(make, 4, PLAN);
        check_ranges_over_writers(make, 3, 2, PLAN);
        check_histories(make, 4, PLAN);
    }
}

#[test]
fn u64_keys() {
    all::<U64Keys>();
}

#[test]
fn i64_keys() {
    all::<I64Keys>();
}

#[test]
fn byte_keys() {
    all::<ByteKeys<17>>();
}

#[test]
fn ties() {
    all::<TieKeys>();
}
