//! Pending entries when transactions and subtransactions end.

#![expect(unsafe_code, reason = "transactions are followed by callbacks of PostgreSQL")]

use std::ffi::c_void;

use pgrx::{pg_guard, pg_sys};

use super::{PENDING, Pending, TOP_SUBTRANSACTION, flush_last, utility};

pub(super) fn register() {
    // SAFETY: asked within a transaction, as modules are loaded in one, or before the first one
    // begins, when the answer is that of the top. The callbacks stay where they are.
    unsafe {
        if pg_sys::IsTransactionState() {
            let subtransaction = pg_sys::GetCurrentSubTransactionId();
            PENDING.with_borrow_mut(|pending| {
                pending.subtransaction = subtransaction;
                pending.writes_through = utility::is_in_event_trigger();
            });
        } else {
            PENDING.with_borrow_mut(Pending::end_transaction);
        }
        pg_sys::RegisterXactCallback(Some(at_transaction), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subtransaction), std::ptr::null_mut());
    }
}

impl Pending {
    fn end_transaction(&mut self) {
        *self = Self {
            is_first_transaction: false,
            ..Self::new()
        };
    }
}

/// Changes what waits. A FATAL error ends the transaction on top of what the session was doing, be
/// it a look at the entries, in whose comparisons it may have been raised. The process ends then,
/// and the entries with it; a panic here would keep it from releasing its locks.
fn change(change: impl FnOnce(&mut Pending)) {
    PENDING.with(|pending| {
        if let Ok(mut pending) = pending.try_borrow_mut() {
            change(&mut pending);
        }
    });
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    match event {
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT | pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE => {
            flush_last();
            PENDING.with_borrow_mut(|pending| pending.writes_through = true);
            #[cfg(feature = "harness")]
            crate::hooks::execute_late_statement();
        }
        pg_sys::XactEvent::XACT_EVENT_COMMIT
        | pg_sys::XactEvent::XACT_EVENT_ABORT
        | pg_sys::XactEvent::XACT_EVENT_PREPARE => change(Pending::end_transaction),
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction(
    event: pg_sys::SubXactEvent::Type,
    child: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    change(|pending| match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_START_SUB => pending.subtransaction = child,
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => {
            for batch in &mut pending.batches {
                batch.hand_over(child, parent);
            }
            pending.subtransaction = parent;
        }
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => {
            // A batch without entries goes: the lock of its index may have gone with the
            // subtransaction.
            pending.batches.retain_mut(|batch| !batch.drop_those_of(child));
            pending.count();
            // A statement that failed does not end. Those that go on began before the
            // subtransaction, which has a higher number.
            pending.copying.retain(|&began| began < child);
            pending.subtransaction = parent.max(TOP_SUBTRANSACTION);
        }
        _ => {}
    });
}
