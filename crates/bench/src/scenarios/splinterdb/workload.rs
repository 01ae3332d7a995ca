//! Keys, row addresses and pages as a database server has them.

use std::time::Duration;

use bedload_pages::HeapPages;

pub(super) const PAGE_BYTES: usize = 8192;
/// The bytes of each page that a database server keeps for itself.
const HEADER_BYTES: usize = 24;
const ROWS_PER_PAGE: u64 = 200;

pub(super) fn pages() -> HeapPages {
    HeapPages::new(PAGE_BYTES - HEADER_BYTES)
}

/// Spreads numbers over all of the keys, none twice.
pub(super) fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Where a row stands: the number of its page, then its number in the page.
pub(super) fn address(row: u64) -> u64 {
    ((row / ROWS_PER_PAGE) << 16) | (row % ROWS_PER_PAGE)
}

/// Nanoseconds for each of some entries.
pub(super) fn ns_each(time: Duration, entries: u64) -> f64 {
    time.as_nanos() as f64 / entries.max(1) as f64
}
