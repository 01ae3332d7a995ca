//! A checkpoint that a reader holds, and the log after it. Invariants: [`reading`](super::reading).

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::applying::Applying;
use super::names::LOG_DIR;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{
    Cache, CatalogueText, PageFile, PageVersion, Readers, Registration, Superblock, WorkingPages,
};
use crate::rows::Generation;
use crate::table::{BlockFiles, Catalogue};
use crate::wal::{Follower, Log, Record, check_end};

/// How often a reader begins again because the writer made a checkpoint meanwhile.
pub(super) const ATTEMPTS: usize = 10_000;

/// Blocks of sparse tables get one part in this many of the memory for pages.
const BLOCKS_SHARE: usize = 4;

/// How far a store that is open for reading was read.
#[derive(Debug)]
pub(super) struct Reading {
    /// The disk itself, for copies of the store.
    pub(super) disk: Arc<dyn Disk>,
    /// None if a lock keeps writers away.
    pub(super) readers: Option<Readers>,
    pub(super) state: Mutex<ReadingState>,
}

#[derive(Debug)]
pub(super) struct ReadingState {
    pub(super) superblock: Superblock,
    pub(super) follower: Follower,
    pub(super) next_sequence: u64,
    /// Sequence numbers that the log leaves out ([`reading`](super::reading), invariant 7).
    pub(super) left_out: Range<u64>,
    /// Records of the log that were read since the checkpoint.
    pub(super) records: u64,
    /// Up to where the log was synced ([`reading`](super::reading), invariant 6).
    pub(super) synced: u64,
    /// Whether a call that failed has shown something new, which the next one is to tell.
    pub(super) is_untold: bool,
}

/// A checkpoint, and what the log has after it.
pub(super) struct Loaded {
    pub(super) catalogue: Catalogue,
    pub(super) blocks: BlockFiles,
    pub(super) generation: Generation,
    pub(super) state: ReadingState,
}

/// An error, and the newest checkpoint after it.
pub(super) type Lasting = (String, u64);

/// Keeps an error that may be gone the next time, because the writer recycled what was read; fails
/// if it has another cause, or if it repeats without a checkpoint made in between
/// ([`reading`](super::reading), invariant 3).
pub(super) fn retry(error: Error, newest: Result<Superblock>, lasting: &mut Option<Lasting>) -> Result<()> {
    use std::io::ErrorKind::{NotFound, UnexpectedEof};
    let may_pass = match &error {
        Error::Corrupt { .. } | Error::Index(_) => true,
        Error::Io { source, .. } => matches!(source.kind(), NotFound | UnexpectedEof),
        _ => false,
    };
    let Ok(newest) = newest else {
        return Err(error);
    };
    let found = Some((error.to_string(), newest.checkpoint));
    if !may_pass || *lasting == found {
        return Err(error);
    }
    *lasting = found;
    Ok(())
}

pub(super) fn overtaken(dir: &Path) -> Error {
    let source = std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "its writer makes checkpoints faster than they can be read",
    );
    Error::io(dir, "read", source)
}

/// Holds the newest checkpoint ([`Readers`], rule 1).
pub(super) fn hold(
    readers: Option<&Readers>,
    dir: &Path,
    newest: impl Fn() -> Result<Superblock>,
) -> Result<(Superblock, Option<Registration>)> {
    for _ in 0..ATTEMPTS {
        let superblock = newest()?;
        let registration = readers
            .map(|readers| readers.register(superblock.checkpoint))
            .transpose()?;
        if newest()?.checkpoint == superblock.checkpoint {
            return Ok((superblock, registration));
        }
    }
    Err(overtaken(dir))
}

/// A store that is being opened for reading, or moved on.
pub(super) struct Opening<'a> {
    pub(super) disk: &'a Arc<dyn Disk>,
    pub(super) dir: &'a Path,
    pub(super) path: &'a Path,
    pub(super) options: &'a Options,
    pub(super) readers: Option<&'a Readers>,
}

impl Opening<'_> {
    pub(super) fn open(&self) -> Result<(WorkingPages, Loaded, Log)> {
        let mut lasting: Option<Lasting> = None;
        for _ in 0..ATTEMPTS {
            match self.try_open() {
                Ok(opened) => return Ok(opened),
                Err(error) => retry(error, self.newest(), &mut lasting)?,
            }
        }
        Err(overtaken(self.dir))
    }

    /// The newest superblock of the file that has the data file's name by now.
    fn newest(&self) -> Result<Superblock> {
        let file = self
            .disk
            .open(self.path)
            .map_err(|source| Error::io(self.path, "open", source))?;
        PageFile::read_superblock(self.path, &*file).map(|(superblock, _)| superblock)
    }

    fn try_open(&self) -> Result<(WorkingPages, Loaded, Log)> {
        let path = self.path;
        let file = self
            .disk
            .open(path)
            .map_err(|source| Error::io(path, "open", source))?;
        let newest = || PageFile::read_superblock(path, &*file).map(|(superblock, _)| superblock);
        let (superblock, registration) = hold(self.readers, self.dir, newest)?;
        let pages = self.options.cache_bytes / superblock.page_bytes as usize;
        let pages = pages - pages / BLOCKS_SHARE;
        let (working, text, damage) = WorkingPages::open(path.into(), file, &superblock, pages, 0)?;
        working.register(registration);
        if let Some(error) = damage {
            tracing::warn!(%error, "a copy of the catalogue is damaged");
        }
        let newest = || working.newest_superblock();
        let loaded = self.load(&working.published(), &text, superblock, newest)?;
        let log = Log::to_read(
            self.disk.clone(),
            self.dir.join(LOG_DIR),
            loaded.state.superblock.store_id,
            loaded.state.follower.position(),
        )?;
        Ok((working, loaded, log))
    }

    /// The tables of a checkpoint that is held, and what the log has after it.
    pub(super) fn load(
        &self,
        version: &Arc<PageVersion>,
        text: &CatalogueText,
        superblock: Superblock,
        newest: impl Fn() -> Result<Superblock>,
    ) -> Result<Loaded> {
        use bedload_pages::PageRead;
        let mut catalogue = Catalogue::decode(self.path, text, version.payload_len())?;
        catalogue.load_files(&**version, self.path)?;
        let cache = Cache::new(self.options.cache_bytes / BLOCKS_SHARE, 0);
        let (store_id, checkpoint) = (superblock.store_id, superblock.checkpoint);
        let blocks = BlockFiles::new(self.disk.clone(), self.dir, store_id, Arc::new(cache), checkpoint);
        let generation = Generation::new(superblock.log_start, superblock.next_sequence);
        let log_dir = self.dir.join(LOG_DIR);
        // Read before the log: what a writer notes there is in the log by then.
        let durable_to = version.log_end();
        let mut follower = Follower::new(self.disk.clone(), log_dir.clone(), store_id, superblock.log_start);
        let (mut next_sequence, mut left_out, mut records) = (superblock.next_sequence, 0..0, 0);
        let target = Target {
            path: self.path,
            superblock: &superblock,
            catalogue: &catalogue,
            blocks: &blocks,
            generation: &generation,
        };
        let mut follow = |follower: &mut Follower| {
            target.follow(follower, (&mut next_sequence, &mut left_out), &mut records)
        };
        loop {
            follow(&mut follower)?;
            if !follower.is_vouched_for()? {
                break;
            }
            // The record was whole before the one that vouches for it was written.
            let end = follower.position();
            follow(&mut follower)?;
            if follower.position() == end {
                return Err(follower.lost());
            }
        }
        check_end(&**self.disk, &log_dir, follower.position(), durable_to)?;
        if !left_out.is_empty() && newest()?.checkpoint != checkpoint {
            let reason = "a checkpoint was made while it was read";
            return Err(Error::corrupt(&log_dir, "the log", reason));
        }
        version.sync()?;
        let mut synced = superblock.log_start;
        target.sync(&follower, &mut synced)?;
        Ok(Loaded {
            catalogue,
            blocks,
            generation,
            state: ReadingState {
                superblock,
                follower,
                next_sequence,
                left_out,
                records,
                synced,
                is_untold: false,
            },
        })
    }
}

/// A checkpoint that is held, and the generation to which the log after it is applied.
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) superblock: &'a Superblock,
    pub(super) catalogue: &'a Catalogue,
    pub(super) blocks: &'a BlockFiles,
    pub(super) generation: &'a Generation,
}

impl Target<'_> {
    /// Makes what was read of the log durable, unless it was before.
    pub(super) fn sync(&self, follower: &Follower, synced: &mut u64) -> Result<()> {
        let position = follower.position();
        if position > *synced {
            self.blocks.sync_read()?;
            follower.sync()?;
            *synced = position;
        }
        Ok(())
    }

    /// Applies what there is of the log.
    pub(super) fn follow(
        &self,
        follower: &mut Follower,
        (next_sequence, left_out): (&mut u64, &mut Range<u64>),
        records: &mut u64,
    ) -> Result<()> {
        follower
            .read(|record, end| {
                if !self.may_take(&record)? {
                    return Ok(false);
                }
                let (mut next, mut numbers) = (*next_sequence, left_out.clone());
                let mut applying = Applying {
                    path: self.path,
                    catalogue: self.catalogue,
                    generation: self.generation,
                    next_sequence: &mut next,
                    left_out: &mut numbers,
                    log_start: self.superblock.log_start,
                    copied: None,
                };
                for part in record.into_parts() {
                    applying.take(part, end)?;
                }
                (*next_sequence, *left_out) = (next, numbers);
                *records += 1;
                Ok(true)
            })
            .map(drop)
    }

    /// Whether the blocks that a record names are held ([`reading`](super::reading), invariant 4) and whole.
    fn may_take(&self, record: &Record) -> Result<bool> {
        let Record::Blocks { table, blocks, .. } = record else {
            return Ok(true);
        };
        if blocks
            .iter()
            .any(|(_, block)| block.born > self.superblock.checkpoint)
        {
            return Ok(false);
        }
        match self.catalogue.get(*table) {
            Some(known) => known.has_whole_blocks(self.blocks, blocks),
            None => Ok(true),
        }
    }
}
