//! Where versions of PostgreSQL differ: 15 to 18.

#![expect(unsafe_code, reason = "structures and functions of PostgreSQL")]

use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary};

/// The name of a relation's file, as the server's functions take it.
#[cfg(feature = "pg15")]
pub(crate) type Locator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
pub(crate) type Locator = pg_sys::RelFileLocator;

/// The name of a relation's file. Numbers are unique only among permanent relations of a
/// tablespace, and among temporary ones of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileName {
    tablespace: pg_sys::Oid,
    database: pg_sys::Oid,
    number: pg_sys::Oid,
    is_temporary: bool,
}

impl FileName {
    /// That of a relation, by its row of the catalogue.
    pub(crate) fn of_row(row: &pg_sys::FormData_pg_class) -> Self {
        // SAFETY: variables of this process.
        let (tablespace, database) = unsafe { (pg_sys::MyDatabaseTableSpace, pg_sys::MyDatabaseId) };
        let has_own = row.reltablespace != pg_sys::InvalidOid;
        Self {
            tablespace: if has_own { row.reltablespace } else { tablespace },
            database,
            number: row.relfilenode,
            is_temporary: row.relpersistence.cast_unsigned() == pg_sys::RELPERSISTENCE_TEMP,
        }
    }

    /// The tablespace in the catalogue's rows of relations with the file, and the number there.
    pub(crate) fn in_rows(self) -> (pg_sys::Oid, pg_sys::Oid) {
        // SAFETY: a variable of this process.
        let is_default = self.tablespace == unsafe { pg_sys::MyDatabaseTableSpace };
        let tablespace = if is_default {
            pg_sys::InvalidOid
        } else {
            self.tablespace
        };
        (tablespace, self.number)
    }

    /// Whether its pages are in buffers of this process alone.
    pub(crate) fn is_temporary(self) -> bool {
        self.is_temporary
    }
}

/// Where the name of a relation's file is kept.
///
/// # Safety
///
/// The relation is open as long as the result is used.
pub(crate) unsafe fn locator(relation: pg_sys::Relation) -> *mut Locator {
    // SAFETY: the caller's.
    #[cfg(feature = "pg15")]
    unsafe {
        &raw mut (*relation).rd_node
    }
    // SAFETY: the caller's.
    #[cfg(not(feature = "pg15"))]
    unsafe {
        &raw mut (*relation).rd_locator
    }
}

/// The name of a relation's file.
///
/// # Safety
///
/// The relation is open.
pub(crate) unsafe fn file_of(relation: pg_sys::Relation) -> FileName {
    // SAFETY: the caller's; a relation that is open has its row of `pg_class`.
    let (locator, persistence) = unsafe { (*locator(relation), (*(*relation).rd_rel).relpersistence) };
    #[cfg(feature = "pg15")]
    let (tablespace, database, number) = (locator.spcNode, locator.dbNode, locator.relNode);
    #[cfg(not(feature = "pg15"))]
    let (tablespace, database, number) = (locator.spcOid, locator.dbOid, locator.relNumber);
    FileName {
        tablespace,
        database,
        number,
        is_temporary: persistence.cast_unsigned() == pg_sys::RELPERSISTENCE_TEMP,
    }
}

/// Counts a page of a relation that was found in the server's buffers, for its statistics.
///
/// # Safety
///
/// The relation is open.
pub(crate) unsafe fn count_buffer_hit(relation: pg_sys::Relation) {
    // SAFETY: the caller's; the counts are this process's own, where there are any.
    unsafe {
        let Some(counted) = (*relation).pgstat_info.as_mut() else {
            return;
        };
        #[cfg(feature = "pg15")]
        let (fetched, hit) = (
            &mut counted.t_counts.t_blocks_fetched,
            &mut counted.t_counts.t_blocks_hit,
        );
        #[cfg(not(feature = "pg15"))]
        let (fetched, hit) = (&mut counted.counts.blocks_fetched, &mut counted.counts.blocks_hit);
        *fetched += 1;
        *hit += 1;
    }
}

/// Takes back that a row was counted as fetched by an index.
///
/// # Safety
///
/// The index is open, and a row was counted.
pub(crate) unsafe fn uncount_fetched_row(index: pg_sys::Relation) {
    // SAFETY: the caller's; the counts are this process's own, where there are any.
    unsafe {
        let Some(counted) = (*index).pgstat_info.as_mut() else {
            return;
        };
        #[cfg(feature = "pg15")]
        let fetched = &mut counted.t_counts.t_tuples_fetched;
        #[cfg(not(feature = "pg15"))]
        let fetched = &mut counted.counts.tuples_fetched;
        *fetched -= 1;
    }
}

/// The subtransaction that gave a relation its present file first, if the transaction did.
pub(crate) fn subtransaction_of_file(relation: &pg_sys::RelationData) -> pg_sys::SubTransactionId {
    #[cfg(feature = "pg15")]
    return relation.rd_firstRelfilenodeSubid;
    #[cfg(not(feature = "pg15"))]
    relation.rd_firstRelfilelocatorSubid
}

/// A column of a relation.
///
/// # Safety
///
/// The relation is open as long as the result is used, and has the column.
pub(crate) unsafe fn attribute<'r>(
    relation: pg_sys::Relation,
    at: usize,
) -> &'r pg_sys::FormData_pg_attribute {
    // SAFETY: the caller's.
    #[cfg(not(feature = "pg18"))]
    unsafe {
        &*(*(*relation).rd_att).attrs.as_ptr().add(at)
    }
    // SAFETY: the caller's; the attributes follow their compact forms, of which there is one for
    // each.
    #[cfg(feature = "pg18")]
    unsafe {
        let columns = (*relation).rd_att;
        let count = usize::try_from((*columns).natts).unwrap_or(0);
        let attributes = (*columns).compact_attrs.as_ptr().add(count);
        &*attributes.cast::<pg_sys::FormData_pg_attribute>().add(at)
    }
}

/// Whether a collation compares the bytes of text.
pub(crate) fn collates_bytes(collation: pg_sys::Oid) -> bool {
    #[cfg(not(feature = "pg18"))]
    unsafe extern "C-unwind" {
        fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    }
    // SAFETY: takes any collation; the boundary catches errors.
    #[cfg(not(feature = "pg18"))]
    #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
    unsafe {
        pg_guard_ffi_boundary(|| lc_collate_is_c(collation))
    }
    #[cfg(feature = "pg18")]
    {
        /// How `pg_locale_t` begins.
        #[repr(C)]
        struct Locale {
            provider: std::ffi::c_char,
            is_deterministic: bool,
            collates_bytes: bool,
        }
        unsafe extern "C-unwind" {
            fn pg_newlocale_from_collation(collation: pg_sys::Oid) -> *const Locale;
        }
        // SAFETY: as above; the result stays.
        #[expect(ffi_unwind_calls, reason = "its errors are caught by the boundary")]
        unsafe {
            pg_guard_ffi_boundary(|| (*pg_newlocale_from_collation(collation)).collates_bytes)
        }
    }
}

/// Sleeps if `VACUUM` has cost as much as it may, or ends with an error if it was cancelled. No
/// latch may be held.
pub(crate) fn vacuum_delay_point() {
    // SAFETY: no latch is held.
    #[cfg(not(feature = "pg18"))]
    unsafe {
        pg_sys::vacuum_delay_point();
    }
    // SAFETY: as above.
    #[cfg(feature = "pg18")]
    unsafe {
        pg_sys::vacuum_delay_point(false);
    }
}

/// Sleeps for all that `VACUUM` has cost since it slept last, as it may be much: the server's own
/// [`vacuum_delay_point`] sleeps for four times its delay at most, and forgives the rest.
pub(crate) fn vacuum_delay() {
    // SAFETY: variables of this process.
    #[cfg(feature = "pg15")]
    let limit = unsafe { pg_sys::VacuumCostLimit };
    // SAFETY: as above.
    #[cfg(not(feature = "pg15"))]
    let limit = unsafe { pg_sys::vacuum_cost_limit };
    // SAFETY: as above.
    let mut cost = unsafe { pg_sys::VacuumCostBalance };
    loop {
        let part = cost.min(limit.max(1));
        cost -= part;
        // SAFETY: as above.
        unsafe { pg_sys::VacuumCostBalance = part };
        vacuum_delay_point();
        if cost <= 0 {
            break;
        }
    }
}

/// The next value of a sort, a copy in memory of its own; `false` at the end.
///
/// # Safety
///
/// The sort has been performed, and is of values in memory.
pub(crate) unsafe fn next_of_sort(sort: *mut pg_sys::Tuplesortstate, value: &mut pg_sys::Datum) -> bool {
    let (mut is_null, abbreviated) = (false, std::ptr::null_mut());
    // SAFETY: the caller's.
    #[cfg(feature = "pg15")]
    unsafe {
        pg_sys::tuplesort_getdatum(sort, true, value, &raw mut is_null, abbreviated)
    }
    // SAFETY: the caller's.
    #[cfg(not(feature = "pg15"))]
    unsafe {
        pg_sys::tuplesort_getdatum(sort, true, true, value, &raw mut is_null, abbreviated)
    }
}

/// Whether rows that a snapshot sees may have been removed (`old_snapshot_threshold`, until version
/// 16).
pub(crate) fn snapshots_expire() -> bool {
    // SAFETY: a setting of the server.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    return unsafe { pg_sys::old_snapshot_threshold } >= 0;
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    false
}

/// A row on a page of a table.
///
/// # Safety
///
/// The page is one of a table, and has the row.
pub(crate) unsafe fn row_on_page(page: pg_sys::Page, offset: u16) -> *mut pg_sys::HeapTupleHeaderData {
    let page = page.cast::<u8>();
    // SAFETY: the caller's; items follow the header, the first one having number 1, and say where
    // their rows begin.
    unsafe {
        let items = page
            .add(size_of::<pg_sys::PageHeaderData>())
            .cast::<pg_sys::ItemIdData>();
        let item = *items.add(usize::from(offset) - 1);
        page.add(item.lp_off() as usize).cast()
    }
}

/// Tells the server that strategies are those of a B-tree, where it asks.
pub(crate) fn set_strategies(am: &mut pg_sys::IndexAmRoutine) {
    #[cfg(feature = "pg18")]
    {
        /// Kinds of comparison have the numbers of strategies.
        #[pgrx::pg_guard]
        unsafe extern "C-unwind" fn comparison_of(
            strategy: pg_sys::StrategyNumber,
            _family: pg_sys::Oid,
        ) -> pg_sys::CompareType::Type {
            pg_sys::CompareType::Type::from(strategy)
        }
        #[pgrx::pg_guard]
        unsafe extern "C-unwind" fn strategy_of(
            comparison: pg_sys::CompareType::Type,
            _family: pg_sys::Oid,
        ) -> pg_sys::StrategyNumber {
            // There are no others beyond the fifth.
            let strategy = pg_sys::StrategyNumber::try_from(comparison).unwrap_or(0);
            if u32::from(strategy) <= pg_sys::BTGreaterStrategyNumber {
                strategy
            } else {
                0
            }
        }
        am.amconsistentequality = true;
        am.amconsistentordering = true;
        am.amtranslatestrategy = Some(comparison_of);
        am.amtranslatecmptype = Some(strategy_of);
    }
    let _ = am;
}

/// Tells the server's statistics, and `EXPLAIN`, that an index is searched.
///
/// # Safety
///
/// The scan is one under way.
pub(crate) unsafe fn count_search(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the caller's: its index is open. The server's counters of it are null, or stay until
    // it is closed.
    unsafe {
        let index = (*scan).indexRelation;
        if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(index);
        }
        if let Some(counts) = (*index).pgstat_info.as_mut() {
            #[cfg(feature = "pg15")]
            {
                counts.t_counts.t_numscans += 1;
            }
            #[cfg(not(feature = "pg15"))]
            {
                counts.counts.numscans += 1;
            }
        }
        #[cfg(feature = "pg18")]
        if let Some(instrument) = (*scan).instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}

/// Whether the estimate for B-trees assumes skip scans, which pass over rows between those that
/// match a condition on a later column.
pub(crate) const B_TREES_SKIP: bool = cfg!(feature = "pg18");

/// The planner's estimate of how many elements an array has.
///
/// # Safety
///
/// The array is an expression of the query that `root` plans.
pub(crate) unsafe fn array_len(root: *mut pg_sys::PlannerInfo, array: *mut pg_sys::Node) -> f64 {
    // SAFETY: the caller's.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    unsafe {
        let _ = root;
        f64::from(pg_sys::estimate_array_length(array))
    }
    // SAFETY: the caller's.
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    unsafe {
        pg_sys::estimate_array_length(root, array)
    }
}

/// Where a storage parameter that is an integer stands in the structure that has it.
pub(crate) fn integer_option(name: &'static std::ffi::CStr, offset: usize) -> pg_sys::relopt_parse_elt {
    pg_sys::relopt_parse_elt {
        optname: name.as_ptr(),
        opttype: pg_sys::relopt_type::RELOPT_TYPE_INT,
        offset: std::ffi::c_int::try_from(offset).unwrap_or(0),
        #[cfg(feature = "pg18")]
        isset_offset: 0,
    }
}

/// Tells the server how many bytes of shared memory a parallel scan takes.
pub(crate) fn set_parallel_scan_len<const LEN: usize>(am: &mut pg_sys::IndexAmRoutine) {
    // None of them can fail, so they have no guard.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    unsafe extern "C-unwind" fn len<const LEN: usize>() -> pg_sys::Size {
        LEN
    }
    #[cfg(feature = "pg17")]
    unsafe extern "C-unwind" fn len<const LEN: usize>(
        _keys: std::ffi::c_int,
        _order_bys: std::ffi::c_int,
    ) -> pg_sys::Size {
        LEN
    }
    #[cfg(feature = "pg18")]
    unsafe extern "C-unwind" fn len<const LEN: usize>(
        _index: pg_sys::Relation,
        _keys: std::ffi::c_int,
        _order_bys: std::ffi::c_int,
    ) -> pg_sys::Size {
        LEN
    }
    am.amestimateparallelscan = Some(len::<LEN>);
}

/// The shared memory of an access method in a parallel scan; none of another scan.
///
/// # Safety
///
/// The scan is one under way.
pub(crate) unsafe fn shared_of_scan(
    scan: pg_sys::IndexScanDesc,
) -> Option<std::ptr::NonNull<std::ffi::c_void>> {
    // SAFETY: the caller's: the field is null, or a description that says where the memory lies
    // behind it. The pointer is not followed.
    unsafe {
        let shared = std::ptr::NonNull::new((*scan).parallel_scan)?;
        #[cfg(not(feature = "pg18"))]
        let offset = (*shared.as_ptr()).ps_offset;
        #[cfg(feature = "pg18")]
        let offset = (*shared.as_ptr()).ps_offset_am;
        Some(shared.cast::<u8>().add(offset).cast())
    }
}
