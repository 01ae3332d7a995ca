//! Reads the intact parts of a damaged data file.
//!
//! The page map says which page stands where. Where a part of the map is lost, or what stands at a
//! page's place is not that page, the file is searched: each page says in its own header what it is
//! and for which checkpoint it was written, and of several copies the newest counts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use bedload_pages::PageId;

use super::catalogue_pages::{CatalogueText, DirectoryText, check_catalogue, read_catalogue, read_chain};
use super::checkpoint::{levels_of_map, named_twice, slots_per_page};
use super::page::{Page, PageKind, PageRef};
use super::page_file::PageFile;
use super::page_map::{SLOT_BYTES, Slot, decode_slots};
use super::superblock::{PAGES_OFFSET, Superblock};
use crate::disk::DiskFile;
use crate::error::{Error, Result};

/// Pages read in one call to the disk.
const READ_PAGES: u32 = 64;

/// The beginning of a text that may be a part of a catalogue.
#[derive(serde::Deserialize)]
struct Numbered {
    part: u32,
}

/// A data file about which nothing is assumed.
#[derive(Debug)]
pub(crate) struct Remains {
    file: PageFile,
    superblock: Option<Superblock>,
    /// The newest copy of each page of a tree.
    tree_pages: HashMap<u32, PageCopy>,
    /// All pages of catalogues.
    catalogue_pages: Vec<PageCopy>,
}

/// A page found by its own header.
#[derive(Debug, Clone, Copy)]
struct PageCopy {
    checkpoint: u64,
    slot: Slot,
}

/// A page that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is the page as the last checkpoint has it.
    Current,
    /// It is the newest copy there is, and the map does not tell whether the last checkpoint has
    /// it.
    Newest,
    /// It is a copy, though the newest, of a page that is lost.
    Outdated,
}

/// A page of a tree that can be read.
#[derive(Debug)]
pub(crate) struct FoundPage {
    pub(crate) id: PageId,
    /// The checkpoint it was written for.
    pub(crate) checkpoint: u64,
    pub(crate) standing: Standing,
    pub(crate) slot: Slot,
    pub(crate) page: PageRef,
}

impl Remains {
    /// Searches the data file; `superblock` is the newest one, if that can be told.
    ///
    /// # Errors
    ///
    /// There is no page in it that is whole.
    pub(crate) fn find(path: &Path, file: Box<dyn DiskFile>, superblock: Option<Superblock>) -> Result<Self> {
        let page_bytes = match &superblock {
            Some(superblock) => superblock.page_bytes as usize,
            None => page_bytes_of(path, &*file)?,
        };
        let mut remains = Self {
            file: PageFile::new(path.into(), file, page_bytes, 1),
            superblock,
            tree_pages: HashMap::new(),
            catalogue_pages: Vec::new(),
        };
        remains.search()?;
        Ok(remains)
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.file.page_bytes
    }

    /// Looks at every place of the file.
    fn search(&mut self) -> Result<()> {
        let page_bytes = self.file.page_bytes;
        let read = |source| Error::io(self.file.path(), "read", source);
        let len = self.file.file.len().map_err(read)?;
        let places = len.saturating_sub(PAGES_OFFSET) / page_bytes as u64;
        let mut place = 1;
        let end = u32::try_from(places + 1).unwrap_or(u32::MAX);
        let mut buffer = vec![0; READ_PAGES as usize * page_bytes];
        let mut page = Page::zeroed(page_bytes);
        while place < end {
            let offset = self.file.offset(place);
            // The file may be far longer than what was ever written. One that cannot tell is read
            // as a whole.
            let data = match self.file.file.next_data(offset) {
                Ok(None) => break,
                Ok(Some(data)) => data,
                Err(_) => offset..len,
            };
            let pages_in = |bytes: u64| u32::try_from(bytes / page_bytes as u64).unwrap_or(u32::MAX);
            place = place.saturating_add(pages_in(data.start.saturating_sub(offset)));
            let begin = self.file.offset(place);
            let left = pages_in(data.end.saturating_sub(begin).next_multiple_of(page_bytes as u64));
            let count = READ_PAGES.min(end.saturating_sub(place)).min(left.max(1));
            let bytes = &mut buffer[..count as usize * page_bytes];
            if self.file.file.read_at(self.file.offset(place), bytes).is_err() {
                // A disk that cannot read a sector can often read the others.
                for (place, bytes) in (place..).zip(bytes.chunks_exact_mut(page_bytes)) {
                    if self.file.file.read_at(self.file.offset(place), bytes).is_err() {
                        bytes.fill(0);
                    }
                }
            }
            let mut next = place;
            while let Some(bytes) = bytes.chunks_exact(page_bytes).nth((next - place) as usize) {
                page.bytes_mut().copy_from_slice(bytes);
                next += self.remember(next, &page);
            }
            place = next;
        }
        self.catalogue_pages.sort_unstable_by_key(|copy| copy.checkpoint);
        Ok(())
    }

    /// Remembers the page that begins at a place, if it is whole; returns how many places it takes.
    fn remember(&mut self, place: u32, page: &Page) -> u32 {
        let Some(stamp) = Page::stamp_of(page.bytes()) else {
            return 1;
        };
        let slot = Slot {
            page: place,
            crc: stamp.crc,
            places: stamp.places,
        };
        let is_whole = match stamp.places {
            1 => page.stamp().is_some(),
            _ => self.file.read(slot, stamp.kind, stamp.logical).is_ok(),
        };
        if !is_whole {
            return 1;
        }
        let checkpoint = stamp.checkpoint;
        let copy = PageCopy { checkpoint, slot };
        let is_unfinished = |superblock: &Superblock| superblock.checkpoint < checkpoint;
        match stamp.kind {
            // A flush that did not end has left it. The rows that it was to flush are in the log.
            // Without a superblock it counts, and they are left out of the log.
            PageKind::Tree | PageKind::Run if self.superblock.as_ref().is_some_and(is_unfinished) => {}
            PageKind::Tree | PageKind::Run => {
                let newest = self.tree_pages.entry(stamp.logical).or_insert(copy);
                if newest.checkpoint < copy.checkpoint {
                    *newest = copy;
                }
            }
            PageKind::Catalogue => self.catalogue_pages.push(copy),
            PageKind::Map => {}
        }
        stamp.places
    }

    /// Reads every page of a tree that can be had and shows it to `visit`; adds what is damaged to
    /// `problems`.
    ///
    /// # Errors
    ///
    /// Those of `visit`.
    pub(crate) fn visit_pages(
        &self,
        problems: &mut Vec<Error>,
        mut visit: impl FnMut(FoundPage) -> Result<()>,
    ) -> Result<()> {
        let known_before = problems.len();
        let Some(superblock) = &self.superblock else {
            let ids: Vec<u32> = self.tree_pages.keys().copied().collect();
            return self.visit_copies(ids, Standing::Newest, &mut visit);
        };
        let leaves = self.map_leaves(superblock, problems);
        for (&before, slots) in &leaves {
            for (id, &slot) in (before + 1..).zip(slots).filter(|(_, slot)| slot.page != 0) {
                match self.file.read(slot, PageKind::Tree, id) {
                    Ok(page) => {
                        if let Some(found) = found(id, slot, page, Standing::Current) {
                            visit(found)?;
                        }
                    }
                    Err(error) => {
                        problems.push(error);
                        self.visit_copies([id], Standing::Outdated, &mut visit)?;
                    }
                }
            }
        }
        let slots_per_leaf = u64::try_from(slots_per_page(&self.file)).unwrap_or(u64::MAX);
        let end = u64::from(superblock.map_leaves).saturating_mul(slots_per_leaf);
        let is_lost = |id: &u32| {
            let known = leaves.range(..*id).next_back();
            let is_known = known.is_some_and(|(before, _)| u64::from(id - before) <= slots_per_leaf);
            !is_known && u64::from(*id) <= end
        };
        let lost: BTreeSet<u32> = self.tree_pages.keys().copied().filter(is_lost).collect();
        self.visit_copies(lost.iter().copied(), Standing::Newest, &mut visit)?;
        // Pages that were freed may hold the rows from which a lost page was made.
        let is_named = |id: &u32| {
            let known = leaves.range(..*id).next_back();
            let slot = known.and_then(|(before, slots)| slots.get((id - before - 1) as usize));
            slot.is_some_and(|slot| slot.page != 0)
        };
        let given_up = self.tree_pages.keys().copied();
        let given_up: BTreeSet<u32> = given_up
            .filter(|id| !lost.contains(id) && !is_named(id))
            .collect();
        if problems.len() > known_before {
            self.visit_copies(given_up, Standing::Outdated, &mut visit)?;
        }
        Ok(())
    }

    /// Shows the newest copies of the pages `ids`, where there are any.
    fn visit_copies(
        &self,
        ids: impl IntoIterator<Item = u32>,
        standing: Standing,
        visit: &mut impl FnMut(FoundPage) -> Result<()>,
    ) -> Result<()> {
        for id in ids {
            if let Some(copy) = self.tree_pages.get(&id)
                && let Ok(page) = self.file.read(copy.slot, PageKind::Tree, id)
                && let Some(found) = found(id, copy.slot, page, standing)
            {
                visit(found)?;
            }
        }
        Ok(())
    }

    /// Reads a page that was found once more.
    ///
    /// # Errors
    ///
    /// It cannot be read a second time.
    pub(crate) fn read(&self, id: PageId, slot: Slot) -> Result<PageRef> {
        let page = self.file.read(slot, PageKind::Tree, id.get())?;
        Ok(PageRef(page.into()))
    }

    /// The error of a page whose bytes are whole and make no sense.
    pub(crate) fn damaged(&self, id: PageId, slot: Slot, reason: String) -> Error {
        let place = format!("page {id} at offset {}", self.file.offset(slot.page));
        Error::corrupt(self.file.path(), place, reason)
    }

    /// The slots of each leaf of the page map that can be read, by the page id before its first.
    /// Memory is taken for what is there, however many leaves the superblock speaks of.
    fn map_leaves(&self, superblock: &Superblock, problems: &mut Vec<Error>) -> BTreeMap<u32, Vec<Slot>> {
        let slots_per_leaf = slots_per_page(&self.file);
        let mut seen = HashSet::new();
        let mut read = |slot: Slot| {
            let page = if seen.insert(slot.page) {
                self.file.read(slot, PageKind::Map, 0)
            } else {
                Err(named_twice(&self.file, superblock, slot.page))
            };
            match page {
                Ok(page) => {
                    let slots = decode_slots(page.payload()).take(slots_per_leaf);
                    Some(slots.collect::<Vec<_>>())
                }
                Err(error) => {
                    problems.push(error);
                    None
                }
            }
        };
        let mut level = BTreeMap::from([(0, superblock.map_root)]);
        for len in levels_of_map(&self.file, superblock) {
            let mut below = BTreeMap::new();
            for (index, slot) in level {
                let slots = read(slot).unwrap_or_default().into_iter();
                below.extend((index * slots_per_leaf..len).zip(slots));
            }
            level = below;
        }
        let before = |leaf: usize| u32::try_from(leaf * slots_per_leaf).ok();
        let leaves = level
            .into_iter()
            .filter_map(|(leaf, slot)| Some((before(leaf)?, read(slot)?)));
        leaves.collect()
    }

    /// The catalogue of the last checkpoint, if one of two copies of the directory and of each part
    /// can be read; what is damaged is added to `problems`.
    pub(crate) fn catalogue(&self, problems: &mut Vec<Error>) -> Option<CatalogueText> {
        let superblock = self.superblock.as_ref()?;
        problems.extend(check_catalogue(&self.file, superblock));
        let read = read_catalogue(&self.file, superblock, &mut Vec::new());
        read.ok().map(|read| read.text)
    }

    /// Returns the catalogues found anywhere in the file, with the numbers of their checkpoints,
    /// newest first; after those that can be read as a whole, one made of the newest of each part.
    pub(crate) fn found_catalogues(&self) -> impl Iterator<Item = (u64, CatalogueText)> {
        let newest_first = || {
            let pages = self.catalogue_pages.iter().rev();
            pages.filter_map(|copy| Some((copy.checkpoint, self.catalogue_chain(copy.slot)?)))
        };
        let whole = newest_first().filter_map(|(number, text)| {
            let directory = DirectoryText::decode(&text)?;
            Some((number, self.listed(&directory)?))
        });
        let of_parts = move || {
            let (mut newest, mut text) = (0, CatalogueText::default());
            for (number, part) in newest_first() {
                if let Ok(Numbered { part: of }) = serde_json::from_slice(&part) {
                    newest = newest.max(number);
                    text.parts.entry(of).or_insert_with(|| part.into());
                }
            }
            (newest, text)
        };
        let of_parts = std::iter::once_with(of_parts).filter(|(_, text)| !text.parts.is_empty());
        whole.chain(of_parts)
    }

    /// The catalogue of a directory, if one of two copies of each part can be read.
    fn listed(&self, directory: &DirectoryText) -> Option<CatalogueText> {
        let mut text = CatalogueText {
            next_table: directory.next_table,
            parts: BTreeMap::new(),
        };
        for &(number, bytes, first) in &directory.entries {
            let read = |first| read_chain(&self.file, first, bytes as usize, &mut Vec::new()).ok();
            let part = first.into_iter().find_map(read)?;
            text.parts.insert(number, part.into());
        }
        Some(text)
    }

    /// The text in the chain of pages that begins at `slot`.
    fn catalogue_chain(&self, slot: Slot) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut next = slot;
        for _ in 0..self.catalogue_pages.len() {
            let page = self.file.read(next, PageKind::Catalogue, 0).ok()?;
            let mut slots = decode_slots(page.payload());
            next = slots.next()?;
            text.extend_from_slice(&page.payload()[SLOT_BYTES..]);
            if next.page == 0 {
                let len = text.iter().rposition(|&byte| byte != 0)? + 1;
                text.truncate(len);
                return Some(text);
            }
        }
        None
    }
}

fn found(id: u32, slot: Slot, page: Page, standing: Standing) -> Option<FoundPage> {
    Some(FoundPage {
        id: PageId::new(id)?,
        checkpoint: page.stamp()?.checkpoint,
        standing,
        slot,
        page: PageRef(page.into()),
    })
}

/// The page size at which pages at the start of the file are whole.
fn page_bytes_of(path: &Path, file: &dyn DiskFile) -> Result<usize> {
    const LOOKED_AT: u64 = 64;
    let whole_of = |page_bytes: usize| {
        let mut page = Page::zeroed(page_bytes);
        let mut is_whole = |place: u64| {
            let offset = PAGES_OFFSET + place * page_bytes as u64;
            file.read_at(offset, page.bytes_mut()).is_ok() && page.stamp().is_some()
        };
        (0..LOOKED_AT).filter(|&place| is_whole(place)).count()
    };
    let sizes = [4096, 8192, 16_384, 32_768].map(|page_bytes| (whole_of(page_bytes), page_bytes));
    match sizes.into_iter().max() {
        Some((whole, page_bytes)) if whole > 0 => Ok(page_bytes),
        _ => Err(Error::corrupt(path, "the data file", "no page in it is whole")),
    }
}
