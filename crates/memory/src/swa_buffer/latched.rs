//! A SWARE buffer for several threads: latches of two levels (Raman et al., ICDE 2023, §IV-D).
//!
//! Entries arrive in pages that stand before the buffer of an [`SaTree`], as many as may be
//! unsorted before a read sorts them.
//!
//! Thread rules:
//! 1. The *buffer latch* is held shared to append and to read, and exclusively to drain, to sort
//!    and to remove.
//! 2. Under it a *page latch* guards the entries of one page of arrivals, its zone and its filter
//!    together: it is held exclusively to append, shared to read. Nobody waits for a second latch
//!    with a page latch in hand.
//! 3. A read that finds the pages full upgrades its buffer latch, moves what arrived into the
//!    buffer, and sorts it there.
//!
//! Invariants:
//! 1. A page gets its first entry only when all pages before it are full. So arrivals have one
//!    order, that of their pages and places, and an append takes effect when its entry stands in
//!    its page.
//! 2. Arrivals leave their pages only under the exclusive buffer latch, all at once and in order.
//!    So everything in the tree or its buffer is older than every arrival, and no reader meets an
//!    entry twice or misses one.
//! 3. A reader goes from the newest page to the oldest. Where a page after the one it began with
//!    was opened meanwhile, the first page is full and changes no more: the read takes effect when
//!    that page became full.

use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{RwLock, RwLockUpgradableReadGuard};

use super::entry::Buffered;
use super::filter::Filter;
use super::options::{BufferOptions, Filters};
use super::sa_tree::{BaseTree, SaTree, merge_newer};
use super::sort::keep_last;
use super::zone::Zone;
use crate::map::exclusive_map::ExclusiveMap;
use crate::map::exclusive_map::{Bounds, inclusive};
use crate::map::range::{End, Leaves, Range};
use crate::map::shared_map::SharedMap;

/// An [`SaTree`] that several threads insert into and read concurrently, with the paper's two
/// levels of latches. Inserts wait for one another only at a page, and for reads of that page;
/// draining and sorting exclude all others. So does a removal, which must know the value.
///
/// ```
/// use std::ops::Bound;
///
/// use bedload_memory::SharedMap;
/// use bedload_memory::near_sorted::PackedTree;
/// use bedload_memory::swa_buffer::{BufferOptions, LatchedSaTree};
///
/// let map = LatchedSaTree::new(PackedTree::new(), BufferOptions::new(1_000));
/// std::thread::scope(|scope| {
///     scope.spawn(|| (0..5_000).for_each(|key| map.insert(2 * key, key)));
///     scope.spawn(|| (0..5_000).for_each(|key| map.insert(2 * key + 1, key)));
/// });
/// assert_eq!(map.get(7_777), Some(3_888));
/// assert_eq!(map.range((Bound::Included(100), Bound::Excluded(200))).count(), 100);
/// ```
#[derive(Debug)]
pub struct LatchedSaTree<T> {
    inner: RwLock<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    tree: SaTree<T>,
    pages: Box<[RwLock<ArrivalPage>]>,
    /// The first page that may have room.
    open: AtomicUsize,
    /// Entries of a page.
    page_entries: usize,
    zone_maps: bool,
}

/// A page of arrivals.
#[derive(Debug)]
struct ArrivalPage {
    entries: Vec<Buffered>,
    zone: Zone,
    filter: Option<Filter>,
}

impl ArrivalPage {
    fn new(options: &BufferOptions) -> Self {
        Self {
            entries: Vec::with_capacity(options.page_entries),
            zone: Zone::EMPTY,
            filter: (options.filters == Filters::GlobalAndPages).then(|| Filter::new(options.page_entries)),
        }
    }

    fn push(&mut self, entry: Buffered) {
        self.zone.widen(entry.key);
        if let Some(filter) = &mut self.filter {
            filter.insert(Filter::hash(entry.key));
        }
        self.entries.push(entry);
    }

    /// The newest entry of a key.
    fn find(&self, key: u64, hash: u64, zone_maps: bool) -> Option<Buffered> {
        let may_hold = (!zone_maps || self.zone.contains(key))
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash));
        let newest_first = self.entries.iter().rev();
        may_hold
            .then(|| newest_first.copied().find(|entry| entry.key == key))
            .flatten()
    }
}

impl<T: BaseTree> Inner<T> {
    /// Puts an entry behind all that arrived; no if the pages are full.
    fn append(&self, entry: Buffered) -> bool {
        loop {
            let number = self.open.load(Ordering::Acquire);
            let Some(page) = self.pages.get(number) else {
                return false;
            };
            let mut page = page.write();
            if page.entries.len() < self.page_entries {
                page.push(entry);
                return true;
            }
            drop(page);
            // A second thread finds it open.
            let _ = self
                .open
                .compare_exchange(number, number + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The pages that may have entries, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = &RwLock<ArrivalPage>> {
        let end = self.open.load(Ordering::Acquire) + 1;
        self.pages[..end.min(self.pages.len())].iter().rev()
    }

    fn get(&self, key: u64) -> Option<u64> {
        let hash = Filter::hash(key);
        let arrived = self
            .newest_first()
            .find_map(|page| page.read().find(key, hash, self.zone_maps));
        match arrived {
            Some(entry) => entry.value,
            None => self.tree.get(key),
        }
    }

    /// The newest arrivals between the bounds, ascending.
    fn arrived_between(&self, lower: u64, upper: u64) -> Vec<Buffered> {
        let mut pages: Vec<Vec<Buffered>> = Vec::new();
        for page in self.newest_first() {
            let page = page.read();
            if page.zone.min <= upper && page.zone.max >= lower {
                let is_within = |entry: &&Buffered| (lower..=upper).contains(&entry.key);
                pages.push(page.entries.iter().filter(is_within).copied().collect());
            }
        }
        let mut within: Vec<Buffered> = pages.into_iter().rev().flatten().collect();
        within.sort_by_key(|entry| entry.key);
        keep_last(&mut within);
        within
    }

    fn wants_sorting(&self) -> bool {
        self.open.load(Ordering::Acquire) == self.pages.len() || self.tree.wants_preparation()
    }

    /// Moves all arrivals into the buffer.
    fn settle(&mut self) {
        for page in &mut self.pages {
            let page = page.get_mut();
            for entry in page.entries.drain(..) {
                self.tree.push(entry);
            }
            page.zone = Zone::EMPTY;
            if let Some(filter) = &mut page.filter {
                filter.clear();
            }
        }
        *self.open.get_mut() = 0;
    }
}

impl<T: BaseTree> LatchedSaTree<T> {
    /// Puts a buffer for several threads in front of a tree.
    pub fn new(base: T, options: BufferOptions) -> Self {
        let options = options.with_pages_in_buffer();
        let unsorted = options.entries * options.query_sorting_percent / 100;
        let pages = unsorted.div_ceil(options.page_entries).max(1);
        Self {
            inner: RwLock::new(Inner {
                tree: SaTree::new(base, options),
                pages: (0..pages)
                    .map(|_| RwLock::new(ArrivalPage::new(&options)))
                    .collect(),
                open: AtomicUsize::new(0),
                page_entries: options.page_entries,
                zone_maps: options.zone_maps,
            }),
        }
    }

    /// The tree, for one thread again, with all that arrived in its buffer.
    pub fn into_inner(self) -> SaTree<T> {
        let mut inner = self.inner.into_inner();
        inner.settle();
        inner.tree
    }

    /// Rule 3.
    fn read<R>(&self, read: impl FnOnce(&Inner<T>) -> R) -> R {
        let inner = self.inner.read();
        if !inner.wants_sorting() {
            return read(&inner);
        }
        drop(inner);
        let inner = self.inner.upgradable_read();
        if !inner.wants_sorting() {
            return read(&inner);
        }
        let mut inner = RwLockUpgradableReadGuard::upgrade(inner);
        inner.settle();
        if inner.tree.wants_preparation() {
            inner.tree.prepare_reads();
        }
        read(&inner)
    }
}

impl<T: BaseTree> SharedMap<u64> for LatchedSaTree<T> {
    fn insert(&self, key: u64, value: u64) {
        let entry = Buffered {
            key,
            value: Some(value),
        };
        if !self.inner.read().append(entry) {
            let mut inner = self.inner.write();
            inner.settle();
            inner.tree.push(entry);
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.read(|inner| inner.get(key))
    }

    fn remove(&self, key: u64) -> Option<u64> {
        let mut inner = self.inner.write();
        inner.settle();
        inner.tree.remove(key)
    }

    fn range(&self, bounds: (Bound<u64>, Bound<u64>)) -> Range<'_, u64> {
        Range::new(self, bounds)
    }

    fn check_structure(&self) -> Result<(), String> {
        let inner = self.inner.write();
        let lens: Vec<usize> = inner.pages.iter().map(|page| page.read().entries.len()).collect();
        let first_with_room = lens.iter().position(|&len| len < inner.page_entries);
        if let Some(first) = first_with_room
            && lens[first + 1..].iter().any(|&len| len > 0)
        {
            return Err(format!(
                "page {first} of the arrivals has room, and one after it has entries"
            ));
        }
        for (number, page) in inner.pages.iter().enumerate() {
            let page = page.read();
            if let Some(entry) = page.entries.iter().find(|entry| !page.zone.contains(entry.key)) {
                return Err(format!(
                    "the key {} is outside of the zone of page {number}",
                    entry.key
                ));
            }
        }
        inner.tree.check_structure()
    }
}

impl<T: BaseTree> Leaves<[u64; 1]> for LatchedSaTree<T> {
    fn read(
        &self,
        from: End,
        _: bool,
        bounds: Bounds,
        entries: &mut Vec<([u64; 1], u64)>,
    ) -> Option<[u64; 1]> {
        let (lower, upper) = inclusive((bounds.0.map(|[key]| key), bounds.1.map(|[key]| key)))?;
        let (mut below, mut read) = (Vec::new(), Vec::new());
        let next = self.read(|inner| {
            let (next, from, to) = match from {
                End::Least => {
                    let next = inner.tree.read_up(lower, upper, &mut below);
                    (next, lower, next.map_or(upper, |next| next - 1))
                }
                End::Greatest => {
                    let next = inner.tree.read_down(lower, upper, &mut below);
                    (
                        next.map(|next| next + 1),
                        next.map_or(lower, |next| next + 1),
                        upper,
                    )
                }
            };
            merge_newer(inner.arrived_between(from, to), below, &mut read);
            next
        });
        entries.extend(read.into_iter().map(|(key, value)| ([key], value)));
        next.map(|key| [key])
    }
}
