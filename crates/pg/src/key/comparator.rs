//! Comparison functions of types.

#![expect(unsafe_code, reason = "the functions are called by PostgreSQL")]

use std::cell::RefCell;
use std::cmp::Ordering;

use pgrx::pg_sys;

use super::value::Stored;

/// A comparison function as B-trees have them, the collation by which it compares, and the type of
/// the values: a function for many types may remember what it found out about the first.
#[derive(Debug)]
pub(crate) struct Comparator {
    function: pg_sys::Oid,
    collation: pg_sys::Oid,
    of: pg_sys::Oid,
    call: *mut pg_sys::FmgrInfo,
    is_equality_of_bytes: bool,
}

// SAFETY: a process of the server has one thread.
unsafe impl Send for Comparator {}
// SAFETY: as above.
unsafe impl Sync for Comparator {}

impl PartialEq for Comparator {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

thread_local! {
    /// Every comparator that this process has used. They stay: there are as many as there are
    /// functions, collations and types together among its indexes.
    static COMPARATORS: RefCell<Vec<&'static Comparator>> = const { RefCell::new(Vec::new()) };
}

/// Comparison functions by which only values of the same bytes are equal: `timetz_cmp`, `enum_cmp`
/// and `network_cmp`, and `bttextcmp` under deterministic collations.
const TIMETZ_CMP: u32 = 1358;
const ENUM_CMP: u32 = 3514;
const NETWORK_CMP: u32 = 926;
pub(super) const TEXTCMP: u32 = 360;

impl Comparator {
    /// The comparator of a function that takes two values of the type `of` and returns an `int4`.
    pub(super) fn new(function: pg_sys::Oid, collation: pg_sys::Oid, of: pg_sys::Oid) -> &'static Self {
        let is_same = |known: &&&Self| known.identity() == (function, collation, of);
        let known = COMPARATORS.with_borrow(|all| all.iter().find(is_same).copied());
        known.unwrap_or_else(|| {
            // SAFETY: allocated where it stays, and filled in by PostgreSQL.
            let call = unsafe {
                let context = pg_sys::TopMemoryContext;
                let call = pg_sys::MemoryContextAllocZero(context, size_of::<pg_sys::FmgrInfo>()).cast();
                pg_sys::fmgr_info_cxt(function, call, context);
                call
            };
            let is_equality_of_bytes = match function.to_u32() {
                TIMETZ_CMP | ENUM_CMP | NETWORK_CMP => true,
                // SAFETY: the collation is one of an index's column.
                TEXTCMP => unsafe { pg_sys::get_collation_isdeterministic(collation) },
                _ => false,
            };
            let comparator: &Self = Box::leak(Box::new(Self {
                function,
                collation,
                of,
                call,
                is_equality_of_bytes,
            }));
            COMPARATORS.with_borrow_mut(|all| all.push(comparator));
            comparator
        })
    }

    fn identity(&self) -> (pg_sys::Oid, pg_sys::Oid, pg_sys::Oid) {
        (self.function, self.collation, self.of)
    }

    /// Whether values that are equal have the same bytes.
    pub(super) fn is_equality_of_bytes(&self) -> bool {
        self.is_equality_of_bytes
    }

    /// How two values stand to each other, whose bytes fit their type.
    pub(super) fn compare(&self, stored: Stored, a: &[u8], b: &[u8]) -> Ordering {
        stored.with_both((a, b), |a, b| {
            // SAFETY: the function is one for two values of the type.
            let result = unsafe { pg_sys::FunctionCall2Coll(self.call, self.collation, a, b) };
            let [b0, b1, b2, b3, ..] = result.value().to_le_bytes();
            i32::from_le_bytes([b0, b1, b2, b3]).cmp(&0)
        })
    }
}
