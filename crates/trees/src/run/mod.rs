//! Immutable sorted runs: packed leaves, and an index of them that is built along with them.
//!
//! A run is written once, in order, and read by any holder of its [`Run`], which names it. It
//! replaces a tree's leaves where entries come in batches: a Bε-tree keeps its buffers as runs, and
//! merges them as it pushes them down (SplinterDB, "Closing the B-tree vs. LSM-tree Write
//! Amplification Gap", §3, after Bender et al.'s Bε-trees). Pages hold columns of numbers packed to
//! the bits they need, so an 8-byte key with a 6-byte row address takes less than ten bytes: data
//! that is written several times, and logged, should be small.
//!
//! | | |
//! |---|---|
//! | [`RunBuilder`] | writes a run |
//! | [`RunReader`], [`RunCursor`], [`RunEntry`] | read one |
//! | [`merge`] | makes one of several, the newest first |
//! | [`Filter`] | where its filter stands, which excludes most keys that the run does not have |
//! | [`DeleteInRun`] | marks entries of a page as deleted, in place |
//!
//! ```
//! use std::ops::Bound;
//! use bedload_trees::run::{RunBuilder, RunOptions, RunReader};
//! use bedload_pages::HeapPages;
//! use bedload_trees::{Entry, NoRow, Row, U64Order};
//!
//! # fn main() -> bedload_pages::Result<()> {
//! let pages = HeapPages::new(8192);
//! let config = RunOptions::new();
//! let mut builder = RunBuilder::new(&pages, U64Order, NoRow, config)?;
//! for key in 0..10_000_u64 {
//!     builder.push(Entry { key: &U64Order::key(key * key), tie: key, row: Row::default() })?;
//! }
//! let run = builder.finish()?.expect("it has entries");
//! assert_eq!(run.entries, 10_000);
//!
//! let reader = RunReader::new(&pages, U64Order, NoRow, config, run);
//! assert!(reader.get_with(&U64Order::key(49), 7, |_| ())?.is_some());
//! assert!(reader.get_with(&U64Order::key(50), 7, |_| ())?.is_none());
//! let mut cursor = reader.range_back(Bound::Unbounded, Bound::Unbounded)?;
//! let last = cursor.next_entry()?.expect("it has entries");
//! assert_eq!(last.prefix(), 9_999 * 9_999);
//! # Ok(())
//! # }
//! ```

mod builder;
mod check;
mod columns;
mod cursor;
mod delete;
mod entry;
mod filter;
mod frame;
mod hint;
mod merge;
mod page;
mod reader;
mod shape;
mod top;

use bedload_pages::{PageId, PageRead, Result};

pub use builder::RunBuilder;
pub use cursor::RunCursor;
pub use delete::DeleteInRun;
pub use entry::RunEntry;
pub use filter::Filter;
pub use merge::{Merge, merge};
pub use reader::{RunPages, RunReader};

/// The name and description of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The page at the top of its index.
    pub root: PageId,
    /// The page that was written first; with the generation it names the run, in each of its pages.
    pub first_page: PageId,
    /// The generation of that page.
    pub generation: u64,
    /// Levels, leaves included.
    pub height: u8,
    /// Its pages, those of its filter among them.
    pub pages: u32,
    /// Its entries, tombstones included.
    pub entries: u64,
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// Its filter, if it has one.
    pub filter: Option<Filter>,
    /// Its least entry, when it was written.
    pub first: RunEdge,
    /// Its greatest entry, when it was written.
    pub last: RunEdge,
}

/// Where a run begins or ends, as far as a prefix and a tie say: exactly, in orders whose prefixes
/// are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RunEdge {
    /// The prefix of the entry's key.
    pub prefix: u64,
    /// The entry's tie.
    pub tie: u64,
}

impl Run {
    /// Whether the two are the same run: it may have lost entries in place meanwhile.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (self.first_page, self.generation) == (other.first_page, other.generation)
    }

    fn name(&self) -> page::RunName {
        page::RunName {
            first_page: self.first_page,
            generation: self.generation,
        }
    }

    /// As [`RunReader::may_contain`], without a reader.
    pub(crate) fn may_contain(&self, store: &impl PageRead, hash: u64) -> Result<bool> {
        match self.filter {
            Some(filter) => filter.may_contain(store, &self.name(), hash),
            None => Ok(true),
        }
    }

    /// The page that [`may_contain`](Self::may_contain) would read first, if it would read any.
    pub(crate) fn first_page_of_filter(&self, store: &impl PageRead, hash: u64) -> Option<PageId> {
        self.filter?.first_page(store, &self.name(), hash)
    }
}

/// How runs are built.
///
/// ```
/// use bedload_trees::run::RunOptions;
/// let config = RunOptions::new().ties(false);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct RunOptions {
    ties: bool,
    max_entries: u16,
    filter_bits: u8,
}

impl RunOptions {
    /// The defaults, named at each setting.
    pub const fn new() -> Self {
        Self {
            ties: true,
            max_entries: 4096,
            filter_bits: 0,
        }
    }

    /// Whether entries have ties, besides 0. Default: yes.
    pub const fn ties(mut self, ties: bool) -> Self {
        self.ties = ties;
        self
    }

    /// Whether entries have ties.
    #[must_use]
    pub const fn has_ties(&self) -> bool {
        self.ties
    }

    /// The most entries a page takes, at least 2: small for tests. Default: 4,096.
    ///
    /// # Panics
    ///
    /// If it is less than 2.
    pub const fn max_entries(mut self, entries: u16) -> Self {
        assert!(entries >= 2, "a node with one child leads nowhere");
        self.max_entries = entries;
        self
    }

    /// Bits of the run's filter for each key, 0 for no filter; an order without hashes has none
    /// either. A filter takes a key that is not in the run for one that is, 1 time in 85 with 10
    /// bits and 1 in 200 with 12. While a run is built, its filter takes 8 bytes of memory for each
    /// key, and 16 at the end. Default: 0.
    pub const fn filter_bits(mut self, bits: u8) -> Self {
        self.filter_bits = bits;
        self
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::new()
    }
}
