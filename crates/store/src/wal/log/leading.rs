//! One thread writes and one syncs for all that wait (rule 2 of the [log](super)).

use std::time::{Duration, Instant};

use super::{BLOCK, Log, State};
use crate::disk::BLOCK_BYTES;
use crate::error::{Error, Result};
use crate::sync::{MutexGuard, yield_now};

/// How often a thread that waits for a write looks whether it is done before it sleeps: a write
/// that is not synced takes less time than waking a thread.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 24 };

/// Whether `len` bytes at `offset` are the first ones of the block in which they end (rule 5 of the
/// [log](super)).
fn begins_block(offset: u64, len: usize) -> bool {
    let end = offset + len as u64;
    end - end % BLOCK >= offset
}

/// Waits a moment: shorter than a write, and later long enough for other threads to have the
/// processor.
fn look_away(looks: u32) {
    if looks < LOOKS / 2 {
        for _ in 0..8 {
            std::hint::spin_loop();
        }
    } else {
        yield_now();
    }
}

impl Log {
    /// Leads or waits until `done`; a leader syncs if there is a pace for it.
    pub(super) fn lead_until(
        &self,
        done: impl Fn(&State) -> bool,
        sync: Option<Duration>,
    ) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        let mut looks = 0;
        loop {
            if done(&state) {
                return Ok(state);
            }
            state.check()?;
            let is_led = state.writing || (sync.is_some() && state.syncing);
            if is_led && sync.is_none() && looks < LOOKS {
                looks += 1;
                MutexGuard::unlocked(&mut state, || look_away(looks));
                continue;
            }
            if is_led {
                if state.pacing && sync == Some(Duration::ZERO) {
                    state.pacing = false;
                    self.progress.notify_all();
                }
                self.progress.wait(&mut state);
                continue;
            }
            let outcome = match sync {
                Some(pace) => self.sync(&mut state, pace),
                None => self.write(&mut state, false),
            };
            if let Err(error) = &outcome {
                state.failed = Some(error.to_string().into());
            }
            self.progress.notify_all();
            outcome?;
        }
    }

    /// Writes what is buffered and syncs, no sooner than `pace` after the last sync that was paced,
    /// or once a thread that waits for no pace asks; the lock is released meanwhile.
    fn sync(&self, state: &mut MutexGuard<'_, State>, pace: Duration) -> Result<()> {
        state.syncing = true;
        if !pace.is_zero() {
            state.pacing = true;
            while state.pacing {
                let left = pace.saturating_sub(state.last_sync.elapsed());
                state.pacing = !left.is_zero();
                if state.pacing {
                    self.progress.wait_for(state, left);
                }
            }
            state.last_sync = Instant::now();
        }
        while state.writing {
            self.progress.wait(state);
        }
        let synced = state.check().and_then(|()| self.write_and_sync(state));
        state.syncing = false;
        state.synced = synced?;
        state.syncs += 1;
        Ok(())
    }

    /// Returns the position up to which everything is durable.
    fn write_and_sync(&self, state: &mut MutexGuard<'_, State>) -> Result<u64> {
        // Nothing but what is written now waits for a sync. A durable write is one of whole blocks.
        let is_alone = !self.is_relaxed && state.written == state.synced && state.end > state.written;
        let pending = std::mem::take(&mut state.pending);
        let segment = state.segment.clone();
        self.write(state, is_alone)?;
        let end = state.written;
        self.progress.notify_all();
        MutexGuard::unlocked(state, || {
            if !is_alone {
                let synced = segment.file.sync();
                synced.map_err(|source| Error::of_unknown(&segment.path, "write or sync", source))?;
            }
            pending.iter().try_for_each(|pending| pending.wait())
        })?;
        Ok(end)
    }

    /// Writes what is buffered, durably if asked; the lock is released meanwhile.
    fn write(&self, state: &mut MutexGuard<'_, State>, durably: bool) -> Result<()> {
        let end = state.end;
        if end == state.written {
            return Ok(());
        }
        let (mut bytes, offset) = state.take_buffer(!self.is_relaxed);
        let segment = state.segment.clone();
        state.writing = true;
        let written = MutexGuard::unlocked(state, || {
            if begins_block(offset, bytes.len()) {
                bytes.pad(offset, BLOCK_BYTES);
            }
            if durably {
                segment.file.write_durably(offset, &bytes)
            } else {
                segment.file.write_at(offset, &bytes)
            }
        });
        state.writing = false;
        written.map_err(|source| Error::of_unknown(&segment.path, "write or sync", source))?;
        state.written = end;
        bytes.clear();
        state.idle = bytes;
        Ok(())
    }
}
