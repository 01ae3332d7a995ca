//! A tree on pages that can only be read, and that nobody latches.

use std::collections::HashMap;
use std::ops::Bound;

use bedload_pages::{Error, HeapPages, PageId, PageRead, Result};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{Entry, FixedRow, Row, U64Order};

/// Pages as they were once.
struct Frozen {
    payload_len: usize,
    pages: HashMap<PageId, Box<[u8]>>,
}

impl PageRead for Frozen {
    type Guard<'s> = &'s [u8];

    fn payload_len(&self) -> usize {
        self.payload_len
    }

    fn read(&self, id: PageId) -> Result<&[u8]> {
        let page = self.pages.get(&id).map(AsRef::as_ref);
        page.ok_or_else(|| Error::store(std::io::Error::other("no such page")))
    }
}

#[test]
fn a_snapshot_is_read_while_the_tree_goes_on() {
    let pages = HeapPages::new(512);
    let config = BPlusTreeOptions::new().max_entries(5);
    let tree = BPlusTree::create(&pages, U64Order, FixedRow::<8>, config).expect("created");
    let insert = |key: u64| {
        let key = U64Order::key(key);
        let row = Row {
            fixed: &key,
            variable: &[],
        };
        tree.insert(Entry {
            key: &key,
            tie: 0,
            row,
        })
        .expect("inserted");
    };
    (0..1000).for_each(|key| insert(key * 2));
    let report = tree.verify().expect("verified");
    let copy = |&page: &PageId| (page, pages.read(page).expect("read").as_ref().into());
    let frozen = Frozen {
        payload_len: 512,
        pages: report.pages.iter().map(copy).collect(),
    };
    let snapshot = BPlusTree::open(&frozen, tree.root(), U64Order, FixedRow::<8>, config).expect("opened");
    (0..1000).for_each(|key| insert(key * 2 + 1));
    for key in 0..900 {
        assert!(tree.remove(&U64Order::key(key), 0).expect("removed"));
    }

    assert_eq!(snapshot.verify().expect("verified"), report);
    assert!(snapshot.get(&U64Order::key(501), 0).expect("read").is_none());
    assert!(snapshot.get(&U64Order::key(500), 0).expect("read").is_some());
    let mut backwards = snapshot
        .range_back(Bound::Unbounded, Bound::Unbounded)
        .expect("a cursor");
    let mut expected = (0..1000_u64).rev().map(|key| key * 2);
    while let Some(entry) = backwards.next_entry().expect("an entry") {
        assert_eq!(Some(entry.prefix()), expected.next());
    }
    assert_eq!(expected.next(), None);
}
