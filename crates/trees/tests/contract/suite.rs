//! The suite of the testkit over the B+-tree, with nodes of four entries and with nodes as large as
//! the page.

use bedload_pages::{HeapPages, MimicPages, PageStore};
use bedload_testkit::contract::{
    ByteKeys, I64Keys, OneThread, Plan, U64Keys, check, check_ascending_writers, check_disjoint_writers,
    check_histories, check_ranges_over_writers, check_shrinking,
};
use bedload_trees::bplus_tree::BPlusTreeOptions;
use bedload_trees::contract::{OrderedKeys, TieKeys, TreeIndex};

use bedload_trees::contract::CarelessKeys;

const PLAN: Plan = Plan {
    seed: 0x5eed,
    operations: 100_000,
};

fn configs() -> [BPlusTreeOptions; 2] {
    [
        BPlusTreeOptions::new().max_entries(4),
        BPlusTreeOptions::new().split_percent(80),
    ]
}

fn sequential<K: OrderedKeys + Default, S: PageStore + Sync>(pages: impl Fn() -> S) {
    for config in configs() {
        let make = || OneThread(TreeIndex::create(pages(), K::default(), config).expect("an empty tree"));
        check(make, PLAN);
        let plan = Plan {
            operations: 10_000,
            ..PLAN
        };
        check_shrinking(make, plan);
    }
}

fn concurrent<K: OrderedKeys + Default, S: PageStore + Sync>(pages: impl Fn() -> S) {
    for config in configs() {
        let make = || TreeIndex::create(pages(), K::default(), config).expect("an empty tree");
        check_disjoint_writers(make, 4, PLAN);
        check_ascending_writers(make, 4, PLAN);
        check_ranges_over_writers(make, 3, 2, PLAN);
        check_histories(make, 4, PLAN);
    }
}

fn heap() -> HeapPages {
    HeapPages::new(512)
}

fn mimic() -> MimicPages {
    MimicPages::new(512, PLAN.seed)
}

macro_rules! suite {
    ($($name:ident: $keys:ty, $pages:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn one_thread() {
                sequential::<$keys, _>($pages);
            }

            #[test]
            fn threads() {
                concurrent::<$keys, _>($pages);
            }
        }
    )*};
}

// Every order on pages that behave as those of a file do; orders of fixed and of varying length on
// plain ones.
suite! {
    u64_keys_on_heap_pages: U64Keys, heap;
    byte_keys_on_heap_pages: ByteKeys<17>, heap;
    u64_keys_on_mimic_pages: U64Keys, mimic;
    i64_keys_on_mimic_pages: I64Keys, mimic;
    byte_keys_on_mimic_pages: ByteKeys<17>, mimic;
    careless_keys_on_mimic_pages: CarelessKeys, mimic;
    tie_keys_on_mimic_pages: TieKeys, mimic;
}
