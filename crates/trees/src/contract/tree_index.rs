//! A B+-tree, shown to the contract suite for ordered indexes.

use std::fmt::Debug;
use std::ops::Bound;

use bedload_testkit::contract::{ByteKeys, ConcurrentIndex, Direction, I64Keys, Keys, Removed, U64Keys};

use crate::bplus_tree::{BPlusTree, BPlusTreeOptions, Cursor, EntryRef};
use crate::entry::{Entry, FixedRow, Position, Row};
use crate::key_order::{ByteOrder, I64Order, KeyOrder, U64Order};
use bedload_pages::{PageId, PageStore, Result};

/// Keys of the suite as key bytes and ties of a tree.
pub trait OrderedKeys: Keys {
    /// The order of the key bytes.
    type Order: KeyOrder;

    /// The order.
    fn order(&self) -> Self::Order;

    /// The key bytes and the tie of a key.
    fn encode(&self, key: &Self::Key) -> (KeyBytes, u64);

    /// The key of key bytes and a tie; `None` if they are those of no key.
    fn decode(&self, key: &[u8], tie: u64) -> Option<Self::Key>;
}

/// The bytes of a key.
pub type KeyBytes = Vec<u8>;

impl OrderedKeys for U64Keys {
    type Order = U64Order;

    fn order(&self) -> U64Order {
        U64Order
    }

    fn encode(&self, key: &u64) -> (KeyBytes, u64) {
        (U64Order::key(*key).into(), 0)
    }

    fn decode(&self, key: &[u8], tie: u64) -> Option<u64> {
        key.try_into().ok().filter(|_| tie == 0).map(U64Order::value)
    }
}

impl OrderedKeys for I64Keys {
    type Order = I64Order;

    fn order(&self) -> I64Order {
        I64Order
    }

    fn encode(&self, key: &i64) -> (KeyBytes, u64) {
        (I64Order::key(*key).into(), 0)
    }

    fn decode(&self, key: &[u8], tie: u64) -> Option<i64> {
        key.try_into().ok().filter(|_| tie == 0).map(I64Order::value)
    }
}

impl<const N: usize> OrderedKeys for ByteKeys<N> {
    type Order = ByteOrder;

    fn order(&self) -> ByteOrder {
        ByteOrder
    }

    fn encode(&self, key: &[u8; N]) -> (KeyBytes, u64) {
        (key.to_vec(), 0)
    }

    fn decode(&self, key: &[u8], tie: u64) -> Option<[u8; N]> {
        key.try_into().ok().filter(|_| tie == 0)
    }
}

/// Keys of which several entries share each: neighbouring ranks have the same key and differ in the
/// tie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TieKeys;

/// Ranks that share a key.
const TIES_PER_KEY: u64 = 16;

impl Keys for TieKeys {
    type Key = (u64, u64);

    fn key(&self, rank: u64, _spelling: u64) -> (u64, u64) {
        (rank / TIES_PER_KEY, rank % TIES_PER_KEY)
    }

    fn rank(&self, &(key, tie): &(u64, u64)) -> Option<u64> {
        key.checked_mul(TIES_PER_KEY)
            .filter(|_| tie < TIES_PER_KEY)
            .map(|first| first + tie)
    }
}

impl OrderedKeys for TieKeys {
    type Order = U64Order;

    fn order(&self) -> U64Order {
        U64Order
    }

    fn encode(&self, &(key, tie): &(u64, u64)) -> (KeyBytes, u64) {
        (U64Order::key(key).into(), tie)
    }

    fn decode(&self, key: &[u8], tie: u64) -> Option<(u64, u64)> {
        key.try_into().ok().map(|key| (U64Order::value(key), tie))
    }
}

/// A tree from the keys of `K` to `u64`, on a store that it owns or shares.
pub struct TreeIndex<K: OrderedKeys, S: PageStore> {
    keys: K,
    tree: BPlusTree<K::Order, FixedRow<8>, S>,
}

impl<K: OrderedKeys, S: PageStore> TreeIndex<K, S> {
    /// An empty tree. The suite must be its store's only user: what the tree does not reach counts
    /// as a leak.
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::create`].
    pub fn create(store: S, keys: K, config: BPlusTreeOptions) -> Result<Self> {
        let tree = BPlusTree::create(store, keys.order(), FixedRow, config)?;
        Ok(Self { keys, tree })
    }

    /// The tree.
    pub fn tree(&self) -> &BPlusTree<K::Order, FixedRow<8>, S> {
        &self.tree
    }

    fn decode(&self, entry: EntryRef<'_, K::Order, FixedRow<8>>) -> (K::Key, u64) {
        let mut scratch = Vec::new();
        let bytes = entry.key(&mut scratch);
        let key = self.keys.decode(bytes, entry.tie());
        (
            key.expect("only keys of the suite were inserted"),
            value_of(entry),
        )
    }

    fn take(&self, cursor: Result<Cursor<'_, K::Order, FixedRow<8>, S>>, limit: usize) -> Vec<(K::Key, u64)> {
        let mut cursor = ok(cursor);
        let mut entries = Vec::new();
        while entries.len() < limit
            && let Some(entry) = ok(cursor.next_entry())
        {
            entries.push(self.decode(entry));
        }
        entries
    }
}

fn value_of<O: KeyOrder>(entry: EntryRef<'_, O, FixedRow<8>>) -> u64 {
    entry
        .fixed(0)
        .try_into()
        .map(u64::from_le_bytes)
        .expect("the column is 8 bytes wide")
}

/// The suite knows no errors: one that occurs fails the test.
fn ok<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the tree failed: {error}"),
    }
}

impl<K: OrderedKeys, S: PageStore + Sync> ConcurrentIndex for TreeIndex<K, S>
where
    K::Key: Debug,
{
    type Keys = K;

    fn keys(&self) -> &K {
        &self.keys
    }

    fn insert(&self, key: &K::Key, value: u64) {
        let (key, tie) = self.keys.encode(key);
        ok(self.tree.insert(Entry {
            key: &key,
            tie,
            row: Row {
                fixed: &value.to_le_bytes(),
                variable: &[],
            },
        }));
    }

    fn get(&self, key: &K::Key) -> Option<u64> {
        let (key, tie) = self.keys.encode(key);
        ok(self.tree.get_with(&key, tie, value_of))
    }

    fn remove(&self, key: &K::Key) -> Removed {
        let (key, tie) = self.keys.encode(key);
        ok(self.tree.remove_with(&key, tie, value_of)).into()
    }

    fn range(
        &self,
        (from, to): (Bound<K::Key>, Bound<K::Key>),
        direction: Direction,
        limit: usize,
    ) -> Vec<(K::Key, u64)> {
        let from = from.map(|key| self.keys.encode(&key));
        let to = to.map(|key| self.keys.encode(&key));
        let from = from.as_ref().map(|(key, tie)| Position { key, tie: *tie });
        let to = to.as_ref().map(|(key, tie)| Position { key, tie: *tie });
        match direction {
            Direction::Forward => self.take(self.tree.range(from, to), limit),
            Direction::Backward => self.take(self.tree.range_back(from, to), limit),
        }
    }

    fn first(&self) -> Option<(K::Key, u64)> {
        let range = self.tree.range(Bound::Unbounded, Bound::Unbounded);
        self.take(range, 1).pop()
    }

    fn last(&self) -> Option<(K::Key, u64)> {
        let range = self.tree.range_back(Bound::Unbounded, Bound::Unbounded);
        self.take(range, 1).pop()
    }

    fn check_structure(&self) -> Result<(), String> {
        let report = ok(self.tree.verify());
        if let Some(problem) = report.problems.first() {
            return Err(format!("{problem}, and {} more", report.problems.len() - 1));
        }
        let leaked: Vec<PageId> = ok(self.tree.store().sweep(&|page| report.pages.contains(&page)));
        if leaked.is_empty() {
            Ok(())
        } else {
            Err(format!("pages leaked: {leaked:?}"))
        }
    }
}
