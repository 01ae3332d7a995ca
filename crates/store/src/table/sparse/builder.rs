//! A block in the making. Format: docs/format.md, "Block".

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::block::{BlockView, MAGIC, Owner};
use super::shape::HEADER_BYTES;
use crate::codec::Writer;
use crate::error::{Error, Result};
use crate::rows::{ColumnPlace, KeptVariable, TableSchema};

/// A block that rows are put into and taken out of. It is made at the end of a buffer, where it
/// stays.
#[derive(Debug)]
pub(super) struct BlockBuilder<'t, 'b> {
    owner: Owner<'t>,
    block: i64,
    buffer: &'b mut Vec<u8>,
    /// Where in the buffer the block begins. From there on it has everything but the text, in its
    /// place.
    begin: usize,
    /// Where the text of each slot stands in `text`; column by column.
    cells: Vec<(u32, u32)>,
    text: Vec<u8>,
    rows: usize,
}

/// Columns of rows in memory, as blocks have them.
#[derive(Debug)]
pub(crate) struct Cells {
    /// By bit of the flags.
    bits: Vec<BooleanBuffer>,
    /// Fixed columns but for the flags: the values of all rows, and which rows have none.
    fixed: Vec<(Buffer, Option<NullBuffer>)>,
    variable: Vec<KeptVariable>,
}

impl Cells {
    /// The columns of rows of a table.
    pub(super) fn new(schema: &TableSchema, columns: &[ArrayRef]) -> Self {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut cells = Self {
            bits: Vec::new(),
            fixed: Vec::new(),
            variable: Vec::new(),
        };
        for (column, array) in schema.places().iter().zip(columns) {
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
                ColumnPlace::Variable(_) => cells.variable.extend(KeptVariable::of(&**array)),
            }
        }
        cells
    }

    /// A bit of the flags of a row.
    pub(super) fn bit(&self, bit: usize, row: usize) -> bool {
        self.bits[bit].value(row)
    }

    /// The column of this number in the layout, whose first is that of the flags if there are any.
    fn column(&self, column: usize) -> &(Buffer, Option<NullBuffer>) {
        &self.fixed[column - usize::from(!self.bits.is_empty())]
    }

    /// A fixed column of some rows, end to end. Where there is no value it may be anything.
    pub(super) fn fixed(&self, column: usize, width: usize, rows: Range<usize>) -> &[u8] {
        &self.column(column).0[rows.start * width..rows.end * width]
    }

    /// A variable column of a row; empty where there is no value.
    pub(super) fn variable(&self, column: usize, row: usize) -> &[u8] {
        self.variable[column].column().get(row).unwrap_or_default()
    }
}

/// A block that is to be written.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) crc: u32,
    pub(super) rows: u16,
    /// Units of the disk that it takes.
    pub(super) units: u16,
}

impl<'t, 'b> BlockBuilder<'t, 'b> {
    /// An empty block at the end of a buffer.
    pub(super) fn new(owner: Owner<'t>, block: i64, buffer: &'b mut Vec<u8>) -> Self {
        let shape = owner.shape;
        let begin = buffer.len();
        buffer.resize(begin + shape.fixed_len, 0);
        Self {
            owner,
            block,
            buffer,
            begin,
            cells: vec![(0, 0); shape.ends.len() * shape.rows],
            text: Vec::new(),
            rows: 0,
        }
    }

    /// Begins with the rows of a block.
    pub(super) fn of_block(
        owner: Owner<'t>,
        block: i64,
        view: BlockView<'_>,
        buffer: &'b mut Vec<u8>,
    ) -> Self {
        let mut builder = Self::new(owner, block, buffer);
        let shape = owner.shape;
        builder.bytes().copy_from_slice(&view.bytes[..shape.fixed_len]);
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

    /// The block as far as it is made.
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[self.begin..]
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.buffer[self.begin + HEADER_BYTES + slot / 8] >> (slot % 8) & 1 == 1
    }

    fn take_text(&mut self, text: &[u8]) -> (u32, u32) {
        let at = |n: usize| u32::try_from(n).expect("a block has far less than 4 GiB of text");
        let cell = (at(self.text.len()), at(text.len()));
        self.text.extend_from_slice(text);
        cell
    }

    fn set_bit(&mut self, bitmap: usize, slot: usize, value: bool) {
        let byte = &mut self.bytes()[bitmap + slot / 8];
        let mask = 1 << (slot % 8);
        if value { *byte |= mask } else { *byte &= !mask }
    }

    /// Sets the bits of neighbouring slots.
    fn set_bits(&mut self, bitmap: usize, slots: Range<usize>) {
        let mut slot = slots.start;
        while slot < slots.end {
            if slot.is_multiple_of(8) && slot + 8 <= slots.end {
                self.bytes()[bitmap + slot / 8] = u8::MAX;
                slot += 8;
            } else {
                self.set_bit(bitmap, slot, true);
                slot += 1;
            }
        }
    }

    fn set_presence(&mut self, slot: usize, present: bool) {
        let had = self.has(slot);
        self.set_bit(HEADER_BYTES, slot, present);
        self.rows = self.rows + usize::from(present) - usize::from(had);
    }

    /// Puts a row into a slot, in place of one that was there.
    pub(super) fn put(&mut self, slot: usize, source: &Cells, row: usize) {
        let shape = self.owner.shape;
        self.set_presence(slot, true);
        for (bit, &bitmap) in shape.bits.iter().enumerate() {
            self.set_bit(bitmap, slot, source.bit(bit, row));
        }
        let places = shape.fixed.iter().flatten();
        for (&(begin, width), (values, nulls)) in places.zip(&source.fixed) {
            let place = &mut self.bytes()[begin + slot * width..][..width];
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                place.copy_from_slice(&values[row * width..][..width]);
            } else {
                place.fill(0);
            }
        }
        for column in 0..shape.ends.len() {
            let cell = self.take_text(source.variable(column, row));
            self.cells[column * shape.rows + slot] = cell;
        }
    }

    /// Puts rows of a batch into their slots, in an empty block. `times` are those of all rows of
    /// the batch, on the grid and ascending.
    pub(super) fn put_cells(&mut self, cells: &Cells, times: &[i64], rows: Range<usize>) -> Result<()> {
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

    fn put_run(&mut self, cells: &Cells, rows: Range<usize>, first: usize) -> Result<()> {
        let shape = self.owner.shape;
        self.set_bits(HEADER_BYTES, first..first + rows.len());
        self.rows += rows.len();
        for (bit, values) in cells.bits.iter().enumerate() {
            for (begin, end) in values.slice(rows.start, rows.len()).set_slices() {
                self.set_bits(shape.bits[bit], first + begin..first + end);
            }
        }
        let places = shape.fixed.iter().flatten();
        for (&(begin, width), (values, nulls)) in places.zip(&cells.fixed) {
            let place = &mut self.bytes()[begin + first * width..][..rows.len() * width];
            place.copy_from_slice(&values[rows.start * width..rows.end * width]);
            if let Some(nulls) = nulls {
                for (row, value) in rows.clone().zip(place.chunks_exact_mut(width)) {
                    if nulls.is_null(row) {
                        value.fill(0);
                    }
                }
            }
        }
        let variable = || cells.variable.iter().map(KeptVariable::column);
        for (number, column) in variable().enumerate() {
            for (row, slot) in rows.clone().zip(first..) {
                if let Some(value) = column.get(row) {
                    self.cells[number * shape.rows + slot] = self.take_text(value);
                }
            }
        }
        if cells.variable.is_empty() {
            return Ok(());
        }
        for row in rows {
            let text = variable().filter_map(|column| column.get(row));
            let text: usize = text.map(<[u8]>::len).sum();
            if text > shape.dimensions.text_bytes_max as usize {
                return Err(Error::RowTooLong {
                    row,
                    len_bytes: shape.row_width + text,
                    limit_bytes: shape.row_limit(),
                });
            }
        }
        Ok(())
    }

    /// Takes the row out of a slot. Its bytes become zero, so that blocks of the same rows have the
    /// same bytes.
    pub(super) fn clear(&mut self, slot: usize) {
        let shape = self.owner.shape;
        self.set_presence(slot, false);
        for &bitmap in &shape.bits {
            self.set_bit(bitmap, slot, false);
        }
        for &(begin, width) in shape.fixed.iter().flatten() {
            self.bytes()[begin + slot * width..][..width].fill(0);
        }
        for column in 0..shape.ends.len() {
            self.cells[column * shape.rows + slot] = (0, 0);
        }
    }

    /// Makes the block whole, with its checksum, and as long as the units it takes. `end_sequence`
    /// is above everything that it contains.
    pub(super) fn seal(self, end_sequence: u64) -> Sealed {
        let Owner {
            table,
            store,
            shape,
            grid,
        } = self.owner;
        let (buffer, begin) = (self.buffer, self.begin);
        let mut end = 0;
        for (column, &ends) in shape.ends.iter().enumerate() {
            for slot in 0..shape.rows {
                let (at, len) = self.cells[column * shape.rows + slot];
                buffer.extend_from_slice(&self.text[at as usize..][..len as usize]);
                end += len;
                buffer[begin + ends + 4 * slot..][..4].copy_from_slice(&end.to_le_bytes());
            }
        }
        let count = |n: usize| u32::try_from(n).expect("a place has less than 4 GiB");
        let rows = u16::try_from(self.rows).expect("at most the rows of a block");
        let mut header = Writer::with_capacity(HEADER_BYTES);
        header.u32(0);
        header.u32(count(buffer.len() - begin));
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
        buffer[begin..][..header.len()].copy_from_slice(&header);
        let crc = crc32c::crc32c(&buffer[begin + 4..]);
        buffer[begin..][..4].copy_from_slice(&crc.to_le_bytes());
        let units = (buffer.len() - begin).div_ceil(shape.unit_bytes);
        buffer.resize(begin + units * shape.unit_bytes, 0);
        let units = u16::try_from(units).expect("a place has at most so many");
        Sealed { crc, rows, units }
    }
}
