//! Merging runs into one.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use super::builder::RunBuilder;
use super::columns::{Pick, RunColumns};
use super::cursor::RunCursor;
use super::reader::RunReader;
use super::shape::Shape;
use super::{Run, RunOptions};
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use bedload_pages::{PageStore, Result};

/// Makes one run of several. If several have an entry of one key and tie, that of the newest run
/// counts; tombstones stay, unless `is_last`: then no older run has entries for them to hide.
///
/// `None` if nothing is left.
///
/// # Errors
///
/// The store failed, or a page is damaged. The new run's pages are then leaks until the store is
/// swept.
pub fn merge<O: KeyOrder, L: RowLayout, S: PageStore>(
    store: &S,
    newest_first: &[RunReader<O, L, &S>],
    order: O,
    layout: L,
    config: RunOptions,
    is_last: bool,
) -> Result<Option<Run>> {
    let mut merge = Merge::new(store, newest_first, order, layout, config, is_last)?;
    while merge.advance(u64::MAX)? {}
    merge.finish()
}

/// A merge under way, which goes on for as many entries as it is told to.
pub struct Merge<'s, O, L, S: PageStore> {
    order: O,
    shape: Shape<L>,
    /// The newest first.
    sources: Vec<RunCursor<O, L, &'s S>>,
    builder: RunBuilder<'s, O, L, S>,
    store: &'s S,
    layout: L,
    config: RunOptions,
    picked: Vec<Pick>,
    is_last: bool,
    pages_written: u32,
    taken: u64,
}

/// The next entry of a source.
#[derive(Debug, Clone, Copy)]
struct Head {
    prefix: u64,
    next: usize,
    end: usize,
}

impl Head {
    fn new((columns, range): (&RunColumns, Range<usize>)) -> Self {
        Self {
            prefix: columns.prefix(range.start),
            next: range.start,
            end: range.end,
        }
    }

    fn pass(&mut self, columns: &RunColumns) {
        self.next += 1;
        if self.next < self.end {
            self.prefix = columns.prefix(self.next);
        }
    }
}

/// Picks entries of two leaves as long as their prefixes differ, up to `most` in all. Which of the
/// two is next cannot be foreseen, so there is no branch on it.
fn pick_by_prefix(leaves: &[&RunColumns], heads: &mut [Head; 2], most: usize, picked: &mut Vec<Pick>) {
    let left = &leaves[0].numbers[0][..heads[0].end];
    let right = &leaves[1].numbers[0][..heads[1].end];
    let (mut i, mut j) = (heads[0].next, heads[1].next);
    while let Some((&a, &b)) = left.get(i).zip(right.get(j)) {
        if a == b || picked.len() == most {
            break;
        }
        let is_second = usize::from(b < a);
        picked.push(Pick::new(is_second, if b < a { j } else { i }));
        j += is_second;
        i += 1 - is_second;
    }
    for (head, next, prefixes) in [(0, i, left), (1, j, right)] {
        heads[head].next = next;
        heads[head].prefix = prefixes.get(next).copied().unwrap_or_default();
    }
}

impl<'s, O: KeyOrder, L: RowLayout, S: PageStore> Merge<'s, O, L, S> {
    /// Begins to merge; see [`merge`].
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn new(
        store: &'s S,
        newest_first: &[RunReader<O, L, &'s S>],
        order: O,
        layout: L,
        config: RunOptions,
        is_last: bool,
    ) -> Result<Self> {
        let cursors = newest_first
            .iter()
            .map(|reader| reader.range(Bound::Unbounded, Bound::Unbounded))
            .collect::<Result<_>>()?;
        Self::of_cursors(store, cursors, order, layout, config, is_last)
    }

    /// Begins to merge what ascending cursors have still to give, the cursor of the newest run
    /// first.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn of_cursors(
        store: &'s S,
        newest_first: Vec<RunCursor<O, L, &'s S>>,
        order: O,
        layout: L,
        config: RunOptions,
        is_last: bool,
    ) -> Result<Self> {
        let mut merge = Self {
            shape: Shape::new(layout.clone(), &order, store.payload_len(), config.ties),
            builder: RunBuilder::new(store, order.clone(), layout.clone(), config)?,
            store,
            layout,
            config,
            order,
            sources: Vec::with_capacity(newest_first.len()),
            picked: Vec::new(),
            is_last,
            pages_written: 0,
            taken: 0,
        };
        for mut cursor in newest_first {
            cursor.expect_whole_leaves();
            if cursor.fill()? {
                merge.sources.push(cursor);
            }
        }
        Ok(merge)
    }

    /// Ends the present run, and begins another with the entries that are left; `None` if the
    /// present one has none.
    ///
    /// # Errors
    ///
    /// The store failed. The merge can only be given up then.
    pub fn cut(&mut self) -> Result<Option<Run>> {
        let next = RunBuilder::new(self.store, self.order.clone(), self.layout.clone(), self.config)?;
        let finished = std::mem::replace(&mut self.builder, next).finish()?;
        self.pages_written += finished.map_or(0, |run| run.pages);
        Ok(finished)
    }

    /// Pages written so far.
    pub fn pages_written(&self) -> u32 {
        self.pages_written + self.builder.pages()
    }

    /// Entries taken so far, those included that an equal newer one or a tombstone has done away
    /// with.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The key and the tie of the entry that comes next; `None` behind the last. The key is put
    /// into `key`.
    pub fn next_position(&self, key: &mut Vec<u8>) -> Option<u64> {
        let leaves: Vec<&RunColumns> = self.sources.iter().map(|source| source.leaf().0).collect();
        let heads: Vec<Head> = self
            .sources
            .iter()
            .map(|source| Head::new(source.leaf()))
            .collect();
        let least = (0..heads.len()).min_by(|&a, &b| self.order_of(&leaves, &heads, a, b))?;
        let entry = self.sources[least].present();
        let mut scratch = Vec::new();
        key.clear();
        key.extend_from_slice(entry.key(&mut scratch));
        Some(entry.tie())
    }

    /// Merges up to `entries` more entries; returns whether there is more to do.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged. The merge can only be given up then.
    pub fn advance(&mut self, entries: u64) -> Result<bool> {
        let mut left = entries;
        while left > 0 && !self.sources.is_empty() {
            let room = self
                .builder
                .room()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= self.take(room)? as u64;
        }
        Ok(!self.sources.is_empty())
    }

    /// Merges entries of the leaves at hand, until one of them is used up or `most` entries were
    /// taken; returns how many were. First it is found which entry comes after which, then they are
    /// copied column by column.
    fn take(&mut self, most: usize) -> Result<usize> {
        self.picked.clear();
        let leaves: Vec<&RunColumns> = self.sources.iter().map(|source| source.leaf().0).collect();
        let mut heads: Vec<Head> = self
            .sources
            .iter()
            .map(|source| Head::new(source.leaf()))
            .collect();
        let mut picked = std::mem::take(&mut self.picked);
        match &mut heads[..] {
            [only] => {
                let end = only.end.min(only.next.saturating_add(most));
                picked.extend((only.next..end).map(|index| Pick::new(0, index)));
                only.next = end;
            }
            [first, second] => {
                let mut both = [*first, *second];
                self.pick_of_two(&leaves, &mut both, most, &mut picked);
                [*first, *second] = both;
            }
            heads => self.pick_of_many(&leaves, heads, most, &mut picked),
        }
        let taken = picked.len();
        if self.is_last {
            let tombstones = self.shape.tombstones_at();
            picked.retain(|pick| leaves[pick.source()].numbers[tombstones][pick.index()] == 0);
        }
        self.taken += taken as u64;
        self.builder.push_picked(&leaves, &picked)?;
        self.picked = picked;
        for (at, head) in heads.into_iter().enumerate().rev() {
            self.sources[at].pass_to(head.next);
            if !self.sources[at].fill()? {
                self.sources.remove(at);
            }
        }
        Ok(taken)
    }

    fn pick_of_two(
        &self,
        leaves: &[&RunColumns],
        heads: &mut [Head; 2],
        most: usize,
        picked: &mut Vec<Pick>,
    ) {
        loop {
            pick_by_prefix(leaves, heads, most, picked);
            if picked.len() == most || heads.iter().any(|head| head.next == head.end) {
                return;
            }
            let order = self.compare(leaves, heads, 0, 1);
            let least = usize::from(order.is_gt());
            picked.push(Pick::new(least, heads[least].next));
            heads[least].pass(leaves[least]);
            if order.is_eq() {
                // The entry of the same key and tie in the older run is passed over.
                heads[1].pass(leaves[1]);
            }
            if heads.iter().any(|head| head.next == head.end) {
                return;
            }
        }
    }

    /// The sources stand in a queue in the order of their next entries.
    fn pick_of_many(&self, leaves: &[&RunColumns], heads: &mut [Head], most: usize, picked: &mut Vec<Pick>) {
        let mut queue: Vec<usize> = (0..heads.len()).collect();
        queue.sort_unstable_by(|&a, &b| self.order_of(leaves, heads, a, b));
        while picked.len() < most {
            let least = queue[0];
            picked.push(Pick::new(least, heads[least].next));
            // Entries of the same key and tie in older runs come next in the queue, and are passed
            // over.
            let equals = queue[1..].iter().take_while(|&&other| {
                heads[other].prefix == heads[least].prefix
                    && self.compare(leaves, heads, other, least).is_eq()
            });
            let passed = 1 + equals.count();
            let mut is_used_up = false;
            for &source in &queue[..passed] {
                heads[source].pass(leaves[source]);
                is_used_up |= heads[source].next == heads[source].end;
            }
            if is_used_up {
                return;
            }
            for first in (0..passed).rev() {
                let mut at = first;
                while at + 1 < queue.len() && self.order_of(leaves, heads, queue[at + 1], queue[at]).is_lt() {
                    queue.swap(at, at + 1);
                    at += 1;
                }
            }
        }
    }

    /// Compares the next entries of two sources; of equals the newest comes first.
    fn order_of(&self, leaves: &[&RunColumns], heads: &[Head], a: usize, b: usize) -> Ordering {
        match heads[a].prefix.cmp(&heads[b].prefix) {
            Ordering::Equal => self.compare(leaves, heads, a, b).then(a.cmp(&b)),
            order => order,
        }
    }

    /// Compares two entries of one prefix.
    fn compare(&self, leaves: &[&RunColumns], heads: &[Head], a: usize, b: usize) -> Ordering {
        let (left, right, i, j) = (leaves[a], leaves[b], heads[a].next, heads[b].next);
        let shape = &self.shape;
        let order = if shape.keys {
            self.order
                .compare(left.string(shape, 0, i), right.string(shape, 0, j))
        } else {
            Ordering::Equal
        };
        order.then_with(|| left.tie(shape, i).cmp(&right.tie(shape, j)))
    }

    /// Ends the merge, which must have nothing more to do; `None` if nothing was left.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn finish(self) -> Result<Option<Run>> {
        debug_assert!(self.sources.is_empty(), "there is more to do");
        self.builder.finish()
    }
}
