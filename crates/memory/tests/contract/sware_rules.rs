//! The rules of the SWARE buffer (Raman et al., ICDE 2023, §IV), one by one, counted.

use bedload_memory::ExclusiveMap;
use bedload_memory::near_sorted::{PackedTree, TreeOptions};
use bedload_memory::swa_buffer::{BufferOptions, Filters, SaTree};
use bedload_testkit::workload::scrambled;

fn buffered(options: BufferOptions) -> SaTree<PackedTree> {
    SaTree::new(PackedTree::new(), options)
}

fn insert_all(tree: &mut SaTree<PackedTree>, keys: impl IntoIterator<Item = u64>) {
    keys.into_iter().for_each(|key| tree.insert(key, !key));
}

/// Room for 100 entries in pages of 10.
fn of_hundred() -> BufferOptions {
    BufferOptions::new(100).page_entries(10)
}

#[test]
fn a_sorted_buffer_drains_half_without_sorting() {
    let mut tree = buffered(of_hundred());
    insert_all(&mut tree, 0..101);
    let drained = tree.drained();
    assert_eq!(
        (drained.appended, drained.top_inserts, drained.unsorted_drains),
        (50, 0, 1)
    );
    assert_eq!((drained.adaptive_sorts, drained.stable_sorts), (0, 0));
    assert_eq!((tree.buffered(), tree.base().len()), (51, 50));
}

#[test]
fn what_lies_before_the_last_sorted_zone_is_drained_without_sorting_the_rest_first() {
    let mut tree = buffered(of_hundred());
    // Three pages in order, which the 70 that follow in none do not reach.
    insert_all(&mut tree, (0..30).chain((30..100).rev()).chain([200]));
    let drained = tree.drained();
    assert_eq!(
        (drained.appended, drained.top_inserts, drained.unsorted_drains),
        (30, 0, 1)
    );
    assert_eq!(tree.base().len(), 30);
    tree.check_structure().unwrap();
    // A key among the first three pages moves the mark: half is drained, and sorted before.
    let mut tree = buffered(of_hundred());
    insert_all(&mut tree, (1..30).chain((31..101).rev()).chain([0, 200]));
    let drained = tree.drained();
    assert_eq!((drained.appended, drained.unsorted_drains), (50, 0));
    // 0 to 29, and 31 to 50.
    assert_eq!((tree.base().get(50), tree.base().get(51)), (Some(!50), None));
}

#[test]
fn the_part_that_is_drained_is_a_setting() {
    for (percent, drained) in [(25, 25), (50, 50), (75, 75), (100, 100)] {
        let mut tree = buffered(of_hundred().drain_percent(percent));
        insert_all(&mut tree, 0..101);
        assert_eq!(tree.drained().appended, drained);
    }
}

#[test]
fn what_overlaps_is_inserted_from_the_root_and_the_rest_is_packed_to_95_percent() {
    let mut tree = buffered(BufferOptions::new(10_000));
    insert_all(&mut tree, (0..50_000).map(|key| 2 * key));
    tree.drain();
    assert_eq!(tree.drained().top_inserts, 0);
    assert!(
        (0.93..=0.96).contains(&tree.base().fill()),
        "{}",
        tree.base().fill()
    );
    insert_all(&mut tree, (0..100).map(|key| 2 * key + 1).chain(200_000..200_100));
    tree.drain();
    assert_eq!(
        (tree.drained().top_inserts, tree.drained().appended),
        (100, 50_100)
    );
}

#[test]
fn a_read_sorts_when_a_tenth_of_the_buffer_is_unsorted() {
    for (percent, sorts) in [(0, 60), (10, 5), (25, 2), (100, 0)] {
        let mut tree = buffered(of_hundred().query_sorting_percent(percent));
        insert_all(&mut tree, 100..140);
        for key in (40..100).rev() {
            tree.insert(key, !key);
            if tree.wants_preparation() {
                tree.prepare_reads();
            }
            assert_eq!(tree.get(key), Some(!key));
        }
        assert_eq!(tree.drained().query_sorts, sorts, "at {percent} %");
        tree.check_structure().unwrap();
    }
}

#[test]
fn filters_and_zone_maps_keep_lookups_from_pages() {
    let scanned = |options: BufferOptions, keys: &[u64]| {
        let mut tree = buffered(options.query_sorting_percent(100));
        // One key in order, then none: all of the buffer is unsorted, its pages span all keys.
        insert_all(&mut tree, [1 << 40]);
        insert_all(&mut tree, keys.iter().map(|key| 2 * key));
        let absent: usize = (0..2_000).map(|key| tree.pages_scanned(2 * key + 1)).sum();
        let present: usize = keys.iter().map(|key| tree.pages_scanned(2 * key)).sum();
        (absent as f64 / 2_000.0, present as f64 / keys.len() as f64)
    };
    let options = BufferOptions::new(2_500).page_entries(64);
    let keys = scrambled(2_000, 5);
    let none = options.filters(Filters::None);
    let (without, _) = scanned(none.zone_maps(false), &keys);
    assert!(without > 31.0, "all 32 pages: {without}");
    let (global, global_present) = scanned(options.filters(Filters::Global), &keys);
    assert!(
        global < 0.05 * without && global_present > 10.0,
        "{global} {global_present}"
    );
    let (both, both_present) = scanned(options, &keys);
    assert!(both < 0.02 && both_present < 1.5, "{both} {both_present}");
    // Keys that descend page by page: zone maps tell the page.
    let descending: Vec<u64> = (0..2_000).rev().collect();
    let (zones, zones_present) = scanned(none, &descending);
    assert!(zones <= 1.1 && zones_present <= 1.1, "{zones} {zones_present}");
    let tree = buffered(options);
    assert_eq!(tree.pages_scanned(7), 0, "an empty buffer");
}

#[test]
fn a_removal_within_the_buffers_range_is_a_tombstone_and_outside_of_it_none() {
    let mut tree = buffered(of_hundred());
    insert_all(&mut tree, 0..101);
    // 0 to 49 are in the tree, 50 to 100 in the buffer.
    assert_eq!(tree.remove(10), Some(!10));
    assert_eq!((tree.base().len(), tree.buffered()), (49, 51));
    assert_eq!(tree.remove(60), Some(!60));
    assert_eq!((tree.base().len(), tree.buffered()), (49, 52));
    assert_eq!((tree.get(60), tree.remove(60)), (None, None));
    // A key of the tree whose place lies within the buffer's range, once that reaches down to it.
    tree.insert(5, 0);
    assert_eq!(tree.remove(20), Some(!20));
    assert_eq!(tree.base().get(20), Some(!20), "until the tombstone is drained");
    assert_eq!(tree.get(20), None);
    tree.drain();
    assert_eq!((tree.base().get(20), tree.base().get(5)), (None, Some(0)));
    assert_eq!(tree.base().len(), 98);
    tree.check_structure().unwrap();
}

#[test]
fn of_equal_keys_the_last_counts_in_every_part_of_the_buffer() {
    let mut tree = buffered(of_hundred().query_sorting_percent(10));
    for round in 0..40 {
        for key in [7, 3, 7, 9, 7] {
            tree.insert(key, round);
            if tree.wants_preparation() {
                tree.prepare_reads();
            }
        }
        assert_eq!([3, 7, 9].map(|key| tree.get(key)), [Some(round); 3]);
    }
    tree.drain();
    assert_eq!(tree.base().len(), 3);
    assert_eq!(tree.get(7), Some(39));
}

/// The tail leaf takes what is in order without a descent; splits at 80:20 leave leaves fuller.
#[test]
fn splits_at_80_percent_leave_leaves_fuller_than_splits_in_half() {
    let fill = |split: usize, tail_leaf: bool| {
        let options = TreeOptions::new().split_percent(split).tail_leaf(tail_leaf);
        let mut tree = PackedTree::with_options(options);
        (0..100_000).for_each(|key| tree.insert(key, key));
        tree.check_structure().unwrap();
        tree.fill()
    };
    for tail_leaf in [false, true] {
        let (half, most) = (fill(50, tail_leaf), fill(80, tail_leaf));
        assert!(half <= 0.55 && most >= 0.75, "{half} {most}");
    }
}
