//! The blocks of a table as of a view, copied into the files of another store.
//!
//! The copy has layer 0 of each block alone ([`BlockFiles::for_copy`]): its files are as short as
//! they can be, and have holes where there are no rows, whatever the layers of the blocks that were
//! copied.

use super::block_map;
use super::files::BlockFiles;
use super::scan::read_map;
use super::table::SparseEntry;
use super::view::SparseView;
use super::writer::BlockWriter;
use crate::error::Result;
use crate::rows::{BlockRef, Head, TableEntry};

/// Copies the blocks that the maps of a view name, durably.
pub(crate) fn copy_blocks(
    view: &SparseView,
    table: &TableEntry,
    sparse: &SparseEntry,
    target: &BlockFiles,
) -> Result<()> {
    let owner = sparse.owner(table.id, view.blocks.store());
    for (&file, &page) in &**sparse.files()? {
        let map = read_map(view, owner, file, page)?;
        let mut writer = BlockWriter::new(target, owner);
        for index in 0..sparse.shape.dimensions().blocks_per_file as usize {
            if let Some(named) = block_map::get(&map, index) {
                let block = sparse.shape.block_of(file, index);
                let bytes = view.blocks.read(owner, block, &named)?;
                writer.write(block, 0, bytes.bytes())?;
            }
        }
        writer.finish()?.iter().try_for_each(|file| file.sync())?;
    }
    Ok(())
}

/// As [`copy_blocks`], for the blocks that commits have written since the checkpoint of the view,
/// which are in `head`. The newest writing of a block takes the place of the block. Returns a head
/// whose blocks are those of the copy; earlier writings are only counted.
pub(crate) fn copy_written_blocks(
    view: &SparseView,
    (table, sparse): (&TableEntry, &SparseEntry),
    head: &Head,
    target: &BlockFiles,
) -> Result<Head> {
    let owner = sparse.owner(table.id, view.blocks.store());
    let mut written = head.blocks(u64::MAX);
    let mut writer = BlockWriter::new(target, owner);
    for (&block, writings) in &mut written {
        if let Some((_, newest)) = writings.last() {
            writer.write(block, 0, view.blocks.read(owner, block, newest)?.bytes())?;
        }
        writings.iter_mut().for_each(|(_, named)| named.layer = 0);
    }
    writer.finish()?.iter().try_for_each(|file| file.sync())?;
    Ok(head.with_blocks(written))
}

/// Makes of a block map that of a copy.
pub(crate) fn change_map(sparse: &SparseEntry, payload: &mut [u8]) {
    for index in 0..sparse.shape.dimensions().blocks_per_file as usize {
        if let Some(named) = block_map::get(payload, index) {
            block_map::set(payload, index, Some(BlockRef { layer: 0, ..named }));
        }
    }
}
