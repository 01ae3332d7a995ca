//! The background worker of an index, which does the merges that commits have made due.
//!
//! A commit that finds maintenance due asks the server for a process, if none is at the index, and
//! leaves the work to it. The worker ends when there is nothing to do for a second. Nothing depends
//! on it: without a worker, commits do the work themselves.
//!
//! 1. A worker holds the lock on page 0 of its index from its beginning to its end, so there is one
//!    at most. Commits look at that lock to learn whether one is there.
//! 2. Block 0 (`index/meta.rs`) notes when a worker was called, and none is called again for
//!    [`REST`]. A worker erases the note when it ends without an error. So an error at its start or
//!    later recurs, and is in the server's log, once in a while only; commits do the work
//!    meanwhile.
//! 3. It works in transactions of some [`TURN`], each of which locks the table and the index as an
//!    insertion does, if that needs no wait: who wants to drop, rebuild or move an index waits for
//!    one of them, whichever of the two it locks. Between them the worker holds nothing but the
//!    lock of rule 1.
//! 4. Its transactions have ids from when they have a right to a node, as those of sessions that
//!    write have: `VACUUM` tells pages about to be named from lost ones by the id of their writer.
//! 5. It ends when another process locks its database as a whole (`DROP DATABASE`, or one that is
//!    copied).
//! 6. At most `bedload.max_workers` are there in all: each holds the lock on a number below. A
//!    commit looks for a number that is free before it calls a worker.
//!
//! Temporary indexes, which no other process can read, and indexes that are new in their
//! transaction, which none can see, have no worker.
//!
//! Tests: `crates/pg/tests/cluster/worker.rs`.

#![expect(unsafe_code, reason = "processes, locks and transactions are PostgreSQL's")]

use std::ffi::CStr;
use std::time::{Duration, Instant};

use bedload_trees::be_tree::{Pressure, Progress};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, pg_guard, pg_sys};

use crate::index::Index;
use crate::locks::tag;

/// The most workers at a time, over all databases; 0: commits do the work.
static WORKERS_MAX: GucSetting<i32> = GucSetting::<i32>::new(2);

/// How long a worker takes to begin, at most.
const START: Duration = Duration::from_millis(200);
/// How often it tries to get a lock.
const TRIES: u32 = 20;
/// How long no worker is called after the server has refused one.
const PAUSE: Duration = Duration::from_secs(1);
/// How long no worker is called after all were taken.
const TAKEN: Duration = Duration::from_secs(10);
/// How long no worker is called after one that ended abnormally.
const REST: Duration = Duration::from_secs(60);
/// About how long a transaction of a worker is.
const TURN: Duration = Duration::from_millis(50);
/// How long a worker stays that finds nothing to do, and how often it looks.
const LINGER: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);
/// How long it waits for another process to end a merge.
const WAIT: Duration = Duration::from_millis(50);

/// Settings of a worker, which override those of the configuration, its database and the superuser.
/// Its commits need not wait for the disk: later log records that depend on theirs follow them.
/// Timeouts are for statements that a client waits for; a merge may take longer.
const SETTINGS: &[(&CStr, &CStr)] = &[
    (c"synchronous_commit", c"off"),
    (c"lock_timeout", c"0"),
    (c"statement_timeout", c"0"),
    (c"idle_in_transaction_session_timeout", c"0"),
    (c"idle_session_timeout", c"0"),
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    (c"transaction_timeout", c"0"),
];

/// [`LINGER`], longer where a test asks for that.
fn linger() -> Duration {
    #[cfg(feature = "harness")]
    return LINGER.max(crate::hooks::linger());
    #[cfg(not(feature = "harness"))]
    LINGER
}

const EXCLUSIVE: pg_sys::LOCKMODE = pg_sys::ExclusiveLock.cast_signed();
/// The lock under which sessions begin in a database, and that under which rows are inserted.
const ROW_EXCLUSIVE: pg_sys::LOCKMODE = pg_sys::RowExclusiveLock.cast_signed();
const SHARE: pg_sys::LOCKMODE = pg_sys::ShareLock.cast_signed();

pub(crate) fn init() {
    GucRegistry::define_int_guc(
        c"bedload.max_workers",
        c"The most background workers that merge in bedload indexes, over all databases.",
        c"They count among max_worker_processes. 0 has each commit do the merges that it finds due.",
        &WORKERS_MAX,
        0,
        1024,
        GucContext::Sighup,
        GucFlags::default(),
    );
}

/// The time of the server, in microseconds.
fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Whether an index may have a worker.
fn may_have_one(index: &Index) -> bool {
    // SAFETY: a variable of this process.
    let has_postmaster = unsafe { pg_sys::IsUnderPostmaster };
    WORKERS_MAX.get() > 0 && has_postmaster && index.pages().are_for_others()
}

/// Whether a worker is at an index.
pub(crate) fn is_at(index: &Index) -> bool {
    if !may_have_one(index) {
        return false;
    }
    // SAFETY: the relation is open; the other is a variable of this process.
    let (database, id) = unsafe { (pg_sys::MyDatabaseId, (*index.pages().relation()).rd_id) };
    !is_free(&lock_of(database, id), SHARE)
}

/// The lock of the worker of an index.
fn lock_of(database: pg_sys::Oid, id: pg_sys::Oid) -> pg_sys::LOCKTAG {
    let fields = [database.to_u32(), id.to_u32(), 0];
    tag(
        pg_sys::LockTagType::LOCKTAG_TUPLE,
        fields,
        0,
        pg_sys::USER_LOCKMETHOD,
    )
}

/// A commit's choice where merges are due and no worker is at the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// One was called a moment ago.
    Comes,
    /// There is none to be had for the time being.
    None,
    Call,
}

/// Decides whether to call a worker, and notes that.
fn answer(called_at: &mut i64, now: i64) -> Answer {
    // The clock may have been set back.
    match u64::try_from(now.saturating_sub(*called_at)).map(Duration::from_micros) {
        Ok(since) if since <= START => Answer::Comes,
        Ok(since) if since <= REST => Answer::None,
        _ => {
            *called_at = now;
            Answer::Call
        }
    }
}

/// When a worker was called, as far as others are to know, so that none is called for such a time.
fn called_in_vain(pause: Duration) -> i64 {
    now() - micros(REST) + micros(pause)
}

/// Whether maintenance is left to a worker, which is called if there is none.
pub(crate) fn takes_over(index: &Index, pressure: Pressure) -> bool {
    if !may_have_one(index) {
        return false;
    }
    if pressure == Pressure::None || is_at(index) {
        return true;
    }
    match index.with_call(|called_at| answer(called_at, now())) {
        Answer::Comes => pressure != Pressure::High,
        Answer::None => false,
        Answer::Call => {
            let pause = match is_number_free() {
                true if call(index) => return true,
                true => PAUSE,
                false => TAKEN,
            };
            index.with_call(|called_at| *called_at = called_in_vain(pause));
            false
        }
    }
}

/// Asks the server for a worker.
fn call(index: &Index) -> bool {
    // SAFETY: the relation is open; the other is a variable of this process.
    let (database, id) = unsafe { (pg_sys::MyDatabaseId, (*index.pages().relation()).rd_id) };
    let argument = i64::from(database.to_u32()) << 32 | i64::from(id.to_u32());
    BackgroundWorkerBuilder::new(&format!("bedload worker for index {}", id.to_u32()))
        .set_type("bedload worker")
        .set_library("$libdir/bedload_pg")
        .set_function("bedload_worker")
        .set_argument(Some(argument.into()))
        .enable_spi_access()
        .load_dynamic()
        .is_ok()
}

/// Takes a lock for as long as this process lives, if that needs no wait.
///
/// It is a lock of the server's second method, that of advisory locks: the end of a process gives
/// these back whatever it ends with, and the others only if a transaction is under way then.
fn try_keep(tag: &pg_sys::LOCKTAG) -> bool {
    // SAFETY: the tag is one of a lock.
    let taken = unsafe { pg_sys::LockAcquire(tag, EXCLUSIVE, true, true) };
    taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Whether a lock could be had. In a transaction.
fn is_free(tag: &pg_sys::LOCKTAG, mode: pg_sys::LOCKMODE) -> bool {
    // SAFETY: the tag is one of a lock, which is given back at once if it was taken here.
    unsafe {
        let taken = pg_sys::LockAcquire(tag, mode, false, true);
        if taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            pg_sys::LockRelease(tag, mode, false);
        }
        taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }
}

/// The locks that count workers (rule 6), on an access method that does not exist.
fn numbers() -> impl Iterator<Item = pg_sys::LOCKTAG> {
    let class = pg_sys::AccessMethodRelationId.to_u32();
    let object = pg_sys::LockTagType::LOCKTAG_OBJECT;
    let numbers = 0..u16::try_from(WORKERS_MAX.get()).unwrap_or(u16::MAX);
    numbers.map(move |number| tag(object, [0, class, 0], number, pg_sys::USER_LOCKMETHOD))
}

/// Whether another worker may be there. In a transaction.
fn is_number_free() -> bool {
    numbers().any(|number| is_free(&number, SHARE))
}

/// Calls until it succeeds, or [`TRIES`] times: a session may be looking at a lock, for a moment.
fn tried(mut attempt: impl FnMut() -> bool) -> bool {
    (0..TRIES).any(|_| {
        let has_succeeded = attempt();
        if !has_succeeded {
            std::thread::sleep(Duration::from_millis(1));
        }
        has_succeeded
    })
}

/// Whether no other process locks the database of this one as a whole (rule 5). In a transaction.
fn is_database_free() -> bool {
    let class = pg_sys::DatabaseRelationId.to_u32();
    // SAFETY: a variable of this process.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    let object = pg_sys::LockTagType::LOCKTAG_OBJECT;
    is_free(
        &tag(object, [0, class, database], 0, pg_sys::DEFAULT_LOCKMETHOD),
        ROW_EXCLUSIVE,
    )
}

fn is_to_end() -> bool {
    // SAFETY: a variable that the signal's handler sets.
    unsafe { (&raw const pg_sys::ShutdownRequestPending).read_volatile() != 0 }
}

/// Calls in a transaction.
fn in_transaction<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: none is under way. An error ends the process.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        let result = call();
        pg_sys::CommitTransactionCommand();
        result
    }
}

/// Calls with an index, in a transaction; `None` if there is none, or it cannot be locked.
fn with_index<T>(id: pg_sys::Oid, call: impl FnOnce(&Index) -> T) -> Option<T> {
    // SAFETY: the relation is locked before it is opened.
    unsafe {
        let table = pg_sys::IndexGetRelation(id, true);
        if table == pg_sys::InvalidOid {
            return None;
        }
        let are_locked = [table, id]
            .into_iter()
            .all(|id| pg_sys::ConditionalLockRelationOid(id, ROW_EXCLUSIVE));
        if !are_locked {
            return None;
        }
        let relation = pg_sys::try_relation_open(id, pg_sys::NoLock.cast_signed());
        if relation.is_null() {
            return None;
        }
        let class = &*(*relation).rd_rel;
        let is_ours = class.relkind.cast_unsigned() == pg_sys::RELKIND_INDEX
            && class.relam == pg_sys::get_am_oid(c"bedload".as_ptr(), true);
        let result = is_ours.then(|| call(&Index::open(relation)));
        pg_sys::relation_close(relation, pg_sys::NoLock.cast_signed());
        result
    }
}

/// A turn of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Worked,
    /// There was nothing to do.
    Idle,
    /// Another process is at it.
    Busy,
    /// The database is wanted.
    End,
}

fn turn(id: pg_sys::Oid) -> Turn {
    if !is_database_free() {
        return Turn::End;
    }
    let begun = Instant::now();
    let work = |index: &Index| {
        index.pages().take_id_when_maintaining();
        index.work_off(|| begun.elapsed() > TURN || is_to_end())
    };
    match with_index(id, work) {
        Some(Progress::Paused) => Turn::Worked,
        Some(Progress::Busy) => Turn::Busy,
        _ => Turn::Idle,
    }
}

/// The worker, as the server starts it.
#[unsafe(no_mangle)]
#[pg_guard]
pub extern "C-unwind" fn bedload_worker(argument: pg_sys::Datum) {
    let argument = argument.value() as u64;
    let [database, id] =
        [argument >> 32, argument & u64::from(u32::MAX)].map(|oid| u32::try_from(oid).unwrap_or(0).into());
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(database), None);
    for (name, value) in SETTINGS {
        // SAFETY: settings of this process, by names and values that end with a zero.
        unsafe {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
    if !tried(|| try_keep(&lock_of(database, id))) {
        return;
    }
    let note = |called_at: i64| {
        let note = |index: &Index| index.with_call(|noted| *noted = called_at);
        in_transaction(|| with_index(id, note))
    };
    if !tried(|| numbers().any(|number| try_keep(&number))) {
        note(called_in_vain(TAKEN));
        return;
    }
    let mut last = Instant::now();
    while !is_to_end() && WORKERS_MAX.get() > 0 {
        report(pg_sys::BackendState::STATE_RUNNING, c"merging");
        match in_transaction(|| turn(id)) {
            Turn::Worked => last = Instant::now(),
            turn @ (Turn::Idle | Turn::Busy) if last.elapsed() <= linger() => {
                report(pg_sys::BackendState::STATE_IDLE, c"");
                BackgroundWorker::wait_latch(Some(if turn == Turn::Busy { WAIT } else { LOOK }));
            }
            _ => break,
        }
        // SAFETY: nothing is held. The configuration is read again if a signal has asked for that.
        unsafe {
            pg_sys::pgstat_report_stat(false);
            if (&raw const pg_sys::ConfigReloadPending).read_volatile() != 0 {
                (&raw mut pg_sys::ConfigReloadPending).write_volatile(0);
                pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
            }
        }
    }
    note(0);
}

/// Says in `pg_stat_activity` what this process does.
fn report(state: pg_sys::BackendState::Type, what: &CStr) {
    // SAFETY: the text ends with a zero, and is copied.
    unsafe { pg_sys::pgstat_report_activity(state, what.as_ptr()) };
}
