//! A block in the making. Format: docs/format.md, "Block".

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::block::{BlockView, MAGIC, Owner};
use super::shape::HEADER_BYTES;
use crate::codec::Writer;
use crate::error::{Error, Result};
use crate::rows::{ColumnPlace, RowBlock, TableSchema};

/// A block that rows are put into and taken out of.
#[derive(Debug)]
pub(super) struct BlockBuilder<'t> {
    owner: Owner<'t>,
    block: i64,
    /// Everything but the text, in its place.
    bytes: Vec<u8>,
    /// Where the text of each slot stands in `text`; column by column.
    cells: Vec<(u32, u32)>,
    text: Vec<u8>,
    rows: usize,
}

/// The columns of a batch, as blocks have them.
pub(super) struct Cells<'c> {
    /// By bit of the flags.
    bits: Vec<BooleanBuffer>,
    /// Fixed columns: the values of all rows, and which rows have none.
    fixed: Vec<(Buffer, Option<NullBuffer>)>,
    texts: Vec<&'c StringArray>,
}

impl<'c> Cells<'c> {
    /// The columns of a batch that has those of the table.
    pub(super) fn of_batch(schema: &TableSchema, batch: &'c RecordBatch) -> Self {
        let rows = batch.num_rows();
        let mut cells = Self {
            bits: Vec::new(),
            fixed: Vec::new(),
            texts: Vec::new(),
        };
        for (column, array) in schema.places().iter().zip(batch.columns()) {
            let nulls = array.logical_nulls();
            if column.valid_bit.is_some() {
                let valid = nulls.as_ref().map(|nulls| nulls.inner().clone());
                cells
                    .bits
                    .push(valid.unwrap_or_else(|| BooleanBuffer::new_set(rows)));
            }
            match column.place {
                ColumnPlace::Time => {}
                ColumnPlace::Bit(_) => {
                    let values = array.as_boolean().values();
                    let valid = nulls.as_ref().map(|nulls| values & nulls.inner());
                    cells.bits.push(valid.unwrap_or_else(|| values.clone()));
                }
                ColumnPlace::Fixed { width, .. } => {
                    let data = array.to_data();
                    let values = data.buffers()[0].slice_with_length(data.offset() * width, rows * width);
                    cells
                        .fixed
                        .push((values, nulls.filter(|nulls| nulls.null_count() > 0)));
                }
                ColumnPlace::Variable(_) => cells.texts.push(array.as_string()),
            }
        }
        cells
    }
}

/// A block that is to be written.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) crc: u32,
    pub(super) rows: u16,
    /// Whole units.
    pub(super) bytes: Vec<u8>,
}

impl<'t> BlockBuilder<'t> {
    pub(super) fn new(owner: Owner<'t>, block: i64) -> Self {
        let shape = owner.shape;
        Self {
            owner,
            block,
            bytes: vec![0; shape.fixed_len],
            cells: vec![(0, 0); shape.ends.len() * shape.rows],
            text: Vec::new(),
            rows: 0,
        }
    }

    /// Begins with the rows of a block.
    pub(super) fn of_block(owner: Owner<'t>, block: i64, view: BlockView<'_>) -> Self {
        let mut builder = Self::new(owner, block);
        let shape = owner.shape;
        builder.bytes.copy_from_slice(&view.bytes[..shape.fixed_len]);
        for column in 0..shape.ends.len() {
            for slot in 0..shape.rows {
                let cell = builder.take_text(view.variable(column, slot));
                builder.cells[column * shape.rows + slot] = cell;
            }
        }
        builder.rows = (0..shape.rows).filter(|&slot| view.has(slot)).count();
        builder
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.bytes[HEADER_BYTES + slot / 8] >> (slot % 8) & 1 == 1
    }

    fn take_text(&mut self, text: &[u8]) -> (u32, u32) {
        let at = |n: usize| u32::try_from(n).expect("a block has far less than 4 GiB of text");
        let cell = (at(self.text.len()), at(text.len()));
        self.text.extend_from_slice(text);
        cell
    }

    fn set_bit(&mut self, bitmap: usize, slot: usize, value: bool) {
        let byte = &mut self.bytes[bitmap + slot / 8];
        let mask = 1 << (slot % 8);
        if value { *byte |= mask } else { *byte &= !mask }
    }

    fn set_presence(&mut self, slot: usize, present: bool) {
        let had = self.has(slot);
        self.set_bit(HEADER_BYTES, slot, present);
        self.rows = self.rows + usize::from(present) - usize::from(had);
    }

    /// Puts a row into a slot, in place of one that was there.
    pub(super) fn put(&mut self, slot: usize, source: &RowBlock, row: usize) {
        let shape = self.owner.shape;
        self.set_presence(slot, true);
        let fixed = source.fixed(row);
        for (bit, &bitmap) in shape.bits.iter().enumerate() {
            self.set_bit(bitmap, slot, fixed[bit / 8] >> (bit % 8) & 1 == 1);
        }
        let mut at = shape.bits.len().div_ceil(8);
        for &(begin, width) in shape.fixed.iter().flatten() {
            self.bytes[begin + slot * width..][..width].copy_from_slice(&fixed[at..at + width]);
            at += width;
        }
        for column in 0..shape.ends.len() {
            let cell = self.take_text(source.variable(row, column));
            self.cells[column * shape.rows + slot] = cell;
        }
    }

    /// Puts rows of a batch into their slots, in an empty block. `times` are those of all rows of the batch, on the
    /// grid and ascending.
    pub(super) fn put_cells(&mut self, cells: &Cells<'_>, times: &[i64], rows: Range<usize>) -> Result<()> {
        let (shape, grid) = (self.owner.shape, self.owner.grid);
        let slot_of = |row: usize| shape.place_of(grid.tick(times[row]).0).1;
        let mut begin = rows.start;
        while begin < rows.end {
            // Neighbouring rows in neighbouring slots are copied together.
            let first = slot_of(begin);
            let longest = (rows.end - begin).min(shape.rows - first);
            let is_dense = slot_of(begin + longest - 1) - first == longest - 1;
            let run = if is_dense {
                longest
            } else {
                (1..longest)
                    .take_while(|&n| slot_of(begin + n) == first + n)
                    .count()
                    + 1
            };
            self.put_run(cells, begin..begin + run, first)?;
            begin += run;
        }
        Ok(())
    }

    fn put_run(&mut self, cells: &Cells<'_>, rows: Range<usize>, first: usize) -> Result<()> {
        let shape = self.owner.shape;
        for slot in first..first + rows.len() {
            self.set_presence(slot, true);
        }
        for (bit, values) in cells.bits.iter().enumerate() {
            for (row, slot) in rows.clone().zip(first..) {
                if values.value(row) {
                    self.set_bit(shape.bits[bit], slot, true);
                }
            }
        }
        let places = shape.fixed.iter().flatten();
        for (&(begin, width), (values, nulls)) in places.zip(&cells.fixed) {
            let place = &mut self.bytes[begin + first * width..][..rows.len() * width];
            place.copy_from_slice(&values[rows.start * width..rows.end * width]);
            if let Some(nulls) = nulls {
                for (row, value) in rows.clone().zip(place.chunks_exact_mut(width)) {
                    if nulls.is_null(row) {
                        value.fill(0);
                    }
                }
            }
        }
        for (column, texts) in cells.texts.iter().enumerate() {
            for (row, slot) in rows.clone().zip(first..) {
                if texts.is_valid(row) {
                    self.cells[column * shape.rows + slot] = self.take_text(texts.value(row).as_bytes());
                }
            }
        }
        for row in rows {
            let text = cells.texts.iter().filter(|texts| texts.is_valid(row));
            let text: usize = text.map(|texts| texts.value(row).len()).sum();
            if text > shape.dimensions.text_bytes_max as usize {
                return Err(Error::TooLarge {
                    what: format!("row {row}"),
                    len_bytes: shape.row_width + text,
                    limit_bytes: shape.row_limit(),
                });
            }
        }
        Ok(())
    }

    /// Takes the row out of a slot. What it held becomes zero, so that blocks of the same rows have the same bytes.
    pub(super) fn clear(&mut self, slot: usize) {
        let shape = self.owner.shape;
        self.set_presence(slot, false);
        for &bitmap in &shape.bits {
            self.set_bit(bitmap, slot, false);
        }
        for &(begin, width) in shape.fixed.iter().flatten() {
            self.bytes[begin + slot * width..][..width].fill(0);
        }
        for column in 0..shape.ends.len() {
            self.cells[column * shape.rows + slot] = (0, 0);
        }
    }

    /// The block, whole and with its checksum. `end_sequence` is above everything that it contains.
    pub(super) fn seal(mut self, end_sequence: u64) -> Sealed {
        let Owner {
            table,
            store,
            shape,
            grid,
        } = self.owner;
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut end = 0;
        for (column, &ends) in shape.ends.iter().enumerate() {
            for slot in 0..shape.rows {
                let (begin, len) = self.cells[column * shape.rows + slot];
                bytes.extend_from_slice(&self.text[begin as usize..][..len as usize]);
                end += len;
                bytes[ends + 4 * slot..][..4].copy_from_slice(&end.to_le_bytes());
            }
        }
        let count = |n: usize| u32::try_from(n).expect("a place has less than 4 GiB");
        let rows = u16::try_from(self.rows).expect("at most the rows of a block");
        let mut header = Writer::with_capacity(HEADER_BYTES);
        header.u32(0);
        header.u32(count(bytes.len()));
        header.bytes(&MAGIC.to_le_bytes());
        header.bytes(&rows.to_le_bytes());
        header.u32(table);
        header.i64(self.block);
        header.u64(end_sequence);
        header.i64(grid.interval());
        header.i64(grid.offset());
        header.u32(count(shape.rows));
        header.u32(count(shape.row_width));
        header.bytes(&store);
        let header = header.into_bytes();
        debug_assert_eq!(header.len(), HEADER_BYTES);
        bytes[..header.len()].copy_from_slice(&header);
        let crc = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(shape.unit_bytes), 0);
        Sealed { crc, rows, bytes }
    }
}
