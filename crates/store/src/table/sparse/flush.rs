//! Flushing a generation into blocks: each block that changes is written once, to a free place, in
//! order of files and blocks, neighbours in one call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bedload_pages::{Batch, PageId, PageRead, PageStore};

use super::block::{BlockBytes, Owner};
use super::block_map;
use super::builder::{BlockBuilder, Cells, Sealed};
use super::files::BlockFiles;
use super::shape::Shape;
use super::table::{FileTree, SparseEntry, insert_file, open_tree, remove_file};
use super::writer::BlockWriter;
use crate::error::Result;
use crate::pages::WorkingPages;
use crate::rows::BlockRef;
use crate::rows::TableEntry;
use crate::rows::{Deletion, Head, RowsInOrder};

/// A flush under way: rows of heads go to blocks, and what becomes of these to block maps.
#[derive(Clone, Copy)]
pub(crate) struct SparseFlush<'f> {
    pub(crate) pages: &'f WorkingPages,
    pub(crate) files: &'f BlockFiles,
}

/// The blocks that commits have written, by place, as [`Head::blocks`] gives them.
type WrittenBlocks = BTreeMap<i64, Vec<(u64, BlockRef)>>;

/// A row that is to be flushed.
struct NewRow<'h> {
    block: i64,
    slot: usize,
    time: i64,
    sequence: u64,
    cells: &'h Cells,
    row: usize,
}

/// The work that a flush does on a block.
struct Work<'h, 'w> {
    block: i64,
    /// As the map has it.
    base: Option<BlockRef>,
    /// As commits have written it since, by sequence number.
    written: Vec<(u64, BlockRef)>,
    /// By slot and sequence number.
    rows: &'w [NewRow<'h>],
}

impl SparseFlush<'_> {
    /// Applies the rows and deletions of a sealed head.
    pub(crate) fn flush(
        &self,
        table: &mut TableEntry,
        sparse: &SparseEntry,
        head: &Head,
        are_settled: &dyn Fn() -> bool,
    ) -> Result<SparseEntry> {
        let mut deletions = head.deletions(u64::MAX);
        let in_order = head.in_order();
        let cells = in_order.runs().iter();
        let cells: Vec<Cells> = cells
            .map(|run| Cells::new(&table.schema, run.columns()))
            .collect();
        let rows = new_rows(sparse, &in_order, &cells);
        let written = head.blocks(u64::MAX);
        let expired = expired_files((table, sparse), (&rows, &written), &deletions, are_settled)?;
        deletions.extend(expired);
        let affected = affected_files(sparse, &rows, &written, &deletions)?;
        let mut flushed = TableFlush {
            flush: self,
            owner: sparse.owner(table.id, self.files.store()),
            deletions: &deletions,
            checkpoint: self.pages.published().number() + 1,
            rows: 0,
            replaced: 0,
            writer: BlockWriter::of_many(self.files, sparse.owner(table.id, self.files.store())),
            scratch: Vec::new(),
        };
        let tree = open_tree(self.pages, table.root)?;
        let mut files = BTreeMap::clone(sparse.files()?);
        for file in affected {
            let (first, last) = sparse.shape.blocks_of(file);
            let rows = &rows[rows.partition_point(|row| row.block < first)..];
            let rows = &rows[..rows.partition_point(|row| row.block <= last)];
            let blocks = written
                .range(first..=last)
                .map(|(&block, list)| (block, list.clone()))
                .collect();
            flushed.file(&tree, &mut files, file, rows, blocks)?;
        }
        let (added, replaced) = (flushed.rows, flushed.replaced);
        self.files.written(flushed.writer.finish()?)?;
        let last_row = rows.iter().map(|row| row.sequence + 1).max();
        let last_block = written.values().flatten().map(|(sequence, _)| sequence + 1).max();
        table.rows = table.rows.saturating_add_signed(added);
        table.end_sequence = table.end_sequence.max(last_row.max(last_block).unwrap_or(0));
        Ok(sparse.with_files(files, replaced))
    }
}

/// The rows of a head by block, slot and sequence number.
fn new_rows<'h>(sparse: &SparseEntry, rows: &RowsInOrder, cells: &'h [Cells]) -> Vec<NewRow<'h>> {
    let row = |(run, row): (usize, usize)| {
        let (time, sequence) = rows.runs()[run].place(row);
        let (block, slot) = sparse.shape.place_of(sparse.grid.tick(time).0);
        NewRow {
            block,
            slot,
            time,
            sequence,
            cells: &cells[run],
            row,
        }
    };
    rows.iter().map(row).collect()
}

/// The deletion of the files all of whose rows are older than the table keeps them. The newest row
/// is as new as the last file begins, at least. Rows that were deleted make no others too old, so
/// files that had some do not count, whatever they have left.
fn expired_files(
    (table, sparse): (&TableEntry, &SparseEntry),
    (rows, written): (&[NewRow<'_>], &WrittenBlocks),
    deletions: &[Deletion],
    are_settled: &dyn Fn() -> bool,
) -> Result<Option<Deletion>> {
    if table.retention.is_none() {
        return Ok(None);
    }
    let (shape, grid) = (&sparse.shape, sparse.grid);
    let begin = |file: i64| grid.nearest_time(shape.first_tick_of_file(file));
    let files = sparse.files()?;
    let is_whole = |&file: &i64| {
        let (first, end) = (begin(file), begin(file.saturating_add(1)));
        let touches = |deletion: &Deletion| *deletion.times.start() <= end && first <= *deletion.times.end();
        !deletions.iter().any(touches)
    };
    let is_left = |row: &&NewRow<'_>| {
        let covers = |deletion: &Deletion| deletion.covers(row.time, row.sequence);
        !deletions.iter().any(covers)
    };
    let written_files = || written.keys().map(|&block| shape.file_of(block).0);
    let newest_file = files.keys().copied().rev().find(is_whole);
    let newest_file = newest_file.max(written_files().rev().find(is_whole));
    let newest = newest_file
        .map(begin)
        .max(rows.iter().rev().find(is_left).map(|row| row.time));
    let of_rows = rows.iter().map(|row| row.sequence + 1);
    let of_blocks = written.values().flatten().map(|(sequence, _)| sequence + 1);
    let end_sequence = of_rows.chain(of_blocks).max().unwrap_or(0);
    let Some(expired) = table.expired(newest, table.end_sequence.max(end_sequence), are_settled) else {
        return Ok(None);
    };
    let (tick, _) = grid.tick(*expired.times.end());
    let kept = begin(shape.file_of(shape.place_of(tick).0).0);
    let first = files
        .keys()
        .next()
        .copied()
        .into_iter()
        .chain(written_files().next());
    let has_older =
        first.min().is_some_and(|file| begin(file) < kept) || rows.first().is_some_and(|row| row.time < kept);
    Ok(kept.checked_sub(1).filter(|_| has_older).map(|last| Deletion {
        times: i64::MIN..=last,
        ..expired
    }))
}

/// The files that have, or will have, blocks that the flush changes.
fn affected_files(
    sparse: &SparseEntry,
    rows: &[NewRow<'_>],
    written: &WrittenBlocks,
    deletions: &[Deletion],
) -> Result<BTreeSet<i64>> {
    let file_of = |block: i64| sparse.shape.file_of(block).0;
    let blocks = rows.iter().map(|row| row.block).chain(written.keys().copied());
    let mut files: BTreeSet<i64> = blocks.map(file_of).collect();
    for deletion in deletions {
        if let Some((from, to)) = sparse.grid.ticks(*deletion.times.start(), *deletion.times.end()) {
            let file_of_tick = |tick| file_of(sparse.shape.place_of(tick).0);
            files.extend(
                sparse
                    .files()?
                    .range(file_of_tick(from)..=file_of_tick(to))
                    .map(|(&file, _)| file),
            );
        }
    }
    Ok(files)
}

struct TableFlush<'f> {
    flush: &'f SparseFlush<'f>,
    owner: Owner<'f>,
    deletions: &'f [Deletion],
    checkpoint: u64,
    /// By how many the rows of the table have grown.
    rows: i64,
    replaced: u64,
    writer: BlockWriter<'f>,
    /// Where blocks are made.
    scratch: Vec<u8>,
}

impl TableFlush<'_> {
    /// Does the work of one file, and rewrites its map.
    fn file(
        &mut self,
        tree: &FileTree<&WorkingPages>,
        files: &mut BTreeMap<i64, PageId>,
        file: i64,
        rows: &[NewRow<'_>],
        mut written: WrittenBlocks,
    ) -> Result<()> {
        let SparseFlush { pages, files: blocks } = *self.flush;
        let shape = self.owner.shape;
        let page = files.get(&file).copied();
        let mut map = vec![0; pages.payload_len()];
        match page {
            Some(page) => map.copy_from_slice(&pages.read(page)?),
            None => block_map::format(&mut map, self.owner.table, file),
        }
        let named = |map: &[u8], block| block_map::get(map, shape.file_of(block).1);
        let mut affected: BTreeSet<i64> = rows.iter().map(|row| row.block).collect();
        affected.extend(written.keys());
        for index in 0..shape.dimensions().blocks_per_file as usize {
            let block = shape.block_of(file, index);
            if block_map::get(&map, index).is_some() && self.deletions_in(block, 0).next().is_some() {
                affected.insert(block);
            }
        }
        let rewritten: Vec<(i64, BlockRef)> = rows
            .chunk_by(|a, b| a.block == b.block)
            .filter_map(|rows| Some((rows[0].block, named(&map, rows[0].block)?)))
            .collect();
        self.read_ahead(file, &rewritten);
        // Blocks that are written over stay in the store's own cache.
        self.writer.expect(rewritten.len() * shape.block_bytes())?;
        let mut is_changed = false;
        for block in affected {
            let rows = &rows[rows.partition_point(|row| row.block < block)..];
            let work = Work {
                block,
                base: named(&map, block),
                written: written.remove(&block).unwrap_or_default(),
                rows: &rows[..rows.partition_point(|row| row.block == block)],
            };
            let base = work.base;
            let now = self.block(work)?;
            if now != base {
                let count = |block: Option<BlockRef>| block.map_or(0, |block| i64::from(block.rows));
                self.rows += count(now) - count(base);
                block_map::set(&mut map, shape.file_of(block).1, now);
                is_changed = true;
            }
        }
        let blocks_left = (0..shape.dimensions().blocks_per_file as usize)
            .filter(|&index| block_map::get(&map, index).is_some())
            .count();
        match page {
            _ if !is_changed => {}
            Some(page) if blocks_left == 0 => {
                remove_file(tree, file)?;
                pages.retire(&[page]);
                files.remove(&file);
                blocks.replace_file(self.owner, file);
            }
            Some(page) => pages
                .batch(&[page])?
                .commit(|payloads| payloads[0].copy_from_slice(&map)),
            None if blocks_left == 0 => {}
            None => {
                let page = new_page(pages, &map)?;
                insert_file(tree, file, page)?;
                files.insert(file, page);
            }
        }
        Ok(())
    }

    /// Lets the disk begin with blocks of a file that are likely to be read, one after another.
    /// Errors of the file are reported by the read that needs it, if any does.
    fn read_ahead(&self, file: i64, blocks: &[(i64, BlockRef)]) {
        let (owner, files) = (self.owner, self.flush.files);
        let mut missing = blocks
            .iter()
            .filter(|(block, named)| files.cached(owner, *block, named).is_none())
            .map(|(block, named)| {
                let bytes = u64::from(named.units) * owner.shape.unit_bytes as u64;
                (owner.shape.offset(*block, named.layer), bytes)
            })
            .peekable();
        if missing.peek().is_none() {
            return;
        }
        let Ok(opened) = files.open(owner.table, file) else {
            return;
        };
        while let Some((offset, mut bytes)) = missing.next() {
            // Neighbours together.
            while let Some((_, more)) = missing.next_if(|&(next, _)| next == offset + bytes) {
                bytes += more;
            }
            opened.file.read_ahead(offset, bytes);
        }
    }

    /// The deletions, later than `after`, of rows of a block, with the slots that they cover.
    fn deletions_in(&self, block: i64, after: u64) -> impl Iterator<Item = (&Deletion, usize, usize)> {
        let Owner { shape, grid, .. } = self.owner;
        self.deletions
            .iter()
            .filter(move |deletion| deletion.at > after)
            .filter_map(move |deletion| {
                let ticks = grid.ticks(*deletion.times.start(), *deletion.times.end())?;
                let (from, to) = slots_in(shape, block, ticks)?;
                Some((deletion, from, to))
            })
    }

    /// Brings the block up to date; returns its entry for the map.
    fn block(&mut self, work: Work<'_, '_>) -> Result<Option<BlockRef>> {
        let (owner, files) = (self.owner, self.flush.files);
        // All of them: snapshots may see those that others were written over.
        for (_, named) in &work.written {
            if let Some(page) = files.unwritten.take_note(owner, work.block, named) {
                self.writer.write(work.block, named.layer, page.bytes())?;
            }
        }
        let newest = work.written.last().copied().or(work.base.map(|base| (0, base)));
        let since = work.written.last().map(|&(sequence, _)| sequence);
        if since.is_some() {
            let over = work
                .base
                .iter()
                .chain(work.written.iter().rev().skip(1).map(|(_, block)| block));
            for block in over {
                self.replaced += u64::from(block.rows);
                files.replace(owner, work.block, block, true);
            }
        }
        let is_new = |row: &&NewRow<'_>| since.is_none_or(|since| row.sequence > since);
        let rows: Vec<&NewRow<'_>> = work.rows.iter().filter(is_new).collect();
        self.replaced += (work.rows.len() - rows.len()) as u64;
        let deletions: Vec<_> = self
            .deletions_in(work.block, since.unwrap_or(0))
            .map(|(deletion, from, to)| (deletion.clone(), from, to))
            .collect();
        if rows.is_empty() && deletions.is_empty() {
            if let (Some(_), Some((_, block))) = (since, newest) {
                files.adopt(owner, work.block, &block);
            }
            return Ok(newest.map(|(_, block)| block));
        }
        let rewritten = self.rewrite(&work, newest, &rows, &deletions)?;
        if let Some((_, block)) = newest {
            files.replace(owner, work.block, &block, rewritten.is_some());
        }
        Ok(rewritten)
    }

    /// Rewrites the block with these rows and deletions applied.
    fn rewrite(
        &mut self,
        work: &Work<'_, '_>,
        newest: Option<(u64, BlockRef)>,
        rows: &[&NewRow<'_>],
        deletions: &[(Deletion, usize, usize)],
    ) -> Result<Option<BlockRef>> {
        let (owner, files) = (self.owner, self.flush.files);
        let slots = owner.shape.rows_per_block();
        let is_gone = |time, sequence| {
            deletions
                .iter()
                .any(|(deletion, ..)| deletion.covers(time, sequence))
        };
        let is_emptied = deletions
            .iter()
            .any(|&(_, from, to)| (from, to) == (0, slots - 1));
        let old = match newest {
            Some((_, named)) if !is_emptied => Some(match files.cached(owner, work.block, &named) {
                Some(block) => block,
                // It is not needed again: what it becomes is kept in its place.
                None => BlockBytes::of_page(Arc::new(files.read(owner, work.block, &named)?)),
            }),
            _ => None,
        };
        self.scratch.clear();
        let mut builder = match &old {
            Some(old) => BlockBuilder::of_block(owner, work.block, old.view(owner.shape), &mut self.scratch),
            None => BlockBuilder::new(owner, work.block, &mut self.scratch),
        };
        for &(_, from, to) in deletions {
            (from..=to)
                .filter(|&slot| builder.has(slot))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|slot| {
                    builder.clear(slot);
                });
        }
        for same in rows.chunk_by(|a, b| a.slot == b.slot) {
            let mut before = old
                .as_ref()
                .is_some_and(|old| old.view(owner.shape).has(same[0].slot))
                .then_some(0);
            for row in same {
                let between = |at: u64, from: u64| at > from && at <= row.sequence;
                let survives = |from: &u64| {
                    let mut later = deletions
                        .iter()
                        .filter(|(deletion, ..)| between(deletion.at, *from));
                    !later.any(|(deletion, ..)| deletion.times.contains(&row.time))
                };
                self.replaced += u64::from(before.filter(survives).is_some());
                before = Some(row.sequence);
            }
            let last = same[same.len() - 1];
            if !is_gone(last.time, last.sequence) {
                builder.put(last.slot, last.cells, last.row);
            }
        }
        if builder.rows() == 0 {
            return Ok(None);
        }
        let ends = rows
            .iter()
            .map(|row| row.sequence)
            .chain(deletions.iter().map(|(deletion, ..)| deletion.at));
        let end_sequence = ends
            .chain(newest.map(|(sequence, _)| sequence))
            .max()
            .unwrap_or(0)
            + 1;
        let sealed = builder.seal(end_sequence);
        let layer = files.allocate(owner, work.block, work.base.map(|base| base.layer))?;
        let named = sealed.named(layer, self.checkpoint);
        if usize::from(sealed.rows) < slots || old.is_some() {
            // More rows of it are likely to come, or others in place of these.
            files.remember_block(owner, work.block, layer, &self.scratch);
        }
        self.writer.write(work.block, layer, &self.scratch)?;
        Ok(Some(named))
    }
}

impl Sealed {
    /// Returns the block's entry in the map once it stands in a layer.
    pub(super) fn named(&self, layer: u8, born: u64) -> BlockRef {
        BlockRef {
            crc: self.crc,
            rows: self.rows,
            units: self.units,
            layer,
            born,
        }
    }
}

/// The slots of a block whose ticks lie in a range: the first and the last.
pub(super) fn slots_in(shape: &Shape, block: i64, (from, to): (i64, i64)) -> Option<(usize, usize)> {
    let (from, to) = (shape.place_of(from), shape.place_of(to));
    if from.0 > block || to.0 < block {
        return None;
    }
    let first = if from.0 == block { from.1 } else { 0 };
    let last = if to.0 == block {
        to.1
    } else {
        shape.rows_per_block() - 1
    };
    Some((first, last))
}

fn new_page(pages: &WorkingPages, map: &[u8]) -> Result<PageId> {
    let reserved = pages.reserve()?;
    let id = reserved.id;
    match pages.batch(&[id]) {
        Ok(batch) => {
            batch.commit(|payloads| payloads[0].copy_from_slice(map));
            Ok(id)
        }
        Err(error) => {
            pages.release(reserved);
            Err(error.into())
        }
    }
}

/// Gives up all files of a table that is dropped, and its block maps; `blocks` are those that no
/// map names yet.
pub(crate) fn drop_files(
    flush: &SparseFlush<'_>,
    table: &TableEntry,
    sparse: &SparseEntry,
    blocks: impl Iterator<Item = i64>,
) {
    let owner = sparse.owner(table.id, flush.files.store());
    // Those of a damaged table stay until the store is opened again: what no table has is removed
    // then.
    let known = sparse
        .files()
        .map(|files| BTreeMap::clone(files))
        .unwrap_or_default();
    let mut files: BTreeSet<i64> = known.keys().copied().collect();
    files.extend(blocks.map(|block| sparse.shape.file_of(block).0));
    for file in files {
        flush.files.replace_file(owner, file);
    }
    let maps: Vec<PageId> = known.into_values().collect();
    flush.pages.retire(&maps);
}
