//! Hooks of the tests in the code of the index: smaller capacities, errors and crashes at chosen
//! points, counts of work.

#![expect(unsafe_code, reason = "tests wait and crash by calls into PostgreSQL")]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;
use std::time::Duration;

use bedload_trees::be_tree::MaintenanceWork;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, IntoDatum, Spi, pg_sys};

/// The divisor of numbers of entries in the settings of trees: capacities shrink, so that rare
/// paths become common.
static SHRUNK: GucSetting<i32> = GucSetting::<i32>::new(1);

/// Where a session may be asked to pause.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pause {
    /// The check of a unique key has its entries, and has not looked at their rows.
    Judgement,
    /// A unique key was checked, and its entry is not in the index yet.
    Insertion,
    /// An index-only scan has entries, and has not asked yet which of their rows all can see.
    Visibility,
    /// Pages are not named any more, and are about to be retired.
    Retirement,
    /// A scan has an entry, whose row the server is to look at.
    Row,
    /// Pages of a run have been written, and nothing names them yet.
    Naming,
    /// `VACUUM`, which does what is due, may sleep.
    Delay,
}

/// For each place the number of an advisory lock that a session waits for there; 0: none.
static PAUSES: [GucSetting<i32>; 7] = [const { GucSetting::<i32>::new(0) }; 7];

/// How many seconds a worker stays that finds nothing to do, if that is longer than usual.
static LINGER: GucSetting<i32> = GucSetting::<i32>::new(0);

/// A statement for the time between the publication of a transaction's entries and its end.
static LATE_STATEMENT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

/// Whether utility statements are not seen, as what other extensions do without statements is not.
static HIDES_STATEMENTS: GucSetting<bool> = GucSetting::<bool>::new(false);

/// Whether another node stands above each plan of an `INSERT`, as other extensions put one there.
static WRAPS_INSERTS: GucSetting<bool> = GucSetting::<bool>::new(false);

/// The hook that was there before ours.
static PREVIOUS_PLANNER: OnceLock<pg_sys::planner_hook_type> = OnceLock::new();

unsafe extern "C-unwind" {
    /// PostgreSQL's own, without a boundary that turns its errors into panics.
    fn standard_planner(
        query: *mut pg_sys::Query,
        text: *const c_char,
        options: c_int,
        parameters: pg_sys::ParamListInfo,
    ) -> *mut pg_sys::PlannedStmt;
}

/// Puts a `Result` above the plan of an `INSERT`, if tests have asked for it.
#[expect(ffi_unwind_calls, reason = "errors pass by, and there is nothing to drop")]
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    let next = PREVIOUS_PLANNER.get().copied().flatten();
    // SAFETY: the server plans a query, and calls from outside of Rust. A node of zeros with a tag
    // is one that has nothing but the plan below.
    unsafe {
        let statement = next.unwrap_or(standard_planner)(query, text, options, parameters);
        if (*statement).commandType == pg_sys::CmdType::CMD_INSERT && WRAPS_INSERTS.get() {
            pgrx_extern_c_guard(|| {
                let node = pg_sys::palloc0(size_of::<pg_sys::Result>()).cast::<pg_sys::Result>();
                (*node).plan.type_ = pg_sys::NodeTag::T_Result;
                (*node).plan.lefttree = (*statement).planTree;
                (*statement).planTree = node.cast();
            });
        }
        statement
    }
}

pub(crate) fn register() {
    // SAFETY: this process has one thread, and hooks are set while modules are loaded.
    unsafe {
        PREVIOUS_PLANNER.get_or_init(|| pg_sys::planner_hook);
        pg_sys::planner_hook = Some(plan);
    }
    GucRegistry::define_bool_guc(
        c"bedload.wraps_inserts",
        c"Whether tests have a node stand above each plan of an INSERT.",
        c"",
        &WRAPS_INSERTS,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"bedload.hides_statements",
        c"Whether tests hide utility statements from the module.",
        c"",
        &HIDES_STATEMENTS,
        GucContext::Userset,
        GucFlags::default(),
    );
    let names = [
        c"bedload.pause_before_judgement",
        c"bedload.pause_before_insertion",
        c"bedload.pause_before_visibility",
        c"bedload.pause_before_retirement",
        c"bedload.pause_before_row",
        c"bedload.pause_before_naming",
        c"bedload.pause_before_delay",
    ];
    for (name, pause) in names.into_iter().zip(&PAUSES) {
        GucRegistry::define_int_guc(
            name,
            c"The advisory lock that tests have a session wait for.",
            c"",
            pause,
            0,
            i32::MAX,
            GucContext::Userset,
            GucFlags::default(),
        );
    }
    GucRegistry::define_string_guc(
        c"bedload.late_statement",
        c"A statement that tests have executed when the entries of a transaction have been published.",
        c"",
        &LATE_STATEMENT,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"bedload.worker_lingers",
        c"The seconds that tests have an idle worker stay.",
        c"",
        &LINGER,
        0,
        3600,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"bedload.shrunk",
        c"What capacities of bedload indexes are divided by in tests.",
        c"",
        &SHRUNK,
        1,
        4096,
        GucContext::Userset,
        GucFlags::default(),
    );
}

/// Waits as long as a test holds the lock that the session was given.
pub(crate) fn pause(at: Pause) {
    let lock = PAUSES[at as usize].get();
    if lock > 0 {
        let lock = i64::from(lock).into_datum();
        // SAFETY: the function takes an int8.
        unsafe {
            pgrx::direct_function_call_as_datum(pg_sys::pg_advisory_xact_lock_shared_int8, &[lock]);
        }
    }
}

/// Executes what a session was given for the end of its transactions, as another extension might.
pub(crate) fn execute_late_statement() {
    if let Some(statement) = LATE_STATEMENT.get() {
        let statement = statement.to_string_lossy();
        // SAFETY: the transaction is still in progress; an error ends it with its snapshots.
        unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
        Spi::run(&statement).expect("a statement that can be executed");
        // SAFETY: pushed above.
        unsafe { pg_sys::PopActiveSnapshot() };
    }
}

/// Whether utility statements are not seen.
pub(crate) fn hides_statements() -> bool {
    HIDES_STATEMENTS.get()
}

pub(crate) fn linger() -> Duration {
    Duration::from_secs(LINGER.get().unsigned_abs().into())
}

pub(crate) fn shrunk() -> u64 {
    SHRUNK.get().unsigned_abs().into()
}

thread_local! {
    static WORK: Cell<MaintenanceWork> = Cell::new(MaintenanceWork::default());
    /// The most entries that were written at once.
    static MOST: Cell<u64> = const { Cell::new(0) };
}

/// Adds to what this process has done.
pub(crate) fn note(work: MaintenanceWork) {
    let mut sum = WORK.get();
    sum.merges += work.merges;
    sum.push_downs += work.push_downs;
    sum.splits += work.splits;
    sum.lost += work.lost;
    sum.entries_written += work.entries_written;
    WORK.set(sum);
    MOST.set(MOST.get().max(work.entries_written));
}

thread_local! {
    /// Pages of tables and of indexes that scans have announced.
    static ANNOUNCED: Cell<[i64; 2]> = const { Cell::new([0; 2]) };
}

/// Counts a page of a table that was announced.
pub(crate) fn note_row_page() {
    let [rows, pages] = ANNOUNCED.get();
    ANNOUNCED.set([rows + 1, pages]);
}

/// Counts a page of an index that was announced.
pub(crate) fn note_index_page() {
    let [rows, pages] = ANNOUNCED.get();
    ANNOUNCED.set([rows, pages + 1]);
}

/// Pages of tables and of indexes that this process has announced.
pub(crate) fn announced() -> [i64; 2] {
    ANNOUNCED.get()
}

thread_local! {
    /// How often this process has looked for a cancelled statement.
    static INTERRUPT_POINTS: Cell<i64> = const { Cell::new(0) };
    /// Pages of runs written since it has last, and the most between two looks.
    static UNINTERRUPTED: Cell<[i64; 2]> = const { Cell::new([0; 2]) };
}

/// Counts a look for a cancelled statement.
pub(crate) fn note_interrupt_point() {
    INTERRUPT_POINTS.set(INTERRUPT_POINTS.get() + 1);
    let [_, most] = UNINTERRUPTED.get();
    UNINTERRUPTED.set([0, most]);
}

/// Counts a page of a run that was written.
pub(crate) fn note_written_page() {
    let [since, most] = UNINTERRUPTED.get();
    UNINTERRUPTED.set([since + 1, most.max(since + 1)]);
}

/// How often this process has looked for a cancelled statement, and the most pages of runs that it
/// has written between two looks.
pub(crate) fn interrupts() -> [i64; 2] {
    let [_, most] = UNINTERRUPTED.get();
    [INTERRUPT_POINTS.get(), most]
}

thread_local! {
    /// The points to pass until the one that raises an error; 0: none does; below it, until the one
    /// that crashes.
    static POINTS_LEFT: Cell<i32> = const { Cell::new(0) };
}

/// Whether this is the point at which an error was asked for. Where a crash was, the server
/// crashes, with its log written.
pub(crate) fn is_error_due() -> bool {
    let left = POINTS_LEFT.get();
    if left < 0 {
        POINTS_LEFT.set(left + 1);
        if left == -1 {
            // SAFETY: a session may have the log written at any time.
            unsafe { pg_sys::XLogFlush(pg_sys::GetXLogInsertRecPtr()) };
            std::process::abort();
        }
    }
    if left > 0 {
        POINTS_LEFT.set(left - 1);
        if left == 1 {
            return true;
        }
    }
    false
}

/// Sets the point that is due; returns how many were left of an earlier one.
pub(crate) fn set_due(point: i32) -> i32 {
    POINTS_LEFT.replace(point)
}

/// Work of this process, and the most entries that it has written for one commit, or one
/// `VACUUM`.
pub(crate) fn work() -> (MaintenanceWork, u64) {
    (WORK.get(), MOST.get())
}
