//! The contracts of page stores and of trees, on pages in a file of the operating system.

use std::path::Path;

use bedload_memory::Locked;
use bedload_memory::contract::Subject;
use bedload_memory::swa_buffer::{BufferOptions, LatchedSaTree, PagedTree, SaTree};
use bedload_pages::contract::check_page_store;
use bedload_pages::{PageStore, RunWriter, VacuumStore};
use bedload_testkit::contract::{
    ByteKeys, OneThread, Plan, U64Keys, check, check_disjoint_writers, check_ranges_over_writers,
    check_shrinking,
};
use bedload_testkit::stride;
use bedload_trees::bplus_tree::BPlusTreeOptions;
use bedload_trees::contract::{
    NumberedKeys, OrderedKeys, TreeIndex, check_be_tree_crashes, check_be_tree_schedule,
    check_be_tree_threads,
};
use bedload_trees::{ByteOrder, U64Order};

use super::catalogue_pages::CatalogueText;
use super::page_map::Slot;
use super::{CheckpointMeta, FilePages, FilePagesOptions, PageFile, WorkingPages};
use crate::disk::sim::SimDisk;
use crate::disk::{Disk, OsDisk};
use crate::error::Error;

const PLAN: Plan = Plan {
    seed: 0xf11e,
    operations: 100_000,
};
const PAGE_BYTES: usize = 4096;

/// Pages of which so few may be dirty or cached that they are written and read back all the time.
fn pages() -> WorkingPages {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("data");
    let file = OsDisk.create(&path).expect("creates");
    // The file lives on without its name.
    drop(dir);
    let file = PageFile::new(path, file, PAGE_BYTES, 16);
    WorkingPages::create(file, [0; 16], &meta(), 8).expect("an empty file of pages")
}

fn meta() -> CheckpointMeta {
    CheckpointMeta {
        log_start: 0,
        next_sequence: 0,
        catalogue: CatalogueText::default(),
    }
}

/// With keys of fixed and of varying length; the other orders are tried on pages in memory, where
/// the contract of trees is.
fn suite<K: OrderedKeys + Default>() {
    for config in [
        BPlusTreeOptions::new().max_entries(4),
        BPlusTreeOptions::new().split_percent(80),
    ] {
        let make = || OneThread(TreeIndex::create(pages(), K::default(), config).expect("an empty tree"));
        check(make, PLAN);
        check_shrinking(
            make,
            Plan {
                operations: 2_000,
                ..PLAN
            },
        );
        let plan = Plan {
            operations: 20_000,
            ..PLAN
        };
        let make = || TreeIndex::create(pages(), K::default(), config).expect("an empty tree");
        check_disjoint_writers(make, 4, plan);
        check_ranges_over_writers(make, 3, 2, plan);
    }
}

#[test]
fn file_pages_keep_the_rules_of_page_stores() {
    check_page_store(pages);
}

/// The public ones; directly, past the system's cache where the file system can, which is slow.
fn public_pages(direct: bool) -> FilePages {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = FilePagesOptions::new().cache_bytes(0);
    let direct = FilePages::create(dir.path().join("direct"), options.direct(direct));
    direct.unwrap_or_else(|_| FilePages::create(dir.path().join("pages"), options).expect("a fresh file"))
}

#[test]
fn pages_of_a_file_of_their_own_keep_the_rules_of_page_stores() {
    check_page_store(|| public_pages(true));
    check_page_store(|| public_pages(false));
}

#[test]
fn a_tree_on_pages_of_a_file_of_their_own() {
    let plan = Plan {
        operations: 10_000,
        ..PLAN
    };
    let make = || {
        TreeIndex::create(
            public_pages(false),
            U64Keys,
            BPlusTreeOptions::new().max_entries(4),
        )
        .expect("an empty tree")
    };
    check(|| OneThread(make()), plan);
    check_disjoint_writers(make, 4, plan);
    let latched = || {
        let base = PagedTree::create(public_pages(false), BPlusTreeOptions::new().max_entries(4))
            .expect("an empty tree");
        LatchedSaTree::new(base, BufferOptions::new(100).page_entries(8))
    };
    check(|| OneThread(Subject(latched(), U64Keys)), plan);
    check_disjoint_writers(|| Subject(latched(), U64Keys), 4, plan);
}

#[test]
fn a_tree_of_u64_keys_on_file_pages() {
    suite::<U64Keys>();
}

#[test]
fn a_tree_of_byte_keys_on_file_pages() {
    suite::<ByteKeys<12>>();
}

#[test]
fn a_sortedness_aware_tree_on_file_pages() {
    for config in [BPlusTreeOptions::new(), BPlusTreeOptions::new().split_percent(80)] {
        for buffer in [BufferOptions::new(50).page_entries(8), BufferOptions::new(2_000)] {
            let tree = || SaTree::new(PagedTree::create(pages(), config).expect("an empty tree"), buffer);
            let plan = Plan {
                operations: 20_000,
                ..PLAN
            };
            check(|| OneThread(Subject(Locked::new(tree()), U64Keys)), plan);
            check_disjoint_writers(|| Subject(Locked::new(tree()), U64Keys), 4, plan);
        }
    }
}

fn be_tree_schedule<O: NumberedKeys>(name: &str, order: &O, seed: u64) {
    let plan = Plan {
        seed,
        operations: 30_000,
    };
    let counts = check_be_tree_schedule(order, pages, plan, 10_000);
    println!("{name} on file pages: {counts}");
    assert!(counts.work.push_downs > 100 && counts.work.splits > 5);
    assert!(counts.deleted > 100 && counts.reclaimed > 100);
    // Rarer ones, in proportion to the operations of this run.
    let share = stride() as u64;
    assert!(counts.work.merges * share > 50 && counts.bulk_deletes * share > 3);
}

#[test]
fn be_tree_schedules_on_file_pages() {
    be_tree_schedule("u64", &U64Order, 11);
    be_tree_schedule("bytes", &ByteOrder, 12);
}

#[test]
fn be_tree_crashes_around_commits_on_file_pages() {
    let is_long = std::env::var_os("BEDLOAD_TEST_OPERATIONS").is_some();
    let counts = check_be_tree_crashes(&U64Order, pages, 14, 800, if is_long { 1 } else { 9 });
    println!("u64 on file pages, crashing: {counts}");
    assert!(counts.crashes > 15 && counts.work.push_downs > 200);
}

#[test]
fn be_tree_threads_on_file_pages() {
    check_be_tree_threads(&U64Order, &pages(), 15);
}

/// A vacuum lists pages, and some are gone when it comes to them.
#[test]
fn a_vacuum_leaves_reclaimed_pages_alone() {
    let pages = pages();
    let mut writer = pages.run_writer().expect("a writer");
    let written: Vec<_> = (0..2)
        .map(|_| {
            let reserved = writer.reserve().expect("an id");
            let id = reserved.id;
            writer.write(reserved, &[7; 100]).expect("written");
            id
        })
        .collect();
    writer.finish().expect("finished");
    assert_eq!(pages.run_pages(None, 10).expect("listed"), written);
    pages.retire(&written[..1]);
    assert_eq!(pages.reclaim().expect("reclaimed"), 1);
    let mut seen = Vec::new();
    for page in written {
        let mut delete = |payload: &mut [u8]| {
            seen.push(payload[0]);
            Ok(false)
        };
        pages
            .delete_in_run(page, &mut delete)
            .expect("gone, or looked at");
    }
    assert_eq!(seen, [7], "only the second is there");
}

/// Opens a file of two pages at a checkpoint whose map has what `change` makes of their slots.
fn open_with_map(change: impl Fn([Slot; 2]) -> [Slot; 2]) -> Result<(), Error> {
    let (disk, path) = (SimDisk::new(0), Path::new("/data"));
    let file = PageFile::new(path.into(), disk.create(path).expect("creates"), PAGE_BYTES, 16);
    let pages = WorkingPages::create(file, [0; 16], &meta(), 8).expect("an empty file of pages");
    let mut writer = pages.run_writer().expect("a writer");
    let ids = [7, 8].map(|byte| {
        let reserved = writer.reserve().expect("an id");
        let id = reserved.id;
        writer.write(reserved, &[byte; 100]).expect("written");
        id
    });
    writer.finish().expect("finished");
    pages.checkpoint([0; 16], &meta()).expect("a sound disk");
    let mut state = pages.state.lock();
    let slots = ids.map(|id| state.map.get(id).expect("a written page"));
    for (id, slot) in ids.into_iter().zip(change(slots)) {
        state.map.set(id, slot);
    }
    drop(state);
    pages.checkpoint([0; 16], &meta()).expect("a sound disk");
    drop(pages);
    let file = disk.open(path).expect("opens");
    let (superblock, _) = PageFile::read_superblock(path, &*file).expect("a superblock");
    WorkingPages::open(path.into(), file, &superblock, 16, 8).map(|_| ())
}

#[test]
fn a_map_with_lengths_that_no_page_has_is_damage() {
    open_with_map(|slots| slots).expect("a sound map");
    for places in [0, 4097, u32::MAX] {
        let error = open_with_map(|[first, second]| [first, Slot { places, ..second }]);
        let error = error.expect_err("no page has that length").to_string();
        assert!(
            error.contains(&format!("is said to take {places} places")),
            "{error}"
        );
    }
}

#[test]
fn a_map_that_names_a_place_twice_is_damage() {
    for places in [1, 2] {
        let error = open_with_map(|[first, second]| {
            let page = first.page + 1 - places;
            [
                first,
                Slot {
                    page,
                    places,
                    ..second
                },
            ]
        });
        let error = error.expect_err("a place belongs to one page").to_string();
        assert!(error.contains("two pages claim place"), "{error}");
    }
}
