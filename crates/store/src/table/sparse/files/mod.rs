//! The files of sparse tables: names, handles, places. Format: docs/format.md, "Sparse tables".

mod blocks;
mod directory;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::block::{Header, Owner};
use super::block_file::BlockFile;
use super::places::{Allocated, Place, Places};
use super::table::SparseEntry;
use super::unwritten::Unwritten;
use super::write_helper::{Helper, WRITE_BYTES, sync_all};
use crate::disk::{Disk, read_around, sync_to_read};
use crate::error::{Error, Result};
use crate::pages::{Cache, CacheKey};
use crate::rows::BlockRef;
use crate::rows::TableEntry;

pub(crate) const SPARSE_DIR: &str = "sparse";
const EXTENSION: &str = "blocks";
/// The initial room of a buffer: what one call writes, and the block that goes beyond it.
const BUFFER_BYTES: usize = WRITE_BYTES + WRITE_BYTES / 4;
/// Buffers that are kept between writers, and how long the longest of them may have become.
const BUFFERS: usize = 8;
const BUFFER_BYTES_MAX: usize = 4 * WRITE_BYTES;
/// Threads that are kept for writers.
const HELPERS: usize = 2;
/// Files that are kept open.
const OPEN_FILES: usize = if cfg!(test) { 16 } else { 256 };
/// A writer keeps at most this many files open that it has still to sync, and so does a flush.
pub(super) const UNSYNCED_FILES: usize = if cfg!(any(test, fuzzing)) { 4 } else { 64 };

/// The files of all sparse tables of a store.
#[derive(Debug)]
pub(crate) struct BlockFiles {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    store: [u8; 8],
    cache: Arc<Cache>,
    /// Taken before `open`.
    places: Mutex<Places>,
    open: Mutex<OpenFiles>,
    pub(super) unwritten: Unwritten,
    /// Held while a file is created and its name made durable. Taken before all others.
    creating: Mutex<()>,
    /// Whether the file system has holes, once that was needed.
    pub(super) has_holes: OnceLock<bool>,
    /// Whether other processes may read blocks that no map of this one names: where data stands,
    /// nothing is written.
    is_shielded: AtomicBool,
    /// Whether blocks are written over where they stand, as no durable checkpoint names them.
    is_copy: bool,
    /// The checkpoint that the store was opened at.
    opened: u64,
    reads: AtomicU64,
    writes: AtomicU64,
}

#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<FileName, Arc<BlockFile>>,
    /// Tables whose directory is there.
    dirs: HashSet<u32>,
    /// Those of which the names of all files are durable.
    synced: HashSet<u32>,
    /// Files that the flush under way has written to.
    written: Vec<Arc<BlockFile>>,
    /// Files with blocks that recovery wrote again, until they are synced: the log names these
    /// whether a flush ends or not.
    renewed: Vec<Arc<BlockFile>>,
    /// Buffers of earlier writers: memory that was never touched costs more than copying into it.
    buffers: Vec<Vec<u8>>,
    /// Threads that help writers, and have nothing to do.
    helpers: Vec<Helper>,
}

/// Table and number.
type FileName = (u32, i64);

impl BlockFiles {
    /// The files of the store in `dir`, as of a checkpoint.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        store_id: [u8; 16],
        cache: Arc<Cache>,
        checkpoint: u64,
    ) -> Self {
        let [store, _] = store_id.as_chunks().0 else {
            unreachable!("16 bytes are twice 8")
        };
        Self {
            disk,
            dir: dir.join(SPARSE_DIR),
            store: *store,
            cache,
            places: Mutex::new(Places::new(checkpoint)),
            open: Mutex::default(),
            unwritten: Unwritten::default(),
            creating: Mutex::default(),
            has_holes: OnceLock::new(),
            is_shielded: AtomicBool::new(false),
            is_copy: false,
            opened: checkpoint,
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    /// For a copy of a store that is being made, which is no store before its last checkpoint: each
    /// block stays in layer 0.
    pub(crate) fn for_copy(mut self) -> Self {
        self.is_copy = true;
        self
    }

    /// The files of a damaged store; if its name is lost, it is that of the first block that is
    /// whole.
    pub(crate) fn of_damaged(disk: Arc<dyn Disk>, dir: &Path, store_id: Option<[u8; 16]>) -> Self {
        let cache = Arc::new(Cache::new(0, 0));
        let mut files = Self::new(disk, dir, store_id.unwrap_or_default(), cache, 0);
        if store_id.is_none() {
            files.store = files.find_store().unwrap_or_default();
        }
        files
    }

    fn find_store(&self) -> Option<[u8; 8]> {
        const STEP_BYTES: usize = 512;
        for (_, dir) in self.list_tables().ok()? {
            for (_, path) in self.list_files(&dir).ok()? {
                let Ok(file) = self.disk.open(&path) else { continue };
                let mut bytes = vec![0; usize::try_from(file.len().ok()?).ok()?.min(64 << 20)];
                read_around(&*file, 0, &mut bytes, |_, _| ());
                let places = (0..bytes.len()).step_by(STEP_BYTES);
                let whole = places.filter_map(|at| Header::of_whole(&bytes[at..]).ok());
                if let Some(header) = whole.into_iter().next() {
                    return Some(header.store);
                }
            }
        }
        None
    }

    /// Returns the mark that blocks of this store carry.
    pub(super) fn store(&self) -> [u8; 8] {
        self.store
    }

    fn table_dir(&self, table: u32) -> PathBuf {
        self.dir.join(table.to_string())
    }

    pub(super) fn path_of(&self, table: u32, file: i64) -> PathBuf {
        // With the sign inverted, names sort as numbers do.
        let number = file.cast_unsigned() ^ (1 << 63);
        self.table_dir(table).join(format!("{number:016x}.{EXTENSION}"))
    }

    /// A file that is there.
    pub(super) fn open(&self, table: u32, file: i64) -> Result<Arc<BlockFile>> {
        if let Some(open) = self.open.lock().files.get(&(table, file)) {
            return Ok(open.clone());
        }
        let path = self.path_of(table, file);
        let opened = self.disk.open(&path).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                Error::corrupt(&path, "the file", "it is missing")
            } else {
                Error::io(&path, "open", source)
            }
        })?;
        Ok(self.remember(table, file, BlockFile::new(path, opened)))
    }

    /// A file that is there, or is created now, with a name that is durable. A process that died
    /// may have left a file whose name is not.
    pub(super) fn open_or_create(&self, table: u32, file: i64) -> Result<Arc<BlockFile>> {
        if let Some(open) = self.open_synced(table, file) {
            return Ok(open);
        }
        let _creating = self.creating.lock();
        if let Some(open) = self.open_synced(table, file) {
            return Ok(open);
        }
        let path = self.path_of(table, file);
        let opened = match self.disk.open(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                self.create_dirs(table)?;
                self.open.lock().synced.remove(&table);
                self.disk
                    .create(&path)
                    .map_err(|source| Error::io(&path, "create", source))?
            }
            opened => opened.map_err(|source| Error::io(&path, "open", source))?,
        };
        if !self.open.lock().synced.contains(&table) {
            self.sync_dir(&self.table_dir(table))?;
            self.open.lock().synced.insert(table);
        }
        Ok(self.remember(table, file, BlockFile::new(path, opened)))
    }

    /// A file that is open, of a table all of whose names are durable.
    fn open_synced(&self, table: u32, file: i64) -> Option<Arc<BlockFile>> {
        let open = self.open.lock();
        let file = open.files.get(&(table, file))?;
        open.synced.contains(&table).then(|| file.clone())
    }

    fn remember(&self, table: u32, file: i64, opened: BlockFile) -> Arc<BlockFile> {
        let mut open = self.open.lock();
        if open.files.len() >= OPEN_FILES
            && let Some(&other) = open.files.keys().next()
        {
            open.files.remove(&other);
        }
        open.files
            .entry((table, file))
            .or_insert_with(|| Arc::new(opened))
            .clone()
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let names = self
            .disk
            .open_dir(dir)
            .map_err(|source| Error::io(dir, "open", source))?;
        names.sync().map_err(|source| Error::of_sync(dir, source))
    }

    fn create_dirs(&self, table: u32) -> Result<()> {
        if self.open.lock().dirs.contains(&table) {
            return Ok(());
        }
        let dir = self.table_dir(table);
        for dir in [&self.dir, &dir] {
            match self.disk.create_dir(dir) {
                Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io(dir, "create", source));
                }
                _ => self.sync_dir(dir.parent().unwrap_or(Path::new(".")))?,
            }
        }
        self.open.lock().dirs.insert(table);
        self.has_holes();
        Ok(())
    }

    /// Takes a place for a block, of which the newest map names `current`, within the flush under
    /// way.
    pub(super) fn allocate(&self, owner: Owner<'_>, block: i64, current: Option<u8>) -> Result<u8> {
        if self.is_copy {
            return Ok(0);
        }
        let mut places = self.places.lock();
        let layer = loop {
            let layer = places.allocate((owner.table, block), current);
            let layer = layer.ok_or_else(|| Error::NoSpace {
                path: self.path_of(owner.table, owner.shape.file_of(block).0),
                action: "find a place that no snapshot needs in",
            })?;
            if self.may_write(owner, block, layer)? {
                break layer;
            }
            places.shun((owner.table, block), layer);
        };
        drop(places);
        self.cache.remove(CacheKey::Block(owner.table, block, layer));
        Ok(layer)
    }

    /// As [`allocate`](Self::allocate), outside of any flush; `current` is what the map of
    /// checkpoint `number` names.
    pub(super) fn allocate_now(
        &self,
        owner: Owner<'_>,
        block: i64,
        current: Option<u8>,
        number: u64,
    ) -> Allocated {
        let mut places = self.places.lock();
        loop {
            let allocated = places.allocate_now((owner.table, block), current, number);
            if let Allocated::Layer(layer) = allocated {
                match self.may_write(owner, block, layer) {
                    Ok(true) => {}
                    // It stays taken.
                    Ok(false) => continue,
                    Err(error) => {
                        tracing::debug!(%error, "a block is not written at once");
                        places.free((owner.table, block), layer);
                        return Allocated::Full;
                    }
                }
                self.cache.remove(CacheKey::Block(owner.table, block, layer));
            }
            return allocated;
        }
    }

    /// Shields what stands in the files from being written over, until no other process holds a
    /// version from before the store was opened: which blocks those name is not known.
    pub(crate) fn shield(&self) {
        self.is_shielded.store(true, Ordering::Release);
    }

    /// Whether a place that no map of this process names may be written to. On a file system
    /// without holes all places up to the end of a shielded file hold data.
    fn may_write(&self, owner: Owner<'_>, block: i64, layer: u8) -> Result<bool> {
        if !self.is_shielded.load(Ordering::Acquire) {
            return Ok(true);
        }
        let path = self.path_of(owner.table, owner.shape.file_of(block).0);
        let begin = owner.shape.offset(block, layer);
        let end = begin + owner.shape.block_bytes() as u64;
        match self.disk.open(&path).and_then(|file| file.next_data(begin)) {
            Ok(data) => Ok(data.is_none_or(|data| data.start >= end)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(source) => Err(Error::io(&path, "read", source)),
        }
    }

    /// Takes the place of a block that the log names.
    pub(crate) fn take(&self, table: u32, block: i64, layer: u8) {
        self.places.lock().take((table, block), layer);
    }

    /// Gives up a place that [`take`](Self::take) took.
    pub(crate) fn give_up(&self, table: u32, block: i64, layer: u8) {
        self.places.lock().free((table, block), layer);
    }

    /// Whether these blocks of a table are whole; if they are, they are written once more, to be
    /// synced before a checkpoint names them. A block that the table cannot have is left to
    /// others.
    pub(crate) fn renew(
        &self,
        (table, sparse): (&TableEntry, &SparseEntry),
        blocks: &[(i64, BlockRef)],
    ) -> Result<bool> {
        let owner = sparse.owner(table.id, self.store);
        for (block, named) in blocks.iter().filter(|(_, named)| owner.shape.admits(named)) {
            let page = match self.read(owner, *block, named) {
                Ok(page) => page,
                Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            let file = self.open(owner.table, owner.shape.file_of(*block).0)?;
            file.write(owner.shape.offset(*block, named.layer), page.bytes())?;
            let mut open = self.open.lock();
            keep_once(&mut open.renewed, file);
            if open.renewed.len() > UNSYNCED_FILES {
                sync_all(&open.renewed)?;
                open.renewed.clear();
            }
        }
        Ok(true)
    }

    /// Whether these blocks of a table are whole, in a process that reads what another one writes;
    /// if they are, their files are to be synced ([`sync_read`](Self::sync_read)). A block that the
    /// table cannot have is left to others.
    pub(crate) fn are_whole(
        &self,
        (table, sparse): (&TableEntry, &SparseEntry),
        blocks: &[(i64, BlockRef)],
    ) -> Result<bool> {
        let owner = sparse.owner(table.id, self.store);
        for (block, named) in blocks.iter().filter(|(_, named)| owner.shape.admits(named)) {
            match self.read(owner, *block, named) {
                Ok(_) => {}
                Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            let file = self.open(owner.table, owner.shape.file_of(*block).0)?;
            let mut open = self.open.lock();
            keep_once(&mut open.written, file);
            if open.written.len() > UNSYNCED_FILES {
                drop(open);
                self.sync_read()?;
            }
        }
        Ok(true)
    }

    /// Makes the blocks durable that were found to be whole; on an error those that are left are
    /// synced the next time.
    pub(crate) fn sync_read(&self) -> Result<()> {
        let mut files = std::mem::take(&mut self.open.lock().written);
        while let Some(file) = files.last() {
            if let Err(source) = sync_to_read(&*file.file) {
                let error = Error::io(&file.path, "sync", source);
                self.open.lock().written.append(&mut files);
                return Err(error);
            }
            files.pop();
        }
        Ok(())
    }

    /// Gives up a place that [`allocate_now`](Self::allocate_now) took.
    pub(super) fn free(&self, owner: Owner<'_>, block: i64, layer: u8) {
        self.places.lock().free((owner.table, block), layer);
    }

    /// Takes note of files that the flush under way has written to; syncs them if they are many.
    pub(super) fn written(&self, mut files: Vec<Arc<BlockFile>>) -> Result<()> {
        let mut open = self.open.lock();
        open.written.append(&mut files);
        if open.written.len() <= UNSYNCED_FILES {
            return Ok(());
        }
        let written = std::mem::take(&mut open.written);
        drop(open);
        sync_all(&written)
    }

    /// Gives up a block that the map named, within the flush under way; whether the block `goes_on`
    /// elsewhere.
    pub(super) fn replace(&self, owner: Owner<'_>, block: i64, named: &BlockRef, goes_on: bool) {
        if self.is_copy && goes_on {
            return;
        }
        let place = Place::of(owner, block, named, goes_on);
        self.places.lock().replace(place, named.born);
    }

    /// Gives up a file all of whose blocks were replaced.
    pub(super) fn replace_file(&self, owner: Owner<'_>, file: i64) {
        self.places.lock().replace_file(owner, file);
    }

    /// Lets the map name a block that is written already, within the flush under way.
    pub(super) fn adopt(&self, owner: Owner<'_>, block: i64, named: &BlockRef) {
        if !self.is_copy {
            self.places.lock().adopt((owner.table, block), named.layer);
        }
    }

    /// Makes everything durable that the flush under way, and recovery, have written.
    pub(crate) fn sync(&self) -> Result<()> {
        let (written, renewed) = {
            let mut open = self.open.lock();
            (std::mem::take(&mut open.written), open.renewed.clone())
        };
        sync_all(&written)?;
        sync_all(&renewed)?;
        self.open.lock().renewed.clear();
        Ok(())
    }

    /// The flush failed, and no checkpoint names what it has written.
    pub(crate) fn roll_back(&self) {
        self.open.lock().written.clear();
        self.unwritten.roll_back();
        self.places.lock().roll_back();
    }

    /// The flush is part of this checkpoint, whose view is about to be published.
    pub(crate) fn before_publishing(&self, checkpoint: u64) {
        self.places.lock().before_publishing(checkpoint);
    }

    /// The checkpoint's view has been published: its map tells which places are in use.
    pub(crate) fn after_publishing(&self, checkpoint: u64) {
        self.places.lock().after_publishing(checkpoint);
        self.unwritten.settle();
    }

    /// Gives up what no view needs: `is_held(born, dead)` says whether one from `born` on and
    /// before `dead` is held, `is_live(table, file)` whether the newest checkpoint has a file. A
    /// failure costs space alone.
    pub(crate) fn release(&self, is_held: impl Fn(u64, u64) -> bool, is_live: impl Fn(u32, i64) -> bool) {
        if self.is_shielded.load(Ordering::Acquire) && !is_held(0, self.opened) {
            self.is_shielded.store(false, Ordering::Release);
        }
        self.unwritten.release(|dead| is_held(0, dead));
        let mut places = self.places.lock();
        let mut left = HashSet::new();
        let released = places.take_released(is_held, is_live, |table, file| {
            let path = self.path_of(table, file);
            let is_gone = self.disk.remove(&path).or_else(ignore_missing).is_ok();
            if is_gone {
                self.open.lock().files.remove(&(table, file));
                left.insert(table);
            }
            is_gone
        });
        for place in &released {
            self.cache
                .remove(CacheKey::Block(place.table, place.block, place.layer));
        }
        let given_back = places.keep(released);
        drop(places);
        left.into_iter().for_each(|table| self.remove_dir(table));
        self.punch(given_back);
    }

    /// Frees the space kept for rewriting blocks; returns whether there was any.
    pub(crate) fn give_back(&self) -> bool {
        let kept = self.places.lock().take_kept(0);
        let had_any = !kept.is_empty();
        self.punch(kept);
        had_any
    }

    /// Gives the space of places back and frees them.
    fn punch(&self, mut places: Vec<Place>) {
        // Neighbours are given back together.
        places.sort_unstable_by_key(|place| (place.table, place.file, place.offset));
        let mut holes: Vec<Place> = Vec::new();
        for place in &places {
            match holes.last_mut() {
                Some(hole)
                    if (hole.table, hole.file, hole.offset + hole.bytes)
                        == (place.table, place.file, place.offset) =>
                {
                    hole.bytes += place.bytes;
                }
                _ => holes.push(*place),
            }
        }
        for hole in holes {
            let punched = self.open(hole.table, hole.file).and_then(|file| {
                let punched = file.file.punch(hole.offset, hole.bytes);
                punched.map_err(|source| Error::io(&file.path, "punch a hole into", source))
            });
            if let Err(error) = punched {
                tracing::debug!(%error, "the space of blocks that are no longer needed is not given back");
            }
        }
        let mut state = self.places.lock();
        for place in places {
            state.free((place.table, place.block), place.layer);
        }
    }

    /// Forgets which places of a dropped table are in use: nothing is written there any more. Its
    /// blocks in memory stay for the views that are held.
    pub(crate) fn forget(&self, table: u32) {
        let mut places = self.places.lock();
        places.forget(table);
        self.unwritten.dropped(table, places.settled());
    }

    /// The length of the file of a block, if it can be opened.
    pub(super) fn file_len(&self, owner: Owner<'_>, block: i64) -> Option<u64> {
        let file = self.open(owner.table, owner.shape.file_of(block).0).ok()?;
        file.file.len().ok()
    }

    /// How many calls have read blocks, and how many blocks were written, since the store was
    /// opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.reads.load(Ordering::Relaxed),
            self.writes.load(Ordering::Relaxed),
        )
    }

    /// An empty buffer for blocks on their way to the disk.
    pub(super) fn take_buffer(&self) -> Vec<u8> {
        let kept = self.open.lock().buffers.pop();
        // One that grows block by block is copied many times.
        kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Keeps a buffer for the next writer, unless it has grown too long.
    pub(super) fn keep_buffer(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut open = self.open.lock();
        if (1..=BUFFER_BYTES_MAX).contains(&buffer.capacity()) && open.buffers.len() < BUFFERS {
            open.buffers.push(buffer);
        }
    }

    /// A thread to help a writer, if there is one to be had.
    pub(super) fn take_helper(&self) -> Option<Helper> {
        self.open.lock().helpers.pop().or_else(Helper::start)
    }

    /// Keeps the thread of a writer for the next one.
    pub(super) fn keep_helper(&self, helper: Helper) {
        let mut open = self.open.lock();
        if open.helpers.len() < HELPERS {
            open.helpers.push(helper);
        }
    }

    /// Counts a block that is written.
    pub(super) fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds a file to those to be synced, unless it was the last one.
fn keep_once(files: &mut Vec<Arc<BlockFile>>, file: Arc<BlockFile>) {
    if files.last().is_none_or(|last| !Arc::ptr_eq(last, &file)) {
        files.push(file);
    }
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(error)
    }
}
