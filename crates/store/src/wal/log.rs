//! Appending to the log, and group commit.
//!
//! Rules:
//! 1. Positions ascend with the order of [`Log::append`]; a record is copied to the buffer under the state's lock,
//!    where the space for it on the disk is claimed too, and filled with zeros. Only the claim can fail, so a full disk
//!    is noticed before anything depends on the record.
//! 2. One thread at a time writes and syncs: the *leader*, whoever first finds nobody leading. It takes the whole
//!    buffer, so everybody who appended before shares its sync; the others wait.
//! 3. `written` and `synced` never exceed what the disk has confirmed. After a failed write or sync nothing is
//!    written any more: what the disk then holds is unknown.
//! 4. What a record names in other files may be on its way to the disk while the record is ([`Pending`]): `synced` is
//!    raised past the record only once that is durable, too. A record that nothing vouches for may thus name what was
//!    lost; reading the log back ends there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::record::{BODY_BYTES_MAX, FRAME_BYTES, frame};
use super::replay::replay;
use super::segment::{Segment, list};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// Disk space is claimed in steps of this many bytes; small ones under test, where files are kept in memory by the
/// thousand.
const CLAIM_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    8 << 10
} else {
    1 << 20
};

/// Small records go where zeros were written before, in steps of this many bytes: a sync of bytes for which the file
/// has blocks already takes half the time of one that has to note that they are in use.
const ZERO_BYTES: u64 = CLAIM_BYTES / 4;
/// The longest record for which that pays.
const ZEROED_RECORD_BYTES: u64 = ZERO_BYTES / 8;

/// What a record names, on its way to the disk.
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
    state: Mutex<State>,
    progress: Condvar,
}

#[derive(Debug)]
struct State {
    segment: Arc<Segment>,
    /// Records appended and not yet taken by a leader; the last one ends at `end`.
    buffer: Vec<u8>,
    /// What records name that are not synced.
    pending: Vec<Arc<dyn Pending>>,
    end: u64,
    written: u64,
    synced: u64,
    /// Space is claimed up to this position.
    claimed: u64,
    /// Up to here zeros or records were written.
    zeroed: u64,
    leading: bool,
    /// When the last sync of those that are paced began.
    last_sync: Instant,
    failed: Option<Arc<str>>,
}

impl Log {
    /// Creates the first segment of a new store's log. An unfinished creation may have left one; records it cannot
    /// have.
    pub(crate) fn create(disk: &dyn Disk, dir: &Path, store_id: [u8; 16]) -> Result<()> {
        for (start, path) in list(disk, dir)? {
            if start > 0 || Segment::has_records(disk, &path)? {
                return Err(Error::corrupt(
                    &path,
                    "the log",
                    "it has records, and there is no data file",
                ));
            }
        }
        Segment::create(disk, dir, store_id, 0).map(drop)
    }

    /// Begins a new segment at `position`, the end of what was replayed; earlier segments stay until
    /// [`remove_before`](Self::remove_before).
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        store_id: [u8; 16],
        position: u64,
    ) -> Result<Self> {
        let segment = Segment::create(&*disk, &dir, store_id, position)?;
        let state = State {
            segment: Arc::new(segment),
            buffer: Vec::new(),
            pending: Vec::new(),
            end: position,
            written: position,
            synced: position,
            claimed: position,
            zeroed: position,
            leading: false,
            last_sync: Instant::now(),
            failed: None,
        };
        Ok(Self {
            disk,
            dir,
            store_id,
            state: Mutex::new(state),
            progress: Condvar::new(),
        })
    }

    /// Appends a record and returns the position behind it. It is durable once [`sync_to`](Self::sync_to) returned.
    ///
    /// # Errors
    ///
    /// The record is too large, the disk is full, or an earlier write failed; the log is as before.
    pub(crate) fn append(&self, body: &[u8]) -> Result<u64> {
        self.append_naming(body, None)
    }

    /// As [`append`](Self::append), for a record that names something that is written, and perhaps not synced (rule 4).
    pub(crate) fn append_naming(&self, body: &[u8], pending: Option<Arc<dyn Pending>>) -> Result<u64> {
        if body.len() > BODY_BYTES_MAX {
            let what = "the batch".into();
            return Err(Error::TooLarge {
                what,
                len_bytes: body.len(),
                limit_bytes: BODY_BYTES_MAX,
            });
        }
        let mut state = self.state.lock();
        state.check()?;
        let position = state.end;
        let end = position + (FRAME_BYTES + body.len()) as u64;
        state.claim(end)?;
        let synced = state.synced;
        frame(&mut state.buffer, position, synced, body);
        state.pending.extend(pending);
        state.end = end;
        Ok(end)
    }

    /// Returns once everything before `position` is durable.
    ///
    /// # Errors
    ///
    /// The disk failed; whether the records are durable is unknown.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        self.sync_paced(position, Duration::ZERO)
    }

    /// As [`sync_to`](Self::sync_to), with a sync beginning no sooner than `pace` after the one before.
    pub(crate) fn sync_paced(&self, position: u64, pace: Duration) -> Result<()> {
        self.lead_until(|state| state.synced >= position, Some(pace))
    }

    /// Returns once everything before `position` has been given to the operating system: it survives the process,
    /// not the machine. Returns how many bytes wait for a sync.
    ///
    /// # Errors
    ///
    /// As for [`sync_to`](Self::sync_to).
    pub(crate) fn write_to(&self, position: u64) -> Result<u64> {
        self.lead_until(|state| state.written >= position, None)?;
        let state = self.state.lock();
        Ok(state.written - state.synced)
    }

    /// Makes everything durable and goes on in a new segment; returns the position at which it begins. Nobody may
    /// append meanwhile.
    ///
    /// # Errors
    ///
    /// With [`Error::NoSpace`] the log goes on as it was. After any other error nothing may be appended: a segment that
    /// was begun may be left, and records behind its position must not stand in the one before.
    pub(crate) fn rotate(&self) -> Result<u64> {
        let end = self.end();
        self.sync_to(end)?;
        let mut state = self.state.lock();
        if state.segment.start < end {
            let segment = Segment::create(&*self.disk, &self.dir, self.store_id, end).or_else(|error| {
                Segment::remove(&*self.disk, &self.dir, end)?;
                Err(error)
            })?;
            state.segment = Arc::new(segment);
            state.claimed = end;
            state.zeroed = end;
        }
        Ok(end)
    }

    /// Removes segments that end at or before `position`.
    pub(crate) fn remove_before(&self, position: u64) -> Result<()> {
        let segments = list(&*self.disk, &self.dir)?;
        for pair in segments.windows(2) {
            let ((_, path), (next, _)) = (&pair[0], &pair[1]);
            if *next <= position {
                self.disk
                    .remove(path)
                    .map_err(|source| Error::io(path, "remove", source))?;
            }
        }
        self.disk
            .sync_dir(&self.dir)
            .map_err(|source| Error::io(&self.dir, "sync", source))
    }

    /// Reads the log from `position` on as recovery would; returns the number of records.
    pub(crate) fn check(&self, position: u64) -> Result<u64> {
        self.write_to(self.end())?;
        let end = replay(&*self.disk, &self.dir, self.store_id, position, |_, _, _| {
            Ok(true)
        })?;
        Ok(end.records)
    }

    /// The position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.state.lock().end
    }

    /// Bytes from `position` to the end of the log.
    pub(crate) fn bytes_since(&self, position: u64) -> u64 {
        self.end().saturating_sub(position)
    }

    /// Leads or waits until `done`; a leader syncs if there is a pace for it.
    fn lead_until(&self, done: impl Fn(&State) -> bool, sync: Option<Duration>) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if done(&state) {
                return Ok(());
            }
            state.check()?;
            if state.leading {
                self.progress.wait(&mut state);
                continue;
            }
            state.leading = true;
            if let Some(pace) = sync.filter(|pace| !pace.is_zero()) {
                let wait = pace.saturating_sub(state.last_sync.elapsed());
                MutexGuard::unlocked(&mut state, || std::thread::sleep(wait));
                state.last_sync = Instant::now();
            }
            let outcome = Self::lead(&mut state, sync.is_some());
            state.leading = false;
            if let Err(error) = &outcome {
                state.failed = Some(error.to_string().into());
            }
            self.progress.notify_all();
            outcome?;
        }
    }

    /// Writes what is buffered, and syncs if asked; the lock is released meanwhile.
    fn lead(state: &mut MutexGuard<'_, State>, sync: bool) -> Result<()> {
        let bytes = std::mem::take(&mut state.buffer);
        let pending = if sync {
            std::mem::take(&mut state.pending)
        } else {
            Vec::new()
        };
        let (begin, end) = (state.written, state.end);
        let segment = state.segment.clone();
        let (bytes, outcome) = MutexGuard::unlocked(state, || {
            let outcome = if bytes.is_empty() {
                Ok(())
            } else {
                segment.file.write_at(segment.offset(begin), &bytes)
            };
            let outcome = outcome.map_err(|source| Error::io(&segment.path, "write", source));
            let outcome = outcome.and_then(|()| {
                if sync {
                    segment
                        .file
                        .sync()
                        .map_err(|source| Error::io(&segment.path, "sync", source))?;
                    pending.iter().try_for_each(|pending| pending.wait())
                } else {
                    Ok(())
                }
            });
            (bytes, outcome)
        });
        outcome?;
        state.written = end;
        if sync {
            state.synced = end;
        }
        if state.buffer.is_empty() {
            // Keeps the allocation for the next group.
            state.buffer = bytes;
            state.buffer.clear();
        }
        Ok(())
    }
}

impl State {
    /// Makes sure that the record from `self.end` to `end` has space.
    fn claim(&mut self, end: u64) -> Result<()> {
        let segment = &self.segment;
        let failed = |source| Error::io(&segment.path, "extend", source);
        if end > self.claimed {
            let claim = end.next_multiple_of(CLAIM_BYTES);
            segment.file.allocate(segment.offset(claim)).map_err(failed)?;
            self.claimed = claim;
        }
        // What stands before the end of the last record is the leader's (rule 2).
        let from = self.zeroed.max(self.end);
        if end > from && end - self.end <= ZEROED_RECORD_BYTES {
            let to = (from + ZERO_BYTES).clamp(end, self.claimed);
            let zeros = vec![0; usize::try_from(to - from).expect("a step or a record")];
            let zeroed = segment.file.write_at(segment.offset(from), &zeros);
            zeroed.map_err(failed)?;
            self.zeroed = to;
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match &self.failed {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::rows::{RowBlock, TableId};
    use crate::wal::Record;

    #[test]
    fn records_appended_before_a_sync_share_it() {
        let disk = SimDisk::new(1);
        let dir = Path::new("/log");
        disk.create_dir(dir).expect("a sound disk");
        Log::create(&disk, dir, [7; 16]).expect("a sound disk");
        let log = Log::begin(Arc::new(disk.clone()), dir.into(), [7; 16], 0).expect("a sound disk");
        let trace = disk.record();
        let ends: Vec<u64> = (0..8).map(|_| log.append(&[3]).expect("a sound disk")).collect();
        for &end in ends.iter().rev() {
            log.sync_to(end).expect("a sound disk");
        }
        assert_eq!(disk.trace(trace).syncs(), 1);
    }

    #[test]
    fn small_records_find_zeros_and_long_ones_are_written_once() {
        let disk = SimDisk::new(1);
        let dir = Path::new("/log");
        disk.create_dir(dir).expect("a sound disk");
        Log::create(&disk, dir, [7; 16]).expect("a sound disk");
        let log = Log::begin(Arc::new(disk.clone()), dir.into(), [7; 16], 0).expect("a sound disk");
        let begun = disk.calls();
        let records = 2 * ZERO_BYTES / (FRAME_BYTES as u64 + 1);
        for _ in 0..records {
            log.append(&[3]).expect("a sound disk");
        }
        assert_eq!(
            disk.calls() - begun,
            3,
            "space is claimed once, zeros are written twice"
        );
        let mut rows = RowBlock::empty(0, 1);
        rows.push(0, &[], std::iter::once(&[7; 3000][..]));
        let long = Record::append_body(TableId(1), &rows);
        let end = log.append(&long).expect("a sound disk");
        assert_eq!(
            disk.calls() - begun,
            3,
            "neither zeros nor space for a long record"
        );
        log.sync_to(end).expect("a sound disk");
        log.append(&[3]).expect("a sound disk");
        let found = replay(&disk, dir, [7; 16], 0, |_, _, _| Ok(true)).expect("it is whole");
        assert_eq!(found.records, records + 1, "zeros are written over nothing");
    }
}
