//! Storage engines as maps of one thread, with nothing synced: what is measured is their trees, not the disk.
//!
//! LMDB (heed 0.22) without syncs, redb 4 without durability, fjall 3 with its journal in the system's memory. The first two
//! write in transactions of 100,000 entries, within which their lookups read too.

#![expect(
    unsafe_code,
    reason = "an LMDB environment is opened by an unsafe call, and a transaction lives beside what it borrows"
)]

use std::mem::ManuallyDrop;
use std::ops::Bound;

use fjall::{Keyspace, KeyspaceCreateOptions};
use heed::byteorder::BigEndian;
use heed::types::U64;
use heed::{Env, EnvFlags, EnvOpenOptions, RwTxn};
use redb::{Durability, ReadableTable, Table, TableDefinition, WriteTransaction};
use tempfile::TempDir;

use super::subjects::{Mapping, SerialSubject, add_entry};

/// Entries of a transaction.
const TRANSACTION_ENTRIES: usize = 100_000;
/// Address space for LMDB's file.
const MAP_BYTES: usize = 64 << 30;

type LmdbMap = heed::Database<U64<BigEndian>, U64<BigEndian>>;

/// LMDB.
pub struct Lmdb {
    /// Borrows from the environment; there is one at all times, but while it is being replaced.
    writing: ManuallyDrop<RwTxn<'static>>,
    /// From a box, which is taken back when the transaction has ended.
    env: *mut Env,
    map: LmdbMap,
    pending: usize,
    _dir: TempDir,
}

impl Lmdb {
    /// Ends the transaction; the caller begins another, or drops everything.
    fn commit(&mut self) {
        // SAFETY: the field holds a transaction, and every caller replaces it, or is the destructor.
        let writing = unsafe { ManuallyDrop::take(&mut self.writing) };
        writing.commit().expect("commits");
        self.pending = 0;
    }

    fn begin(env: *mut Env) -> ManuallyDrop<RwTxn<'static>> {
        // SAFETY: the pointer is that of a leaked box, which the destructor alone takes back, after the transaction ended.
        let env: &'static Env = unsafe { &*env };
        ManuallyDrop::new(env.write_txn().expect("begins"))
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        self.commit();
        // SAFETY: the pointer came from a box, and the only transaction that borrowed from it has ended.
        drop(unsafe { Box::from_raw(self.env) });
    }
}

impl Mapping for Lmdb {
    fn insert(&mut self, key: u64, value: u64) {
        self.map.put(&mut self.writing, &key, &value).expect("puts");
        self.pending += 1;
        if self.pending == TRANSACTION_ENTRIES {
            self.drain();
        }
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        self.map.get(&self.writing, &key).expect("reads")
    }
}

impl SerialSubject for Lmdb {
    const NAME: &'static str = "lmdb";

    fn new(_: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: without syncs a crash may spoil the file, which is not read after this run.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
        // SAFETY: the file was just created in a directory of this run, and nobody else maps it.
        let env = unsafe { options.open(dir.path()) };
        let env = Box::into_raw(Box::new(env.expect("a fresh directory")));
        let mut writing = Self::begin(env);
        // SAFETY: as in `begin`.
        let map = unsafe { &*env }.create_database(&mut writing, None);
        Self {
            writing,
            env,
            map: map.expect("creates"),
            pending: 0,
            _dir: dir,
        }
    }

    fn drain(&mut self) {
        self.commit();
        self.writing = Self::begin(self.env);
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let bounds = (Bound::Included(lower), Bound::Included(upper));
        let entries = self.map.range(&self.writing, &bounds).expect("reads");
        entries.fold((0, 0), |all, entry| add_entry(all, entry.expect("reads")))
    }
}

const TABLE: TableDefinition<'static, u64, u64> = TableDefinition::new("entries");

/// redb.
#[derive(Debug)]
pub struct Redb {
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

impl Mapping for Redb {
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
}

impl SerialSubject for Redb {
    const NAME: &'static str = "redb";

    fn new(_: usize) -> Self {
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
pub struct Fjall {
    entries: Keyspace,
    _db: fjall::Database,
    _dir: TempDir,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.first_chunk().expect("8 bytes"))
}

impl Mapping for Fjall {
    fn insert(&mut self, key: u64, value: u64) {
        self.entries
            .insert(key.to_be_bytes(), value.to_be_bytes())
            .expect("puts");
    }

    fn get(&mut self, key: u64) -> Option<u64> {
        let value = self.entries.get(key.to_be_bytes()).expect("reads");
        value.map(|value| number(&value))
    }
}

impl SerialSubject for Fjall {
    const NAME: &'static str = "fjall";

    fn new(_: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = fjall::Database::builder(dir.path())
            .open()
            .expect("a fresh directory");
        let entries = db.keyspace("entries", KeyspaceCreateOptions::default);
        Self {
            entries: entries.expect("creates"),
            _db: db,
            _dir: dir,
        }
    }

    fn drain(&mut self) {
        self.entries.rotate_memtable_and_wait().expect("writes");
    }

    fn sum(&self, lower: u64, upper: u64) -> (usize, u64) {
        let entries = self.entries.range(lower.to_be_bytes()..=upper.to_be_bytes());
        entries.fold((0, 0), |all, entry| {
            let (key, value) = entry.into_inner().expect("reads");
            add_entry(all, (number(&key), number(&value)))
        })
    }
}
