//! How densely a sparse table is filled, and whether another layout would take less space.

use super::block_map;
use super::scan::read_map;
use super::shape::Shape;
use super::table::SparseEntry;
use super::view::SparseView;
use crate::error::Result;
use crate::rows::TableEntry;

/// Bytes that an entry of a leaf has beside its columns, and how full leaves are.
const ENTRY_BYTES: usize = 16;
const LEAF_FILL: f64 = 0.9;
/// The indexed layout is advised where it takes less than this part of the space.
const ADVISED_BELOW: f64 = 1.0 / 1.2;

/// The density of a sparse table, as [`Store::info`](crate::Store::info) reports it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Density {
    /// Rows that a block has room for.
    pub rows_per_block: u64,
    /// Blocks that have a row, as of the last checkpoint.
    pub blocks: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes that the files of the table take on the disk.
    pub disk_bytes: u64,
    /// Bytes of the rows in blocks: times, and columns of fixed width.
    pub payload_bytes: u64,
    /// Whether files can have holes here; without them, places in which no block stands take space,
    /// too.
    pub has_holes: bool,
    /// Rows that were written over by a later row of the same time.
    pub replaced: u64,
    /// The density below which the indexed layout would take less than five sixths of the space.
    pub advised_below: f64,
}

impl Density {
    /// Which part of the room in blocks has a row: 1 for a row at every time.
    #[must_use]
    pub fn density(&self) -> f64 {
        self.rows as f64 / (self.blocks * self.rows_per_block).max(1) as f64
    }

    /// Whether the rows are so scattered that the indexed layout is the better one for them.
    #[must_use]
    pub fn advises_indexed(&self) -> bool {
        self.blocks > 0 && self.density() < self.advised_below
    }

    pub(crate) fn of_table(view: &SparseView, table: &TableEntry, sparse: &SparseEntry) -> Result<Self> {
        let owner = sparse.owner(table.id, view.blocks.store());
        let shape = &sparse.shape;
        let (mut blocks, mut rows) = (0, 0);
        for (&file, &page) in &**sparse.files()? {
            let map = read_map(view, owner, file, page)?;
            let indexes = 0..shape.dimensions().blocks_per_file as usize;
            for named in indexes.filter_map(|index| block_map::get(&map, index)) {
                blocks += 1;
                rows += u64::from(named.rows);
            }
        }
        let columns: usize = shape.fixed.iter().flatten().map(|&(_, width)| width).sum();
        Ok(Self {
            rows_per_block: shape.rows as u64,
            blocks,
            rows,
            disk_bytes: view.blocks.disk_bytes(owner.table)?,
            payload_bytes: rows * (8 + columns as u64),
            has_holes: view.blocks.has_holes(),
            replaced: sparse.replaced,
            advised_below: advised_below(shape),
        })
    }
}

fn advised_below(shape: &Shape) -> f64 {
    let entry = (ENTRY_BYTES + 4 * shape.ends.len() + shape.row_width) as f64 / LEAF_FILL;
    let row = shape.fixed_len.next_multiple_of(shape.unit_bytes) as f64 / shape.rows as f64;
    (row * ADVISED_BELOW / entry).min(1.0)
}
