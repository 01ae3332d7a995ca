//! The suite of the testkit over the in-memory indexes, with nodes of full size.

use bedload_index::mem::contract::Subject;
use bedload_index::mem::{BlinkTree, Key};
use bedload_testkit::contract::{
    ByteKeys, I64Keys, Keys, OneThread, Plan, U64Keys, check, check_ascending_writers,
    check_disjoint_writers, check_histories, check_ranges_over_writers, check_shrinking,
};

const PLAN: Plan = Plan {
    seed: 0x6d65_6d00,
    operations: 100_000,
};

fn blink_tree<K: Keys<Key: Key> + Default>() {
    let make = || Subject(BlinkTree::new(), K::default());
    check(|| OneThread(make()), PLAN);
    check_shrinking(
        || OneThread(make()),
        Plan {
            operations: 10_000,
            ..PLAN
        },
    );
    check_disjoint_writers(make, 4, PLAN);
    check_ascending_writers(make, 4, PLAN);
    check_ranges_over_writers(make, 3, 2, PLAN);
    check_histories(make, 8, PLAN);
}

#[test]
fn blink_tree_of_u64() {
    blink_tree::<U64Keys>();
}

#[test]
fn blink_tree_of_i64() {
    blink_tree::<I64Keys>();
}

#[test]
fn blink_tree_of_byte_strings() {
    blink_tree::<ByteKeys<5>>();
    blink_tree::<ByteKeys<32>>();
}
