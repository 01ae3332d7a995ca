//! The Bε-tree of pages, as a tree below a buffer.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::BaseTree;
use super::entry::Buffered;
use super::first_failure::FirstFailure;
use super::paged_tree::value_of;
use super::sa_tree::merge_newer;
use crate::map::exclusive_map::ExclusiveMap;
use bedload_pages::{Error, PageStore, Result};
use bedload_trees::be_tree::{BeTree, BeTreeOptions, Progress};
use bedload_trees::{Entry, FixedRow, Position, Row, U64Order};

/// The most entries that a step of a range reads from the tree.
const READ_AT_ONCE: usize = 256;

/// A [Bε-tree of pages](BeTree) from `u64` to `u64` that takes changes one by one, and that a SWARE
/// buffer can be put in front of: with an [`SaTree`](super::sa_tree::SaTree) it is the paper's
/// second tree, the SA Bε-tree (§V-G).
///
/// Single changes wait in memory, as in the root node of the paper's tree, until they fill a batch.
/// Each batch also does the maintenance that is due in the tree.
///
/// The interface that it shares with the trees in memory has no errors. So the first error of the
/// store is [kept](Self::failure); what could not be read seems to be absent, and nothing is
/// changed any more.
///
/// ```
/// use bedload_memory::swa_buffer::{BufferOptions, PagedBeTree, SaTree};
/// use bedload_pages::HeapPages;
/// use bedload_trees::be_tree::BeTreeOptions;
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let base = PagedBeTree::create(&pages, BeTreeOptions::new(), 512)?;
/// let mut tree = SaTree::new(base, BufferOptions::new(100));
/// for key in 0..1000 {
///     tree.insert(key ^ 3, key);
/// }
/// assert_eq!(tree.get(2), Some(1));
/// assert!(tree.base().failure().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PagedBeTree<S: PageStore> {
    tree: BeTree<U64Order, FixedRow<8>, S>,
    /// Values of keys that are newer than those in the tree; none for removed keys.
    waiting: BTreeMap<u64, Option<u64>>,
    /// As many waiting changes are a batch.
    batch_entries: usize,
    /// At least as great as every key; none only if there never was one.
    max: Option<u64>,
    failure: FirstFailure,
}

impl<S: PageStore + Clone> PagedBeTree<S> {
    /// A new, empty tree, which keeps no ties. `batch_entries`, at least 1, changes make a batch.
    ///
    /// # Errors
    ///
    /// As for [`BeTree::create`].
    pub fn create(store: S, options: BeTreeOptions, batch_entries: usize) -> Result<Self> {
        Ok(Self {
            tree: BeTree::create(store, U64Order, FixedRow, options.ties(false))?,
            waiting: BTreeMap::new(),
            batch_entries: batch_entries.max(1),
            max: None,
            failure: FirstFailure::default(),
        })
    }
}

impl<S: PageStore> PagedBeTree<S> {
    /// The first error of the store, if there was one: then entries may be missing.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// The tree itself, without the changes that wait.
    #[must_use]
    pub fn tree(&self) -> &BeTree<U64Order, FixedRow<8>, S> {
        &self.tree
    }

    /// Makes a batch of the changes that wait.
    pub fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let published = self.publish(waiting.into_iter());
        self.failure.noted(published);
    }

    /// Adds changes of ascending keys to the tree, and does what is due there.
    fn publish(&self, changes: impl Iterator<Item = (u64, Option<u64>)>) -> Result<()> {
        if self.failure.get().is_some() {
            return Ok(());
        }
        let mut batch = self.tree.batch()?;
        for (key, value) in changes {
            let key = U64Order::key(key);
            match value {
                Some(value) => batch.put(Entry {
                    key: &key,
                    tie: 0,
                    row: Row {
                        fixed: &value.to_le_bytes(),
                        variable: &[],
                    },
                })?,
                None => batch.remove(&key, 0)?,
            }
        }
        batch.publish()?;
        let mut maintainer = self.tree.maintainer();
        while maintainer.work(u64::MAX)? == Progress::Paused {}
        Ok(())
    }

    fn change(&mut self, key: u64, value: Option<u64>) {
        if self.failure.get().is_some() {
            return;
        }
        self.waiting.insert(key, value);
        if self.waiting.len() >= self.batch_entries {
            self.flush();
        }
    }

    fn waiting_between(&self, lower: u64, upper: u64) -> Vec<Buffered> {
        let within = self.waiting.range(lower..=upper);
        within.map(|(&key, &value)| Buffered { key, value }).collect()
    }

    /// The first, or the last, entries of the tree between two bounds, in the order of reading, and
    /// whether there may be more.
    fn read_tree(&self, (lower, upper): (u64, u64), is_ascending: bool) -> Result<(Vec<(u64, u64)>, bool)> {
        let (lower, upper) = (U64Order::key(lower), U64Order::key(upper));
        let from = Bound::Included(Position::of_key(&lower));
        let to = Bound::Included(Position::of_key(&upper));
        let mut cursor = if is_ascending {
            self.tree.range(from, to)?
        } else {
            self.tree.range_back(from, to)?
        };
        let mut read = Vec::with_capacity(READ_AT_ONCE);
        let mut value = Vec::new();
        let count = cursor.next_entries(READ_AT_ONCE, |entry| {
            value.clear();
            entry.fixed_into(&mut value);
            read.push((entry.prefix(), value_of(&value)));
        })?;
        Ok((read, count == READ_AT_ONCE))
    }
}

impl<S: PageStore + Send + Sync> ExclusiveMap for PagedBeTree<S> {
    fn insert(&mut self, key: u64, value: u64) {
        self.max = self.max.max(Some(key));
        self.change(key, Some(value));
    }

    fn get(&self, key: u64) -> Option<u64> {
        if let Some(&value) = self.waiting.get(&key) {
            return value;
        }
        let found = self.tree.get_with(&U64Order::key(key), 0, |entry| {
            let mut value = Vec::with_capacity(8);
            entry.fixed_into(&mut value);
            value_of(&value)
        });
        self.failure.noted(found)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        let removed = self.get(key)?;
        self.change(key, None);
        // Refused, or lost with its batch.
        self.failure.get().is_none().then_some(removed)
    }

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let read = self.read_tree((lower, upper), true);
        let (below, has_more) = self.failure.noted(read);
        let end = below.last().filter(|entry| has_more && entry.0 < upper);
        let end = end.map_or(upper, |entry| entry.0);
        merge_newer(self.waiting_between(lower, end), below, entries);
        (end < upper).then(|| end + 1)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let read = self.read_tree((lower, upper), false);
        let (mut below, has_more) = self.failure.noted(read);
        below.reverse();
        let end = below.first().filter(|entry| has_more && entry.0 > lower);
        let end = end.map_or(lower, |entry| entry.0);
        merge_newer(self.waiting_between(end, upper), below, entries);
        (end > lower).then(|| end - 1)
    }

    fn check_structure(&self) -> std::result::Result<(), String> {
        self.failure.check(self.tree.verify(), |report| report.is_sound())
    }
}

impl<S: PageStore + Send + Sync> BaseTree for PagedBeTree<S> {
    fn max_key(&self) -> Option<u64> {
        self.max
    }

    /// Long appends are batches of their own, which become leaves at the right edge; short ones
    /// wait.
    fn append(&mut self, entries: &[(u64, u64)]) {
        let Some(&(last, _)) = entries.last() else { return };
        self.max = Some(last);
        if entries.len() < self.batch_entries {
            for &(key, value) in entries {
                self.change(key, Some(value));
            }
        } else {
            let published = self.publish(entries.iter().map(|&(key, value)| (key, Some(value))));
            self.failure.noted(published);
        }
    }
}
