//! Functions for SQL: what an index looks like inside.

#![expect(
    unsafe_code,
    reason = "relations are opened and locked by calls into PostgreSQL"
)]

use bedload_trees::be_tree::Level;
use pgrx::iter::{SetOfIterator, TableIterator};
use pgrx::{name, pg_extern, pg_sys};

use crate::am::for_each_row;
use crate::error::{fail, name_of};
use crate::index::Index;
use crate::key::Entry;
use crate::pending;

/// An index and its table, open and locked until the transaction ends.
struct Opened {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
}

impl Opened {
    fn new(id: pg_sys::Oid, lock: u32) -> Self {
        let lock = lock.cast_signed();
        // SAFETY: both are locked by opening them, the table first; an error ends the transaction.
        unsafe {
            let table = pg_sys::IndexGetRelation(id, true);
            if table == pg_sys::InvalidOid {
                let message = format!("relation {} is not an index", id.to_u32());
                fail(pgrx::PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, None);
            }
            let table = pg_sys::table_open(table, lock);
            let index = pg_sys::index_open(id, lock);
            let handler = pg_sys::get_am_oid(c"bedload".as_ptr(), true);
            if (*(*index).rd_rel).relam != handler {
                let message = format!("\"{}\" is not a bedload index", name_of(index));
                fail(pgrx::PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, message, None);
            }
            Self { table, index }
        }
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

/// Everything that is wrong with an index, a line each: its structure, its order, and what it has of the rows that are
/// visible. Writers wait meanwhile. O(rows) memory.
#[pg_extern(sql = false)]
fn bedload_check(index: pg_sys::Oid) -> SetOfIterator<'static, String> {
    let opened = Opened::new(index, pg_sys::ShareLock);
    // SAFETY: the index is open and locked.
    let index = unsafe {
        pending::flush(opened.index);
        Index::open(opened.index)
    };
    let (_, mut problems) = index.verify();
    if problems.is_empty() {
        let mut entries = Vec::new();
        index.for_each(|entry| entries.push(entry));
        if !entries.is_sorted_by(|a, b| a < b) {
            problems.push("entries do not ascend".to_owned());
        }
        check_rows(&opened, &entries, &mut problems);
    }
    SetOfIterator::new(problems)
}

/// Each visible row has one entry, under its value.
fn check_rows(opened: &Opened, entries: &[Entry], problems: &mut Vec<String>) {
    let mut rows = Vec::new();
    // SAFETY: both relations are open and locked.
    unsafe {
        let info = pg_sys::BuildIndexInfo(opened.index);
        // So that the build's scan takes the rows of a snapshot, and no others.
        (*info).ii_Concurrent = true;
        let form = Index::open(opened.index).form();
        for_each_row((opened.table, opened.index), form, info, &mut |row, _| {
            rows.push(row)
        });
    }
    rows.sort_unstable();
    for row in rows.iter().filter(|row| entries.binary_search(row).is_err()) {
        problems.push(format!("{} has no entry", describe(row)));
    }
    rows.sort_unstable_by_key(Entry::address_bits);
    for entry in entries {
        let found = rows.binary_search_by_key(&entry.address_bits(), Entry::address_bits);
        if let Ok(at) = found
            && !rows[at].is_identical(entry)
        {
            problems.push(format!("the entry of {} is of another row", describe(entry)));
        }
    }
}

fn describe(entry: &Entry) -> String {
    let row = format!("row ({},{})", entry.block(), entry.address().ip_posid);
    match (entry.integer(), entry.len_bytes()) {
        (Some(value), _) => format!("{row} with value {value}"),
        (None, 0) => format!("{row} with null"),
        (None, _) => row,
    }
}

/// Pages that were lost in a crash, made available again; returns how many. Writers wait meanwhile.
#[pg_extern(sql = false)]
fn bedload_sweep(index: pg_sys::Oid) -> i64 {
    let opened = Opened::new(index, pg_sys::ShareRowExclusiveLock);
    // SAFETY: the index is open and locked.
    let index = unsafe { Index::open(opened.index) };
    i64::try_from(index.sweep()).unwrap_or(i64::MAX)
}

/// Merges all that an index has into its leaves: for a table that is going to be read rather than written.
#[pg_extern(sql = false)]
fn bedload_drain(index: pg_sys::Oid) {
    let opened = Opened::new(index, pg_sys::ShareUpdateExclusiveLock);
    // SAFETY: the index is open and locked.
    unsafe {
        pending::flush(opened.index);
        Index::open(opened.index).maintain(true);
    }
}

/// How an index is built, and how many entries wait for it in this session. O(pages).
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns off the type")]
fn bedload_info(
    index: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(entries, i64),
        name!(height, i32),
        name!(nodes, i64),
        name!(leaves, i64),
        name!(runs_above, i64),
        name!(leaf_runs, i64),
        name!(pages, i64),
        name!(pending, i64),
    ),
> {
    let opened = Opened::new(index, pg_sys::AccessShareLock);
    let pending = pending::len(opened.index);
    // SAFETY: the index is open and locked.
    let index = unsafe { Index::open(opened.index) };
    let (report, _) = index.verify();
    let mut entries = 0;
    index.for_each(|_| entries += 1);
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    TableIterator::once((
        entries,
        report.height.into(),
        long(report.nodes),
        long(report.leaves),
        long(report.runs_above),
        long(report.leaf_runs),
        long(report.pages.len() as u64),
        long(pending as u64),
    ))
}

/// How much an index has, and where, from its nodes alone. O(nodes).
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns off the type")]
fn bedload_stats(
    index: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(entries, i64),
        name!(head_entries, i64),
        name!(head_pages, i64),
        name!(pending, i64),
        name!(nodes_by_level, Vec<i64>),
        name!(runs_by_level, Vec<i64>),
        name!(entries_by_level, Vec<i64>),
        name!(pages_by_level, Vec<i64>),
        name!(bytes, i64),
        name!(bulk_deletions, i64),
    ),
> {
    let opened = Opened::new(index, pg_sys::AccessShareLock);
    let pending = pending::len(opened.index) as u64;
    // SAFETY: the index is open and locked.
    let index = unsafe { Index::open(opened.index) };
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (head_entries, head_pages) = index.head_size();
    let levels = index.levels();
    let by_level = |of: fn(&Level) -> u64| levels.iter().map(|level| long(of(level))).collect::<Vec<_>>();
    let in_tree = levels.iter().map(|level| level.entries).sum::<u64>();
    TableIterator::once((
        long(in_tree + head_entries + pending),
        long(head_entries),
        long(head_pages),
        long(pending),
        by_level(|level| level.nodes),
        by_level(|level| level.runs),
        by_level(|level| level.entries),
        by_level(|level| level.pages),
        long(u64::from(index.pages().block_count()) * u64::from(pg_sys::BLCKSZ)),
        long(index.deletions()),
    ))
}
