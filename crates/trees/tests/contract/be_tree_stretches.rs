//! Stretches of a Bε-tree: one after another they are the whole, and none is long.

use std::ops::Bound;

use bedload_pages::HeapPages;
use bedload_testkit::Rng;
use bedload_trees::be_tree::{BeTree, BeTreeOptions, Progress};
use bedload_trees::{ByteOrder, Entry, KeyOrder, NoRow, Position, Row, U64Order};

const PAYLOAD_LEN: usize = 8168;
/// Entries of a leaf of a run, at most.
const LEAF_ENTRIES: u16 = 40;
const LEAVES: usize = 3;

type Place = (Vec<u8>, u64);

fn at(place: &Place) -> Position<'_> {
    Position {
        key: &place.0,
        tie: place.1,
    }
}

/// A tree of three levels with runs at each of them, and its entries: in each key several.
fn grown<O: KeyOrder>(order: O, key: impl Fn(u64) -> Vec<u8>) -> (BeTree<O, NoRow, HeapPages>, Vec<Place>) {
    let options = BeTreeOptions::new().shrunk(256).max_entries(LEAF_ENTRIES);
    let tree = BeTree::create(HeapPages::new(PAYLOAD_LEN), order, NoRow, options).expect("a tree");
    let mut rng = Rng::new(7);
    let mut all = Vec::new();
    for round in 0..60 {
        let mut places: Vec<Place> = (0..700)
            .map(|number| (key(rng.below(3000)), round * 700 + number))
            .collect();
        places.sort();
        let mut batch = tree.batch().expect("begun");
        for place in &places {
            let row = Row::default();
            let (key, tie) = (&place.0[..], place.1);
            batch.put(Entry { key, tie, row }).expect("ascending");
        }
        batch.publish().expect("published");
        // The last rounds stay above.
        let mut maintainer = tree.maintainer();
        while round < 55 && maintainer.work(100).expect("maintained") == Progress::Paused {}
        all.append(&mut places);
    }
    all.sort();
    (tree, all)
}

/// How many entries lie between two bounds.
fn count<O: KeyOrder>(
    tree: &BeTree<O, NoRow, HeapPages>,
    from: Bound<Position<'_>>,
    to: Bound<Position<'_>>,
) -> usize {
    let mut cursor = tree.range(from, to).expect("a range");
    let mut count = 0;
    while cursor.next_entry().expect("sound").is_some() {
        count += 1;
    }
    count
}

/// Goes through a tree by stretches from a bound, in a direction: how many entries each has.
fn lengths<O: KeyOrder>(
    tree: &BeTree<O, NoRow, HeapPages>,
    begin: Bound<Place>,
    is_ascending: bool,
) -> Vec<usize> {
    let mut begin = begin;
    let mut lengths = Vec::new();
    loop {
        let from = begin.as_ref().map(at);
        let mut key = Vec::new();
        let tie = tree
            .stretch_end(from, is_ascending, LEAVES, &mut key)
            .expect("sound");
        let end = tie.map(|tie| (key, tie));
        let length = match (&end, is_ascending) {
            (Some(end), true) => count(tree, from, Bound::Excluded(at(end))),
            (Some(end), false) => count(tree, Bound::Included(at(end)), from),
            (None, true) => count(tree, from, Bound::Unbounded),
            (None, false) => count(tree, Bound::Unbounded, from),
        };
        lengths.push(length);
        assert!(lengths.len() < 100_000, "stretches get on");
        begin = match end {
            Some(end) if is_ascending => Bound::Included(end),
            Some(end) => Bound::Excluded(end),
            None => return lengths,
        };
    }
}

fn stretches_are_the_whole<O: KeyOrder>(order: O, key: impl Fn(u64) -> Vec<u8>) {
    let (tree, all) = grown(order, key);
    let levels = tree.levels().expect("sound");
    assert!(
        levels.len() > 2 && levels.iter().all(|level| level.runs > 0),
        "{levels:?}"
    );
    // Those of one leaf interval: a run of its own, and of each level above what it has room for.
    let most = (LEAVES + 1) * usize::from(LEAF_ENTRIES) * 60;
    for is_ascending in [true, false] {
        let mut begins = vec![(Bound::Unbounded, all.len())];
        for middle in [1, 1000, all.len() / 2, all.len() - 1] {
            let place = all[middle].clone();
            begins.push(match is_ascending {
                true => (Bound::Included(place), all.len() - middle),
                false => (Bound::Excluded(place), middle),
            });
        }
        for (begin, expected) in begins {
            let lengths = lengths(&tree, begin.clone(), is_ascending);
            assert_eq!(
                lengths.iter().sum::<usize>(),
                expected,
                "{begin:?} {is_ascending}"
            );
            let (longest, count) = (lengths.iter().max().copied().unwrap_or(0), lengths.len());
            assert!(longest <= most, "{longest} entries in a stretch of {begin:?}");
            // A run of a leaf alone has several stretches.
            let leaves = usize::try_from(levels[0].nodes).expect("a few");
            assert!(
                expected < all.len() || count > 2 * leaves,
                "{count} stretches, {leaves} leaves"
            );
        }
    }
}

#[test]
fn stretches_of_numbers_are_the_whole() {
    stretches_are_the_whole(U64Order, |number| U64Order::key(number).to_vec());
}

#[test]
fn stretches_of_strings_are_the_whole() {
    // Prefixes are equal, and say nothing.
    stretches_are_the_whole(ByteOrder, |number| {
        format!("the same start {number:05}").into_bytes()
    });
}
