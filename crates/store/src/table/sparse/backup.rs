//! The blocks of a table as of a view, copied into the files of another store.
//!
//! The copy has layer 0 of each block alone: its files are as short as they can be, and have holes
//! where there are no rows, whatever the layers of the blocks that were copied.

use super::block_map;
use super::files::BlockFiles;
use super::scan::read_map;
use super::table::SparseEntry;
use super::view::SparseView;
use super::writer::BlockWriter;
use crate::error::Result;
use crate::rows::BlockRef;
use crate::rows::TableEntry;

/// Copies the blocks that the maps of a view name, durably. Those that only the log names are not
/// among them.
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

/// Makes of a block map that of a copy.
pub(crate) fn change_map(sparse: &SparseEntry, payload: &mut [u8]) {
    for index in 0..sparse.shape.dimensions().blocks_per_file as usize {
        if let Some(named) = block_map::get(payload, index) {
            block_map::set(payload, index, Some(BlockRef { layer: 0, ..named }));
        }
    }
}
