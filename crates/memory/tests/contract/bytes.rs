//! The trees tell how many bytes they use.

use bedload_memory::near_sorted::{NearSortedTree, PackedTree, TreeOptions};
use bedload_testkit::Rng;
use bedload_testkit::workload::NearlySorted;

/// Checks that the bytes that a tree tells are those that were allocated, a few small allocations
/// apart.
fn tells_its_bytes<T>(what: &str, make: impl FnOnce() -> T, bytes: impl Fn(&T) -> usize) {
    let mut tree = None;
    let measured = allocation_counter::measure(|| tree = Some(make()));
    let told = bytes(&tree.expect("it was made")) as u64;
    let allocated = u64::try_from(measured.bytes_current).expect("the tree is still there");
    assert!(
        told.abs_diff(allocated) <= 4096,
        "{what}: {told}, allocated {allocated}"
    );
}

fn packed(options: TreeOptions, keys: impl Iterator<Item = u64>) -> PackedTree {
    let mut tree = PackedTree::with_options(options);
    keys.for_each(|key| tree.insert(key, key));
    tree
}

fn near_sorted(keys: impl Iterator<Item = u64>) -> NearSortedTree {
    let mut tree = NearSortedTree::new();
    keys.for_each(|key| tree.insert(key, key));
    tree
}

#[test]
fn trees_tell_what_they_allocate() {
    const COUNT: usize = 300_000;
    const KEYS: u64 = COUNT as u64;
    let random = |seed| {
        let mut rng = Rng::new(seed);
        (0..KEYS).map(move |_| rng.next_u64() >> 1)
    };
    let late = || {
        let spec = NearlySorted {
            swapped_percent: 20.0,
            displacement_percent: 5.0,
            ..NearlySorted::new(COUNT, 3)
        };
        spec.generate().keys.into_iter()
    };
    tells_its_bytes("packed, empty", PackedTree::new, PackedTree::bytes);
    let options = TreeOptions::new();
    tells_its_bytes("packed, in order", || packed(options, 0..KEYS), PackedTree::bytes);
    tells_its_bytes("packed, random", || packed(options, random(1)), PackedTree::bytes);
    // Thousands of branches, each with its fence.
    let few = options.leaf_entries(4).branch_leaves(4);
    let small = || packed(few, 0..KEYS / 10);
    tells_its_bytes("packed, in small nodes", small, PackedTree::bytes);
    tells_its_bytes("empty", NearSortedTree::new, NearSortedTree::bytes);
    tells_its_bytes("in order", || near_sorted(0..KEYS), NearSortedTree::bytes);
    tells_its_bytes("late", || near_sorted(late()), NearSortedTree::bytes);
    tells_its_bytes("random", || near_sorted(random(2)), NearSortedTree::bytes);
}
