//! The contract between a tree and whatever keeps its pages.
//!
//! It is written to the weakest of its hosts, a database server with a write-ahead log that knows neither
//! multi-page snapshots nor a heap shared between processes. A tree that relies on nothing else runs on all.
//!
//! # Rules
//!
//! 1. **Identity.** Page ids are logical and stable. Header, checksum and placement are the store's own; a tree
//!    sees `payload_len()` bytes. `(id, generation)` names one life of a page and is never given out twice.
//! 2. **Latches.** [`PageRead::read`] latches shared, [`PageStore::batch`] exclusively. Latches are taken parent
//!    before child, left before right, the meta page last. Who descends holds the parent until it has the child.
//! 3. **Atomicity.** A batch latches at most [`MAX_BATCH_PAGES`] pages and may fail; its `commit` cannot, and
//!    publishes all its pages or, after a crash, none. A batch dropped before commit has changed nothing. It may
//!    grow before its commit ([`Batch::add`]): which children to latch is written in their parent, and trustworthy
//!    only while the parent is latched.
//! 4. **Allocation.** A commit never allocates: [`PageStore::reserve`] hands out a page before it. Reserving waits
//!    for no latch, so it may be done while latches are held. A page that no committed batch made reachable is a
//!    leak after a crash, found by [`PageStore::sweep`].
//! 5. **Runs.** Pages written by a [`RunWriter`] are durable before a batch that names them commits. Until one is
//!    put into a batch it does not change, and may be pinned, which takes no latch. Only a vacuum changes it, and
//!    then a pin keeps what it had, or the vacuum waits for it.
//! 6. **Retirement.** A retired page may still be read by whoever reached it before; [`PageStore::reclaim`]
//!    returns those that nobody can reach any more.
//!    What was written by a [`RunWriter`] and is not reclaimed yet, a vacuum can still find and change
//!    ([`VacuumStore`]).
//! 7. **State.** What must survive is in pages. What a handle remembers it checks against the page's generation;
//!    so a page that is free, or has begun another life, may be latched: the store answers with whatever the page
//!    holds, or with an error.

use std::ops::Deref;
use std::sync::Arc;

use super::error::Result;
use super::page_id::PageId;

/// The most pages one batch may latch: parent, child, sibling, meta.
pub const MAX_BATCH_PAGES: usize = 4;

/// A fresh page that no tree names yet (rule 4): put it into a batch, or give it back with
/// [`PageStore::release`]. Its payload is unspecified until a batch has written it.
#[derive(Debug)]
#[must_use = "a page that is neither written nor released is a leak until the next sweep"]
pub struct Reserved {
    /// The page.
    pub id: PageId,
    /// Names this life of the page (rule 1); greater than that of every earlier life.
    pub generation: u64,
}

/// Reading pages: all that a lookup or a cursor asks for.
pub trait PageRead {
    /// A page latched shared (rule 2), or an immutable page of a snapshot, which needs no latch. Holds the payload.
    type Guard<'s>: Deref<Target = [u8]>
    where
        Self: 's;

    /// Bytes a tree may use in each page: a multiple of 8, from 256 up to 65,528.
    fn payload_len(&self) -> usize;

    /// Bytes of the longest page that a [`RunWriter`] may write. Where that is more than
    /// [`payload_len`](Self::payload_len), the store keeps long pages: each is read as a whole, under one id.
    fn payload_max(&self) -> usize {
        self.payload_len()
    }

    /// Latches the page shared and returns its payload.
    ///
    /// # Errors
    ///
    /// The page does not exist, could not be read, or fails its checksum.
    fn read(&self, id: PageId) -> Result<Self::Guard<'_>>;

    /// Says that these pages are going to be read soon, in the order of their ids or against it. A store whose pages come
    /// from a disk may begin to fetch them; it does not wait for them, and what it cannot do it leaves.
    fn read_ahead(&self, ids: &[PageId]) {
        let _ = ids;
    }

    /// What [`remember`](Self::remember) was told of a page of a run, if the store has kept it.
    fn recall(&self, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
        let _ = (page, run);
        None
    }

    /// Offers the store to keep what its user has found in a page of a run, so that the page need not be read again. What
    /// depends on more than the run as it was written must not be kept. A store keeps nothing by default: it pays where
    /// reading a page does not come down to a look at memory.
    fn remember(&self, page: PageId, run: RunLife, found: &Arc<[u64]>) {
        let _ = (page, run, found);
    }
}

/// Names a run among all that a store has ever had: its first page, and the generation of that (rule 1).
pub type RunLife = (PageId, u64);

/// Changing pages.
pub trait PageStore: PageRead {
    /// Exclusive latches on the pages of one atomic change.
    type Batch<'s>: Batch
    where
        Self: 's;
    /// An unlatched guard on an immutable page.
    type Pin<'s>: Deref<Target = [u8]>
    where
        Self: 's;
    /// Writes immutable pages.
    type RunWriter<'s>: RunWriter
    where
        Self: 's;
    /// The conditional lock of [`PageStore::try_maintain`], released when dropped.
    type Maintenance<'s>
    where
        Self: 's;

    /// Latches up to [`MAX_BATCH_PAGES`] distinct pages exclusively, in the order given, which must obey rule 2.
    /// Pages reserved but not yet written may be among them.
    ///
    /// # Errors
    ///
    /// A page could not be read, or the store cannot promise that the commit will succeed. No latch is held then.
    ///
    /// # Panics
    ///
    /// If a page is named twice, or there are more than [`MAX_BATCH_PAGES`].
    fn batch(&self, ids: &[PageId]) -> Result<Self::Batch<'_>>;

    /// Hands out a fresh page.
    ///
    /// # Errors
    ///
    /// The store is full.
    fn reserve(&self) -> Result<Reserved>;

    /// Takes back a reserved page that was not written.
    fn release(&self, reserved: Reserved);

    /// Begins to write pages outside of any batch (rule 5).
    ///
    /// # Errors
    ///
    /// The store cannot accept writes.
    fn run_writer(&self) -> Result<Self::RunWriter<'_>>;

    /// An unlatched guard on a page that was written by a [`RunWriter`] and never put into a batch since (rule 5).
    ///
    /// # Errors
    ///
    /// As for [`PageRead::read`].
    fn pin(&self, id: PageId) -> Result<Self::Pin<'_>>;

    /// Declares pages unreachable from every root, by a batch already committed (rule 6).
    fn retire(&self, pages: &[PageId]);

    /// Makes retired pages that no reader can reach available again; returns how many.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes.
    fn reclaim(&self) -> Result<usize>;

    /// Retires every page that is allocated, not reserved by a live handle, not retired, and not `reachable`;
    /// returns them in ascending order. To be called when no operation is under way.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes.
    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>>;

    /// The right to run a maintenance job on a node, unless somebody has it already. It outlives latches and
    /// excludes nobody else; a job whose holder vanished before publishing is lost without harm.
    fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>>;
}

/// A store on whose runs entries can be deleted in place. A vacuum must reach whatever a reader may still look at, so
/// this is about pages, in whichever state they are, and not about what trees name.
pub trait VacuumStore: PageStore {
    /// Latches a page of a run exclusively, lets `delete` change its payload, and publishes that, atomically and durably
    /// as a batch of its own. `delete` says whether it changed anything; if it failed it must have changed nothing.
    /// Who has the page pinned keeps what was pinned, or is waited for. A page that is not part of a run any more may
    /// be left alone.
    ///
    /// # Errors
    ///
    /// The page could not be read or published, or `delete` failed.
    fn delete_in_run(&self, page: PageId, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()>;

    /// As [`delete_in_run`](Self::delete_in_run), for a change that may get lost, and need not be published: a hint.
    ///
    /// # Errors
    ///
    /// The page could not be read, or `hint` failed.
    fn hint_in_run(&self, page: PageId, hint: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        self.delete_in_run(page, hint)
    }

    /// Every page that was written by a [`RunWriter`] and is not reclaimed: those of runs that a tree names, of runs that
    /// are retired, and leaks. Others may be among them.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn run_pages(&self) -> Result<Vec<PageId>>;
}

/// An atomic change of a few pages (rule 3).
pub trait Batch {
    /// The payload of the `index`-th page of the batch.
    ///
    /// # Panics
    ///
    /// If the batch has no such page.
    fn page(&self, index: usize) -> &[u8];

    /// Latches one more page exclusively, behind those that the batch has (rules 2 and 3).
    ///
    /// # Errors
    ///
    /// As for [`PageStore::batch`]. The batch keeps what it had.
    ///
    /// # Panics
    ///
    /// If the batch has the page already, or [`MAX_BATCH_PAGES`] pages.
    fn add(&mut self, id: PageId) -> Result<()>;

    /// Runs `apply` on the payloads, in the order in which the pages were named, and publishes them together.
    fn commit(self, apply: impl FnOnce(&mut [&mut [u8]]));
}

/// Writes immutable pages, durable before a batch that names them commits (rule 5). Pages are reserved through the
/// writer, so that it may place them side by side.
pub trait RunWriter {
    /// Reserves the next page, so that its id can be written into the page before it.
    ///
    /// # Errors
    ///
    /// The store is full.
    fn reserve(&mut self) -> Result<Reserved>;

    /// Writes a page reserved by this writer. `payload` may be shorter than a page; the rest is zero. It may be longer, up to
    /// [`PageRead::payload_max`]; a long page must never be put into a batch.
    ///
    /// # Errors
    ///
    /// The page could not be written.
    ///
    /// # Panics
    ///
    /// If `payload` is longer than [`PageRead::payload_max`].
    fn write(&mut self, page: Reserved, payload: &[u8]) -> Result<()>;

    /// Ends the run: every page written is as durable as rule 5 asks. Pages of a writer dropped without this are
    /// leaks.
    ///
    /// # Errors
    ///
    /// The pages could not be made durable.
    fn finish(self) -> Result<()>;
}

/// A shared store is a store: trees own a reference or an [`Arc`] as readily as the store itself.
macro_rules! forward_to_shared_store {
    ($([$($lifetime:lifetime)?] $shared:ty),*) => {$(
        impl<$($lifetime,)? S: PageRead> PageRead for $shared {
            type Guard<'s>
                = S::Guard<'s>
            where
                Self: 's;

            fn payload_len(&self) -> usize {
                (**self).payload_len()
            }

            fn payload_max(&self) -> usize {
                (**self).payload_max()
            }

            fn read(&self, id: PageId) -> Result<Self::Guard<'_>> {
                (**self).read(id)
            }

            fn read_ahead(&self, ids: &[PageId]) {
                (**self).read_ahead(ids);
            }

            fn recall(&self, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
                (**self).recall(page, run)
            }

            fn remember(&self, page: PageId, run: RunLife, found: &Arc<[u64]>) {
                (**self).remember(page, run, found);
            }
        }

        impl<$($lifetime,)? S: PageStore> PageStore for $shared {
            type Batch<'s>
                = S::Batch<'s>
            where
                Self: 's;
            type Pin<'s>
                = S::Pin<'s>
            where
                Self: 's;
            type RunWriter<'s>
                = S::RunWriter<'s>
            where
                Self: 's;
            type Maintenance<'s>
                = S::Maintenance<'s>
            where
                Self: 's;

            fn batch(&self, ids: &[PageId]) -> Result<Self::Batch<'_>> {
                (**self).batch(ids)
            }

            fn reserve(&self) -> Result<Reserved> {
                (**self).reserve()
            }

            fn release(&self, reserved: Reserved) {
                (**self).release(reserved);
            }

            fn run_writer(&self) -> Result<Self::RunWriter<'_>> {
                (**self).run_writer()
            }

            fn pin(&self, id: PageId) -> Result<Self::Pin<'_>> {
                (**self).pin(id)
            }

            fn retire(&self, pages: &[PageId]) {
                (**self).retire(pages);
            }

            fn reclaim(&self) -> Result<usize> {
                (**self).reclaim()
            }

            fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>> {
                (**self).sweep(reachable)
            }

            fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>> {
                (**self).try_maintain(node)
            }
        }
    )*};
}

macro_rules! forward_vacuum_to_shared_store {
    ($([$($lifetime:lifetime)?] $shared:ty),*) => {$(
        impl<$($lifetime,)? S: VacuumStore> VacuumStore for $shared {
            fn delete_in_run(
                &self,
                page: PageId,
                delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>,
            ) -> Result<()> {
                (**self).delete_in_run(page, delete)
            }

            fn hint_in_run(
                &self,
                page: PageId,
                hint: &mut dyn FnMut(&mut [u8]) -> Result<bool>,
            ) -> Result<()> {
                (**self).hint_in_run(page, hint)
            }

            fn run_pages(&self) -> Result<Vec<PageId>> {
                (**self).run_pages()
            }
        }
    )*};
}

forward_vacuum_to_shared_store!(['a] &'a S, [] Arc<S>);
forward_to_shared_store!(['a] &'a S, [] Arc<S>);
