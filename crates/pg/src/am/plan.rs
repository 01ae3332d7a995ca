//! Answers to the planner and to `CREATE` statements.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::{c_int, c_void};

use pgrx::pg_guard;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use crate::index::Index;
use crate::key::{COMPARE_FUNCTION, HASH_FUNCTION, Kind};

/// The server's charge for work on a page of an index that is in memory, in `cpu_operator_cost`s:
/// `selfuncs.c` has no name for it that others could use.
const PAGE_OPERATORS: f64 = 50.0;

/// The B-tree's estimate, plus the work of a scan of this index before its first entry: it looks at
/// the head, at each node on the path to a leaf, and at each run that they name.
///
/// The B-tree's estimate reads only properties that this index has too: its size, strategies and
/// order, and the column's statistics. It charges for the pages of matching entries, of which there
/// are fewer here as entries are smaller. It charges nothing for the descent, as it assumes that an
/// index that is no B-tree has no height.
///
/// Each run but one adds a page to be read that a B-tree would not have. These pages are few and
/// were written last, so they are taken to be in memory as far as the index fits into
/// `effective_cache_size`.
#[pg_guard]
#[expect(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
pub(super) unsafe extern "C-unwind" fn amcostestimate(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    unsafe extern "C-unwind" {
        fn btcostestimate(
            root: *mut pg_sys::PlannerInfo,
            path: *mut pg_sys::IndexPath,
            loop_count: f64,
            startup_cost: *mut pg_sys::Cost,
            total_cost: *mut pg_sys::Cost,
            selectivity: *mut pg_sys::Selectivity,
            correlation: *mut f64,
            pages: *mut f64,
        );
    }
    // SAFETY: the arguments are passed on as they came; the boundary catches errors.
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        pg_guard_ffi_boundary(|| {
            btcostestimate(
                root,
                path,
                loop_count,
                startup_cost,
                total_cost,
                selectivity,
                correlation,
                pages,
            );
        });
        add_costs_of_runs(path, startup_cost, total_cost);
    }
}

/// Adds what a scan does before it returns an entry.
///
/// # Safety
///
/// The path is one of the planner's, which has locked its index; the costs are valid.
unsafe fn add_costs_of_runs(
    path: *mut pg_sys::IndexPath,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
) {
    // SAFETY: the caller's.
    unsafe {
        let info = &*(*path).indexinfo;
        if info.hypothetical {
            return;
        }
        let index = pg_sys::index_open(info.indexoid, pg_sys::NoLock.cast_signed());
        let opened = Index::open(index);
        let (shape, filtered) = (opened.scan_shape(), opened.form().filtered_columns());
        drop(opened);
        pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
        let (pages, read) = shape.pages(filtered.is_some_and(|columns| is_about_one_key(path, columns)));
        let mut page_cost = 0.0;
        pg_sys::get_tablespace_page_costs(info.reltablespace, &raw mut page_cost, std::ptr::null_mut());
        let (index_pages, cached_pages) = (f64::from(info.pages), f64::from(pg_sys::effective_cache_size));
        let share_read = (1.0 - cached_pages / index_pages.max(1.0)).max(0.0);
        let cost =
            pages as f64 * PAGE_OPERATORS * pg_sys::cpu_operator_cost + read as f64 * share_read * page_cost;
        *startup_cost += cost;
        *total_cost += cost;
    }
}

/// Whether a path asks for one value of each of so many columns, so that filters are asked.
///
/// # Safety
///
/// The path is one of the planner's.
unsafe fn is_about_one_key(path: *mut pg_sys::IndexPath, columns: usize) -> bool {
    // SAFETY: the caller's; the lists hold clauses, and these conditions.
    unsafe {
        let families = (*(*path).indexinfo).opfamily;
        let mut is_equal = vec![false; columns];
        for clause in elements((*path).indexclauses) {
            let clause = &*clause.cast::<pg_sys::IndexClause>();
            let column = usize::try_from(clause.indexcol).unwrap_or(0);
            let Some(is_equal) = is_equal.get_mut(column) else {
                continue;
            };
            *is_equal |= elements(clause.indexquals).any(|condition| {
                let condition = (*condition.cast::<pg_sys::RestrictInfo>()).clause;
                match (*condition).type_ {
                    pg_sys::NodeTag::T_OpExpr => {
                        let operator = (*condition.cast::<pg_sys::OpExpr>()).opno;
                        let strategy = pg_sys::get_op_opfamily_strategy(operator, *families.add(column));
                        strategy.cast_unsigned() == pg_sys::BTEqualStrategyNumber
                    }
                    // Nulls have one key in common.
                    pg_sys::NodeTag::T_NullTest => {
                        let test = (*condition.cast::<pg_sys::NullTest>()).nulltesttype;
                        test == pg_sys::NullTestType::IS_NULL
                    }
                    _ => false,
                }
            });
        }
        is_equal.into_iter().all(|is_equal| is_equal)
    }
}

/// The elements of a list of pointers.
///
/// # Safety
///
/// The list is null, or a list of pointers that stays as it is.
unsafe fn elements(list: *mut pg_sys::List) -> impl Iterator<Item = *mut c_void> {
    // SAFETY: the caller's.
    let len = unsafe { list.as_ref() }.map_or(0, |list| usize::try_from(list.length).unwrap_or(0));
    // SAFETY: the caller's; there are so many.
    (0..len).map(move |at| unsafe { (*(*list).elements.add(at)).ptr_value })
}

/// Index-only scans return a column whose entries have the value as it is in the table.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amcanreturn(index: pg_sys::Relation, column: c_int) -> bool {
    // SAFETY: PostgreSQL has the index open, and a relation that is open has its row of pg_class.
    let kind = unsafe { (*(*index).rd_rel).relkind };
    // Version 17 on asks of partitioned indexes too, which have no pages.
    if kind.cast_unsigned() == pg_sys::RELKIND_PARTITIONED_INDEX {
        return false;
    }
    // SAFETY: as above, and the index has pages.
    unsafe {
        let at = usize::try_from(column - 1).unwrap_or(0);
        Index::open(index).form().returns(at)
    }
}

/// Whether an operator class is for a type whose values an index keeps.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn amvalidate(class: pg_sys::Oid) -> bool {
    // SAFETY: a tuple of the cache is one of its catalogue, until it is released.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::CLAOID.cast_signed();
        let tuple = pg_sys::SearchSysCache1(id, pg_sys::Datum::from(class));
        if tuple.is_null() {
            return false;
        }
        let class = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_opclass>();
        let (of, family) = (class.opcintype, class.opcfamily);
        pg_sys::ReleaseSysCache(tuple);
        let has = |function: u16| {
            let number = i16::try_from(function).unwrap_or(0);
            pg_sys::get_opfamily_proc(family, of, of, number) != pg_sys::InvalidOid
        };
        has(HASH_FUNCTION) || has(COMPARE_FUNCTION) || Kind::of_type(of).is_some()
    }
}
