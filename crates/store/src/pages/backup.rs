//! A copy of the pages of one version, in a data file of its own.

use std::sync::Arc;

use bedload_pages::PageId;

use super::catalogue_pages::WrittenParts;
use super::checkpoint::{CheckpointError, CheckpointMeta, slots_per_page};
use super::page::{Page, PageKind};
use super::page_file::{PageFile, Unwritten};
use super::page_map::PageMap;
use super::version::PageVersion;
use super::working::WorkingPages;
use crate::error::Result;

/// Pages in memory at once; a long page counts once for each of its places.
const PAGES: usize = 256;

impl PageVersion {
    /// Copies the pages into an empty data file, without gaps, and makes a checkpoint of them there
    /// that has the number of this one, and the store's name and `copy_id`. `change` may change the
    /// payload of a page on the way. Returns the pages of the copy, which keep up to `dirty_limit`
    /// changed ones in memory.
    ///
    /// # Errors
    ///
    /// A page is damaged; the disk is full or fails.
    pub(crate) fn copy_to(
        &self,
        target: PageFile,
        (store_id, copy_id): ([u8; 16], [u8; 16]),
        (meta, next_generation): (&CheckpointMeta, u64),
        dirty_limit: usize,
        mut change: impl FnMut(PageId, &mut [u8]),
    ) -> Result<WorkingPages> {
        let target = Arc::new(target);
        let mut map = PageMap::new(slots_per_page(&target));
        let mut left = self.map.iter();
        loop {
            let mut ids = Vec::with_capacity(PAGES);
            let mut pages: Vec<(PageKind, Page)> = Vec::with_capacity(PAGES);
            let mut room = PAGES;
            while room > 0
                && let Some((id, slot)) = left.next()
            {
                room = room.saturating_sub(slot.places as usize);
                let mut page = self.file.read(slot, PageKind::Tree, id.get())?;
                let is_run = page.is_of_kind(PageKind::Run);
                change(id, page.payload_mut());
                ids.push(id);
                pages.push((if is_run { PageKind::Run } else { PageKind::Tree }, page));
            }
            if ids.is_empty() {
                break;
            }
            let unwritten = ids.iter().zip(&mut pages).map(|(id, (kind, page))| Unwritten {
                kind: *kind,
                logical: id.get(),
                page,
            });
            let slots = target.write_all(unwritten.collect(), self.number())?;
            for (&id, slot) in ids.iter().zip(slots) {
                map.set(id, slot);
            }
        }
        let before = Arc::new(PageVersion::new(self.number() - 1, map, target.clone()));
        let working = WorkingPages::from_version(
            before,
            target,
            (Vec::new(), WrittenParts::new()),
            next_generation,
            dirty_limit,
        )
        .of_copy(copy_id);
        match working.checkpoint(store_id, meta) {
            Ok(_) => Ok(working),
            Err(CheckpointError::Clean(error) | CheckpointError::Unknown(error)) => Err(error),
        }
    }
}
