//! Statements that need entries published.

#![expect(
    unsafe_code,
    reason = "plans are PostgreSQL's, and statements are seen by its hook"
)]

use std::ffi::c_void;
use std::sync::OnceLock;

use pgrx::pg_sys::{self, panic::pgrx_extern_c_guard};

use super::{PENDING, flush_all};
use crate::compat;
use crate::key::Entry;
use crate::list::pointers;

/// The hook that was there before ours.
static PREVIOUS: OnceLock<pg_sys::ExecutorStart_hook_type> = OnceLock::new();

pub(super) fn register() {
    // SAFETY: this process has one thread, and hooks are set while modules are loaded.
    unsafe {
        PREVIOUS.get_or_init(|| pg_sys::ExecutorStart_hook);
        pg_sys::ExecutorStart_hook = Some(at_start);
    }
}

unsafe extern "C-unwind" {
    /// PostgreSQL's own, without a boundary that turns its errors into panics.
    fn standard_ExecutorStart(query: *mut pg_sys::QueryDesc, flags: i32);
}

/// Not a guarded function as a whole: a guard would give every error of a statement another detail.
/// Nothing here is to be dropped when an error passes.
#[expect(ffi_unwind_calls, reason = "errors pass by, and there is nothing to drop")]
unsafe extern "C-unwind" fn at_start(query: *mut pg_sys::QueryDesc, flags: i32) {
    // SAFETY: the executor is about to start a query that was planned, and calls from outside of
    // Rust. The arguments are passed on as they came.
    unsafe {
        let plan = (*query).plannedstmt;
        pgrx_extern_c_guard(|| prepare(&*plan));
        let next = PREVIOUS
            .get()
            .copied()
            .flatten()
            .unwrap_or(standard_ExecutorStart);
        next(query, flags);
    }
}

/// Publishes pending entries, or makes later ones write through, if the statement requires it.
///
/// # Safety
///
/// The statement is one of PostgreSQL's.
unsafe fn prepare(statement: &pg_sys::PlannedStmt) {
    if statement.parallelModeNeeded {
        flush_all();
    }
    // SAFETY: the caller's.
    if unsafe { takes_rows_back(statement) } {
        PENDING.with_borrow_mut(|pending| pending.writes_through = true);
    }
}

/// Whether a statement has an `INSERT … ON CONFLICT`, on top or in a `WITH`. Other extensions put
/// nodes above it, so the plans are walked as a whole.
///
/// # Safety
///
/// The plan is one of PostgreSQL's.
unsafe fn takes_rows_back(statement: &pg_sys::PlannedStmt) -> bool {
    let is_insert = statement.commandType == pg_sys::CmdType::CMD_INSERT;
    if !is_insert && !statement.hasModifyingCTE {
        return false;
    }
    let mut plans = vec![statement.planTree];
    // SAFETY: the caller's; a plan is a node, and of the type that its tag says. Lists have plans.
    unsafe {
        push_plans(statement.subplans, &mut plans);
        while let Some(plan) = plans.pop() {
            let Some(node) = plan.as_ref() else { continue };
            plans.extend([node.lefttree, node.righttree]);
            match node.type_ {
                pg_sys::NodeTag::T_ModifyTable => {
                    let action = (*plan.cast::<pg_sys::ModifyTable>()).onConflictAction;
                    if action != pg_sys::OnConflictAction::ONCONFLICT_NONE {
                        return true;
                    }
                }
                pg_sys::NodeTag::T_CustomScan => {
                    push_plans((*plan.cast::<pg_sys::CustomScan>()).custom_plans, &mut plans);
                }
                pg_sys::NodeTag::T_Append => {
                    push_plans((*plan.cast::<pg_sys::Append>()).appendplans, &mut plans);
                }
                pg_sys::NodeTag::T_MergeAppend => {
                    push_plans((*plan.cast::<pg_sys::MergeAppend>()).mergeplans, &mut plans);
                }
                pg_sys::NodeTag::T_SubqueryScan => {
                    plans.push((*plan.cast::<pg_sys::SubqueryScan>()).subplan);
                }
                _ => {}
            }
        }
    }
    false
}

/// Appends the elements of a list.
///
/// # Safety
///
/// The list is null, or of plans, which may be null.
unsafe fn push_plans(list: *const pg_sys::List, plans: &mut Vec<*mut pg_sys::Plan>) {
    // SAFETY: the caller's.
    plans.extend(unsafe { pointers(list) }.map(<*mut c_void>::cast::<pg_sys::Plan>));
}

/// The offset, in a row's own address, that says that the row may be taken back
/// (`SpecTokenOffsetNumber`).
const SPECULATIVE_OFFSET: u16 = 0xfffe;

/// Whether a row that was just inserted may still be taken back, or whether that cannot be told.
///
/// # Safety
///
/// The table is open, and has the row.
pub(super) unsafe fn may_be_taken_back(table: pg_sys::Relation, entry: &Entry) -> bool {
    // SAFETY: the table is open; the comparison is of addresses.
    let is_heap = unsafe { std::ptr::eq((*table).rd_tableam, pg_sys::GetHeapamTableAmRoutine()) };
    if !is_heap {
        return true;
    }
    let address = entry.address();
    let block = u32::from(address.ip_blkid.bi_hi) << 16 | u32::from(address.ip_blkid.bi_lo);
    // SAFETY: the page has the row, which was inserted by this transaction and so is pruned by
    // nobody; locked shared, it does not move. An error before the release leads to an abort, which
    // releases both.
    unsafe {
        let buffer = pg_sys::ReadBuffer(table, block);
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE.cast_signed());
        let page = pg_sys::BufferGetPage(buffer);
        let row = compat::row_on_page(page, address.ip_posid);
        let is_speculative = (*row).t_ctid.ip_posid == SPECULATIVE_OFFSET;
        pg_sys::UnlockReleaseBuffer(buffer);
        is_speculative
    }
}
