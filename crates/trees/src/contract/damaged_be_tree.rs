//! A Bε-tree on pages whose bytes a fuzzer chooses.

use std::ops::Bound;

use super::damaged_tree::{change, with_row};
use crate::be_tree::{BeTree, BeTreeOptions, PageVisitor, Progress, RunEdit};
use crate::entry::{Columns, Entry, NoRow, Position, RowLayout};
use crate::key_order::{ByteOrder, KeyOrder, U64Order};
use crate::run::{RunBuilder, RunOptions};
use bedload_pages::{HeapPages, PageId, Result};

const PAYLOAD_LEN: usize = 1024;
const ROUNDS: u64 = 6;
const PER_ROUND: u64 = 10;
/// More steps than any use of these trees takes.
const STEPS_MAX: usize = 20_000;

type Tree<'p, O, L> = BeTree<O, L, &'p HeapPages>;

/// Builds a small tree of several levels, changes its pages as `data` says and uses it: whatever is
/// in the pages, each call must return, with an answer or an error. For fuzzers; panics if a cursor
/// or maintenance does not end.
///
/// The first byte of `data` chooses among four trees. Changes follow, as for
/// [`check_damaged_tree`](super::check_damaged_tree).
///
/// ```
/// bedload_trees::contract::check_damaged_be_tree(&[0, 1, 2, 0, 1, 0xff]);
/// ```
pub fn check_damaged_be_tree(data: &[u8]) {
    let Some((&which, changes)) = data.split_first() else {
        return;
    };
    let config = BeTreeOptions::new()
        .fan_out(2)
        .runs(2)
        .stage_runs(2)
        .stage_entries(8)
        .leaf_entries(8)
        .pending_entries(16)
        .max_entries(3)
        .filter_bits(if which % 2 == 0 { 0 } else { 8 });
    if which % 4 < 2 {
        let key = |number| U64Order::key(number * 7).to_vec();
        check(U64Order, NoRow, config, changes, key);
    } else {
        let key = |number| format!("key {number:04}").into_bytes();
        check(ByteOrder, Columns::new(&[3], 2), config, changes, key);
    }
}

fn check<O: KeyOrder, L: RowLayout>(
    order: O,
    layout: L,
    config: BeTreeOptions,
    data: &[u8],
    key: impl Fn(u64) -> Vec<u8>,
) {
    let pages = HeapPages::new(PAYLOAD_LEN);
    let tree = BeTree::create(&pages, order.clone(), layout.clone(), config).expect("pages in memory");
    grow(&tree, &key).expect("a sound tree");
    let report = tree.verify().expect("pages in memory");
    assert!(report.is_sound() && report.height > 2 && report.runs_above > 1);
    let all: Vec<PageId> = report.pages.into_iter().collect();
    change(&pages, PAYLOAD_LEN, &all, data);

    let _ = tree.verify();
    let Ok(tree) = BeTree::open(&pages, tree.meta(), order, layout, config) else {
        return;
    };
    read(&tree, &key);
    write(&tree, &key);
    edit(&tree);
    let mut maintainer = tree.maintainer();
    to_the_end(|| Ok(maintainer.drain(8)? == Progress::Paused));
    drop(maintainer);
    drain(&tree, Bound::Unbounded);
    let _ = tree.verify();
}

/// Entries in order at the right edge, and late ones that replace or remove others, some of which
/// are left above the leaves.
fn grow<O: KeyOrder, L: RowLayout>(tree: &Tree<'_, O, L>, key: &impl Fn(u64) -> Vec<u8>) -> Result<()> {
    for round in 0..ROUNDS {
        let begin = round * PER_ROUND;
        publish(tree, key, (begin..begin + PER_ROUND).map(|number| (number, true)))?;
        let late = (round % 5..begin).step_by(7);
        publish(tree, key, late.map(|number| (number, number % 4 != 0)))?;
        if round + 2 < ROUNDS {
            while tree.maintainer().work(1000)? == Progress::Paused {}
        }
    }
    Ok(())
}

/// Publishes numbers that ascend: entries, or else tombstones.
fn publish<O: KeyOrder, L: RowLayout>(
    tree: &Tree<'_, O, L>,
    key: &impl Fn(u64) -> Vec<u8>,
    numbers: impl Iterator<Item = (u64, bool)>,
) -> Result<()> {
    let mut batch = tree.batch()?;
    for (number, is_entry) in numbers {
        let (key, tie) = (key(number), number % 3);
        if is_entry {
            with_row(tree.layout(), number, |row| {
                batch.put(Entry { key: &key, tie, row })
            })?;
        } else {
            batch.remove(&key, tie)?;
        }
    }
    batch.publish().map(drop)
}

/// Repeats a step until it says that there is no more to do, or fails.
fn to_the_end(mut step: impl FnMut() -> Result<bool>) {
    let mut steps = 0;
    while let Ok(true) = step() {
        steps += 1;
        assert!(steps < STEPS_MAX, "it does not end");
    }
}

struct Ignored;

impl PageVisitor for Ignored {
    fn node(&mut self, _page: PageId) {}

    fn page(&mut self, _page: PageId) {}
}

fn read<O: KeyOrder, L: RowLayout>(tree: &Tree<'_, O, L>, key: &impl Fn(u64) -> Vec<u8>) {
    let _ = tree.levels();
    let _ = tree.backlog();
    let _ = tree.probe_filters();
    let _ = tree.visit_pages(&mut Ignored);
    drain(tree, Bound::Unbounded);
    for number in (0..ROUNDS * PER_ROUND + 20).step_by(29) {
        let (key, tie) = (key(number), number % 3);
        let position = Position { key: &key, tie };
        let _ = tree.get_with(&key, tie, |entry| entry.prefix());
        drain(tree, Bound::Excluded(position));
        let mut end = Vec::new();
        for is_ascending in [true, false] {
            let _ = tree.stretch_end(Bound::Included(position), is_ascending, 2, &mut end);
        }
        // As lookups of a key do: filters tell which runs may have it.
        if let Ok(mut cursor) = tree.range(Bound::Included(position), Bound::Included(position)) {
            to_the_end(|| Ok(cursor.next_entry()?.is_some()));
        }
    }
}

/// Reads to the end in both directions, or until an error.
fn drain<O: KeyOrder, L: RowLayout>(tree: &Tree<'_, O, L>, from: Bound<Position<'_>>) {
    for cursor in [
        tree.range(from, Bound::Unbounded),
        tree.range_back(from, Bound::Unbounded),
    ] {
        let Ok(mut cursor) = cursor else { continue };
        cursor.skip_dead();
        let mut scratch = Vec::new();
        to_the_end(|| {
            let entry = cursor.next_entry()?;
            Ok(entry.map(|entry| entry.key(&mut scratch).len()).is_some())
        });
    }
}

fn write<O: KeyOrder, L: RowLayout>(tree: &Tree<'_, O, L>, key: &impl Fn(u64) -> Vec<u8>) {
    let behind = ROUNDS * PER_ROUND;
    for round in 0..4 {
        let late = (round..behind).step_by(11);
        let _ = publish(tree, key, late.map(|number| (number, number % 5 != 0)));
        let begin = behind + round * PER_ROUND;
        let _ = publish(tree, key, (begin..begin + 4).map(|number| (number, true)));
        let _ = publish_sealed(tree, key, begin + 4..begin + 8);
        let mut maintainer = tree.maintainer();
        if round < 3 {
            to_the_end(|| Ok(maintainer.work(2)? == Progress::Paused));
        } else {
            to_the_end(|| Ok(maintainer.merge_newest(8)? == Progress::Paused));
            to_the_end(|| Ok(maintainer.tidy(8)? == Progress::Paused));
        }
    }
    let dead: Vec<Vec<u8>> = (0..behind).step_by(3).map(key).collect();
    let dead: Vec<Position<'_>> = dead.iter().map(|key| Position { key, tie: 0 }).collect();
    let _ = tree.hint_dead(&dead, &mut || Ok(true));
    if let Ok(mut delete) = tree.begin_bulk_delete() {
        to_the_end(|| delete.step(&mut |tie| tie == 1));
    }
}

/// As batches do, with a run that was written elsewhere and has no filter.
fn publish_sealed<O: KeyOrder, L: RowLayout>(
    tree: &Tree<'_, O, L>,
    key: &impl Fn(u64) -> Vec<u8>,
    numbers: impl Iterator<Item = u64>,
) -> Result<()> {
    if !tree.order().prefix_is_exact() {
        return Ok(());
    }
    let options = RunOptions::new().max_entries(3);
    let mut builder = RunBuilder::new(tree.store(), tree.order().clone(), tree.layout().clone(), options)?;
    for number in numbers {
        let (key, tie) = (key(number), number % 3);
        with_row(tree.layout(), number, |row| {
            builder.push(Entry { key: &key, tie, row })
        })?;
    }
    let run = builder.finish()?;
    tree.sealed(run).publish().map(drop)
}

/// Takes out some of the runs.
fn edit<O: KeyOrder, L: RowLayout>(tree: &Tree<'_, O, L>) {
    if !tree.order().prefix_is_exact() {
        return;
    }
    let mut runs = 0;
    let _ = tree.edit_runs(&mut |run, _| {
        runs += 1;
        Ok(if runs % 3 == 0 {
            RunEdit::Replace {
                with: None,
                retired: vec![run.root],
            }
        } else {
            RunEdit::Keep
        })
    });
}
