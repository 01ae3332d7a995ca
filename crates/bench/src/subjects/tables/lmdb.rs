//! LMDB through heed 0.22.
//!
//! One transaction per batch, in key order; keys after all others are put with `MDB_APPEND`, as the
//! [documentation of `mdb_put`](http://www.lmdb.tech/doc/group__mdb.html) advises for sorted loads.
//! Relaxed is `MDB_NOSYNC`, which survives the death of the process; power loss may corrupt the
//! file. LMDB uses the system's page cache, so its memory has no bound.

#![expect(unsafe_code, reason = "an LMDB environment is opened by unsafe calls")]

use std::ops::Bound;
use std::path::Path;

use arrow_array::RecordBatch;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags};
use parking_lot::Mutex;

use super::keys::{KEY_BYTES, key_from, key_of, time_of};
use super::readings::{Readings, RowId, Shown, decode};
use super::{TableOptions, TableStore};

/// Address space for the file.
const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    env: Env,
    rows: Database<Bytes, Bytes>,
    /// The greatest key; prevents two writers from both appending.
    last: Mutex<[u8; KEY_BYTES]>,
}

pub(super) fn open(dir: &Path, options: &TableOptions) -> Box<dyn TableStore> {
    let mut opening = EnvOpenOptions::new();
    opening.map_size(MAP_BYTES);
    if !options.is_durable {
        // SAFETY: without syncs a power loss may corrupt the file, which is not read after this
        // run.
        unsafe { opening.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: the file is in a directory of this run, and no other process maps it.
    let env = unsafe { opening.open(dir) }.expect("opens");
    let mut writing = env.write_txn().expect("begins");
    let rows: Database<Bytes, Bytes> = env.create_database(&mut writing, None).expect("creates");
    let last = rows.last(&writing).expect("reads");
    let last = last.map_or([0; KEY_BYTES], |(key, _)| {
        *key.first_chunk().expect("keys have one length")
    });
    writing.commit().expect("commits");
    Box::new(Lmdb {
        env,
        rows,
        last: Mutex::new(last),
    })
}

impl TableStore for Lmdb {
    fn append(&self, rows: &Readings) {
        let rows = rows.encoded_by_time();
        let mut last = self.last.lock();
        let mut writing = self.env.write_txn().expect("begins");
        for (id, row) in rows {
            let key = key_of(id);
            let is_last = key > *last;
            let flags = if is_last {
                *last = key;
                PutFlags::APPEND
            } else {
                PutFlags::empty()
            };
            let put = self.rows.put_with_flags(&mut writing, flags, &key, row);
            put.expect("puts");
        }
        writing.commit().expect("commits");
    }

    fn flush(&self) {
        self.env.force_sync().expect("syncs");
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let reading = self.env.read_txn().expect("begins");
        let (from, to) = (key_from(from), key_from(to));
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let mut shown = Shown::new(show);
        for entry in self.rows.range(&reading, &bounds).expect("reads") {
            let (key, row) = entry.expect("reads");
            shown.push(&decode(time_of(key), row));
        }
        shown.finish();
    }

    fn point(&self, row: RowId) -> Option<u64> {
        let reading = self.env.read_txn().expect("begins");
        let found = self.rows.get(&reading, &key_of(row)).expect("reads");
        found.map(|bytes| decode(row.time, bytes).checksum())
    }

    fn newest(&self, rows: usize, show: &mut dyn FnMut(&RecordBatch)) {
        let reading = self.env.read_txn().expect("begins");
        let mut shown = Shown::new(show);
        for entry in self.rows.rev_iter(&reading).expect("reads").take(rows) {
            let (key, row) = entry.expect("reads");
            shown.push(&decode(time_of(key), row));
        }
        shown.finish();
    }

    fn count(&self, times: Option<(i64, i64)>) -> u64 {
        let reading = self.env.read_txn().expect("begins");
        let Some((from, to)) = times else {
            return self.rows.len(&reading).expect("reads");
        };
        let (from, to) = (key_from(from), key_from(to));
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let rows = self.rows.range(&reading, &bounds).expect("reads");
        rows.fold(0, |count, entry| {
            entry.expect("reads");
            count + 1
        })
    }

    fn delete(&self, from: i64, to: i64) {
        let (from, to) = (key_from(from), key_from(to));
        let mut writing = self.env.write_txn().expect("begins");
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.rows.delete_range(&mut writing, &bounds).expect("deletes");
        writing.commit().expect("commits");
    }

    /// Free pages are reused, but the file never shrinks: `mdb_copy -c` writes a compact copy.
    fn reclaim(&self) {}
}
