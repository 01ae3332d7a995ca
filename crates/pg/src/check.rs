//! Functions for SQL: what an index looks like inside.

#![expect(
    unsafe_code,
    reason = "relations are opened and locked, and snapshots had, by calls into PostgreSQL"
)]

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use bedload_trees::be_tree::Level;
use pgrx::iter::{SetOfIterator, TableIterator};
use pgrx::{PgSqlErrorCode, name, pg_extern, pg_sys};

use crate::am::for_each_row;
use crate::error::{fail, name_of};
use crate::index::Index;
use crate::key::{Entry, EntryRef};
use crate::opened::Opened;
use crate::pending;
use crate::sorter::Sorter;

/// The most problems listed one by one; the rest are only counted.
const PROBLEMS: u64 = 1000;

/// Everything that is wrong with an index, a line each: its structure, its order, and the entries
/// of the rows that are visible. Writers wait meanwhile. Sorts 32 bytes for each entry and each row
/// within `maintenance_work_mem`, and in temporary files beyond.
#[pg_extern(sql = false)]
fn bedload_check(index: pg_sys::Oid) -> SetOfIterator<'static, String> {
    SetOfIterator::new(problems_of(index, true))
}

/// [`bedload_check`], or without `heapallindexed` a check of the structure and the order alone,
/// which does not read the table.
#[pg_extern(sql = false)]
fn bedload_check_parts(index: pg_sys::Oid, heapallindexed: bool) -> SetOfIterator<'static, String> {
    SetOfIterator::new(problems_of(index, heapallindexed))
}

fn problems_of(index: pg_sys::Oid, heapallindexed: bool) -> Vec<String> {
    let opened = Opened::bedload(index, pg_sys::ShareLock);
    let _owner = opened.as_owner();
    if heapallindexed {
        refuse_older_snapshot(&opened);
    }
    // SAFETY: the index is open and locked.
    let index = unsafe {
        pending::flush(opened.index);
        Index::open(opened.index)
    };
    let (_, mut problems) = index.verify();
    if problems.is_empty() && heapallindexed {
        check_entries(&opened, &index, &mut problems);
    } else if problems.is_empty() {
        check_order(&index, &mut problems, |_| {});
    }
    problems
}

/// Ends with an error if the transaction's snapshot sees versions of rows that the index lacks:
/// those that had newer ones on their page when it was built. The server does not use it then,
/// either.
fn refuse_older_snapshot(opened: &Opened) {
    // SAFETY: the index is open, so its row of `pg_index` is there; a transaction is under way.
    let is_older = unsafe {
        let index = &*opened.index;
        (*index.rd_index).indcheckxmin
            && pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ.cast_signed()
            && !pg_sys::TransactionIdPrecedes(
                pg_sys::HeapTupleHeaderGetXmin((*index.rd_indextuple).t_data),
                (*pg_sys::GetTransactionSnapshot()).xmin,
            )
    };
    if is_older {
        // SAFETY: the index is open.
        let name = unsafe { name_of(opened.index) };
        fail(
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            format!("index \"{name}\" cannot be checked: it is newer than this transaction's snapshot"),
            Some("Check it in a new transaction, or with heapallindexed => false.".to_owned()),
        );
    }
}

/// Entries ascend; shows each to `visit`.
fn check_order(index: &Index, problems: &mut Vec<String>, mut visit: impl FnMut(&Entry)) {
    let mut last: Option<Entry> = None;
    let mut ascends = true;
    index.for_each(|entry| {
        visit(&entry);
        ascends &= last.as_ref().is_none_or(|last| *last < entry);
        last = Some(entry);
    });
    if !ascends {
        problems.push("entries do not ascend".to_owned());
    }
}

/// Entries ascend, and each visible row has one entry, with its value.
fn check_entries(opened: &Opened, index: &Index, problems: &mut Vec<String>) {
    let mut claims = Sorter::new();
    check_order(index, problems, |entry| {
        claims.add(&Claim::new(Source::Index, entry).to_bytes());
    });
    // SAFETY: both relations are open and locked.
    unsafe {
        let info = pg_sys::BuildIndexInfo(opened.index);
        // So that the build's scan takes the rows of a snapshot, and no others.
        (*info).ii_Concurrent = true;
        for_each_row((opened.table, opened.index), index.form(), info, &mut |row, _| {
            claims.add(&Claim::new(Source::Table, &row).to_bytes());
        });
    }
    let mut count = 0;
    let mut tell = |problem: String| {
        count += 1;
        if count <= PROBLEMS {
            problems.push(problem);
        }
    };
    let mut claims = claims.sorted().map(Claim::from_bytes).peekable();
    while let Some(row) = claims.next() {
        if row.source == Source::Index {
            // The entry of a row that is not visible, or not to all.
            continue;
        }
        let mut is_found = false;
        while let Some(entry) = claims.next_if(|claim| claim.address == row.address) {
            if entry.value == row.value {
                is_found = true;
            } else {
                tell(format!("the entry of {entry} is of another row"));
            }
        }
        if !is_found {
            tell(format!("{row} has no entry"));
        }
    }
    if count > PROBLEMS {
        problems.push(format!("{} more rows like these", count - PROBLEMS));
    }
}

/// The source that says that a row has a value; the table first, as claims of one row are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Table,
    Index,
}

/// The value of an index's columns in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Integer(i64),
    Null,
    /// A hash of values of other types.
    Hash(u64),
}

/// A claim of the table or the index about a row. In the table, a row has one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    address: u64,
    source: Source,
    value: Value,
}

impl Claim {
    const BYTES: usize = 16;

    fn new(source: Source, entry: &Entry) -> Self {
        let value = match entry.integer() {
            Some(value) => Value::Integer(value),
            None if entry.len_bytes() == 0 => Value::Null,
            None => {
                let EntryRef { key, payload, .. } = entry.borrowed();
                let mut hasher = DefaultHasher::new();
                (key, payload).hash(&mut hasher);
                Value::Hash(hasher.finish())
            }
        };
        Self {
            address: entry.address_bits(),
            source,
            value,
        }
    }

    /// As bytes that sort by address and source.
    fn to_bytes(self) -> [u8; Self::BYTES] {
        let (kind, value) = match self.value {
            Value::Integer(value) => (0, value.cast_unsigned()),
            Value::Null => (1, 0),
            Value::Hash(hash) => (2, hash),
        };
        // An address has 48 bits.
        let row = self.address << 16 | u64::from(self.source == Source::Index) << 8 | kind;
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&row.to_be_bytes());
        bytes[8..].copy_from_slice(&value.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [row, value] = [0, 8].map(|at| {
            let half = std::array::from_fn(|byte| bytes[at + byte]);
            u64::from_be_bytes(half)
        });
        Self {
            address: row >> 16,
            source: if row >> 8 & 1 == 0 {
                Source::Table
            } else {
                Source::Index
            },
            value: match row & 0xff {
                0 => Value::Integer(value.cast_signed()),
                1 => Value::Null,
                _ => Value::Hash(value),
            },
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row ({},{})", self.address >> 16, self.address & 0xffff)?;
        match self.value {
            Value::Integer(value) => write!(f, " with value {value}"),
            Value::Null => f.write_str(" with null"),
            Value::Hash(_) => Ok(()),
        }
    }
}

/// Pages that were lost in a crash, made available again; returns how many. Writers wait meanwhile.
#[pg_extern(sql = false)]
fn bedload_sweep(index: pg_sys::Oid) -> i64 {
    let opened = Opened::bedload(index, pg_sys::ShareRowExclusiveLock);
    // SAFETY: the index is open and locked.
    let index = unsafe { Index::open(opened.index) };
    i64::try_from(index.sweep()).unwrap_or(i64::MAX)
}

/// Merges all that an index has into its leaves: for a table that is going to be read rather than
/// written.
#[pg_extern(sql = false)]
fn bedload_drain(index: pg_sys::Oid) {
    let opened = Opened::bedload(index, pg_sys::ShareUpdateExclusiveLock);
    // SAFETY: the index is open and locked.
    unsafe {
        pending::flush(opened.index);
        Index::open(opened.index).maintain(true);
    }
}

/// How an index is built, and how many entries wait for it in this session. Others may change it
/// meanwhile. O(pages).
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
    let opened = Opened::bedload(index, pg_sys::AccessShareLock);
    let pending = pending::len(opened.index);
    // SAFETY: the index is open and locked.
    let index = unsafe { Index::open(opened.index) };
    let mut entries = 0;
    index.for_each(|_| entries += 1);
    let levels = index.levels();
    let (leaves, above) = levels.split_first().expect("a tree has leaves");
    let (_, head_pages) = index.head_size();
    let of_levels: u64 = levels.iter().map(|level| level.nodes + level.pages).sum();
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    TableIterator::once((
        entries,
        i32::try_from(levels.len()).unwrap_or(i32::MAX),
        long(above.iter().map(|level| level.nodes).sum()),
        long(leaves.nodes),
        long(above.iter().map(|level| level.runs).sum()),
        long(leaves.runs),
        // With the page that names the root.
        long(1 + of_levels + head_pages),
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
    let opened = Opened::bedload(index, pg_sys::AccessShareLock);
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

/// How much sessions have written, and how often the index's filters err. A page for each node, and
/// a few for each filter.
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "pgrx reads the columns off the type")]
fn bedload_work(
    index: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(entries_published, i64),
        name!(entries_merged, i64),
        name!(write_amplification, Option<f64>),
        name!(filters, i64),
        name!(false_positives, Option<f64>),
    ),
> {
    let opened = Opened::bedload(index, pg_sys::AccessShareLock);
    // SAFETY: the index is open and locked.
    let (work, probes) = unsafe { Index::open(opened.index) }.work();
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let ratio = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    TableIterator::once((
        long(work.published),
        long(work.merged),
        ratio(work.published.saturating_add(work.merged), work.published),
        long(probes.filters),
        ratio(probes.false_positives, probes.probes),
    ))
}
