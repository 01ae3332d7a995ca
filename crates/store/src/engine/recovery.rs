//! Recovery: the newest good superblock, and the log after it.
//!
//! 1. Both superblocks are read; the sound one with the greater checkpoint counts.
//! 2. Page map and catalogue are read; space that they do not name is free.
//! 3. The superblock is rewritten and synced before any space is allocated. If a reader in another
//!    process holds an earlier checkpoint, no free space is used until it lets go, because it is
//!    unknown which space that checkpoint names.
//! 4. The log is replayed from the checkpoint's start on into a generation, which is flushed
//!    whenever it fills the memory for rows, so a long log needs no more memory than a running
//!    store.
//! 5. The rules in docs/format.md, "Reading the log", decide where the log ends: a torn tail is
//!    dropped, anything else that is missing is damage.
//! 6. If there was anything in the log, or a copy of superblock or catalogue was not whole, a
//!    checkpoint is made. On a disk that is too full for it, even with the reserve, rows stay in
//!    memory and the store is opened to be read.
//! 7. A new segment begins at the log's end, and the first view is published.
//!
//! The bytes that recovery reads may have been written and never synced: by a process that was
//! killed between the two, or one whose sync failed. So it builds on nothing as it stands: it
//! writes and syncs the superblock again before any place is taken, and moves the log's rows to
//! pages, with a checkpoint of their own, before the store is open; then a new log begins.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bedload_pages::PageRead;

use super::applying::Applying;
use super::flush::flush_generation;
use super::names::{DATA_FILE, LOG_DIR, READERS_DIR};
use super::reserve::Reserve;
use crate::disk::{Disk, FileId};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{CheckpointError, CheckpointMeta, PageFile, Readers, WorkingPages};
use crate::rows::Generation;
use crate::table::{BlockFiles, Catalogue, Storage};
use crate::wal::{Record, check_end, replay};

/// A quarter of the page memory holds changed pages, the rest pages that were read.
const DIRTY_SHARE: usize = 4;

/// The state that recovery finds.
pub(super) struct Recovered {
    pub(super) store_id: [u8; 16],
    /// The data file.
    pub(super) data_id: FileId,
    pub(super) pages: WorkingPages,
    pub(super) blocks: Arc<BlockFiles>,
    pub(super) catalogue: Catalogue,
    /// Where the log ends; everything before is in pages.
    pub(super) log_end: u64,
    pub(super) next_sequence: u64,
    /// Rows that the disk had no space for: they stay in memory and in the log.
    pub(super) left: Option<Generation>,
}

/// Recovers the store in `dir`.
pub(super) fn recover(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: &Options,
    reserve: &Reserve,
) -> Result<Recovered> {
    let _span = tracing::debug_span!("recovery").entered();
    let (path, log_dir) = (&dir.join(DATA_FILE), &dir.join(LOG_DIR));
    let file = disk
        .open(path)
        .map_err(|source| Error::io(path, "open", source))?;
    let (superblock, damage) = PageFile::read_superblock(path, &*file)?;
    let durable_to = PageFile::read_log_end(&*file);
    let data_id = file
        .identity()
        .map_err(|source| Error::io(path, "read", source))?;
    let pages = options.cache_bytes / superblock.page_bytes as usize;
    let dirty = pages / DIRTY_SHARE;
    let (working, catalogue, damaged_copy) =
        WorkingPages::open(path.into(), file, &superblock, pages - dirty, dirty)?;
    if let Some(error) = &damaged_copy {
        tracing::warn!(%error, "a copy of the catalogue is damaged; a checkpoint replaces it");
    }
    working.renew_superblock(&superblock)?;
    let readers = Readers::new(disk.clone(), dir.join(READERS_DIR));
    readers.create();
    let is_read = working.watch_readers(readers, superblock.checkpoint)?;
    let blocks = BlockFiles::new(
        disk.clone(),
        dir,
        superblock.store_id,
        working.cache(),
        superblock.checkpoint,
    );
    if is_read {
        blocks.shield();
    }
    let mut catalogue = Catalogue::decode(path, &catalogue, working.payload_len())?;
    catalogue.load_files(&*working.published(), path)?;
    let next_sequence = superblock.next_sequence;
    let generation = Generation::new(superblock.log_start, next_sequence);
    let storage = (superblock.store_id, working, blocks);
    let mut recovery = Recovery {
        head_bytes: options.head_bytes,
        reserve: Some(reserve),
        is_read: false,
        log: Some((disk.clone(), log_dir.clone())),
        ..Recovery::new(path, storage, catalogue, (generation, next_sequence))
    };
    let end = replay(
        &**disk,
        log_dir,
        superblock.store_id,
        superblock.log_start..u64::MAX,
        |record, end, is_durable| {
            let is_durable = is_durable || end <= durable_to;
            if !is_durable && !recovery.renew_blocks(&record)? {
                return Ok(false);
            }
            recovery.apply(record, end).map(|()| true)
        },
    )?;
    tracing::debug!(records = end.records, torn = end.torn, "replayed the log");
    check_end(&**disk, log_dir, end.position, durable_to)?;
    recovery.give_up_ahead();
    recovery.is_read = true;
    // A damaged superblock belongs to an interrupted checkpoint: had that been completed, the log
    // that the other one needs would be gone. A new checkpoint overwrites it, and replaces a
    // damaged copy of the catalogue.
    let mut log_end = end.position;
    if end.position != superblock.log_start || damage.is_some() || damaged_copy.is_some() {
        // Without the log that it needs, the previous checkpoint is never taken for the newest.
        log_end = log_end.max(superblock.log_start + 1);
        recovery.checkpoint_or_keep(log_end)?;
    }
    let Recovery {
        store_id,
        working,
        blocks,
        catalogue,
        next_sequence,
        generation,
        is_full,
        ..
    } = recovery;
    if is_full {
        // Files that no map names yet may be those of blocks that the log names.
        return Ok(Recovered {
            store_id,
            data_id,
            pages: working,
            blocks: Arc::new(blocks),
            catalogue,
            log_end: end.position,
            next_sequence,
            left: Some(generation),
        });
    }
    // Files that nothing names: begun, or left by a crash before their removal. While readers hold
    // an earlier checkpoint, which may name them, they stay until the next opening.
    if !working.holds_version_in(0, working.published().number()) {
        blocks.remove_unknown(|table, file| catalogue.has_file(table, file))?;
    }
    Ok(Recovered {
        store_id,
        data_id,
        pages: working,
        blocks: Arc::new(blocks),
        catalogue,
        log_end,
        next_sequence,
        left: None,
    })
}

/// A recovery under way: pages as a checkpoint left them, to which the log is applied.
pub(super) struct Recovery<'p> {
    /// The data file, for messages.
    pub(super) path: &'p Path,
    pub(super) store_id: [u8; 16],
    pub(super) working: WorkingPages,
    pub(super) blocks: BlockFiles,
    pub(super) catalogue: Catalogue,
    pub(super) generation: Generation,
    pub(super) next_sequence: u64,
    /// Where the applied log begins.
    pub(super) log_start: u64,
    /// Where the last applied record ends.
    pub(super) position: u64,
    /// Bytes of memory that rows may take before they go to pages.
    pub(super) head_bytes: usize,
    /// The reserve, given back if the disk is full; `None` where a full disk is an error.
    pub(super) reserve: Option<&'p Reserve>,
    /// Whether the disk is full, and rows stay in memory.
    pub(super) is_full: bool,
    /// Whether the whole log was read.
    pub(super) is_read: bool,
    /// Whether rows of the log may have been copied from leaves already.
    pub(super) is_salvage: bool,
    /// The log that is replayed, until it was read [ahead](Self::read_ahead); none if it names no
    /// blocks of this store.
    pub(super) log: Option<(Arc<dyn Disk>, PathBuf)>,
    /// Table, number and layer of blocks that records name which are not applied yet.
    pub(super) ahead: HashSet<(u32, i64, u8)>,
}

impl<'p> Recovery<'p> {
    /// Pages and blocks of a checkpoint, and the generation and the next sequence number after it,
    /// as the log that begins where the generation does has them.
    pub(super) fn new(
        path: &'p Path,
        (store_id, working, blocks): ([u8; 16], WorkingPages, BlockFiles),
        catalogue: Catalogue,
        (generation, next_sequence): (Generation, u64),
    ) -> Self {
        let log_start = generation.log_start;
        Self {
            path,
            store_id,
            working,
            blocks,
            catalogue,
            generation,
            next_sequence,
            log_start,
            position: log_start,
            head_bytes: usize::MAX,
            reserve: None,
            is_full: false,
            is_read: true,
            is_salvage: false,
            log: None,
            ahead: HashSet::new(),
        }
    }

    /// Whether the blocks that a record names are whole. If so, they are written again, to be
    /// synced by the next checkpoint: they may never have been synced, or their sync may have
    /// failed.
    fn renew_blocks(&self, record: &Record) -> Result<bool> {
        let Record::Blocks { table, blocks, .. } = record else {
            return Ok(true);
        };
        match self.catalogue.get(*table) {
            Some(known) => known.renew_blocks(&self.blocks, blocks),
            None => Ok(true),
        }
    }

    /// Takes the places of all blocks that records from position `from` on name: a checkpoint
    /// before the end of the log may write blocks, and must not write them there.
    fn read_ahead(&mut self, from: u64) -> Result<()> {
        let Some((disk, dir)) = self.log.take() else {
            return Ok(());
        };
        replay(&*disk, &dir, self.store_id, from..u64::MAX, |record, _, _| {
            if let Record::Blocks { table, blocks, .. } = record {
                for (block, named) in blocks {
                    self.blocks.take(table.0, block, named.layer);
                    self.ahead.insert((table.0, block, named.layer));
                }
            }
            Ok(true)
        })
        .map(drop)
    }

    /// Gives up the places that were taken for records after the end of the log.
    fn give_up_ahead(&mut self) {
        for (table, block, layer) in self.ahead.drain() {
            self.blocks.give_up(table, block, layer);
        }
    }

    /// Applies a record that ends at position `end` of the log.
    ///
    /// # Errors
    ///
    /// The record cannot follow those before it, and nothing of it was applied; or the disk failed.
    pub(super) fn apply(&mut self, record: Record, end: u64) -> Result<()> {
        // A checkpoint whose log began at this record would apply the rows held back in it, and
        // have them in pages, too (`hold.rs`, rule 2). So none is made before such a record.
        let is_full = self.generation.bytes() >= self.head_bytes && !self.is_full;
        if is_full && !record.holds_back() {
            self.read_ahead(self.position)?;
            self.checkpoint_or_keep(self.position)?;
        }
        self.position = end;
        for part in record.into_parts() {
            self.take(part, end)?;
        }
        Ok(())
    }

    /// Adds what a record says to the generation.
    fn take(&mut self, record: Record, end: u64) -> Result<()> {
        if let Record::Blocks { table, blocks, .. } = &record
            && self.catalogue.get(*table).is_some()
        {
            for (block, written) in blocks {
                self.blocks.take(table.0, *block, written.layer);
                self.ahead.remove(&(table.0, *block, written.layer));
            }
        }
        Applying {
            path: self.path,
            catalogue: &self.catalogue,
            generation: &self.generation,
            next_sequence: &mut self.next_sequence,
            left_out: &mut (0..0),
            log_start: self.log_start,
            copied: self.is_salvage.then_some(&self.working),
        }
        .take(record, end)
    }

    /// As [`checkpoint`](Self::checkpoint). If the disk is full, and the reserve does not suffice,
    /// rows stay in memory.
    fn checkpoint_or_keep(&mut self, log_start: u64) -> Result<()> {
        let Some(reserve) = self.reserve else {
            return self.checkpoint(log_start);
        };
        let mut done = self.checkpoint(log_start);
        if matches!(done, Err(Error::NoSpace { .. })) && reserve.give_back() {
            done = self.checkpoint(log_start);
        }
        match done {
            Err(Error::NoSpace { .. }) => {
                self.is_full = true;
                Ok(())
            }
            done => done,
        }
    }

    /// Bounds the memory that a long log takes: rows replayed so far go to pages. On a full disk
    /// nothing changes.
    pub(super) fn checkpoint(&mut self, log_start: u64) -> Result<()> {
        let before = self.catalogue.clone();
        let done = self.try_checkpoint(log_start);
        if matches!(done, Err(Error::NoSpace { .. })) {
            self.working.roll_back();
            self.blocks.roll_back();
            self.catalogue = before;
        }
        done
    }

    fn try_checkpoint(&mut self, log_start: u64) -> Result<()> {
        let storage = Storage {
            pages: &self.working,
            blocks: &self.blocks,
        };
        // Later records may take back rows of the generation.
        let is_read = self.is_read;
        flush_generation(storage, &mut self.catalogue, &self.generation, |_| is_read)?;
        self.blocks.sync()?;
        let meta = CheckpointMeta {
            log_start,
            next_sequence: self.next_sequence,
            catalogue: self.catalogue.encode(),
        };
        match self.working.checkpoint(self.store_id, &meta) {
            Ok(version) => {
                let number = version.number();
                drop(version);
                self.blocks.before_publishing(number);
                self.blocks.after_publishing(number);
                let is_held = |born, dead| self.working.holds_version_in(born, dead);
                self.blocks
                    .release(is_held, |table, file| self.catalogue.has_file(table, file));
                self.generation = Generation::new(log_start, self.next_sequence);
                Ok(())
            }
            Err(CheckpointError::Clean(error) | CheckpointError::Unknown(error)) => Err(error),
        }
    }
}
