//! The suite of the testkit over the B+-tree: every order, on every store, with nodes of four
//! entries and with nodes as large as the page.

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
    ($($name:ident: $keys:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn one_thread_on_heap_pages() {
                sequential::<$keys, _>(heap);
            }

            #[test]
            fn one_thread_on_mimic_pages() {
                sequential::<$keys, _>(mimic);
            }

            #[test]
            fn threads_on_heap_pages() {
                concurrent::<$keys, _>(heap);
            }

            #[test]
            fn threads_on_mimic_pages() {
                concurrent::<$keys, _>(mimic);
            }
        }
    )*};
}

suite! {
    u64_keys: U64Keys;
    i64_keys: I64Keys;
    byte_keys: ByteKeys<17>;
    careless_keys: CarelessKeys;
    tie_keys: TieKeys;
}
