//! SQLite through rusqlite.

use std::path::Path;

use arrow_array::RecordBatch;
use rusqlite::{Connection, OptionalExtension, params};

use super::contract::{CACHE_BYTES, RowStore};
use super::row_batches::{COLUMNS, ROW_BYTES, RowColumns, Rows, VALUE_BYTES, fold};

struct Sqlite(Connection);

pub(super) fn make(dir: &Path) -> Box<dyn RowStore> {
    let connection = Connection::open(dir.join("rows.sqlite")).expect("a fresh directory");
    let setup = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{};
         CREATE TABLE t (at INTEGER PRIMARY KEY, c0 BLOB, c1 BLOB, c2 BLOB, c3 BLOB, c4 BLOB, c5 BLOB, c6 BLOB, c7 BLOB);",
        CACHE_BYTES / 1024
    );
    connection.execute_batch(&setup).expect("creates");
    Box::new(Sqlite(connection))
}

impl RowStore for Sqlite {
    fn append(&mut self, rows: &Rows) {
        let writing = self.0.transaction().expect("begins");
        {
            let sql = "INSERT OR REPLACE INTO t VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
            let mut insert = writing.prepare_cached(sql).expect("prepares");
            for (&time, row) in rows.times.iter().zip(rows.bytes.chunks_exact(ROW_BYTES)) {
                let value = |column: usize| &row[column * VALUE_BYTES..][..VALUE_BYTES];
                let values = params![
                    time,
                    value(0),
                    value(1),
                    value(2),
                    value(3),
                    value(4),
                    value(5),
                    value(6),
                    value(7)
                ];
                insert.execute(values).expect("inserts");
            }
        }
        writing.commit().expect("commits");
    }

    fn settle(&mut self) {
        self.0
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .expect("checkpoints");
    }

    fn get(&self, time: i64) -> Option<u64> {
        let mut select = self
            .0
            .prepare_cached("SELECT * FROM t WHERE at = ?1")
            .expect("prepares");
        let row = select.query_row([time], |row| {
            let values = (1..=COLUMNS).map(|column| row.get_ref(column)?.as_blob().map_err(Into::into));
            Ok(fold(
                values.collect::<rusqlite::Result<Vec<&[u8]>>>()?.into_iter(),
            ))
        });
        row.optional().expect("reads")
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let sql = "SELECT * FROM t WHERE at >= ?1 AND at < ?2 ORDER BY at";
        let mut select = self.0.prepare_cached(sql).expect("prepares");
        let mut rows = select.query([from, to]).expect("reads");
        let mut columns = RowColumns::between(from, to);
        while let Some(row) = rows.next().expect("reads") {
            let value = |column| row.get_ref(column).expect("there").as_blob().expect("a blob");
            let time = row.get(0).expect("a time");
            if let Some(batch) = columns.push(time, (1..=COLUMNS).map(value)) {
                show(&batch);
            }
        }
        columns.finish().iter().for_each(show);
    }
}
