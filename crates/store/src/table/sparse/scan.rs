//! Scanning a sparse table: blocks in the order of their numbers, rows of heads in between.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bedload_pages::{PageId, PageRead};

use super::block::{BlockBytes, BlockRows, Owner, Runs};
use super::block_map;
use super::flush::slots_in;
use super::head_rows::{HeadRow, HeadRows};
use super::output::Output;
use super::table::SparseEntry;
use super::view::SparseView;
use crate::error::{Error, Result};
use crate::pages::{Page, PageRef};
use crate::rows::BlockRef;
use crate::rows::TableEntry;
use crate::rows::{Deletions, Head, Place};

/// Bytes of blocks that are read in one call.
const READ_BYTES: usize = 2 << 20;
/// Scans of at most so many blocks read them one by one into the cache, as point reads do.
const SHORT_BLOCKS: u64 = 4;
/// Blocks that are looked up before the first of them is copied, so that their memory is prefetched
/// meanwhile.
const TOGETHER: usize = 16;

/// A scan between two ticks.
pub(crate) struct BlockScan<'s> {
    owner: Owner<'s>,
    view: &'s SparseView,
    files: &'s BTreeMap<i64, PageId>,
    heads: &'s [Arc<Head>],
    visible: u64,
    deletions: &'s Deletions,
    reverse: bool,
    /// The first and the last tick.
    ticks: (i64, i64),
    map: Option<(i64, PageRef)>,
    ahead: &'s mut BlocksAhead,
}

/// Blocks that were read together, in the order of the scan. Those of one scan: they count in its
/// view alone.
#[derive(Debug, Default)]
pub(crate) struct BlocksAhead(VecDeque<(i64, BlockBytes)>);

/// A block as a scan finds it: what its rows count as, and where it stands.
type Found = (u64, BlockRef);

/// A block that is there, and what a scan wants of it.
struct Wanted {
    block: i64,
    sequence: u64,
    named: BlockRef,
    /// The first and the last slot.
    slots: (usize, usize),
}

impl Wanted {
    /// Slots of the block that are wanted.
    fn count(&self) -> usize {
        self.slots.1 - self.slots.0 + 1
    }
}

impl<'s> BlockScan<'s> {
    /// A scan of a table as of a view; `ticks` are the first and the last.
    pub(crate) fn new(
        view: &'s SparseView,
        (table, sparse): (&'s TableEntry, &'s SparseEntry),
        (visible, deletions): (u64, &'s Deletions),
        ticks: (i64, i64),
        reverse: bool,
        ahead: &'s mut BlocksAhead,
    ) -> Result<Self> {
        Ok(Self {
            owner: sparse.owner(table.id, view.blocks.store()),
            view,
            files: sparse.files()?,
            heads: &view.heads,
            visible,
            deletions,
            reverse,
            ticks,
            map: None,
            ahead,
        })
    }

    /// Gives rows to the output until it is full or nothing is left; `heads` has the rows of the
    /// heads in the range of the scan.
    pub(crate) fn fill(&mut self, heads: &mut HeadRows, output: &mut Output<'_>) -> Result<()> {
        let shape = self.owner.shape;
        // Deletions are checked row by row, and text may end a batch at any block.
        let is_plain = self.deletions.is_empty() && !shape.has_text();
        let (from, to) = (shape.place_of(self.ticks.0).0, shape.place_of(self.ticks.1).0);
        let (begin, end) = if self.reverse { (to, from) } else { (from, to) };
        let mut at = Some(begin);
        while let Some(begin) = at {
            let of_heads = heads
                .peek()
                .map(|(time, _)| shape.place_of(self.owner.grid.tick(time).0).0);
            let together = if is_plain {
                self.take_together(begin, end, of_heads, output)?
            } else {
                None
            };
            let block = match together {
                Some(last) => last,
                None => {
                    let of_blocks = self.next_block(begin, end)?;
                    let block = match (of_heads, of_blocks) {
                        (Some(head), Some(block)) if self.reverse => head.max(block),
                        (Some(head), Some(block)) => head.min(block),
                        (head, block) => match head.or(block) {
                            Some(block) => block,
                            None => return Ok(()),
                        },
                    };
                    self.block(block, heads, output)?;
                    block
                }
            };
            if output.is_full() {
                return Ok(());
            }
            at = self.behind(block, end);
        }
        Ok(())
    }

    /// The block after another in the direction of the scan, up to `end`.
    fn behind(&self, block: i64, end: i64) -> Option<i64> {
        if block == end {
            return None;
        }
        let next = if self.reverse {
            block.checked_sub(1)
        } else {
            block.checked_add(1)
        };
        next.filter(|next| (*next <= end) != self.reverse || *next == end)
    }

    /// Gives the rows of some blocks before `of_heads`, in which heads have rows, too; returns the
    /// last block it looked at, none if there is none before that.
    fn take_together(
        &mut self,
        begin: i64,
        end: i64,
        of_heads: Option<i64>,
        output: &mut Output<'_>,
    ) -> Result<Option<i64>> {
        let Some(first) = self.wanted(begin, end, of_heads)? else {
            return Ok(None);
        };
        let mut last = first.block;
        let is_all = of_heads.is_none();
        if is_all && self.behind(last, end).is_none() {
            // Most short ranges: one stretch of one block.
            let bytes = self.bytes(&first)?;
            let rows = self.rows_of(&first, &bytes);
            let numbers = rows.numbers(first.slots);
            output.approach(&rows, numbers.clone());
            // The bitmap of a full block is not read.
            let run = Some(numbers.clone()).filter(|_| self.is_full(&first));
            if let Some(run) = run.or_else(|| rows.next_run(numbers.start, numbers.end))
                && (run.end == numbers.end || rows.next_run(run.end, numbers.end).is_none())
            {
                output.expect(run.len());
                output.take(&rows, run, self.deletions)?;
                return Ok(Some(last));
            }
        }
        let mut slots = first.count();
        let mut wanted = Vec::with_capacity(TOGETHER);
        wanted.push(first);
        while wanted.len() < TOGETHER
            && slots < output.room()
            && let Some(next) = self.behind(last, end)
            && let Some(next) = self.wanted(next, end, of_heads)?
        {
            last = next.block;
            slots += next.count();
            wanted.push(next);
        }
        let bytes = self.bytes_of(&wanted)?;
        // Or there are more, on the disk: then the next are read.
        wanted.truncate(bytes.len());
        let last = wanted.last().map_or(last, |wanted| wanted.block);
        let is_all = is_all && self.behind(last, end).is_none();
        let blocks = || wanted.iter().zip(&bytes);
        let runs = || blocks().flat_map(|(wanted, bytes)| self.runs_of(wanted, bytes));
        let len = runs().map(|(_, run)| run.len()).sum();
        if is_all {
            output.expect(len);
        }
        if output.takes_whole(len) {
            output.take(&runs().collect::<Runs<'_>>(), 0..len, self.deletions)?;
            return Ok(Some(last));
        }
        let mut runs = runs().peekable();
        while let Some((rows, run)) = runs.next().filter(|_| !output.is_full()) {
            if let Some((next, run)) = runs.peek() {
                output.approach(next, run.clone());
            }
            output.take(&rows, run, self.deletions)?;
        }
        Ok(Some(last))
    }

    /// The first block from `begin` on that is there, up to `end` and before `of_heads`.
    fn wanted(&mut self, begin: i64, end: i64, of_heads: Option<i64>) -> Result<Option<Wanted>> {
        let Some((block, (sequence, named))) = self.next_found(begin, end)? else {
            return Ok(None);
        };
        let is_before = |head: i64| if self.reverse { block > head } else { block < head };
        if !of_heads.is_none_or(is_before) {
            return Ok(None);
        }
        let slots = slots_in(self.owner.shape, block, self.ticks);
        Ok(slots.map(|slots| Wanted {
            block,
            sequence,
            named,
            slots,
        }))
    }

    /// The bytes of a block, from memory or from the disk.
    fn bytes(&mut self, Wanted { block, named, .. }: &Wanted) -> Result<BlockBytes> {
        match self.at_hand(*block, named) {
            Some(bytes) => Ok(bytes),
            None => self.read(*block, named),
        }
    }

    /// The bytes of the first of some blocks, and of those after it that are in memory.
    fn bytes_of(&mut self, wanted: &[Wanted]) -> Result<Vec<BlockBytes>> {
        let mut bytes = Vec::with_capacity(wanted.len());
        if self.ahead.0.is_empty() {
            let mut is_end = false;
            let named = wanted.iter().map(|wanted| (wanted.block, &wanted.named));
            self.view.blocks.cached_each(self.owner, named, |found| {
                is_end |= found.is_none();
                bytes.extend(found.filter(|_| !is_end));
            });
        }
        if bytes.is_empty()
            && let Some((first, rest)) = wanted.split_first()
        {
            bytes.push(self.bytes(first)?);
            let rest = rest
                .iter()
                .map_while(|wanted| self.at_hand(wanted.block, &wanted.named));
            bytes.extend(rest);
        }
        Ok(bytes)
    }

    fn is_full(&self, wanted: &Wanted) -> bool {
        usize::from(wanted.named.rows) == self.owner.shape.rows_per_block()
    }

    /// Stretches of rows of a block.
    fn runs_of<'b>(
        &self,
        wanted: &Wanted,
        bytes: &'b BlockBytes,
    ) -> impl Iterator<Item = (BlockRows<'b>, Range<usize>)> + use<'b, 's>
    where
        's: 'b,
    {
        let rows = self.rows_of(wanted, bytes);
        let mut left = rows.numbers(wanted.slots);
        let is_full = self.is_full(wanted);
        std::iter::from_fn(move || {
            let run = if is_full {
                Some(left.clone()).filter(|run| !run.is_empty())
            } else {
                rows.next_run(left.start, left.end)
            };
            left.start = run.as_ref()?.end;
            run.map(|run| (rows, run))
        })
    }

    fn rows_of<'b>(&self, wanted: &Wanted, bytes: &'b BlockBytes) -> BlockRows<'b>
    where
        's: 'b,
    {
        BlockRows {
            view: bytes.view(self.owner.shape),
            grid: self.owner.grid,
            first_tick: self.owner.shape.first_tick(wanted.block),
            sequence: wanted.sequence,
            reverse: self.reverse,
        }
    }

    /// The first block from `begin` on in the direction of the scan that is there, up to `end`, and
    /// what counts of it.
    fn next_found(&mut self, begin: i64, end: i64) -> Result<Option<(i64, Found)>> {
        if self.heads.is_empty()
            && let Some((file, map)) = &self.map
        {
            let (of, index) = self.owner.shape.file_of(begin);
            if of == *file
                && let Some(named) = block_map::get(map, index)
            {
                return Ok(Some((begin, (0, named))));
            }
        }
        let Some(block) = self.next_block(begin, end)? else {
            return Ok(None);
        };
        Ok(self.find(block)?.map(|found| (block, found)))
    }

    /// The first block from `begin` on in the direction of the scan that is there, up to `end`.
    fn next_block(&mut self, begin: i64, end: i64) -> Result<Option<i64>> {
        let range = if self.reverse { end..=begin } else { begin..=end };
        let mut nearest: Option<i64> = None;
        for head in self.heads {
            let found = head.next_block(range.clone(), self.visible, self.reverse);
            nearest = match (nearest, found) {
                (Some(a), Some(b)) => Some(if self.reverse { a.max(b) } else { a.min(b) }),
                (a, b) => a.or(b),
            };
        }
        let shape = self.owner.shape;
        let (first, last) = (shape.file_of(*range.start()).0, shape.file_of(*range.end()).0);
        let mut file = if self.reverse {
            self.files.range(first..=last).next_back()
        } else {
            self.files.range(first..=last).next()
        };
        while let Some((&number, &page)) = file {
            let map = self.map(number, page)?;
            let (low, high) = shape.blocks_of(number);
            let index = |block: i64| shape.file_of(block.clamp(low, high)).1;
            let mut within = index(*range.start())..=index(*range.end());
            let is_there = |index: &usize| block_map::get(&map, *index).is_some();
            let found = if self.reverse {
                within.rfind(is_there)
            } else {
                within.find(is_there)
            };
            if let Some(index) = found {
                let block = shape.block_of(number, index);
                return Ok(Some(match nearest {
                    Some(other) if self.reverse => other.max(block),
                    Some(other) => other.min(block),
                    None => block,
                }));
            }
            file = if self.reverse {
                self.files.range(first..number).next_back()
            } else {
                self.files
                    .range((std::ops::Bound::Excluded(number), std::ops::Bound::Included(last)))
                    .next()
            };
        }
        Ok(nearest)
    }

    fn map(&mut self, file: i64, page: PageId) -> Result<PageRef> {
        if let Some((of, map)) = &self.map
            && *of == file
        {
            return Ok(map.clone());
        }
        let map = read_map(self.view, self.owner, file, page)?;
        self.map = Some((file, map.clone()));
        Ok(map)
    }

    /// The block that counts, if there is one.
    fn find(&mut self, block: i64) -> Result<Option<Found>> {
        if let Some(found) = newest_in_heads(self.heads, block, self.visible) {
            return Ok(Some(found));
        }
        let (file, index) = self.owner.shape.file_of(block);
        let Some(&page) = self.files.get(&file) else {
            return Ok(None);
        };
        let map = self.map(file, page)?;
        Ok(block_map::get(&map, index).map(|named| (0, named)))
    }

    /// Gives the rows of one block.
    fn block(&mut self, block: i64, heads: &mut HeadRows, output: &mut Output<'_>) -> Result<()> {
        let (shape, grid) = (self.owner.shape, self.owner.grid);
        let Some((first, last)) = slots_in(shape, block, self.ticks) else {
            return Ok(());
        };
        let found = self.find(block)?;
        let bytes = match &found {
            Some((_, named)) => Some(match self.at_hand(block, named) {
                Some(bytes) => bytes,
                None => self.read(block, named)?,
            }),
            None => None,
        };
        let sequence = found.map_or(0, |(sequence, _)| sequence);
        let rows = bytes.as_ref().map(|bytes| BlockRows {
            view: bytes.view(shape),
            grid,
            first_tick: shape.first_tick(block),
            sequence,
            reverse: self.reverse,
        });
        let mirror = |slot: usize| {
            if self.reverse {
                shape.rows_per_block() - 1 - slot
            } else {
                slot
            }
        };
        let (mut at, end) = (
            mirror(first).min(mirror(last)),
            mirror(first).max(mirror(last)) + 1,
        );
        let in_block = |place: Place| {
            let (other, slot) = shape.place_of(grid.tick(place.0).0);
            (other == block).then(|| mirror(slot))
        };
        while !output.is_full() {
            let number = heads.peek().and_then(in_block);
            if let Some(rows) = &rows {
                at = take_rows(rows, at..number.unwrap_or(end), self.deletions, output)?;
            }
            let Some(number) = number.filter(|_| !output.is_full()) else {
                break;
            };
            let row = newest_row(heads, self.reverse);
            let is_later = row
                .as_ref()
                .is_some_and(|row| found.is_none() || row.sequence > sequence);
            if let Some(row) = row.filter(|_| is_later) {
                output.take(&row, 0..1, self.deletions)?;
                at = number + 1;
            }
        }
        Ok(())
    }

    /// The bytes of a block if they are in memory.
    fn at_hand(&mut self, block: i64, named: &BlockRef) -> Option<BlockBytes> {
        let is_passed = |ahead: &i64| {
            if self.reverse {
                *ahead > block
            } else {
                *ahead < block
            }
        };
        let blocks = &mut self.ahead.0;
        while blocks.front().is_some_and(|(ahead, _)| is_passed(ahead)) {
            blocks.pop_front();
        }
        // It stays, as the next batch may begin in it.
        if let Some((_, bytes)) = blocks.front().filter(|(ahead, _)| *ahead == block) {
            return Some(bytes.clone());
        }
        self.view.blocks.cached(self.owner, block, named)
    }

    /// The bytes of a block that is not in memory, together with its neighbours.
    fn read(&mut self, block: i64, named: &BlockRef) -> Result<BlockBytes> {
        let files = &self.view.blocks;
        let (from, to) = (
            self.owner.shape.place_of(self.ticks.0).0,
            self.owner.shape.place_of(self.ticks.1).0,
        );
        let run = if from.abs_diff(to) < SHORT_BLOCKS {
            Vec::new()
        } else {
            self.run(block, named)?
        };
        if run.len() <= 1 {
            return files.load(self.owner, block, named);
        }
        let stride = usize::try_from(self.owner.shape.stride).expect("a place fits in memory");
        let first = run.iter().map(|(block, _)| *block).min().unwrap_or(block);
        let mut bytes = vec![0; run.len() * stride];
        files.read_at(self.owner, first, named.layer, &mut bytes)?;
        let at = |block: i64| usize::try_from(block - first).expect("in the run") * stride;
        for (block, named) in &run {
            let begin = at(*block);
            let bytes = &bytes[begin..begin + stride];
            files.check(self.owner, *block, named, bytes)?;
            files.offer(self.owner, *block, named, bytes);
        }
        let page = Arc::new(Page::of_bytes(bytes.into()));
        let part = |block: i64| {
            let range: Range<usize> = at(block)..at(block) + stride;
            BlockBytes {
                page: page.clone(),
                range,
            }
        };
        self.ahead.0 = run.iter().map(|(block, _)| (*block, part(*block))).collect();
        Ok(part(block))
    }

    /// The block and those after it in the direction of the scan, as far as one call can read them
    /// all and the scan will want them.
    fn run(&mut self, block: i64, named: &BlockRef) -> Result<Vec<(i64, BlockRef)>> {
        let shape = self.owner.shape;
        let mut run = vec![(block, *named)];
        if shape.has_text() || !shape.admits(named) {
            return Ok(run);
        }
        let stride = usize::try_from(shape.stride).expect("a place fits in memory");
        let step = if self.reverse { -1 } else { 1 };
        let (low, high) = shape.blocks_of(shape.file_of(block).0);
        let (from, to) = (shape.place_of(self.ticks.0).0, shape.place_of(self.ticks.1).0);
        let mut next = block;
        while run.len() * stride < READ_BYTES {
            // No number follows that of the last possible block.
            let Some(following) = next.checked_add(step) else {
                break;
            };
            next = following;
            if !(low.max(from)..=high.min(to)).contains(&next) {
                break;
            }
            let Some((_, found)) = self.find(next)? else { break };
            let is_sound = found.units == named.units && shape.admits(&found);
            if !is_sound
                || found.layer != named.layer
                || self.view.blocks.cached(self.owner, next, &found).is_some()
            {
                break;
            }
            run.push((next, found));
        }
        Ok(run)
    }
}

/// Gives those rows of a block that are numbered within a range; returns the number of the first
/// that was not looked at.
fn take_rows(
    rows: &BlockRows<'_>,
    range: Range<usize>,
    deletions: &Deletions,
    output: &mut Output<'_>,
) -> Result<usize> {
    let mut at = range.start;
    while at < range.end && !output.is_full() {
        let Some(run) = rows.next_run(at, range.end) else {
            return Ok(range.end);
        };
        at = output.take(rows, run, deletions)?;
    }
    Ok(at.max(range.start))
}

/// The next row of the heads, the newest of its time.
fn newest_row(heads: &mut HeadRows, reverse: bool) -> Option<HeadRow> {
    let mut newest = heads.pop()?;
    while heads.peek().is_some_and(|(time, _)| time == newest.time) {
        let other = heads.pop()?;
        // In reverse the newest comes first.
        if !reverse {
            newest = other;
        }
    }
    Some(newest)
}

/// The newest block that was written since the checkpoint and is visible.
pub(super) fn newest_in_heads(heads: &[Arc<Head>], block: i64, visible: u64) -> Option<Found> {
    heads
        .iter()
        .rev()
        .find_map(|head| head.newest_block(block, visible))
}

/// The map of a file.
pub(super) fn read_map(view: &SparseView, owner: Owner<'_>, file: i64, page: PageId) -> Result<PageRef> {
    let map = view.pages.read(page)?;
    if block_map::owner(&map) == Some((owner.table, file)) {
        Ok(map)
    } else {
        let reason = format!("it is not the block map of file {file} of table {}", owner.table);
        Err(Error::corrupt(view.pages.path(), format!("page {page}"), reason))
    }
}
