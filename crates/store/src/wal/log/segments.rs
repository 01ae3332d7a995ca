//! The segments of the log: the next one, those that are no longer needed, and spares.

use std::sync::Arc;

use super::{BLOCK, Ended, Extent, HEADER, Log, SPARE_BYTES_MAX, State};
use crate::disk::DiskFile;
use crate::error::{Error, Result};
use crate::wal::segment::{Segment, Spare, header, remove_own};

impl Log {
    /// Makes everything durable and goes on in a new segment; returns the position at which it
    /// begins. No thread may append meanwhile.
    ///
    /// # Errors
    ///
    /// With [`Error::NoSpace`], or [for want of descriptors](Error::is_for_want_of_descriptors),
    /// the log goes on as it was. After any other error nothing may be appended: a segment that was
    /// begun may be left, and records after its position must not be in the one before.
    pub(crate) fn rotate(&self) -> Result<u64> {
        let end = self.end();
        self.sync_to(end)?;
        let mut state = self.state.lock();
        if state.segment.start < end {
            let file = self.open_spare(&mut state)?;
            let spare = state.spares.last().map(|(spare, _)| spare).zip(file);
            let created = Segment::create(&*self.disk, &self.dir, self.store_id, end, spare);
            let is_untouched = created.as_ref().is_err_and(Error::is_for_want_of_descriptors);
            let spare = if is_untouched { None } else { state.spares.pop() };
            let (segment, extent) = match (created, spare) {
                (Ok(segment), spare) => (segment, spare.map(|(_, extent)| extent)),
                (Err(error), spare) => {
                    state.rejected.extend(spare.map(|(spare, _)| spare));
                    return Err(error);
                }
            };
            let ended = Ended {
                start: state.segment.start,
                path: state.segment.path.clone(),
                id: state.segment.id,
                extent: Some(state.extent),
            };
            state.ended.push(ended);
            state.extent = extent.unwrap_or(Extent::EMPTY);
            state.buffer.clear();
            state.buffer.extend_from_slice(&header(self.store_id, end));
            state.buffer_at = 0;
            state.segment = Arc::new(segment);
        }
        Ok(end)
    }

    /// Opens the last spare. Spares that cannot be opened, most likely because they were removed or
    /// replaced, are rejected: a new file does as well.
    fn open_spare(&self, state: &mut State) -> Result<Option<Box<dyn DiskFile>>> {
        while let Some((spare, _)) = state.spares.last() {
            match spare.open(&*self.disk) {
                Ok(file) => return Ok(Some(file)),
                Err(error) if error.is_for_want_of_descriptors() => return Err(error),
                Err(error) => tracing::warn!(%error, "a spare segment of the log cannot be written over"),
            }
            let rejected = state.spares.pop().map(|(spare, _)| spare);
            state.rejected.extend(rejected);
        }
        Ok(None)
    }

    /// Removes spares. Those that cannot be removed are tried again with the next checkpoint; a
    /// file that others have put in the place of one is left alone for good.
    fn remove_spares(&self, spares: Vec<Spare>) -> Result<()> {
        let mut outcome = Ok(());
        let mut left = Vec::new();
        for spare in spares {
            match remove_own(&*self.disk, &spare.path, spare.id) {
                Ok(()) | Err(Error::Replaced { .. }) => {}
                Err(error) => {
                    left.push(spare);
                    outcome = Err(error);
                }
            }
        }
        self.state.lock().rejected.append(&mut left);
        outcome
    }

    /// Removes segments that end at or before `position`, or makes spares of them: those that this
    /// log has written or found, and no others, whatever their names.
    pub(crate) fn remove_before(&self, position: u64) -> Result<()> {
        let (mut ended, mut bytes, rejected) = {
            let mut state = self.state.lock();
            let ends = state.ended.iter().skip(1).map(|next| next.start);
            let ends = ends.chain([state.segment.start]);
            let count = ends
                .take_while(|&end| end <= position)
                .count()
                .min(state.ended.len());
            let bytes: u64 = state.spares.iter().map(|(_, extent)| extent.claimed).sum();
            let rejected = std::mem::take(&mut state.rejected);
            (state.ended.drain(..count).collect::<Vec<_>>(), bytes, rejected)
        };
        let rejected = self.remove_spares(rejected);
        let mut spares = Vec::new();
        let mut outcome = Ok(());
        let mut removed = 0;
        for ended in &ended {
            let kept = ended
                .extent
                .filter(|extent| bytes + extent.claimed <= SPARE_BYTES_MAX);
            outcome = match kept {
                Some(extent) => Segment::make_spare(&*self.disk, &ended.path, ended.id).map(|spare| {
                    bytes += extent.claimed;
                    spares.push((spare, extent));
                }),
                None => remove_own(&*self.disk, &ended.path, ended.id),
            };
            // A file that others have put in its place is left alone for good.
            removed += usize::from(matches!(outcome, Ok(()) | Err(Error::Replaced { .. })));
            if outcome.is_err() {
                break;
            }
        }
        // The next checkpoint tries again.
        let left = ended.drain(removed..);
        let synced = self
            .disk
            .sync_dir(&self.dir)
            .map_err(|source| Error::io(&self.dir, "sync", source));
        let mut state = self.state.lock();
        state.ended.splice(0..0, left);
        // There was space for a checkpoint.
        state.is_tight = false;
        if synced.is_ok() {
            state.spares.append(&mut spares);
            state.spares.sort_unstable_by_key(|(_, extent)| extent.written);
        } else {
            // A later sync may succeed although the names of these are lost.
            state.rejected.extend(spares.into_iter().map(|(spare, _)| spare));
        }
        outcome.and(synced).and(rejected)
    }

    /// Removes the spares: nothing will be written over them, or their space is needed. Until the
    /// next checkpoint nothing is claimed ahead. Whether there were any.
    pub(crate) fn give_back(&self) -> Result<bool> {
        let mut state = self.state.lock();
        let spares = std::mem::take(&mut state.spares)
            .into_iter()
            .map(|(spare, _)| spare);
        let mut spares: Vec<Spare> = spares.collect();
        spares.append(&mut state.rejected);
        state.is_tight = true;
        drop(state);
        let had_any = !spares.is_empty();
        self.remove_spares(spares)?;
        Ok(had_any)
    }

    /// Cuts off what the segment has after its last record: space claimed ahead, and the rest of
    /// the spare over which it was written. Nothing may be appended afterwards.
    ///
    /// # Errors
    ///
    /// The disk failed, or an earlier write did. The records are as they were.
    pub(crate) fn trim(&self) -> Result<()> {
        let state = self.state.lock();
        state.check()?;
        if state.written < state.end {
            return Ok(());
        }
        let segment = &state.segment;
        let len = match segment.offset(state.end) {
            header @ HEADER => header,
            end => end.next_multiple_of(BLOCK),
        };
        segment
            .file
            .truncate(len)
            .map_err(|source| Error::io(&segment.path, "truncate", source))
    }
}
