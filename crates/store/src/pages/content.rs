//! For fuzzers: the content of a data file, without locations and checksums.

use std::path::Path;

use bedload_pages::PageId;

use super::catalogue_pages::{CatalogueText, WrittenParts, read_catalogue, write_catalogue};
use super::checkpoint::{read_map, slots_per_page, write_map};
use super::page::{Page, PageKind};
use super::page_file::{PageFile, Unwritten};
use super::page_map::PageMap;
use super::superblock::Superblock;
use crate::codec::Reader;
use crate::disk::DiskFile;
use crate::error::Result;

/// The content of a data file.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) superblock: Superblock,
    /// The pages of trees, by page id.
    pages: Vec<(u32, Page)>,
    catalogue: CatalogueText,
    /// Fields of the superblock, and the log end, that are changed once it is known what they
    /// should be.
    changes: Vec<(u8, u64)>,
}

impl Content {
    /// The content of a sound data file.
    pub(crate) fn read(path: &Path, file: Box<dyn DiskFile>) -> Result<Self> {
        let (superblock, _) = PageFile::read_superblock(path, &*file)?;
        let file = PageFile::new(path.into(), file, superblock.page_bytes as usize, 1);
        let (map, _) = read_map(&file, &superblock, &mut Vec::new())?;
        let page = |(id, slot)| -> Result<_> {
            let id = PageId::get(id);
            Ok((id, file.read(slot, PageKind::Tree, id)?))
        };
        Ok(Self {
            pages: map.iter().map(page).collect::<Result<_>>()?,
            catalogue: read_catalogue(&file, &superblock, &mut Vec::new())?.text,
            superblock,
            changes: Vec::new(),
        })
    }

    /// Puts bytes into the payload of one of the pages.
    pub(crate) fn change_page(&mut self, which: usize, at: usize, bytes: &[u8]) {
        let pages = self.pages.len();
        let payload = self.pages[which % pages].1.payload_mut();
        let at = at % payload.len();
        let len = bytes.len().min(payload.len() - at);
        payload[at..at + len].copy_from_slice(&bytes[..len]);
    }

    /// Puts bytes into the catalogue, whose end they may move.
    pub(crate) fn change_catalogue(&mut self, at: usize, bytes: &[u8]) {
        let Some(part) = self.catalogue.parts.values_mut().next() else {
            return;
        };
        let mut text = part.to_vec();
        let at = at % (text.len() + 1);
        let end = (at + bytes.len()).max(text.len());
        text.resize(end, b' ');
        text[at..at + bytes.len()].copy_from_slice(bytes);
        *part = text.into();
    }

    /// Changes a field of the superblock, or the log end.
    pub(crate) fn change_superblock(&mut self, which: u8, bytes: &[u8]) {
        if let Some(value) = Reader::new(bytes).u64() {
            self.changes.push((which, value));
        }
    }

    /// Writes it all to an empty file, with the checksums that belong to it.
    pub(crate) fn write(mut self, file: PageFile) -> Result<()> {
        let mut superblock = self.superblock;
        let checkpoint = superblock.checkpoint;
        let unwritten = self.pages.iter_mut().map(|(id, page)| Unwritten {
            kind: if page.is_of_kind(PageKind::Run) {
                PageKind::Run
            } else {
                PageKind::Tree
            },
            logical: *id,
            page,
        });
        let slots = file.write_all(unwritten.collect(), checkpoint)?;
        let mut map = PageMap::new(slots_per_page(&file));
        for ((id, _), slot) in self.pages.iter().zip(slots) {
            if let Some(id) = PageId::new(*id) {
                map.set(id, slot);
            }
        }
        (superblock.map_root, superblock.map_levels) =
            write_map(&file, &mut map, checkpoint, &mut Vec::new())?;
        let places = (&mut Vec::new(), &mut Vec::new());
        let (_, directory) =
            write_catalogue(&file, &self.catalogue, &WrittenParts::new(), checkpoint, places)?;
        [superblock.catalogue, superblock.catalogue_copy] = directory.first;
        superblock.catalogue_bytes = directory.bytes;
        for (which, value) in self.changes {
            let low = u32::try_from(value & u64::from(u32::MAX)).expect("masked");
            match which % 9 {
                0 => superblock.log_start = value,
                1 => superblock.next_sequence = value,
                2 => superblock.next_generation = value,
                3 => superblock.map_levels = low,
                4 => superblock.map_leaves = low,
                5 => superblock.catalogue_bytes = low,
                6 => superblock.map_root.page = low,
                7 => superblock.catalogue.page = low,
                _ => file.write_log_end(value)?,
            }
        }
        file.write_superblock(&superblock)
    }
}
