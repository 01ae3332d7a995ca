//! Answers to the planner and to `CREATE` statements.

#![expect(unsafe_code, reason = "functions of an access method")]

use std::ffi::c_int;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

use super::scan::RANGES_MAX;
use crate::compat;
use crate::index::Index;
use crate::key::{COMPARE_FUNCTION, HASH_FUNCTION, Kind};
use crate::list::pointers;

/// The server's charge for work on a page of an index that is in memory, in `cpu_operator_cost`s:
/// `selfuncs.c` has no name for it that others could use.
const PAGE_OPERATORS: f64 = 50.0;

/// The B-tree's estimate, plus the work of a scan of this index before its first entry: it looks at
/// the head, at each node on the path to a leaf, and at each run that they name.
///
/// The B-tree's estimate reads only properties that this index has too: its size, strategies and
/// order, and the column's statistics. It charges for the pages of matching entries, of which there
/// are fewer here as entries are smaller. It charges nothing for the descent, as it assumes that an
/// index that is no B-tree has no height. A scan of a list descends for each value.
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
    // SAFETY: the arguments are passed on as they came.
    unsafe {
        estimate_as_b_tree(
            root,
            path,
            loop_count,
            startup_cost,
            total_cost,
            selectivity,
            correlation,
            pages,
        );
        if compat::B_TREES_SKIP {
            estimate_without_skips(root, path, loop_count, startup_cost, total_cost, pages);
        }
        add_costs_of_runs(root, path, startup_cost, total_cost);
    }
}

/// The server's estimate for B-trees.
///
/// # Safety
///
/// The arguments are those of the planner, or like them.
#[expect(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
unsafe fn estimate_as_b_tree(
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
    // SAFETY: the caller's; the boundary catches errors.
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
    }
}

/// Estimates again what a scan costs that does not skip: conditions on columns after one without an
/// equality do not shorten it.
///
/// # Safety
///
/// As for [`estimate_as_b_tree`].
unsafe fn estimate_without_skips(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    pages: *mut f64,
) {
    // SAFETY: the caller's; a path is copied as it is, with a list of its own.
    unsafe {
        let info = &*(*path).indexinfo;
        let (leading, others) = leading_clauses(root, &*path);
        if others == 0 {
            return;
        }
        let mut leading_path = std::ptr::read(path);
        leading_path.indexclauses = pg_sys::list_copy_head((*path).indexclauses, leading);
        let (mut selectivity, mut correlation) = (0.0, 0.0);
        estimate_as_b_tree(
            root,
            &raw mut leading_path,
            loop_count,
            startup_cost,
            total_cost,
            &raw mut selectivity,
            &raw mut correlation,
            pages,
        );
        // The others are checked entry by entry.
        *total_cost += others as f64 * selectivity * (*info.rel).tuples * pg_sys::cpu_operator_cost;
    }
}

/// How many of the first conditions of a path determine where it looks, and how many others there
/// are: those of the leading columns that have an equality, and of the column after these.
///
/// # Safety
///
/// The path is one of the planner's.
unsafe fn leading_clauses(root: *mut pg_sys::PlannerInfo, path: &pg_sys::IndexPath) -> (c_int, usize) {
    // SAFETY: the caller's; the list holds clauses, in the order of columns.
    unsafe {
        let info = &*path.indexinfo;
        let (mut leading, mut others) = (0, 0);
        // The last of the leading columns so far, and whether it has an equality.
        let (mut column, mut is_equal) = (0, false);
        for clause in pointers(path.indexclauses) {
            let clause = &*clause.cast::<pg_sys::IndexClause>();
            let is_next = is_equal && clause.indexcol == column + 1;
            if others > 0 || (clause.indexcol != column && !is_next) {
                others += pointers(clause.indexquals).count();
                continue;
            }
            is_equal = (is_equal && !is_next) || values_of(root, clause, info).is_some();
            column = clause.indexcol;
            leading += 1;
        }
        (leading, others)
    }
}

/// Adds what a scan does before it returns an entry.
///
/// # Safety
///
/// The path is one of the planner's, which has locked its index; the costs are valid.
unsafe fn add_costs_of_runs(
    root: *mut pg_sys::PlannerInfo,
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
        let ranges = Ranges::of(root, &*path);
        let pages = shape.pages(filtered.is_some_and(|columns| ranges.columns >= columns));
        let mut page_cost = 0.0;
        pg_sys::get_tablespace_page_costs(info.reltablespace, &raw mut page_cost, std::ptr::null_mut());
        let (index_pages, cached_pages) = (f64::from(info.pages), f64::from(pg_sys::effective_cache_size));
        let share_read = (1.0 - cached_pages / index_pages.max(1.0)).max(0.0);
        let cost = |ranges: f64| {
            let visited = pages.once as f64 + pages.each as f64 * ranges;
            let read = (pages.read as f64 * ranges).min(index_pages);
            visited * PAGE_OPERATORS * pg_sys::cpu_operator_cost + read * share_read * page_cost
        };
        *startup_cost += cost(1.0);
        *total_cost += cost(ranges.count);
    }
}

/// The ranges of an index where a scan looks, as `Search` makes them.
struct Ranges {
    /// How many leading columns have one value in each.
    columns: usize,
    count: f64,
}

impl Ranges {
    /// # Safety
    ///
    /// The path is one of the planner's.
    unsafe fn of(root: *mut pg_sys::PlannerInfo, path: &pg_sys::IndexPath) -> Self {
        // SAFETY: the caller's; the list holds clauses.
        unsafe {
            let info = &*path.indexinfo;
            let mut values = vec![None; usize::try_from(info.nkeycolumns).unwrap_or(0)];
            for clause in pointers(path.indexclauses) {
                let clause = &*clause.cast::<pg_sys::IndexClause>();
                let column = usize::try_from(clause.indexcol).unwrap_or(0);
                let Some(values) = values.get_mut(column) else {
                    continue;
                };
                let fewest = [*values, values_of(root, clause, info)].into_iter().flatten();
                *values = fewest.reduce(f64::min);
            }
            let mut ranges = Self {
                columns: 0,
                count: 1.0,
            };
            for values in values {
                let Some(values) = values else { break };
                let multiplies = ranges.count > 1.0 && values > 1.0;
                if multiplies && ranges.count * values > RANGES_MAX as f64 {
                    break;
                }
                ranges.columns += 1;
                ranges.count *= values;
            }
            ranges
        }
    }
}

/// How many values of its column a clause asks for, by estimate, if it asks for single ones.
///
/// # Safety
///
/// The clause is one of a path of the planner's by the index.
unsafe fn values_of(
    root: *mut pg_sys::PlannerInfo,
    clause: &pg_sys::IndexClause,
    info: &pg_sys::IndexOptInfo,
) -> Option<f64> {
    // SAFETY: the caller's; the list holds conditions, a condition on a list has two operands, and
    // an index has a family for each column.
    unsafe {
        let family = *info.opfamily.add(usize::try_from(clause.indexcol).unwrap_or(0));
        let is_equality = |operator| {
            let strategy = pg_sys::get_op_opfamily_strategy(operator, family);
            strategy.cast_unsigned() == pg_sys::BTEqualStrategyNumber
        };
        let values = pointers(clause.indexquals).filter_map(|condition| {
            let condition = (*condition.cast::<pg_sys::RestrictInfo>()).clause;
            match (*condition).type_ {
                pg_sys::NodeTag::T_OpExpr => {
                    is_equality((*condition.cast::<pg_sys::OpExpr>()).opno).then_some(1.0)
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let condition = &*condition.cast::<pg_sys::ScalarArrayOpExpr>();
                    let list = pointers(condition.args).nth(1)?;
                    is_equality(condition.opno).then(|| compat::array_len(root, list.cast()).max(1.0))
                }
                // Nulls have one key in common.
                pg_sys::NodeTag::T_NullTest => {
                    let test = (*condition.cast::<pg_sys::NullTest>()).nulltesttype;
                    (test == pg_sys::NullTestType::IS_NULL).then_some(1.0)
                }
                _ => None,
            }
        });
        values.reduce(f64::min)
    }
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
