//! A page store on PostgreSQL's buffers, for the pages of one index.
//!
//! How the rules of [`page_store`](bedload_pages::PageStore) are kept:
//!
//! 1. *Identity.* A page's id is its block number; block 0 is the meta page, which no tree sees.
//!    The generation is counted up on the page itself whenever it is handed out.
//! 2. *Latches* are the content locks of buffers. Replay of a batch takes them in the batch's
//!    order, so readers on a standby couple theirs as those on the primary do.
//! 3. *Atomicity.* A batch is one generic WAL record, which holds four pages. Its changes are made
//!    on copies: an error before the record is inserted changes nothing, and inserting it is a
//!    critical section.
//! 4. *Allocation.* A page is handed out from the free space map, once a look at the page has
//!    confirmed it, or by extending the file; neither waits for a content lock. That it is reserved
//!    is noted in its buffer alone, where it stays pinned until it is written: afterwards, and
//!    after a crash, a page that was not written is what it was before, or reserved by a
//!    transaction that has ended, hence free. A reservation by `VACUUM`, which has no transaction
//!    id, may look like one of those meanwhile; the pin keeps others off the page.
//! 5. *Runs.* Pages of a run are logged as a whole, many to a record, when the writer finishes. A
//!    batch that names them is logged after them. A hint is written to the page without a log
//!    record, after its `pd_lower`: these bytes are in no image of the page in the log, and zero
//!    after a vacuum has changed the page. So pages with hints equal those of a standby in all
//!    bytes that are logged.
//! 6. *Retirement.* A page is handed out again when no process has it pinned. A list of runs that a
//!    reader has copied may still name it, on this server or, as replay waits for no reader, on a
//!    standby: the page itself says to which run it belongs.
//! 7. *State.* The store itself remembers the length of the file. The process remembers tops and
//!    filters of runs by names that are never used twice (`memory.rs`), and buffers of pages, which
//!    the server looks at again (`recent.rs`).
//!
//! A failure of the server, such as a failed read or a full disk, is not an [`Error`]: it unwinds
//! as an error of the server, which ends the transaction. Damage on a page is an [`Error`].
//!
//! # Threads
//!
//! There are none: a process has its own [`PgPages`], and shares nothing with others but buffers
//! and locks.

#![expect(
    unsafe_code,
    reason = "it calls the buffer manager and the lock manager of PostgreSQL"
)]

mod batch;
mod buffer;
mod header;
mod memory;
mod recent;
mod recycle;
mod run_writer;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use bedload_pages::{Error, PageId, PageRead, PageStore, Reserved, Result, RunLife, VacuumStore};
use pgrx::pg_sys;

use crate::compat;
use crate::locks;
use batch::PgBatch;
use buffer::Pin;
pub(crate) use buffer::{Latch, Mode};
pub(crate) use header::{Life, PAYLOAD, PAYLOAD_LEN, State, life};
pub(crate) use recent::buffer_misses;
pub(crate) use recycle::Named;
use run_writer::PgRunWriter;

const INVALID_SUBTRANSACTION: pg_sys::SubTransactionId = 0;

/// The pages of an index, while its relation is open.
pub(crate) struct PgPages {
    relation: pg_sys::Relation,
    fork: pg_sys::ForkNumber::Type,
    /// The length of the file when it was last asked for; it only grows.
    blocks: Cell<u32>,
    /// Pages given back unwritten, which are the next to be handed out.
    released: RefCell<Vec<PageId>>,
    /// Pins on pages that are reserved and not written yet. The server leaves `VACUUM` out when it
    /// looks for the oldest snapshot, so the stamp of a reservation by `VACUUM` does not keep other
    /// sessions off the page; a pin does.
    reserved: RefCell<BTreeMap<PageId, Pin>>,
    /// Nodes that this process maintains: PostgreSQL's locks do not exclude their own holder.
    maintained: RefCell<BTreeSet<PageId>>,
    /// Whether the transaction gets an id with its first right to a node.
    takes_id: Cell<bool>,
    /// Whether each read looks whether the statement was cancelled.
    is_cancellable: Cell<bool>,
    /// The buffers that blocks are read into; null for all.
    strategy: Cell<pg_sys::BufferAccessStrategy>,
}

/// A page of the index does not exist, or is not what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PgPagesError {
    NoSuchPage(PageId),
    NotInRun(PageId),
}

impl std::fmt::Display for PgPagesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchPage(id) => write!(f, "block {id} does not exist"),
            Self::NotInRun(id) => write!(f, "block {id} is not part of a run and cannot be pinned"),
        }
    }
}

impl std::error::Error for PgPagesError {}

impl PgPages {
    /// The pages of an index relation.
    ///
    /// # Safety
    ///
    /// The relation stays open, under a lock that allows what the store is used for, as long as the
    /// store lives.
    pub(crate) unsafe fn new(relation: pg_sys::Relation) -> Self {
        // SAFETY: the caller's.
        unsafe { Self::of_fork(relation, pg_sys::ForkNumber::MAIN_FORKNUM) }
    }

    /// The pages of the initial fork of an unlogged index, which are logged all the same.
    ///
    /// # Safety
    ///
    /// As for [`PgPages::new`].
    pub(crate) unsafe fn initial(relation: pg_sys::Relation) -> Self {
        // SAFETY: the caller's.
        unsafe { Self::of_fork(relation, pg_sys::ForkNumber::INIT_FORKNUM) }
    }

    unsafe fn of_fork(relation: pg_sys::Relation, fork: pg_sys::ForkNumber::Type) -> Self {
        Self {
            relation,
            fork,
            blocks: Cell::new(0),
            released: RefCell::default(),
            reserved: RefCell::default(),
            maintained: RefCell::default(),
            takes_id: Cell::new(false),
            is_cancellable: Cell::new(false),
            strategy: Cell::new(std::ptr::null_mut()),
        }
    }

    /// Has the transaction get an id as soon as it has a right to a node: that is before it
    /// reserves a page to merge something into.
    pub(crate) fn take_id_when_maintaining(&self) {
        self.takes_id.set(true);
    }

    /// Has each read look whether the statement was cancelled: for long reads that write nothing.
    pub(crate) fn read_cancellably(&self) {
        self.is_cancellable.set(true);
    }

    /// Has blocks be read into a few buffers, so that those of others stay, until the strategy is
    /// null again.
    ///
    /// # Safety
    ///
    /// The strategy is null, or valid until then.
    pub(crate) unsafe fn read_into(&self, strategy: pg_sys::BufferAccessStrategy) {
        self.strategy.set(strategy);
    }

    pub(crate) fn relation(&self) -> pg_sys::Relation {
        self.relation
    }

    /// The name of the relation's file.
    pub(crate) fn file(&self) -> compat::FileName {
        // SAFETY: the relation is open.
        unsafe { compat::file_of(self.relation) }
    }

    pub(crate) fn is_initial(&self) -> bool {
        self.fork == pg_sys::ForkNumber::INIT_FORKNUM
    }

    /// The number of blocks, asked of the file.
    pub(crate) fn block_count(&self) -> u32 {
        // SAFETY: the relation is open.
        let blocks = unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.relation, self.fork) };
        self.blocks.set(blocks);
        blocks
    }

    /// Says that the file has so many blocks at least, which it keeps as long as its descriptor is
    /// valid.
    pub(crate) fn expect_blocks(&self, blocks: u32) {
        self.blocks.set(self.blocks.get().max(blocks));
    }

    /// How many blocks the file was known to have last.
    pub(crate) fn known_blocks(&self) -> u32 {
        self.blocks.get()
    }

    /// Whether a block lies within the file.
    pub(crate) fn has_block(&self, block: u32) -> bool {
        block < self.blocks.get() || block < self.block_count()
    }

    /// Pins a block that the file has.
    pub(crate) fn pin_block(&self, block: u32) -> Pin {
        // SAFETY: the relation is open, and has the block.
        unsafe { Pin::read(self.relation, self.fork, block, self.strategy.get()) }
    }

    fn pin_page(&self, id: PageId) -> Result<Pin> {
        if !self.has_block(id.get()) {
            return Err(Error::store(PgPagesError::NoSuchPage(id)));
        }
        Ok(self.pin_block(id.get()))
    }

    /// Whether changes of the relation are logged: PostgreSQL's `RelationNeedsWAL`.
    pub(crate) fn needs_wal(&self) -> bool {
        if self.is_initial() {
            return true;
        }
        // SAFETY: set when the server started.
        let wal_level = unsafe { pg_sys::wal_level };
        self.persistence() == pg_sys::RELPERSISTENCE_PERMANENT
            && (!self.is_new() || wal_level.cast_unsigned() >= pg_sys::WalLevel::WAL_LEVEL_REPLICA)
    }

    /// Whether the present transaction has created the relation, or its file.
    fn is_new(&self) -> bool {
        // SAFETY: the relation is open, so its descriptor is valid.
        let relation = unsafe { &*self.relation };
        relation.rd_createSubid != INVALID_SUBTRANSACTION
            || compat::subtransaction_of_file(relation) != INVALID_SUBTRANSACTION
    }

    fn persistence(&self) -> u8 {
        // SAFETY: the relation is open, so its `pg_class` row is valid.
        let persistence = unsafe { (*(*self.relation).rd_rel).relpersistence };
        persistence.cast_unsigned()
    }

    /// The lock on the maintenance of a node: that of row 0 of its page, as an index locks no rows.
    /// Locks of keys (`am/unique.rs`) are of odd rows.
    fn maintenance_lock(&self, node: PageId) -> pg_sys::LOCKTAG {
        // SAFETY: the relation is open.
        let relation = unsafe { (*self.relation).rd_lockInfo.lockRelId };
        let fields = [relation.dbId.to_u32(), relation.relId.to_u32(), node.get()];
        let kind = pg_sys::LockTagType::LOCKTAG_TUPLE;
        locks::tag(kind, fields, 0, pg_sys::DEFAULT_LOCKMETHOD)
    }

    /// Whether other processes can open the index and read its pages.
    pub(crate) fn are_for_others(&self) -> bool {
        self.persistence() != pg_sys::RELPERSISTENCE_TEMP && !self.is_new() && !self.is_initial()
    }
}

/// The next full transaction id: greater than that of every transaction that has one.
fn next_transaction() -> u64 {
    // SAFETY: reads shared memory under its own lock.
    unsafe { pg_sys::ReadNextFullTransactionId() }.value
}

/// The payload of a page latched shared.
pub(crate) struct PgGuard(Latch);

impl PgGuard {
    /// Which state of the page this is: that of its last change that was logged.
    pub(crate) fn version(&self) -> u64 {
        header::version(self.0.page())
    }
}

impl Deref for PgGuard {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.page()[PAYLOAD]
    }
}

/// The payload of a page of a run, copied: replay on a standby does not wait for pins before it
/// changes a page.
pub(crate) struct PgPin(Box<[u8]>);

impl Deref for PgPin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The right to maintain a node, which the end of the transaction takes back too.
pub(crate) struct PgMaintenance<'s> {
    store: &'s PgPages,
    node: PageId,
}

impl Drop for PgMaintenance<'_> {
    fn drop(&mut self) {
        self.store.maintained.borrow_mut().remove(&self.node);
        if !std::thread::panicking() {
            let lock = self.store.maintenance_lock(self.node);
            // SAFETY: the lock was taken with `self`.
            unsafe { pg_sys::LockRelease(&raw const lock, MAINTENANCE_MODE, false) };
        }
    }
}

const MAINTENANCE_MODE: pg_sys::LOCKMODE = pg_sys::ExclusiveLock.cast_signed();

impl PageRead for PgPages {
    type Guard<'s> = PgGuard;

    fn payload_len(&self) -> usize {
        PAYLOAD_LEN
    }

    fn read(&self, id: PageId) -> Result<Self::Guard<'_>> {
        if self.is_cancellable.get() {
            // Without effect while another page is latched.
            pgrx::check_for_interrupts!();
        }
        let latch = self.pin_page(id)?.latch(Mode::Shared);
        header::life_of(latch.page(), id)?;
        Ok(PgGuard(latch))
    }

    fn read_ahead(&self, ids: &[PageId]) {
        // Blocks that follow one another upwards the system fetches by itself, more of them at a
        // time.
        let mut last = None;
        for block in ids.iter().map(|id| id.get()) {
            if last.replace(block) != block.checked_sub(1) && self.has_block(block) {
                // SAFETY: the relation is open, and has the block.
                unsafe { pg_sys::PrefetchBuffer(self.relation, pg_sys::ForkNumber::MAIN_FORKNUM, block) };
                #[cfg(feature = "harness")]
                crate::hooks::note_index_page();
            }
        }
    }

    fn reads_wait(&self) -> bool {
        recent::is_missing()
    }

    fn recall(&self, page: PageId, run: RunLife) -> Option<Arc<[u64]>> {
        memory::recall(self.file(), page, run)
    }

    fn remember(&self, page: PageId, run: RunLife, found: impl FnOnce() -> Option<Arc<[u64]>>) {
        memory::remember(self.file(), page, run, found);
    }
}

impl PageStore for PgPages {
    type Batch<'s> = PgBatch<'s>;
    type Pin<'s> = PgPin;
    type RunWriter<'s> = PgRunWriter<'s>;
    type Maintenance<'s> = PgMaintenance<'s>;

    fn batch(&self, ids: &[PageId]) -> Result<Self::Batch<'_>> {
        PgBatch::new(self, ids)
    }

    fn reserve(&self) -> Result<Reserved> {
        let (reserved, pin) = self.reserve_page()?;
        self.reserved.borrow_mut().insert(reserved.id, pin);
        Ok(reserved)
    }

    fn release(&self, reserved: Reserved) {
        let pin = self.reserved.borrow_mut().remove(&reserved.id);
        if let Some(pin) = pin {
            self.release_page(reserved, pin);
        }
    }

    fn run_writer(&self) -> Result<Self::RunWriter<'_>> {
        Ok(PgRunWriter::new(self))
    }

    fn pin(&self, id: PageId) -> Result<Self::Pin<'_>> {
        let latch = self.pin_page(id)?.latch(Mode::Shared);
        if !header::life_of(latch.page(), id)?.state.is_run() {
            return Err(Error::store(PgPagesError::NotInRun(id)));
        }
        Ok(PgPin(latch.page()[PAYLOAD].into()))
    }

    fn retire(&self, pages: &[PageId]) {
        self.retire_pages(pages);
    }

    fn reclaim(&self) -> Result<usize> {
        Ok(self.reclaim_pages(None))
    }

    fn sweep(&self, reachable: &dyn Fn(PageId) -> bool) -> Result<Vec<PageId>> {
        Ok(self.sweep_pages(reachable))
    }

    fn try_maintain(&self, node: PageId) -> Option<Self::Maintenance<'_>> {
        // SAFETY: asks shared memory. A standby cannot take such a lock, and maintains nothing.
        if unsafe { pg_sys::RecoveryInProgress() } || self.maintained.borrow().contains(&node) {
            return None;
        }
        let lock = self.maintenance_lock(node);
        // SAFETY: the tag is one of a lock.
        let granted = unsafe { pg_sys::LockAcquire(&raw const lock, MAINTENANCE_MODE, false, true) };
        if granted == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return None;
        }
        self.maintained.borrow_mut().insert(node);
        if self.takes_id.get() {
            // SAFETY: a transaction is under way, as a lock was taken.
            unsafe { pg_sys::GetCurrentTransactionId() };
        }
        Some(PgMaintenance { store: self, node })
    }
}

impl VacuumStore for PgPages {
    fn delete_in_run(&self, page: PageId, delete: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        self.delete_in_page(page, delete)
    }

    fn hint_in_run(&self, page: PageId, hint: &mut dyn FnMut(&mut [u8]) -> Result<bool>) -> Result<()> {
        self.hint_in_page(page, hint)
    }

    fn is_durable(&self, page: PageId, waits: bool) -> Result<bool> {
        self.is_change_durable(page, waits)
    }

    fn run_pages(&self, after: Option<PageId>, limit: usize) -> Result<Vec<PageId>> {
        Ok(self.pages_of_runs(after, limit))
    }
}
