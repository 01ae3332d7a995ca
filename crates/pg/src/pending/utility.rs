//! Utility statements, before which what waits is published, and during which nothing waits: they
//! may copy the file of an index (rule 7).

#![expect(unsafe_code, reason = "utility statements are seen by PostgreSQL's hook")]

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use pgrx::pg_sys::{self, NodeTag, panic::pgrx_extern_c_guard};

use super::{PENDING, flush_all};

/// The hook that was there before ours.
static PREVIOUS: OnceLock<pg_sys::ProcessUtility_hook_type> = OnceLock::new();

pub(super) fn register() {
    // SAFETY: this process has one thread, and hooks are set while modules are loaded.
    unsafe {
        PREVIOUS.get_or_init(|| pg_sys::ProcessUtility_hook);
        pg_sys::ProcessUtility_hook = Some(at_utility);
    }
}

/// Whether a statement gives no relation another file. Statements within it are seen by themselves.
///
/// # Safety
///
/// The statement is a node, and of the type that its tag says.
unsafe fn keeps_files(statement: *const pg_sys::Node) -> bool {
    // SAFETY: the caller's.
    let tag = unsafe { (*statement).type_ };
    if tag == NodeTag::T_RefreshMatViewStmt {
        // Its rows are changed by statements.
        // SAFETY: as above.
        return unsafe { (*statement.cast::<pg_sys::RefreshMatViewStmt>()).concurrent };
    }
    matches!(
        tag,
        NodeTag::T_TransactionStmt
            | NodeTag::T_VariableSetStmt
            | NodeTag::T_VariableShowStmt
            | NodeTag::T_CopyStmt
            | NodeTag::T_DeclareCursorStmt
            | NodeTag::T_FetchStmt
            | NodeTag::T_ClosePortalStmt
            | NodeTag::T_PrepareStmt
            | NodeTag::T_ExecuteStmt
            | NodeTag::T_DeallocateStmt
            | NodeTag::T_ExplainStmt
            | NodeTag::T_DoStmt
            | NodeTag::T_CallStmt
            | NodeTag::T_LockStmt
            | NodeTag::T_ConstraintsSetStmt
            | NodeTag::T_NotifyStmt
            | NodeTag::T_CreateStmt
            | NodeTag::T_CreateTableAsStmt
            | NodeTag::T_CreateExtensionStmt
            | NodeTag::T_AlterExtensionStmt
    )
}

/// Whether an event trigger is under way, for which the server has a memory context. The statement
/// that it belongs to was not seen if this module was loaded just now.
pub(super) fn is_in_event_trigger() -> bool {
    // SAFETY: contexts are a tree, of this process alone, and their names are strings.
    unsafe {
        let mut contexts = vec![pg_sys::TopMemoryContext];
        while let Some(context) = contexts.pop() {
            let Some(context) = context.as_ref() else { continue };
            if CStr::from_ptr(context.name) == c"event trigger context" {
                return true;
            }
            contexts.extend([context.firstchild, context.nextchild]);
        }
    }
    false
}

unsafe extern "C-unwind" {
    /// PostgreSQL's own, without a boundary that turns its errors into panics.
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        text: *const c_char,
        is_read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// Not a guarded function as a whole: a guard would give every error of a utility statement another
/// detail. Nothing here is to be dropped when an error passes.
#[expect(ffi_unwind_calls, reason = "errors pass by, and there is nothing to drop")]
unsafe extern "C-unwind" fn at_utility(
    statement: *mut pg_sys::PlannedStmt,
    text: *const c_char,
    is_read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: PostgreSQL passes a utility statement, which is a node, and calls from outside of
    // Rust. The arguments are passed on as they came.
    unsafe {
        let may_copy = !keeps_files((*statement).utilityStmt);
        #[cfg(feature = "harness")]
        let may_copy = may_copy && !crate::hooks::hides_statements();
        if may_copy {
            pgrx_extern_c_guard(begin);
        }
        let next = PREVIOUS
            .get()
            .copied()
            .flatten()
            .unwrap_or(standard_ProcessUtility);
        next(
            statement,
            text,
            is_read_only_tree,
            context,
            parameters,
            environment,
            receiver,
            completion,
        );
        if may_copy {
            pgrx_extern_c_guard(end);
        }
    }
}

fn begin() {
    flush_all();
    PENDING.with_borrow_mut(|pending| pending.copying.push(pending.subtransaction));
}

/// The statement may have ended the transaction in which it began, with all that is noted in it.
fn end() {
    PENDING.with_borrow_mut(|pending| pending.copying.pop());
}
