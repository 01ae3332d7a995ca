//! Trees whose nodes name nodes that they must not: an error, and never an endless walk.

use super::node::{Child, Node};
use super::{BeTree, Progress, RunEdit};
use crate::contract::small_be_tree;
use crate::entry::{Entry, NoRow, Row};
use crate::key_order::U64Order;
use crate::point::PointBuf;
use bedload_pages::{Batch, Error, HeapPages, PageId, PageStore, Result};

type Tree<'p> = BeTree<U64Order, NoRow, &'p HeapPages>;

fn publish(tree: &Tree<'_>, keys: impl Iterator<Item = u64>) -> Result<()> {
    let mut batch = tree.batch()?;
    for key in keys {
        let key = U64Order::key(key);
        let (tie, row) = (0, Row::default());
        batch.put(Entry { key: &key, tie, row })?;
    }
    batch.publish().map(drop)
}

/// A tree with nodes between its root and its leaves.
fn tall(pages: &HeapPages, filter_bits: u8) -> Tree<'_> {
    let options = small_be_tree().filter_bits(filter_bits);
    let tree = BeTree::create(pages, U64Order, NoRow, options).expect("an empty tree");
    for round in 0..40 {
        publish(&tree, (0..48).map(|key| round * 100 + key)).expect("sound pages");
        while tree.maintainer().work(1000).expect("sound pages") == Progress::Paused {}
    }
    assert!(tree.node(tree.root).expect("sound").level > 1);
    tree
}

fn damage(tree: &Tree<'_>, id: PageId, change: impl FnOnce(&mut Node)) {
    let mut node = tree.node(id).expect("a sound node");
    change(&mut node);
    let batch = tree.store.batch(&[id]).expect("it is there");
    batch.commit(|pages| node.encode(pages[0]));
}

/// The leftmost and the rightmost node of level 1.
fn outer_parents(tree: &Tree<'_>) -> [PageId; 2] {
    let at_end = |choose: fn(&Node) -> PageId| {
        let mut id = tree.root;
        loop {
            let node = tree.node(id).expect("a sound node");
            if node.level == 1 {
                return id;
            }
            id = choose(&node);
        }
    };
    [
        at_end(|node| node.children[0].page),
        at_end(|node| node.children[node.children.len() - 1].page),
    ]
}

fn last_parent(tree: &Tree<'_>) -> PageId {
    let [_, last] = outer_parents(tree);
    last
}

#[test]
fn a_node_that_is_named_twice_is_not_edited_twice() {
    let pages = HeapPages::new(1536);
    let tree = tall(&pages, 8);
    damage(&tree, last_parent(&tree), |node| {
        node.children[1].page = node.children[0].page;
    });
    let edited = tree.edit_runs(&mut |_, _| Ok(RunEdit::Keep));
    assert!(matches!(edited, Err(Error::Corrupt { .. })), "{edited:?}");
}

#[test]
fn a_way_that_leads_in_a_circle_ends() {
    // A run with a filter is looked for a place before it is written, one without is not.
    for (filter_bits, names_itself) in [(8, false), (8, true), (0, false), (0, true)] {
        let pages = HeapPages::new(1536);
        let tree = tall(&pages, filter_bits);
        let parent = last_parent(&tree);
        damage(&tree, parent, |node| {
            node.children.last_mut().expect("a child").page = if names_itself { parent } else { tree.root };
        });
        let published = publish(&tree, 1_000_000..1_000_010);
        assert!(matches!(published, Err(Error::Corrupt { .. })), "{published:?}");
    }
}

#[test]
fn a_run_goes_to_no_node_that_is_not_a_leaf() {
    for filter_bits in [8, 0] {
        let pages = HeapPages::new(1536);
        let tree = tall(&pages, filter_bits);
        let [other, parent] = outer_parents(&tree);
        assert_ne!(other, parent);
        damage(&tree, parent, |node| {
            node.children.last_mut().expect("a child").page = other;
        });
        let before = tree.node(other).expect("sound");
        let published = publish(&tree, 1_000_000..1_000_010);
        let is_named = matches!(published, Err(Error::Corrupt { page, .. }) if page == other);
        assert!(is_named, "{published:?}");
        assert_eq!(tree.node(other).expect("sound"), before);
    }
}

#[test]
fn nothing_is_pushed_down_to_a_node_of_another_level() {
    // No level lies above the first of these.
    for level in [u8::MAX, 1] {
        let pages = HeapPages::new(1536);
        let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
        for _ in 0..3 {
            publish(&tree, 0..40).expect("sound pages");
        }
        let child = tree.node(tree.root).expect("sound").children[0].page;
        damage(&tree, child, |node| {
            node.level = level;
            node.children.push(Child {
                page: tree.root,
                pushed: 0,
                pending: 0,
                pivot: PointBuf::default(),
            });
        });
        let worked = tree.maintainer().work(1000);
        let is_named = matches!(worked, Err(Error::Corrupt { page, .. }) if page == child);
        assert!(is_named, "{worked:?}");
    }
}

/// A tree whose root names its oldest run twice. A merge of the second would look for it where the
/// first is, and so would a vacuum.
fn with_a_run_twice(pages: &HeapPages) -> Tree<'_> {
    let tree = BeTree::create(pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
    for _ in 0..5 {
        publish(&tree, 0..3).expect("sound pages");
    }
    damage(&tree, tree.root, |root| {
        root.runs.insert(0, root.runs[0]);
        root.children[0].pushed = 1;
    });
    tree
}

/// Repeats a step while there is more to do.
fn ends_with_damage(page: PageId, mut step: impl FnMut() -> Result<bool>) {
    let mut steps = (0..10_000).map(|_| step());
    let end = steps.find(|more| !matches!(more, Ok(true)));
    let is_named = matches!(end, Some(Err(Error::Corrupt { page: named, .. })) if named == page);
    assert!(is_named, "{end:?}");
}

#[test]
fn work_on_a_run_that_is_named_twice_ends() {
    let pages = HeapPages::new(1536);
    let tree = with_a_run_twice(&pages);
    let mut maintainer = tree.maintainer();
    ends_with_damage(tree.root, || Ok(maintainer.finish_one()? == Progress::Paused));

    let pages = HeapPages::new(1536);
    let tree = with_a_run_twice(&pages);
    let mut delete = tree.begin_bulk_delete().expect("a sound meta page");
    ends_with_damage(tree.root, || delete.step(&mut |_| false));
}
