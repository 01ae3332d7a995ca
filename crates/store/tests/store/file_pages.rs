//! Counts what trees of pages in a file read and write: with a cache of 1 % of the data, and a
//! buffer as large.

use bedload::{Error, FilePages, FilePagesOptions};
use bedload_memory::ExclusiveMap;
use bedload_memory::swa_buffer::{BufferOptions, PagedTree, SaTree};
use bedload_testkit::workload::{NearlySorted, scrambled};
use bedload_trees::bplus_tree::BPlusTreeOptions;

const ENTRY_BYTES: usize = 16;
const PAGE_BYTES: u64 = 4096;

/// Bytes that go to the file or come from it for each entry that is inserted: into a plain tree, or
/// into one with a buffer of 1 % that holds so much back of what overlaps.
fn io_bytes(ranks: &[u64], held_percent: Option<usize>) -> f64 {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = FilePagesOptions::new().cache_bytes(ranks.len() * ENTRY_BYTES / 100);
    let pages = FilePages::create(dir.path().join("pages"), options).expect("a fresh file");
    match held_percent {
        None => {
            let mut tree = PagedTree::create(&pages, BPlusTreeOptions::new()).expect("an empty tree");
            ranks.iter().for_each(|&rank| tree.insert(rank, !rank));
            finish(&pages, &tree, ranks)
        }
        Some(percent) => {
            let base =
                PagedTree::create(&pages, BPlusTreeOptions::new().split_percent(80)).expect("an empty tree");
            let mut tree = SaTree::new(base, BufferOptions::new(ranks.len() / 100).held_percent(percent));
            ranks.iter().for_each(|&rank| tree.insert(rank, !rank));
            tree.drain();
            let bytes = finish(&pages, &tree, ranks);
            assert!(tree.base().failure().is_none());
            bytes
        }
    }
}

/// Makes everything durable, takes the count, and then looks whether everything is there.
fn finish(pages: &FilePages, tree: &impl ExclusiveMap, ranks: &[u64]) -> f64 {
    pages.sync().expect("writes");
    let counts = pages.counts();
    assert!(counts.bytes_written >= (ranks.len() * ENTRY_BYTES) as u64);
    assert_eq!(counts.bytes_read, counts.reads * PAGE_BYTES);
    let (mut entries, mut from) = (Vec::new(), Some(0));
    while let Some(lower) = from {
        from = tree.read_up(lower, u64::MAX, &mut entries);
    }
    assert!(
        entries
            .into_iter()
            .eq((0..ranks.len() as u64).map(|rank| (rank, !rank)))
    );
    (counts.bytes_read + counts.bytes_written) as f64 / ranks.len() as f64
}

fn nearly_sorted(len: usize, k: f64, l: f64) -> Vec<u64> {
    let spec = NearlySorted {
        swapped_percent: k,
        displacement_percent: l,
        ..NearlySorted::new(len, 7)
    };
    spec.generate().keys
}

#[test]
fn a_buffer_saves_pages() {
    let nearly = nearly_sorted(600_000, 10.0, 5.0);
    let [plain, paper, held] = [None, Some(0), Some(60)].map(|held| io_bytes(&nearly, held));
    println!("10/5: plain {plain:.0}, paper {paper:.0}, held {held:.0} bytes an entry");
    assert!(plain >= 2.0 * paper, "{plain} {paper}");
    assert!(plain >= 8.0 * held, "{plain} {held}");

    let sorted: Vec<u64> = (0..300_000).collect();
    let [plain, held] = [None, Some(60)].map(|held| io_bytes(&sorted, held));
    println!("0/0: plain {plain:.0}, held {held:.0} bytes an entry");
    // Each entry is written once, in leaves that are full, with or without a buffer.
    assert!(plain.max(held) <= 1.3 * ENTRY_BYTES as f64, "{plain} {held}");

    let scrambled = scrambled(100_000, 7);
    let [plain, paper, held] = [None, Some(0), Some(60)].map(|held| io_bytes(&scrambled, held));
    println!("scrambled: plain {plain:.0}, paper {paper:.0}, held {held:.0} bytes an entry");
    assert!(
        held <= plain / 0.95 && paper <= plain / 0.95,
        "{plain} {paper} {held}"
    );
}

#[test]
fn pages_have_the_sizes_that_stores_have() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for bytes in [0, 512, 5000, 65_536] {
        let made = FilePages::create(
            dir.path().join("pages"),
            FilePagesOptions::new().page_bytes(bytes),
        );
        assert!(matches!(made, Err(Error::InvalidOption { value, .. }) if value == bytes));
    }
    let options = FilePagesOptions::new().page_bytes(8192);
    FilePages::create(dir.path().join("pages"), options).expect("a fresh file");
    let again = FilePages::create(dir.path().join("pages"), options);
    assert!(matches!(again, Err(Error::Io { .. })));
}
