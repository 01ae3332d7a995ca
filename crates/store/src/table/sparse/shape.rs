//! The shape of a table's blocks: their rows, and where each column begins. Format: docs/format.md,
//! "Block".

use std::path::Path;

use bedload_trees::RowLayout;

use super::block_map;
use crate::error::{Error, Result};
use crate::rows::BlockRef;
use crate::rows::{ColumnPlace, TableSchema};

/// Blocks take whole units of the disk; under test the smallest there is.
const UNIT_BYTES: usize = if cfg!(any(test, fuzzing)) { 512 } else { 4096 };
/// The length that blocks should have, so that reading one row costs little and reading many does
/// not cost a call each.
const TARGET_BYTES: usize = 4 * UNIT_BYTES;
/// Bytes of text that a row may have.
const TEXT_BYTES_MAX: usize = if cfg!(any(test, fuzzing)) { 256 } else { 64 << 10 };
/// Bytes of text that a value is assumed to have when the number of rows is chosen.
const TEXT_BYTES_GUESS: usize = 24;
/// The most bytes that one layer of a file may take, so that all layers are within what file
/// systems allow.
const LAYER_BYTES_MAX: u64 = if cfg!(any(test, fuzzing)) {
    16 << 10
} else {
    4 << 30
};
const ROWS_MAX: usize = u16::MAX as usize;
const UNITS_MAX: usize = u16::MAX as usize;

/// Bytes before the bitmaps of a block.
pub(super) const HEADER_BYTES: usize = 64;

/// The numbers that a table's shape follows from; they never change. In the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Dimensions {
    pub(super) rows_per_block: u32,
    pub(super) blocks_per_file: u32,
    pub(super) unit_bytes: u32,
    pub(super) text_bytes_max: u32,
}

/// The blocks of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(super) dimensions: Dimensions,
    pub(super) rows: usize,
    pub(super) blocks_per_file: i64,
    pub(super) unit_bytes: usize,
    /// Where the bitmap of each bit of the rows' flags begins.
    pub(super) bits: Vec<usize>,
    /// Where each fixed column begins, and how wide it is; by its number in the layout of rows.
    /// Flags have none.
    pub(super) fixed: Vec<Option<(usize, usize)>>,
    /// Where the ends of the values of each variable column begin.
    pub(super) ends: Vec<usize>,
    /// Where text begins: the end of everything else.
    pub(super) fixed_len: usize,
    /// Bytes that a place has room for.
    pub(super) stride: u64,
    /// Bytes of a row in the layout of rows, the flags included.
    pub(super) row_width: usize,
}

impl Shape {
    /// The shape that suits a schema, in a store with pages of so many bytes of payload.
    ///
    /// # Errors
    ///
    /// A row may be longer than any block.
    pub(crate) fn of_schema(schema: &TableSchema, payload_len: usize) -> Result<Self> {
        let layout = schema.layout();
        let variable = layout.variable_columns();
        let row_bits = 1
            + flag_bits(schema)
            + 8 * (layout.fixed_len() - schema.flag_bytes())
            + 8 * variable * (4 + TEXT_BYTES_GUESS);
        let bitmaps = 1 + flag_bits(schema);
        // Wide rows leave less of a longer block unused.
        let candidates = (1..=4).map(|times| times * TARGET_BYTES);
        let rows_in = |bytes: usize| {
            let room = bytes.saturating_sub(HEADER_BYTES + 15 * bitmaps + 7 * layout.fixed_widths().len());
            (room * 8 / row_bits).clamp(1, ROWS_MAX)
        };
        let cost = |bytes: &usize| bytes.max(&(rows_in(*bytes) * row_bits / 8)) * 1024 / rows_in(*bytes);
        let target = candidates
            .reduce(|best, next| {
                if cost(&next) * 100 < cost(&best) * 98 {
                    next
                } else {
                    best
                }
            })
            .unwrap_or(TARGET_BYTES);
        let number = |n: usize| u32::try_from(n).expect("bounded above");
        let dimensions = |rows: usize, blocks: usize| Dimensions {
            rows_per_block: number(rows),
            blocks_per_file: number(blocks),
            unit_bytes: number(UNIT_BYTES),
            text_bytes_max: number(TEXT_BYTES_MAX),
        };
        let mut rows = rows_in(target);
        let shape = |rows| Self::new(schema, dimensions(rows, 1), payload_len);
        while rows > 1
            && (shape(rows).is_err() || (variable == 0 && shape(rows).is_ok_and(|s| s.fixed_len > target)))
        {
            rows -= 1;
        }
        let stride = shape(rows).map_or(1, |shape| shape.stride);
        let blocks = usize::try_from(LAYER_BYTES_MAX / stride).unwrap_or(usize::MAX);
        let blocks = blocks.clamp(1, block_map::capacity(payload_len));
        Self::new(schema, dimensions(rows, blocks), payload_len).map_err(|_| {
            let text = if variable == 0 { 0 } else { TEXT_BYTES_MAX };
            let row = layout.fixed_len() + 4 * variable + text;
            Error::schema(format!(
                "a row may take {row} bytes, and a block of a sparse table has at most {}: \
                 use fewer or narrower columns",
                UNITS_MAX * UNIT_BYTES
            ))
        })
    }

    /// The shape of these dimensions, or what is wrong with them.
    pub(crate) fn new(
        schema: &TableSchema,
        dimensions: Dimensions,
        payload_len: usize,
    ) -> Result<Self, &'static str> {
        let rows = dimensions.rows_per_block as usize;
        let unit_bytes = dimensions.unit_bytes as usize;
        let blocks = dimensions.blocks_per_file as usize;
        if !(1..=ROWS_MAX).contains(&rows)
            || !unit_bytes.is_power_of_two()
            || !(512..=1 << 16).contains(&unit_bytes)
        {
            return Err("its blocks have a size that no store gives them");
        }
        if !(1..=block_map::capacity(payload_len)).contains(&blocks) {
            return Err("its files have more blocks than a map has room for");
        }
        let layout = schema.layout();
        let bitmap = rows.div_ceil(64) * 8;
        let mut at = HEADER_BYTES + bitmap;
        let mut take = |bytes: usize| {
            let begin = at;
            at += bytes.next_multiple_of(8);
            begin
        };
        let bits = (0..flag_bits(schema)).map(|_| take(bitmap)).collect();
        let flags = usize::from(schema.flag_bytes() > 0);
        let widths = layout
            .fixed_widths()
            .iter()
            .map(|&width| usize::from(width))
            .enumerate();
        let fixed = widths
            .map(|(number, width)| (number >= flags).then(|| (take(rows * width), width)))
            .collect();
        let ends = (0..layout.variable_columns()).map(|_| take(4 * rows)).collect();
        let text = match layout.variable_columns() {
            0 => 0,
            _ => rows * dimensions.text_bytes_max as usize,
        };
        let units = (at + text).div_ceil(unit_bytes);
        if units > UNITS_MAX {
            return Err("its blocks are longer than any store makes them");
        }
        Ok(Self {
            dimensions,
            rows,
            blocks_per_file: i64::from(dimensions.blocks_per_file),
            unit_bytes,
            bits,
            fixed,
            ends,
            fixed_len: at,
            stride: (units * unit_bytes) as u64,
            row_width: layout.fixed_len(),
        })
    }

    pub(crate) fn dimensions(&self) -> Dimensions {
        self.dimensions
    }

    /// Rows of a block.
    pub(crate) fn rows_per_block(&self) -> usize {
        self.rows
    }

    /// The most bytes that the columns of a row may have.
    pub(crate) fn row_limit(&self) -> usize {
        self.row_width + self.dimensions.text_bytes_max as usize
    }

    /// The block and the slot of a tick.
    pub(super) fn place_of(&self, tick: i64) -> (i64, usize) {
        let rows = i64::try_from(self.rows).expect("at most ROWS_MAX");
        let (block, slot) = (tick.div_euclid(rows), tick.rem_euclid(rows));
        (
            block,
            usize::try_from(slot).expect("less than the number of rows"),
        )
    }

    /// The tick of the first slot of a block. It wraps if it lies below the least number.
    pub(super) fn first_tick(&self, block: i64) -> i64 {
        block.wrapping_mul(i64::try_from(self.rows).expect("at most ROWS_MAX"))
    }

    /// The tick of the first slot of a file, which may lie below all numbers.
    pub(super) fn first_tick_of_file(&self, file: i64) -> i128 {
        let rows = i128::try_from(self.rows).expect("at most ROWS_MAX");
        i128::from(file) * i128::from(self.blocks_per_file) * rows
    }

    /// The file of a block, and its number in it.
    pub(super) fn file_of(&self, block: i64) -> (i64, usize) {
        let (file, index) = (
            block.div_euclid(self.blocks_per_file),
            block.rem_euclid(self.blocks_per_file),
        );
        (
            file,
            usize::try_from(index).expect("less than the blocks of a file"),
        )
    }

    /// The block of a file with this number.
    pub(super) fn block_of(&self, file: i64, index: usize) -> i64 {
        file.wrapping_mul(self.blocks_per_file)
            .wrapping_add(i64::try_from(index).expect("less than the blocks of a file"))
    }

    /// The first and the last block of a file, of those that have a number: the first file of all
    /// begins below all numbers, and the last ends above them.
    pub(super) fn blocks_of(&self, file: i64) -> (i64, i64) {
        let blocks = i128::from(self.blocks_per_file);
        let first = i128::from(file) * blocks;
        let clamp = |block: i128| {
            let number = block.clamp(i64::MIN.into(), i64::MAX.into());
            i64::try_from(number).expect("clamped")
        };
        (clamp(first), clamp(first + blocks - 1))
    }

    /// Where in its file a block of a layer stands.
    pub(super) fn offset(&self, block: i64, layer: u8) -> u64 {
        let (_, index) = self.file_of(block);
        (u64::from(layer) * self.blocks_per_file.cast_unsigned() + index as u64) * self.stride
    }

    /// Whether a block of the table may look like that.
    pub(crate) fn admits(&self, block: &BlockRef) -> bool {
        let bytes = usize::from(block.units) * self.unit_bytes;
        usize::from(block.rows) <= self.rows && bytes >= self.fixed_len && bytes as u64 <= self.stride
    }

    /// Bytes that a block takes, its text left out.
    pub(super) fn block_bytes(&self) -> usize {
        self.fixed_len.next_multiple_of(self.unit_bytes)
    }

    pub(super) fn has_text(&self) -> bool {
        !self.ends.is_empty()
    }
}

/// How many bits of flags a row has.
fn flag_bits(schema: &TableSchema) -> usize {
    let bits = schema.places().iter().map(|column| {
        usize::from(column.valid_bit.is_some()) + usize::from(matches!(column.place, ColumnPlace::Bit(_)))
    });
    bits.sum()
}

/// The shape of a table as the catalogue has it.
pub(crate) fn decode(
    file: &Path,
    table: &str,
    schema: &TableSchema,
    dimensions: Dimensions,
    payload_len: usize,
) -> Result<Shape> {
    Shape::new(schema, dimensions, payload_len)
        .map_err(|reason| Error::corrupt(file, "the catalogue", format!("table {table:?}: {reason}")))
}
