//! The indexes that have files, in the catalogue: others may have the indexes locked.

#![expect(
    unsafe_code,
    reason = "rows of the catalogue are read by calls into PostgreSQL"
)]

use pgrx::pg_sys;

use super::batch::Origin;
use crate::compat::FileName;

/// The index that has the file now: the same one, or another one that was given it (rule 7).
pub(super) fn index_with_file(origin: Origin) -> Option<pg_sys::Oid> {
    if file_of(origin.index) == Some(origin.file) {
        return Some(origin.index);
    }
    relation_with_file(origin.file)
}

fn file_of(relation: pg_sys::Oid) -> Option<FileName> {
    // SAFETY: a tuple of the cache is one of its catalogue, until it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID.cast_signed();
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(relation));
        let row = pg_sys::GETSTRUCT(tuple.as_mut()?).cast::<pg_sys::FormData_pg_class>();
        let file = FileName::of_row(&*row);
        pg_sys::ReleaseSysCache(tuple);
        Some(file)
    }
}

/// The server's own `RelidByRelfilenumber` does not look for temporary files.
fn relation_with_file(file: FileName) -> Option<pg_sys::Oid> {
    let (tablespace, number) = file.in_rows();
    let mut keys = [pg_sys::ScanKeyData::default(); 2];
    let columns = [
        (pg_sys::Anum_pg_class_reltablespace, tablespace),
        (pg_sys::Anum_pg_class_relfilenode, number),
    ];
    let short = |number: u32| u16::try_from(number).expect("a small number");
    // SAFETY: the catalogue is locked by opening it, and its rows are those of relations. An error
    // ends the subtransaction, and with it the scan.
    unsafe {
        for (key, (column, value)) in keys.iter_mut().zip(columns) {
            pg_sys::ScanKeyInit(
                key,
                short(column).cast_signed(),
                short(pg_sys::BTEqualStrategyNumber),
                pg_sys::F_OIDEQ.into(),
                value.into(),
            );
        }
        let lock = pg_sys::AccessShareLock.cast_signed();
        let catalogue = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let scan = pg_sys::systable_beginscan(
            catalogue,
            pg_sys::ClassTblspcRelfilenodeIndexId.into(),
            true,
            std::ptr::null_mut(),
            2,
            keys.as_mut_ptr(),
        );
        let mut found = None;
        while let Some(tuple) = pg_sys::systable_getnext(scan).as_mut() {
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
            // Temporary files of other sessions have numbers of their own, too.
            let is_own = !file.is_temporary() || pg_sys::isTempNamespace(row.relnamespace);
            if FileName::of_row(row) == file && is_own {
                found = Some(row.oid);
                break;
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalogue, lock);
        found
    }
}
