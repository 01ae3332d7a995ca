//! SQLite through rusqlite 0.37: [WAL](https://www.sqlite.org/wal.html), prepared statements, one
//! transaction per batch, `synchronous` FULL, or NORMAL when relaxed. With a key, `INSERT OR
//! REPLACE`. A checkpoint is due when the log has as many bytes as other stores buffer; commits
//! call `fdatasync`, by the flags of `.cargo/config.toml`.
//!
//! The table is [`WITHOUT ROWID`](https://www.sqlite.org/withoutrowid.html), which the
//! documentation advises for composite keys and rows of less than a twentieth of a page. Each
//! thread has its own connection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::readings::{Reading, Readings, RowId, Shown};
use super::{TableOptions, TableStore};

/// SQLite's default.
const PAGE_BYTES: usize = 4096;

struct Sqlite {
    path: PathBuf,
    options: TableOptions,
    /// Idle connections.
    idle: Mutex<Vec<Connection>>,
}

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let store = Sqlite {
        path: dir.join("sqlite"),
        options: *options,
        idle: Mutex::default(),
    };
    let arrival = if options.has_key {
        ""
    } else {
        "arrival INTEGER NOT NULL,"
    };
    let rank = store.rank();
    store.with(|connection| {
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS readings (
            at INTEGER NOT NULL, {arrival} sensor INTEGER NOT NULL,
            celsius REAL NOT NULL, pressure REAL NOT NULL, humidity REAL NOT NULL, state TEXT NOT NULL,
            PRIMARY KEY (at, {rank})) WITHOUT ROWID"
        );
        connection.execute_batch(&sql).expect("creates");
    });
    Box::new(store)
}

impl Sqlite {
    /// The column by which rows of one time are told apart.
    fn rank(&self) -> &'static str {
        if self.options.has_key { "sensor" } else { "arrival" }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        let idle = self.idle.lock().pop();
        let mut connection = idle.unwrap_or_else(|| self.connect());
        let answer = work(&mut connection);
        self.idle.lock().push(connection);
        answer
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).expect("opens");
        let wait = Duration::from_secs(60);
        connection.busy_timeout(wait).expect("sets");
        let synchronous = if self.options.is_durable { "FULL" } else { "NORMAL" };
        let cache_kib = (self.options.cache_bytes + self.options.buffer_bytes) / 1024;
        let log_pages = self.options.buffer_bytes / PAGE_BYTES;
        let setup = format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{cache_kib}; \
             PRAGMA wal_autocheckpoint = {log_pages};"
        );
        connection.execute_batch(&setup).expect("sets");
        connection
    }
}

/// The columns of a row in selection order.
const COLUMNS: &str = "at, sensor, celsius, pressure, humidity, state";

fn with_reading<T>(row: &Row<'_>, read: impl FnOnce(&Reading<'_>) -> T) -> rusqlite::Result<T> {
    Ok(read(&Reading {
        time: row.get(0)?,
        sensor: row.get(1)?,
        numbers: [row.get(2)?, row.get(3)?, row.get(4)?],
        state: row.get_ref(5)?.as_str()?,
    }))
}

impl TableStore for Sqlite {
    fn append(&self, rows: &Readings) {
        let mut sorted: Vec<_> = rows.readings().collect();
        if !sorted.is_sorted_by_key(|(id, _)| *id) {
            sorted.sort_unstable_by_key(|(id, _)| *id);
        }
        self.with(|connection| {
            let writing = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .expect("begins");
            {
                let sql = if self.options.has_key {
                    "INSERT OR REPLACE INTO readings VALUES (?1, ?3, ?4, ?5, ?6, ?7)"
                } else {
                    "INSERT INTO readings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                };
                let mut insert = writing.prepare_cached(sql).expect("prepares");
                for (id, reading) in sorted {
                    let [first, second, third] = reading.numbers;
                    let values = params![
                        id.time,
                        id.arrival,
                        reading.sensor,
                        first,
                        second,
                        third,
                        reading.state
                    ];
                    insert.execute(values).expect("inserts");
                }
            }
            writing.commit().expect("commits");
        });
    }

    fn flush(&self) {
        self.with(|connection| {
            let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            checkpoint.expect("checkpoints");
        });
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let rank = self.rank();
        let sql = format!("SELECT {COLUMNS} FROM readings WHERE at >= ?1 AND at < ?2 ORDER BY at, {rank}");
        self.with(|connection| {
            let mut select = connection.prepare_cached(&sql).expect("prepares");
            let mut rows = select.query([from, to]).expect("reads");
            let mut shown = Shown::new(show);
            while let Some(row) = rows.next().expect("reads") {
                with_reading(row, |reading| shown.push(reading)).expect("reads");
            }
            shown.finish();
        });
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let rank = self.rank();
        let sql = format!("SELECT {COLUMNS} FROM readings WHERE at = ?1 AND {rank} = ?2");
        self.with(|connection| {
            let mut select = connection.prepare_cached(&sql).expect("prepares");
            let id = params![row.time, row.arrival];
            let checksum = |row: &Row<'_>| with_reading(row, |reading| reading.checksum());
            select.query_row(id, checksum).optional().expect("reads")
        })
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        let rank = self.rank();
        let sql = format!("SELECT {COLUMNS} FROM readings ORDER BY at DESC, {rank} DESC LIMIT ?1");
        self.with(|connection| {
            let mut select = connection.prepare_cached(&sql).expect("prepares");
            let mut found = select.query([rows]).expect("reads");
            let mut shown = Shown::new(show);
            while let Some(row) = found.next().expect("reads") {
                with_reading(row, |reading| shown.push(reading)).expect("reads");
            }
            shown.finish();
        });
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        self.with(|connection| {
            let rows = match times {
                None => connection
                    .prepare_cached("SELECT count(*) FROM readings")
                    .and_then(|mut count| count.query_row([], |row| row.get::<_, i64>(0))),
                Some((from, to)) => connection
                    .prepare_cached("SELECT count(*) FROM readings WHERE at >= ?1 AND at < ?2")
                    .and_then(|mut count| count.query_row([from, to], |row| row.get::<_, i64>(0))),
            };
            rows.expect("counts").cast_unsigned()
        })
    }

    fn cold(&self, celsius: f64, show: &mut dyn FnMut(&RecordBatch)) {
        let sql = format!("SELECT {COLUMNS} FROM readings WHERE celsius <= ?1");
        self.with(|connection| {
            let mut select = connection.prepare_cached(&sql).expect("prepares");
            let mut rows = select.query([celsius]).expect("reads");
            let mut shown = Shown::new(show);
            while let Some(row) = rows.next().expect("reads") {
                with_reading(row, |reading| shown.push(reading)).expect("reads");
            }
            shown.finish();
        });
    }

    fn delete(&self, from: i64, to: i64) {
        self.with(|connection| {
            connection
                .execute("DELETE FROM readings WHERE at >= ?1 AND at < ?2", [from, to])
                .expect("deletes");
        });
    }

    fn reclaim(&self) {
        self.with(|connection| connection.execute_batch("VACUUM").expect("vacuums"));
        self.flush();
    }
}
