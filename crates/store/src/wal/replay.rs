//! Reading the log back after a crash or a close.

use std::path::Path;

use super::record::{FRAME_BYTES, Framed, Record, unframe};
use super::segment::{SEGMENT_HEADER_BYTES, Segment, list};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// Where the log ends, and what stands behind that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// The position after the last whole record.
    pub(crate) position: u64,
    /// How many records were read.
    pub(crate) records: u64,
    /// Whether something that was being written when the process died stands behind the end.
    pub(crate) torn: bool,
}

/// Gives every record from position `from` on to `apply`, in order, with the position behind it, and whether something
/// shows that it had been durable, and with it what it names.
///
/// A record that is not whole ends the log if nothing shows that it had been durable: writes since the last sync may
/// be lost in any order. A later record whose `synced` lies beyond it shows that it had been. A record is not whole,
/// either, if `apply` answers `false`: what it names is not there. That is to be asked only where nothing shows that it
/// had been durable.
///
/// # Errors
///
/// A record that had been durable is damaged; a segment is missing or damaged; `apply` failed.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    store_id: [u8; 16],
    from: u64,
    mut apply: impl FnMut(Record, u64, bool) -> Result<bool>,
) -> Result<LogEnd> {
    let mut end = LogEnd {
        position: from,
        records: 0,
        torn: false,
    };
    let segments = list(disk, dir)?;
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
        let Some(segment) = Segment::open(disk, path, store_id)? else {
            end.torn = true;
            continue;
        };
        if segment.start != *start {
            let reason = format!("it says it begins at position {}", segment.start);
            return Err(Error::corrupt(path, "the header", reason));
        }
        let next = segments.get(index + 1).map(|(next, _)| *next);
        read_segment(&segment, next, &mut end, &mut apply)?;
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

/// Reads a segment, and nothing from the beginning of the next one on: that was given up when that one was begun.
fn read_segment(
    segment: &Segment,
    next: Option<u64>,
    end: &mut LogEnd,
    apply: &mut impl FnMut(Record, u64, bool) -> Result<bool>,
) -> Result<()> {
    let path = &segment.path;
    let read = |source| Error::io(path, "read", source);
    let len = segment.file.len().map_err(read)?;
    let mut bytes =
        vec![0; usize::try_from(len).map_err(|_| Error::corrupt(path, "the file", "it is too long"))?];
    segment.file.read_at(0, &mut bytes).map_err(read)?;
    let records = &bytes[SEGMENT_HEADER_BYTES..];
    let offset_of = |position: u64| usize::try_from(position - segment.start).unwrap_or(usize::MAX);
    let at = |position: u64| {
        let framed = unframe(records.get(offset_of(position)..).unwrap_or_default(), position);
        framed.filter(|_| next.is_none_or(|next| position < next))
    };
    let behind = |position: u64, framed: &Framed<'_>| position + (FRAME_BYTES + framed.body.len()) as u64;
    // A segment is begun only once everything before it is durable.
    let (mut durable, mut vouching) = (next.unwrap_or(0), end.position);
    while let Some(framed) = at(vouching) {
        durable = durable.max(framed.synced);
        vouching = behind(vouching, &framed);
    }
    while let Some(framed) = at(end.position) {
        let record = Record::decode(framed.body).map_err(|reason| {
            Error::corrupt(
                path,
                format!("the record at offset {}", segment.offset(end.position)),
                reason,
            )
        })?;
        let next = behind(end.position, &framed);
        if !apply(record, next, next <= durable)? {
            break;
        }
        end.position = next;
        end.records += 1;
    }
    let rest = records.get(offset_of(end.position)..).unwrap_or_default();
    // Space that was claimed and not written reads as zero.
    let written = rest
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    let synced = synced_behind(&rest[..written], end.position);
    if synced > end.position {
        let place = format!("the record at offset {}", segment.offset(end.position));
        return Err(Error::corrupt(
            path,
            place,
            "it had been durable and is not whole",
        ));
    }
    end.torn = written > 0;
    Ok(())
}

/// The greatest synced position that a whole record somewhere in `bytes`, the first of which stands at `position`,
/// vouches for.
fn synced_behind(bytes: &[u8], position: u64) -> u64 {
    let mut synced = 0;
    for (at, window) in bytes.windows(FRAME_BYTES).enumerate() {
        let here = position + at as u64;
        if window[8..16] == here.to_le_bytes()
            && let Some(framed) = unframe(&bytes[at..], here)
        {
            synced = synced.max(framed.synced);
        }
    }
    synced
}
