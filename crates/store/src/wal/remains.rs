//! Reading what is whole in a damaged log. Records name their own positions, so each can be told
//! from whatever stands around it, and is read wherever it is found.

use std::path::{Path, PathBuf};

use super::reader::SegmentReader;
use super::record::Record;
use super::replay::check_end;
use super::segment::{Header, list};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::pages::COUNTER_MAX;

/// The log of a damaged store.
#[derive(Debug)]
pub(crate) struct LogRemains<'d> {
    disk: &'d dyn Disk,
    dir: PathBuf,
    /// The segments by the position at which each begins, ascending.
    segments: Vec<(u64, PathBuf)>,
}

impl<'d> LogRemains<'d> {
    /// Looks for the segments in `dir`. Files that are named as no segment can be are left out, and
    /// added to `problems`.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub(crate) fn find(disk: &'d dyn Disk, dir: &Path, problems: &mut Vec<Error>) -> Result<Self> {
        let mut segments = list(disk, dir)?;
        for (_, path) in segments.extract_if(.., |(start, _)| *start > COUNTER_MAX) {
            let reason = "it says that the segment begins further than any log gets; it was not read";
            problems.push(Error::corrupt(&path, "the name", reason));
        }
        Ok(Self {
            disk,
            dir: dir.into(),
            segments,
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

    /// Gives every whole record from position `from` on to `apply`, in order, with the position
    /// after it and whether something shows that it had been durable, as in
    /// [`replay`](super::replay::replay), or it ends at or before position `durable_to`; adds what is
    /// damaged or missing to `problems`, and with it the errors of `apply`. Returns how many
    /// records were applied. Segments of other stores than `store_id` are left out.
    ///
    /// # Errors
    ///
    /// `apply` failed for another reason than the record it was given.
    pub(crate) fn replay(
        &self,
        store_id: Option<[u8; 16]>,
        (from, durable_to): (u64, u64),
        problems: &mut Vec<Error>,
        mut apply: impl FnMut(Record, u64, bool) -> Result<()>,
    ) -> Result<u64> {
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
            let file = match self.disk.open(path) {
                Ok(file) => file,
                Err(source) => {
                    problems.push(Error::io(path, "open", source));
                    continue;
                }
            };
            let read = SegmentReader::new(path, &*file, *start).and_then(|reader| {
                let mut reader = reader.around_unreadable();
                Ok((check_header(path, &mut reader, store_id, *start)?, reader))
            });
            let mut reader = match read {
                Ok((Found::Nothing, reader)) => {
                    problems.extend(reader.unreadable());
                    continue;
                }
                Ok((Found::Header(damage), reader)) => {
                    problems.extend(damage);
                    reader
                }
                Err(error) => {
                    problems.push(error);
                    continue;
                }
            };
            // Records after the beginning of the next segment were given up when that was begun.
            let limit = self.segments.get(index + 1).map_or(u64::MAX, |(start, _)| *start);
            let next_segment = self.segments.get(index + 1).map_or(0, |(start, _)| *start);
            let mut durable = next_segment.max(durable_to);
            let mut position = end;
            let mut found = Ok(());
            while let Some(frame) = keep(&mut found, reader.next_frame(position, limit)) {
                durable = durable.max(frame.synced);
                position = frame.end();
            }
            position = end;
            while let Some(frame) = keep(&mut found, reader.next_frame(position, limit)) {
                if frame.position() > position {
                    let place = format!(
                        "offset {} to {}",
                        reader.offset(position),
                        reader.offset(frame.position())
                    );
                    problems.push(Error::corrupt(path, place, "no whole record stands there"));
                }
                position = frame.end();
                end = position;
                let place = format!("the record at offset {}", reader.offset(frame.position()));
                let Some(decoded) = keep(
                    &mut found,
                    reader.body(&frame).map(|body| Some(Record::decode(body))),
                ) else {
                    break;
                };
                match decoded {
                    Err(reason) => problems.push(Error::corrupt(path, place, reason)),
                    Ok(record) => match apply(record, position, position <= durable) {
                        Ok(()) => records += 1,
                        Err(Error::Corrupt { reason, .. }) => {
                            problems.push(Error::corrupt(path, place, reason));
                        }
                        Err(error) => return Err(error),
                    },
                }
            }
            problems.extend(reader.unreadable());
            problems.extend(found.err());
        }
        if self.segments.is_empty() {
            let place = format!("the log at position {from}");
            problems.push(Error::corrupt(&self.dir, place, "there is no segment"));
        } else {
            problems.extend(check_end(self.disk, &self.dir, end, durable_to).err());
        }
        Ok(records)
    }
}

/// Returns what was read, or `None` if reading failed, which is reported once.
fn keep<T>(outcome: &mut Result<()>, read: Result<Option<T>>) -> Option<T> {
    match read {
        Ok(read) => read,
        Err(error) => {
            *outcome = Err(error);
            None
        }
    }
}

/// The state of a segment's header.
enum Found {
    /// Neither a header nor records: the segment was being created.
    Nothing,
    /// A header, and what is wrong with it.
    Header(Option<Error>),
}

/// Looks at the header of the segment that is to begin at `start`.
fn check_header(
    path: &Path,
    reader: &mut SegmentReader<'_>,
    store_id: Option<[u8; 16]>,
    start: u64,
) -> Result<Found> {
    if !reader.has_data(0)? {
        return Ok(Found::Nothing);
    }
    Ok(Found::Header(match Header::decode(path, reader.header()?) {
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
    }))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::buffer::Buffer;
    use super::super::record::{FRAME_BYTES, frame};
    use super::super::segment::{SEGMENT_HEADER_BYTES, header};
    use super::*;
    use crate::disk::SECTOR_BYTES;
    use crate::disk::sim::SimDisk;

    const STORE: [u8; 16] = [7; 16];

    /// A disk with a segment that is named after `start`, and has a record there.
    fn disk(start: u64) -> SimDisk {
        let disk = SimDisk::new(1);
        let dir = Path::new("/log");
        disk.create_dir(dir).expect("a sound disk");
        let file = disk.create(&dir.join(format!("{start:016x}.log")));
        let mut bytes = Buffer::of(&header(STORE, start));
        frame(&mut bytes, start, 0, &[&Record::no_op_body()]);
        file.and_then(|file| file.write_at(0, &bytes))
            .expect("a sound disk");
        disk
    }

    #[test]
    fn records_beside_sectors_that_cannot_be_read_are_found() {
        const RECORDS: u64 = 1000;
        let disk = SimDisk::new(1);
        let (dir, path) = (Path::new("/log"), Path::new("/log/0000000000000000.log"));
        disk.create_dir(dir).expect("a sound disk");
        let mut bytes = Buffer::of(&header(STORE, 0));
        let body = Record::no_op_body();
        let len = (FRAME_BYTES + body.len()) as u64;
        for number in 0..RECORDS {
            frame(&mut bytes, number * len, 0, &[&body]);
        }
        let file = disk.create(path).expect("a sound disk");
        file.write_at(0, &bytes).expect("a sound disk");
        let sector = SECTOR_BYTES as u64;
        // The first one has the header. Reads of several sectors begin within one.
        let spoilt = [0..sector, 10 * sector..12 * sector, 30 * sector..31 * sector];
        for lost in (0..spoilt.len()).map(|count| &spoilt[..=count]) {
            // A bad byte makes a sector unreadable.
            let spoil = |bytes: &Range<u64>| disk.spoil(path, bytes.start + 7..bytes.end - 7);
            lost.iter().for_each(spoil);
            let (mut problems, mut found) = (Vec::new(), Vec::new());
            let remains = LogRemains::find(&disk, dir, &mut problems).expect("a sound directory");
            let replayed = remains.replay(Some(STORE), (0, 0), &mut problems, |_, end, _| {
                found.push(end);
                Ok(())
            });
            let begin = |end: u64| SEGMENT_HEADER_BYTES as u64 + end - len;
            let is_whole = |&end: &u64| {
                let meets = |lost: &Range<u64>| begin(end) < lost.end && lost.start < begin(end) + len;
                !lost.iter().any(meets)
            };
            let expected: Vec<u64> = (1..=RECORDS)
                .map(|number| number * len)
                .filter(is_whole)
                .collect();
            assert_eq!(found, expected);
            assert_eq!(replayed.expect("a sound disk"), expected.len() as u64);
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            for bytes in lost {
                let place = format!(
                    "offset {} to {} is damaged: cannot read it",
                    bytes.start, bytes.end
                );
                assert!(told.iter().any(|text| text.contains(&place)), "{place}: {told:?}");
            }
        }
    }

    #[test]
    fn segments_are_read_as_far_as_any_log_gets() {
        for start in [
            u64::MAX,
            u64::MAX - 20,
            COUNTER_MAX + 1,
            COUNTER_MAX,
            COUNTER_MAX - 1,
        ] {
            let (disk, mut problems) = (disk(start), Vec::new());
            let remains = LogRemains::find(&disk, Path::new("/log"), &mut problems).expect("a sound disk");
            let is_read = start <= COUNTER_MAX;
            assert_eq!(problems.is_empty(), is_read, "{problems:?}");
            let records = remains.replay(Some(STORE), (0, 0), &mut problems, |_, _, _| Ok(()));
            assert_eq!(records.expect("a sound disk"), u64::from(is_read), "{start:x}");
            assert!(!problems.is_empty(), "records before it are missing");
        }
    }
}
