//! The stores of readings.

use std::path::Path;

#[cfg(feature = "rocksdb")]
use super::rocksdb;
use super::{TableOptions, TableStore};
use super::{bedload, duckdb, fjall, lmdb, parquet, redb, sqlite};
use crate::subjects::SAME_AGAIN;

/// Opens or creates a store in a directory.
pub(crate) type Open = fn(&Path, &TableOptions) -> Box<dyn TableStore>;

/// A store that takes part in scenarios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableEntrant {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// Opens a store.
    pub(crate) open: Open,
    /// Whether it is a store that accepts successive commits; otherwise it is a file written once,
    /// a bound on stores.
    pub(crate) is_store: bool,
    /// Whether it has a durability weaker than a synced commit.
    pub(crate) can_relax: bool,
}

const fn store(name: &'static str, open: Open) -> TableEntrant {
    TableEntrant {
        name,
        open,
        is_store: true,
        can_relax: true,
    }
}

/// The store that ratios refer to.
pub(crate) const TABLE_BASELINE: &str = "bedload";

const ALL: &[TableEntrant] = &[
    store(TABLE_BASELINE, bedload::open),
    store(SAME_AGAIN, bedload::open),
    store("lmdb", lmdb::open),
    #[cfg(feature = "rocksdb")]
    store("rocksdb", rocksdb::open),
    store("fjall", fjall::open),
    store("redb", redb::open),
    store("sqlite", sqlite::open),
    TableEntrant {
        can_relax: false,
        ..store(duckdb::NAME, duckdb::open)
    },
    TableEntrant {
        is_store: false,
        can_relax: false,
        ..store("parquet", parquet::open)
    },
];

/// Returns all entrants that can run here.
pub(crate) fn stores_and_files() -> Vec<TableEntrant> {
    let can_run = |entrant: &&TableEntrant| entrant.name != duckdb::NAME || duckdb::is_there();
    ALL.iter().filter(can_run).copied().collect()
}

/// Returns the stores that can run here.
pub(crate) fn stores() -> Vec<TableEntrant> {
    let all = stores_and_files().into_iter();
    all.filter(|entrant| entrant.is_store).collect()
}

/// Returns the entrant with this name.
pub(crate) fn by_name(name: &str) -> Option<TableEntrant> {
    ALL.iter().copied().find(|entrant| entrant.name == name)
}
