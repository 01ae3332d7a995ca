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

/// A leaf, as the index of its run knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafEntry {
    /// Its page.
    pub page: PageId,
    /// How many rows it has.
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
    /// The page that it was read from.
    root: PageId,
    owner: u32,
    first_page: u32,
    generation: u64,
    leaves: Vec<LeafEntry>,
}

impl RunIndex {
    /// Reads the index of a run of the table `owner`.
    ///
    /// # Errors
    ///
    /// The store failed, or the page is damaged or that of another run.
    pub fn read<S: PageRead>(store: &S, run: &Run, owner: u32) -> Result<Self> {
        let guard = store.read(run.root)?;
        let index = Self::parse(run.root, &guard)?;
        let name = (index.first_page, index.generation, index.owner);
        if name != (run.first_page.get(), run.generation, owner) {
            return Err(corrupt(run.root, "it is the index of another run"));
        }
        Ok(index)
    }

    /// Reads the index on a page.
    ///
    /// # Errors
    ///
    /// The page is damaged, or none of an index.
    pub fn parse(root: PageId, page: &[u8]) -> Result<Self> {
        let mut fields = Bytes::new(page);
        let mut read = || -> crate::Result<Self> {
            if fields.array()? != MAGIC {
                return crate::error::damaged("it is not the index of a run");
            }
            let (owner, first_page, count) = (fields.u32()?, fields.u32()?, fields.u32()? as usize);
            let generation = fields.u64()?;
            if count == 0 || count > page.len() / ENTRY_BYTES {
                return crate::error::damaged("it has not the leaves that it says");
            }
            let mut leaves = Vec::with_capacity(count);
            for _ in 0..count {
                leaves.push(entry(&mut fields)?);
            }
            Ok(Self {
                root,
                owner,
                first_page,
                generation,
                leaves,
            })
        };
        let index = read().map_err(|error| super::of_leaf(root, error))?;
        let is_sound = |leaf: &LeafEntry| leaf.rows > 0 && leaf.first <= leaf.last;
        let ascends = index.leaves.windows(2).all(|pair| pair[0].last < pair[1].first);
        if !ascends || !index.leaves.iter().all(is_sound) {
            return Err(corrupt(root, "its leaves do not ascend"));
        }
        Ok(index)
    }

    /// The bytes of the page of an index.
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

    /// The table that the rows belong to.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// The leaves, in the order of their rows; at least one.
    #[must_use]
    pub fn leaves(&self) -> &[LeafEntry] {
        &self.leaves
    }

    /// Which leaves have rows between two places.
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

    /// Opens one of the leaves.
    ///
    /// # Errors
    ///
    /// The store failed, or the page is damaged or not that leaf.
    pub fn open<'s, S: PageRead>(&self, store: &'s S, leaf: usize) -> Result<RunLeaf<S::Guard<'s>>> {
        let entry = &self.leaves[leaf];
        self.checked(entry, RunLeaf::open(entry.page, store.read(entry.page)?)?)
    }

    /// As [`open`](Self::open), without a latch on the page.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn pin<'s, S: PageStore>(&self, store: &'s S, leaf: usize) -> Result<RunLeaf<S::Pin<'s>>> {
        let entry = &self.leaves[leaf];
        self.checked(entry, RunLeaf::open(entry.page, store.pin(entry.page)?)?)
    }

    fn checked<G: Deref<Target = [u8]>>(&self, entry: &LeafEntry, leaf: RunLeaf<G>) -> Result<RunLeaf<G>> {
        if *leaf.header() == self.header(entry) {
            Ok(leaf)
        } else {
            Err(corrupt(entry.page, "it is not the leaf that its run's index has"))
        }
    }

    /// The header that the page of a leaf has.
    fn header(&self, entry: &LeafEntry) -> LeafHeader {
        LeafHeader {
            owner: self.owner,
            first_page: self.first_page,
            generation: self.generation,
            rows: entry.rows,
            first: entry.first,
            last: entry.last,
            min_sequence: entry.min_sequence,
            max_sequence: entry.max_sequence,
        }
    }

    /// The pages of the run.
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

/// Describes a run with these leaves to a tree.
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
