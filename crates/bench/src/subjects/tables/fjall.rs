//! fjall 3: one batch per commit, synced (`PersistMode::SyncData`) or, relaxed, left in the
//! system's memory.
//!
//! Its [defaults](https://docs.rs/fjall/3/fjall/struct.KeyspaceCreateOptions.html) include Bloom
//! filters, and LZ4 except for the two youngest levels. It has no range deletion: rows are removed
//! one by one.

use std::path::Path;

use arrow_array::RecordBatch;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::keys::{key_from, key_of, time_of};
use super::readings::{Readings, RowId, Shown, decode};
use super::{TableOptions, TableStore};

struct Fjall {
    database: Database,
    rows: Keyspace,
    mode: PersistMode,
}

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let database = Database::builder(dir.join("fjall"))
        .cache_size(options.cache_bytes as u64)
        .open()
        .expect("opens");
    let buffer_bytes = options.buffer_bytes as u64;
    let rows = database.keyspace("rows", || {
        KeyspaceCreateOptions::default().max_memtable_size(buffer_bytes)
    });
    Box::new(Fjall {
        rows: rows.expect("creates"),
        database,
        mode: if options.is_durable {
            PersistMode::SyncData
        } else {
            PersistMode::Buffer
        },
    })
}

impl TableStore for Fjall {
    fn append(&self, rows: &Readings) {
        let mut batch = self.database.batch().durability(Some(self.mode));
        for (id, row) in rows.encoded() {
            batch.insert(&self.rows, key_of(id), row);
        }
        batch.commit().expect("commits");
    }

    fn flush(&self) {
        self.rows.rotate_memtable_and_wait().expect("writes");
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let mut shown = Shown::new(show);
        for entry in self.rows.range(key_from(from)..key_from(to)) {
            let (key, row) = entry.into_inner().expect("reads");
            shown.push(&decode(time_of(&key), &row));
        }
        shown.finish();
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let found = self.rows.get(key_of(row)).expect("reads");
        found.map(|bytes| decode(row.time, &bytes).checksum())
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        let mut shown = Shown::new(show);
        for entry in self.rows.iter().rev().take(rows) {
            let (key, row) = entry.into_inner().expect("reads");
            shown.push(&decode(time_of(&key), &row));
        }
        shown.finish();
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let (from, to) = times.unwrap_or((i64::MIN, i64::MAX));
        let rows = self.rows.range(key_from(from)..key_from(to));
        rows.fold(0, |count, entry| {
            entry.key().expect("reads");
            count + 1
        })
    }

    fn delete(&self, from: i64, to: i64) {
        let mut batch = self.database.batch().durability(Some(self.mode));
        for entry in self.rows.range(key_from(from)..key_from(to)) {
            batch.remove(&self.rows, entry.key().expect("reads"));
        }
        batch.commit().expect("commits");
    }

    fn reclaim(&self) {
        self.rows.major_compact().expect("writes");
    }
}
