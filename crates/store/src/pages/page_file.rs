//! The data file: its superblocks, its places, and the cache before it.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::cache::Cache;
use super::extents::Extent;
use super::log_end;
use super::page::{HEADER_BYTES, Page, PageKind};
use super::page_map::Slot;
use super::readers::Readers;
use super::space::{Space, SurplusLimits};
use super::superblock::{PAGES_OFFSET, SUPERBLOCK_BYTES, Superblock};
use crate::disk::DiskFile;
use crate::error::{Error, Result};

/// Pages written in one call to the disk.
const WRITE_PAGES: u32 = 64;

/// Free space of fewer bytes is kept for pages to come.
const SURPLUS_BYTES_MIN: u64 = if cfg!(any(test, fuzzing)) {
    32 << 10
} else {
    16 << 20
};

/// Neighbouring free places of fewer bytes are not worth a hole.
const HOLE_BYTES_MIN: usize = if cfg!(any(test, fuzzing)) {
    8 << 10
} else {
    256 << 10
};

/// Space that goes back at a time: for each mebibyte the system takes up to a millisecond.
const GIVEN_BACK_BYTES: usize = if cfg!(any(test, fuzzing)) {
    32 << 10
} else {
    16 << 20
};

/// The most bytes of a page that takes several places.
pub(super) const LONG_PAGE_BYTES_MAX: usize = 16 << 20;

/// The data file of a store. Shared by the working pages and by every version that is held.
#[derive(Debug)]
pub(crate) struct PageFile {
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) page_bytes: usize,
    pub(super) cache: Arc<Cache>,
    pub(super) space: Mutex<Space>,
    /// Other processes that may read the file; none where it is not a store's, or is not written
    /// to.
    pub(super) readers: OnceLock<Readers>,
    /// How often a page was read from the disk.
    reads: AtomicU64,
    bytes_written: AtomicU64,
}

/// A page to be written: what it is, and under which logical id.
pub(super) struct Unwritten<'a> {
    pub(super) kind: PageKind,
    pub(super) logical: u32,
    pub(super) page: &'a mut Page,
}

/// The prefetch requests for these places: neighbours in one request. Ascending neighbours are left
/// out: systems detect forward reads themselves, and fetch more at a time.
fn requests(places: impl Iterator<Item = u32>) -> impl Iterator<Item = RangeInclusive<u32>> {
    let mut places = places.peekable();
    std::iter::from_fn(move || {
        while let Some(last) = places.next() {
            let (mut first, mut end) = (last, last);
            while places
                .next_if(|&place| place.checked_sub(1) == Some(end))
                .is_some()
            {
                end += 1;
            }
            if end > last {
                continue;
            }
            while places
                .next_if(|&place| place.checked_add(1) == Some(first))
                .is_some()
            {
                first -= 1;
            }
            return Some(first..=last);
        }
        None
    })
}

impl PageFile {
    pub(crate) fn new(path: PathBuf, file: Box<dyn DiskFile>, page_bytes: usize, cache_pages: usize) -> Self {
        Self {
            path,
            file,
            page_bytes,
            cache: Arc::new(Cache::new(cache_pages * page_bytes, page_bytes)),
            space: Mutex::new(Space::of_used(&[])),
            readers: OnceLock::new(),
            reads: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        }
    }

    /// How often a page was read from the disk.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Bytes of pages that were written.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The page that `slot` names, from the cache or from the disk.
    pub(crate) fn load(&self, slot: Slot, kind: PageKind, logical: u32) -> Result<Arc<Page>> {
        match self.cache.get(slot.page) {
            Some(page) => Ok(page),
            None => Ok(self
                .cache
                .insert(slot.page, Arc::new(self.read(slot, kind, logical)?))),
        }
    }

    /// Has the disk fetch what is not in the cache.
    pub(super) fn read_ahead(&self, slots: impl Iterator<Item = Slot>) {
        let mut single = Vec::new();
        for slot in slots.filter(|slot| !self.cache.has(slot.page)) {
            if slot.places > 1 {
                let bytes = u64::from(slot.places) * self.page_bytes as u64;
                self.file.read_ahead(self.offset(slot.page), bytes);
            } else {
                single.push(slot.page);
            }
        }
        for fetched in requests(single.into_iter()) {
            let bytes = u64::from(fetched.end() - fetched.start() + 1) * self.page_bytes as u64;
            self.file.read_ahead(self.offset(*fetched.start()), bytes);
        }
    }

    /// The page that `slot` names, from the disk.
    pub(crate) fn read(&self, slot: Slot, kind: PageKind, logical: u32) -> Result<Page> {
        let name = match kind {
            PageKind::Tree | PageKind::Run => format!("page {logical}"),
            PageKind::Map => "a page of the page map".into(),
            PageKind::Catalogue => "a page of the catalogue".into(),
        };
        if slot.page == 0 {
            return Err(Error::corrupt(&self.path, name, "no place is named for it"));
        }
        let place = || format!("{name} at offset {}", self.offset(slot.page));
        let damaged = |reason: String| Error::corrupt(&self.path, place(), reason);
        let mut page = match slot.places {
            1 => self.cache.page(self.page_bytes),
            places if self.may_take(places) => Page::zeroed(places as usize * self.page_bytes),
            places => return Err(damaged(format!("it is said to take {places} places"))),
        };
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.file
            .read_at(self.offset(slot.page), page.bytes_mut())
            .map_err(|source| {
                if source.kind() == std::io::ErrorKind::UnexpectedEof {
                    damaged("the file ends before it".into())
                } else {
                    Error::of_read(&self.path, place(), source)
                }
            })?;
        page.check(kind, logical, slot.crc).map_err(damaged)?;
        Ok(page)
    }

    /// Whether there are pages of so many places.
    pub(super) fn may_take(&self, places: u32) -> bool {
        let bytes = self.page_bytes.checked_mul(places as usize);
        bytes.is_some_and(|bytes| (1..=LONG_PAGE_BYTES_MAX).contains(&bytes))
    }

    /// Bytes of payload that the longest page has.
    pub(super) fn payload_max(&self) -> usize {
        LONG_PAGE_BYTES_MAX - HEADER_BYTES
    }

    /// A page of zeros with room for a payload, and how many places it takes.
    pub(super) fn page_for(&self, payload_bytes: usize) -> (Page, u32) {
        let places = (HEADER_BYTES + payload_bytes).div_ceil(self.page_bytes);
        let page = Page::zeroed(places * self.page_bytes);
        (
            page,
            u32::try_from(places).expect("a payload is at most 16 MiB long"),
        )
    }

    /// Seals a page of several places and writes it to neighbouring ones; returns where.
    pub(super) fn write_long(&self, unwritten: Unwritten<'_>, checkpoint: u64) -> Result<Slot> {
        let places = unwritten.page.bytes().len() / self.page_bytes;
        let places = u32::try_from(places).expect("a page is at most 16 MiB long");
        let Some(extent) = self.space.lock().allocate_long(places) else {
            return Err(self.full());
        };
        let crc = unwritten
            .page
            .seal(unwritten.kind, unwritten.logical, places, checkpoint);
        if let Err(source) = self
            .file
            .write_at(self.offset(extent.first), unwritten.page.bytes())
        {
            self.free(std::iter::once(extent));
            return Err(Error::io(&self.path, "write", source));
        }
        self.note_written(unwritten.page.bytes().len());
        Ok(Slot {
            page: extent.first,
            crc,
            places,
        })
    }

    /// As [`write`](Self::write), for pages that may be long.
    pub(super) fn write_all(&self, pages: Vec<Unwritten<'_>>, checkpoint: u64) -> Result<Vec<Slot>> {
        let mut slots = Vec::with_capacity(pages.len());
        let mut single = Vec::new();
        for unwritten in pages {
            if unwritten.page.bytes().len() == self.page_bytes {
                single.push(unwritten);
            } else {
                slots.append(&mut self.write(&mut single, checkpoint)?);
                single.clear();
                slots.push(self.write_long(unwritten, checkpoint)?);
            }
        }
        slots.append(&mut self.write(&mut single, checkpoint)?);
        Ok(slots)
    }

    fn note_written(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn full(&self) -> Error {
        Error::NoSpace {
            path: self.path.clone(),
            action: "number another page of",
        }
    }

    /// Writes pages, whose payloads are zero but for what `fill` puts there; returns where they
    /// stand.
    pub(super) fn write_payloads(
        &self,
        kind: PageKind,
        pages: usize,
        checkpoint: u64,
        fill: impl Fn(usize, &mut [u8]),
    ) -> Result<Vec<Slot>> {
        let mut pages: Vec<Page> = (0..pages).map(|_| Page::zeroed(self.page_bytes)).collect();
        for (i, page) in pages.iter_mut().enumerate() {
            fill(i, page.payload_mut());
        }
        let mut unwritten: Vec<Unwritten<'_>> = pages
            .iter_mut()
            .map(|page| Unwritten {
                kind,
                logical: 0,
                page,
            })
            .collect();
        self.write(&mut unwritten, checkpoint)
    }

    /// Seals the pages and writes them to free places, neighbours side by side where space allows;
    /// returns where each one stands. On an error the places already taken are free again.
    pub(super) fn write(&self, pages: &mut [Unwritten<'_>], checkpoint: u64) -> Result<Vec<Slot>> {
        let mut slots: Vec<Slot> = Vec::with_capacity(pages.len());
        let mut buffer = Vec::new();
        while slots.len() < pages.len() {
            let wanted = u32::try_from(pages.len() - slots.len())
                .unwrap_or(u32::MAX)
                .min(WRITE_PAGES);
            let taken = self.space.lock().allocate(wanted);
            let Some((first, count)) = taken else {
                self.free(slots.iter().map(|slot| slot.extent()));
                return Err(self.full());
            };
            buffer.clear();
            let begin = slots.len();
            for (place, unwritten) in (first..first + count).zip(&mut pages[begin..]) {
                let crc = unwritten
                    .page
                    .seal(unwritten.kind, unwritten.logical, 1, checkpoint);
                buffer.extend_from_slice(unwritten.page.bytes());
                slots.push(Slot {
                    page: place,
                    crc,
                    places: 1,
                });
            }
            if let Err(source) = self.file.write_at(self.offset(first), &buffer) {
                self.free(slots.iter().map(|slot| slot.extent()));
                return Err(Error::io(&self.path, "write", source));
            }
            self.note_written(buffer.len());
        }
        Ok(slots)
    }

    /// Makes places free that no checkpoint and no held version names.
    pub(super) fn free(&self, extents: impl Iterator<Item = Extent>) {
        for extent in extents {
            self.cache.remove(extent.first);
            self.space.lock().free(extent);
        }
    }

    /// Finds out which versions other processes hold.
    pub(super) fn note_readers(&self) {
        if let Some(readers) = self.readers.get() {
            let held = readers.held();
            self.space.lock().note_elsewhere(held);
        }
    }

    /// Places of the file, counted by its length.
    pub(super) fn places(&self) -> Result<u32> {
        let len = self
            .file
            .len()
            .map_err(|source| Error::io(&self.path, "read", source))?;
        let places = len.saturating_sub(PAGES_OFFSET).div_ceil(self.page_bytes as u64);
        Ok(u32::try_from(places).unwrap_or(u32::MAX))
    }

    /// Frees what waited for versions that are gone by now.
    pub(super) fn free_released(&self) {
        let released = self.space.lock().released();
        self.free(released.into_iter());
    }

    /// Gives the space of some free places back to the file system. Unless `all` is to go, it
    /// begins only when free space far exceeds the usual turnover of pages; once it has `begun`, it
    /// continues down to what pages need. Returns whether to call again. Places whose space cannot
    /// be given back stay free as they are.
    pub(super) fn give_back_some(&self, all: bool, begun: bool) -> bool {
        let places = |bytes: usize| u32::try_from((bytes / self.page_bytes).max(1)).unwrap_or(u32::MAX);
        let limits = SurplusLimits {
            few: if all {
                0
            } else {
                SURPLUS_BYTES_MIN / self.page_bytes as u64
            },
            shortest: places(HOLE_BYTES_MIN),
            step: places(GIVEN_BACK_BYTES),
        };
        let surplus = self.space.lock().take_surplus(limits, begun);
        let mut any_gone = false;
        for extent in surplus {
            let len = u64::from(extent.places) * self.page_bytes as u64;
            let punched = self.file.punch(self.offset(extent.first), len);
            let gone = punched.unwrap_or_else(|error| {
                tracing::warn!(%error, path = %self.path.display(), "free space could not be given back");
                false
            });
            self.space.lock().return_surplus(extent, gone);
            any_gone |= gone;
        }
        any_gone
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.file
            .sync()
            .map_err(|source| Error::of_sync(&self.path, source))
    }

    /// Writes the superblock to its slot and makes it durable.
    pub(super) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        let offset = Superblock::offset(superblock.checkpoint);
        let write = |source| Error::of_unknown(&self.path, "write the superblock of", source);
        self.file.write_at(offset, &superblock.encode()).map_err(write)?;
        self.sync()
    }

    /// The superblock of the newest checkpoint that was completed, and what is wrong with the other
    /// slot, if anything is. (Before the second checkpoint one slot was never written, and nothing
    /// is wrong with it.)
    pub(crate) fn read_superblock(path: &Path, file: &dyn DiskFile) -> Result<(Superblock, Option<Error>)> {
        let read = |offset| -> Result<Superblock> {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            match file.read_at(offset, &mut bytes) {
                Ok(()) => {
                    let superblock = Superblock::decode(path, offset, &bytes)?;
                    let len = file.len().map_err(|source| Error::io(path, "read", source))?;
                    if superblock.file_bytes_min() > len {
                        let place = format!("the superblock at offset {offset}");
                        return Err(Error::corrupt(
                            path,
                            place,
                            "the file is shorter than what it names",
                        ));
                    }
                    Ok(superblock)
                }
                Err(source) => {
                    let place = format!("the superblock at offset {offset}");
                    Err(if source.kind() == std::io::ErrorKind::UnexpectedEof {
                        Error::corrupt(path, place, "the file ends before it")
                    } else {
                        Error::of_read(path, place, source)
                    })
                }
            }
        };
        let [first, second] = Superblock::offsets().map(read);
        match (first, second) {
            (Ok(a), Ok(b)) => Ok((if a.checkpoint > b.checkpoint { a } else { b }, None)),
            (Err(error @ (Error::NewerFormat { .. } | Error::OlderFormat { .. })), _)
            | (_, Err(error @ (Error::NewerFormat { .. } | Error::OlderFormat { .. }))) => Err(error),
            (Ok(good), Err(bad)) | (Err(bad), Ok(good)) => {
                let bad = Some(bad).filter(|_| good.checkpoint > 1);
                Ok((good, bad))
            }
            (Err(bad), Err(_)) => Err(bad),
        }
    }

    /// Notes that the log is durable up to a position. To be synced.
    pub(crate) fn write_log_end(&self, log_end: u64) -> Result<()> {
        self.file
            .write_at(log_end::LOG_END_OFFSET, &log_end::encode(log_end))
            .map_err(|source| Error::io(&self.path, "write", source))
    }

    /// Up to where the log had been durable, as far as a data file says so.
    pub(crate) fn read_log_end(file: &dyn DiskFile) -> u64 {
        let mut bytes = [0; log_end::LOG_END_BYTES];
        let read = file.read_at(log_end::LOG_END_OFFSET, &mut bytes).ok();
        read.and_then(|()| log_end::decode(&bytes)).unwrap_or(0)
    }

    pub(super) fn offset(&self, place: u32) -> u64 {
        PAGES_OFFSET + u64::from(place - 1) * self.page_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::requests;

    #[test]
    fn what_is_read_downwards_or_apart_is_asked_for() {
        let asked = |places: &[u32]| requests(places.iter().copied()).collect::<Vec<_>>();
        assert_eq!(asked(&[]), []);
        assert_eq!(asked(&[7]), [7..=7]);
        assert_eq!(asked(&[9, 8, 7]), [7..=9]);
        assert_eq!(asked(&[7, 8, 9]), []);
        assert_eq!(asked(&[9, 5, 4, 12]), [9..=9, 4..=5, 12..=12]);
        assert_eq!(asked(&[3, 4, 9, 8, 1, 2]), [8..=9]);
    }
}
