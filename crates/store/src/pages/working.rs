//! The working pages: the page store that trees are changed through between two checkpoints.
//!
//! Rules:
//! 1. A page named by the last checkpoint is never written in place. Its first change copies it
//!    into a *dirty* page in memory; dirty pages get a place when they are written.
//! 2. Dirty pages beyond the limit are spilled, oldest first, to places that only the working map
//!    names. Such places are free again at once when their page changes or goes away.
//! 3. A page is found in `dirty`, else under its slot in the map. Both change together under the
//!    state's lock; a page's bytes change only under its exclusive latch, while the batch owns
//!    them.
//! 4. Latches are taken before the state's lock, and nothing waits for a latch while it holds that
//!    lock.
//! 5. A failed checkpoint or spill leaves the last version as it was; [`WorkingPages::roll_back`]
//!    returns to it.

use std::collections::{BTreeSet, HashSet};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bedload_pages::{Batch, MAX_BATCH_PAGES, PageId, PageRead, PageStore, Reserved, RunWriter, VacuumStore};
use parking_lot::Mutex;

use super::cache::Cache;
use super::catalogue_pages::WrittenParts;
use super::latches::{ExclusiveLatch, Latches, SharedLatch};
use super::page::{HEADER_BYTES, Page, PageKind, PageRef};
use super::page_file::{PageFile, Unwritten};
use super::page_map::Slot;
use super::superblock::Superblock;
use super::version::PageVersion;
use super::working_state::{Origin, State, Taken};
use crate::disk::FileId;
use crate::error::{Error, Result};

/// The pages as they are being changed.
#[derive(Debug)]
pub(crate) struct WorkingPages {
    pub(super) file: Arc<PageFile>,
    pub(super) state: Mutex<State>,
    pub(super) generation: AtomicU64,
    latches: Latches,
    maintained: Mutex<HashSet<PageId>>,
    dirty_limit: usize,
    copy_id: [u8; 16],
}

impl WorkingPages {
    /// Goes on from a version whose directory and upper map levels stand at `fixtures`, which has
    /// the parts of the catalogue, too.
    pub(super) fn from_version(
        published: Arc<PageVersion>,
        file: Arc<PageFile>,
        fixtures: (Vec<u32>, WrittenParts),
        next_generation: u64,
        dirty_limit: usize,
    ) -> Self {
        Self {
            file,
            state: Mutex::new(State::of_version(published, fixtures)),
            generation: AtomicU64::new(next_generation),
            latches: Latches::new(),
            maintained: Mutex::default(),
            dirty_limit: dirty_limit.max(2 * MAX_BATCH_PAGES),
            copy_id: [0; 16],
        }
    }

    /// The pages of a copy of a store ([`Superblock::copy_id`]).
    pub(super) fn of_copy(mut self, copy_id: [u8; 16]) -> Self {
        self.copy_id = copy_id;
        self
    }

    pub(crate) fn copy_id(&self) -> [u8; 16] {
        self.copy_id
    }

    /// Above the generation of every page of a tree.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The last checkpoint.
    pub(crate) fn published(&self) -> Arc<PageVersion> {
        self.state.lock().published.clone()
    }

    /// Forgets every change since the last checkpoint. No batch, guard or writer may be alive.
    pub(crate) fn roll_back(&self) {
        self.state.lock().roll_back(&self.file);
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.file.page_bytes
    }

    /// The data file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Which file it is.
    pub(crate) fn identity(&self) -> std::io::Result<FileId> {
        self.file.file.identity()
    }

    /// Writes the superblock that the pages were opened with again: its writer may have died before
    /// it was durable.
    pub(crate) fn renew_superblock(&self, superblock: &Superblock) -> Result<()> {
        self.file.write_superblock(superblock)
    }

    /// Notes durably that the log is durable up to a position.
    pub(crate) fn note_log_end(&self, log_end: u64) -> Result<()> {
        self.file.write_log_end(log_end)?;
        self.file.sync()
    }

    /// The cache of the data file, which other files of the store share.
    pub(crate) fn cache(&self) -> Arc<Cache> {
        self.file.cache.clone()
    }

    /// Bytes of pages that were written since the store was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.file.bytes_written()
    }

    /// How many pages were read from the disk since the store was opened.
    pub(crate) fn reads(&self) -> u64 {
        self.file.reads()
    }

    /// Whether a version in `born..dead` is held.
    pub(crate) fn holds_version_in(&self, born: u64, dead: u64) -> bool {
        self.file.space.lock().holds_version_in(born, dead)
    }

    /// Bytes of the data file in use, and those that it takes on the disk.
    pub(crate) fn file_bytes(&self) -> Result<(u64, u64)> {
        let (used, _) = self.file.space.lock().places();
        // The holes that an earlier process has made are known to the file system alone.
        let taken = self.file.file.disk_bytes();
        let taken = taken.map_err(|source| Error::io(self.file.path(), "read", source))?;
        Ok((used * self.file.page_bytes as u64, taken))
    }

    /// Gives free space back to the file system: what far exceeds the usual turnover of pages, or
    /// `all` of it.
    pub(crate) fn give_back_surplus(&self, all: bool) {
        self.file.free_released();
        let mut begun = false;
        while self.file.give_back_some(all, begun) {
            begun = true;
        }
    }

    /// Gives back some of what [`give_back_surplus`](Self::give_back_surplus) does, beside flushes
    /// and readers; once it has `begun`, the next part. Tells whether to go on.
    pub(crate) fn give_back_some(&self, begun: bool) -> bool {
        self.file.give_back_some(false, begun)
    }

    /// Frees the places that no version needs any more.
    pub(crate) fn free_released(&self) {
        self.file.free_released();
    }

    fn page(&self, id: PageId) -> Result<Arc<Page>> {
        self.find(id)?.ok_or_else(|| missing(&self.file, id))
    }

    /// The page, if there is one of this id.
    fn find(&self, id: PageId) -> Result<Option<Arc<Page>>> {
        let state = self.state.lock();
        if let Some(Some(page)) = state.dirty.get(&id) {
            return Ok(Some(page.clone()));
        }
        let slot = state.map.get(id);
        drop(state);
        slot.map(|slot| self.file.load(slot, PageKind::Tree, id.get()))
            .transpose()
    }

    /// Takes a page for a batch, which owns it until it commits or is dropped. The batch holds its
    /// latch.
    fn take(&self, id: PageId) -> Result<Taken> {
        let mut state = self.state.lock();
        if let Some(page) = state.dirty.get_mut(&id).and_then(Option::take) {
            return Ok(Taken {
                id,
                page: Arc::unwrap_or_clone(page),
                from: Origin::Dirty,
            });
        }
        if state.ids.reserved.contains(&id) {
            return Ok(Taken {
                id,
                page: Page::zeroed(self.file.page_bytes),
                from: Origin::Reserved,
            });
        }
        let slot = state.map.get(id);
        drop(state);
        let slot = slot.ok_or_else(|| missing(&self.file, id))?;
        let page = self.file.load(slot, PageKind::Tree, id.get())?;
        Ok(Taken {
            id,
            page: Arc::unwrap_or_clone(page),
            from: Origin::Clean,
        })
    }

    /// Writes the oldest dirty pages once there are too many (rule 2).
    fn make_room(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.dirty.len() >= self.dirty_limit {
            let keep = self.dirty_limit / 2;
            state.spill(&self.file, keep)?;
        }
        Ok(())
    }
}

fn missing(file: &PageFile, id: PageId) -> Error {
    Error::corrupt(file.path(), format!("page {id}"), "the page map does not have it")
}

/// A page latched shared.
#[derive(Debug)]
pub struct WorkingGuard {
    page: PageRef,
    _latch: SharedLatch,
}

impl Deref for WorkingGuard {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.page
    }
}

impl PageRead for WorkingPages {
    type Guard<'s> = WorkingGuard;

    fn payload_len(&self) -> usize {
        self.file.page_bytes - HEADER_BYTES
    }

    fn payload_max(&self) -> usize {
        self.file.payload_max()
    }

    fn read(&self, id: PageId) -> bedload_pages::Result<WorkingGuard> {
        let latch = self.latches.shared(id);
        Ok(WorkingGuard {
            page: PageRef(self.page(id)?),
            _latch: latch,
        })
    }

    fn read_ahead(&self, ids: &[PageId]) {
        let state = self.state.lock();
        let clean = ids.iter().filter(|id| !state.dirty.contains_key(id));
        let slots: Vec<Slot> = clean.filter_map(|&id| state.map.get(id)).collect();
        drop(state);
        self.file.read_ahead(slots.into_iter());
    }
}

/// Exclusive latches on a few pages, and the pages themselves.
#[derive(Debug)]
pub struct WorkingBatch<'s> {
    store: &'s WorkingPages,
    taken: Vec<Taken>,
    /// Released last, once the pages are where others find them.
    latches: Vec<ExclusiveLatch>,
}

impl Batch for WorkingBatch<'_> {
    fn add(&mut self, id: PageId) -> bedload_pages::Result<()> {
        assert!(
            self.taken.len() < MAX_BATCH_PAGES,
            "a batch of more than {MAX_BATCH_PAGES} pages"
        );
        assert!(
            self.taken.iter().all(|taken| taken.id != id),
            "page {id} is in the batch already"
        );
        let latch = self.store.latches.exclusive(id);
        let taken = self.store.take(id)?;
        self.taken.push(taken);
        self.latches.push(latch);
        Ok(())
    }

    fn page(&self, index: usize) -> &[u8] {
        self.taken[index].page.payload()
    }

    fn commit(mut self, apply: impl FnOnce(&mut [&mut [u8]])) {
        let count = self.taken.len();
        let mut payloads: [&mut [u8]; MAX_BATCH_PAGES] = Default::default();
        for (payload, taken) in payloads.iter_mut().zip(&mut self.taken) {
            taken.page.set_kind(PageKind::Tree);
            *payload = taken.page.payload_mut();
        }
        apply(&mut payloads[..count]);
        let mut state = self.store.state.lock();
        for taken in self.taken.drain(..) {
            match taken.from {
                Origin::Dirty => state.put_back(taken),
                Origin::Clean => state.make_dirty(taken.id, taken.page),
                Origin::Reserved => {
                    state.ids.reserved.remove(&taken.id);
                    state.make_dirty(taken.id, taken.page);
                }
            }
        }
    }
}

impl Drop for WorkingBatch<'_> {
    /// A batch that was not committed gives back what it took, unchanged.
    fn drop(&mut self) {
        let mut state = self.store.state.lock();
        for taken in self.taken.drain(..) {
            if taken.from == Origin::Dirty {
                state.put_back(taken);
            }
        }
    }
}

impl PageStore for WorkingPages {
    type Batch<'s> = WorkingBatch<'s>;
    type Pin<'s> = PageRef;
    type RunWriter<'s> = WorkingRun<'s>;
    type Maintenance<'s> = Maintenance<'s>;

    fn batch(&self, ids: &[PageId]) -> bedload_pages::Result<WorkingBatch<'_>> {
        self.make_room()?;
        let mut batch = WorkingBatch {
            store: self,
            taken: Vec::new(),
            latches: Vec::new(),
        };
        for &id in ids {
            batch.add(id)?;
        }
        Ok(batch)
    }

    fn reserve(&self) -> bedload_pages::Result<Reserved> {
        let mut state = self.state.lock();
        let id = state.ids.reserve().ok_or_else(|| Error::NoSpace {
            path: self.file.path.clone(),
            action: "number another page of",
        })?;
        Ok(Reserved {
            id,
            generation: self.generation.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn release(&self, reserved: Reserved) {
        self.state.lock().ids.release(reserved.id);
    }

    fn run_writer(&self) -> bedload_pages::Result<WorkingRun<'_>> {
        Ok(WorkingRun { store: self })
    }

    fn pin(&self, id: PageId) -> bedload_pages::Result<PageRef> {
        let page = self.page(id)?;
        if !page.is_of_kind(PageKind::Run) {
            let place = format!("page {id}");
            return Err(Error::corrupt(self.path(), place, "it is pinned, and no page of a run").into());
        }
        Ok(PageRef(page))
    }

    fn retire(&self, pages: &[PageId]) {
        self.state.lock().retired.extend_from_slice(pages);
    }

    fn reclaim(&self) -> bedload_pages::Result<usize> {
        let retired = std::mem::take(&mut self.state.lock().retired);
        let (mut count, mut held) = (0, Vec::new());
        for id in retired {
            // Readers that hold the earlier page may still be looking at it.
            match self.latches.try_exclusive(id) {
                Some(_latch) => {
                    self.state.lock().forget(&self.file, id);
                    count += 1;
                }
                None => held.push(id),
            }
        }
        self.state.lock().retired.append(&mut held);
        Ok(count)
    }

    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> bedload_pages::Result<Vec<PageId>> {
        let mut state = self.state.lock();
        let retired: HashSet<PageId> = state.retired.iter().copied().collect();
        let mut leaked: BTreeSet<PageId> = state.map.iter().map(|(id, _)| id).collect();
        leaked.extend(state.dirty.keys());
        leaked.retain(|id| !retired.contains(id) && !reachable(*id));
        let leaked: Vec<PageId> = leaked.into_iter().collect();
        state.retired.extend_from_slice(&leaked);
        Ok(leaked)
    }

    fn try_maintain(&self, node: PageId) -> Option<Maintenance<'_>> {
        let is_first = self.maintained.lock().insert(node);
        is_first.then(|| Maintenance { store: self, node })
    }
}

impl VacuumStore for WorkingPages {
    fn delete_in_run(
        &self,
        page: PageId,
        delete: &mut dyn FnMut(&mut [u8]) -> bedload_pages::Result<bool>,
    ) -> bedload_pages::Result<()> {
        self.make_room()?;
        let latch = self.latches.exclusive(page);
        // It may have been reclaimed since it was listed.
        let before = self.find(page)?;
        let Some(before) = before.filter(|before| before.is_of_kind(PageKind::Run)) else {
            return Ok(());
        };
        let mut changed = Page::clone(&before);
        if delete(changed.payload_mut())? {
            let mut state = self.state.lock();
            match state.dirty.get_mut(&page) {
                Some(place) => *place = Some(Arc::new(changed)),
                None => state.make_dirty(page, changed),
            }
        }
        drop(latch);
        Ok(())
    }

    fn run_pages(&self, after: Option<PageId>, limit: usize) -> bedload_pages::Result<Vec<PageId>> {
        let state = self.state.lock();
        let mut pages: BTreeSet<PageId> = state.map.iter().map(|(id, _)| id).collect();
        pages.extend(state.dirty.keys());
        let pages = pages.into_iter();
        let pages = pages.filter(|&id| after.is_none_or(|after| after < id));
        Ok(pages.take(limit).collect())
    }
}

/// Writes pages of a run. Ordinary ones become dirty pages and are spilled side by side, in the
/// order in which they were written; long ones go to the file at once, as they never change. The
/// checkpoint that first names a page makes it durable.
#[derive(Debug)]
pub struct WorkingRun<'s> {
    store: &'s WorkingPages,
}

impl WorkingRun<'_> {
    fn write_long(&self, id: PageId, page: &mut Page) -> Result<()> {
        let file = &self.store.file;
        let checkpoint = self.store.published().number() + 1;
        let unwritten = Unwritten {
            kind: PageKind::Run,
            logical: id.get(),
            page,
        };
        let slot = file.write_long(unwritten, checkpoint)?;
        let mut state = self.store.state.lock();
        state.ids.reserved.remove(&id);
        state.place(file, id, slot);
        Ok(())
    }
}

impl RunWriter for WorkingRun<'_> {
    fn reserve(&mut self) -> bedload_pages::Result<Reserved> {
        self.store.reserve()
    }

    fn write(&mut self, reserved: Reserved, payload: &[u8]) -> bedload_pages::Result<()> {
        let file = &self.store.file;
        let (mut page, places) = file.page_for(payload.len());
        page.payload_mut()[..payload.len()].copy_from_slice(payload);
        if places > 1 {
            return Ok(self.write_long(reserved.id, &mut page)?);
        }
        self.store.make_room()?;
        page.set_kind(PageKind::Run);
        let mut state = self.store.state.lock();
        state.ids.reserved.remove(&reserved.id);
        state.make_dirty(reserved.id, page);
        Ok(())
    }

    fn finish(self) -> bedload_pages::Result<()> {
        Ok(())
    }
}

/// The right to maintain a node, until dropped.
#[derive(Debug)]
pub struct Maintenance<'s> {
    store: &'s WorkingPages,
    node: PageId,
}

impl Drop for Maintenance<'_> {
    fn drop(&mut self) {
        self.store.maintained.lock().remove(&self.node);
    }
}
