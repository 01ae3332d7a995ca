//! Reading one row: a touch of the block map, and one of a block.

use std::ops::Bound;
use std::sync::Arc;

use super::block::BlockBytes;
use super::block_map;
use super::head_rows::{HeadRow, HeadRows};
use super::scan::{newest_in_heads, read_map};
use super::shape::Shape;
use super::table::SparseEntry;
use super::view::SparseView;
use crate::error::Result;
use crate::rows::TableEntry;

/// A row that was found.
#[derive(Debug, Clone)]
pub(crate) enum FoundRow {
    InHead(HeadRow),
    InBlock {
        shape: Arc<Shape>,
        bytes: BlockBytes,
        slot: usize,
    },
}

/// The row of a time, as of a view.
pub(crate) fn find(
    view: &SparseView,
    table: &TableEntry,
    sparse: &SparseEntry,
    visible: u64,
    time: i64,
) -> Result<Option<FoundRow>> {
    let (tick, is_exact) = sparse.grid.tick(time);
    if !is_exact {
        return Ok(None);
    }
    let owner = sparse.owner(table.id, view.blocks.store());
    let (block, slot) = sparse.shape.place_of(tick);
    let heads = &view.heads;
    let bounds = (Bound::Included((time, 0)), Bound::Included((time, u64::MAX)));
    let row = HeadRows::new((heads, &table.schema), bounds, visible, true).pop();
    let written = newest_in_heads(heads, block, visible);
    let is_gone = |sequence| {
        let mut deletions = heads.iter().filter_map(|head| head.merged_deletions(visible));
        deletions.any(|deletions| deletions.covers(time, sequence))
    };
    if let Some(row) = row
        && written.is_none_or(|(sequence, _)| row.sequence > sequence)
    {
        return Ok((!is_gone(row.sequence)).then_some(FoundRow::InHead(row)));
    }
    let (sequence, named) = match written {
        Some(written) => written,
        None => {
            let (file, index) = sparse.shape.file_of(block);
            let Some(&page) = sparse.files()?.get(&file) else {
                return Ok(None);
            };
            match block_map::get(&read_map(view, owner, file, page)?, index) {
                Some(named) => (0, named),
                None => return Ok(None),
            }
        }
    };
    if is_gone(sequence) {
        return Ok(None);
    }
    let bytes = view.blocks.load(owner, block, &named)?;
    let is_there = bytes.view(&sparse.shape).has(slot);
    Ok(is_there.then(|| FoundRow::InBlock {
        shape: sparse.shape.clone(),
        bytes,
        slot,
    }))
}

impl FoundRow {
    /// A bit of the row's flags.
    pub(crate) fn bit(&self, bit: usize) -> bool {
        match self {
            Self::InHead(row) => row.bit(bit),
            Self::InBlock { shape, bytes, slot } => bytes.view(shape).bit(bit, *slot),
        }
    }

    /// The fixed column of this number in the layout, whose values have so many bytes.
    pub(crate) fn fixed(&self, column: usize, width: usize) -> &[u8] {
        match self {
            Self::InHead(row) => row.fixed(column, width),
            Self::InBlock { shape, bytes, slot } => bytes.view(shape).fixed(column, *slot..slot + 1),
        }
    }

    /// A variable column.
    pub(crate) fn variable(&self, column: usize) -> &[u8] {
        match self {
            Self::InHead(row) => row.variable(column),
            Self::InBlock { shape, bytes, slot } => bytes.view(shape).variable(column, *slot),
        }
    }
}
