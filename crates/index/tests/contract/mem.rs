//! The suite of the testkit over the in-memory indexes, with nodes of full size.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use bedload_index::mem::contract::Subject;
use bedload_index::mem::{
    BlinkHash, BlinkHashOptions, BlinkTree, HeadIndex, HeadKind, Key, OrderedMap, Range, SbTree,
    SbTreeOptions,
};
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
    M: OrderedMap<K::Key>,
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

/// Its head is switched at every hundredth insert.
#[derive(Default)]
struct Restless<K: Key>(HeadIndex<K>, AtomicU64);

impl<K: Key> OrderedMap<K> for Restless<K> {
    fn insert(&self, key: K, value: u64) {
        const KINDS: [HeadKind; 3] = [HeadKind::BlinkHash, HeadKind::BlinkTree, HeadKind::SbTree];
        self.0.insert(key, value);
        let inserts = self.1.fetch_add(1, Ordering::Relaxed);
        if inserts.is_multiple_of(100) {
            self.0.switch_head(KINDS[(inserts / 100 % 3) as usize]);
        }
    }

    fn get(&self, key: K) -> Option<u64> {
        self.0.get(key)
    }

    fn remove(&self, key: K) -> Option<u64> {
        self.0.remove(key)
    }

    fn range(&self, bounds: (Bound<K>, Bound<K>)) -> Range<'_, K> {
        self.0.range(bounds)
    }

    fn scan(&self, bounds: (Bound<K>, Bound<K>), keys: &mut [K], values: &mut [u64]) -> usize {
        self.0.scan(bounds, keys, values)
    }

    fn check_structure(&self) -> Result<(), String> {
        self.0.check_structure()
    }
}

#[test]
fn head_index_of_integers() {
    suite::<U64Keys, _>(HeadIndex::new);
    suite::<U64Keys, _>(Restless::default);
    suite::<I64Keys, _>(Restless::default);
}

#[test]
fn head_index_of_byte_strings() {
    suite::<ByteKeys<5>, _>(Restless::default);
    suite::<ByteKeys<32>, _>(Restless::default);
}
