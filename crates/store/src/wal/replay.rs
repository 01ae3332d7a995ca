//! Reading the log back after a crash or a close.

use std::ops::Range;
use std::path::Path;

use super::reader::{SegmentReader, open_segment};
use super::record::Record;
use super::segment::{Segment, list_of_store};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// Where the log ends, and what follows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The position after the last whole record.
    pub(crate) position: u64,
    /// How many records were read.
    pub(crate) records: u64,
    /// Whether something that was being written when the process died follows the end.
    pub(crate) torn: bool,
}

/// Gives every record that begins between two positions to `apply`, in order, with the position
/// after it, and whether something shows that it had been durable, and with it what it names.
/// Beyond the range, which ends where a record does, others may be appending.
///
/// A record that is not whole ends the log, unless something shows that it had been durable, such
/// as a later record whose `synced` lies beyond it: writes since the last sync may be lost in any
/// order. A record also counts as not whole if `apply` answers `false`, because data that the
/// record names is missing. `apply` may answer so only if nothing shows that the record had been
/// durable.
///
/// # Errors
///
/// A record that had been durable is damaged; a segment is missing or damaged; `apply` failed.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    store_id: [u8; 16],
    positions: Range<u64>,
    mut apply: impl FnMut(Record, u64, bool) -> Result<bool>,
) -> Result<LogEnd> {
    let from = positions.start;
    let mut end = LogEnd {
        position: from,
        records: 0,
        torn: false,
    };
    let segments = list_of_store(disk, dir)?;
    let first = segments
        .partition_point(|&(start, _)| start <= from)
        .saturating_sub(1);
    for (index, (start, path)) in segments.iter().enumerate().skip(first) {
        if *start > end.position {
            let place = format!("the log before position {start}");
            let reason = format!("records from position {} on are missing", end.position);
            return Err(Error::corrupt(path, place, reason));
        }
        // A segment without a header was being created when the process died.
        let Some(segment) = open_segment(disk, path, store_id)? else {
            end.torn = true;
            continue;
        };
        if segment.start != *start {
            let reason = format!("it says it begins at position {}", segment.start);
            return Err(Error::corrupt(path, "the header", reason));
        }
        let next = segments.get(index + 1).map(|(next, _)| *next);
        read_segment(&segment, (next, positions.end), &mut end, &mut apply)?;
    }
    if segments.is_empty() || segments[first].0 > from {
        return Err(Error::corrupt(
            dir,
            format!("the log at position {from}"),
            "no segment contains it",
        ));
    }
    Ok(end)
}

/// Fails if the log, which was found to end at position `end`, had been durable up to a later one,
/// `durable`.
pub(crate) fn check_end(disk: &dyn Disk, dir: &Path, end: u64, durable: u64) -> Result<()> {
    if end >= durable {
        return Ok(());
    }
    let segments = list_of_store(disk, dir).unwrap_or_default();
    let last = segments.iter().rfind(|(start, _)| *start <= end);
    let place = format!("the log at position {end}");
    let reason = format!(
        "it ends there, and was durable up to position {durable} when the store was closed: rows are missing that only \
         a backup may have"
    );
    Err(Error::corrupt(last.map_or(dir, |(_, path)| path), place, reason))
}

/// Reads a segment up to the beginning of the next one: what follows was given up when that one was
/// begun. It also stops at position `until`: bytes that are read there may be older than those that
/// are read after them.
fn read_segment(
    segment: &Segment,
    (next, until): (Option<u64>, u64),
    end: &mut LogEnd,
    apply: &mut impl FnMut(Record, u64, bool) -> Result<bool>,
) -> Result<()> {
    let path = &segment.path;
    let mut reader = SegmentReader::new(path, &*segment.file, segment.start)?;
    let limit = next.map_or(until, |next| next.min(until));
    // A segment is begun only once everything before it is durable.
    let (mut durable, mut vouching) = (next.unwrap_or(0), end.position);
    while vouching < limit
        && let Some(frame) = reader.frame(vouching)?
    {
        durable = durable.max(frame.synced);
        vouching = frame.end();
    }
    while end.position < limit
        && let Some(frame) = reader.frame(end.position)?
    {
        let offset = reader.offset(end.position);
        let record = Record::decode(reader.body(&frame)?)
            .map_err(|reason| Error::corrupt(path, format!("the record at offset {offset}"), reason))?;
        if !apply(record, frame.end(), frame.end() <= durable)? {
            break;
        }
        end.position = frame.end();
        end.records += 1;
    }
    if end.position >= until {
        return Ok(());
    }
    // Something that was written later may say that what is missing here had been durable.
    let mut position = end.position;
    while let Some(frame) = reader.next_frame(position, u64::MAX)? {
        if frame.synced > end.position {
            let place = format!("the record at offset {}", reader.offset(end.position));
            return Err(Error::corrupt(
                path,
                place,
                "it had been durable and is not whole",
            ));
        }
        position = frame.position() + 1;
    }
    // Space that was claimed and not written reads as zero.
    end.torn = reader.has_data(reader.offset(end.position))?;
    Ok(())
}
