//! Records sorted by the server: within `maintenance_work_mem`, and in temporary files beyond.

#![expect(unsafe_code, reason = "the sort is the server's")]

use pgrx::pg_sys;

use crate::compat;

/// Bytes of a record.
const LEN: usize = 16;

/// Bytes of a record with the header that the server's values of variable length have.
const DATUM_BYTES: i32 = 20;

const _: () = assert!(size_of::<u32>() + LEN == DATUM_BYTES as usize);

/// A record as the server knows it, a `bytea`.
#[repr(C, align(8))]
struct Bytea {
    header: u32,
    bytes: [u8; LEN],
}

/// Collects records.
pub(crate) struct Sorter(*mut pg_sys::Tuplesortstate);

impl Sorter {
    pub(crate) fn new() -> Self {
        let wants_operator = pg_sys::TYPECACHE_LT_OPR.cast_signed();
        // SAFETY: the operator is that of the type; the sort is of this process alone.
        unsafe {
            let less = (*pg_sys::lookup_type_cache(pg_sys::BYTEAOID, wants_operator)).lt_opr;
            Self(pg_sys::tuplesort_begin_datum(
                pg_sys::BYTEAOID,
                less,
                pg_sys::InvalidOid,
                false,
                pg_sys::maintenance_work_mem,
                std::ptr::null_mut(),
                pg_sys::TUPLESORT_NONE.cast_signed(),
            ))
        }
    }

    pub(crate) fn add(&mut self, record: &[u8; LEN]) {
        let mut record = Bytea {
            header: 0,
            bytes: *record,
        };
        let pointer = (&raw mut record).cast::<pg_sys::varlena>();
        // SAFETY: the record has the length of its header; the sort copies it.
        unsafe {
            pgrx::set_varsize_4b(pointer, DATUM_BYTES);
            pg_sys::tuplesort_putdatum(self.0, pointer.into(), false);
        }
    }

    /// The records in the order of their bytes.
    pub(crate) fn sorted(self) -> Sorted {
        // SAFETY: the sort has not been performed yet.
        unsafe {
            pg_sys::tuplesort_performsort(self.0);
        }
        Sorted(self)
    }
}

impl Drop for Sorter {
    fn drop(&mut self) {
        // At an error, the transaction's end gives back memory and files.
        if !std::thread::panicking() {
            // SAFETY: the sort is used no more.
            unsafe {
                pg_sys::tuplesort_end(self.0);
            }
        }
    }
}

/// Records that ascend.
pub(crate) struct Sorted(Sorter);

impl Iterator for Sorted {
    type Item = [u8; LEN];

    fn next(&mut self) -> Option<[u8; LEN]> {
        let mut datum = pg_sys::Datum::null();
        // SAFETY: the sort has been performed. Its records are those that were added, each a copy
        // in memory of its own.
        unsafe {
            if !compat::next_of_sort((self.0).0, &mut datum) {
                return None;
            }
            let record = datum.cast_mut_ptr::<Bytea>();
            let bytes = (*record).bytes;
            pg_sys::pfree(record.cast());
            Some(bytes)
        }
    }
}
