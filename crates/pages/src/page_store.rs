//! The contract between a tree and the store of its pages.
//!
//! It is written to the weakest host, a database server with a write-ahead log, without multi-page
//! snapshots or a heap shared between processes. A tree that relies on nothing else runs on every
//! store.
//!
//! # Rules
//!
//! 1. **Identity.** Page ids are logical and stable. Header, checksum and placement are the store's
//!    own; a tree sees `payload_len()` bytes. `(id, generation)` names one life of a page and is
//!    never given out twice.
//! 2. **Latches.** [`PageRead::read`] latches shared, [`PageStore::batch`] exclusively. Latches are
//!    taken parent before child, left before right, the meta page last. A descent holds the
//!    parent's latch until it has the child's.
//! 3. **Atomicity.** A batch latches at most [`MAX_BATCH_PAGES`] pages and may fail; its `commit`
//!    cannot fail, and publishes all its pages or, after a crash, none. A batch dropped before
//!    commit has changed nothing. It may grow before its commit ([`Batch::add`]), because the
//!    children to latch are named in their parent, which is reliable only while latched.
//! 4. **Allocation.** A commit never allocates: pages are reserved before it, with
//!    [`PageStore::reserve`]. Reserving waits for no latch, so it may be done while latches are
//!    held. A page that no committed batch made reachable is a leak after a crash, found by
//!    [`PageStore::sweep`].
//! 5. **Runs.** Pages written by a [`RunWriter`] are durable before a batch that names them
//!    commits. Until such a page is part of a batch it is immutable and may be pinned, which takes
//!    no latch. Only a vacuum changes it: either pins keep the old bytes, or the vacuum waits for
//!    them.
//! 6. **Retirement.** A retired page may still be read by a reader that reached it earlier;
//!    [`PageStore::reclaim`] frees retired pages that no reader can reach. Until a run's page is
//!    reclaimed, a vacuum can find and change it ([`VacuumStore`]).
//! 7. **State.** Durable state is in pages. A handle validates its cached state by the page's
//!    generation. It may therefore latch a page that is free or in another life: the store returns
//!    the page's current bytes, or an error.

use std::ops::Deref;
use std::sync::Arc;

use super::error::Result;
use super::page_id::PageId;

/// The most pages one batch may latch: parent, child, sibling, meta.
pub const MAX_BATCH_PAGES: usize = 4;

/// A fresh page that no tree names yet (rule 4). It is put into a batch, or returned with
/// [`PageStore::release`]. Its payload is unspecified until a batch has written it.
#[derive(Debug)]
#[must_use = "a page that is neither written nor released is a leak until the next sweep"]
pub struct Reserved {
    /// The page.
    pub id: PageId,
    /// Identifies this life of the page (rule 1); greater than in every earlier life.
    pub generation: u64,
}

/// Read access to pages, enough for lookups and cursors.
pub trait PageRead {
    /// A page latched shared (rule 2), or an immutable page of a snapshot, which needs no latch.
    /// Holds the payload.
    type Guard<'s>: Deref<Target = [u8]>
    where
        Self: 's;

    /// Bytes a tree may use in each page: a multiple of 8, from 256 up to 65,528.
    fn payload_len(&self) -> usize;

    /// Length in bytes of the longest page that a [`RunWriter`] may write. If it exceeds
    /// [`payload_len`](Self::payload_len), the store supports long pages, each read under one id.
    fn payload_max(&self) -> usize {
        self.payload_len()
    }

    /// Latches the page shared and returns its payload.
    ///
    /// # Errors
    ///
    /// The page does not exist, could not be read, or fails its checksum.
    fn read(&self, id: PageId) -> Result<Self::Guard<'_>>;

    /// Announces that these pages will be read soon, in ascending or descending order of their ids
    /// if they are neighbours. A store on a disk may start to fetch them. It does not wait, and may
    /// ignore the hint.
    fn read_ahead(&self, ids: &[PageId]) {
        let _ = ids;
    }

    /// Whether it pays to [announce](Self::read_ahead) even the few pages of one lookup: if pages
    /// that are read now are likely to come from a disk, which can fetch several at a time. Never
    /// by default.
    fn reads_wait(&self) -> bool {
        false
    }

    /// Returns what [`remember`](Self::remember) was told of a page of a run, if the store has kept it.
    fn recall(&self, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
        let _ = (page, run);
        None
    }

    /// Offers the store to keep what its user has found in a page of a run, so that the page need
    /// not be read again; the store calls `found` only if it would keep the result. A finding that
    /// depends on more than the run as it was written must not be kept. A store keeps nothing by
    /// default: it pays where reading a page costs more than a look at memory.
    fn remember(&self, page: PageId, run: RunLife, found: impl FnOnce() -> Option<Arc<[u64]>>) {
        let _ = (page, run, found);
    }
}

/// Names a run among all that a store has ever had: its first page, and the generation of that
/// (rule 1).
pub type RunLife = (PageId, u64);

/// Write access to pages.
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

    /// Latches up to [`MAX_BATCH_PAGES`] distinct pages exclusively, in the order given, which must
    /// obey rule 2. Pages reserved but not yet written may be among them.
    ///
    /// # Errors
    ///
    /// A page could not be read, or the store cannot promise that the commit will succeed. No latch
    /// is held then.
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

    /// Returns an unlatched guard on a page that a [`RunWriter`] wrote and no batch has changed
    /// (rule 5).
    ///
    /// # Errors
    ///
    /// As for [`PageRead::read`].
    fn pin(&self, id: PageId) -> Result<Self::Pin<'_>>;

    /// Retires pages that a committed batch made unreachable from every root (rule 6).
    fn retire(&self, pages: &[PageId]);

    /// Frees the retired pages that no reader can reach; returns their number.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes.
    fn reclaim(&self) -> Result<usize>;

    /// Retires every page that is allocated, not reserved by a live handle, not retired, and not
    /// `reachable`; returns them in ascending order. No other operation may run meanwhile.
    ///
    /// # Errors
    ///
    /// The store cannot accept writes.
    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>>;

    /// Takes the right to run a maintenance job on a node; `None` if another thread has it. It
    /// outlives latches and excludes nothing else. A job whose holder vanishes before publishing is
    /// lost without harm.
    fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>>;
}

/// A store whose runs support deleting entries in place. A vacuum must reach every page that a
/// reader may still see, so it works on pages in any state, not on the pages that trees name.
pub trait VacuumStore: PageStore {
    /// Latches a page of a run exclusively, lets `delete` change its payload, and publishes the
    /// change, atomic and durable like a batch of its own. `delete` returns whether it changed
    /// anything; if it fails it must have changed nothing. Pins keep the old bytes, or the call
    /// waits for them. A page that is no longer part of a run may be skipped.
    ///
    /// # Errors
    ///
    /// The page could not be read or published, or `delete` failed.
    fn delete_in_run(&self, page: PageId, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()>;

    /// Like [`delete_in_run`](Self::delete_in_run), for a hint: a change that may be lost and need
    /// not be published.
    ///
    /// # Errors
    ///
    /// The page could not be read, or `hint` failed.
    fn hint_in_run(&self, page: PageId, hint: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        self.delete_in_run(page, hint)
    }

    /// Whether a change of a page by [`delete_in_run`](Self::delete_in_run) is durable; waits until
    /// it is if `waits`. Hints become durable at any time and in any order, so that a hint in one
    /// page that rests on deletions in another is given after these are durable.
    ///
    /// # Errors
    ///
    /// The page could not be read.
    fn is_durable(&self, _page: PageId, _waits: bool) -> Result<bool> {
        Ok(true)
    }

    /// Returns the first pages with greater ids than `after`, at most `limit` and ascending, that a
    /// [`RunWriter`] wrote and that are not reclaimed: pages of live runs, of retired runs, and
    /// leaks. It may return other pages too. An
    /// empty list means that no page follows.
    ///
    /// # Errors
    ///
    /// The store failed.
    fn run_pages(&self, after: Option<PageId>, limit: usize) -> Result<Vec<PageId>>;
}

/// An atomic change of a few pages (rule 3).
pub trait Batch {
    /// The payload of the `index`-th page of the batch.
    ///
    /// # Panics
    ///
    /// If the batch has no such page.
    fn page(&self, index: usize) -> &[u8];

    /// Latches one more page exclusively, after those of the batch (rules 2 and 3).
    ///
    /// # Errors
    ///
    /// As for [`PageStore::batch`]. The batch keeps what it had.
    ///
    /// # Panics
    ///
    /// If the batch has the page already, or [`MAX_BATCH_PAGES`] pages.
    fn add(&mut self, id: PageId) -> Result<()>;

    /// Runs `apply` on the payloads, in the order of the pages in the batch, and publishes them
    /// together.
    fn commit(self, apply: impl FnOnce(&mut [&mut [u8]]));
}

/// Writes immutable pages, durable before a batch that names them commits (rule 5). It reserves
/// their pages too, so that it can make them contiguous.
pub trait RunWriter {
    /// Reserves the next page, so that the previous page can name it.
    ///
    /// # Errors
    ///
    /// The store is full.
    fn reserve(&mut self) -> Result<Reserved>;

    /// Writes a page reserved by this writer. A `payload` shorter than a page is padded with zeros.
    /// It may be as long as [`PageRead::payload_max`]; a long page must never be part of a batch.
    ///
    /// # Errors
    ///
    /// The page could not be written.
    ///
    /// # Panics
    ///
    /// If `payload` is longer than [`PageRead::payload_max`].
    fn write(&mut self, page: Reserved, payload: &[u8]) -> Result<()>;

    /// Ends the run and makes its pages as durable as rule 5 requires. Pages of a writer dropped
    /// without this are leaks.
    ///
    /// # Errors
    ///
    /// The pages could not be made durable.
    fn finish(self) -> Result<()>;
}

/// Implements the contract for references and [`Arc`]s, so that a tree can own either.
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

            fn reads_wait(&self) -> bool {
                (**self).reads_wait()
            }

            fn recall(&self, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
                (**self).recall(page, run)
            }

            fn remember(&self, page: PageId, run: RunLife, found: impl FnOnce() -> Option<Arc<[u64]>>) {
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

            fn is_durable(&self, page: PageId, waits: bool) -> Result<bool> {
                (**self).is_durable(page, waits)
            }

            fn run_pages(&self, after: Option<PageId>, limit: usize) -> Result<Vec<PageId>> {
                (**self).run_pages(after, limit)
            }
        }
    )*};
}

forward_vacuum_to_shared_store!(['a] &'a S, [] Arc<S>);
forward_to_shared_store!(['a] &'a S, [] Arc<S>);
