//! The check of a sparse table: its files, their block maps, every block.

use std::path::Path;

use bedload_pages::PageId;

use super::block_map;
use super::scan::read_map;
use super::table::{SparseEntry, open_tree};
use super::view::SparseView;
use crate::error::{Error, Result};
use crate::rows::{TableEntry, Verified};

/// Checks a table as of a view.
pub(crate) fn verify(
    view: &SparseView,
    table: &TableEntry,
    sparse: &SparseEntry,
    data: &Path,
) -> Result<Verified> {
    let mut found = Verified::default();
    let name = |place: String| format!("{place} (table {:?})", table.name);
    let tree = open_tree(&*view.pages, table.root)?;
    let verified = tree.verify()?;
    let place = |page: PageId| name(format!("page {page}"));
    let problems = verified.problems.iter();
    found
        .problems
        .extend(problems.map(|problem| Error::corrupt(data, place(problem.page), problem.reason.clone())));
    found.pages.extend(verified.pages);
    let owner = sparse.owner(table.id, view.blocks.store());
    for (&file, &page) in &**sparse.files()? {
        found.pages.push(page);
        let map = match read_map(view, owner, file, page) {
            Ok(map) => map,
            Err(error) => {
                found.note(error)?;
                continue;
            }
        };
        let mut blocks = 0;
        for index in 0..sparse.shape.dimensions().blocks_per_file as usize {
            let Some(named) = block_map::get(&map, index) else {
                continue;
            };
            blocks += 1;
            found.rows += u64::from(named.rows);
            if let Err(error) = view
                .blocks
                .read(owner, sparse.shape.block_of(file, index), &named)
            {
                found.note(error)?;
            }
        }
        found.blocks += blocks;
        if blocks == 0 {
            let place = name(format!("page {page}"));
            found.note(Error::corrupt(
                data,
                place,
                format!("file {file} has a block map and no block"),
            ))?;
        }
    }
    if found.problems.is_empty() && found.rows != table.rows {
        let reason = format!(
            "its blocks have {} rows, the catalogue says {}",
            found.rows, table.rows
        );
        found.note(Error::corrupt(data, format!("table {:?}", table.name), reason))?;
    }
    // Blocks that commits have written since the checkpoint.
    for head in &view.heads {
        for (block, written) in head.blocks(u64::MAX) {
            for (_, named) in written {
                found.blocks += 1;
                if let Err(error) = view.blocks.read(owner, block, &named) {
                    found.note(error)?;
                }
            }
        }
    }
    Ok(found)
}
