//! A schedule that stops at any of its commits.

use std::ops::Bound;

use super::counts::Counts;
use super::history::{History, Place, State};
use super::keys::NumberedKeys;
use super::rows::seen;
use super::schedule::{Change, World, config};
use crate::be_tree::BeTree;
use crate::entry::FixedRow;
use bedload_pages::{Fault, FaultyPages, VacuumStore};

/// Lets stores crash before and after each commit of a schedule of `steps` steps, `skip` commits
/// apart; opens the tree again from its pages, checks its structure and its entries, sweeps what
/// was leaked, and goes on with it.
///
/// # Panics
///
/// If a crash has harmed more than what was under way.
pub fn check_be_tree_crashes<O: NumberedKeys, S: VacuumStore>(
    order: &O,
    make: impl Fn() -> S,
    seed: u64,
    steps: u64,
    skip: usize,
) -> Counts {
    let mut counts = Counts::default();
    for fault in [
        Fault::CrashBeforeCommit as fn(u64) -> Fault,
        Fault::CrashAfterCommit,
    ] {
        for commit in (1..).step_by(skip) {
            let (more, has_crashed) = crash(order, make(), seed, steps, fault(commit));
            counts += more;
            if !has_crashed {
                break;
            }
        }
    }
    counts
}

fn crash<O: NumberedKeys, S: VacuumStore>(
    order: &O,
    store: S,
    seed: u64,
    steps: u64,
    fault: Fault,
) -> (Counts, bool) {
    let meta = BeTree::create(&store, order.clone(), FixedRow::<16>, config())
        .expect("an empty tree")
        .meta();
    let pages = FaultyPages::new(store, [fault]);
    let mut history = History::default();
    let mut counts = Counts::default();
    let (now, doubtful) = {
        let tree = BeTree::open(&pages, meta, order.clone(), FixedRow, config()).expect("opened");
        let mut world = World::new(&tree, &mut history, seed, 0);
        for _ in 0..steps {
            world.step(&|| pages.has_crashed());
            if pages.has_crashed() {
                break;
            }
        }
        counts += world.counts;
        (world.now(), std::mem::take(&mut world.doubtful))
    };
    let has_crashed = pages.has_crashed();
    counts.crashes += u64::from(has_crashed);
    let store = pages.recover();
    let tree = BeTree::open(&store, meta, order.clone(), FixedRow, config()).expect("opened again");
    let report = tree.verify().expect("sound pages");
    assert!(report.is_sound(), "{fault:?}: {:?}", report.problems);
    let swept = store.sweep(&|page| report.pages.contains(&page)).expect("swept");
    counts.swept += swept.len() as u64;
    compare(&tree, &mut history, &doubtful, now, fault);
    // Go on with the recovered tree.
    let mut world = World::new(&tree, &mut history, seed + 1, now);
    for _ in 0..200 {
        world.step(&|| false);
    }
    world.settle();
    counts += world.counts;
    (counts, has_crashed)
}

/// Every entry is as it was. The batch under way is there as a whole or not at all; what was being
/// deleted in bulk is taken as it is found.
fn compare<O: NumberedKeys, S: VacuumStore>(
    tree: &BeTree<O, FixedRow<16>, &S>,
    history: &mut History,
    doubtful: &[Change],
    now: u64,
    fault: Fault,
) {
    let mut found: Vec<(Place, u64)> = Vec::new();
    let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded).expect("unbounded");
    while let Some(entry) = cursor.next_entry().expect("sound pages") {
        found.push(seen(tree.order(), &entry));
    }
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{fault:?}");
    let value_at = |place: Place| {
        let at = found.binary_search_by_key(&place, |&(place, _)| place);
        at.ok().map(|at| found[at].1)
    };
    let is_there = |&(place, value): &Change| value_at(place) == value;
    if doubtful.iter().all(is_there) {
        for &(place, value) in doubtful {
            history.set(place, now, State::of(value));
        }
    }
    for &(place, value) in &found {
        assert!(
            history.may_be(place, value, now),
            "{fault:?}: {place:?} is {value}, and should be {:?}",
            history.now(place)
        );
    }
    let expected: Vec<(Place, State)> = history.present().collect();
    for (place, state) in expected {
        match (state, value_at(place)) {
            (State::Value(expected), found) => {
                assert_eq!(found, Some(expected), "{fault:?}: {place:?}");
            }
            (_, found) => history.set(place, now, State::of(found)),
        }
    }
}
