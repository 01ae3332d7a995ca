//! Making blocks directly, bypassing the head, from batches that fill them.
//!
//! The blocks of long batches are written before the log names them, and synced with the record
//! that does (rule 2). Those of shorter ones stay in memory: the log has their rows, and the next
//! flush writes them ([`unwritten`](super::unwritten)). Only blocks that the batch fills, or that
//! are empty, are taken: then there is nothing to be merged, whatever is written at the same time.
//! Whether a block is still empty is checked again under the commit lock.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;

use super::append::Placed;
use super::block::Owner;
use super::block_map;
use super::builder::{BlockBuilder, Cells};
use super::files::BlockFiles;
use super::places::Allocated;
use super::scan::{newest_in_heads, read_map};
use super::table::SparseEntry;
use super::view::Latest;
use super::writer::{BlockWriter, Unsynced};
use crate::error::Result;
use crate::rows::{BlockRef, SortedRows, TableEntry};
use crate::wal::Pending;

/// A batch of fewer bytes goes to the log as a whole: syncing a second file would cost more than
/// writing twice.
const DIRECT_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) { 512 } else { 64 << 10 };

/// Batches of fewer bytes stay in memory and in the log: one sync where the log was written before
/// takes so much less than two in new space that writing twice is worth it.
const WRITTEN_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    5 << 10
} else {
    768 << 10
};

/// A block, and whether it has a row for each of its ticks.
type WrittenBlock = (i64, BlockRef, bool);

/// Blocks that are written and named nowhere yet.
#[derive(Debug)]
pub(crate) struct Direct {
    blocks: Vec<WrittenBlock>,
    /// The rows of the batch that are in none of them.
    rest: Vec<Range<usize>>,
    /// None if they are in memory.
    unsynced: Option<Arc<Unsynced>>,
}

/// Rows of one block in a batch.
struct Part {
    block: i64,
    rows: Range<usize>,
    is_full: bool,
}

/// The table and the files to which a batch is written.
#[derive(Clone, Copy)]
pub(crate) struct Target<'t> {
    pub(crate) files: &'t BlockFiles,
    pub(crate) table: &'t TableEntry,
    pub(crate) sparse: &'t SparseEntry,
    /// The memory for rows.
    pub(crate) head_bytes: usize,
    /// Whether commits wait for the disk.
    pub(crate) is_synced: bool,
}

impl Target<'_> {
    fn owner(&self) -> Owner<'_> {
        self.sparse.owner(self.table.id, self.files.store())
    }

    /// Writes the blocks that a batch fills; none if there are no such, its times do not ascend, or
    /// its other rows take more than the memory for rows. The times are the batch's, on the grid;
    /// `latest` gives the newest state, `sequence` is a sequence number that is not given out yet.
    pub(crate) fn write(
        &self,
        batch: &RecordBatch,
        Placed {
            times, is_ascending, ..
        }: &Placed,
        (latest, sequence): (impl Fn() -> Latest, u64),
    ) -> Result<Option<Direct>> {
        let shape = &*self.sparse.shape;
        let bytes = times.len() * (8 + shape.row_width);
        if bytes < DIRECT_BYTES_MIN || !is_ascending {
            return Ok(None);
        }
        let (parts, rest) = self.choose(times, &latest())?;
        let bytes_of = |rows: &Range<usize>| {
            SortedRows::bytes_of(&self.table.schema, &batch.slice(rows.start, rows.len()))
        };
        if parts.is_empty() || rest.iter().map(bytes_of).sum::<usize>() > self.head_bytes {
            return Ok(None);
        }
        let mut blocks = Vec::with_capacity(parts.len());
        let cells = Cells::new(&self.table.schema, batch.columns());
        let in_memory = bytes < WRITTEN_BYTES_MIN;
        let writer = (!in_memory).then(|| self.writer(&parts));
        let written = self.write_parts(writer, &mut blocks, (&parts, &cells, times), (latest, sequence));
        if let Ok(Some(unsynced)) = written {
            return Ok(Some(Direct {
                blocks,
                rest,
                unsynced,
            }));
        }
        self.free(&blocks);
        written.map(|_| None)
    }

    /// The blocks that are worth it, and the rows of all others.
    fn choose(&self, times: &[i64], latest: &Latest) -> Result<(Vec<Part>, Vec<Range<usize>>)> {
        let (shape, grid) = (&*self.sparse.shape, self.sparse.grid);
        let block_of = |time: i64| shape.place_of(grid.tick(time).0).0;
        let (mut parts, mut rest): (_, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        let mut begin = 0;
        while begin < times.len() {
            let block = block_of(times[begin]);
            // A block has at most this many rows, and times ascend.
            let most = times.len().min(begin + shape.rows_per_block());
            let rows = begin..begin + times[begin..most].partition_point(|&time| block_of(time) == block);
            begin = rows.end;
            let is_full = rows.len() == shape.rows_per_block();
            // Rows missing from the first and the last block are likely to be in other batches.
            let is_edge = rows.start == 0 || rows.end == times.len();
            let is_worth_it = !is_edge && rows.len() * 2 >= shape.rows_per_block();
            if is_full || (is_worth_it && self.is_empty(latest, block)?) {
                parts.push(Part { block, rows, is_full });
            } else {
                match rest.last_mut() {
                    Some(last) if last.end == rows.start => last.end = rows.end,
                    _ => rest.push(rows),
                }
            }
        }
        Ok((parts, rest))
    }

    /// Whether a block has no row, flushed or waiting to be. A long batch that is being written may
    /// have rows of any block, not visible yet.
    fn is_empty(&self, latest: &Latest, block: i64) -> Result<bool> {
        if latest.is_behind {
            return Ok(false);
        }
        let (shape, grid) = (&*self.sparse.shape, self.sparse.grid);
        let heads = &latest.view.heads;
        let last = i64::try_from(shape.rows_per_block() - 1).expect("rows of a block are few");
        let first = shape.first_tick(block);
        let times = (grid.time(first), grid.time(first.wrapping_add(last)));
        // At the ends of the number range a block has fewer ticks than others; it goes through the
        // head.
        if times.0 > times.1
            || newest_in_heads(heads, block, u64::MAX).is_some()
            || heads.iter().any(|head| head.has_rows(times.0..=times.1))
        {
            return Ok(false);
        }
        Ok(self.in_map(latest, block)?.is_none())
    }

    /// The block as the last checkpoint has it.
    fn in_map(&self, latest: &Latest, block: i64) -> Result<Option<BlockRef>> {
        let (file, index) = self.sparse.shape.file_of(block);
        let files = latest.sparse.as_ref().map(SparseEntry::files).transpose()?;
        let page = files.and_then(|files| files.get(&file));
        match page {
            Some(&page) => Ok(block_map::get(
                &read_map(&latest.view, self.owner(), file, page)?,
                index,
            )),
            None => Ok(None),
        }
    }

    fn writer(&self, parts: &[Part]) -> BlockWriter<'_> {
        let owner = self.owner();
        let bytes: usize = parts.iter().map(|part| part.rows.len()).sum::<usize>() * owner.shape.row_width;
        BlockWriter::with_helper(self.files, owner, bytes)
    }

    /// Writes blocks, or leaves them in memory if there is no writer, and adds them to `blocks`.
    /// Returns `None` if some block found no place, else the writes to be synced, if any.
    fn write_parts(
        &self,
        mut writer: Option<BlockWriter<'_>>,
        blocks: &mut Vec<WrittenBlock>,
        (parts, cells, times): (&[Part], &Cells, &[i64]),
        (latest, sequence): (impl Fn() -> Latest, u64),
    ) -> Result<Option<Option<Arc<Unsynced>>>> {
        let (owner, files) = (self.owner(), self.files);
        for part in parts {
            let (layer, born) = loop {
                let now = latest();
                // The table was dropped: its places belong to the views that are left.
                if now.sparse.is_none() {
                    return Ok(None);
                }
                let current = self.in_map(&now, part.block)?.map(|named| named.layer);
                let number = now.view.pages.number();
                match files.allocate_now(owner, part.block, current, number) {
                    Allocated::Layer(layer) => break (layer, number),
                    Allocated::Stale => {}
                    Allocated::Full => return Ok(None),
                }
            };
            let build = |buffer: &mut Vec<u8>| {
                let mut builder = BlockBuilder::new(owner, part.block, buffer);
                builder.put_cells(cells, times, part.rows.clone())?;
                Ok(builder.seal(sequence + 1).named(layer, born))
            };
            let built = match &mut writer {
                Some(writer) => writer.place(part.block, layer).and_then(build),
                None => {
                    // Room for all of a block without text, so that it is not moved.
                    let mut bytes = Vec::with_capacity(owner.shape.block_bytes());
                    let built = build(&mut bytes);
                    built.inspect(|named| files.unwritten.put(owner, part.block, named, bytes.into()))
                }
            };
            let named = built.inspect_err(|_| files.free(owner, part.block, layer))?;
            blocks.push((part.block, named, part.is_full));
        }
        let unsynced = writer.map(|writer| writer.finish_syncing(self.is_synced).map(Arc::new));
        unsynced.transpose().map(Some)
    }

    /// Whether the blocks may be named: those that are not full are still empty. To be asked under
    /// the commit lock.
    pub(crate) fn still_holds(&self, direct: &Direct, latest: &Latest) -> Result<bool> {
        for &(block, _, is_full) in &direct.blocks {
            if !is_full && !self.is_empty(latest, block)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees the places of blocks that are not named after all, and waits for the syncs begun for
    /// them: a failed sync is reported once, and may concern what others have written.
    pub(crate) fn give_up(&self, direct: &Direct) -> Result<()> {
        self.free(&direct.blocks);
        direct
            .unsynced
            .as_ref()
            .map_or(Ok(()), |unsynced| unsynced.wait())
    }

    fn free(&self, blocks: &[WrittenBlock]) {
        for (block, named, _) in blocks {
            self.files.unwritten.remove(self.owner(), *block, named);
            self.files.free(self.owner(), *block, named.layer);
        }
    }

    /// Bytes of memory that blocks take.
    pub(crate) fn memory_bytes(&self, direct: &Direct) -> usize {
        if direct.unsynced.is_some() {
            return 0;
        }
        let units = direct.blocks.iter().map(|(_, named, _)| usize::from(named.units));
        units.sum::<usize>() * self.sparse.shape.unit_bytes
    }

    /// The rows of the batch that are in none of the blocks.
    pub(crate) fn rest(&self, direct: &Direct, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rest: Vec<RecordBatch> = direct
            .rest
            .iter()
            .map(|rows| batch.slice(rows.start, rows.len()))
            .collect();
        concat_batches(batch.schema_ref(), &rest)
    }
}

impl Direct {
    /// Returns the writes to make durable with the record that names the blocks; none if they are
    /// in memory, and the log is to have the rows.
    pub(crate) fn unsynced(&self) -> Option<Arc<Unsynced>> {
        self.unsynced.clone()
    }

    /// The blocks, to be named by the log.
    pub(crate) fn blocks(&self) -> impl ExactSizeIterator<Item = (i64, BlockRef)> {
        self.blocks.iter().map(|&(block, named, _)| (block, named))
    }
}
