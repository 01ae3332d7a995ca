//! The rows of one table, from those of its leaves that are whole.
//!
//! Outdated copies of leaves that are lost only fill gaps: of them those rows are taken for which no leaf is left.
//! Rows deleted since the copy was written come back by that; without it all rows of the leaf would be gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bedload_pages::PageId;
use bedload_trees::bplus_tree::{LeafSlice, NodeReader};
use bedload_trees::{Columns, Entry, EntrySource, I64Order, Row, RowLayout};

use super::report::{Gap, SalvagedTable};
use crate::engine::catalogue::TableEntry;
use crate::engine::flush::{Tree, tree_config};
use crate::error::{Error, Result};
use crate::pages::{COUNTER_MAX, FoundPage, Remains, Slot, Standing};

/// What is left of a table's tree.
pub(super) struct TableRemains {
    pub(super) entry: Arc<TableEntry>,
    reader: NodeReader<I64Order, Columns>,
    leaves: Vec<LeafPlace>,
    /// Copies of leaves that are lost.
    outdated: Vec<LeafPlace>,
    /// The first child of each branch.
    first_children: HashMap<PageId, PageId>,
    /// Whether the catalogue and all pages that rows were taken from are those of the last checkpoint.
    is_current: bool,
    /// Between which times leaves are missing.
    gaps: Vec<Gap>,
    /// Rows copied from leaves.
    copied: u64,
    /// Above the sequence number of each of them.
    pub(super) end_sequence: u64,
}

/// A leaf that is whole.
#[derive(Debug, Clone, Copy)]
struct LeafPlace {
    /// The time of its first row; none if it has no rows.
    first: Option<i64>,
    id: PageId,
    slot: Slot,
    /// The right neighbour, and the time at which that begins.
    right: Option<(PageId, i64)>,
}

impl TableRemains {
    pub(super) fn new(entry: Arc<TableEntry>, payload_len: usize, is_current: bool) -> Result<Self> {
        let layout = entry.schema.layout().clone();
        let reader = NodeReader::new(entry.root, payload_len, I64Order, layout, &tree_config())?;
        Ok(Self {
            entry,
            reader,
            leaves: Vec::new(),
            outdated: Vec::new(),
            first_children: HashMap::new(),
            is_current,
            gaps: Vec::new(),
            copied: 0,
            end_sequence: 0,
        })
    }

    /// Takes note of a page that names this table's tree.
    pub(super) fn visit(&mut self, found: &FoundPage) {
        if found.checkpoint < self.entry.since {
            return;
        }
        let is_outdated = found.standing == Standing::Outdated;
        if let Ok(leaf) = self.reader.leaf(found.id, &found.page) {
            let entries = leaf.entries();
            let place = LeafPlace {
                first: (!entries.is_empty()).then(|| I64Order::value_of(entries.prefix(0))),
                id: found.id,
                slot: found.slot,
                right: leaf.right().map(|(id, prefix)| (id, I64Order::value_of(prefix))),
            };
            if is_outdated {
                self.outdated.push(place);
            } else {
                self.is_current &= found.standing == Standing::Current;
                self.leaves.push(place);
            }
        } else if let Ok(child) = self.reader.first_child(found.id, &found.page)
            && !is_outdated
        {
            self.first_children.insert(found.id, child);
        }
    }

    /// Copies the rows of the leaves into `tree`, in the order of time.
    ///
    /// # Errors
    ///
    /// The new store failed.
    pub(super) fn copy_leaves(
        &mut self,
        pages: &Remains,
        tree: &Tree<'_>,
        problems: &mut Vec<Error>,
    ) -> Result<()> {
        self.leaves.sort_unstable_by_key(|leaf| leaf.first);
        self.gaps = self.find_gaps();
        for place in std::mem::take(&mut self.leaves) {
            self.copy_leaf(&place, &[Gap::EVERYWHERE], pages, tree, problems)?;
        }
        let gaps = self.gaps.clone();
        for place in std::mem::take(&mut self.outdated) {
            if self.copy_leaf(&place, &gaps, pages, tree, problems)? > 0 {
                self.is_current = false;
                let reason =
                    "an outdated copy of it was used: rows deleted since may be back, newer ones are missing";
                problems.push(pages.damaged(place.id, place.slot, reason.into()));
            }
        }
        Ok(())
    }

    /// Copies the rows of a leaf whose times lie in one of `ranges`; returns how many.
    fn copy_leaf(
        &mut self,
        place: &LeafPlace,
        ranges: &[Gap],
        pages: &Remains,
        tree: &Tree<'_>,
        problems: &mut Vec<Error>,
    ) -> Result<u64> {
        // On a bad disk what was read once need not be read again; that is no failure of the new store.
        let page = match pages.read(place.id, place.slot) {
            Ok(page) => page,
            Err(error) => {
                problems.push(error);
                return Ok(0);
            }
        };
        let layout = self.entry.schema.layout();
        let mut copy = || -> Result<u64> {
            let leaf = self.reader.leaf(place.id, &page)?;
            let in_use = |tie: &[u8; 8]| u64::from_le_bytes(*tie) < COUNTER_MAX;
            if !leaf.entries().ties().iter().all(in_use) {
                let reason = "its sequence numbers go further than any store gets";
                return Err(pages.damaged(place.id, place.slot, reason.into()));
            }
            let mut entries = LeafEntries::new(leaf.entries(), ranges, layout);
            let copied = tree.insert_sorted(&mut entries)?;
            self.copied += copied;
            self.end_sequence = self.end_sequence.max(entries.end_sequence);
            Ok(copied)
        };
        match copy() {
            // Its checksum is right, and it contradicts itself.
            Err(Error::Index(reason)) => {
                problems.push(pages.damaged(place.id, place.slot, reason.to_string()))
            }
            Err(error @ Error::Corrupt { .. }) => problems.push(error),
            other => return other,
        }
        Ok(0)
    }

    /// What came of the table, which has `rows` rows now.
    pub(super) fn report(&self, rows: u64) -> SalvagedTable {
        let missing = self
            .is_current
            .then(|| self.entry.rows.saturating_sub(self.copied));
        SalvagedTable {
            name: self.entry.name.clone(),
            schema: self.entry.schema.as_ref().clone(),
            rows,
            missing,
            gaps: if missing == Some(0) {
                Vec::new()
            } else {
                self.gaps.clone()
            },
        }
    }

    /// Where leaves are missing: at the start if the way to the first leaf is lost, and wherever the right neighbour of
    /// a leaf is.
    fn find_gaps(&self) -> Vec<Gap> {
        let whole: HashSet<PageId> = self.leaves.iter().map(|leaf| leaf.id).collect();
        let mut gaps = Vec::new();
        let mut first = self.entry.root;
        // Of damaged branches some may lead in a circle.
        for _ in 0..self.first_children.len() {
            first = self.first_children.get(&first).copied().unwrap_or(first);
        }
        if !whole.contains(&first) {
            let to = self.leaves.iter().find_map(|leaf| leaf.first);
            gaps.push(Gap { from: None, to });
        }
        for (id, fence) in self.leaves.iter().filter_map(|leaf| leaf.right) {
            if !whole.contains(&id) {
                let next = self
                    .leaves
                    .partition_point(|leaf| leaf.first.is_none_or(|first| first < fence));
                gaps.push(Gap {
                    from: Some(fence),
                    to: self.leaves.get(next).and_then(|leaf| leaf.first),
                });
            }
        }
        gaps
    }
}

/// The entries of a leaf whose times lie in one of several ranges, on their way into another tree.
struct LeafEntries<'l> {
    slice: LeafSlice<'l, I64Order, Columns>,
    ranges: &'l [Gap],
    layout: &'l Columns,
    next: usize,
    end_sequence: u64,
    key: [u8; 8],
    fixed: Vec<u8>,
    variable: Vec<&'l [u8]>,
}

impl<'l> LeafEntries<'l> {
    fn new(slice: LeafSlice<'l, I64Order, Columns>, ranges: &'l [Gap], layout: &'l Columns) -> Self {
        Self {
            slice,
            ranges,
            layout,
            next: 0,
            end_sequence: 0,
            key: [0; 8],
            fixed: Vec::new(),
            variable: Vec::new(),
        }
    }
}

impl EntrySource for LeafEntries<'_> {
    fn next_entry(&mut self) -> bedload_pages::Result<Option<Entry<'_>>> {
        let in_range = |&index: &usize| {
            let time = I64Order::value_of(self.slice.prefix(index));
            self.ranges.iter().any(|range| range.contains(time))
        };
        let Some(index) = (self.next..self.slice.len()).find(in_range) else {
            self.next = self.slice.len();
            return Ok(None);
        };
        let entry = self.slice.entry(index);
        self.next = index + 1;
        self.end_sequence = self.end_sequence.max(entry.tie() + 1);
        self.key = entry.prefix().to_be_bytes();
        self.fixed.clear();
        for column in 0..self.layout.fixed_widths().len() {
            self.fixed.extend_from_slice(entry.fixed(column));
        }
        self.variable.clear();
        self.variable
            .extend((0..self.layout.variable_columns()).map(|column| entry.variable(column)));
        Ok(Some(Entry {
            key: &self.key,
            tie: entry.tie(),
            row: Row {
                fixed: &self.fixed,
                variable: &self.variable,
            },
        }))
    }
}
