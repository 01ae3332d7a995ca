//! The trees for nearly sorted keys, in every combination of the settings that change what they do.

use std::collections::BTreeMap;
use std::sync::Arc;

use bedload_memory::SharedMap;
use bedload_memory::contract::Subject;
use bedload_memory::near_sorted::{NearSortedTree, PackedTree, TreeOptions};
use bedload_memory::swa_buffer::{
    BaseTree, BufferOptions, Filters, LatchedSaTree, PagedBeTree, PagedTree, SaTree,
};
use bedload_memory::{ExclusiveMap, Locked};
use bedload_pages::{Error, Fault, FaultyPages, HeapPages, MimicPages, PageStore};
use bedload_sortedness::Sortedness;
use bedload_testkit::Rng;
use bedload_testkit::contract::{
    OneThread, Plan, U64Keys, check, check_ascending_writers, check_disjoint_writers, check_histories,
    check_ranges_over_writers, check_shrinking,
};
use bedload_testkit::workload::{DEGREES, NearlySorted, arrivals, scattered, scrambled};
use bedload_trees::be_tree::BeTreeOptions;
use bedload_trees::bplus_tree::BPlusTreeOptions;

const PLAN: Plan = Plan {
    seed: 0x5a5a,
    operations: 100_000,
};

/// Every combination of few values of each setting: all pairs are among them, and more.
fn combinations() -> impl Iterator<Item = TreeOptions> {
    let leaves = [4, 5, 256];
    let branches = [4, 64];
    let pending = [1, 7, 32];
    let staged = [1, 10, 1000];
    let fills = [50, 95, 100];
    let splits = [10, 50, 80];
    let count = leaves.len() * branches.len() * pending.len() * staged.len() * fills.len() * splits.len() * 2;
    (0..count).map(move |mut at| {
        let mut choose = |from: &[usize]| {
            let chosen = from[at % from.len()];
            at /= from.len();
            chosen
        };
        TreeOptions::new()
            .leaf_entries(choose(&leaves))
            .branch_leaves(choose(&branches))
            .pending_entries(choose(&pending))
            .staged_entries(choose(&staged))
            .fill_percent(choose(&fills))
            .split_percent(choose(&splits))
            .tail_leaf(choose(&[0, 1]) == 1)
    })
}

/// Every combination of few values of each setting of a buffer.
pub(crate) fn buffers() -> impl Iterator<Item = BufferOptions> {
    let sizes = [4, 10, 100];
    let pages = [1, 4, 256];
    let drains = [25, 50, 100];
    let thresholds = [0, 10, 100];
    let filters = [Filters::None, Filters::Global, Filters::GlobalAndPages];
    let holds = [0, 60];
    (0..sizes.len() * pages.len() * drains.len() * thresholds.len() * filters.len() * 2 * holds.len()).map(
        move |mut at| {
            let mut choose = |count: usize| {
                let chosen = at % count;
                at /= count;
                chosen
            };
            BufferOptions::new(sizes[choose(3)])
                .page_entries(pages[choose(3)])
                .drain_percent(drains[choose(3)])
                .query_sorting_percent(thresholds[choose(3)])
                .filters(filters[choose(3)])
                .zone_maps(choose(2) == 1)
                .held_percent(holds[choose(2)])
        },
    )
}

pub(crate) fn small() -> TreeOptions {
    TreeOptions::new()
        .leaf_entries(4)
        .branch_leaves(4)
        .pending_entries(7)
        .staged_entries(5)
}

/// Checks a map that several threads may use.
pub(crate) fn suite<M: SharedMap<u64>>(new: impl Fn() -> M) {
    let make = || Subject(new(), U64Keys);
    check(|| OneThread(make()), PLAN);
    let fewer = Plan {
        operations: 20_000,
        ..PLAN
    };
    check_shrinking(|| OneThread(make()), fewer);
    check_disjoint_writers(make, 4, fewer);
    check_ascending_writers(make, 4, fewer);
    check_ranges_over_writers(make, 3, 2, fewer);
    check_histories(make, 4, fewer);
}

/// The suite for a map behind a lock.
fn locked_suite<M: ExclusiveMap>(new: impl Fn() -> M) {
    suite(|| Locked::new(new()));
}

#[test]
fn plain_trees() {
    locked_suite(PackedTree::new);
    locked_suite(|| PackedTree::with_options(small()));
}

#[test]
fn near_sorted_trees() {
    locked_suite(NearSortedTree::new);
    locked_suite(|| NearSortedTree::with_options(small()));
    locked_suite(|| Scanned(NearSortedTree::with_options(small()), 0));
}

#[test]
fn sa_trees() {
    locked_suite(|| SaTree::new(PackedTree::new(), BufferOptions::new(300)));
    locked_suite(|| {
        SaTree::new(
            PackedTree::with_options(small()),
            BufferOptions::new(10).page_entries(3),
        )
    });
}

/// On heap pages, and on pages with what PostgreSQL's lack.
#[test]
fn sa_trees_on_pages() {
    let config = BPlusTreeOptions::new().max_entries(4).split_percent(80);
    let buffer = BufferOptions::new(50).page_entries(8);
    locked_suite(|| SaTree::new(paged(HeapPages::new(512), config), buffer));
    locked_suite(|| SaTree::new(paged(MimicPages::new(512, 3), config), buffer));
    locked_suite(|| {
        SaTree::new(
            paged(HeapPages::new(4096), BPlusTreeOptions::new()),
            BufferOptions::new(300),
        )
    });
}

pub(crate) fn paged<S: PageStore>(pages: S, config: BPlusTreeOptions) -> PagedTree<S> {
    PagedTree::create(pages, config).expect("an empty tree")
}

fn paged_be<S: PageStore + Clone>(pages: S, batch_entries: usize) -> PagedBeTree<S> {
    let options = BeTreeOptions::new()
        .shrunk(8192)
        .max_entries(8)
        .fan_out(3)
        .runs(4);
    PagedBeTree::create(pages, options, batch_entries).expect("an empty tree")
}

/// The Bε-tree, without a buffer and with one, so small that merges and splits go on all the time.
#[test]
fn sa_be_trees_on_pages() {
    let pages = || Arc::new(HeapPages::new(1536));
    locked_suite(|| paged_be(pages(), 16));
    let buffer = BufferOptions::new(50).page_entries(8);
    locked_suite(|| SaTree::new(paged_be(pages(), 16), buffer));
    locked_suite(|| SaTree::new(paged_be(Arc::new(MimicPages::new(1536, 3)), 1), buffer));
    locked_suite(|| {
        let tree = PagedBeTree::create(Arc::new(HeapPages::new(4096)), BeTreeOptions::new(), 512);
        SaTree::new(tree.expect("an empty tree"), BufferOptions::new(300))
    });
}

/// Fills a tree until its store fails: the error stays.
fn first_error_is_kept<B: BaseTree>(base: B, failure: impl Fn(&B) -> Option<&Error>) {
    let mut tree = SaTree::new(base, BufferOptions::new(10));
    let mut inserted = 0;
    while failure(tree.base()).is_none() {
        tree.insert(inserted, inserted);
        let found = tree.get(inserted / 2);
        assert!(found == Some(inserted / 2) || failure(tree.base()).is_some());
        inserted += 1;
    }
    assert!(inserted > 40, "{inserted}");
    tree.insert(inserted, inserted);
    assert!(failure(tree.base()).is_some());
    assert!(tree.check_structure().is_err());
}

#[test]
fn the_first_error_of_a_store_is_kept() {
    let failing = |len| FaultyPages::new(HeapPages::new(len), [Fault::CrashBeforeCommit(40)]);
    let options = BPlusTreeOptions::new().max_entries(4);
    first_error_is_kept(paged(failing(512), options), PagedTree::failure);
    first_error_is_kept(paged_be(Arc::new(failing(1536)), 4), PagedBeTree::failure);
}

/// Removes keys until the store fails: that removal, and each later one, is refused. `new` makes a
/// tree whose store fails from this batch on.
fn removals_are_refused_after_an_error<B: BaseTree>(
    new: impl Fn(u64) -> B,
    failure: impl Fn(&B) -> Option<&Error>,
) {
    let keys = 400;
    let filled = |batch| {
        let mut base = new(batch);
        (0..keys).for_each(|key| base.insert(key, !key));
        failure(&base).is_none().then_some(base)
    };
    let mut bases = (50..).step_by(50).filter_map(filled);
    let mut base = bases.next().expect("a tree that holds for as long");
    let mut removed = 0;
    while base.remove(removed).is_some() {
        assert!(failure(&base).is_none(), "key {removed} is not removed");
        removed += 1;
    }
    assert!(failure(&base).is_some(), "{removed} keys are removed");
    let there: Vec<u64> = (removed..keys)
        .filter(|&key| base.get(key) == Some(!key))
        .collect();
    assert!(there.len() > 1, "{} of {keys}", there.len());
    for key in there {
        assert_eq!(base.remove(key), None);
        assert_eq!(base.get(key), Some(!key));
    }
}

#[test]
fn no_removal_is_reported_that_a_failed_store_refuses() {
    // A tree does without some of its batches.
    let failing = |len, batch| FaultyPages::new(HeapPages::new(len), (batch..batch + 50).map(Fault::Batch));
    let options = BPlusTreeOptions::new().max_entries(4);
    let plain = |batch| paged(failing(512, batch), options);
    removals_are_refused_after_an_error(plain, PagedTree::failure);
    let be_tree = |batch| paged_be(Arc::new(failing(1536, batch)), 4);
    removals_are_refused_after_an_error(be_tree, PagedBeTree::failure);
}

/// A page is no larger than the buffer.
#[test]
fn a_page_of_any_number_of_entries_takes_no_more_memory_than_the_buffer() {
    for page_entries in [1 << 24, usize::MAX] {
        let options = BufferOptions::new(1_000).page_entries(page_entries);
        let measured = allocation_counter::measure(|| {
            let mut tree = SaTree::new(PackedTree::new(), options);
            (0..600).for_each(|key| tree.insert(key ^ 3, key));
            assert_eq!(tree.get(2), Some(1));
            let latched = LatchedSaTree::new(PackedTree::new(), options);
            (0..600).for_each(|key| latched.insert(key ^ 3, key));
            assert_eq!(latched.get(2), Some(1));
        });
        assert!(measured.bytes_max < 1 << 20, "{measured:?} for {page_entries}");
    }
}

#[test]
fn every_combination_of_settings_of_a_buffer() {
    for options in buffers() {
        let plan = Plan {
            operations: 3_000,
            ..PLAN
        };
        let on_pages = || SaTree::new(paged(HeapPages::new(256), BPlusTreeOptions::new()), options);
        check(|| OneThread(Subject(Locked::new(on_pages()), U64Keys)), plan);
        let be_tree = || SaTree::new(paged_be(Arc::new(HeapPages::new(1536)), 5), options);
        check(|| OneThread(Subject(Locked::new(be_tree()), U64Keys)), plan);
        let tree = || SaTree::new(PackedTree::with_options(small()), options);
        check(|| OneThread(Subject(Locked::new(tree()), U64Keys)), plan);
    }
}

#[test]
fn every_combination_of_settings() {
    for options in combinations() {
        let plan = Plan {
            operations: 3_000,
            ..PLAN
        };
        let plain = || OneThread(Subject(Locked::new(PackedTree::with_options(options)), U64Keys));
        check(plain, plan);
        let near_sorted = || {
            OneThread(Subject(
                Locked::new(NearSortedTree::with_options(options)),
                U64Keys,
            ))
        };
        check(near_sorted, plan);
        let scanned = || {
            let tree = NearSortedTree::with_options(options);
            OneThread(Subject(Locked::new(Scanned(tree, 0)), U64Keys))
        };
        check(scanned, plan);
    }
}

/// Scans a part of the keys before every read, under the lock that the read has upgraded: what is
/// read was merged in part.
struct Scanned(NearSortedTree, u64);

impl ExclusiveMap for Scanned {
    fn insert(&mut self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.0.remove(key)
    }

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.0.read_up(lower, upper, entries)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        self.0.read_down(lower, upper, entries)
    }

    fn wants_preparation(&self) -> bool {
        true
    }

    fn prepare_reads(&mut self) {
        self.1 = scattered(self.1 + 1);
        let lower = self.1;
        let mut next = lower;
        self.0
            .scan(lower..=lower.saturating_add(1 << 62), |keys, values| {
                assert_eq!(keys.len(), values.len());
                assert!(keys.is_sorted_by(|a, b| a < b) && keys.first().is_some_and(|&key| key >= next));
                next = keys.last().map_or(next, |&last| last.saturating_add(1));
            });
    }

    fn check_structure(&self) -> Result<(), String> {
        self.0.check_structure()
    }
}

/// Answers at every stage, counted, with each key put twice or thrice, and the last value the one
/// that counts.
fn verify<M: ExclusiveMap>(mut map: M, ranks: &[u64], keys_each: u64) {
    let mut oracle = BTreeMap::new();
    let mut rng = Rng::new(5);
    for (number, &rank) in (0..).zip(ranks) {
        let key = (rank / keys_each) * 1000 + scattered(rank / keys_each) % 900;
        map.insert(key, number);
        oracle.insert(key, number);
        if number % 37 == 0 {
            if map.wants_preparation() {
                map.prepare_reads();
            }
            let probe = ranks[rng.index(ranks.len())] / keys_each;
            let probe = probe * 1000 + scattered(probe) % 900;
            assert_eq!(map.get(probe), oracle.get(&probe).copied(), "after {number}");
            assert_eq!(map.get(probe + 1), None);
        }
        if number % 41 == 0 {
            // One of the last keys, or of all.
            let behind = if number % 2 == 0 { 50 } else { ranks.len() };
            let before = usize::try_from(number).expect("the place of a rank");
            let gone = ranks[before.saturating_sub(rng.index(behind))] / keys_each;
            let gone = gone * 1000 + scattered(gone) % 900;
            assert_eq!(map.remove(gone), oracle.remove(&gone), "{gone} after {number}");
        }
        if number % 4099 == 0 {
            compare(&map, &oracle);
        }
    }
    compare(&map, &oracle);
    for (&key, &value) in &oracle {
        assert_eq!(map.get(key), Some(value));
    }
}

fn compare(map: &impl ExclusiveMap, oracle: &BTreeMap<u64, u64>) {
    map.check_structure().expect("the structure holds");
    let (mut ascending, mut from) = (Vec::new(), Some(0));
    while let Some(lower) = from {
        from = map.read_up(lower, u64::MAX, &mut ascending);
    }
    assert!(
        ascending
            .iter()
            .copied()
            .eq(oracle.iter().map(|(&key, &value)| (key, value)))
    );
    let (mut stretches, mut to) = (Vec::new(), Some(u64::MAX));
    while let Some(upper) = to {
        let mut stretch = Vec::new();
        to = map.read_down(0, upper, &mut stretch);
        stretches.push(stretch);
    }
    stretches.reverse();
    assert_eq!(stretches.concat(), ascending);
}

#[test]
fn nothing_is_lost_at_any_degree_of_order() {
    let medium = || {
        TreeOptions::new()
            .leaf_entries(16)
            .branch_leaves(8)
            .pending_entries(50)
            .staged_entries(20)
    };
    for ranks in arrivals(30_000) {
        for keys_each in [1, 3] {
            verify(NearSortedTree::with_options(medium()), &ranks, keys_each);
            verify(PackedTree::with_options(medium()), &ranks, keys_each);
        }
        verify(NearSortedTree::new(), &ranks, 1);
        let buffer = BufferOptions::new(300).page_entries(16);
        verify(SaTree::new(PackedTree::with_options(medium()), buffer), &ranks, 3);
        verify(paged_be(Arc::new(HeapPages::new(1536)), 64), &ranks, 1);
        verify(
            SaTree::new(paged_be(Arc::new(HeapPages::new(1536)), 64), buffer),
            &ranks,
            3,
        );
        verify(
            SaTree::new(PackedTree::new(), buffer.query_sorting_percent(100)),
            &ranks,
            1,
        );
    }
}

#[test]
fn a_buffer_packs_what_is_in_order_and_inserts_what_overlaps() {
    let drained = |ranks: Vec<u64>| {
        let mut tree = SaTree::new(PackedTree::new(), BufferOptions::new(600).page_entries(16));
        for &rank in &ranks {
            tree.insert(rank, rank);
        }
        tree.drain();
        assert_eq!(tree.base().len(), ranks.len());
        tree.drained()
    };
    let counts: Vec<_> = arrivals(60_000).map(drained).collect();
    let [in_order, nearly, ..] = counts.as_slice() else {
        panic!("two degrees of order at least")
    };
    assert_eq!((in_order.appended, in_order.top_inserts), (60_000, 0));
    assert_eq!((in_order.stable_sorts, in_order.adaptive_sorts), (0, 0));
    // Keys that are swapped by up to 3,000 places are seldom within a buffer of 600.
    assert!(nearly.top_inserts > 0 && nearly.appended > 0, "{nearly:?}");
    let scrambled = counts[DEGREES.len()];
    assert!(scrambled.top_inserts > scrambled.appended, "{scrambled:?}");
    assert!(scrambled.stable_sorts > scrambled.adaptive_sorts, "{scrambled:?}");
}

/// Entries that are held back go to a leaf together with their neighbours.
#[test]
fn what_overlaps_is_held_back_until_it_is_much() {
    let spec = NearlySorted {
        swapped_percent: 10.0,
        displacement_percent: 5.0,
        ..NearlySorted::new(60_000, 11)
    };
    let ranks = spec.generate().keys;
    let leaves_visited = |held: usize| {
        let pages = HeapPages::new(512);
        let options = BufferOptions::new(600).page_entries(16).held_percent(held);
        let mut tree = SaTree::new(paged(&pages, BPlusTreeOptions::new().split_percent(80)), options);
        for &rank in &ranks {
            tree.insert(rank, rank);
        }
        tree.drain();
        tree.check_structure().expect("the structure holds");
        assert!(ranks.iter().all(|&rank| tree.get(rank) == Some(rank)));
        tree.drained()
    };
    let (paper, held) = (leaves_visited(0), leaves_visited(50));
    // Late entries stay late: as many overlap, but for those that waited below a tree that grew.
    assert!(held.top_inserts <= paper.top_inserts + 600, "{paper:?} {held:?}");
    assert!(held.appended + held.top_inserts == 60_000);
}

/// Reads may be prepared at any time, and there may be nothing to do.
#[test]
fn a_buffer_without_unsorted_entries_is_prepared_for_reads() {
    for before in [0, 10] {
        let mut tree = SaTree::new(PackedTree::new(), BufferOptions::new(100));
        (0..before).for_each(|key| tree.insert(key, key));
        tree.prepare_reads();
        tree.insert(before, 1);
        assert_eq!(tree.get(before), Some(1));
        let mut found = Vec::new();
        tree.read_up(before, u64::MAX, &mut found);
        assert_eq!(found, [(before, 1)]);
        tree.check_structure().expect("the structure holds");
    }
}

/// Entries below the greatest key of the tree count as overlapping, even if they ascend.
#[test]
fn ascending_entries_among_those_of_a_tree_overlap() {
    let mut base = PackedTree::new();
    (0..5000).for_each(|key| base.insert(key * 2, key));
    let mut tree = SaTree::new(base, BufferOptions::new(100));
    (0..4999).for_each(|key| tree.insert(key * 2 + 1, key));
    tree.drain();
    assert_eq!(tree.drained().top_inserts, 4999);
    assert_eq!(tree.order().total().overlapping, 4999);
}

/// The buffer decides by what it measures how it sorts, whatever the settings.
#[test]
fn what_is_measured_decides_how_a_buffer_is_sorted() {
    let drained = |ranks: &[u64]| {
        let mut tree = SaTree::new(PackedTree::new(), BufferOptions::new(1_000).page_entries(16));
        ranks.iter().for_each(|&rank| tree.insert(rank, rank));
        tree.drain();
        let exact = Sortedness::of_keys(ranks);
        let measured = tree.order().total();
        assert_eq!(
            (measured.rows, measured.below_running_max),
            (exact.rows, exact.below_running_max)
        );
        assert!(measured.k >= exact.k && measured.k - exact.k <= exact.rows / 100);
        // Each entry that was drained while keys below still came is an insert from the root.
        assert!(measured.overlapping <= tree.drained().top_inserts);
        tree.drained()
    };
    let nearly = NearlySorted {
        swapped_percent: 10.0,
        displacement_percent: 0.1,
        ..NearlySorted::new(50_000, 11)
    };
    let (nearly, scrambled) = (drained(&nearly.generate().keys), drained(&scrambled(50_000, 11)));
    assert!(
        nearly.adaptive_sorts > 50 && nearly.stable_sorts == 0,
        "{nearly:?}"
    );
    assert!(
        scrambled.stable_sorts > 50 && scrambled.adaptive_sorts <= 1,
        "{scrambled:?}"
    );
}

#[test]
fn a_removal_of_no_key_takes_no_room_in_the_buffer() {
    let mut tree = SaTree::new(PackedTree::new(), BufferOptions::new(100));
    (0..50).for_each(|key| tree.insert(2 * key, key));
    for key in 0..49 {
        assert_eq!(tree.remove(2 * key + 1), None);
    }
    assert_eq!(tree.buffered(), 50);
    assert_eq!(tree.remove(20), Some(10));
    assert_eq!((tree.get(20), tree.remove(20)), (None, None));
}
