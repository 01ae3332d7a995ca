//! Reading the log back after a crash or a close.

use std::path::Path;

use super::record::{FRAME_BYTES, Record, unframe};
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

/// Gives every record from position `from` on to `apply`, in order, with the position behind it.
///
/// A record that is not whole ends the log if nothing shows that it had been durable: writes since the last sync may
/// be lost in any order. A later record whose `synced` lies beyond it shows that it had been.
///
/// # Errors
///
/// A record that had been durable is damaged; a segment is missing or damaged; `apply` failed.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    store_id: [u8; 16],
    from: u64,
    mut apply: impl FnMut(Record, u64) -> Result<()>,
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
    for (start, path) in segments.iter().skip(first) {
        if *start > end.position {
            // A segment is begun only once everything before it is durable.
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
        read_segment(&segment, &mut end, &mut apply)?;
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

fn read_segment(
    segment: &Segment,
    end: &mut LogEnd,
    apply: &mut impl FnMut(Record, u64) -> Result<()>,
) -> Result<()> {
    let path = &segment.path;
    let read = |source| Error::io(path, "read", source);
    let len = segment.file.len().map_err(read)?;
    let mut bytes =
        vec![0; usize::try_from(len).map_err(|_| Error::corrupt(path, "the file", "it is too long"))?];
    segment.file.read_at(0, &mut bytes).map_err(read)?;
    let records = &bytes[SEGMENT_HEADER_BYTES..];
    let offset_of = |position: u64| usize::try_from(position - segment.start).unwrap_or(usize::MAX);
    loop {
        let rest = records.get(offset_of(end.position)..).unwrap_or_default();
        let Some(framed) = unframe(rest, end.position) else {
            break;
        };
        let record = Record::decode(framed.body).map_err(|reason| {
            Error::corrupt(
                path,
                format!("the record at offset {}", segment.offset(end.position)),
                reason,
            )
        })?;
        end.position += (FRAME_BYTES + framed.body.len()) as u64;
        end.records += 1;
        apply(record, end.position)?;
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
