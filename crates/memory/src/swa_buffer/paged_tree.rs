//! The B+-tree of pages, as a tree below a buffer.

use std::ops::Bound;

use super::BaseTree;
use super::first_failure::FirstFailure;
use crate::map::exclusive_map::ExclusiveMap;
use bedload_pages::{Error, PageStore, Result};
use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
use bedload_trees::{Entry, EntrySource, FixedRow, Position, Row, U64Order};

/// A [B+-tree of pages](BPlusTree) from `u64` to `u64` that a SWARE buffer can be put in front of: with an
/// [`SaTree`](super::sa_tree::SaTree) it is the SA B+-tree on whatever its page store keeps pages on.
///
/// The interface that it shares with the trees in memory has no errors. So the first error of the
/// store is [kept](Self::failure); what could not be read seems to be absent, and nothing is
/// changed any more.
///
/// ```
/// use bedload_pages::HeapPages;
/// use bedload_trees::bplus_tree::BPlusTreeOptions;
/// use bedload_memory::swa_buffer::{BufferOptions, PagedTree, SaTree};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let base = PagedTree::create(&pages, BPlusTreeOptions::new())?;
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
pub struct PagedTree<S> {
    tree: BPlusTree<U64Order, FixedRow<8>, S>,
    /// At least as great as every key; none only if there never was one.
    max: Option<u64>,
    failure: FirstFailure,
}

impl<S: PageStore> PagedTree<S> {
    /// A new, empty tree, which keeps no ties.
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::create`].
    pub fn create(store: S, options: BPlusTreeOptions) -> Result<Self> {
        Ok(Self {
            tree: BPlusTree::create(store, U64Order, FixedRow, options.ties(false))?,
            max: None,
            failure: FirstFailure::default(),
        })
    }

    /// The first error of the store, if there was one: then entries may be missing.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// The tree itself.
    #[must_use]
    pub fn tree(&self) -> &BPlusTree<U64Order, FixedRow<8>, S> {
        &self.tree
    }

    /// Appends the first, or the last, entries between the bounds that share a leaf; returns the
    /// last, or first, key of them.
    fn read_leaf(
        &self,
        (lower, upper): (u64, u64),
        is_ascending: bool,
        entries: &mut Vec<(u64, u64)>,
    ) -> Result<Option<u64>> {
        let (lower, upper) = (U64Order::key(lower), U64Order::key(upper));
        let bounds = (
            Bound::Included(Position::of_key(&lower)),
            Bound::Included(Position::of_key(&upper)),
        );
        let mut cursor = if is_ascending {
            self.tree.range(bounds.0, bounds.1)?
        } else {
            self.tree.range_back(bounds.0, bounds.1)?
        };
        let Some(slice) = cursor.next_leaf()? else {
            return Ok(None);
        };
        let (values, _) = slice.fixed_column(0).as_chunks::<8>();
        let from = entries.len();
        entries.extend(
            slice
                .prefixes()
                .iter()
                .zip(values)
                .map(|(&key, &value)| (u64::from_le_bytes(key), u64::from_le_bytes(value))),
        );
        let read = &entries[from..];
        let end = if is_ascending { read.last() } else { read.first() };
        Ok(end.map(|entry| entry.0))
    }
}

/// The value in a row of eight bytes.
pub(super) fn value_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes))
}

impl<S: PageStore + Send + Sync> ExclusiveMap for PagedTree<S> {
    fn insert(&mut self, key: u64, value: u64) {
        if self.failure.get().is_some() {
            return;
        }
        let inserted = self.tree.insert(Entry {
            key: &U64Order::key(key),
            tie: 0,
            row: Row {
                fixed: &value.to_le_bytes(),
                variable: &[],
            },
        });
        self.max = self.max.max(Some(key));
        self.failure.noted(inserted);
    }

    fn get(&self, key: u64) -> Option<u64> {
        let found = self
            .tree
            .get_with(&U64Order::key(key), 0, |entry| value_of(entry.fixed(0)));
        self.failure.noted(found)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        if self.failure.get().is_some() {
            return None;
        }
        let removed = self
            .tree
            .remove_with(&U64Order::key(key), 0, |entry| value_of(entry.fixed(0)));
        self.failure.noted(removed)
    }

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let last = self
            .failure
            .noted(self.read_leaf((lower, upper), true, entries))?;
        (last < upper).then(|| last + 1)
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let first = self
            .failure
            .noted(self.read_leaf((lower, upper), false, entries))?;
        (first > lower).then(|| first - 1)
    }

    fn check_structure(&self) -> std::result::Result<(), String> {
        self.failure.check(self.tree.verify(), |report| report.is_sound())
    }
}

impl<S: PageStore + Send + Sync> BaseTree for PagedTree<S> {
    fn max_key(&self) -> Option<u64> {
        self.max
    }

    fn append(&mut self, entries: &[(u64, u64)]) {
        let Some(&(last, _)) = entries.last() else { return };
        if self.failure.get().is_some() {
            return;
        }
        self.max = Some(last);
        let mut ascending = Ascending {
            entries: entries.iter(),
            key: [0; 8],
            value: [0; 8],
        };
        let appended = self.tree.insert_sorted(&mut ascending);
        self.failure.noted(appended);
    }
}

/// Entries on their way into the tree.
struct Ascending<'e> {
    entries: std::slice::Iter<'e, (u64, u64)>,
    key: [u8; 8],
    value: [u8; 8],
}

impl EntrySource for Ascending<'_> {
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>> {
        let Some(&(key, value)) = self.entries.next() else {
            return Ok(None);
        };
        (self.key, self.value) = (U64Order::key(key), value.to_le_bytes());
        Ok(Some(Entry {
            key: &self.key,
            tie: 0,
            row: Row {
                fixed: &self.value,
                variable: &[],
            },
        }))
    }
}
