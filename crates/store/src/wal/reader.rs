//! Reading a segment in pieces. How long a file is, and how long a record says it is, need not be
//! true: memory is taken for a record only once its bytes have been found to be whole, and
//! stretches that read as zero are passed over.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::record::{BODY_BYTES_MAX, FRAME_BYTES};
use super::segment::{SEGMENT_HEADER_BYTES, Segment};
use crate::codec::Reader;
use crate::disk::{Disk, DiskFile, SECTOR_BYTES, read_around};
use crate::error::{Error, Result, in_words};

/// Bytes read in one call; few under test, so that records reach over several pieces.
const PIECE_BYTES: usize = if cfg!(any(test, fuzzing)) {
    4 << 10
} else {
    1 << 20
};

/// Bytes of the first read: a reader that looks whether there is anything new mostly finds zeros.
const FIRST_PIECE_BYTES: usize = 4 << 10;

/// A whole record of a segment, without its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// The position at which the record begins.
    position: u64,
    pub(super) synced: u64,
    body_bytes: usize,
}

impl Frame {
    /// The position at which the record begins.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The position after the record.
    pub(super) fn end(&self) -> u64 {
        self.position + (FRAME_BYTES + self.body_bytes) as u64
    }
}

/// Opens a segment and checks its header. `None` if there is no header yet, as the segment is being
/// created or its creation was cut off. One that has records has lost a durable header.
pub(super) fn open_segment(disk: &dyn Disk, path: &Path, store_id: [u8; 16]) -> Result<Option<Segment>> {
    if let Some(segment) = Segment::open(disk, path, store_id)? {
        return Ok(Some(segment));
    }
    let file = disk
        .open(path)
        .map_err(|source| Error::io(path, "open", source))?;
    if !SegmentReader::new(path, &*file, 0)?.has_data(SEGMENT_HEADER_BYTES as u64)? {
        return Ok(None);
    }
    // Another process may have written both meanwhile.
    let opened = Segment::open(disk, path, store_id)?;
    opened
        .map(Some)
        .ok_or_else(|| Error::corrupt(path, "the header", "it is zero, and records follow it"))
}

/// A segment that is being read.
pub(super) struct SegmentReader<'f> {
    path: &'f Path,
    file: &'f dyn DiskFile,
    /// The position at which the segment begins.
    start: u64,
    /// Bytes of the file.
    len: u64,
    piece: Vec<u8>,
    /// Where in the file the piece begins.
    piece_at: u64,
    /// A stretch of the file that is no hole: the last one that was asked for.
    data: Range<u64>,
    /// Where each sector begins that could not be read, and why; none if such a read fails.
    unreadable: Option<BTreeMap<u64, String>>,
}

impl<'f> SegmentReader<'f> {
    pub(super) fn new(path: &'f Path, file: &'f dyn DiskFile, start: u64) -> Result<Self> {
        let len = file.len().map_err(|source| Error::io(path, "read", source))?;
        Ok(Self {
            path,
            file,
            start,
            len,
            piece: Vec::new(),
            piece_at: 0,
            data: 0..0,
            unreadable: None,
        })
    }

    /// Takes sectors that cannot be read for zeros from now on, so that what is after them is
    /// found.
    pub(super) fn around_unreadable(mut self) -> Self {
        self.unreadable = Some(BTreeMap::new());
        self
    }

    /// The sectors that could not be read, neighbours together.
    pub(super) fn unreadable(&self) -> Vec<Error> {
        let mut stretches: Vec<(Range<u64>, &str)> = Vec::new();
        for (&sector, reason) in self.unreadable.iter().flatten() {
            let end = sector + SECTOR_BYTES as u64;
            match stretches.last_mut() {
                Some((stretch, why)) if stretch.end == sector && *why == reason => stretch.end = end,
                _ => stretches.push((sector..end, reason.as_str())),
            }
        }
        let problem = |(stretch, reason): (Range<u64>, &str)| {
            let place = format!("offset {} to {}", stretch.start, stretch.end.min(self.len));
            Error::corrupt(self.path, place, format!("cannot read it: {reason}"))
        };
        stretches.into_iter().map(problem).collect()
    }

    /// The bytes of the segment's header; none if the file ends before.
    pub(super) fn header(&mut self) -> Result<&[u8]> {
        let bytes = self.piece(0, SEGMENT_HEADER_BYTES)?.unwrap_or_default();
        Ok(&bytes[..bytes.len().min(SEGMENT_HEADER_BYTES)])
    }

    /// Where in the file the record at `position` stands.
    pub(super) fn offset(&self, position: u64) -> u64 {
        (SEGMENT_HEADER_BYTES as u64).saturating_add(position - self.start)
    }

    /// The bytes from `offset` on that are at hand, at least `wanted` of them; none if the file
    /// ends before.
    fn piece(&mut self, offset: u64, wanted: usize) -> Result<Option<&[u8]>> {
        if self
            .len
            .checked_sub(offset)
            .is_none_or(|left| left < wanted as u64)
        {
            return Ok(None);
        }
        let at = offset
            .checked_sub(self.piece_at)
            .and_then(|at| usize::try_from(at).ok());
        let is_there = at.is_some_and(|at| at + wanted <= self.piece.len());
        if !is_there {
            let left = usize::try_from(self.len - offset).unwrap_or(usize::MAX);
            // A long record is rare, and its memory is not kept.
            if wanted <= PIECE_BYTES && self.piece.capacity() > PIECE_BYTES {
                self.piece = Vec::new();
            }
            let ahead = match self.piece.is_empty() {
                true => FIRST_PIECE_BYTES,
                false => PIECE_BYTES,
            };
            self.piece.resize(left.min(ahead.max(wanted)), 0);
            self.piece_at = offset;
            match &mut self.unreadable {
                Some(unreadable) => read_around(self.file, offset, &mut self.piece, |bytes, error| {
                    let sector = bytes.start - bytes.start % SECTOR_BYTES as u64;
                    unreadable.entry(sector).or_insert_with(|| in_words(&error));
                }),
                None => self.read_piece()?,
            }
        }
        let at = usize::try_from(offset - self.piece_at).expect("within the piece");
        Ok(Some(&self.piece[at..]))
    }

    fn read_piece(&mut self) -> Result<()> {
        let read = self.file.read_at(self.piece_at, &mut self.piece);
        read.map_err(|source| {
            let end = self.piece_at + self.piece.len() as u64;
            let place = format!("offset {} to {end}", self.piece_at);
            self.piece.clear();
            Error::of_read(self.path, place, source)
        })
    }

    /// The record at `position`, if one that is whole and was written for it stands there.
    pub(super) fn frame(&mut self, position: u64) -> Result<Option<Frame>> {
        let (offset, len) = (self.offset(position), self.len);
        let Some(head) = self.piece(offset, FRAME_BYTES)? else {
            return Ok(None);
        };
        let mut fields = Reader::new(&head[4..FRAME_BYTES]);
        let (Some(body_bytes), Some(named), Some(synced)) = (fields.u32(), fields.u64(), fields.u64()) else {
            return Ok(None);
        };
        let body_bytes = body_bytes as usize;
        let frame = Frame {
            position,
            synced,
            body_bytes,
        };
        let end = offset + (FRAME_BYTES + body_bytes) as u64;
        if named != position || body_bytes > BODY_BYTES_MAX || end > len {
            return Ok(None);
        }
        let crc = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let (mut computed, mut at) = (0, offset + 4);
        while at < end {
            let data = self.next_data(at)?.map_or(end, |data| data.start.min(end));
            if data > at {
                let zeros = data - at;
                computed = append_zeros(computed, usize::try_from(zeros).unwrap_or(usize::MAX));
                at = data;
                continue;
            }
            let bytes = self.piece(at, 1)?.unwrap_or_default();
            let count = bytes.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            computed = crc32c::crc32c_append(computed, &bytes[..count]);
            at += count as u64;
        }
        Ok((computed == crc).then_some(frame))
    }

    /// The body of a whole record.
    pub(super) fn body(&mut self, frame: &Frame) -> Result<&[u8]> {
        let offset = self.offset(frame.position) + FRAME_BYTES as u64;
        let bytes = self.piece(offset, frame.body_bytes)?.unwrap_or_default();
        Ok(&bytes[..frame.body_bytes])
    }

    /// The body of the record at `position`, and the position after it, if the record is whole. All
    /// of it is checked as it is in memory: another process may be writing to the file.
    pub(super) fn record(&mut self, position: u64) -> Result<Option<(&[u8], u64)>> {
        let Some(frame) = self.frame(position)? else {
            return Ok(None);
        };
        let offset = self.offset(position);
        let len = FRAME_BYTES + frame.body_bytes;
        let Some(bytes) = self.piece(offset, len)?.map(|bytes| &bytes[..len]) else {
            return Ok(None);
        };
        let mut fields = Reader::new(&bytes[..FRAME_BYTES]);
        let (crc, _, named) = (fields.u32(), fields.u32(), fields.u64());
        let is_whole = crc == Some(crc32c::crc32c(&bytes[4..])) && named == Some(position);
        Ok(is_whole.then_some((&bytes[FRAME_BYTES..], frame.end())))
    }

    /// The first whole record that begins at `position` or after it, and before `limit`.
    pub(super) fn next_frame(&mut self, mut position: u64, limit: u64) -> Result<Option<Frame>> {
        /// Where in a record its position stands.
        const POSITION_AT: usize = 8;
        while position < limit {
            let offset = self.offset(position);
            let Some(data) = self.next_data(offset)? else {
                return Ok(None);
            };
            // The beginning of a record may read as zero, but not its position; that of position 0
            // has a length.
            let skipped = data
                .start
                .saturating_sub(offset)
                .saturating_sub(FRAME_BYTES as u64);
            position += skipped;
            while position < limit && self.offset(position) < data.end {
                let here = self.offset(position);
                let Some(bytes) = self.piece(here, FRAME_BYTES)? else {
                    return Ok(None);
                };
                let is_here = |(at, window): &(usize, &[u8])| {
                    window[POSITION_AT..POSITION_AT + 8] == (position + *at as u64).to_le_bytes()
                };
                let found = bytes.windows(FRAME_BYTES).enumerate().find(is_here);
                match found.map(|(at, _)| position + at as u64) {
                    Some(found) if found >= limit => return Ok(None),
                    Some(found) => {
                        if let Some(frame) = self.frame(found)? {
                            return Ok(Some(frame));
                        }
                        position = found + 1;
                    }
                    None => position += (bytes.len() - FRAME_BYTES + 1) as u64,
                }
            }
        }
        Ok(None)
    }

    /// Whether anything but zeros stands at `offset` of the file or after it.
    pub(super) fn has_data(&mut self, mut offset: u64) -> Result<bool> {
        while let Some(data) = self.next_data(offset)? {
            offset = data.start;
            while offset < data.end {
                let Some(bytes) = self.piece(offset, 1)? else {
                    break;
                };
                if bytes.iter().any(|&byte| byte != 0) {
                    return Ok(true);
                }
                offset += bytes.len() as u64;
            }
            offset = offset.max(data.end);
        }
        Ok(false)
    }

    /// The first stretch from `offset` on that is no hole.
    fn next_data(&mut self, offset: u64) -> Result<Option<Range<u64>>> {
        if !self.data.contains(&offset) {
            let found = self.file.next_data(offset);
            match found.map_err(|source| Error::io(self.path, "read", source))? {
                Some(data) => self.data = data,
                None => return Ok(None),
            }
        }
        Ok(Some(offset.max(self.data.start)..self.data.end))
    }
}

/// The checksum of some bytes and `zeros` zeros after them, given that of the bytes. Its time grows
/// as the logarithm of the number of zeros.
fn append_zeros(mut crc: u32, mut zeros: usize) -> u32 {
    // That of 1, 2, 4 … zeros.
    let (mut of_zeros, mut count) = (crc32c::crc32c(&[0]), 1);
    while zeros > 0 {
        if zeros & 1 == 1 {
            crc = crc32c::crc32c_combine(crc, of_zeros, count);
        }
        of_zeros = crc32c::crc32c_combine(of_zeros, of_zeros, count);
        count *= 2;
        zeros >>= 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::append_zeros;

    #[test]
    fn zeros_count_as_if_they_were_read() {
        let text = b"what stands before them";
        for zeros in (0..300).chain([4096, 70_001]) {
            let mut bytes = text.to_vec();
            bytes.resize(text.len() + zeros, 0);
            assert_eq!(append_zeros(crc32c::crc32c(text), zeros), crc32c::crc32c(&bytes));
        }
    }
}
