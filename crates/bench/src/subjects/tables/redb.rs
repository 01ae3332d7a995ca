//! redb 4: one transaction per batch, in key order, with [`Durability::Immediate`], or relaxed with
//! `Durability::None`, which a later durable commit makes durable: the death of the process loses
//! commits after that.
//!
//! Its [cache](https://docs.rs/redb/4/redb/struct.Builder.html) is for reads and writes.

use std::path::Path;

use arrow_array::RecordBatch;
use parking_lot::RwLock;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use super::readings::{Readings, RowId, Shown, decode};
use super::{TableOptions, TableStore};

const ROWS: TableDefinition<'static, (i64, u32), &[u8]> = TableDefinition::new("rows");

struct Redb {
    /// Locked exclusively to compact.
    database: RwLock<Database>,
    durability: Durability,
}

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let database = Database::builder()
        .set_cache_size(options.cache_bytes + options.buffer_bytes)
        .create(dir.join("redb"))
        .expect("opens");
    let store = Redb {
        database: RwLock::new(database),
        durability: if options.is_durable {
            Durability::Immediate
        } else {
            Durability::None
        },
    };
    // Creates the table.
    store.write(Durability::Immediate, |_| ());
    Box::new(store)
}

impl Redb {
    fn write(&self, durability: Durability, change: impl FnOnce(&mut redb::Table<'_, (i64, u32), &[u8]>)) {
        let database = self.database.read();
        let mut writing = database.begin_write().expect("begins");
        writing.set_durability(durability).expect("no savepoint was made");
        change(&mut writing.open_table(ROWS).expect("opens"));
        writing.commit().expect("commits");
    }

    fn read<T>(&self, read: impl FnOnce(redb::ReadOnlyTable<(i64, u32), &'static [u8]>) -> T) -> T {
        let reading = self.database.read().begin_read().expect("begins");
        read(reading.open_table(ROWS).expect("opens"))
    }
}

impl TableStore for Redb {
    fn append(&self, rows: &Readings) {
        let rows = rows.encoded_by_time();
        self.write(self.durability, |table| {
            for (id, row) in rows {
                table.insert((id.time, id.arrival), row).expect("puts");
            }
        });
    }

    fn flush(&self) {
        self.write(Durability::Immediate, |_| ());
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        self.read(|table| {
            let mut shown = Shown::new(show);
            for entry in table.range((from, 0)..(to, 0)).expect("reads") {
                let (key, row) = entry.expect("reads");
                shown.push(&decode(key.value().0, row.value()));
            }
            shown.finish();
        });
    }

    fn point(&self, row: RowId) -> Option<u64> {
        self.read(|table| {
            let found = table.get((row.time, row.arrival)).expect("reads")?;
            Some(decode(row.time, found.value()).checksum())
        })
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        self.read(|table| {
            let mut shown = Shown::new(show);
            for entry in table.iter().expect("reads").rev().take(rows) {
                let (key, row) = entry.expect("reads");
                shown.push(&decode(key.value().0, row.value()));
            }
            shown.finish();
        });
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        self.read(|table| match times {
            None => table.len().expect("reads"),
            Some((from, to)) => {
                let rows = table.range((from, 0)..(to, 0)).expect("reads");
                rows.fold(0, |count, entry| {
                    entry.expect("reads");
                    count + 1
                })
            }
        })
    }

    fn delete(&self, from: i64, to: i64) {
        self.write(self.durability, |table| {
            let rows = (from, 0)..(to, 0);
            table.retain_in(rows, |_, _| false).expect("deletes");
        });
    }

    fn reclaim(&self) {
        self.database.write().compact().expect("compacts");
    }
}
