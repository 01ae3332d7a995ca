//! A tree with a SWARE buffer in front of it.

use super::entry::Buffered;
use super::filter::Filter;
use super::options::{BufferOptions, Filters};
use super::search::lower_bound;
use super::sort::{keep_last, sort};
use super::zone::Zone;
use crate::map::exclusive_map::ExclusiveMap;
use bedload_sortedness::Estimator;

/// A tree that a buffer can be drained into.
pub trait BaseTree: ExclusiveMap {
    /// The greatest key that the tree may hold, at least as great as every one that it does; none
    /// of an empty tree.
    fn max_key(&self) -> Option<u64>;

    /// Adds entries that ascend strictly and lie above every key of the tree, by packing leaves.
    fn append(&mut self, entries: &[(u64, u64)]);
}

/// How entries left a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Packed behind the tree's last leaf.
    pub appended: u64,
    /// Inserted through the root, one by one, as they overlapped with the tree.
    pub top_inserts: u64,
    /// Times that the buffer was drained without sorting it before.
    pub unsorted_drains: u64,
    /// How often the buffer, or its remainder, was sorted adaptively.
    pub adaptive_sorts: u64,
    /// Times that it was sorted by a stable merge sort.
    pub stable_sorts: u64,
    /// Times that a read had the unsorted part sorted.
    pub query_sorts: u64,
}

/// A tree `T` made aware of sortedness by a SWARE buffer (Raman et al., ICDE 2023, §IV): with a
/// [`PackedTree`](crate::near_sorted::PackedTree) below it is the SA B+-tree.
///
/// ```
/// use bedload_memory::near_sorted::PackedTree;
/// use bedload_memory::swa_buffer::{BufferOptions, SaTree};
///
/// let mut tree = SaTree::new(PackedTree::new(), BufferOptions::new(100));
/// for key in 0..1000 {
///     tree.insert(key ^ 3, key);
/// }
/// assert_eq!(tree.get(2), Some(1));
/// assert!(tree.drained().appended > 800);
/// ```
#[derive(Debug)]
pub struct SaTree<T> {
    base: T,
    options: BufferOptions,
    /// In order of arrival, but for sorted parts: up to `boundary`, and the query-sorted blocks
    /// behind it.
    entries: Vec<Buffered>,
    /// Entries of the main sorted part (the paper's previous_boundary).
    boundary: usize,
    /// Where query-sorted blocks end: the first begins at `boundary`, each at the end of the one
    /// before.
    blocks: Vec<usize>,
    /// A zone for each page of the buffer.
    zones: Vec<Zone>,
    /// The zone of all of the buffer.
    zone: Zone,
    /// As many first pages are sorted, and nothing behind them lies below their greatest key.
    last_sorted_zone: usize,
    global_filter: Filter,
    page_filters: Vec<Filter>,
    /// K and L of arrivals; a window is everything since the whole buffer was last in order.
    order: Estimator,
    drained: Drained,
}

impl<T: BaseTree> SaTree<T> {
    /// Puts a buffer in front of a tree.
    pub fn new(base: T, options: BufferOptions) -> Self {
        let options = options.with_pages_in_buffer();
        let pages = options.entries.div_ceil(options.page_entries);
        let mut order = Estimator::with_window(u64::MAX);
        if let Some(max) = base.max_key() {
            order.note_stored(max);
        }
        let (global, per_page) = match options.filters {
            Filters::None => (0, 0),
            Filters::Global => (options.entries, 0),
            Filters::GlobalAndPages => (options.entries, pages),
        };
        Self {
            base,
            options,
            entries: Vec::with_capacity(options.entries),
            boundary: 0,
            blocks: Vec::new(),
            zones: Vec::with_capacity(pages),
            zone: Zone::EMPTY,
            last_sorted_zone: 0,
            global_filter: Filter::new(global),
            page_filters: vec![Filter::new(options.page_entries); per_page],
            order,
            drained: Drained::default(),
        }
    }

    /// The tree below.
    pub fn base(&self) -> &T {
        &self.base
    }

    /// How entries left the buffer.
    #[must_use]
    pub fn drained(&self) -> Drained {
        self.drained
    }

    /// The order in which entries and tombstones arrived, in total and since the buffer was last
    /// sorted or drained; they overlap if they came below the greatest key of the tree. It
    /// determines how the buffer is sorted.
    #[must_use]
    pub fn order(&self) -> &Estimator {
        &self.order
    }

    /// Bytes of the buffer, its filters and zone maps.
    #[cfg(feature = "figures")]
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        let filters = match self.options.filters {
            Filters::None => 0,
            Filters::Global => self.options.entries * 10 / 8,
            Filters::GlobalAndPages => self.options.entries * 20 / 8,
        };
        self.entries.capacity() * size_of::<Buffered>() + self.zones.capacity() * size_of::<Zone>() + filters
    }

    /// Puts a value in place, whether or not the key was there.
    pub fn insert(&mut self, key: u64, value: u64) {
        self.push(Buffered {
            key,
            value: Some(value),
        });
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: u64) -> Option<u64> {
        match self.find(key) {
            Some(buffered) => buffered.value,
            None => {
                let may_be_below = !self.options.zone_maps || self.base.max_key() >= Some(key);
                may_be_below.then(|| self.base.get(key)).flatten()
            }
        }
    }

    /// Removes a key; returns its value. Within the range of the buffer's keys this leaves a
    /// tombstone, unless there is no such key.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        if !self.zone.contains(key) {
            return self.base.remove(key);
        }
        let removed = self.get(key)?;
        self.push(Buffered { key, value: None });
        Some(removed)
    }

    /// Drains all of the buffer.
    pub fn drain(&mut self) {
        self.sort_all();
        self.drain_first(self.entries.len());
    }

    /// Where the unsorted part begins.
    fn unsorted_from(&self) -> usize {
        self.blocks.last().copied().unwrap_or(self.boundary)
    }

    pub(super) fn push(&mut self, entry: Buffered) {
        if self.entries.len() == self.options.entries {
            self.drain_some();
        }
        let place = self.entries.len();
        let page = place / self.options.page_entries;
        let is_in_order = entry.key >= self.zone.max || place == 0;
        if is_in_order && self.boundary == place {
            self.boundary += 1;
        } else if !is_in_order {
            let ordered = &self.zones[..self.last_sorted_zone];
            let overlapped = ordered.partition_point(|zone| zone.max <= entry.key);
            self.last_sorted_zone = overlapped;
        }
        self.order.observe(entry.key);
        if self.boundary <= place {
            let hash = Filter::hash(entry.key);
            if self.options.filters != Filters::None {
                self.global_filter.insert(hash);
            }
            if let Some(filter) = self.page_filters.get_mut(page) {
                filter.insert(hash);
            }
        }
        if page == self.zones.len() {
            self.zones.push(Zone::EMPTY);
        }
        self.zones[page].widen(entry.key);
        self.zone.widen(entry.key);
        self.entries.push(entry);
        let page_is_full = self.entries.len().is_multiple_of(self.options.page_entries);
        if page_is_full && self.last_sorted_zone == page && self.boundary == self.entries.len() {
            self.last_sorted_zone += 1;
        }
    }

    /// The newest entry of this key in the buffer.
    fn find(&self, key: u64) -> Option<&Buffered> {
        if self.options.zone_maps && !self.zone.contains(key) {
            return None;
        }
        let unsorted = self.find_unsorted(key);
        if unsorted.is_some() {
            return unsorted;
        }
        for (number, &end) in self.blocks.iter().enumerate().rev() {
            let start = number
                .checked_sub(1)
                .map_or(self.boundary, |before| self.blocks[before]);
            let found = find_sorted(&self.entries[start..end], key);
            if found.is_some() {
                return found;
            }
        }
        find_sorted(&self.entries[..self.boundary], key)
    }

    fn find_unsorted(&self, key: u64) -> Option<&Buffered> {
        let newest = |page: &'_ [Buffered]| page.iter().rposition(|entry| entry.key == key);
        self.unsorted_pages(key)
            .find_map(|page| newest(page).map(|place| &page[place]))
    }

    /// Returns the pages of the unsorted part that a lookup has to scan, the newest first.
    fn unsorted_pages(&self, key: u64) -> impl Iterator<Item = &[Buffered]> {
        let (from, size) = (self.unsorted_from(), self.options.page_entries);
        let hash = Filter::hash(key);
        let may_hold_any = from < self.entries.len()
            && (self.options.filters == Filters::None || self.global_filter.may_contain(hash));
        let end = if may_hold_any { self.zones.len() } else { 0 };
        let may_hold = move |page: &usize| {
            let filter = self.page_filters.get(*page);
            (!self.options.zone_maps || self.zones[*page].contains(key))
                && filter.is_none_or(|filter| filter.may_contain(hash))
        };
        (from / size..end).rev().filter(may_hold).map(move |page| {
            let end = ((page + 1) * size).min(self.entries.len());
            &self.entries[from.max(page * size)..end]
        })
    }

    /// How many pages of the buffer a lookup of this key scans (Table II of the paper).
    #[cfg(feature = "figures")]
    #[must_use]
    pub fn pages_scanned(&self, key: u64) -> usize {
        if self.options.zone_maps && !self.zone.contains(key) {
            return 0;
        }
        let mut scanned = 0;
        let is_found = self.unsorted_pages(key).any(|page| {
            scanned += 1;
            page.iter().any(|entry| entry.key == key)
        });
        debug_assert!(
            is_found == self.find_unsorted(key).is_some(),
            "both scan the same pages"
        );
        scanned
    }

    /// How many entries and tombstones are in the buffer.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.entries.len()
    }

    /// Whether what is unsorted is more than a read should scan.
    fn unsorted_is_long(&self) -> bool {
        let percent = self.options.query_sorting_percent;
        percent < 100 && (self.entries.len() - self.unsorted_from()) * 100 > self.options.entries * percent
    }

    /// Query-driven sorting: makes a block of what is unsorted (§IV-C).
    fn sort_unsorted(&mut self) {
        let from = self.unsorted_from();
        if from == self.entries.len() {
            return;
        }
        let mut block = self.entries.split_off(from);
        let adaptively = self.is_nearly_sorted();
        sort(&mut block, adaptively);
        self.entries.extend(block);
        self.drained.query_sorts += 1;
        self.blocks.push(self.entries.len());
        self.note_order_from(from);
    }

    /// Brings zones up to date, and empties the filters, after the entries from `from` on were
    /// sorted.
    fn note_order_from(&mut self, from: usize) {
        let size = self.options.page_entries;
        self.zones.truncate(from / size);
        for page in self.entries[from / size * size..].chunks(size) {
            self.zones.push(Zone::of(page.iter().map(|entry| entry.key)));
        }
        self.last_sorted_zone = self.last_sorted_zone.min(self.entries.len() / size);
        self.global_filter.clear();
        self.page_filters.iter_mut().for_each(Filter::clear);
    }

    /// The paper's condition: K below 20 % or L below 5 % of the buffer.
    fn is_nearly_sorted(&self) -> bool {
        let (order, entries) = (self.order.since_window(), self.options.entries as u64);
        order.k * 5 < entries || order.l * 20 < entries
    }

    fn sort_all(&mut self) {
        if self.boundary == self.entries.len() {
            return;
        }
        if self.is_nearly_sorted() {
            self.drained.adaptive_sorts += 1;
        } else {
            self.drained.stable_sorts += 1;
        }
        let adaptively = self.is_nearly_sorted();
        sort(&mut self.entries, adaptively);
        self.all_is_sorted();
    }

    fn all_is_sorted(&mut self) {
        self.boundary = self.entries.len();
        self.blocks.clear();
        self.last_sorted_zone = self.entries.len() / self.options.page_entries;
        self.note_order_from(0);
        self.zone = Zone::of(self.entries.iter().map(|entry| entry.key));
        self.order.end_window();
    }

    /// Makes room: drains up to the last sorted zone if that lies in the part to be drained, and
    /// else that part, which must then be sorted; what remains is sorted (§IV-A).
    fn drain_some(&mut self) {
        if self.options.held_percent > 0 {
            return self.drain_above();
        }
        let size = self.options.page_entries;
        let part = (self.entries.len() * self.options.drain_percent / 100).max(1);
        let sorted = self.last_sorted_zone * size;
        if sorted == 0 {
            self.sort_all();
            let part = part.min(self.entries.len());
            self.drain_first(part);
        } else {
            self.drained.unsorted_drains += 1;
            self.drain_first(sorted.min(part));
        }
    }

    /// Makes room, but holds what overlaps with the tree back: it stays in the sorted part, until
    /// it is too much.
    fn drain_above(&mut self) {
        self.sort_all();
        // Adjacent entries of equal keys count as sorted.
        keep_last(&mut self.entries);
        self.boundary = self.entries.len();
        let overlapping = self.overlapping(&self.entries);
        let above = self.entries.len() - overlapping;
        let part = (above * self.options.drain_percent / 100).max(1).min(above);
        if above == 0 || overlapping * 100 > self.options.entries * self.options.held_percent {
            self.drain_first(overlapping + part);
        } else {
            let remaining = self.entries.split_off(overlapping + part);
            let leaving = self.entries.split_off(overlapping);
            self.entries.extend(remaining);
            self.all_is_sorted();
            // Last: the buffer is in order even if the tree panics.
            self.take_in(&leaving);
        }
    }

    /// How many of these entries, which are sorted, overlap with the tree.
    fn overlapping(&self, entries: &[Buffered]) -> usize {
        let max = self.base.max_key();
        max.map_or(0, |max| entries.partition_point(|entry| entry.key <= max))
    }

    /// Drains the first entries, which are sorted and above which all others lie, and sorts what
    /// remains.
    fn drain_first(&mut self, count: usize) {
        let remaining = self.entries.split_off(count);
        let mut leaving = std::mem::replace(&mut self.entries, Vec::with_capacity(self.options.entries));
        self.entries.extend(remaining);
        keep_last(&mut leaving);
        self.boundary = self.boundary.saturating_sub(count);
        self.blocks.clear();
        if self.boundary < self.entries.len() {
            self.sort_all();
        }
        self.all_is_sorted();
        // Last: the buffer is in order even if the tree panics.
        self.take_in(&leaving);
    }

    /// Adds entries, which ascend strictly, to the tree: overlapping ones from the root, the rest
    /// after its last leaf.
    fn take_in(&mut self, leaving: &[Buffered]) {
        let (overlapping, above) = leaving.split_at(self.overlapping(leaving));
        for entry in overlapping {
            match entry.value {
                Some(value) => self.base.insert(entry.key, value),
                None => {
                    self.base.remove(entry.key);
                }
            }
        }
        let above: Vec<(u64, u64)> = above
            .iter()
            .filter_map(|entry| Some((entry.key, entry.value?)))
            .collect();
        self.base.append(&above);
        if let Some(max) = self.base.max_key() {
            self.order.note_stored(max);
        }
        self.drained.top_inserts += overlapping.len() as u64;
        self.drained.appended += above.len() as u64;
    }

    /// The newest entries of the buffer between the bounds, ascending.
    fn buffered_between(&self, lower: u64, upper: u64) -> Vec<Buffered> {
        let is_within = |entry: &&Buffered| (lower..=upper).contains(&entry.key);
        let mut within = Vec::new();
        if self.zone.min > upper || self.zone.max < lower {
            return within;
        }
        let mut from = 0;
        for &to in std::iter::once(&self.boundary).chain(&self.blocks) {
            let part = &self.entries[from..to];
            let first = lower_bound(part, lower);
            within.extend(part[first..].iter().take_while(|entry| entry.key <= upper));
            from = to;
        }
        within.extend(self.entries[from..].iter().filter(is_within));
        within.sort_by_key(|entry| entry.key);
        keep_last(&mut within);
        within
    }
}

/// Merges older entries of a range with newer ones; both ascend strictly.
pub(super) fn merge_newer(newer: Vec<Buffered>, older: Vec<(u64, u64)>, entries: &mut Vec<(u64, u64)>) {
    let mut older = older.into_iter().peekable();
    for buffered in newer {
        while let Some(entry) = older.next_if(|entry| entry.0 < buffered.key) {
            entries.push(entry);
        }
        older.next_if(|entry| entry.0 == buffered.key);
        entries.extend(buffered.value.map(|value| (buffered.key, value)));
    }
    entries.extend(older);
}

impl<T: BaseTree> ExclusiveMap for SaTree<T> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    fn remove(&mut self, key: u64) -> Option<u64> {
        self.remove(key)
    }

    fn read_up(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let mut below = Vec::new();
        let next = self.base.read_up(lower, upper, &mut below);
        let read_to = next.map_or(upper, |next| next - 1);
        merge_newer(self.buffered_between(lower, read_to), below, entries);
        next
    }

    fn read_down(&self, lower: u64, upper: u64, entries: &mut Vec<(u64, u64)>) -> Option<u64> {
        let mut below = Vec::new();
        let next = self.base.read_down(lower, upper, &mut below);
        let read_to = next.map_or(lower, |next| next + 1);
        merge_newer(self.buffered_between(read_to, upper), below, entries);
        next
    }

    fn wants_preparation(&self) -> bool {
        self.unsorted_is_long()
    }

    fn prepare_reads(&mut self) {
        self.sort_unsorted();
    }

    fn check_structure(&self) -> Result<(), String> {
        self.base.check_structure()?;
        let mut from = 0;
        for &to in std::iter::once(&self.boundary).chain(&self.blocks) {
            if !self.entries[from..to].is_sorted_by_key(|entry| entry.key) {
                return Err(format!("the buffer's entries {from} to {to} are not sorted"));
            }
            from = to;
        }
        for (page, entries) in self.entries.chunks(self.options.page_entries).enumerate() {
            if let Some(entry) = entries.iter().find(|entry| !self.zones[page].contains(entry.key)) {
                return Err(format!(
                    "the key {} is outside of the zone of page {page}",
                    entry.key
                ));
            }
        }
        let (first, rest) = self
            .entries
            .split_at(self.last_sorted_zone * self.options.page_entries);
        let max = first.last().map_or(0, |entry| entry.key);
        if !first.is_sorted_by_key(|entry| entry.key) || rest.iter().any(|entry| entry.key < max) {
            return Err("an entry overlaps with the sorted zones".into());
        }
        Ok(())
    }
}

/// The last entry of this key in a sorted part: of those that arrived one behind the other it
/// counts.
fn find_sorted(part: &[Buffered], key: u64) -> Option<&Buffered> {
    let end = key
        .checked_add(1)
        .map_or(part.len(), |next| lower_bound(part, next));
    part[..end].last().filter(|entry| entry.key == key)
}
