//! The intact parts of a sparse table in a damaged store.
//!
//! Every block says which it is, and whether it is whole. Where the block map of a file is lost, or
//! the block that it names is damaged, the newest whole layer counts instead.

use std::collections::{BTreeMap, BTreeSet};

use super::block::{BlockView, Header, Owner};
use arrow_array::RecordBatch;

use super::block_map;
use super::files::BlockFiles;
use super::table::SparseEntry;
use crate::error::{Error, Result};
use crate::pages::{FoundPage, Standing};
use crate::rows::BlockRef;
use crate::rows::{Gap, SalvagedTable, TableEntry};

/// The remains of a table.
pub(crate) struct BlockRemains {
    pub(crate) entry: TableEntry,
    pub(crate) sparse: SparseEntry,
    /// The newest map of each file, and whether the last checkpoint may have another.
    maps: BTreeMap<i64, (u64, Vec<u8>, bool)>,
    /// Whether everything that was copied is of the last checkpoint.
    is_current: bool,
    copied: u64,
    gaps: Vec<Gap>,
}

/// The table whose block map a page is, if it is one.
pub(crate) fn owner_of(page: &[u8]) -> Option<u32> {
    block_map::owner(page).map(|(table, _)| table)
}

impl BlockRemains {
    /// The remains of a table of the sparse layout.
    pub(crate) fn new(entry: &TableEntry, sparse: &SparseEntry, is_current: bool) -> Self {
        Self {
            entry: entry.clone(),
            sparse: sparse.clone(),
            maps: BTreeMap::new(),
            is_current,
            copied: 0,
            gaps: Vec::new(),
        }
    }

    /// Takes note of a page if it is a map of a file of this table.
    pub(crate) fn visit(&mut self, found: &FoundPage) {
        let Some((table, file)) = block_map::owner(&found.page) else {
            return;
        };
        if table != self.entry.id.0 || found.checkpoint < self.entry.since {
            return;
        }
        let is_outdated = found.standing == Standing::Outdated;
        let is_newer = self
            .maps
            .get(&file)
            .is_none_or(|(checkpoint, ..)| *checkpoint < found.checkpoint);
        if is_newer {
            self.is_current &= found.standing == Standing::Current;
            self.maps
                .insert(file, (found.checkpoint, found.page.to_vec(), is_outdated));
        }
    }

    /// Gives the rows of every block that is whole to `put`. Files without a map are looked through
    /// if anything else is damaged: with a store that is whole they belong to no checkpoint.
    ///
    /// # Errors
    ///
    /// Those of `put`.
    pub(crate) fn copy(
        &mut self,
        source: &BlockFiles,
        problems: &mut Vec<Error>,
        mut put: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let (entry, sparse) = (self.entry.clone(), self.sparse.clone());
        let owner = sparse.owner(entry.id, source.store());
        let is_damaged = !problems.is_empty();
        let there = source.files_of(owner.table).unwrap_or_else(|error| {
            problems.push(error);
            Vec::new()
        });
        let mut files: BTreeSet<i64> = self.maps.keys().copied().collect();
        files.extend(there.iter().copied().filter(|_| is_damaged));
        for file in files {
            let map = self.maps.remove(&file);
            for index in 0..sparse.shape.dimensions().blocks_per_file as usize {
                let block = sparse.shape.block_of(file, index);
                let bytes = match &map {
                    Some((_, map, false)) => match block_map::get(map, index) {
                        Some(named) => self.named(source, owner, block, &named, problems),
                        None => None,
                    },
                    _ => newest_whole(source, owner, block).inspect(|_| self.is_current = false),
                };
                if let Some(bytes) = bytes {
                    let view = BlockView {
                        shape: owner.shape,
                        bytes: &bytes,
                    };
                    match view.to_batch(sparse.grid, block, &entry.schema) {
                        Ok(batch) => {
                            self.copied += batch.num_rows() as u64;
                            put(&batch)?;
                        }
                        Err(error) => problems.push(error),
                    }
                }
            }
        }
        Ok(())
    }

    /// The block that the map names, or the newest that is whole in its stead.
    fn named(
        &mut self,
        source: &BlockFiles,
        owner: Owner<'_>,
        block: i64,
        named: &BlockRef,
        problems: &mut Vec<Error>,
    ) -> Option<Vec<u8>> {
        let error = match source.read(owner, block, named) {
            Ok(page) => return Some(page.bytes().to_vec()),
            Err(error) => error,
        };
        problems.push(error);
        let other = newest_whole(source, owner, block);
        if other.is_some() {
            self.is_current = false;
            let path = source.path_of(owner.table, owner.shape.file_of(block).0);
            let reason =
                "an outdated copy of it was used: rows deleted since may be back, newer ones are missing";
            problems.push(Error::corrupt(&path, format!("block {block}"), reason));
        } else {
            let time = |slot: usize| {
                let slot = i64::try_from(slot).expect("rows of a block are few");
                owner.grid.time(owner.shape.first_tick(block).wrapping_add(slot))
            };
            self.gaps.push(Gap {
                from: Some(time(0)),
                to: Some(time(owner.shape.rows_per_block() - 1)),
            });
        }
        other
    }

    /// Reports what was saved of the table, which has `rows` rows now.
    pub(crate) fn report(&self, rows: u64) -> SalvagedTable {
        let missing = self
            .is_current
            .then(|| self.entry.rows.saturating_sub(self.copied));
        SalvagedTable {
            name: self.entry.name.to_string(),
            schema: self.entry.schema.as_ref().clone(),
            rows,
            missing,
            gaps: match missing {
                Some(0) => Vec::new(),
                Some(_) => self.gaps.clone(),
                // Without its map it is unknown what else a file had.
                None => vec![Gap { from: None, to: None }],
            },
        }
    }

    /// Checks every block that a map of the last checkpoint names.
    pub(crate) fn check(&self, source: &BlockFiles, problems: &mut Vec<Error>) {
        let sparse = &self.sparse;
        let owner = sparse.owner(self.entry.id, source.store());
        for (&file, (_, map, is_outdated)) in &self.maps {
            for index in 0..sparse.shape.dimensions().blocks_per_file as usize {
                if let Some(named) = block_map::get(map, index).filter(|_| !is_outdated) {
                    problems.extend(
                        source
                            .read(owner, sparse.shape.block_of(file, index), &named)
                            .err(),
                    );
                }
            }
        }
    }
}

impl BlockFiles {
    /// The rows of a block.
    pub(crate) fn rows_of(
        &self,
        table: &TableEntry,
        sparse: &SparseEntry,
        block: i64,
        named: &BlockRef,
    ) -> Result<RecordBatch> {
        let page = self.read(sparse.owner(table.id, self.store()), block, named)?;
        let view = BlockView {
            shape: &sparse.shape,
            bytes: page.bytes(),
        };
        view.to_batch(sparse.grid, block, &table.schema)
    }
}

/// The newest whole version of a block, in whichever layer it is.
fn newest_whole(source: &BlockFiles, owner: Owner<'_>, block: i64) -> Option<Vec<u8>> {
    let stride = usize::try_from(owner.shape.stride).ok()?;
    let len = source.file_len(owner, block)?;
    let mut newest: Option<(u64, Vec<u8>)> = None;
    for layer in 0..=u8::MAX {
        let offset = owner.shape.offset(block, layer);
        let left = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
        if left == 0 {
            break;
        }
        let unit = owner.shape.fixed_len.next_multiple_of(owner.shape.unit_bytes);
        let mut bytes = vec![0; unit.min(left)];
        if source.read_at(owner, block, layer, &mut bytes).is_err() {
            continue;
        }
        let whole = Header::len_of(&bytes).unwrap_or(0).min(stride).min(left);
        if whole > bytes.len() {
            bytes.resize(whole, 0);
            if source.read_at(owner, block, layer, &mut bytes).is_err() {
                continue;
            }
        }
        if let Ok(header) = owner.check(&bytes, block)
            && newest
                .as_ref()
                .is_none_or(|(sequence, _)| *sequence < header.end_sequence)
        {
            newest = Some((header.end_sequence, bytes));
        }
    }
    newest.map(|(_, bytes)| bytes)
}
