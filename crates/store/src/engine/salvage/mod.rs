//! Salvage: what is whole in a damaged store, copied into a new one.
//!
//! Each part is read by itself. Rows are taken from every whole leaf, even if the nodes above it
//! are damaged, because a leaf names its table. They keep their sequence numbers, so the whole
//! parts of the log are then applied as in recovery, without the rows that came from leaves: if the
//! superblock is lost, nothing tells which leaves belong to an unfinished flush, whose rows are
//! also in the log. The new store is begun and recovered like any other: until it is whole there is
//! no store.

mod doubled;
mod report;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

pub use report::SalvageReport;

use self::doubled::remove_doubled;
use super::applying::OUT_OF_NUMBERS;
use super::directory::{
    begin_data_file, check_dirs, check_vacant, create_dir, draw_id, entries, finish_data_file, lock_vacant,
};
use super::lock::StoreLock;
use super::names::{DATA_FILE, LOG_DIR};
use super::recovery::Recovery;
use super::verify::Problem;
use crate::disk::{Disk, ReadingDisk};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{COUNTER_MAX, CheckpointMeta, PageFile, Remains, Standing, Superblock, WorkingPages};
use crate::rows::{BatchRows, Generation, SortedBatch};
use crate::table::{BlockFiles, Catalogue, Layout, StoredTable, TableRemains, owner_of};
use crate::wal::{Log, LogRemains, Record};

/// Lists all damage in a store, which need not be fit to be opened.
pub(crate) fn inspect(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Vec<Problem>> {
    let disk: Arc<dyn Disk> = Arc::new(ReadingDisk::new(disk.clone()));
    let _lock = lock_source(&*disk, dir)?;
    let mut problems = Vec::new();
    match Source::find(&disk, dir, &mut problems) {
        Ok(source) => {
            let tables = source.remains(&mut problems)?;
            let blocks = source.block_files();
            tables
                .iter()
                .for_each(|table| table.check_blocks(&blocks, &mut problems));
            let mut unreadable = Vec::new();
            source.replay(&mut problems, |record, _, is_vouched| {
                if let Record::Blocks {
                    table, blocks: named, ..
                } = record
                    && let Some(known) = source.catalogue.get(table)
                {
                    let rows = named
                        .iter()
                        .map(|(block, named)| known.block_rows(&blocks, *block, named));
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

/// Describes damage of a block that the log names, and whether something shows that its batch had
/// been durable. If not, a batch that was cut off by power loss looks the same.
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
    let source_disk: Arc<dyn Disk> = Arc::new(ReadingDisk::new(disk.clone()));
    let _from_lock = lock_source(&*source_disk, from)?;
    check_vacant(&*disk, to)?;
    let mut problems = Vec::new();
    let source = Source::find(&source_disk, from, &mut problems)?;

    let mut to_lock = lock_vacant(&*disk, to, from)?;
    let mut target = Target::create(&disk, to, &source, &mut to_lock)?;
    let tables = target.copy_tables(&source, &mut problems)?;
    let log_records = target.apply_log(&source, &mut problems)?;
    let rows = target.finish(disk, !problems.is_empty())?;

    let mut report = SalvageReport::new(problems, log_records);
    for (remains, rows) in tables.iter().zip(rows) {
        report.tables.push(remains.report(rows));
    }
    Ok(report)
}

/// Locks writers out of an existing store.
fn lock_source(disk: &dyn Disk, dir: &Path) -> Result<StoreLock> {
    let data = dir.join(DATA_FILE);
    match entries(disk, dir)? {
        Some(entries) if entries.contains(&data) => {
            let lock = StoreLock::shared(disk, dir, &data)?;
            check_dirs(disk, dir)?;
            Ok(lock)
        }
        found => {
            let missing = found.map_or("it does not exist", |_| "there is no data file in it");
            Err(Error::NotAStore {
                path: dir.into(),
                reason: missing.into(),
            })
        }
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
    /// Up to where the log had been durable, as far as is known.
    log_end: u64,
}

impl<'d> Source<'d> {
    fn find(disk: &'d Arc<dyn Disk>, dir: &'d Path, problems: &mut Vec<Error>) -> Result<Self> {
        let data = dir.join(DATA_FILE);
        let found = LogRemains::find(&**disk, &dir.join(LOG_DIR), problems);
        let log = found.unwrap_or_else(|error| {
            problems.push(error);
            LogRemains::none(&**disk, &dir.join(LOG_DIR))
        });
        let file = disk
            .open(&data)
            .map_err(|source| Error::io(&data, "open", source))?;
        let log_end = PageFile::read_log_end(&*file);
        let superblock = match PageFile::read_superblock(&data, &*file) {
            // A damaged superblock belongs to an interrupted checkpoint, and nothing is missing,
            // unless the log that the other one needs is gone: then there was a newer checkpoint,
            // and the pages of the other one are overwritten.
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
            log_end,
        })
    }
}

impl Source<'_> {
    /// The remains of each table, in the order in which the tables were created.
    fn remains(&self, problems: &mut Vec<Error>) -> Result<Vec<TableRemains>> {
        let tables = self.catalogue.iter();
        let numbers: HashMap<u32, usize> = tables.map(|table| table.entry.id.0).zip(0..).collect();
        let tables = self.catalogue.iter();
        let mut tables: Vec<_> = tables
            .map(|table| TableRemains::new(table, self.is_catalogue_current))
            .collect();
        let mut are_current = true;
        self.pages.visit_pages(problems, |found| {
            let owner = owner_of(found.id, &found.page);
            if let Some(&number) = owner.and_then(|owner| numbers.get(&owner)) {
                are_current &= found.standing != Standing::Newest;
                tables[number].visit(&found);
            }
            Ok(())
        })?;
        if !are_current {
            let reason = "it does not tell which pages are those of the last checkpoint: rows that were \
                          deleted or replaced may be among those that were found";
            let data = self.dir.join(DATA_FILE);
            problems.push(Error::corrupt(&data, "the page map", reason));
        }
        Ok(tables)
    }

    /// The files of its sparse tables.
    fn block_files(&self) -> BlockFiles {
        let id = self.superblock.as_ref().map(|found| found.store_id);
        BlockFiles::of_damaged(self.disk.clone(), self.dir, id)
    }

    /// Where the log to be read begins.
    fn log_start(&self) -> u64 {
        let superblock = self.superblock.as_ref();
        superblock.map_or(self.log.start().unwrap_or(0), |found| found.log_start)
    }

    /// Gives the intact records after the checkpoint to `apply`.
    fn replay(
        &self,
        problems: &mut Vec<Error>,
        apply: impl FnMut(Record, u64, bool) -> Result<()>,
    ) -> Result<u64> {
        let superblock = self.superblock.as_ref();
        let positions = (self.log_start(), self.log_end);
        let store_id = superblock.map(|found| found.store_id);
        self.log.replay(store_id, positions, problems, apply)
    }
}

/// Where the log of the store that is being made begins: at the beginning, wherever the other one
/// says that it ended.
const LOG_START: u64 = 0;

/// The store that is being made.
struct Target<'t> {
    dir: &'t Path,
    recovery: Recovery<'t>,
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
        let store_id = draw_id(dir)?;
        let page_bytes = source.pages.page_bytes();
        let pages = options.cache_bytes / page_bytes;
        let file = begin_data_file(&**disk, dir, (page_bytes, pages / 2), lock)?;
        let meta = CheckpointMeta {
            log_start: LOG_START,
            next_sequence: 0,
            catalogue: Catalogue::empty().encode(),
        };
        let working = WorkingPages::create(file, store_id, &meta, pages / 2)?;
        let blocks = BlockFiles::new(disk.clone(), dir, store_id, working.cache(), 1);
        let next_sequence = source.superblock.as_ref().map_or(0, |found| found.next_sequence);
        let next = (Generation::new(0, next_sequence), next_sequence);
        Ok(Self {
            dir,
            recovery: Recovery {
                log_start: source.log_start(),
                position: source.log_start(),
                head_bytes: options.head_bytes,
                is_read: false,
                is_salvage: true,
                ..Recovery::new(dir, (store_id, working, blocks), Catalogue::empty(), next)
            },
        })
    }

    /// Copies the rows of every leaf and every block that is whole.
    fn copy_tables(&mut self, source: &Source<'_>, problems: &mut Vec<Error>) -> Result<Vec<TableRemains>> {
        let mut tables = source.remains(problems)?;
        let recovery = &mut self.recovery;
        recovery.catalogue = source.catalogue.without_tables();
        for table in &mut tables {
            let begun = table.begin(&source.pages, &recovery.working, problems)?;
            recovery.catalogue.put(begun);
        }
        let blocks = source.block_files();
        for (table, known) in tables.iter_mut().zip(source.catalogue.iter()) {
            table.copy_blocks(&blocks, problems, |rows| {
                recovery.generation.append(known.entry.id, rows).merge_small();
                if recovery.generation.bytes() >= recovery.head_bytes {
                    recovery.checkpoint(LOG_START)
                } else {
                    Ok(())
                }
            })?;
        }
        // Rows of the log are newer than any block, whatever their numbers.
        recovery.checkpoint(LOG_START)?;
        Ok(tables)
    }

    fn apply_log(&mut self, source: &Source<'_>, problems: &mut Vec<Error>) -> Result<u64> {
        let blocks = source.block_files();
        let recovery = &mut self.recovery;
        let mut unreadable = Vec::new();
        let records = source.replay(problems, |record, end, is_vouched| {
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
            let next = first_sequence.saturating_add(numbers);
            if next > COUNTER_MAX {
                let place = format!("the log before position {end}");
                return Err(Error::corrupt(recovery.path, place, OUT_OF_NUMBERS));
            }
            let rest = Record::Append {
                table,
                first_sequence,
                rows: BatchRows::Plain(rest),
            };
            recovery.apply(rest, end)?;
            recovery.next_sequence = recovery.next_sequence.max(next);
            let Some(known) = known.filter(|known| known.layout() != Layout::Indexed) else {
                return Ok(());
            };
            // They count as later than all rows so far, whatever the numbers of their rows.
            recovery.checkpoint(LOG_START)?;
            for (block, named) in named {
                match known.block_rows(&blocks, block, &named) {
                    Ok(None) => {}
                    Ok(Some(batch)) => {
                        let rows = SortedBatch::new(&known.entry.schema, batch.columns().to_vec())?;
                        recovery.generation.append(table, rows.numbered(0));
                    }
                    Err(error) => unreadable.push(of_batch(error, is_vouched)),
                }
            }
            recovery.checkpoint(LOG_START)
        })?;
        problems.append(&mut unreadable);
        Ok(records)
    }

    /// Counts the rows of each table, and completes the store.
    fn finish(mut self, disk: Arc<dyn Disk>, is_damaged: bool) -> Result<Vec<u64>> {
        let recovery = &mut self.recovery;
        recovery.checkpoint(LOG_START)?;
        if is_damaged {
            remove_doubled(recovery)?;
        }
        let mut rows = Vec::new();
        let tables: Vec<Arc<StoredTable>> = recovery.catalogue.iter().cloned().collect();
        for table in tables {
            let mut table = StoredTable::clone(&table);
            recovery.next_sequence = recovery.next_sequence.max(table.entry.end_sequence);
            let counted = table.count(&recovery.working, (Bound::Unbounded, Bound::Unbounded))?;
            table.entry.rows = counted.unwrap_or(table.entry.rows);
            rows.push(table.entry.rows);
            recovery.catalogue.put(table);
        }
        recovery.checkpoint(LOG_START)?;
        Log::begin(disk.clone(), self.dir.join(LOG_DIR), recovery.store_id, LOG_START)?;
        finish_data_file(&*disk, self.dir)?;
        Ok(rows)
    }
}
