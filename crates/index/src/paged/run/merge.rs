//! Merging runs into one.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use super::builder::RunBuilder;
use super::columns::{Columns, Pick};
use super::cursor::{RunCursor, RunReader};
use super::shape::Shape;
use super::{Run, RunConfig};
use crate::paged::{KeyOrder, PageStore, Result, RowLayout};

/// Makes one run of several. Of entries of one key and tie the one of the newest run counts; tombstones stay, unless
/// `is_last`: with no older run behind them they have nothing left to say.
///
/// `None` if nothing is left.
///
/// # Errors
///
/// The store failed, or a page is damaged. The new run's pages are then leaks until the store is swept.
pub fn merge<O: KeyOrder, L: RowLayout, S: PageStore>(
    store: &S,
    newest_first: &[RunReader<O, L, &S>],
    order: O,
    layout: L,
    config: RunConfig,
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
    config: RunConfig,
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
    fn new((columns, range): (&Columns, Range<usize>)) -> Self {
        Self {
            prefix: columns.prefix(range.start),
            next: range.start,
            end: range.end,
        }
    }

    fn pass(&mut self, columns: &Columns) {
        self.next += 1;
        if self.next < self.end {
            self.prefix = columns.prefix(self.next);
        }
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
        config: RunConfig,
        is_last: bool,
    ) -> Result<Self> {
        let cursors = newest_first
            .iter()
            .map(|reader| reader.range(Bound::Unbounded, Bound::Unbounded))
            .collect::<Result<_>>()?;
        Self::of_cursors(store, cursors, order, layout, config, is_last)
    }

    /// Begins to merge what ascending cursors have still to give, the cursor of the newest run first.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn of_cursors(
        store: &'s S,
        newest_first: Vec<RunCursor<O, L, &'s S>>,
        order: O,
        layout: L,
        config: RunConfig,
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
            if cursor.fill()? {
                merge.sources.push(cursor);
            }
        }
        Ok(merge)
    }

    /// Ends the present run, and begins another with the entries that are left; `None` if the present one has none.
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

    /// Entries taken so far, those included that an equal newer one or a tombstone has done away with.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The key and the tie of the entry that comes next; `None` behind the last. The key is put into `key`.
    pub fn next_position(&self, key: &mut Vec<u8>) -> Option<u64> {
        let leaves: Vec<&Columns> = self.sources.iter().map(|source| source.leaf().0).collect();
        let heads: Vec<Head> = self
            .sources
            .iter()
            .map(|source| Head::new(source.leaf()))
            .collect();
        if heads.is_empty() {
            return None;
        }
        let entry = self.sources[self.least(&leaves, &heads)].present();
        let mut scratch = Vec::new();
        key.clear();
        key.extend_from_slice(entry.key(&mut scratch));
        Some(entry.tie())
    }

    /// Takes up to `entries` entries further; whether there is more to do.
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

    /// Merges entries of the leaves at hand, until one of them is used up or `most` entries were taken; returns how many
    /// were. First it is found which entry comes after which, then they are copied column by column.
    fn take(&mut self, most: usize) -> Result<usize> {
        self.picked.clear();
        let leaves: Vec<&Columns> = self.sources.iter().map(|source| source.leaf().0).collect();
        let mut heads: Vec<Head> = self
            .sources
            .iter()
            .map(|source| Head::new(source.leaf()))
            .collect();
        let mut taken = 0;
        while taken < most {
            let least = self.least(&leaves, &heads);
            // What older runs have of the same key and tie is passed over.
            for other in least + 1..heads.len() {
                if heads[other].prefix == heads[least].prefix
                    && self.compare(&leaves, &heads, other, least).is_eq()
                {
                    heads[other].pass(leaves[other]);
                }
            }
            let index = heads[least].next;
            heads[least].pass(leaves[least]);
            taken += 1;
            let is_tombstone = leaves[least].numbers[self.shape.tombstones_at()][index] != 0;
            if !(is_tombstone && self.is_last) {
                self.picked.push(Pick { source: least, index });
            }
            if heads.iter().any(|head| head.next == head.end) {
                break;
            }
        }
        self.taken += taken as u64;
        self.builder.push_picked(&leaves, &self.picked)?;
        for (at, head) in heads.into_iter().enumerate().rev() {
            self.sources[at].pass_to(head.next);
            if !self.sources[at].fill()? {
                self.sources.remove(at);
            }
        }
        Ok(taken)
    }

    /// The source with the least entry; of equals the newest.
    fn least(&self, leaves: &[&Columns], heads: &[Head]) -> usize {
        let mut least = 0;
        for other in 1..heads.len() {
            let is_less = match heads[other].prefix.cmp(&heads[least].prefix) {
                Ordering::Equal => self.compare(leaves, heads, other, least).is_lt(),
                order => order.is_lt(),
            };
            least = if is_less { other } else { least };
        }
        least
    }

    /// How two entries of one prefix stand to each other.
    fn compare(&self, leaves: &[&Columns], heads: &[Head], a: usize, b: usize) -> Ordering {
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
