//! The blocks of a table as of a view, copied into the files of another store.
//!
//! Blocks that a map names are in layer 0 of the copy, whatever their layers were: its files are as
//! short as they can be, and have holes where there are no rows.

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
/// which are in `head`. Each writing of a block gets a layer of its own, after layer 0 if a map
/// names the block. Returns a head that has the copies in their place.
pub(crate) fn copy_written_blocks(
    view: &SparseView,
    (table, sparse): (&TableEntry, &SparseEntry),
    head: &Head,
    target: &BlockFiles,
) -> Result<Head> {
    let owner = sparse.owner(table.id, view.blocks.store());
    let mut written = head.blocks(u64::MAX);
    let mut writer = BlockWriter::new(target, owner);
    let maps = sparse.files()?;
    for (&block, writings) in &mut written {
        let (file, index) = sparse.shape.file_of(block);
        let named = match maps.get(&file) {
            Some(&page) => block_map::get(&read_map(view, owner, file, page)?, index),
            None => None,
        };
        let first = u8::from(named.is_some());
        for (layer, (_, named)) in (first..=u8::MAX).zip(writings) {
            let bytes = view.blocks.read(owner, block, named)?;
            target.take(owner.table, block, layer);
            writer.write(block, layer, bytes.bytes())?;
            named.layer = layer;
        }
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
