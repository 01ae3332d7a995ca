//! An index that a function of SQL was asked about.

#![expect(
    unsafe_code,
    reason = "relations are opened and locked, and users changed, by calls into PostgreSQL"
)]

use std::ffi::c_int;

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::error::{fail, name_of};

/// An index and its table, open and locked until the transaction ends.
pub(crate) struct Opened {
    pub(crate) table: pg_sys::Relation,
    pub(crate) index: pg_sys::Relation,
}

impl Opened {
    /// An index of any access method.
    pub(crate) fn new(id: pg_sys::Oid, lock: u32) -> Self {
        let lock = lock.cast_signed();
        // SAFETY: both are locked by opening them, the table first; an error ends the transaction.
        unsafe {
            let table = pg_sys::IndexGetRelation(id, true);
            if table == pg_sys::InvalidOid {
                let message = format!("relation {} is not an index", id.to_u32());
                fail(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, None);
            }
            let table = pg_sys::table_open(table, lock);
            let index = pg_sys::index_open(id, lock);
            Self { table, index }
        }
    }

    /// An index of this access method.
    pub(crate) fn bedload(id: pg_sys::Oid, lock: u32) -> Self {
        let opened = Self::new(id, lock);
        // SAFETY: the index is open.
        unsafe {
            let handler = pg_sys::get_am_oid(c"bedload".as_ptr(), true);
            if (*(*opened.index).rd_rel).relam != handler {
                let message = format!("\"{}\" is not a bedload index", name_of(opened.index));
                fail(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, None);
            }
        }
        opened.refuse_partitioned();
        opened
    }

    /// Whether it is the index of a partitioned table: such a one has no pages of its own.
    pub(crate) fn is_partitioned(&self) -> bool {
        // SAFETY: the index is open.
        let kind = unsafe { (*(*self.index).rd_rel).relkind };
        kind.cast_unsigned() == pg_sys::RELKIND_PARTITIONED_INDEX
    }

    /// Raises an error if it is [partitioned](Self::is_partitioned).
    pub(crate) fn refuse_partitioned(&self) {
        if self.is_partitioned() {
            // SAFETY: the index is open.
            let message = format!("\"{}\" is partitioned", unsafe { name_of(self.index) });
            let hint = "Ask of the indexes of its partitions.".to_owned();
            fail(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, Some(hint));
        }
    }

    /// Makes the table's owner the current user as long as the result lives.
    pub(crate) fn as_owner(&self) -> AsOwner {
        AsOwner::new(self)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: both were opened with `self`. The locks stay.
            unsafe {
                pg_sys::index_close(self.index, pg_sys::NoLock.cast_signed());
                pg_sys::table_close(self.table, pg_sys::NoLock.cast_signed());
            }
        }
    }
}

/// Names of functions and operators that mean the server's own as long as it lives.
///
/// A user's search path must not determine what a query of this module calls with the rights of a
/// table's owner, nor may functions created in a superuser's path determine what that superuser
/// calls.
pub(crate) struct ServersNames {
    settings: c_int,
}

impl ServersNames {
    pub(crate) fn new() -> Self {
        // SAFETY: an error ends the transaction, or the subtransaction, whose abort restores the
        // settings.
        unsafe {
            let settings = pg_sys::NewGUCNestLevel();
            // Temporary objects last: any user can create them.
            pg_sys::set_config_option(
                c"search_path".as_ptr(),
                c"pg_catalog, pg_temp".as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
            Self { settings }
        }
    }
}

impl Drop for ServersNames {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: it is what `new` has left.
            unsafe { pg_sys::AtEOXact_GUC(false, self.settings) };
        }
    }
}

/// The owner of a table as the current user, with the restrictions of `REINDEX`.
///
/// Expressions and predicates of an index call functions that the table's owner has chosen. They
/// must not run with the rights of the superuser who looks at the index, nor call what another user
/// has chosen: names mean the server's, as in `REINDEX` from version 17 on.
pub(crate) struct AsOwner {
    /// Settings that the functions have changed are restored first, by these rights.
    _names: ServersNames,
    _rights: OwnersRights,
}

/// The user before, and the restrictions that it had.
struct OwnersRights {
    user: pg_sys::Oid,
    context: c_int,
}

impl AsOwner {
    fn new(opened: &Opened) -> Self {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        // SAFETY: the table is open. An error ends the transaction, or the subtransaction, whose
        // abort restores the user.
        let rights = unsafe {
            pg_sys::GetUserIdAndSecContext(&raw mut user, &raw mut context);
            let owner = (*(*opened.table).rd_rel).relowner;
            let restricted = context | pg_sys::SECURITY_RESTRICTED_OPERATION.cast_signed();
            pg_sys::SetUserIdAndSecContext(owner, restricted);
            OwnersRights { user, context }
        };
        Self {
            _names: ServersNames::new(),
            _rights: rights,
        }
    }
}

impl Drop for OwnersRights {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: it is what `AsOwner::new` has found.
            unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) };
        }
    }
}
