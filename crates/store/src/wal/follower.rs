//! Reading the log while another process may be appending to it.
//!
//! Invariants:
//! 1. A record is given only if it is whole in memory. The follower stops at the first position
//!    without one, and looks there again the next time: the record may be on its way.
//! 2. Segments are listed before they are read. A later segment is begun only once everything
//!    before it is durable, so a record that is missing before the beginning of a listed segment is
//!    lost, unless the segment was recycled.
//! 3. The follower holds nothing: a writer removes segments, and writes over them, after each
//!    checkpoint. The rest of an earlier segment is never taken for a record, as records name their
//!    positions; but a record that was there may be missing. A segment loses its name before it is
//!    written over, so the last one read is looked up again. An error counts only if the newest
//!    superblock is still the one at which reading began, which the caller finds out after the
//!    error.

use std::path::PathBuf;
use std::sync::Arc;

use super::reader::{SegmentReader, open_segment};
use super::record::Record;
use super::segment::{Segment, list_of_store};
use crate::disk::{Disk, sync_to_read};
use crate::error::{Error, Result};

/// How far a log was read.
#[derive(Debug)]
pub(crate) struct Follower {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    store_id: [u8; 16],
    position: u64,
    /// The segment that has the position, once it was read.
    segment: Option<Segment>,
}

impl Follower {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, store_id: [u8; 16], position: u64) -> Self {
        Self {
            disk,
            dir,
            store_id,
            position,
            segment: None,
        }
    }

    /// The position after the last record that was given.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Gives every whole record from the present position on to `apply`, with the position after
    /// it, until there is none or `apply` answers `false`: that record is given again the next
    /// time. Returns how many were taken.
    ///
    /// # Errors
    ///
    /// A record is damaged, a segment is missing or damaged (rule 3); the disk or `apply` failed.
    pub(crate) fn read(&mut self, mut apply: impl FnMut(Record, u64) -> Result<bool>) -> Result<u64> {
        let segments = list_of_store(&*self.disk, &self.dir)?;
        let mut records = 0;
        loop {
            let after = segments.partition_point(|&(start, _)| start <= self.position);
            let Some((start, path)) = after.checked_sub(1).map(|index| &segments[index]) else {
                let place = format!("the log at position {}", self.position);
                return Err(Error::corrupt(&self.dir, place, "no segment contains it"));
            };
            let next = segments.get(after).map(|&(next, _)| next);
            let read = |source| Error::io(path, "read", source);
            let found = self.disk.identity(path).map_err(read)?;
            let is_same = |segment: &Segment| segment.start == *start && Some(segment.id) == found;
            if !self.segment.as_ref().is_some_and(is_same) {
                // One without a header is being created, or its creator died.
                self.segment = open_segment(&*self.disk, path, self.store_id)?;
            }
            let Some(segment) = &self.segment else {
                return Ok(records);
            };
            if segment.start != *start {
                let reason = format!("it says it begins at position {}", segment.start);
                return Err(Error::corrupt(path, "the header", reason));
            }
            let mut reader = SegmentReader::new(&segment.path, &*segment.file, segment.start)?;
            while next.is_none_or(|next| self.position < next) {
                let offset = reader.offset(self.position);
                let Some((body, end)) = reader.record(self.position)? else {
                    break;
                };
                let record = Record::decode(body).map_err(|reason| {
                    Error::corrupt(&segment.path, format!("the record at offset {offset}"), reason)
                })?;
                if !apply(record, end)? {
                    return Ok(records);
                }
                self.position = end;
                records += 1;
            }
            match next {
                None if self.disk.identity(path).map_err(read)? == Some(segment.id) => return Ok(records),
                None => {
                    let place = format!("the log from position {}", self.position);
                    return Err(Error::corrupt(
                        path,
                        place,
                        "its segment may have been written over",
                    ));
                }
                Some(next) if self.position < next => {
                    let place = format!("the log before position {next}");
                    let reason = format!("records from position {} on are missing", self.position);
                    return Err(Error::corrupt(&segment.path, place, reason));
                }
                Some(_) => {}
            }
        }
    }

    /// Makes every record that was given durable. Segments before the present one are durable
    /// already.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(segment) = &self.segment else {
            return Ok(());
        };
        sync_to_read(&*segment.file).map_err(|source| Error::io(&segment.path, "sync", source))
    }

    /// Whether a later record of the segment shows that one at the present position had been
    /// durable. It may have become whole meanwhile: the position is to be read again.
    pub(crate) fn is_vouched_for(&self) -> Result<bool> {
        let Some(segment) = &self.segment else {
            return Ok(false);
        };
        let mut reader = SegmentReader::new(&segment.path, &*segment.file, segment.start)?;
        let mut position = self.position;
        while let Some(frame) = reader.next_frame(position, u64::MAX)? {
            if frame.synced > self.position {
                return Ok(true);
            }
            position = frame.position() + 1;
        }
        Ok(false)
    }

    /// The error of a record at the present position that had been durable.
    pub(crate) fn lost(&self) -> Error {
        let path = self.segment.as_ref().map_or(&self.dir, |segment| &segment.path);
        let place = format!("the record at position {}", self.position);
        Error::corrupt(path, place, "it had been durable and is not whole")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::segment::list;
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::wal::Log;

    const STORE: [u8; 16] = [7; 16];

    fn begin(disk: &SimDisk) -> (Log, Follower) {
        let dir = Path::new("/log");
        disk.create_dir(dir).expect("a sound disk");
        Log::create(disk, dir, STORE).expect("a sound disk");
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let log = Log::begin(disk.clone(), dir.into(), STORE, 0).expect("a sound disk");
        (log, Follower::new(disk, dir.into(), STORE, 0))
    }

    fn append(log: &Log, records: usize) {
        let ends = (0..records).map(|_| log.append(&[3]).expect("a sound disk"));
        log.sync_to(ends.max().unwrap_or(0)).expect("a sound disk");
    }

    #[test]
    fn records_are_read_as_they_come_from_segment_to_segment() {
        let (log, mut follower) = begin(&SimDisk::new(1));
        assert_eq!(follower.read(|_, _| Ok(true)).expect("sound"), 0);
        for round in 0..5 {
            append(&log, 30);
            let mut left = 10;
            let read = follower.read(|_, _| {
                left -= 1;
                Ok(left >= 0)
            });
            assert_eq!(read.expect("sound"), 10, "round {round}");
            log.rotate().expect("a sound disk");
            append(&log, 5);
            assert_eq!(follower.read(|_, _| Ok(true)).expect("sound"), 25);
            assert_eq!(follower.position(), log.end());
        }
        // Its open segment is written over: the next record is elsewhere, and reading fails.
        let end = log.rotate().expect("a sound disk");
        append(&log, 9);
        log.remove_before(end).expect("a sound disk");
        let mut late = Follower::new(follower.disk.clone(), "/log".into(), STORE, 0);
        assert!(late.read(|_, _| Ok(true)).is_err());
        assert_eq!(follower.read(|_, _| Ok(true)).expect("sound"), 9);
    }

    #[test]
    fn a_torn_record_ends_reading_until_it_is_whole() {
        let disk = SimDisk::new(1);
        let (log, mut follower) = begin(&disk);
        // More than a block, which the next record would write again.
        append(&log, 40);
        let path = list(&disk, Path::new("/log")).expect("a sound disk").remove(0).1;
        let at = 64 + 25 + 3;
        disk.change(&path, at, 1);
        assert_eq!(follower.read(|_, _| Ok(true)).expect("no damage yet"), 1);
        assert!(!follower.is_vouched_for().expect("a sound disk"));
        append(&log, 1);
        assert!(follower.is_vouched_for().expect("a sound disk"));
        disk.change(&path, at, 1);
        assert_eq!(follower.read(|_, _| Ok(true)).expect("sound"), 40);
        assert!(!follower.is_vouched_for().expect("a sound disk"));
    }
}
