//! Reading what is whole in a damaged log. Records name their own positions, so each can be told from whatever
//! stands around it, and is read wherever it is found.

use std::path::{Path, PathBuf};

use super::record::{FRAME_BYTES, Record, unframe};
use super::segment::{Header, SEGMENT_HEADER_BYTES, list};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// The log of a damaged store.
#[derive(Debug)]
pub(crate) struct LogRemains<'d> {
    disk: &'d dyn Disk,
    dir: PathBuf,
    /// The segments by the position at which each begins, ascending.
    segments: Vec<(u64, PathBuf)>,
}

impl<'d> LogRemains<'d> {
    /// Looks for the segments in `dir`.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub(crate) fn find(disk: &'d dyn Disk, dir: &Path) -> Result<Self> {
        Ok(Self {
            disk,
            dir: dir.into(),
            segments: list(disk, dir)?,
        })
    }

    /// No log at all, where `dir` cannot be read.
    pub(crate) fn none(disk: &'d dyn Disk, dir: &Path) -> Self {
        Self {
            disk,
            dir: dir.into(),
            segments: Vec::new(),
        }
    }

    /// The first position that a segment has.
    pub(crate) fn start(&self) -> Option<u64> {
        self.segments.first().map(|(start, _)| *start)
    }

    /// Gives every whole record from position `from` on to `apply`, in order, with the position behind it and whether
    /// something shows that it had been durable, as in [`replay`](super::replay::replay); adds what is damaged or missing to `problems`, and with it what `apply` finds fault with. Returns how many records were
    /// applied, and a position beyond all of them. Segments of other stores than `store_id` are left out.
    ///
    /// # Errors
    ///
    /// `apply` failed for another reason than the record it was given.
    pub(crate) fn replay(
        &self,
        store_id: Option<[u8; 16]>,
        from: u64,
        problems: &mut Vec<Error>,
        mut apply: impl FnMut(Record, u64, bool) -> Result<()>,
    ) -> Result<(u64, u64)> {
        let (mut records, mut end) = (0, from);
        let first = self
            .segments
            .partition_point(|&(start, _)| start <= from)
            .saturating_sub(1);
        for (index, (start, path)) in self.segments.iter().enumerate().skip(first) {
            let missing = |until: u64| {
                let reason = format!("records up to position {until} are missing");
                Error::corrupt(path, format!("the log at position {end}"), reason)
            };
            if *start > end {
                problems.push(missing(*start));
                end = *start;
            }
            let bytes = match self.read(path, store_id, *start) {
                Ok((bytes, damage)) => {
                    problems.extend(damage);
                    bytes
                }
                Err(error) => {
                    problems.push(error);
                    continue;
                }
            };
            let mut damaged_from = None;
            let mut position = end;
            // What stands behind the beginning of the next segment was given up when that was begun.
            let limit = self.segments.get(index + 1).map_or(u64::MAX, |(start, _)| *start);
            let next_segment = self.segments.get(index + 1).map_or(0, |(start, _)| *start);
            let durable = synced_in(&bytes, *start, position, limit).max(next_segment);
            while position < limit {
                let at = usize::try_from(position - start).unwrap_or(usize::MAX);
                let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else {
                    break;
                };
                let Some(framed) = unframe(rest, position) else {
                    damaged_from.get_or_insert(position);
                    position += 1;
                    continue;
                };
                let offset = |position: u64| SEGMENT_HEADER_BYTES as u64 + position - start;
                if let Some(begin) = damaged_from.take() {
                    let place = format!("offset {} to {}", offset(begin), offset(position));
                    problems.push(Error::corrupt(path, place, "no whole record stands there"));
                }
                let next = position + (FRAME_BYTES + framed.body.len()) as u64;
                let place = || format!("the record at offset {}", offset(position));
                match Record::decode(framed.body) {
                    Err(reason) => problems.push(Error::corrupt(path, place(), reason)),
                    Ok(record) => match apply(record, next, next <= durable) {
                        Ok(()) => records += 1,
                        Err(Error::Corrupt { reason, .. }) => {
                            problems.push(Error::corrupt(path, place(), reason));
                        }
                        Err(error) => return Err(error),
                    },
                }
                position = next;
                end = next;
            }
        }
        if self.segments.is_empty() {
            let place = format!("the log at position {from}");
            problems.push(Error::corrupt(&self.dir, place, "there is no segment"));
        }
        let beyond = self.segments.last().map_or(end, |(start, _)| end.max(*start));
        Ok((records, beyond))
    }

    /// What stands behind the header of a segment, and what is wrong with the header.
    fn read(&self, path: &Path, store_id: Option<[u8; 16]>, start: u64) -> Result<(Vec<u8>, Option<Error>)> {
        let read = |source| Error::io(path, "read", source);
        let file = self.disk.open(path).map_err(read)?;
        let too_long = |_| Error::corrupt(path, "the file", "it is too long");
        let mut bytes = vec![0; usize::try_from(file.len().map_err(read)?).map_err(too_long)?];
        file.read_at(0, &mut bytes).map_err(read)?;
        let header = Header::decode(path, &bytes);
        let records = bytes.split_off(bytes.len().min(SEGMENT_HEADER_BYTES));
        // A segment without a header was being created, and holds nothing.
        if bytes.iter().all(|&byte| byte == 0) && records.iter().all(|&byte| byte == 0) {
            return Ok((Vec::new(), None));
        }
        let damage = match header {
            Ok(header) if store_id.is_some_and(|id| id != header.store_id) => {
                return Err(Error::corrupt(
                    path,
                    "the header",
                    "the segment belongs to another store",
                ));
            }
            Ok(header) if header.start != start => {
                let reason = format!("it says it begins at position {}", header.start);
                Some(Error::corrupt(path, "the header", reason))
            }
            Ok(_) => None,
            Err(error @ Error::NewerFormat { .. }) => return Err(error),
            Err(damage) => Some(damage),
        };
        Ok((records, damage))
    }
}

/// The greatest synced position that a whole record of a segment, from one position on and before another, vouches for.
fn synced_in(bytes: &[u8], start: u64, from: u64, to: u64) -> u64 {
    let (mut position, mut synced) = (from, 0);
    while position < to {
        let at = usize::try_from(position - start).unwrap_or(usize::MAX);
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        position += match unframe(rest, position) {
            Some(framed) => {
                synced = synced.max(framed.synced);
                (FRAME_BYTES + framed.body.len()) as u64
            }
            None => 1,
        };
    }
    synced
}
