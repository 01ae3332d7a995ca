//! Locks of the server's lock manager.
//!
//! No lock is one of a page: versions 15 and 16 allow a process that holds one no other lock than
//! that by which a file is extended, and leave locks of pages out when they look for deadlocks.

use pgrx::pg_sys;

/// The name of a lock.
pub(crate) fn tag(
    kind: pg_sys::LockTagType::Type,
    fields: [u32; 3],
    number: u16,
    method: u32,
) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        locktag_field1: fields[0],
        locktag_field2: fields[1],
        locktag_field3: fields[2],
        locktag_field4: number,
        locktag_type: u8::try_from(kind).unwrap_or(u8::MAX),
        locktag_lockmethodid: u8::try_from(method).unwrap_or(u8::MAX),
    }
}
