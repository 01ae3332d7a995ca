//! Functions for the tests, which call them by SQL: the contracts of stores and trees on this
//! store, and errors where they hurt.

#![expect(
    unsafe_code,
    reason = "relations are opened, and errors raised, by calls into PostgreSQL"
)]

use std::cell::Cell;

use bedload_pages::contract::check_page_store_of_one_thread;
use bedload_pages::{Batch, PageId, PageRead, PageStore, RunWriter};
use bedload_testkit::contract::{ByteKeys, I64Keys, OneThread, Plan, U64Keys, check};
use bedload_trees::bplus_tree::BPlusTreeOptions;
use bedload_trees::contract::{OrderedKeys, TieKeys, TreeIndex};
use pgrx::{Array, IntoDatum, pg_extern, pg_sys};

use crate::hooks;
use crate::index::Index;
use crate::pages::PgPages;

/// Counts of this process: merges, push-downs, splits, work lost, entries written, the most of
/// them for one commit.
#[pg_extern(sql = false)]
fn harness_work() -> Vec<i64> {
    let (work, most) = hooks::work();
    let counts = [
        work.merges,
        work.push_downs,
        work.splits,
        work.lost,
        work.entries_written,
        most,
    ];
    counts
        .map(|count| i64::try_from(count).unwrap_or(i64::MAX))
        .to_vec()
}

/// Pages of tables and of indexes that this process has announced before it read them.
#[pg_extern(sql = false)]
fn harness_announced() -> Vec<i64> {
    hooks::announced().to_vec()
}

// SAFETY: a process of the server has one thread. The suites that ask for this start none.
unsafe impl Sync for PgPages {}

/// How often this process has looked for a cancelled statement, and the most pages of runs that it
/// has written between two looks.
#[pg_extern(sql = false)]
fn harness_interrupts() -> Vec<i64> {
    hooks::interrupts().to_vec()
}

/// The pages of an index, whose relation stays open until the transaction ends.
fn pages_of(index: pg_sys::Oid) -> PgPages {
    // SAFETY: opened and locked here; the end of the transaction closes it, if with a warning.
    unsafe {
        PgPages::new(pg_sys::index_open(
            index,
            pg_sys::AccessExclusiveLock.cast_signed(),
        ))
    }
}

fn close(pages: &PgPages) {
    // SAFETY: opened by `pages_of`.
    unsafe { pg_sys::index_close(pages.relation(), pg_sys::NoLock.cast_signed()) };
}

/// Empty stores, one for each index given, which has no rows. Its own tree is no part of a check.
struct Stores {
    all: Vec<PgPages>,
    used: Cell<usize>,
}

impl Stores {
    fn new(indexes: &Array<'_, pg_sys::Oid>) -> Self {
        let all: Vec<PgPages> = indexes.iter().flatten().map(pages_of).collect();
        for store in &all {
            let tree: Vec<PageId> = (1..store.block_count()).filter_map(PageId::new).collect();
            store.retire(&tree);
        }
        Self {
            all,
            used: Cell::new(0),
        }
    }

    fn next(&self) -> &PgPages {
        let at = self.used.replace(self.used.get() + 1);
        self.all
            .get(at)
            .expect("an index for each store that a check asks for")
    }

    fn close(&self) -> i64 {
        self.all.iter().for_each(close);
        i64::try_from(self.used.get()).unwrap_or(i64::MAX)
    }
}

/// The contract of page stores; returns how many of the indexes were used.
#[pg_extern(sql = false)]
fn harness_store_contract(indexes: Array<'_, pg_sys::Oid>) -> i64 {
    let stores = Stores::new(&indexes);
    check_page_store_of_one_thread(|| stores.next());
    stores.close()
}

/// The contract of ordered indexes, on trees in the pages of indexes; returns how many of them were
/// used.
#[pg_extern(sql = false)]
fn harness_tree_contract(indexes: Array<'_, pg_sys::Oid>, operations: i64, seed: i64) -> i64 {
    fn run<K: OrderedKeys + Default>(stores: &Stores, plan: Plan) {
        for config in [
            BPlusTreeOptions::new().max_entries(4),
            BPlusTreeOptions::new().split_percent(80),
        ] {
            let make =
                || OneThread(TreeIndex::create(stores.next(), K::default(), config).expect("an empty tree"));
            check(make, plan);
        }
    }
    let stores = Stores::new(&indexes);
    let plan = Plan {
        seed: seed.cast_unsigned(),
        operations: usize::try_from(operations).unwrap_or(0),
    };
    run::<U64Keys>(&stores, plan);
    run::<I64Keys>(&stores, plan);
    run::<TieKeys>(&stores, plan);
    run::<ByteKeys<16>>(&stores, plan);
    stores.close()
}

/// Makes the `point`th error point from now on raise an error, or the `-point`th crash the server;
/// 0 turns both off. Returns how many points were left of an earlier call.
#[pg_extern(sql = false)]
fn harness_raise_at(point: i32) -> i32 {
    hooks::set_due(point)
}

/// Raises an error of the server, which sets its count of held interrupts to zero, or sleeps until
/// it is cancelled, while something is held.
#[pg_extern(sql = false)]
fn harness_fail(index: pg_sys::Oid, held: &str, sleep: bool) {
    let pages = pages_of(index);
    let root = PageId::new(1).expect("not zero");
    // Dropped after everything held.
    let _note = NoteHeldInterrupts;
    let fail = || {
        if sleep {
            // SAFETY: `pg_sleep` takes a float8.
            unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_sleep, &[30.0.into_datum()]) };
        } else {
            // SAFETY: there is no such relation, which is an error of the server.
            unsafe { pg_sys::relation_open(pg_sys::InvalidOid, pg_sys::NoLock.cast_signed()) };
        }
    };
    match held {
        "latch" => {
            let _guard = pages.read(root);
            fail();
        }
        "batch" => {
            let fresh = pages.reserve().expect("a page");
            let batch = pages.batch(&[root, fresh.id]).expect("both pages");
            batch.commit(|payloads| {
                payloads[0].fill(0xff);
                fail();
            });
        }
        "pin" => {
            let mut writer = pages.run_writer().expect("a writer");
            let page = writer.reserve().expect("a page");
            let id = page.id;
            writer.write(page, b"run").expect("written");
            writer.finish().expect("finished");
            let _pin = pages.pin(id).expect("pinned");
            fail();
        }
        "maintenance" => {
            let _right = pages.try_maintain(root).expect("the right to maintain");
            fail();
        }
        _ => fail(),
    }
}

/// Whether a page stays reserved whose reservation has an old stamp.
#[pg_extern(sql = false)]
fn harness_reservation_is_kept(index: pg_sys::Oid) -> bool {
    let pages = pages_of(index);
    let reserved = pages.reserve().expect("a page");
    pages.make_stamp_old(reserved.id);
    // SAFETY: the relation stays open while both live.
    let others = unsafe { PgPages::new(pages.relation()) };
    let other = others.reserve().expect("a page");
    let is_kept = other.id != reserved.id;
    others.release(other);
    if is_kept {
        pages.release(reserved);
    }
    close(&pages);
    is_kept
}

/// The generation of a page that had none.
#[pg_extern(sql = false)]
fn harness_first_generation(index: pg_sys::Oid) -> i64 {
    let pages = pages_of(index);
    let reserved = pages.reserve().expect("a page");
    let generation = reserved.generation;
    pages.release(reserved);
    close(&pages);
    generation.cast_signed()
}

/// How many rows an ordered scan by an index finds under a snapshot that sees rows of transactions
/// under way.
#[pg_extern(sql = false)]
fn harness_rows_of_a_dirty_scan(table: pg_sys::Oid, index: pg_sys::Oid) -> i64 {
    let lock = pg_sys::RowExclusiveLock.cast_signed();
    let mut dirty = pg_sys::SnapshotData {
        snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
        ..Default::default()
    };
    // SAFETY: both are locked by opening them, and closed behind the scan; an error ends the
    // transaction.
    unsafe {
        let (table, index) = (pg_sys::table_open(table, lock), pg_sys::index_open(index, lock));
        let scan = pg_sys::systable_beginscan_ordered(table, index, &raw mut dirty, 0, std::ptr::null_mut());
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        let mut rows = 0;
        while !pg_sys::systable_getnext_ordered(scan, forward).is_null() {
            rows += 1;
        }
        pg_sys::systable_endscan_ordered(scan);
        pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
        pg_sys::table_close(table, pg_sys::NoLock.cast_signed());
        rows
    }
}

/// Bytes by which memory grows while so many scans by an index begin and end in one context, as
/// `INSERT … ON CONFLICT` of version 18 begins one for each row.
#[pg_extern(sql = false)]
fn harness_memory_of_scans(table: pg_sys::Oid, index: pg_sys::Oid, scans: i64) -> i64 {
    let lock = pg_sys::AccessShareLock.cast_signed();
    // SAFETY: both are locked by opening them, and closed behind the scans; an error ends the
    // transaction. The snapshot is that of the statement that calls.
    unsafe {
        let (table, index) = (pg_sys::table_open(table, lock), pg_sys::index_open(index, lock));
        let scan = || {
            let snapshot = pg_sys::GetActiveSnapshot();
            let scan = pg_sys::systable_beginscan_ordered(table, index, snapshot, 0, std::ptr::null_mut());
            pg_sys::systable_getnext_ordered(scan, pg_sys::ScanDirection::ForwardScanDirection);
            pg_sys::systable_endscan_ordered(scan);
        };
        let allocated = || pg_sys::MemoryContextMemAllocated(pg_sys::CurrentMemoryContext, true);
        // The first one remembers what later ones know.
        scan();
        let before = allocated();
        (1..scans).for_each(|_| scan());
        let grown = allocated().saturating_sub(before);
        pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
        pg_sys::table_close(table, pg_sys::NoLock.cast_signed());
        i64::try_from(grown).unwrap_or(i64::MAX)
    }
}

/// The address of the row that an index-only scan comes to first under the snapshot by which the
/// planner of version 18 looks for the least value: the block times 65,536, and the offset.
#[pg_extern(sql = false)]
fn harness_first_row_for_the_planner(table: pg_sys::Oid, index: pg_sys::Oid) -> i64 {
    let lock = pg_sys::AccessShareLock.cast_signed();
    // SAFETY: both are locked by opening them, and closed behind the scan; an error ends the
    // transaction. Nothing else of the snapshot is asked.
    unsafe {
        let (table, index) = (pg_sys::table_open(table, lock), pg_sys::index_open(index, lock));
        let mut snapshot = pg_sys::SnapshotData {
            snapshot_type: pg_sys::SnapshotType::SNAPSHOT_NON_VACUUMABLE,
            vistest: pg_sys::GlobalVisTestFor(table),
            ..Default::default()
        };
        #[cfg(not(feature = "pg18"))]
        let scan = pg_sys::index_beginscan(table, index, &raw mut snapshot, 0, 0);
        #[cfg(feature = "pg18")]
        let scan = pg_sys::index_beginscan(table, index, &raw mut snapshot, std::ptr::null_mut(), 0, 0);
        (*scan).xs_want_itup = true;
        pg_sys::index_rescan(scan, std::ptr::null_mut(), 0, std::ptr::null_mut(), 0);
        let address = pg_sys::index_getnext_tid(scan, pg_sys::ScanDirection::ForwardScanDirection);
        let address = address.as_ref().map_or(0, |address| {
            let block = i64::from(address.ip_blkid.bi_hi) << 16 | i64::from(address.ip_blkid.bi_lo);
            block << 16 | i64::from(address.ip_posid)
        });
        pg_sys::index_endscan(scan);
        pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
        pg_sys::table_close(table, pg_sys::NoLock.cast_signed());
        address
    }
}

/// How many pages are lost. Writers wait.
#[pg_extern(sql = false)]
fn harness_lost(index: pg_sys::Oid) -> i64 {
    // SAFETY: opened and locked here, and closed.
    unsafe {
        let index = pg_sys::index_open(index, pg_sys::AccessExclusiveLock.cast_signed());
        let lost = Index::open(index).lost();
        pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
        i64::try_from(lost).unwrap_or(i64::MAX)
    }
}

/// Whether the root could be maintained now.
#[pg_extern(sql = false)]
fn harness_can_maintain(index: pg_sys::Oid) -> bool {
    let pages = pages_of(index);
    let can = PageId::new(1).is_some_and(|root| pages.try_maintain(root).is_some());
    close(&pages);
    can
}

thread_local! {
    static HELD_INTERRUPTS: Cell<u32> = const { Cell::new(0) };
}

/// Notes, when it is dropped, how many holds on interrupts there are.
struct NoteHeldInterrupts;

impl Drop for NoteHeldInterrupts {
    fn drop(&mut self) {
        // SAFETY: a variable of this process.
        HELD_INTERRUPTS.set(unsafe { pg_sys::InterruptHoldoffCount });
    }
}

/// How many holds on interrupts are left, when nothing is held, and how many were left when the
/// last error of [`harness_fail`] had unwound what it held: none, or a session could not be
/// cancelled.
#[pg_extern(sql = false)]
fn harness_held_interrupts() -> i64 {
    // SAFETY: a variable of this process.
    let now = unsafe { pg_sys::InterruptHoldoffCount };
    now.max(HELD_INTERRUPTS.get()).into()
}
