//! A version of all pages, as one checkpoint left them.

use std::path::Path;
use std::sync::Arc;

use bedload_pages::{PageId, PageRead};

use super::page::{HEADER_BYTES, PageKind, PageRef};
use super::page_file::PageFile;
use super::page_map::PageMap;
use super::readers::Registration;
use crate::disk::sync_to_read;
use crate::error::{Error, Result};

/// The pages of one checkpoint. They never change and are read without latches. The places they
/// stand at stay taken until the version is dropped.
#[derive(Debug)]
pub(crate) struct PageVersion {
    number: u64,
    pub(super) map: PageMap,
    pub(super) file: Arc<PageFile>,
    /// In a reader's process, keeps the writer from writing to these places.
    pub(super) registration: Option<Registration>,
}

impl PageVersion {
    pub(super) fn new(number: u64, map: PageMap, file: Arc<PageFile>) -> Self {
        file.space.lock().hold(number);
        Self {
            number,
            map,
            file,
            registration: None,
        }
    }

    /// The checkpoint that left these pages.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The data file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The ids of all pages, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PageId> {
        self.map.iter().map(|(id, _)| id)
    }

    /// In a reader's process, makes the checkpoint durable: its writer may not have synced it yet.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_to_read(&*self.file.file).map_err(|source| Error::io(self.path(), "sync", source))
    }

    /// Up to where the log had been durable, as far as the data file says so.
    pub(crate) fn log_end(&self) -> u64 {
        PageFile::read_log_end(&*self.file.file)
    }

    /// Reads the page from the disk, past the cache, and checks it.
    pub(crate) fn check(&self, id: PageId) -> Result<()> {
        let slot = self.map.get(id).unwrap_or_default();
        self.file.read(slot, PageKind::Tree, id.get()).map(drop)
    }
}

impl Drop for PageVersion {
    fn drop(&mut self) {
        self.file.space.lock().let_go(self.number);
        self.file.free_released();
    }
}

impl PageRead for PageVersion {
    type Guard<'s> = PageRef;

    fn payload_len(&self) -> usize {
        self.file.page_bytes - HEADER_BYTES
    }

    fn payload_max(&self) -> usize {
        self.file.payload_max()
    }

    fn read(&self, id: PageId) -> bedload_pages::Result<PageRef> {
        let Some(slot) = self.map.get(id) else {
            let place = format!("page {id}");
            return Err(Error::corrupt(self.file.path(), place, "the page map does not have it").into());
        };
        Ok(PageRef(self.file.load(slot, PageKind::Tree, id.get())?))
    }

    fn read_ahead(&self, ids: &[PageId]) {
        self.file
            .read_ahead(ids.iter().filter_map(|&id| self.map.get(id)));
    }
}
