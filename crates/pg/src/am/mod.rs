//! The access method: what PostgreSQL calls.
//!
//! Every function that it calls is guarded by `pg_guard`: a panic becomes an error of the server at
//! its end, and an error of the server that it calls becomes a panic at its beginning. Those that
//! raise unique violations are guarded but for the raising.

#![expect(
    unsafe_code,
    reason = "the functions of an access method take what PostgreSQL gives them"
)]

mod build;
mod insert;
pub(crate) mod options;
mod plan;
mod progress;
mod scan;
mod sort;
mod unique;
mod vacuum;

use pgrx::{PgBox, pg_sys};

pub(crate) use build::for_each_row;

use crate::key::SUPPORT_FUNCTIONS;

/// The abilities of the access method, and its functions; allocated in the current memory context.
pub(crate) fn routine() -> *mut pg_sys::IndexAmRoutine {
    // SAFETY: the node is allocated with this tag and zeroed; zero is "no", or "none", for every
    // field.
    let mut am = unsafe { PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine) };
    // Those of the B-tree.
    am.amstrategies = 5;
    am.amsupport = SUPPORT_FUNCTIONS;
    am.amcanorder = true;
    am.amcanbackward = true;
    am.amcanunique = true;
    am.amcanmulticol = true;
    am.amcaninclude = true;
    am.amoptionalkey = true;
    am.amsearcharray = true;
    am.amsearchnulls = true;
    am.amclusterable = true;
    crate::compat::set_strategies(&mut am);
    am.ambuild = Some(build::ambuild);
    am.ambuildphasename = Some(progress::ambuildphasename);
    am.ambuildempty = Some(build::ambuildempty);
    am.aminsert = Some(insert::aminsert);
    am.ambulkdelete = Some(vacuum::ambulkdelete);
    am.amvacuumcleanup = Some(vacuum::amvacuumcleanup);
    am.amcanreturn = Some(plan::amcanreturn);
    scan::set_parallel_functions(&mut am);
    am.amcostestimate = Some(plan::amcostestimate);
    am.amoptions = Some(options::amoptions);
    am.amvalidate = Some(plan::amvalidate);
    am.ambeginscan = Some(scan::ambeginscan);
    am.amrescan = Some(scan::amrescan);
    am.amgettuple = Some(scan::amgettuple);
    am.amgetbitmap = Some(scan::amgetbitmap);
    am.amendscan = Some(scan::amendscan);
    am.ammarkpos = Some(scan::ammarkpos);
    am.amrestrpos = Some(scan::amrestrpos);
    am.into_pg()
}
