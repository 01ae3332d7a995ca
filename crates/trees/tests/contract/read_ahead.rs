//! Cursors have their store fetch the right leaves ahead.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Bound, RangeInclusive};

use bedload_pages::{HeapPages, PageId, PageRead, Result};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, Progress};
use bedload_trees::bplus_tree;
use bedload_trees::bplus_tree::BPlusTree;
use bedload_trees::run::{RunBuilder, RunOptions, RunReader};
use bedload_trees::{Entry, NoRow, Position, Row, U64Order};

/// A request of a reader to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Read(PageId),
    Ahead(PageId),
}

/// Writes down what it is asked.
#[derive(Clone, Copy)]
struct Observed<'s> {
    pages: &'s HeapPages,
    asked: &'s RefCell<Vec<Asked>>,
    /// Whether it says that its reads wait for a disk.
    waits: bool,
}

impl PageRead for Observed<'_> {
    type Guard<'g>
        = <HeapPages as PageRead>::Guard<'g>
    where
        Self: 'g;

    fn payload_len(&self) -> usize {
        self.pages.payload_len()
    }

    fn read(&self, id: PageId) -> Result<Self::Guard<'_>> {
        self.asked.borrow_mut().push(Asked::Read(id));
        self.pages.read(id)
    }

    fn read_ahead(&self, ids: &[PageId]) {
        self.asked
            .borrow_mut()
            .extend(ids.iter().copied().map(Asked::Ahead));
    }

    fn reads_wait(&self) -> bool {
        self.waits
    }
}

const KEYS: u64 = 60_000;

/// The keys ascend, with differences that do not pack well.
fn key(number: u64) -> [u8; 8] {
    U64Order::key(number << 40 | (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24))
}

fn entry(key: &[u8; 8]) -> Entry<'_> {
    let row = Row::default();
    Entry { key, tie: 0, row }
}

type Bounds<'k> = (Bound<Position<'k>>, Bound<Position<'k>>);

const EVERYTHING: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Lets `scan` go up and down and looks at what it asks for: long ranges name each leaf once before
/// they read it, and not much earlier; short ones name none, and bounded ones none beyond their
/// bounds. `leaves` are all leaves, ascending.
fn check(leaves: &[PageId], asked: &RefCell<Vec<Asked>>, scan: impl Fn(Bounds<'_>, bool) -> u64) {
    assert!(leaves.len() > 60, "{} leaves", leaves.len());
    asked.take();
    for is_ascending in [true, false] {
        assert_eq!(scan(EVERYTHING, is_ascending), KEYS);
        let mut way = leaves.to_vec();
        if !is_ascending {
            way.reverse();
        }
        // The first two are read before it is known that the range is long.
        way.drain(..2);
        let (mut told, mut ahead) = (BTreeSet::new(), BTreeSet::new());
        for asked in asked.take() {
            match asked {
                Asked::Read(id) => {
                    ahead.remove(&id);
                    assert!(
                        !way.contains(&id) || told.contains(&id),
                        "page {id} is named late"
                    );
                }
                Asked::Ahead(id) => {
                    assert!(told.insert(id), "page {id} is named twice");
                    ahead.insert(id);
                    assert!(ahead.len() <= 1 + 32, "{} leaves at once", ahead.len());
                }
            }
        }
        assert_eq!(told, way.into_iter().collect());

        let scan = |keys: RangeInclusive<u64>| {
            let (from, to) = (key(*keys.start()), key(*keys.end()));
            let bounds = [&from, &to].map(|key| Bound::Included(Position::of_key(key)));
            assert_eq!(scan(bounds.into(), is_ascending), keys.count() as u64);
            asked.take()
        };
        let short = scan(1000..=1020);
        assert!(
            short.iter().all(|asked| matches!(asked, Asked::Read(_))),
            "{short:?}"
        );
        let bounded = scan(KEYS / 3..=KEYS / 2);
        let read: BTreeSet<PageId> = (bounded.iter())
            .filter_map(|&asked| match asked {
                Asked::Read(id) => Some(id),
                Asked::Ahead(_) => None,
            })
            .collect();
        let ahead: Vec<PageId> = (bounded.iter())
            .filter_map(|&asked| match asked {
                Asked::Read(_) => None,
                Asked::Ahead(id) => Some(id),
            })
            .collect();
        assert!(ahead.len() > 5, "{bounded:?}");
        assert!(ahead.iter().all(|id| read.contains(id)), "{bounded:?}");
    }
}

#[test]
fn long_ranges_of_runs_are_fetched_ahead() {
    let pages = HeapPages::new(4096);
    let config = RunOptions::new();
    let mut builder = RunBuilder::new(&pages, U64Order, NoRow, config).expect("begun");
    for number in 0..KEYS {
        builder.push(entry(&key(number))).expect("ascending");
    }
    let run = builder.finish().expect("finished").expect("entries");
    let asked = RefCell::default();
    let (pages, asked) = (&pages, &asked);
    let waits = false;
    let store = Observed { pages, asked, waits };
    let reader = RunReader::new(store, U64Order, NoRow, config, run);
    assert_eq!(run.height, 2);
    let leaves = reader.pages().expect("sound pages").leaves;
    check(&leaves, asked, |(from, to), is_ascending| {
        let cursor = if is_ascending {
            reader.range(from, to)
        } else {
            reader.range_back(from, to)
        };
        let mut cursor = cursor.expect("bounds of the order's width");
        let mut count = 0;
        while cursor.next_entry().expect("sound pages").is_some() {
            count += 1;
        }
        count
    });
}

#[test]
fn long_ranges_of_trees_are_fetched_ahead() {
    let pages = HeapPages::new(8168);
    let config = bplus_tree::BPlusTreeOptions::new();
    let tree = BPlusTree::create(&pages, U64Order, NoRow, config).expect("created");
    for number in 0..KEYS {
        tree.insert(entry(&key(number))).expect("inserted");
    }
    let asked = RefCell::default();
    let (pages, asked) = (&pages, &asked);
    let waits = false;
    let store = Observed { pages, asked, waits };
    let tree = BPlusTree::open(store, tree.root(), U64Order, NoRow, config).expect("opened");
    assert_eq!(tree.verify().expect("sound pages").height, 2);
    let mut cursor = tree.range(EVERYTHING.0, EVERYTHING.1).expect("unbounded");
    let mut leaves = Vec::new();
    while cursor.next_leaf().expect("sound pages").is_some() {
        leaves.extend(asked.take().iter().rev().find_map(|&asked| match asked {
            Asked::Read(id) => Some(id),
            Asked::Ahead(_) => None,
        }));
    }
    check(&leaves, asked, |(from, to), is_ascending| {
        let cursor = if is_ascending {
            tree.range(from, to)
        } else {
            tree.range_back(from, to)
        };
        let mut cursor = cursor.expect("bounds of the order's width");
        let mut count = 0;
        while cursor.next_entry().expect("sound pages").is_some() {
            count += 1;
        }
        count
    });
}

/// A tree of runs, most of which lie over one another, and of some that come behind them all. The
/// leaves of the tree have runs, too.
fn fill(tree: &BeTree<U64Order, NoRow, &HeapPages>) {
    for batch in 0..40_u64 {
        let mut rows = tree.batch().expect("begun");
        for number in 0..1000 {
            rows.put(entry(&key(number * 40 + batch))).expect("ascending");
        }
        rows.publish().expect("published");
        while batch < 35 && tree.maintainer().work(100_000).expect("sound pages") == Progress::Paused {}
    }
    let mut rows = tree.batch().expect("begun");
    for number in 0..1000 {
        rows.put(entry(&key(100_000 + number))).expect("ascending");
    }
    rows.publish().expect("published");
}

#[test]
fn lookups_and_short_ranges_announce_a_page_of_each_run_where_reads_wait() {
    let pages = HeapPages::new(4096);
    let config = BeTreeOptions::new().shrunk(64).filter_bits(12);
    let tree = BeTree::create(&pages, U64Order, NoRow, config).expect("created");
    fill(&tree);
    let (meta, asked) = (tree.meta(), RefCell::default());
    let (pages, asked) = (&pages, &asked);
    // Reads the entries of some keys in one direction, and returns the pages that were asked for.
    let scan = |waits, keys: RangeInclusive<u64>, is_ascending| {
        let store = Observed { pages, asked, waits };
        let tree = BeTree::open(store, meta, U64Order, NoRow, config).expect("opened");
        let (from, to) = (key(*keys.start()), key(*keys.end()));
        let [from, to] = [&from, &to].map(|key| Bound::Included(Position::of_key(key)));
        asked.take();
        let cursor = if is_ascending {
            tree.range(from, to)
        } else {
            tree.range_back(from, to)
        };
        let mut cursor = cursor.expect("bounds of the order's width");
        let mut count = 0;
        while cursor.next_entry().expect("sound pages").is_some() {
            count += 1;
        }
        assert_eq!(count, keys.count());
        asked.take()
    };
    let (mut scans, mut points, mut runs, mut others) = (0, 0, 0, 0);
    for number in (1000..39_000).step_by(611) {
        for is_ascending in [true, false] {
            for keys in [number..=number, number..=number + 30] {
                let is_point = keys.clone().count() == 1;
                let calm = scan(false, keys.clone(), is_ascending);
                assert!(
                    calm.iter().all(|asked| matches!(asked, Asked::Read(_))),
                    "{calm:?}"
                );
                let asked = scan(true, keys, is_ascending);
                let (mut ahead, mut read) = (BTreeSet::new(), BTreeSet::new());
                for asked in asked {
                    match asked {
                        Asked::Ahead(id) => {
                            // A range may go on in the same page in the next leaf's interval.
                            let is_new = ahead.insert(id) && !read.contains(&id);
                            assert!(is_new || !is_point, "page {id} is announced late");
                        }
                        Asked::Read(id) => drop(read.insert(id)),
                    }
                }
                assert!(ahead.is_subset(&read), "{ahead:?} {read:?}");
                scans += 1;
                others += read.len() - ahead.len();
                points += usize::from(is_point && !ahead.is_empty());
                runs += ahead.len();
            }
        }
    }
    assert!(points > 100 && runs > 1000, "{points} lookups, {runs} pages");
    // The nodes of the tree, and some pages that nothing was to be read beside.
    assert!(others <= 5 * scans, "{scans} scans, {others} other pages");
}
