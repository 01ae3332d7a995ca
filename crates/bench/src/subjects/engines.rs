//! Storage engines as maps of one thread, with nothing synced: what is measured is their trees, not the disk.
//!
//! redb 4 without durability, in transactions of 100,000 entries, within which its lookups read too; fjall 3 with its journal
//! in the system's memory.

#![expect(
    unsafe_code,
    reason = "a table lives beside the transaction that it borrows from"
)]

use std::mem::ManuallyDrop;

use fjall::config::CompressionPolicy;
use fjall::{Keyspace, KeyspaceCreateOptions};
use redb::{Durability, ReadableTable, Table, TableDefinition, WriteTransaction};
use tempfile::TempDir;

use super::contract::{SerialSubject, TRANSACTION_ENTRIES, add_entry, word};

const TABLE: TableDefinition<'static, u64, u64> = TableDefinition::new("entries");

/// redb.
#[derive(Debug)]
pub(crate) struct Redb {
    /// Borrows from the transaction; there is one at all times, but while it is being replaced.
    table: ManuallyDrop<Table<'static, u64, u64>>,
    /// From a box, which is taken back when the table is closed.
    writing: *mut WriteTransaction,
    pending: usize,
    db: redb::Database,
    _dir: TempDir,
}

impl Redb {
    /// Ends the transaction; the caller begins another, or drops everything.
    fn commit(&mut self) {
        // SAFETY: the field holds a table, and every caller replaces it, or is the destructor.
        drop(unsafe { ManuallyDrop::take(&mut self.table) });
        // SAFETY: the pointer came from a box, and the only table that borrowed from it is closed.
        let writing = unsafe { Box::from_raw(self.writing) };
        writing.commit().expect("commits");
        self.pending = 0;
    }

    fn begin(db: &redb::Database) -> (*mut WriteTransaction, ManuallyDrop<Table<'static, u64, u64>>) {
        let mut writing = db.begin_write().expect("begins");
        writing
            .set_durability(Durability::None)
            .expect("nothing was saved for ever");
        let writing = Box::into_raw(Box::new(writing));
        // SAFETY: the pointer is that of a leaked box, which `commit` alone takes back, after the table is closed.
        let table = unsafe { &*writing }.open_table(TABLE);
        (writing, ManuallyDrop::new(table.expect("opens")))
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        self.commit();
    }
}

impl Redb {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = redb::Database::create(dir.path().join("data")).expect("a fresh directory");
        let (writing, table) = Self::begin(&db);
        Self {
            table,
            writing,
            pending: 0,
            db,
            _dir: dir,
        }
    }
}

impl SerialSubject for Redb {
    fn insert(&mut self, key: u64, value: u64) {
        self.table.insert(key, value).expect("puts");
        self.pending += 1;
        if self.pending == TRANSACTION_ENTRIES {
            self.drain();
        }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        self.table.get(key).expect("reads").map(|value| value.value())
    }

    fn drain(&mut self) {
        self.commit();
        (self.writing, self.table) = Self::begin(&self.db);
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let entries = self.table.range(lower..=upper).expect("reads");
        entries.fold((0, 0), |all, entry| {
            let (key, value) = entry.expect("reads");
            add_entry(all, (key.value(), value.value()))
        })
    }
}

/// fjall.
pub(crate) struct Fjall {
    entries: Keyspace,
    _db: fjall::Database,
    _dir: TempDir,
}

impl Fjall {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = fjall::Database::builder(dir.path())
            .open()
            .expect("a fresh directory");
        let options =
            || KeyspaceCreateOptions::default().data_block_compression_policy(CompressionPolicy::disabled());
        let entries = db.keyspace("entries", options);
        Self {
            entries: entries.expect("creates"),
            _db: db,
            _dir: dir,
        }
    }
}

impl SerialSubject for Fjall {
    fn insert(&mut self, key: u64, value: u64) {
        self.entries
            .insert(key.to_be_bytes(), value.to_be_bytes())
            .expect("puts");
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let value = self.entries.get(key.to_be_bytes()).expect("reads");
        value.map(|value| word(&value))
    }

    fn drain(&mut self) {
        self.entries.rotate_memtable_and_wait().expect("writes");
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let entries = self.entries.range(lower.to_be_bytes()..=upper.to_be_bytes());
        entries.fold((0, 0), |all, entry| {
            let (key, value) = entry.into_inner().expect("reads");
            add_entry(all, (word(&key), word(&value)))
        })
    }
}
