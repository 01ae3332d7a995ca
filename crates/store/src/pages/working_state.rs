//! The state of the working pages, under one lock: the map, the dirty pages and their age, and
//! which ids are free. Its rules stand in [`working`](super::working).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bedload_pages::PageId;

use super::catalogue_pages::WrittenParts;
use super::extents::Extent;
use super::page::{Page, PageKind};
use super::page_file::{PageFile, Unwritten};
use super::page_map::{PageMap, Slot};
use super::version::PageVersion;
use crate::error::Result;

/// The pages as they are being changed.
#[derive(Debug)]
pub(super) struct State {
    pub(super) map: PageMap,
    /// Pages that were changed since they were last written; none where a batch has the page at
    /// present.
    pub(super) dirty: HashMap<PageId, Option<Arc<Page>>>,
    /// The dirty pages, in the order in which they became so.
    age: VecDeque<PageId>,
    /// Places written since the last checkpoint.
    pub(super) private: HashSet<Extent>,
    /// Places that the last checkpoint names and the next will not.
    pub(super) replaced: Vec<Extent>,
    pub(super) ids: Ids,
    pub(super) retired: Vec<PageId>,
    /// The last checkpoint.
    pub(super) published: Arc<PageVersion>,
    /// Places of the last checkpoint's directory of the catalogue and upper map levels.
    pub(super) fixtures: Vec<u32>,
    /// The parts of its catalogue.
    pub(super) parts: WrittenParts,
}

/// Logical ids that are free.
#[derive(Debug, Default)]
pub(super) struct Ids {
    free: BTreeSet<u32>,
    end: u32,
    pub(super) reserved: HashSet<PageId>,
}

impl Ids {
    fn of_map(map: &PageMap) -> Self {
        let mut ids = Self {
            end: 1,
            ..Self::default()
        };
        for (id, _) in map.iter() {
            ids.free.extend(ids.end..id.get());
            ids.end = id.get() + 1;
        }
        ids
    }

    /// The least free id; `None` if there is none.
    pub(super) fn reserve(&mut self) -> Option<PageId> {
        let raw = match self.free.pop_first() {
            Some(raw) => raw,
            None => {
                let raw = self.end;
                self.end = raw.checked_add(1)?;
                raw
            }
        };
        let id = PageId::new(raw).expect("ids begin at 1");
        self.reserved.insert(id);
        Some(id)
    }

    pub(super) fn release(&mut self, id: PageId) {
        self.reserved.remove(&id);
        self.free.insert(id.get());
    }
}

impl State {
    /// The pages as a checkpoint has them, whose directory and upper map levels stand at
    /// `fixtures`.
    pub(super) fn of_version(
        published: Arc<PageVersion>,
        (fixtures, parts): (Vec<u32>, WrittenParts),
    ) -> Self {
        let map = published.map.clone();
        Self {
            dirty: HashMap::new(),
            age: VecDeque::new(),
            private: HashSet::new(),
            replaced: Vec::new(),
            ids: Ids::of_map(&map),
            retired: Vec::new(),
            map,
            published,
            fixtures,
            parts,
        }
    }

    /// Forgets every change since the last checkpoint (rule 5).
    pub(super) fn roll_back(&mut self, file: &PageFile) {
        self.dirty.clear();
        self.age.clear();
        self.replaced.clear();
        self.retired.clear();
        self.map = self.published.map.clone();
        self.ids = Ids::of_map(&self.map);
        file.free(self.private.drain());
    }

    /// Writes dirty pages, oldest first, until only `keep` are left. On an error the pages stay
    /// dirty.
    pub(super) fn spill(&mut self, file: &PageFile, keep: usize) -> Result<()> {
        let count = self.dirty.len().saturating_sub(keep);
        let mut pages: Vec<(PageId, Page)> = Vec::with_capacity(count);
        for _ in 0..self.age.len() {
            if pages.len() == count {
                break;
            }
            let Some(id) = self.age.pop_front() else { break };
            match self.dirty.remove(&id) {
                Some(Some(page)) => pages.push((id, Arc::unwrap_or_clone(page))),
                // A batch has it, and will put it back.
                Some(None) => {
                    self.dirty.insert(id, None);
                    self.age.push_back(id);
                }
                // It was retired.
                None => {}
            }
        }
        // Neighbours in the tree often have neighbouring ids; side by side on the disk they are
        // read together.
        pages.sort_unstable_by_key(|(id, _)| *id);
        let mut unwritten: Vec<Unwritten<'_>> = pages
            .iter_mut()
            .map(|(id, page)| {
                let kind = if page.is_of_kind(PageKind::Run) {
                    PageKind::Run
                } else {
                    PageKind::Tree
                };
                Unwritten {
                    kind,
                    logical: id.get(),
                    page,
                }
            })
            .collect();
        let written = file.write(&mut unwritten, self.published.number() + 1);
        let slots = match written {
            Ok(slots) => slots,
            Err(error) => {
                for (id, page) in pages {
                    self.make_dirty(id, page);
                }
                return Err(error);
            }
        };
        for ((id, page), slot) in pages.into_iter().zip(slots) {
            self.place(file, id, slot);
            file.cache.insert(slot.page, Arc::new(page));
        }
        Ok(())
    }

    pub(super) fn make_dirty(&mut self, id: PageId, page: Page) {
        self.dirty.insert(id, Some(Arc::new(page)));
        self.age.push_back(id);
    }

    /// Takes a dirty page back from a batch; its age stands in the queue already.
    pub(super) fn put_back(&mut self, taken: Taken) {
        if let Some(place) = self.dirty.get_mut(&taken.id) {
            *place = Some(Arc::new(taken.page));
        }
    }

    /// Notes where a page was written.
    pub(super) fn place(&mut self, file: &PageFile, id: PageId, slot: Slot) {
        let before = self.map.set(id, slot);
        self.dispose(file, before);
        self.private.insert(slot.extent());
    }

    /// Gives up the place of a page that has changed or gone.
    fn dispose(&mut self, file: &PageFile, slot: Slot) {
        if self.private.remove(&slot.extent()) {
            file.free(std::iter::once(slot.extent()));
        } else if slot.page != 0 {
            self.replaced.push(slot.extent());
        }
    }

    /// Removes a retired page for good. Descents couple latches, so none can reach it after the
    /// batch that unlinked it; a page pinned meanwhile lives in its guard.
    pub(super) fn forget(&mut self, file: &PageFile, id: PageId) {
        self.dirty.remove(&id);
        let slot = self.map.remove(id);
        self.dispose(file, slot);
        self.ids.free.insert(id.get());
    }
}

/// Where a page was before a batch took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Dirty,
    Clean,
    Reserved,
}

/// A page that a batch has taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) id: PageId,
    pub(super) page: Page,
    pub(super) from: Origin,
}
