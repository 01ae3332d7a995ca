//! The stores of readings.

use std::path::Path;

#[cfg(feature = "rocksdb")]
use super::rocksdb;
use super::{TableOptions, TableStore};
use super::{bedload, duckdb, fjall, lmdb, parquet, redb, sqlite};

/// Opens a store in a directory, or creates one there.
pub(crate) type Open = fn(&Path, &TableOptions) -> Box<dyn TableStore>;

/// A store that takes part in scenarios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableEntrant {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// Opens one.
    pub(crate) open: Open,
    /// Whether it takes commits one after another, and keeps them; if not it is a file that is written once, a bound on
    /// what stores can reach.
    pub(crate) is_store: bool,
    /// Whether it has another durability than that of a commit that is on the disk.
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

/// The same a second time: how far its figures are from the baseline's is the noise of a run.
pub(crate) const TABLE_BASELINE_AGAIN: &str = "same-again";

const ALL: &[TableEntrant] = &[
    store(TABLE_BASELINE, bedload::open),
    store(TABLE_BASELINE_AGAIN, bedload::open),
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

/// Everything that can run here.
pub(crate) fn stores_and_files() -> Vec<TableEntrant> {
    let can_run = |entrant: &&TableEntrant| entrant.name != duckdb::NAME || duckdb::is_there();
    ALL.iter().filter(can_run).copied().collect()
}

/// The stores that can run here.
pub(crate) fn stores() -> Vec<TableEntrant> {
    let all = stores_and_files().into_iter();
    all.filter(|entrant| entrant.is_store).collect()
}

/// The store of this name.
pub(crate) fn by_name(name: &str) -> Option<TableEntrant> {
    ALL.iter().copied().find(|entrant| entrant.name == name)
}
