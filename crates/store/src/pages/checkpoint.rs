//! Checkpoints: making the working pages durable, and opening a file at its last one.
//!
//! A checkpoint takes these steps:
//!
//! 1. Retired pages are forgotten: their ids and places become free.
//! 2. Dirty pages are written to free places, sealed with their checksums.
//! 3. The changed parts of the catalogue are written, then its directory, each as a chain of pages,
//!    the last one first.
//! 4. The changed leaves of the page map are written, then the levels above them, up to the root.
//! 5. The data file is synced.
//! 6. The superblock goes to the slot that does not hold the last one, and the file is synced
//!    again. Now the checkpoint counts.
//! 7. Replaced places wait until no version from before it is held, here or by a reader in another
//!    process, then they are free. The new version is published.
//!
//! A full disk in steps 2 to 4 leaves the last checkpoint as it was: what was written is freed, and
//! the engine rolls back. After any other failure it is unknown what the disk holds, and the engine
//! takes no more writes.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bedload_pages::{PageId, PageStore};

use super::catalogue_pages::{
    CatalogueText, ReadCatalogue, WrittenParts, check_catalogue, read_catalogue, write_catalogue,
};
use super::extents::Extent;
use super::page::{HEADER_BYTES, PageKind};
use super::page_file::PageFile;
use super::page_map::{PageMap, SLOT_BYTES, Slot, decode_slots, encode_slots};
use super::readers::{Readers, Registration};
use super::space::Space;
use super::superblock::Superblock;
use super::version::PageVersion;
use super::working::WorkingPages;
use crate::disk::DiskFile;
use crate::error::{Error, Result};

/// The parts of a checkpoint besides pages.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointMeta {
    /// Log records before this position are contained in the checkpoint.
    pub(crate) log_start: u64,
    /// The first sequence number not given out.
    pub(crate) next_sequence: u64,
    /// The catalogue, encoded.
    pub(crate) catalogue: CatalogueText,
}

/// Why a checkpoint failed.
#[derive(Debug)]
pub(crate) enum CheckpointError {
    /// Nothing the last checkpoint names was touched, and the disk's answer was definite: roll back
    /// and go on.
    Clean(Error),
    /// It is unknown what reached the disk. Nothing more may be written through this handle.
    Unknown(Error),
}

impl WorkingPages {
    /// Writes a new data file's first checkpoint, which has no pages.
    pub(crate) fn create(
        file: PageFile,
        store_id: [u8; 16],
        meta: &CheckpointMeta,
        dirty_limit: usize,
    ) -> Result<Self> {
        let file = Arc::new(file);
        let map = PageMap::new(slots_per_page(&file));
        *file.space.lock() = Space::of_used(&[]);
        let empty = Arc::new(PageVersion::new(0, map, file.clone()));
        let working = Self::from_version(empty, file, (Vec::new(), WrittenParts::new()), 1, dirty_limit);
        match working.checkpoint(store_id, meta) {
            Ok(_) => Ok(working),
            Err(CheckpointError::Clean(error) | CheckpointError::Unknown(error)) => Err(error),
        }
    }

    /// Opens a data file at its last checkpoint; returns the catalogue beside the pages, and what
    /// is wrong with the other one of its two copies, if anything is.
    pub(crate) fn open(
        path: PathBuf,
        file: Box<dyn DiskFile>,
        superblock: &Superblock,
        cache_pages: usize,
        dirty_limit: usize,
    ) -> Result<(Self, CatalogueText, Option<Error>)> {
        let page_bytes = superblock.page_bytes as usize;
        let file = Arc::new(PageFile::new(path, file, page_bytes, cache_pages));
        let ReadCheckpoint {
            map,
            used,
            fixtures,
            catalogue,
        } = ReadCheckpoint::read(&file, superblock)?;
        *file.space.lock() = Space::of_used(&used);
        let version = Arc::new(PageVersion::new(superblock.checkpoint, map, file.clone()));
        let fixtures = (fixtures, catalogue.written);
        let working = Self::from_version(version, file, fixtures, superblock.next_generation, dirty_limit);
        let working = working.of_copy(superblock.copy_id);
        Ok((working, catalogue.text, catalogue.damage))
    }

    /// Takes note of readers in other processes from now on. Nothing may have been written yet
    /// since the pages were opened at `checkpoint`. Whether there are readers of earlier
    /// checkpoints.
    pub(crate) fn watch_readers(&self, readers: Readers, checkpoint: u64) -> Result<bool> {
        let _ = self.file.readers.set(readers);
        self.file.note_readers();
        let places = self.file.places()?;
        Ok(self.file.space.lock().shield(checkpoint, places))
    }

    /// Lets the registration of a reader last as long as the pages of the checkpoint that they were
    /// opened at. Asked before these are handed out.
    pub(crate) fn register(&self, registration: Option<Registration>) {
        let mut state = self.state.lock();
        if let Some(version) = Arc::get_mut(&mut state.published) {
            version.registration = registration;
        }
    }

    /// Goes on to a later checkpoint, which another process has made; returns the catalogue beside
    /// the pages. The cache is kept, but for pages that are not those of the checkpoint before.
    pub(crate) fn move_to(
        &self,
        superblock: &Superblock,
        registration: Option<Registration>,
    ) -> Result<(Arc<PageVersion>, CatalogueText)> {
        let file = &self.file;
        let read = ReadCheckpoint::read(file, superblock)?;
        let mut state = self.state.lock();
        let before = &state.published.map;
        let is_new = |&(id, slot): &(PageId, Slot)| before.get(id) != Some(slot);
        for (_, slot) in read.map.iter().filter(is_new) {
            file.cache.remove(slot.page);
        }
        *file.space.lock() = Space::of_used(&read.used);
        let mut version = PageVersion::new(superblock.checkpoint, read.map, file.clone());
        version.registration = registration;
        let version = Arc::new(version);
        let before = std::mem::replace(&mut state.published, version.clone());
        drop(state);
        drop(before);
        Ok((version, read.catalogue.text))
    }

    /// Returns the damage of the page map and the catalogue of a checkpoint that is held.
    pub(crate) fn check_fixtures_of(&self, superblock: &Superblock) -> Vec<Error> {
        let map = read_map(&self.file, superblock, &mut Vec::new()).err();
        let catalogue = check_catalogue(&self.file, superblock);
        map.into_iter().chain(catalogue).collect()
    }

    /// The superblock of the newest checkpoint that was completed.
    pub(crate) fn newest_superblock(&self) -> Result<Superblock> {
        let read = PageFile::read_superblock(self.file.path(), &*self.file.file);
        read.map(|(superblock, _)| superblock)
    }

    /// Reads superblocks, page map and catalogue from the disk once more; returns what is wrong
    /// with them. No checkpoint may be under way.
    pub(crate) fn check_fixtures(&self) -> Vec<Error> {
        let (superblock, damage) = match PageFile::read_superblock(self.file.path(), &*self.file.file) {
            Ok(read) => read,
            Err(error) => return vec![error],
        };
        damage
            .into_iter()
            .chain(self.check_fixtures_of(&superblock))
            .collect()
    }

    /// Makes everything durable and publishes it as a version. No batch, guard or writer may be
    /// alive.
    pub(crate) fn checkpoint(
        &self,
        store_id: [u8; 16],
        meta: &CheckpointMeta,
    ) -> Result<Arc<PageVersion>, CheckpointError> {
        self.reclaim()
            .map_err(|error| CheckpointError::Unknown(error.into()))?;
        let mut state = self.state.lock();
        let state = &mut *state;
        let checkpoint = state.published.number() + 1;
        let (mut fixtures, mut begun) = (Vec::new(), Vec::new());
        let mut prepare = || -> Result<(Superblock, WrittenParts)> {
            state.spill(&self.file, 0)?;
            let places = (&mut begun, &mut fixtures);
            let text = &meta.catalogue;
            let (parts, directory) = write_catalogue(&self.file, text, &state.parts, checkpoint, places)?;
            let map_levels = write_map(&self.file, &mut state.map, checkpoint, &mut fixtures)?;
            let (map_root, map_levels) = map_levels;
            let superblock = Superblock {
                store_id,
                page_bytes: count(self.file.page_bytes),
                checkpoint,
                log_start: meta.log_start,
                next_sequence: meta.next_sequence,
                next_generation: self.generation.load(Ordering::Relaxed),
                map_root,
                map_levels,
                map_leaves: count(state.map.leaves()),
                catalogue: directory.first[0],
                catalogue_bytes: directory.bytes,
                catalogue_copy: directory.first[1],
                copy_id: self.copy_id(),
            };
            Ok((superblock, parts))
        };
        let (superblock, parts) = match prepare() {
            Ok(prepared) => prepared,
            Err(error) => {
                // Map leaves written for nothing are found in the map alone.
                let kept: Vec<_> = state.published.map.written().collect();
                let lost = state.map.written().enumerate();
                let lost = lost.filter(|(leaf, slot)| kept.get(*leaf) != Some(slot));
                let lost: Vec<u32> = lost.filter_map(|(_, slot)| slot.map(|slot| slot.page)).collect();
                let lost = lost.into_iter().chain(fixtures).chain(begun);
                self.file.free(lost.map(Extent::one));
                return Err(match error {
                    Error::NoSpace { .. } => CheckpointError::Clean(error),
                    other => CheckpointError::Unknown(other),
                });
            }
        };
        self.file.sync().map_err(CheckpointError::Unknown)?;
        self.file
            .write_superblock(&superblock)
            .map_err(CheckpointError::Unknown)?;
        self.file.note_readers();

        let mut replaced = std::mem::take(&mut state.replaced);
        let now = state.map.written().chain(std::iter::repeat(None));
        let moved = state
            .published
            .map
            .written()
            .zip(now)
            .filter(|(before, now)| before != now);
        replaced.extend(moved.filter_map(|(before, _)| before.map(Slot::extent)));
        replaced.extend(state.fixtures.drain(..).map(Extent::one));
        state.fixtures = fixtures;
        let kept: HashSet<u32> = parts.values().flat_map(|part| &part.places).copied().collect();
        let before = std::mem::replace(&mut state.parts, parts);
        let places = before.into_values().flat_map(|part| part.places);
        replaced.extend(places.filter(|place| !kept.contains(place)).map(Extent::one));
        state.private.clear();
        self.file.space.lock().wait(checkpoint, replaced);
        state.published = Arc::new(PageVersion::new(checkpoint, state.map.clone(), self.file.clone()));
        self.file.free_released();
        Ok(state.published.clone())
    }
}

/// A checkpoint as it is read from the disk.
struct ReadCheckpoint {
    map: PageMap,
    /// Every place that it names, ascending.
    used: Vec<Extent>,
    /// Those of them that have the catalogue's directory and the upper levels of the map.
    fixtures: Vec<u32>,
    catalogue: ReadCatalogue,
}

impl ReadCheckpoint {
    fn read(file: &PageFile, superblock: &Superblock) -> Result<Self> {
        let mut fixtures = Vec::new();
        let (map, leaves) = read_map(file, superblock, &mut fixtures)?;
        // Places are given out and freed by these lengths, of pages that are never read, too.
        if let Some((id, slot)) = map.iter().find(|(_, slot)| !file.may_take(slot.places)) {
            let place = format!("the page map of checkpoint {}", superblock.checkpoint);
            let reason = format!("page {id} is said to take {} places", slot.places);
            return Err(Error::corrupt(file.path(), place, reason));
        }
        let catalogue = read_catalogue(file, superblock, &mut fixtures)?;
        let parts = catalogue.written.values().flat_map(|part| &part.places);
        let single = leaves.iter().chain(parts).chain(&fixtures);
        let mut used: Vec<Extent> = single.copied().map(Extent::one).collect();
        used.extend(map.iter().map(|(_, slot)| slot.extent()));
        used.sort_unstable();
        if let Some(twice) = used.windows(2).find(|pair| pair[0].end() > pair[1].first) {
            return Err(named_twice(file, superblock, twice[1].first));
        }
        Ok(Self {
            map,
            used,
            fixtures,
            catalogue,
        })
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("counted in pages, or bounded by the caller")
}

pub(super) fn slots_per_page(file: &PageFile) -> usize {
    (file.page_bytes - HEADER_BYTES) / SLOT_BYTES
}

/// Writes the leaves of the map that changed, and all levels above them; returns the root and how
/// many levels stand above the leaves. A map without leaves has a root without slots.
pub(super) fn write_map(
    file: &PageFile,
    map: &mut PageMap,
    checkpoint: u64,
    fixtures: &mut Vec<u32>,
) -> Result<(Slot, u32)> {
    let changed: Vec<usize> = map
        .written()
        .enumerate()
        .filter(|(_, slot)| slot.is_none())
        .map(|(leaf, _)| leaf)
        .collect();
    let slots = file.write_payloads(PageKind::Map, changed.len(), checkpoint, |i, payload| {
        map.encode_leaf(changed[i], payload);
    })?;
    for (&leaf, &slot) in changed.iter().zip(&slots) {
        map.set_written(leaf, slot);
    }
    let mut level: Vec<Slot> = map.written().flatten().collect();
    let mut levels = 0;
    while levels == 0 || level.len() > 1 {
        let groups: Vec<&[Slot]> = level.chunks(slots_per_page(file)).collect();
        level = file.write_payloads(PageKind::Map, groups.len().max(1), checkpoint, |i, payload| {
            encode_slots(groups.get(i).copied().unwrap_or_default(), payload);
        })?;
        fixtures.extend(level.iter().map(|slot| slot.page));
        levels += 1;
    }
    Ok((level[0], levels))
}

/// How many slots there are below each level above the leaves, from the root on.
pub(super) fn levels_of_map(file: &PageFile, superblock: &Superblock) -> impl Iterator<Item = usize> + use<> {
    let mut below = vec![superblock.map_leaves as usize];
    while below.len() < superblock.map_levels as usize && below.len() < 8 {
        below.push(below[below.len() - 1].div_ceil(slots_per_page(file)));
    }
    below.into_iter().rev()
}

/// Reads the map; returns it with the places of its leaves. Those of the levels above go to
/// `fixtures`.
pub(super) fn read_map(
    file: &PageFile,
    superblock: &Superblock,
    fixtures: &mut Vec<u32>,
) -> Result<(PageMap, Vec<u32>)> {
    // A map that repeats pages could name more than the file has.
    let mut seen = HashSet::new();
    let mut read = |slot: Slot| {
        if seen.insert(slot.page) {
            file.read(slot, PageKind::Map, 0)
        } else {
            Err(named_twice(file, superblock, slot.page))
        }
    };
    let mut level = vec![superblock.map_root];
    for slots in levels_of_map(file, superblock) {
        let mut below = Vec::new();
        for slot in &level {
            let page = read(*slot)?;
            below.extend(decode_slots(page.payload()).take(slots - below.len()));
            fixtures.push(slot.page);
        }
        level = below;
    }
    if level.len() < superblock.map_leaves as usize {
        let place = format!("the page map of checkpoint {}", superblock.checkpoint);
        let reason = format!("it has {} leaves of {}", level.len(), superblock.map_leaves);
        return Err(Error::corrupt(file.path(), place, reason));
    }
    let mut map = PageMap::new(slots_per_page(file));
    for &slot in &level {
        map.push_decoded(read(slot)?.payload(), slot);
    }
    Ok((map, level.iter().map(|slot| slot.page).collect()))
}

/// The error of a place that two slots of a page map name.
pub(super) fn named_twice(file: &PageFile, superblock: &Superblock, page: u32) -> Error {
    let place = format!("the page map of checkpoint {}", superblock.checkpoint);
    Error::corrupt(file.path(), place, format!("two pages claim place {page}"))
}
