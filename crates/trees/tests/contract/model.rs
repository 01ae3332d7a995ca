//! Every operation of the B+-tree against a `BTreeMap`, with rows of every shape and keys that
//! share ties.

use std::collections::BTreeMap;
use std::ops::Bound;

use bedload_pages::{Error, HeapPages, MimicPages, PageStore};
use bedload_testkit::Rng;
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions, Cursor, OwnedEntry, OwnedRow};
use bedload_trees::{
    ByteOrder, Columns, Entries, Entry, FixedRow, I64Order, KeyOrder, NoRow, Position, Row, RowLayout,
    U64Order,
};
use proptest::prelude::*;

use bedload_trees::contract::{CarelessOrder, canonical};

use super::removal::remove_between;

/// An order with a supply of keys.
pub(crate) trait Supply: KeyOrder {
    /// A key; equal numbers give equal keys, not necessarily equal bytes.
    fn key(&self, number: u64, spelling: u64) -> Vec<u8>;

    /// Bytes that are equal for equal keys and ordered by `memcmp` as the keys are.
    fn canonical(&self, key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

impl Supply for U64Order {
    fn key(&self, number: u64, _spelling: u64) -> Vec<u8> {
        Self::key(number).into()
    }
}

impl Supply for I64Order {
    fn key(&self, number: u64, _spelling: u64) -> Vec<u8> {
        Self::key(number.cast_signed() - 300).into()
    }
}

impl Supply for ByteOrder {
    fn key(&self, number: u64, _spelling: u64) -> Vec<u8> {
        let mut key =
            format!("{}/{number}", ["a-common-prefix", "", "b"][(number % 3) as usize]).into_bytes();
        key.truncate(24);
        key
    }
}

impl Supply for CarelessOrder {
    fn key(&self, number: u64, spelling: u64) -> Vec<u8> {
        let mut key = format!("key-{number:x}").into_bytes();
        if spelling % 2 == 1 {
            key.make_ascii_uppercase();
        }
        key.extend((0..spelling % 5).map(|_| b' '));
        key
    }

    fn canonical(&self, key: &[u8]) -> Vec<u8> {
        canonical(key)
    }
}

/// A row of any layout, its bytes drawn from `seed`.
pub(crate) fn row(layout: &impl RowLayout, seed: u64) -> OwnedRow {
    let mut rng = Rng::new(seed);
    let mut bytes = |len: usize| {
        (0..len)
            .map(|_| rng.next_u64().to_le_bytes()[0])
            .collect::<Vec<u8>>()
    };
    let fixed = bytes(layout.fixed_len());
    let variable = (0..layout.variable_columns())
        .map(|column| bytes(((seed >> (8 * column)) % 7) as usize))
        .collect();
    OwnedRow { fixed, variable }
}

/// Calls `use_entries` with the entries borrowed.
pub(crate) fn borrowed<R>(
    entries: &[OwnedEntry],
    use_entries: impl FnOnce(&mut dyn Iterator<Item = Entry<'_>>) -> R,
) -> R {
    let variable: Vec<Vec<&[u8]>> = entries
        .iter()
        .map(|entry| entry.row.variable.iter().map(Vec::as_slice).collect())
        .collect();
    let mut entries = entries.iter().zip(&variable).map(|(entry, variable)| Entry {
        key: &entry.key,
        tie: entry.tie,
        row: Row {
            fixed: &entry.row.fixed,
            variable,
        },
    });
    use_entries(&mut entries)
}

/// A key and a tie.
type Id = (Vec<u8>, u64);

pub(crate) type Oracle = BTreeMap<Id, OwnedEntry>;

/// An operation: which, and two numbers to take its operands from.
pub(crate) type Operation = (u8, u64, u64);

/// A tree and what it should hold.
pub(crate) struct Checked<O: KeyOrder, L: RowLayout, S: PageStore> {
    pub(crate) tree: BPlusTree<O, L, S>,
    pub(crate) oracle: Oracle,
    /// Numbers of keys lie below this.
    pub(crate) numbers: u64,
    pub(crate) ties: u64,
}

impl<O: Supply, L: RowLayout, S: PageStore> Checked<O, L, S> {
    fn place(&self, number: u64, spelling: u64) -> Id {
        let key = self.tree.order().key(number / self.ties % self.numbers, spelling);
        (key, number % self.ties)
    }

    fn entry(&self, number: u64, seed: u64) -> OwnedEntry {
        let (key, tie) = self.place(number, seed);
        OwnedEntry {
            key,
            tie,
            row: row(self.tree.layout(), seed),
        }
    }

    fn id(&self, key: &[u8], tie: u64) -> Id {
        (self.tree.order().canonical(key), tie)
    }

    fn bounds(&self, a: u64, b: u64) -> (Bound<Id>, Bound<Id>) {
        let bound = |number: u64, kind: u64| match kind % 5 {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.place(number, kind)),
            _ => Bound::Excluded(self.place(number, kind)),
        };
        let (low, high) = (a.min(b), a.max(b).min(a.min(b) + self.numbers * self.ties / 4));
        // Now and then the wrong way round.
        if a % 16 == 3 {
            (bound(high, a), bound(low, b))
        } else {
            (bound(low, a), bound(high, b))
        }
    }

    fn within(&self, from: &Bound<Id>, to: &Bound<Id>) -> Vec<OwnedEntry> {
        let id = |(key, tie): &Id| self.id(key, *tie);
        let (from, to) = (from.as_ref().map(id), to.as_ref().map(id));
        let is_above = |id: &Id| match &from {
            Bound::Unbounded => true,
            Bound::Included(from) => id >= from,
            Bound::Excluded(from) => id > from,
        };
        let is_below = |id: &Id| match &to {
            Bound::Unbounded => true,
            Bound::Included(to) => id <= to,
            Bound::Excluded(to) => id < to,
        };
        let inside = self.oracle.iter().filter(|(id, _)| is_above(id) && is_below(id));
        inside.map(|(_, entry)| entry.clone()).collect()
    }

    /// Applies one operation to both; what differs is an error.
    pub(crate) fn apply(&mut self, (kind, a, b): Operation) -> Result<(), String> {
        let failed = |error: Error| format!("failed: {error}");
        match kind % 16 {
            0..=4 => {
                let entry = self.entry(a, b);
                borrowed(std::slice::from_ref(&entry), |mut entries| {
                    (&mut entries).try_for_each(|entry| self.tree.insert(entry))
                })
                .map_err(failed)?;
                self.oracle.insert(self.id(&entry.key, entry.tie), entry);
            }
            5..=8 => {
                let (key, tie) = self.place(a, b);
                let removed = self
                    .tree
                    .remove_with(&key, tie, |entry| entry.to_owned_entry())
                    .map_err(failed)?;
                same(&removed, &self.oracle.remove(&self.id(&key, tie)))?;
            }
            9 | 10 => {
                let (key, tie) = self.place(a, b);
                let got = self.tree.get(&key, tie).map_err(failed)?;
                same(
                    &got,
                    &self
                        .oracle
                        .get(&self.id(&key, tie))
                        .map(|entry| entry.row.clone()),
                )?;
            }
            11 => {
                let entries = self.ascending(a, b);
                let count = borrowed(&entries, |entries| {
                    self.tree.insert_sorted(&mut Entries::new(entries))
                })
                .map_err(failed)?;
                same(&count, &(entries.len() as u64))?;
                for entry in entries {
                    self.oracle.insert(self.id(&entry.key, entry.tie), entry);
                }
            }
            12 => {
                let (from, to) = self.bounds(a, b);
                let modulus = 1 + b % 3;
                let mut expected = self.within(&from, &to);
                expected.retain(|entry| entry.tie % modulus == 0);
                let removed = remove_between(&self.tree, position(&from), position(&to), |entry| {
                    entry.tie() % modulus == 0
                });
                same(&removed.map_err(failed)?, &expected)?;
                for entry in &expected {
                    self.oracle.remove(&self.id(&entry.key, entry.tie));
                }
            }
            13 => {
                let (from, to) = self.bounds(a, b);
                let cursor = self.tree.range(position(&from), position(&to)).map_err(failed)?;
                same(
                    &entries_of(cursor, a, false).map_err(failed)?,
                    &self.within(&from, &to),
                )?;
            }
            14 => {
                let (from, to) = self.bounds(a, b);
                let cursor = self
                    .tree
                    .range_back(position(&from), position(&to))
                    .map_err(failed)?;
                let mut entries = entries_of(cursor, a, true).map_err(failed)?;
                entries.reverse();
                same(&entries, &self.within(&from, &to))?;
            }
            _ => {
                same(
                    &self.tree.first().map_err(failed)?.as_ref(),
                    &self.oracle.values().next(),
                )?;
                same(
                    &self.tree.last().map_err(failed)?.as_ref(),
                    &self.oracle.values().next_back(),
                )?;
            }
        }
        Ok(())
    }

    /// Ascending entries: a few close together, or many; sometimes beyond all there are.
    fn ascending(&self, a: u64, b: u64) -> Vec<OwnedEntry> {
        let mut rng = Rng::new(a ^ b);
        let all = self.numbers * self.ties;
        let len = [1, 3, 12, 60, 400][(b % 5) as usize];
        let stride = 1 + a % 9;
        let start = if b.is_multiple_of(3) {
            all - (len * stride).min(all)
        } else {
            a % all
        };
        let mut entries: Oracle = BTreeMap::new();
        let mut number = start;
        for _ in 0..len {
            number += 1 + rng.below(stride);
            if number >= all {
                break;
            }
            let entry = self.entry(number, rng.next_u64());
            entries.insert(self.id(&entry.key, entry.tie), entry);
        }
        entries.into_values().collect()
    }

    /// Checks the tree's structure, what it holds, and that no page of the store is lost.
    pub(crate) fn check(&self) -> Result<(), String> {
        let report = self.tree.verify().map_err(|error| error.to_string())?;
        if let Some(problem) = report.problems.first() {
            return Err(problem.to_string());
        }
        same(&report.entries, &(self.oracle.len() as u64))?;
        same(&report.pending_splits, &0)?;
        let leaked = self.tree.store().sweep(&|page| report.pages.contains(&page));
        same(&leaked.map_err(|error| error.to_string())?, &Vec::new())?;
        let cursor = self.tree.range(Bound::Unbounded, Bound::Unbounded);
        let entries = cursor
            .and_then(|cursor| entries_of(cursor, 1, false))
            .map_err(|error| error.to_string())?;
        same(
            &entries.iter().collect::<Vec<_>>(),
            &self.oracle.values().collect::<Vec<_>>(),
        )
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("found {found:?}, expected {expected:?}"))
    }
}

fn position(bound: &Bound<Id>) -> Bound<Position<'_>> {
    bound.as_ref().map(|(key, tie)| Position { key, tie: *tie })
}

/// Returns the entries of a cursor, asked for leaves and for entries by turns.
fn entries_of<O: KeyOrder, L: RowLayout, S: PageStore>(
    mut cursor: Cursor<'_, O, L, S>,
    turns: u64,
    is_backward: bool,
) -> bedload_pages::Result<Vec<OwnedEntry>> {
    let mut entries = Vec::new();
    for turn in 0.. {
        if turns >> (turn % 64) & 1 == 0 {
            let Some(entry) = cursor.next_entry()? else { break };
            entries.push(entry.to_owned_entry());
        } else {
            let Some(slice) = cursor.next_leaf()? else { break };
            let mut of_leaf: Vec<_> = (0..slice.len())
                .map(|index| slice.entry(index).to_owned_entry())
                .collect();
            if is_backward {
                of_leaf.reverse();
            }
            entries.append(&mut of_leaf);
        }
    }
    Ok(entries)
}

fn drive<O: Supply, L: RowLayout, S: PageStore>(tree: BPlusTree<O, L, S>, ties: u64, seed: u64) {
    let mut checked = Checked {
        tree,
        oracle: Oracle::new(),
        numbers: 600,
        ties,
    };
    let mut rng = Rng::new(seed);
    for number in 0..12_000 {
        // Now much is inserted, now much is removed.
        let mut kind = rng.next_u64().to_le_bytes()[0] % 16;
        if number / 1500 % 2 == 1 && matches!(kind, 0..=3 | 11) {
            kind = 5;
        }
        let operation = (kind, rng.below(600 * ties), rng.below(600 * ties));
        let outcome = checked.apply(operation);
        let outcome = outcome.and_then(|()| {
            if number % 500 == 0 {
                checked.check()
            } else {
                Ok(())
            }
        });
        if let Err(what) = outcome {
            panic!("seed {seed}, operation {number}, {operation:?}: {what}");
        }
    }
    let all = Bound::Unbounded;
    let everything = remove_between(&checked.tree, all, all, |_| true).expect("removed");
    assert_eq!(everything.len(), checked.oracle.len());
    checked.oracle.clear();
    checked.check().expect("sound when empty");
    assert_eq!(
        checked.tree.verify().expect("verified").height,
        1,
        "an empty tree is a leaf"
    );
}

fn drive_all<O: Supply, L: RowLayout>(order: &O, layout: &L) {
    for config in [
        BPlusTreeOptions::new().max_entries(4),
        BPlusTreeOptions::new().split_percent(80).fill_percent(90),
        BPlusTreeOptions::new()
            .max_entries(5)
            .merge_percent(0)
            .fill_percent(50),
    ] {
        let tree = BPlusTree::create(HeapPages::new(512), order.clone(), layout.clone(), config);
        drive(tree.expect("created"), 3, 1);
        let tree = BPlusTree::create(
            MimicPages::new(1024, 5),
            order.clone(),
            layout.clone(),
            config.ties(false),
        );
        drive(tree.expect("created"), 1, 2);
    }
}

#[test]
fn u64_keys_to_integers() {
    drive_all(&U64Order, &FixedRow::<8>);
}

#[test]
fn u64_keys_to_records() {
    drive_all(&U64Order, &Columns::new(&[8, 1, 3], 2));
}

#[test]
fn i64_keys_alone() {
    drive_all(&I64Order, &NoRow);
}

#[test]
fn byte_keys_to_records() {
    drive_all(&ByteOrder, &Columns::new(&[2], 1));
}

#[test]
fn careless_keys_to_records() {
    drive_all(&CarelessOrder, &Columns::new(&[4], 1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn any_few_operations(operations in prop::collection::vec((0_u8..16, 0_u64..120, 0_u64..120), 1..150)) {
        let config = BPlusTreeOptions::new().max_entries(4);
        let tree = BPlusTree::create(MimicPages::new(512, 9), CarelessOrder, Columns::new(&[2], 1), config);
        let mut checked = Checked { tree: tree.expect("created"), oracle: Oracle::new(), numbers: 40, ties: 3 };
        for operation in operations {
            checked.apply(operation).map_err(TestCaseError::fail)?;
        }
        checked.check().map_err(TestCaseError::fail)?;
    }
}

fn load<O: Supply, L: RowLayout>(order: &O, layout: &L, ties: u64, count: u64, config: BPlusTreeOptions) {
    let tree = BPlusTree::create(MimicPages::new(512, 3), order.clone(), layout.clone(), config);
    let mut checked = Checked {
        tree: tree.expect("created"),
        oracle: Oracle::new(),
        numbers: 5000,
        ties,
    };
    for number in 0..count {
        let entry = checked.entry(number * 2, number);
        checked.oracle.insert(checked.id(&entry.key, entry.tie), entry);
    }
    let entries: Vec<_> = checked.oracle.values().cloned().collect();
    let loaded = borrowed(&entries, |entries| {
        checked.tree.insert_sorted(&mut Entries::new(entries))
    });
    assert_eq!(loaded.expect("loaded"), entries.len() as u64);
    checked.check().expect("sound after loading");
    // It is a tree like any other.
    for number in 0..300 {
        let operation = (
            [0, 11, 6, 1, 12, 7][(number % 6) as usize],
            number * 13,
            number * 7,
        );
        checked.apply(operation).expect("applied after loading");
    }
    checked.check().expect("sound after changes");
}

#[test]
fn trees_of_sorted_entries_hold_them() {
    for config in [
        BPlusTreeOptions::new(),
        BPlusTreeOptions::new().max_entries(4),
        BPlusTreeOptions::new().fill_percent(100),
    ] {
        for count in [0, 1, 4, 5, 17, 1000, 3000] {
            load(&U64Order, &FixedRow::<8>, 1, count, config.ties(false));
            load(&CarelessOrder, &Columns::new(&[1], 2), 3, count, config);
            load(&ByteOrder, &NoRow, 2, count, config);
        }
    }
}
