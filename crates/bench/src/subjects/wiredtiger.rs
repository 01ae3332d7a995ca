//! A store of time buckets on WiredTiger, modelled on the time series of document stores.
//! WiredTiger 3.2 of Debian 12 (`libwiredtiger-dev`). (Feature `wiredtiger`.)
//!
//! A bucket has the rows of 64 seconds, in order: for each row its second within the bucket and its
//! bytes. Adding rows rewrites the bucket. A batch is a transaction whose log record is synced.

#![expect(unsafe_code, reason = "WiredTiger is called through C")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one argument holds for all calls with a handle"
)]

use std::ffi::{CString, c_char, c_int, c_longlong, c_void};
use std::path::Path;
use std::ptr::{null, null_mut, slice_from_raw_parts};

use arrow_array::RecordBatch;

use super::contract::{CACHE_BYTES, RowStore};
use super::row_batches::{ROW_BYTES, RowColumns, Rows, VALUE_BYTES, fold};

/// Seconds of a bucket: about as many rows as in a block of the sparse layout.
const SECONDS: i64 = 64;
/// The second within the bucket, and the row.
const ENTRY_BYTES: usize = 1 + ROW_BYTES;

/// An opaque C type.
#[repr(C)]
struct Opaque([u8; 0]);

type Handle = *mut Opaque;

unsafe extern "C" {
    fn buckets_open(dir: *const c_char, config: *const c_char, opened: *mut Handle) -> c_int;
    fn buckets_close(buckets: Handle);
    fn buckets_begin(buckets: Handle) -> c_int;
    fn buckets_commit(buckets: Handle) -> c_int;
    fn buckets_checkpoint(buckets: Handle) -> c_int;
    fn buckets_put(buckets: Handle, number: c_longlong, bytes: *const c_void, len: usize) -> c_int;
    fn buckets_get(buckets: Handle, number: c_longlong, bytes: *mut *const c_void, len: *mut usize) -> c_int;
    fn buckets_seek(buckets: Handle, number: c_longlong) -> c_int;
    fn buckets_at(
        buckets: Handle,
        number: *mut c_longlong,
        bytes: *mut *const c_void,
        len: *mut usize,
    ) -> c_int;
    fn buckets_next(buckets: Handle) -> c_int;
    fn buckets_reset(buckets: Handle);
}

struct WiredTiger(Handle);

/// Returns whether the entry was found.
fn found(answer: c_int) -> bool {
    assert!((0..=1).contains(&answer), "WiredTiger answers {answer}");
    answer == 0
}

fn done(answer: c_int) {
    assert_eq!(answer, 0, "what WiredTiger answers");
}

/// Returns bytes that are valid until WiredTiger's cursor moves.
fn lent<'b>(bytes: *const c_void, len: usize) -> &'b [u8] {
    // SAFETY: WiredTiger returns a pointer to `len` bytes, and they are used before the cursor
    // moves.
    unsafe { &*slice_from_raw_parts(bytes.cast(), len) }
}

fn second_of(time: i64) -> u8 {
    u8::try_from(time.rem_euclid(SECONDS)).expect("less than the seconds of a bucket")
}

/// Merges entries into those of a bucket, in order; an entry replaces one of the same second.
fn merged(old: &[u8], fresh: &[(u8, &[u8])]) -> Vec<u8> {
    let mut new = Vec::with_capacity(old.len() + fresh.len() * ENTRY_BYTES);
    let mut old = old.chunks_exact(ENTRY_BYTES).peekable();
    for (at, &(second, row)) in fresh.iter().enumerate() {
        // The last row of a second wins.
        if fresh.get(at + 1).is_some_and(|(next, _)| *next == second) {
            continue;
        }
        while let Some(entry) = old.next_if(|entry| entry[0] <= second) {
            if entry[0] < second {
                new.extend_from_slice(entry);
            }
        }
        new.push(second);
        new.extend_from_slice(row);
    }
    old.for_each(|entry| new.extend_from_slice(entry));
    new
}

pub(super) fn make(dir: &Path) -> Box<dyn RowStore> {
    let dir = CString::new(dir.to_str().expect("a path of this run")).expect("no zeros");
    let config = format!(
        "create,cache_size={}M,log=(enabled=true),transaction_sync=(enabled=true,method=fsync)",
        CACHE_BYTES >> 20
    );
    let config = CString::new(config).expect("no zeros");
    let mut handle = null_mut();
    // SAFETY: both texts end with a zero and outlive the call.
    done(unsafe { buckets_open(dir.as_ptr(), config.as_ptr(), &mut handle) });
    Box::new(WiredTiger(handle))
}

impl WiredTiger {
    fn bucket(&self, number: i64) -> Option<&[u8]> {
        let (mut bytes, mut len) = (null(), 0);
        // SAFETY: the handle is that of the open store, which one thread uses.
        found(unsafe { buckets_get(self.0, number, &mut bytes, &mut len) }).then(|| lent(bytes, len))
    }
}

impl RowStore for WiredTiger {
    fn append(&mut self, rows: &Rows) {
        // Each bucket is written once.
        let mut order: Vec<usize> = (0..rows.times.len()).collect();
        order.sort_by_key(|&row| rows.times[row]);
        let times: Vec<i64> = order.iter().map(|&row| rows.times[row]).collect();
        // SAFETY: as in `bucket`; the call copies the bytes.
        unsafe {
            done(buckets_begin(self.0));
            let mut at = 0;
            for times in times.chunk_by(|a, b| a.div_euclid(SECONDS) == b.div_euclid(SECONDS)) {
                let number = times[0].div_euclid(SECONDS);
                let row = |&row: &usize| &rows.bytes[row * ROW_BYTES..][..ROW_BYTES];
                let fresh = order[at..at + times.len()].iter().map(row);
                at += times.len();
                let fresh: Vec<_> = times.iter().map(|&time| second_of(time)).zip(fresh).collect();
                let bucket = merged(self.bucket(number).unwrap_or_default(), &fresh);
                done(buckets_put(self.0, number, bucket.as_ptr().cast(), bucket.len()));
            }
            done(buckets_commit(self.0));
        }
    }

    fn settle(&mut self) {
        // SAFETY: as in `bucket`.
        done(unsafe { buckets_checkpoint(self.0) });
    }

    fn get(&self, time: i64) -> Option<u64> {
        let bucket = self.bucket(time.div_euclid(SECONDS))?;
        let second = second_of(time);
        // A full bucket has each entry at the index of its second.
        let (entries, _) = bucket.as_chunks::<ENTRY_BYTES>();
        let place = entries.binary_search_by_key(&second, |entry| entry[0]).ok();
        let folded = place.map(|at| fold(entries[at][1..].chunks_exact(VALUE_BYTES)));
        // SAFETY: as in `bucket`; bytes from the cursor are not used any more.
        unsafe { buckets_reset(self.0) };
        folded
    }

    fn range(&self, from: i64, to: i64, show: &mut dyn FnMut(&RecordBatch)) {
        let mut columns = RowColumns::between(from, to);
        let (mut number, mut bytes, mut len) = (0, null(), 0);
        // SAFETY: as in `bucket`.
        unsafe {
            let mut is_there = found(buckets_seek(self.0, from.div_euclid(SECONDS)));
            while is_there {
                done(buckets_at(self.0, &mut number, &mut bytes, &mut len));
                if number * SECONDS >= to {
                    break;
                }
                for entry in lent(bytes, len).chunks_exact(ENTRY_BYTES) {
                    let time = number * SECONDS + i64::from(entry[0]);
                    if (from..to).contains(&time)
                        && let Some(batch) = columns.push(time, entry[1..].chunks_exact(VALUE_BYTES))
                    {
                        show(&batch);
                    }
                }
                is_there = found(buckets_next(self.0));
            }
            buckets_reset(self.0);
        }
        columns.finish().iter().for_each(show);
    }
}

impl Drop for WiredTiger {
    fn drop(&mut self) {
        // SAFETY: the handle is not used afterwards.
        unsafe { buckets_close(self.0) };
    }
}
