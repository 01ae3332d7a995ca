//! The suite of the testkit over the in-memory indexes, with nodes of full size.

use bedload_memory::contract::Subject;
use bedload_memory::{BlinkHash, BlinkHashOptions, BlinkTree, Key, SbTree, SbTreeOptions, SharedMap};
use bedload_testkit::contract::{
    ByteKeys, I64Keys, Keys, OneThread, Plan, U64Keys, check, check_ascending_writers,
    check_disjoint_writers, check_histories, check_ranges_over_writers, check_shrinking,
};

const PLAN: Plan = Plan {
    seed: 0x6d65_6d00,
    operations: 100_000,
};

fn suite<K, M>(new: impl Fn() -> M)
where
    K: Keys<Key: Key> + Default,
    M: SharedMap<K::Key>,
{
    let make = || Subject(new(), K::default());
    check(|| OneThread(make()), PLAN);
    let fewer = Plan {
        operations: 10_000,
        ..PLAN
    };
    check_shrinking(|| OneThread(make()), fewer);
    check_disjoint_writers(make, 4, PLAN);
    check_ascending_writers(make, 4, PLAN);
    check_ranges_over_writers(make, 3, 2, PLAN);
    check_histories(make, 8, PLAN);
}

/// Leaves small enough to split within a test.
fn blink_hash<K: Key>() -> BlinkHash<K> {
    BlinkHash::with_options(BlinkHashOptions::new().node_bytes(16 << 10))
}

#[test]
fn blink_tree_of_integers() {
    suite::<U64Keys, _>(BlinkTree::new);
    suite::<I64Keys, _>(BlinkTree::new);
}

#[test]
fn blink_tree_of_byte_strings() {
    suite::<ByteKeys<5>, _>(BlinkTree::new);
    suite::<ByteKeys<32>, _>(BlinkTree::new);
}

#[test]
fn blink_hash_of_integers() {
    suite::<U64Keys, _>(blink_hash);
    suite::<I64Keys, _>(blink_hash);
}

#[test]
fn blink_hash_of_byte_strings() {
    suite::<ByteKeys<5>, _>(blink_hash);
    suite::<ByteKeys<32>, _>(blink_hash);
}

#[test]
fn blink_hash_with_leaves_of_full_size() {
    check_ascending_writers(|| Subject(BlinkHash::new(), U64Keys), 4, PLAN);
}

#[test]
fn sb_tree_of_integers() {
    suite::<U64Keys, _>(SbTree::new);
    suite::<I64Keys, _>(SbTree::new);
}

#[test]
fn sb_tree_of_byte_strings() {
    suite::<ByteKeys<5>, _>(SbTree::new);
    suite::<ByteKeys<32>, _>(SbTree::new);
}

/// Stamps from the counter that threads share.
#[test]
fn sb_tree_with_counted_stamps() {
    let new = || SbTree::with_options(SbTreeOptions::new().processor_stamps(false));
    check_histories(|| Subject(new(), U64Keys), 8, PLAN);
}
