//! Appending to the log, and group commit.
//!
//! Rules:
//! 1. Positions ascend with the order of [`Log::append`]. A record is copied to the buffer under
//!    the state's lock. Its space on the disk is claimed there, too, and filled with zeros if it
//!    was never written and the log is not relaxed. Only the claim can fail, so a full disk is
//!    noticed before anything depends on the record.
//! 2. One thread at a time writes: the *leader*, the first that finds no other. It takes the whole
//!    buffer, so that all threads which appended before share its write; the others wait. One
//!    thread at a time syncs: it leads a write and then syncs, while others may lead the next
//!    writes. It vouches for what was written when its sync began. One that waits out its pace
//!    before it syncs goes on at once when another thread wants a sync without one: a flush does,
//!    and holds up all commits meanwhile.
//! 3. `written` and `synced` never exceed what the disk has confirmed. After a failed write or sync
//!    nothing is written any more: what the disk then holds is unknown.
//! 4. Data in other files that a record names may be on its way to the disk while the record is
//!    ([`Pending`]): `synced` is raised past the record only once that is durable, too. A record
//!    that nothing vouches for may thus name lost data; replay ends there.
//! 5. The disk is given whole blocks ([`BLOCK_BYTES`]): a block that is not full yet is written
//!    again with what follows. Its durable bytes are the same then, so a write that power loss
//!    tears cannot harm it. A relaxed log gives the system's cache only what is new, and zeros
//!    after it where it begins a block, so that no block is read from the disk for it.
//! 6. A segment that is no longer needed becomes a *spare*, and a new segment is written over it.
//!    It counts as spare only once its new name is durable; the names of spares that an earlier
//!    process left may not be, so these are removed. (If power loss restores the old name of a
//!    segment, it lies before all that recovery reads. If the superblock is lost as well, recovery
//!    finds the right rows or reports damage: `simulation/spares.rs`.)

mod leading;
#[cfg(all(test, loom))]
mod loom_models;
mod segments;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::buffer::Buffer;
use super::record::{BODY_BYTES_MAX, FRAME_BYTES, Record, frame};
use super::replay::replay;
use super::segment::{SEGMENT_HEADER_BYTES, Segment, Spare, header, list, list_spares};
use crate::disk::{BLOCK_BYTES, ClosedFile, Disk, FileId};
use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex};

/// Disk space is claimed in steps of this many bytes; small ones under test, where files are kept
/// in memory by the thousand.
const CLAIM_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    8 << 10
} else {
    1 << 20
};

/// Small records overwrite zeros: a sync takes less time where the file has blocks in use than
/// where it has to note that they are. For the same reason segments are written over earlier ones.
/// Each time as many zeros are written as the segment has bytes, and at least this many; in bulk
/// each costs less.
const ZERO_BYTES: u64 = CLAIM_BYTES / 4;
/// And at most this many, as the commit that writes them waits.
const ZERO_BYTES_MAX: u64 = 2 * CLAIM_BYTES;
/// Bytes that spares may have together.
const SPARE_BYTES_MAX: u64 = 32 * CLAIM_BYTES;
/// The longest record for which that pays.
const ZEROED_RECORD_BYTES: u64 = ZERO_BYTES / 8;

/// A write that a record names and that is on its way to the disk.
pub(crate) trait Pending: std::fmt::Debug + Send + Sync {
    /// Returns once it is durable. Asked once, after the record itself is synced.
    fn wait(&self) -> Result<()>;
}

/// The log, open for appending.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    store_id: [u8; 16],
    /// Whether commits do not wait for syncs.
    is_relaxed: bool,
    state: Mutex<State>,
    progress: Condvar,
}

#[derive(Debug)]
struct State {
    segment: Arc<Segment>,
    /// Records appended and not yet taken by a leader, the last of which ends at `end`; before them
    /// the beginning of their first block, unless the log is relaxed (rule 5).
    buffer: Buffer,
    /// Where the buffer's first byte stands in the file.
    buffer_at: u64,
    /// An empty buffer to go on with.
    idle: Buffer,
    /// Writes that records name and that are not synced.
    pending: Vec<Arc<dyn Pending>>,
    end: u64,
    written: u64,
    synced: u64,
    extent: Extent,
    /// Whether the disk was full since the last checkpoint.
    is_tight: bool,
    /// Segments before the present one, ascending.
    ended: Vec<Ended>,
    /// Spare segments, the longest last (rule 6).
    spares: Vec<(Spare, Extent)>,
    /// Spares that are not to be written over, as their names may not be durable or they could not
    /// be opened. They are to be removed.
    rejected: Vec<Spare>,
    /// Whether a thread writes, and whether one is about to make a sync, or makes it (rule 2).
    writing: bool,
    syncing: bool,
    /// Whether the thread that is about to sync waits out its pace: others may end that.
    pacing: bool,
    syncs: u64,
    /// When the last sync of those that are paced began.
    last_sync: Instant,
    failed: Option<Arc<str>>,
}

/// A segment that another one follows.
#[derive(Debug)]
struct Ended {
    /// The position at which it begins.
    start: u64,
    path: PathBuf,
    id: FileId,
    /// None for one of an earlier process: how much of it was written is not known.
    extent: Option<Extent>,
}

/// How far a file goes.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Space is claimed up to this offset.
    claimed: u64,
    /// Up to this offset something was written, be it zeros.
    written: u64,
}

impl Extent {
    /// The extent of a file with a header and nothing else.
    const EMPTY: Self = Self {
        claimed: HEADER,
        written: BLOCK,
    };
}

const BLOCK: u64 = BLOCK_BYTES as u64;
const HEADER: u64 = SEGMENT_HEADER_BYTES as u64;

impl Log {
    /// Creates the first segment of a new store's log. An unfinished creation may have left one,
    /// which [cannot have records](Self::is_of_a_store).
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, store_id: [u8; 16]) -> Result<()> {
        Segment::create_first(disk, dir, store_id, 0).map(drop)
    }

    /// Whether the segments in `dir` are those of a store that was written to, rather than what an
    /// unfinished creation left.
    pub(crate) fn is_of_a_store(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        for (start, path) in list(disk, dir)? {
            if start > 0 || Segment::has_records(disk, &path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a log: its segments, and its directory unless something else is in it.
    pub(crate) fn remove_all(disk: &dyn Disk, dir: &Path) -> Result<()> {
        let spares = list_spares(disk, dir)?;
        for (_, path) in list(disk, dir)?.into_iter().chain(spares) {
            disk.remove(&path)
                .map_err(|source| Error::io(&path, "remove", source))?;
        }
        disk.remove_dir(dir)
            .map(drop)
            .map_err(|source| Error::io(dir, "remove", source))
    }

    /// Begins a new segment at `position`, the end of what was replayed; earlier segments stay
    /// until [`remove_before`](Self::remove_before).
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        store_id: [u8; 16],
        position: u64,
    ) -> Result<Self> {
        for (_, spare) in list_spares(&*disk, &dir)? {
            disk.remove(&spare)
                .map_err(|source| Error::io(&spare, "remove", source))?;
        }
        let mut ended = Vec::new();
        for (start, path) in list(&*disk, &dir)? {
            let id = disk
                .identity(&path)
                .map_err(|source| Error::io(&path, "read", source))?;
            if let Some(id) = id.filter(|_| start != position) {
                ended.push(Ended {
                    start,
                    path,
                    id,
                    extent: None,
                });
            }
        }
        let segment = Segment::create_first(&*disk, &dir, store_id, position)?;
        Ok(Self::of_segment(disk, dir, store_id, segment, ended))
    }

    /// The log up to `position`, to which nothing can be appended: the disk is full, and has no
    /// room for a segment.
    pub(crate) fn of_full_disk(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        store_id: [u8; 16],
        position: u64,
    ) -> Result<Self> {
        Self::ended(
            disk,
            dir,
            store_id,
            (position, "the disk was full when the store was opened"),
        )
    }

    /// The log up to `position`, of a store that is open for reading. Holds no file open, whose
    /// space would not come back when the writer removes it.
    pub(crate) fn to_read(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        store_id: [u8; 16],
        position: u64,
    ) -> Result<Self> {
        Self::ended(disk, dir, store_id, (position, "the store is open for reading"))
    }

    fn ended(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        store_id: [u8; 16],
        (position, cause): (u64, &str),
    ) -> Result<Self> {
        let begins_there = |(start, _): &(u64, PathBuf)| *start <= position;
        let path = list(&*disk, &dir)?
            .into_iter()
            .rfind(begins_there)
            .map(|(_, path)| path);
        let none = || Error::corrupt(&dir, "the log", "there is no segment");
        let path = path.ok_or_else(none)?;
        let id = disk
            .identity(&path)
            .map_err(|source| Error::io(&path, "read", source))?
            .ok_or_else(none)?;
        let segment = Segment {
            path,
            file: Box::new(ClosedFile),
            start: position,
            id,
        };
        let log = Self::of_segment(disk, dir, store_id, segment, Vec::new());
        log.state.lock().failed = Some(cause.into());
        Ok(log)
    }

    fn of_segment(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        store_id: [u8; 16],
        segment: Segment,
        ended: Vec<Ended>,
    ) -> Self {
        let position = segment.start;
        let state = State {
            buffer: Buffer::of(&header(store_id, position)),
            buffer_at: 0,
            idle: Buffer::default(),
            extent: Extent::EMPTY,
            ended,
            segment: Arc::new(segment),
            pending: Vec::new(),
            end: position,
            written: position,
            synced: position,
            is_tight: false,
            spares: Vec::new(),
            rejected: Vec::new(),
            writing: false,
            syncing: false,
            pacing: false,
            syncs: 0,
            last_sync: Instant::now(),
            failed: None,
        };
        Self {
            disk,
            dir,
            store_id,
            is_relaxed: false,
            state: Mutex::new(state),
            progress: Condvar::new(),
        }
    }

    /// The log of a store whose commits do not wait for a sync: filling space with zeros and
    /// writing whole blocks would only be in their way.
    pub(crate) fn relaxed(mut self) -> Self {
        self.is_relaxed = true;
        self
    }

    /// Appends a record and returns the position after it. It is durable once
    /// [`sync_to`](Self::sync_to) returned.
    ///
    /// # Errors
    ///
    /// The record is too large, the disk is full, or an earlier write failed; the log is as before.
    pub(crate) fn append(&self, body: &[u8]) -> Result<u64> {
        self.append_naming(&[body], None)
    }

    /// As [`append`](Self::append), for a body in parts that may name something that is written,
    /// and perhaps not synced (rule 4).
    pub(crate) fn append_naming(&self, body: &[&[u8]], pending: Option<Arc<dyn Pending>>) -> Result<u64> {
        let len_bytes = body.iter().map(|part| part.len()).sum();
        if len_bytes > BODY_BYTES_MAX {
            let what = "the batch".into();
            return Err(Error::TooLarge {
                what,
                len_bytes,
                limit_bytes: BODY_BYTES_MAX,
            });
        }
        let mut state = self.state.lock();
        state.check()?;
        let position = state.end;
        let end = position + (FRAME_BYTES + len_bytes) as u64;
        state.claim(end, !self.is_relaxed)?;
        let synced = state.synced;
        frame(&mut state.buffer, position, synced, body);
        state.pending.extend(pending);
        state.end = end;
        Ok(end)
    }

    /// Appends a record of several parts, each a head and what follows it: all of them or, on an
    /// error, none.
    pub(crate) fn append_group(&self, parts: &[[&[u8]; 2]]) -> Result<u64> {
        let lengths: Vec<usize> = parts.iter().map(|[head, rest]| head.len() + rest.len()).collect();
        let head = Record::group_head(&lengths);
        let body: Vec<&[u8]> = std::iter::once(&head[..])
            .chain(parts.iter().flatten().copied())
            .collect();
        self.append_naming(&body, None)
    }

    /// How often the log was synced.
    pub(crate) fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// Returns once everything before `position` is durable.
    ///
    /// # Errors
    ///
    /// The disk failed; whether the records are durable is unknown.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        self.sync_paced(position, Duration::ZERO)
    }

    /// As [`sync_to`](Self::sync_to), with a sync beginning no sooner than `pace` after the one
    /// before.
    pub(crate) fn sync_paced(&self, position: u64, pace: Duration) -> Result<()> {
        self.lead_until(|state| state.synced >= position, Some(pace))
            .map(drop)
    }

    /// Returns once everything before `position` has been given to the operating system: it
    /// survives the process, not the machine. Returns how many bytes wait for a sync.
    ///
    /// # Errors
    ///
    /// As for [`sync_to`](Self::sync_to).
    pub(crate) fn write_to(&self, position: u64) -> Result<u64> {
        let state = self.lead_until(|state| state.written >= position, None)?;
        Ok(state.written - state.synced)
    }

    /// Reads the log from `position` to its present end as recovery would; returns the number of
    /// records. Others may append meanwhile.
    ///
    /// # Errors
    ///
    /// A record is damaged or missing, whether it had been durable or not; the disk failed.
    pub(crate) fn check(&self, position: u64) -> Result<u64> {
        let until = self.end();
        self.write_to(until)?;
        let positions = position..until;
        let end = replay(&*self.disk, &self.dir, self.store_id, positions, |_, _, _| {
            Ok(true)
        })?;
        if end.position < until {
            let place = format!("the log at position {}", end.position);
            return Err(Error::corrupt(&self.dir, place, "no whole record stands there"));
        }
        Ok(end.records)
    }

    /// The position after the last record.
    pub(crate) fn end(&self) -> u64 {
        self.state.lock().end
    }

    /// Bytes from `position` to the end of the log.
    pub(crate) fn bytes_since(&self, position: u64) -> u64 {
        self.end().saturating_sub(position)
    }
}

impl State {
    /// Takes what is buffered, with its offset in the file. In whole blocks, the one that is not
    /// full stays, to be written again.
    fn take_buffer(&mut self, in_whole_blocks: bool) -> (Buffer, u64) {
        let mut next = std::mem::take(&mut self.idle);
        let mut done = self.buffer.len();
        if in_whole_blocks {
            done -= done % BLOCK_BYTES;
            next.extend_from_slice(&self.buffer[done..]);
        }
        let taken = (std::mem::replace(&mut self.buffer, next), self.buffer_at);
        self.buffer_at += done as u64;
        taken
    }

    /// Makes sure that the record from `self.end` to `end` has space.
    fn claim(&mut self, end: u64, fills_ahead: bool) -> Result<()> {
        let segment = &self.segment;
        let failed = |source| Error::io(&segment.path, "extend", source);
        let needed = segment.offset(end).next_multiple_of(BLOCK);
        let from = self.extent.written;
        let is_zeroed =
            fills_ahead && !self.is_tight && needed > from && end - self.end <= ZEROED_RECORD_BYTES;
        let zeros = from
            .next_multiple_of(ZERO_BYTES)
            .clamp(ZERO_BYTES, ZERO_BYTES_MAX);
        let to = if is_zeroed {
            needed.max(from + zeros)
        } else {
            needed
        };
        let mut is_zeroed = is_zeroed;
        if to > self.extent.claimed {
            let claim = match self.is_tight {
                // The disk may have no free space but the reserve, and a checkpoint needs that.
                true => to,
                false => to.next_multiple_of(CLAIM_BYTES),
            };
            self.extent.claimed = match segment.file.allocate(claim).map_err(failed) {
                // On a disk that is nearly full a record takes what it needs, and nothing ahead.
                Err(Error::NoSpace { .. }) if needed < claim => {
                    is_zeroed = false;
                    if needed > self.extent.claimed {
                        segment.file.allocate(needed).map_err(failed)?;
                    }
                    needed.max(self.extent.claimed)
                }
                allocated => {
                    allocated?;
                    claim
                }
            };
        }
        if is_zeroed {
            let len = usize::try_from(to - from).expect("a step or a record");
            segment.file.prepare(from, len).map_err(failed)?;
            self.extent.written = to;
        }
        // Bytes that are not filled with zeros are written by the leader (rule 2).
        self.extent.written = self.extent.written.max(needed);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}
