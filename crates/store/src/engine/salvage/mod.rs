//! Salvage: what is whole in a damaged store, copied into a new one.
//!
//! Nothing that is read is needed for the rest to be read. Rows are taken from every leaf that is whole, whether the
//! nodes above it are or not: a leaf names its table. They keep their sequence numbers, so the log, or what is whole
//! of it, is then applied as recovery does it. The new store is recovered into, and begun like any other: until it
//! is whole there is no store.

mod report;

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

pub use report::{Gap, SalvageReport, SalvagedTable};

use super::catalogue::{Catalogue, TableEntry};
use super::directory::{
    DATA_FILE, LOG_DIR, begin_data_file, check_dirs, create_dir, draw_store_id, entries, finish_data_file,
};
use super::lock::{StoreLock, lock};
use super::recovery::Recovery;
use super::verify::Problem;
use super::view::Generation;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::indexed::{self, TableRemains};
use crate::options::Options;
use crate::pages::{CheckpointMeta, PageFile, Remains, Superblock, WorkingPages};
use crate::rows::SortedBatch;
use crate::sparse::{BlockFiles, BlockRemains, SparseEntry, create_files};
use crate::wal::{Log, LogRemains, Record};

/// Everything that is damaged in a store, which need not be in a state to be opened.
pub(crate) fn inspect(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Vec<Problem>> {
    let _lock = lock_source(&**disk, dir)?;
    let mut problems = Vec::new();
    match Source::find(disk, dir, &mut problems) {
        Ok(source) => {
            let mut sparse = source.sparse_remains();
            source.pages.visit_pages(&mut problems, |found| {
                sparse.iter_mut().for_each(|table| table.visit(&found));
                Ok(())
            })?;
            let blocks = source.block_files();
            sparse
                .iter()
                .for_each(|table| table.check(&blocks, &mut problems));
            let mut unreadable = Vec::new();
            source.replay(&mut problems, |record, _, is_vouched| {
                if let Record::Blocks {
                    table, blocks: named, ..
                } = record
                    && let Some(known) = source.catalogue.get(table)
                    && let Some(sparse) = &known.sparse
                {
                    let rows = named
                        .iter()
                        .map(|(block, named)| blocks.rows_of(known, sparse, *block, named));
                    let errors = rows.filter_map(Result::err);
                    unreadable.extend(errors.map(|error| of_batch(error, is_vouched)));
                }
                Ok(())
            })?;
            problems.append(&mut unreadable);
        }
        Err(error @ Error::Corrupt { .. }) => problems.push(error),
        Err(error) => return Err(error),
    }
    Ok(problems.into_iter().map(Problem::from).collect())
}

/// What is wrong with a block that the log names; whether something shows that its batch had been durable. If not, a
/// batch that was cut off by power loss looks the same.
fn of_batch(error: Error, is_vouched: bool) -> Error {
    match error {
        Error::Corrupt { file, place, reason } if !is_vouched => Error::Corrupt {
            file,
            place,
            reason: format!(
                "{reason}; nothing shows that its batch was ever acknowledged, and none is missing if it was not"
            ),
        },
        error => error,
    }
}

/// Copies what is whole in the store `from` into a new store `to`, which is left closed.
pub(crate) fn salvage(disk: Arc<dyn Disk>, from: &Path, to: &Path) -> Result<SalvageReport> {
    let _from_lock = lock_source(&*disk, from)?;
    if entries(&*disk, to)?.is_some_and(|entries| !entries.is_empty()) {
        return Err(Error::AlreadyExists { path: to.into() });
    }
    let mut problems = Vec::new();
    let source = Source::find(&disk, from, &mut problems)?;

    create_dir(&*disk, to)?;
    let mut to_lock = lock(&*disk, to)?;
    let mut target = Target::create(&disk, to, &source, &mut to_lock)?;
    let tables = target.copy_tables(&source, &mut problems)?;
    let log_records = target.apply_log(&source, &mut problems)?;
    let rows = target.finish(disk)?;

    let mut report = SalvageReport::new(problems, log_records);
    for (remains, rows) in tables.iter().zip(rows) {
        report.tables.push(remains.report(rows));
    }
    Ok(report)
}

/// Locks a store that is there.
fn lock_source(disk: &dyn Disk, dir: &Path) -> Result<StoreLock> {
    match entries(disk, dir)? {
        Some(entries) if entries.contains(&dir.join(DATA_FILE)) => {
            let lock = lock(disk, dir)?;
            check_dirs(disk, dir)?;
            Ok(lock)
        }
        _ => Err(Error::NotAStore {
            path: dir.into(),
            reason: "there is no data file in it".into(),
        }),
    }
}

/// A damaged store.
struct Source<'d> {
    disk: &'d Arc<dyn Disk>,
    dir: &'d Path,
    superblock: Option<Superblock>,
    pages: Remains,
    catalogue: Catalogue,
    /// Whether the catalogue is that of the superblock.
    is_catalogue_current: bool,
    log: LogRemains<'d>,
}

impl<'d> Source<'d> {
    fn find(disk: &'d Arc<dyn Disk>, dir: &'d Path, problems: &mut Vec<Error>) -> Result<Self> {
        let data = dir.join(DATA_FILE);
        let log = LogRemains::find(&**disk, &dir.join(LOG_DIR)).unwrap_or_else(|error| {
            problems.push(error);
            LogRemains::none(&**disk, &dir.join(LOG_DIR))
        });
        let file = disk
            .open(&data)
            .map_err(|source| Error::io(&data, "open", source))?;
        let superblock = match PageFile::read_superblock(&data, &*file) {
            // A superblock that is not whole is that of a checkpoint that was cut short, of which nothing is missed,
            // unless the log that the other one needs is gone: then there was a newer checkpoint, and this one's pages
            // are written over.
            Ok((superblock, damage)) => {
                let is_newest =
                    damage.is_none() || log.start().is_some_and(|start| start <= superblock.log_start);
                problems.extend(damage.filter(|_| !is_newest));
                is_newest.then_some(superblock)
            }
            Err(error @ (Error::NewerFormat { .. } | Error::OlderFormat { .. })) => return Err(error),
            Err(error) => {
                problems.push(error);
                None
            }
        };
        let pages = Remains::find(&data, file, superblock.clone())?;
        let payload_len = pages.page_bytes() - crate::pages::HEADER_BYTES;
        let current = pages.catalogue(problems).and_then(|text| {
            Catalogue::decode(&data, &text, payload_len)
                .map_err(|error| problems.push(error))
                .ok()
        });
        let is_catalogue_current = current.is_some();
        let catalogue = match current {
            Some(catalogue) => catalogue,
            None => {
                let damaged = |reason: String| Error::corrupt(&data, "the catalogue", reason);
                let (number, catalogue) = pages
                    .found_catalogues()
                    .find_map(|(number, text)| {
                        Some((number, Catalogue::decode(&data, &text, payload_len).ok()?))
                    })
                    .ok_or_else(|| damaged("none can be read, so nothing is known of the tables".into()))?;
                problems.push(damaged(format!("that of checkpoint {number} was used")));
                catalogue
            }
        };
        Ok(Self {
            disk,
            dir,
            superblock,
            pages,
            catalogue,
            is_catalogue_current,
            log,
        })
    }
}

impl Source<'_> {
    /// What is to be found of each sparse table.
    fn sparse_remains(&self) -> Vec<BlockRemains> {
        let sparse = self.catalogue.iter().filter(|table| table.sparse.is_some());
        sparse
            .map(|table| BlockRemains::new(table.clone(), self.is_catalogue_current))
            .collect()
    }

    /// The files of its sparse tables.
    fn block_files(&self) -> BlockFiles {
        let id = self.superblock.as_ref().map(|found| found.store_id);
        BlockFiles::of_damaged(self.disk.clone(), self.dir, id)
    }

    /// Gives what is whole of the log behind the checkpoint to `apply`.
    fn replay(
        &self,
        problems: &mut Vec<Error>,
        apply: impl FnMut(Record, u64, bool) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let superblock = self.superblock.as_ref();
        let from = superblock.map_or(self.log.start().unwrap_or(0), |found| found.log_start);
        let store_id = superblock.map(|found| found.store_id);
        self.log.replay(store_id, from, problems, apply)
    }
}

/// What is left of a table of any layout.
enum AnyRemains {
    Leaves(Box<TableRemains>),
    Blocks(BlockRemains),
}

impl AnyRemains {
    fn entry(&self) -> &TableEntry {
        match self {
            Self::Leaves(table) => &table.entry,
            Self::Blocks(table) => &table.entry,
        }
    }

    fn report(&self, rows: u64) -> SalvagedTable {
        match self {
            Self::Leaves(table) => table.report(rows),
            Self::Blocks(table) => table.report(rows),
        }
    }
}

/// The store that is being made.
struct Target<'t> {
    dir: &'t Path,
    recovery: Recovery<'t>,
    /// Where its log is to begin.
    log_end: u64,
}

impl<'t> Target<'t> {
    fn create(
        disk: &Arc<dyn Disk>,
        dir: &'t Path,
        source: &Source<'_>,
        lock: &mut StoreLock,
    ) -> Result<Self> {
        let options = Options::new();
        create_dir(&**disk, &dir.join(LOG_DIR))?;
        check_dirs(&**disk, dir)?;
        let store_id = draw_store_id(dir)?;
        let page_bytes = source.pages.page_bytes();
        let pages = options.cache_bytes / page_bytes;
        let file = begin_data_file(&**disk, dir, (page_bytes, pages / 2), lock)?;
        let meta = CheckpointMeta {
            log_start: 0,
            next_sequence: 0,
            catalogue: Catalogue::empty().encode(),
        };
        let working = WorkingPages::create(file, store_id, &meta, pages / 2)?;
        let blocks = BlockFiles::new(disk.clone(), dir, store_id, working.cache(), 1);
        let next_sequence = source.superblock.as_ref().map_or(0, |found| found.next_sequence);
        Ok(Self {
            dir,
            recovery: Recovery {
                path: dir,
                store_id,
                working,
                blocks,
                catalogue: Catalogue::empty(),
                generation: Generation::new(0, next_sequence),
                next_sequence,
                head_bytes: options.head_bytes,
                reserve: None,
                is_full: false,
                log: None,
                ahead: HashSet::new(),
            },
            log_end: 0,
        })
    }

    /// Copies the rows of every leaf and every block that is whole.
    fn copy_tables(&mut self, source: &Source<'_>, problems: &mut Vec<Error>) -> Result<Vec<AnyRemains>> {
        let mut sparse = source.sparse_remains();
        let mut tables = Vec::new();
        let mut of_id: HashMap<u32, usize> = HashMap::new();
        for entry in source.catalogue.iter().filter(|table| table.sparse.is_none()) {
            of_id.insert(entry.id.0, tables.len());
            tables.push(TableRemains::new(entry.clone(), source.is_catalogue_current));
        }
        source.pages.visit_pages(problems, |found| {
            let owner = indexed::owner_of(found.id, &found.page);
            let table = owner.and_then(|owner| of_id.get(&owner));
            if let Some(&table) = table {
                tables[table].visit(&found);
            }
            sparse.iter_mut().for_each(|table| table.visit(&found));
            Ok(())
        })?;
        let Recovery {
            working, catalogue, ..
        } = &mut self.recovery;
        *catalogue = source.catalogue.without_tables();
        for table in &mut tables {
            let root = table.copy(&source.pages, working, problems)?;
            catalogue.put(TableEntry {
                since: 1,
                root,
                rows: 0,
                end_sequence: table.entry.end_sequence.max(table.end_sequence),
                ..TableEntry::clone(&table.entry)
            });
        }
        let blocks = source.block_files();
        for table in &mut sparse {
            self.copy_blocks(table, &blocks, problems)?;
        }
        let mut all: Vec<AnyRemains> = tables.into_iter().map(Box::new).map(AnyRemains::Leaves).collect();
        all.extend(sparse.into_iter().map(AnyRemains::Blocks));
        all.sort_by_key(|remains| remains.entry().id);
        Ok(all)
    }

    /// Copies the rows of every whole block of a sparse table.
    fn copy_blocks(
        &mut self,
        table: &mut BlockRemains,
        source: &BlockFiles,
        problems: &mut Vec<Error>,
    ) -> Result<()> {
        let recovery = &mut self.recovery;
        let root = create_files(&recovery.working)?;
        let id = table.entry.id;
        recovery.catalogue.put(TableEntry {
            since: 1,
            root,
            rows: 0,
            sparse: table.entry.sparse.as_ref().map(SparseEntry::without_files),
            ..TableEntry::clone(&table.entry)
        });
        let schema = table.entry.schema.clone();
        table.copy(source, problems, |batch| {
            let rows = SortedBatch::new(&schema, batch.columns().to_vec())?;
            recovery.generation.append(id, rows.numbered(0)).merge_small();
            if recovery.generation.bytes() >= recovery.head_bytes {
                recovery.checkpoint(0)
            } else {
                Ok(())
            }
        })?;
        // What the log has is newer than any block, whatever the numbers of its rows.
        recovery.checkpoint(0)
    }

    fn apply_log(&mut self, source: &Source<'_>, problems: &mut Vec<Error>) -> Result<u64> {
        let blocks = source.block_files();
        let recovery = &mut self.recovery;
        let mut unreadable = Vec::new();
        let (records, end) = source.replay(problems, |record, end, is_vouched| {
            // Blocks that the log names are to be taken from the files of the damaged store.
            let Record::Blocks {
                table,
                first_sequence,
                rest,
                blocks: named,
            } = record
            else {
                return recovery.apply(record, end);
            };
            let known = recovery.catalogue.get(table).cloned();
            let numbers = (rest.len() + named.len()) as u64;
            let rest = Record::Append {
                table,
                first_sequence,
                rows: rest,
            };
            recovery.apply(rest, end)?;
            recovery.next_sequence = recovery.next_sequence.max(first_sequence.saturating_add(numbers));
            let Some((known, sparse)) = known
                .as_ref()
                .and_then(|known| Some((known, known.sparse.as_ref()?)))
            else {
                return Ok(());
            };
            // They count as later than all rows so far, whatever the numbers of their rows.
            recovery.checkpoint(end)?;
            for (block, named) in named {
                match blocks.rows_of(known, sparse, block, &named) {
                    Ok(batch) => {
                        let rows = SortedBatch::new(&known.schema, batch.columns().to_vec())?;
                        recovery.generation.append(table, rows.numbered(0));
                    }
                    Err(error) => unreadable.push(of_batch(error, is_vouched)),
                }
            }
            recovery.checkpoint(end)
        })?;
        problems.append(&mut unreadable);
        self.log_end = end;
        Ok(records)
    }

    /// Counts the rows of each table, and makes a store of it all.
    fn finish(mut self, disk: Arc<dyn Disk>) -> Result<Vec<u64>> {
        let recovery = &mut self.recovery;
        recovery.checkpoint(self.log_end)?;
        let mut rows = Vec::new();
        let tables: Vec<Arc<TableEntry>> = recovery.catalogue.iter().cloned().collect();
        for table in tables {
            recovery.next_sequence = recovery.next_sequence.max(table.end_sequence);
            if table.sparse.is_some() {
                rows.push(table.rows);
                continue;
            }
            let found = indexed::count(&recovery.working, &table, (Bound::Unbounded, Bound::Unbounded))?;
            rows.push(found);
            recovery.catalogue.put(TableEntry {
                rows: found,
                ..TableEntry::clone(&table)
            });
        }
        recovery.checkpoint(self.log_end)?;
        Log::begin(
            disk.clone(),
            self.dir.join(LOG_DIR),
            recovery.store_id,
            self.log_end,
        )?;
        finish_data_file(&*disk, self.dir)?;
        Ok(rows)
    }
}
