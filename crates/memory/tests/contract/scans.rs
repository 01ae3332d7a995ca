//! Scans of hash leaves of full size.

use bedload_memory::BlinkHash;

/// An iterator reads a leaf in many pieces, which count as one scan: the 16th converts it.
#[test]
fn a_pass_over_a_hash_leaf_is_one_scan() {
    let keys = 30_000;
    for is_ascending in [true, false] {
        let index = BlinkHash::<u64>::new();
        (0..keys).for_each(|key| index.insert(key, key));
        let hashed = index.fences().len();
        assert!((1..10).contains(&hashed), "{hashed} leaves, and the right-most");
        for pass in 1..=16 {
            let range = index.range(..);
            let count = if is_ascending {
                range.count()
            } else {
                range.rev().count()
            };
            assert_eq!(count as u64, keys);
            let leaves = index.fences().len();
            assert_eq!(
                leaves > 10 * hashed,
                pass == 16,
                "{leaves} leaves after {pass} passes"
            );
        }
    }
}

/// Each iterator that reads a piece counts, wherever it begins.
#[test]
fn a_short_range_is_a_scan() {
    let index = BlinkHash::<u64>::new();
    (0..30_000).for_each(|key| index.insert(key, key));
    let hashed = index.fences().len();
    for pass in 1..=16 {
        assert_eq!(index.range(200 * pass..).take(10).count(), 10);
        assert_eq!(index.fences().len() > 10 * hashed, pass == 16, "{pass} ranges");
    }
}
