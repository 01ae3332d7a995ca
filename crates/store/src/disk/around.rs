//! Reading around sectors that a disk can no longer read.

use std::io;
use std::ops::Range;

use super::DiskFile;

/// Bytes that are given up together; few under test, where files are short.
pub(crate) const SECTOR_BYTES: usize = if cfg!(any(test, fuzzing)) { 512 } else { 4 << 10 };

/// Fills `buffer` from `offset` on. Where that fails, each sector is read by itself: one that
/// cannot be read becomes zeros, and is given to `lose` with the error.
pub(crate) fn read_around(
    file: &dyn DiskFile,
    offset: u64,
    buffer: &mut [u8],
    mut lose: impl FnMut(Range<u64>, io::Error),
) {
    if file.read_at(offset, buffer).is_ok() {
        return;
    }
    let (mut at, mut rest) = (offset, buffer);
    while !rest.is_empty() {
        let end = (at + 1).next_multiple_of(SECTOR_BYTES as u64);
        let len = usize::try_from(end - at).expect("a sector").min(rest.len());
        let (sector, after) = rest.split_at_mut(len);
        let end = at + len as u64;
        if let Err(error) = file.read_at(at, sector) {
            sector.fill(0);
            lose(at..end, error);
        }
        (at, rest) = (end, after);
    }
}
