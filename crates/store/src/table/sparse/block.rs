//! A block as it is read. Format: docs/format.md, "Block".

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::bit_chunk_iterator::UnalignedBitChunk;
use arrow_buffer::{BooleanBufferBuilder, MutableBuffer};

use super::grid::Grid;
use super::shape::{HEADER_BYTES, Shape};
use crate::codec::Reader;
use crate::error::Error;
use crate::pages::Page;
use crate::rows::BlockRef;
use crate::rows::{
    BatchBuilder, BatchMemory, FixedColumn, Place, Projection, RowSource, TableSchema, approach, copy,
};

pub(super) const MAGIC: u16 = 0xBED3;

/// Bytes of a column prefetched before it is copied; copying prefetches the others.
const APPROACHED_BYTES: usize = 512;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) crc: u32,
    /// Bytes of the block in use, the text included.
    pub(super) len: usize,
    pub(super) rows: u16,
    pub(super) table: u32,
    pub(super) block: i64,
    /// Above the sequence number of everything that the block contains.
    pub(super) end_sequence: u64,
    pub(super) interval: i64,
    pub(super) offset: i64,
    pub(super) rows_per_block: u32,
    pub(super) row_width: u32,
    /// The first bytes of the name of its store.
    pub(super) store: [u8; 8],
}

impl Header {
    /// The header of `bytes`, if they are a whole block.
    pub(super) fn of_whole(bytes: &[u8]) -> Result<Self, String> {
        let header = Self::read(bytes).ok_or("it does not begin as a block")?;
        let body = bytes
            .get(4..header.len)
            .ok_or("it says it is longer than its place")?;
        let computed = crc32c::crc32c(body);
        if computed != header.crc {
            return Err(format!(
                "its checksum is {:08x}, its bytes have {computed:08x}",
                header.crc
            ));
        }
        Ok(header)
    }

    /// How long a block says it is.
    pub(super) fn len_of(bytes: &[u8]) -> Option<usize> {
        Self::read(bytes).map(|header| header.len)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(bytes);
        let (crc, len) = (fields.u32()?, fields.u32()? as usize);
        (fields.array().map(u16::from_le_bytes)? == MAGIC && len >= HEADER_BYTES).then_some(())?;
        Some(Self {
            crc,
            len,
            rows: fields.array().map(u16::from_le_bytes)?,
            table: fields.u32()?,
            block: fields.i64()?,
            end_sequence: fields.u64()?,
            interval: fields.i64()?,
            offset: fields.i64()?,
            rows_per_block: fields.u32()?,
            row_width: fields.u32()?,
            store: fields.array()?,
        })
    }
}

/// The owner of a block to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'t> {
    pub(super) table: u32,
    pub(super) store: [u8; 8],
    pub(super) shape: &'t Shape,
    pub(super) grid: Grid,
}

impl Owner<'_> {
    /// Checks that `bytes` are this block of the table, whole; returns what its header says.
    pub(super) fn check(&self, bytes: &[u8], block: i64) -> Result<Header, String> {
        let header = Header::of_whole(bytes)?;
        let found = (header.store, header.table, header.block);
        if found != (self.store, self.table, block) {
            return Err(format!(
                "it says it is block {} of table {}",
                header.block, header.table
            ));
        }
        let shape = self.shape;
        let found = (header.interval, header.offset, header.rows_per_block as usize);
        if found != (self.grid.interval(), self.grid.offset(), shape.rows)
            || header.row_width as usize != shape.row_width
            || header.len < shape.fixed_len
        {
            return Err("it has another grid or other columns than its table".into());
        }
        let view = BlockView { shape, bytes };
        if view.count_rows() != usize::from(header.rows) || header.rows == 0 {
            return Err(format!(
                "it says it has {} rows and has {}",
                header.rows,
                view.count_rows()
            ));
        }
        let mut last = 0;
        for column in 0..shape.ends.len() {
            for slot in 0..shape.rows {
                let end = view.end(column, slot);
                if end < last || end > header.len - shape.fixed_len {
                    return Err("its text does not fit its rows".into());
                }
                last = end;
            }
        }
        Ok(header)
    }

    /// As [`check`](Self::check), for the block that a map names.
    pub(super) fn check_named(&self, bytes: &[u8], block: i64, named: &BlockRef) -> Result<(), String> {
        let header = self.check(bytes, block)?;
        if header.crc != named.crc {
            return Err(format!(
                "it is whole but not the one expected here (checksum {:08x}, expected {:08x}): a write was lost or \
                 went astray",
                header.crc, named.crc
            ));
        }
        if header.rows != named.rows {
            return Err(format!(
                "it has {} rows, the block map says {}",
                header.rows, named.rows
            ));
        }
        Ok(())
    }
}

/// The bytes of a sound block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockView<'b> {
    pub(super) shape: &'b Shape,
    pub(super) bytes: &'b [u8],
}

impl<'b> BlockView<'b> {
    fn presence(&self) -> &'b [u8] {
        &self.bytes[HEADER_BYTES..][..self.shape.rows.div_ceil(8)]
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.presence()[slot / 8] >> (slot % 8) & 1 == 1
    }

    fn count_rows(&self) -> usize {
        self.presence()
            .iter()
            .map(|byte| byte.count_ones() as usize)
            .sum()
    }

    /// The first slot from `from` on and before `to` that has a row, or has none, as `wanted` says;
    /// `to` if there is no such.
    fn find(&self, from: usize, to: usize, wanted: bool) -> usize {
        let skipped = if wanted { 0 } else { u8::MAX };
        let mut slot = from;
        while slot < to {
            if slot.is_multiple_of(8) && self.presence()[slot / 8] == skipped {
                slot += 8;
            } else if self.has(slot) == wanted {
                return slot;
            } else {
                slot += 1;
            }
        }
        to
    }

    /// The first stretch of slots with rows, within `from..to`.
    pub(super) fn next_run(&self, from: usize, to: usize) -> Option<Range<usize>> {
        let begin = self.find(from, to, true);
        (begin < to).then(|| begin..self.find(begin, to, false).min(to))
    }

    /// The last stretch of slots with rows, within `from..to`.
    pub(super) fn last_run(&self, from: usize, to: usize) -> Option<Range<usize>> {
        let last = (from..to).rev().find(|&slot| self.has(slot))?;
        let begin = (from..last)
            .rev()
            .find(|&slot| !self.has(slot))
            .map_or(from, |gap| gap + 1);
        Some(begin..last + 1)
    }

    pub(super) fn bit(&self, bit: usize, slot: usize) -> bool {
        self.bytes[self.shape.bits[bit] + slot / 8] >> (slot % 8) & 1 == 1
    }

    /// A fixed column of some slots, end to end.
    pub(super) fn fixed(&self, column: usize, slots: Range<usize>) -> &'b [u8] {
        let (begin, width) = self.shape.fixed[column].unwrap_or_default();
        &self.bytes[begin + slots.start * width..begin + slots.end * width]
    }

    /// Whether a bit is set for all of some slots.
    fn has_all(&self, bit: usize, slots: Range<usize>) -> bool {
        let len = slots.len();
        let bits = &self.bytes[self.shape.bits[bit]..][..self.shape.rows.div_ceil(8)];
        UnalignedBitChunk::new(bits, slots.start, len).count_ones() == len
    }

    /// All rows, as a batch of a table.
    pub(super) fn to_batch(
        self,
        grid: Grid,
        block: i64,
        schema: &Arc<TableSchema>,
    ) -> Result<RecordBatch, Error> {
        let rows = BlockRows {
            view: self,
            grid,
            first_tick: self.shape.first_tick(block),
            sequence: 0,
            reverse: false,
        };
        let (projection, memory) = (Projection::all(schema.clone()), BatchMemory::default());
        let mut batch = BatchBuilder::new(&projection, 0, &memory);
        let mut at = 0;
        while let Some(run) = rows.next_run(at, self.shape.rows) {
            at = run.end;
            batch.append(&rows, run)?;
        }
        batch.finish().map_err(|error| Error::schema(error.to_string()))
    }

    fn end(&self, column: usize, slot: usize) -> usize {
        let at = self.shape.ends[column] + 4 * slot;
        u32::from_le_bytes([
            self.bytes[at],
            self.bytes[at + 1],
            self.bytes[at + 2],
            self.bytes[at + 3],
        ]) as usize
    }

    /// A variable column of a slot.
    pub(super) fn variable(&self, column: usize, slot: usize) -> &'b [u8] {
        let begin = match (column, slot) {
            (0, 0) => 0,
            (_, 0) => self.end(column - 1, self.shape.rows - 1),
            _ => self.end(column, slot - 1),
        };
        let text = &self.bytes[self.shape.fixed_len..];
        &text[begin..self.end(column, slot)]
    }
}

/// A block in memory: one of the cache, or one of many that were read together.
#[derive(Debug, Clone)]
pub(crate) struct BlockBytes {
    pub(super) page: Arc<Page>,
    pub(super) range: Range<usize>,
}

impl BlockBytes {
    pub(super) fn of_page(page: Arc<Page>) -> Self {
        let range = 0..page.bytes().len();
        Self { page, range }
    }

    pub(super) fn view<'b>(&'b self, shape: &'b Shape) -> BlockView<'b> {
        BlockView {
            shape,
            bytes: &self.page.bytes()[self.range.clone()],
        }
    }
}

/// The rows of a block, numbered by their slots in the direction of the scan.
#[derive(Clone, Copy)]
pub(super) struct BlockRows<'b> {
    pub(super) view: BlockView<'b>,
    pub(super) grid: Grid,
    pub(super) first_tick: i64,
    /// The sequence number that all rows of the block have (rule 3).
    pub(super) sequence: u64,
    pub(super) reverse: bool,
}

impl BlockRows<'_> {
    /// The number of a slot, or the slot of a number.
    pub(super) fn mirror(&self, at: usize) -> usize {
        if self.reverse {
            self.view.shape.rows - 1 - at
        } else {
            at
        }
    }

    /// The numbers of the slots from one to another.
    pub(super) fn numbers(&self, (first, last): (usize, usize)) -> Range<usize> {
        self.mirror_range(first..last + 1)
    }

    /// The numbers of a range of slots, or the slots of a range of numbers.
    pub(super) fn mirror_range(&self, range: Range<usize>) -> Range<usize> {
        let rows = self.view.shape.rows;
        if self.reverse {
            rows - range.end..rows - range.start
        } else {
            range
        }
    }

    /// The first stretch of rows from number `from` on, and before `to`.
    pub(super) fn next_run(&self, from: usize, to: usize) -> Option<Range<usize>> {
        let slots = self.mirror_range(from..to);
        let run = if self.reverse {
            self.view.last_run(slots.start, slots.end)
        } else {
            self.view.next_run(slots.start, slots.end)
        };
        run.map(|run| self.mirror_range(run))
    }

    fn time(&self, slot: usize) -> i64 {
        let slot = i64::try_from(slot).expect("rows of a block are few");
        self.grid.time(self.first_tick.wrapping_add(slot))
    }
}

impl RowSource for BlockRows<'_> {
    fn place(&self, row: usize) -> Place {
        (self.time(self.mirror(row)), self.sequence)
    }

    fn times(&self, rows: Range<usize>, out: &mut MutableBuffer) {
        /// Times that are computed side by side.
        const LANES: usize = 8;
        let step = if self.reverse {
            self.grid.interval().wrapping_neg()
        } else {
            self.grid.interval()
        };
        let mut time = self.time(self.mirror(rows.start));
        out.reserve(rows.len() * size_of::<i64>());
        for _ in 0..rows.len() / LANES {
            let times: [i64; LANES] = std::array::from_fn(|lane| {
                time.wrapping_add(step.wrapping_mul(i64::try_from(lane).unwrap_or_default()))
            });
            out.extend_from_slice(&times);
            time = times[LANES - 1].wrapping_add(step);
        }
        for _ in 0..rows.len() % LANES {
            out.push(time);
            time = time.wrapping_add(step);
        }
    }

    fn has_all(&self, _flags: FixedColumn, bit: usize, rows: Range<usize>) -> bool {
        self.view.has_all(bit, self.mirror_range(rows))
    }

    fn approach(&self, column: FixedColumn, rows: Range<usize>) {
        if rows.len() == self.view.shape.rows {
            // Columns that are copied from end to end are prefetched on the way.
            return;
        }
        let bytes = self.view.fixed(column.column, self.mirror_range(rows));
        let near = bytes.len().min(APPROACHED_BYTES);
        approach(if self.reverse {
            &bytes[bytes.len() - near..]
        } else {
            &bytes[..near]
        });
    }

    fn bits(&self, _flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder) {
        let slots = self.mirror_range(rows);
        if self.reverse {
            slots.rev().for_each(|slot| out.append(self.view.bit(bit, slot)));
        } else {
            out.append_packed_range(slots, &self.view.bytes[self.view.shape.bits[bit]..]);
        }
    }

    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer) {
        let bytes = self.view.fixed(column.column, self.mirror_range(rows));
        if self.reverse {
            bytes
                .rchunks_exact(column.width)
                .for_each(|value| out.extend_from_slice(value));
        } else {
            copy(bytes, out);
        }
    }

    fn variable(&self, column: usize, row: usize) -> &[u8] {
        self.view.variable(column, self.mirror(row))
    }
}

/// Stretches of rows of several blocks, end to end.
pub(super) struct Runs<'b>(Vec<(BlockRows<'b>, Range<usize>)>);

impl<'b> FromIterator<(BlockRows<'b>, Range<usize>)> for Runs<'b> {
    fn from_iter<I: IntoIterator<Item = (BlockRows<'b>, Range<usize>)>>(runs: I) -> Self {
        Self(runs.into_iter().collect())
    }
}

impl<'b> Runs<'b> {
    /// Returns where some of the rows are in their blocks.
    fn parts(&self, rows: Range<usize>) -> impl Iterator<Item = (&BlockRows<'b>, Range<usize>)> {
        let mut begin = 0;
        self.0.iter().filter_map(move |(block, run)| {
            let before = begin;
            begin += run.len();
            let (first, end) = (rows.start.max(before), rows.end.min(begin));
            (first < end).then(|| (block, run.start + (first - before)..run.start + (end - before)))
        })
    }

    /// The block of a row, and the row's number there.
    fn locate(&self, row: usize) -> (&BlockRows<'b>, usize) {
        let (block, numbers) = self.parts(row..row + 1).next().expect("a row that is there");
        (block, numbers.start)
    }
}

impl RowSource for Runs<'_> {
    fn place(&self, row: usize) -> Place {
        let (block, number) = self.locate(row);
        block.place(number)
    }

    fn times(&self, rows: Range<usize>, out: &mut MutableBuffer) {
        self.parts(rows).for_each(|(block, rows)| block.times(rows, out));
    }

    fn bits(&self, flags: FixedColumn, bit: usize, rows: Range<usize>, out: &mut BooleanBufferBuilder) {
        self.parts(rows)
            .for_each(|(block, rows)| block.bits(flags, bit, rows, out));
    }

    fn has_all(&self, flags: FixedColumn, bit: usize, rows: Range<usize>) -> bool {
        self.parts(rows)
            .all(|(block, rows)| block.has_all(flags, bit, rows))
    }

    fn approach(&self, column: FixedColumn, rows: Range<usize>) {
        self.parts(rows)
            .for_each(|(block, rows)| block.approach(column, rows));
    }

    fn fixed(&self, column: FixedColumn, rows: Range<usize>, out: &mut MutableBuffer) {
        self.parts(rows)
            .for_each(|(block, rows)| block.fixed(column, rows, out));
    }

    fn variable(&self, column: usize, row: usize) -> &[u8] {
        let (block, number) = self.locate(row);
        block.variable(column, number)
    }
}
