//! The index of a run: its leaves, on one page.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | magic `BCI`, version 1 |
//! | 4 | 4 | the table that the rows belong to |
//! | 8 | 4 | first page of the run |
//! | 12 | 4 | leaves |
//! | 16 | 8 | generation of the run |
//! | 24 | 56 each | leaves, in the order of their rows |
//!
//! | of a leaf | bytes | |
//! |---|---|---|
//! | 0 | 4 | page |
//! | 4 | 4 | rows |
//! | 8 | 16 | time and sequence number of the first row |
//! | 24 | 16 | time and sequence number of the last row |
//! | 40 | 16 | least and greatest sequence number |

use std::ops::{Bound, Deref, Range};

use bedload_pages::{PageId, PageRead, PageStore, Result};
use bedload_trees::run::Run;

use super::corrupt;
use super::leaf::{LeafHeader, RunLeaf};
use super::place::Place;
use crate::wire::Bytes;

const MAGIC: [u8; 4] = *b"BCI\x01";

const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 56;

const DISORDER: &str = "its leaves do not ascend";

/// The entry of a leaf in its run's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafEntry {
    /// Its page.
    pub page: PageId,
    /// Number of rows.
    pub rows: u32,
    /// The first row.
    pub first: Place,
    /// The last row.
    pub last: Place,
    /// The least sequence number.
    pub min_sequence: u64,
    /// The greatest sequence number.
    pub max_sequence: u64,
}

/// The leaves of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunIndex {
    /// The page of the index.
    root: PageId,
    name: RunName,
    leaves: Vec<LeafEntry>,
}

/// The identity of a run, as its pages state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunName {
    owner: u32,
    first_page: u32,
    generation: u64,
}

/// The page of a run's index, with entries parsed on demand, for readers that need few of them. `G`
/// holds the page.
#[derive(Debug)]
pub struct RunIndexPage<G> {
    root: PageId,
    name: RunName,
    guard: G,
    leaves: usize,
}

impl RunName {
    /// Returns the leaf if it matches its entry in the run's index.
    fn checked<G: Deref<Target = [u8]>>(&self, entry: &LeafEntry, leaf: RunLeaf<G>) -> Result<RunLeaf<G>> {
        let named = LeafHeader {
            owner: self.owner,
            first_page: self.first_page,
            generation: self.generation,
            rows: entry.rows,
            first: entry.first,
            last: entry.last,
            min_sequence: entry.min_sequence,
            max_sequence: entry.max_sequence,
        };
        if *leaf.header() == named {
            Ok(leaf)
        } else {
            Err(corrupt(entry.page, "it is not the leaf that its run's index has"))
        }
    }
}

impl<G: Deref<Target = [u8]>> RunIndexPage<G> {
    /// Reads the index page of a run of the table `owner`.
    ///
    /// # Errors
    ///
    /// The store failed, or the page is damaged or belongs to another run.
    pub fn read<'s, S: PageRead<Guard<'s> = G> + 's>(store: &'s S, run: &Run, owner: u32) -> Result<Self> {
        let index = Self::new(run.root, store.read(run.root)?)?;
        let name = RunName {
            owner,
            first_page: run.first_page.get(),
            generation: run.generation,
        };
        if index.name == name {
            Ok(index)
        } else {
            Err(corrupt(run.root, "it is the index of another run"))
        }
    }

    fn new(root: PageId, guard: G) -> Result<Self> {
        let mut fields = Bytes::new(&guard);
        let mut read = || -> crate::Result<_> {
            if fields.array()? != MAGIC {
                return crate::error::damaged("it is not the index of a run");
            }
            let (owner, first_page, leaves) = (fields.u32()?, fields.u32()?, fields.u32()? as usize);
            let generation = fields.u64()?;
            if leaves == 0 || leaves > fields.rest().len() / ENTRY_BYTES {
                return crate::error::damaged("it has not the leaves that it says");
            }
            let name = RunName {
                owner,
                first_page,
                generation,
            };
            Ok((name, leaves))
        };
        let (name, leaves) = read().map_err(|error| super::of_leaf(root, error))?;
        Ok(Self {
            root,
            name,
            guard,
            leaves,
        })
    }

    /// Returns an entry. Only [`RunIndex::parse`] checks that entries ascend.
    ///
    /// # Errors
    ///
    /// There is no such entry, or it is damaged.
    pub fn entry(&self, leaf: usize) -> Result<LeafEntry> {
        let (entries, _) = self.guard[HEADER_BYTES..].as_chunks::<ENTRY_BYTES>();
        let Some(bytes) = entries[..self.leaves].get(leaf) else {
            return Err(corrupt(self.root, "it has not as many leaves"));
        };
        let entry = entry(&mut Bytes::new(bytes)).map_err(|error| super::of_leaf(self.root, error))?;
        if entry.rows > 0 && entry.first <= entry.last {
            Ok(entry)
        } else {
            Err(corrupt(self.root, DISORDER))
        }
    }

    /// Returns the leaves with rows between two positions. O(log(leaves)).
    ///
    /// # Errors
    ///
    /// An entry is damaged.
    pub fn between(&self, from: Bound<Place>, to: Bound<Place>) -> Result<Range<usize>> {
        let begin = match from {
            Bound::Unbounded => 0,
            Bound::Included(place) => self.partition_point(|leaf| leaf.last < place)?,
            Bound::Excluded(place) => self.partition_point(|leaf| leaf.last <= place)?,
        };
        let end = match to {
            Bound::Unbounded => self.leaves,
            Bound::Included(place) => self.partition_point(|leaf| leaf.first <= place)?,
            Bound::Excluded(place) => self.partition_point(|leaf| leaf.first < place)?,
        };
        Ok(begin..end.max(begin))
    }

    /// Returns the length of the prefix of leaves for which `has` holds.
    fn partition_point(&self, has: impl Fn(&LeafEntry) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, self.leaves);
        while low < high {
            let middle = usize::midpoint(low, high);
            if has(&self.entry(middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Opens a leaf.
    ///
    /// # Errors
    ///
    /// There is no such leaf; the store failed, or the page is damaged or another leaf's.
    pub fn open<'s, S: PageRead>(&self, store: &'s S, leaf: usize) -> Result<RunLeaf<S::Guard<'s>>> {
        let entry = self.entry(leaf)?;
        self.name
            .checked(&entry, RunLeaf::open(entry.page, store.read(entry.page)?)?)
    }

    /// Parses all entries, in the order of their rows.
    fn parse(&self) -> Result<RunIndex> {
        let leaves = (0..self.leaves).map(|leaf| self.entry(leaf));
        let leaves: Vec<LeafEntry> = leaves.collect::<Result<_>>()?;
        if !leaves.windows(2).all(|pair| pair[0].last < pair[1].first) {
            return Err(corrupt(self.root, DISORDER));
        }
        Ok(RunIndex {
            root: self.root,
            name: self.name,
            leaves,
        })
    }
}

impl RunIndex {
    /// Reads the index of a run of the table `owner`.
    ///
    /// # Errors
    ///
    /// The store failed, or the page is damaged or belongs to another run.
    pub fn read<S: PageRead>(store: &S, run: &Run, owner: u32) -> Result<Self> {
        RunIndexPage::read(store, run, owner)?.parse()
    }

    /// Reads the index on a page.
    ///
    /// # Errors
    ///
    /// The page is damaged, or is not an index.
    pub fn parse(root: PageId, page: &[u8]) -> Result<Self> {
        RunIndexPage::new(root, page)?.parse()
    }

    /// Returns how many leaves an index page of so many bytes can name.
    pub(super) const fn leaves_max(payload_max: usize) -> usize {
        payload_max.saturating_sub(HEADER_BYTES) / ENTRY_BYTES
    }

    /// Encodes the page of an index.
    pub(super) fn encode(owner: u32, first_page: PageId, generation: u64, leaves: &[LeafEntry]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + ENTRY_BYTES * leaves.len());
        out.extend_from_slice(&MAGIC);
        let count = u32::try_from(leaves.len()).expect("a run has fewer leaves than a store has pages");
        for number in [owner, first_page.get(), count] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&generation.to_le_bytes());
        for leaf in leaves {
            out.extend_from_slice(&leaf.page.get().to_le_bytes());
            out.extend_from_slice(&leaf.rows.to_le_bytes());
            let numbers = [
                leaf.first.time.cast_unsigned(),
                leaf.first.sequence,
                leaf.last.time.cast_unsigned(),
                leaf.last.sequence,
                leaf.min_sequence,
                leaf.max_sequence,
            ];
            for number in numbers {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out
    }

    /// Returns the table that the rows belong to.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.name.owner
    }

    /// Returns the leaves, in the order of their rows; at least one.
    #[must_use]
    pub fn leaves(&self) -> &[LeafEntry] {
        &self.leaves
    }

    /// Returns the leaves with rows between two positions.
    #[must_use]
    pub fn between(&self, from: Bound<Place>, to: Bound<Place>) -> Range<usize> {
        let begin = self.leaves.partition_point(|leaf| match from {
            Bound::Unbounded => false,
            Bound::Included(place) => leaf.last < place,
            Bound::Excluded(place) => leaf.last <= place,
        });
        let end = self.leaves.partition_point(|leaf| match to {
            Bound::Unbounded => true,
            Bound::Included(place) => leaf.first <= place,
            Bound::Excluded(place) => leaf.first < place,
        });
        begin..end.max(begin)
    }

    /// Opens a leaf.
    ///
    /// # Errors
    ///
    /// The store failed, or the page is damaged or another leaf's.
    pub fn open<'s, S: PageRead>(&self, store: &'s S, leaf: usize) -> Result<RunLeaf<S::Guard<'s>>> {
        let entry = &self.leaves[leaf];
        self.name
            .checked(entry, RunLeaf::open(entry.page, store.read(entry.page)?)?)
    }

    /// Like [`open`](Self::open), without a latch on the page.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn pin<'s, S: PageStore>(&self, store: &'s S, leaf: usize) -> Result<RunLeaf<S::Pin<'s>>> {
        let entry = &self.leaves[leaf];
        self.name
            .checked(entry, RunLeaf::open(entry.page, store.pin(entry.page)?)?)
    }

    /// Returns the pages of the run.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        std::iter::once(self.root).chain(self.leaves.iter().map(|leaf| leaf.page))
    }
}

fn entry(fields: &mut Bytes<'_>) -> crate::Result<LeafEntry> {
    let Some(page) = PageId::new(fields.u32()?) else {
        return crate::error::damaged("a leaf has no page");
    };
    let rows = fields.u32()?;
    let mut place = || -> crate::Result<Place> {
        let time = fields.u64()?.cast_signed();
        let sequence = fields.u64()?;
        Ok(Place { time, sequence })
    };
    Ok(LeafEntry {
        page,
        rows,
        first: place()?,
        last: place()?,
        min_sequence: fields.u64()?,
        max_sequence: fields.u64()?,
    })
}

/// Describes a run of these leaves to a tree.
pub(super) fn describe(
    root: PageId,
    first_page: PageId,
    generation: u64,
    leaves: &[LeafEntry],
) -> Option<Run> {
    let (first, last) = leaves.first().zip(leaves.last())?;
    Some(Run {
        root,
        first_page,
        generation,
        height: 2,
        pages: u32::try_from(leaves.len() + 1).expect("a run has fewer leaves than a store has pages"),
        entries: leaves.iter().map(|leaf| u64::from(leaf.rows)).sum(),
        tombstones: 0,
        filter: None,
        first: first.first.edge(),
        last: last.last.edge(),
    })
}
