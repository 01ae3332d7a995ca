//! The entries that wait for one file of an index.

#![expect(unsafe_code, reason = "an index is described by a structure of PostgreSQL")]

use std::mem;

use pgrx::pg_sys;

use crate::compat::{self, FileName};
use crate::error::{FEWER_ENTRIES, Headroom, error_point, expect_memory, reserve};
use crate::interrupts::{are_sorted, merge_sort, sort};
use crate::key::Entry;

/// Up to this many entries after the sorted ones of a view are scanned one by one.
const UNSORTED_MAX: usize = 64;

/// Room for entries that is made at once.
const FIRST_ENTRIES: usize = 128;

/// An index and its file, when entries arrived for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) index: pg_sys::Oid,
    pub(super) file: FileName,
}

impl Origin {
    /// # Safety
    ///
    /// The index is open.
    pub(super) unsafe fn of(index: pg_sys::Relation) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Self {
                index: (*index).rd_id,
                file: compat::file_of(index),
            }
        }
    }

    /// Whether both have the same file.
    pub(super) fn shares_file(self, other: Self) -> bool {
        self.file == other.file
    }
}

/// Entries in the order of their arrival.
pub(super) struct Batch {
    origin: Origin,
    entries: Vec<Entry>,
    /// Subtransactions, and where the entries of each begin. One that is open is behind its parent,
    /// so its entries are the last.
    owners: Vec<(pg_sys::SubTransactionId, usize)>,
    /// The first entries, sorted, for scans.
    view: Vec<Entry>,
    /// When the origin's file was built: copies of it say the same.
    built: Option<u64>,
    /// The copy of the file that has all entries, if there is one.
    copy: Option<FileName>,
    weight: usize,
    /// For what entries take beside themselves.
    headroom: Headroom,
}

impl Batch {
    pub(super) fn new(origin: Origin, built: Option<u64>) -> Self {
        Self {
            origin,
            built,
            copy: None,
            entries: Vec::new(),
            owners: Vec::new(),
            view: Vec::new(),
            weight: 0,
            headroom: Headroom::new(),
        }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the entries belong into the file of another origin, built at that time if it is, and
    /// are not in it yet (rule 7).
    pub(super) fn belongs_to(&self, other: Origin, built: impl FnOnce() -> Option<u64>) -> bool {
        self.origin.shares_file(other)
            || self.origin.index == other.index
                && self.copy != Some(other.file)
                && self.built.is_some()
                && self.built == built()
    }

    /// Notes that all entries have been published into a copy of the file.
    pub(super) fn note_copy(&mut self, copy: FileName) {
        self.copy = Some(copy);
    }

    pub(super) fn push(&mut self, owner: pg_sys::SubTransactionId, entry: Entry) {
        if self.entries.len() == self.entries.capacity() {
            let more = self.entries.len().max(FIRST_ENTRIES);
            reserve(&mut self.entries, more);
        }
        self.headroom.take(entry.bytes_beside());
        if self.owners.last().is_none_or(|&(last, _)| last != owner) {
            self.owners.push((owner, self.entries.len()));
        }
        self.weight += entry.weight();
        self.entries.push(entry);
    }

    /// That of all entries.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// A copy of all entries, ascending.
    pub(super) fn sorted(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        reserve(&mut entries, self.len());
        entries.extend_from_slice(&self.entries);
        sort(&mut entries);
        entries
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.owners.clear();
        self.view = Vec::new();
        self.entries = Vec::new();
        self.weight = 0;
    }

    /// Hands the entries of a subtransaction to its parent.
    pub(super) fn hand_over(&mut self, child: pg_sys::SubTransactionId, parent: pg_sys::SubTransactionId) {
        for (owner, _) in &mut self.owners {
            if *owner == child {
                *owner = parent;
            }
        }
        self.owners.dedup_by_key(|&mut (owner, _)| owner);
    }

    /// Drops the entries of a subtransaction; tells whether none is left.
    pub(super) fn drop_those_of(&mut self, subtransaction: pg_sys::SubTransactionId) -> bool {
        if let Some(at) = self.owners.iter().position(|&(owner, _)| owner == subtransaction) {
            let (_, start) = self.owners[at];
            self.owners.truncate(at);
            self.weight -= self
                .entries
                .drain(start..)
                .map(|entry| entry.weight())
                .sum::<usize>();
            if self.view.len() > start {
                self.view.clear();
            }
        }
        self.entries.is_empty()
    }

    /// Entries between two, inclusively and ascending. O(log n) and what it returns, but for what
    /// was pushed since the last call.
    pub(super) fn between(&mut self, from: &Entry, to: &Entry) -> Vec<Entry> {
        if self.entries.len() - self.view.len() > UNSORTED_MAX {
            // Sorting may raise an error, and the transaction may continue from a savepoint:
            // the unwinding must leave no unsorted view.
            let mut view = mem::take(&mut self.view);
            let more = self.entries.len() - view.len();
            reserve(&mut view, more);
            view.extend_from_slice(&self.entries[view.len()..]);
            merge(&mut view);
            self.view = view;
        }
        let start = self.view.partition_point(|entry| entry < from);
        let end = self.view.partition_point(|entry| entry <= to).max(start);
        let mut found = Vec::new();
        reserve(&mut found, end - start);
        found.extend_from_slice(&self.view[start..end]);
        let unsorted = self.entries[self.view.len()..].iter();
        found.extend(unsorted.filter(|entry| (from..=to).contains(entry)).cloned());
        if !are_sorted(&found) {
            merge(&mut found);
        }
        found
    }
}

/// Sorts entries of which the first are sorted.
fn merge(entries: &mut [Entry]) {
    expect_memory(size_of_val(entries), FEWER_ENTRIES);
    error_point();
    merge_sort(entries);
}
