//! Flushes: sealed generations merged into the tables' trees, and the checkpoint that makes them
//! durable there.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::MutexGuard;

use super::columns::fill_up;
use super::state::Engine;
use super::table_name::check_name;
use crate::error::{Error, Result};
use crate::pages::{CheckpointError, CheckpointMeta, WorkingPages};
use crate::rows::{Generation, TableId, TableSchema};
use crate::table::{Catalogue, FlushedRows, Grid, Storage, StoredTable};
use crate::wal::Record;

impl Engine {
    /// Moves all rows committed so far into pages, and makes a checkpoint.
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_writable()?;
        self.with_space(|| {
            let flushing = self.flush.lock();
            self.flush_locked(&flushing)
        })
    }

    /// As [`flush`](Self::flush), if it is [due](Self::is_due): the newest rows may stay in memory.
    pub(super) fn relieve_in_background(&self) -> Result<()> {
        self.check_writable()?;
        if !self.is_due() {
            return Ok(());
        }
        self.with_space(|| {
            let flushing = self.flush.lock();
            self.relieve(&flushing)
        })
    }

    /// As [`flush`](Self::flush), to make room for something that is taken back.
    pub(crate) fn flush_with_reserve(&self) -> Result<()> {
        self.check_writable()?;
        self.with_reserve(|| {
            let flushing = self.flush.lock();
            self.flush_locked(&flushing)
        })
    }

    /// As [`flush`](Self::flush), to make room in memory: the newest rows may stay there.
    pub(super) fn relieve(&self, flushing: &MutexGuard<'_, ()>) -> Result<()> {
        self.check_writable()?;
        self.seal_as(Seal {
            holds_back: true,
            ..Seal::default()
        })?;
        self.flush_all_sealed(flushing)
    }

    pub(super) fn flush_locked(&self, flushing: &MutexGuard<'_, ()>) -> Result<()> {
        self.check_writable()?;
        self.seal(false)?;
        self.flush_all_sealed(flushing)
    }

    fn flush_all_sealed(&self, _flushing: &MutexGuard<'_, ()>) -> Result<()> {
        let view = self.view();
        if view.sealed().is_empty() {
            return Ok(());
        }
        let sealed: usize = view.sealed().iter().map(|generation| generation.bytes()).sum();
        drop(view);
        self.pace.measure(sealed, || self.flush_sealed(|_, _| Ok(())))
    }

    /// Creates a table.
    pub(crate) fn create_table(
        &self,
        name: &str,
        schema: Arc<TableSchema>,
        grid: Option<Grid>,
    ) -> Result<()> {
        self.check_writable()?;
        check_name(name)?;
        StoredTable::check(&self.pages, &schema, grid)?;
        self.with_space(|| self.try_create_table(name, &schema, grid))
    }

    fn try_create_table(&self, name: &str, schema: &Arc<TableSchema>, grid: Option<Grid>) -> Result<()> {
        let _flushing = self.flush.lock();
        self.check_writable()?;
        if self.view().catalogue.named(name).is_ok() {
            return Err(Error::TableExists { name: name.into() });
        }
        self.seal(true)?;
        let since = self.view().pages.number() + 1;
        self.flush_sealed(|pages, catalogue| {
            let id = catalogue.next_id()?;
            catalogue.put(StoredTable::create(pages, (id, name), schema, grid, since)?);
            Ok(())
        })
    }

    /// Where flushed rows go.
    pub(super) fn storage<'s>(&'s self, pages: &'s WorkingPages) -> Storage<'s> {
        Storage {
            pages,
            blocks: &self.blocks,
        }
    }

    /// Gives back the space of blocks that no view needs. The caller holds the flush lock.
    pub(super) fn release_blocks(&self) {
        let catalogue = self.view().catalogue.clone();
        self.blocks.release(
            |born, dead| self.pages.holds_version_in(born, dead),
            |table, file| catalogue.has_file(table, file),
        );
    }

    /// Begins a new active generation, and a new segment of the log. With nothing committed since
    /// the last one, that happens only if it `must`.
    pub(super) fn seal(&self, must: bool) -> Result<()> {
        self.seal_before(must, 0).map(drop)
    }

    /// As [`seal`](Self::seal), but skips `numbers` sequence numbers after those of the sealed
    /// rows, and returns the first of them.
    pub(super) fn seal_before(&self, must: bool, numbers: u64) -> Result<u64> {
        self.seal_as(Seal {
            must,
            numbers,
            holds_back: false,
        })
    }

    /// Flushes first what a flush that failed has left sealed: if each attempt sealed more, memory
    /// and log would grow for as long as flushes fail. The caller holds the flush lock.
    fn seal_as(&self, seal: Seal) -> Result<u64> {
        let Seal {
            must,
            numbers,
            holds_back,
        } = seal;
        self.check_place()?;
        if !self.view().sealed().is_empty() {
            self.flush_sealed(|_, _| Ok(()))?;
        }
        let end = self.order.seal(|first, view| -> Result<_> {
            if view.active().is_empty() {
                if !must {
                    return Ok(None);
                }
                self.log.append(&Record::no_op_body())?;
            }
            let log_start = self.log.rotate().map_err(|error| self.fail_if_unknown(error))?;
            let next = Generation::new(log_start, first + numbers);
            let sealed = if holds_back {
                self.hold_back(view, &next)?
            } else {
                view.active().clone()
            };
            let end = first + numbers;
            let view = view
                .sealed_before(sealed, Arc::new(next))
                .while_writing(first..end);
            Ok(Some((view, end)))
        })?;
        self.flush_due.sealed();
        Ok(end)
    }

    /// Flushes the sealed generations, changes the catalogue with `change`, makes a checkpoint and
    /// publishes it. The caller holds the flush lock.
    pub(super) fn flush_sealed(
        &self,
        change: impl FnOnce(&WorkingPages, &mut Catalogue) -> Result<()>,
    ) -> Result<()> {
        self.checkpoint(true, |_| {}, change)
    }

    /// As [`flush_sealed`](Self::flush_sealed), with a catalogue that `prepare` changes first: the
    /// flush follows the change.
    pub(super) fn flush_sealed_after(
        &self,
        prepare: impl FnOnce(&mut Catalogue),
        change: impl FnOnce(&WorkingPages, &mut Catalogue) -> Result<()>,
    ) -> Result<()> {
        self.checkpoint(true, prepare, change)
    }

    /// As [`flush_sealed`](Self::flush_sealed), but flushes nothing: the checkpoint has only the
    /// change, and sealed generations stay in memory and in the log. The log then still fits the
    /// previous checkpoint, too: if the new superblock were damaged, the previous one would count
    /// as the newest. So a second checkpoint overwrites the previous superblock.
    pub(super) fn change_catalogue(
        &self,
        change: impl FnOnce(&WorkingPages, &mut Catalogue) -> Result<()>,
    ) -> Result<()> {
        self.checkpoint(false, |_| {}, change)?;
        self.checkpoint(false, |_| {}, |_, _| Ok(()))
    }

    fn checkpoint(
        &self,
        flushes: bool,
        prepare: impl FnOnce(&mut Catalogue),
        change: impl FnOnce(&WorkingPages, &mut Catalogue) -> Result<()>,
    ) -> Result<()> {
        let unwound = Unwound(self);
        let done = self.try_checkpoint(flushes, prepare, change);
        std::mem::forget(unwound);
        done
    }

    fn try_checkpoint(
        &self,
        flushes: bool,
        prepare: impl FnOnce(&mut Catalogue),
        change: impl FnOnce(&WorkingPages, &mut Catalogue) -> Result<()>,
    ) -> Result<()> {
        let _span = tracing::debug_span!("flush").entered();
        let begun = Instant::now();
        let view = self.view();
        let mut catalogue = Catalogue::clone(&view.catalogue);
        prepare(&mut catalogue);
        let storage = self.storage(&self.pages);
        let left = &view.generations()[if flushes { view.sealed().len() } else { 0 }..];
        let mut sealed = view.sealed().iter().enumerate().filter(|_| flushes);
        let flushed = sealed.try_for_each(|(number, generation)| -> Result<()> {
            let later = &view.generations()[number + 1..];
            let are_settled = |table| !take_back(later, table);
            let rows = flush_generation(storage, &mut catalogue, generation, are_settled)?;
            self.counters.wrote(rows);
            Ok(())
        });
        let changed = flushed.and_then(|()| change(&self.pages, &mut catalogue));
        if let Err(error) = changed.and_then(|()| self.blocks.sync()) {
            self.pages.roll_back();
            self.blocks.roll_back();
            return Err(self.fail_if_unknown(error));
        }
        let active = view.active().clone();
        self.log
            .sync_to(active.held_until())
            .map_err(|error| self.fail(error))?;
        let meta = CheckpointMeta {
            log_start: left[0].log_start,
            next_sequence: left[0].first_sequence,
            catalogue: catalogue.encode(),
        };
        let checkpoint = tracing::debug_span!("checkpoint").entered();
        let version = match self.pages.checkpoint(self.store_id, &meta) {
            Ok(version) => version,
            Err(CheckpointError::Clean(error)) => {
                self.pages.roll_back();
                self.blocks.roll_back();
                return Err(error);
            }
            Err(CheckpointError::Unknown(error)) => return Err(self.fail(error)),
        };
        drop(checkpoint);
        let number = version.number();
        self.blocks.before_publishing(number);
        let log_start = left[0].log_start;
        self.order.publish(|| {
            fill_up(&active, &view.catalogue, &catalogue);
            view.at_checkpoint(version, Arc::new(catalogue), left)
        });
        self.blocks.after_publishing(number);
        drop(view);
        match self.check_place() {
            // The change is durable, whatever comes of the rest, which can wait.
            Err(error) if !matches!(error, Error::Replaced { .. }) => {
                tracing::warn!(%error, "whether the store is in its place is unknown: no space is freed");
                return Ok(());
            }
            placed => placed?,
        }
        self.give_space_back();
        self.release_blocks();
        if let Err(error) = self.log.remove_before(log_start) {
            // It takes space and nothing else, until the next checkpoint.
            tracing::warn!(%error, "a part of the log that is no longer needed could not be removed");
        }
        if let Err(error) = self.reserve.set_aside() {
            tracing::warn!(%error, "there is no reserve for a full disk");
        }
        self.counters.flushed(begun.elapsed());
        Ok(())
    }
}

impl Engine {
    /// Gives free space back to the file system. The system takes seconds for some gigabytes, so no
    /// flush waits for more than the first part if there is a thread for the rest.
    fn give_space_back(&self) {
        if !self.options.background {
            self.pages.give_back_surplus(false);
            return;
        }
        self.pages.free_released();
        if self.pages.give_back_some(false) {
            self.wake.give_back();
        }
    }

    /// Goes on with [`give_space_back`](Self::give_space_back).
    pub(super) fn give_more_space_back(&self) {
        if self.check_writable().is_ok() && self.pages.give_back_some(true) {
            self.wake.give_back();
        }
    }
}

/// Whether one of these generations takes back rows of a table from an earlier one: until it is
/// flushed, such rows make no others expire.
pub(super) fn take_back(generations: &[Arc<Generation>], table: TableId) -> bool {
    let mut heads = generations.iter().filter_map(|generation| generation.head(table));
    heads.any(|head| head.takes_back())
}

/// Dropped if a checkpoint panics: pages then have rows that the catalogue does not know of, and
/// the next flush would add them again.
struct Unwound<'e>(&'e Engine);

impl Drop for Unwound<'_> {
    fn drop(&mut self) {
        let _ = self.0.failed.set("a flush panicked".into());
    }
}

/// How a generation is sealed.
#[derive(Debug, Clone, Copy, Default)]
struct Seal {
    /// Whether to seal even if nothing was committed since the last seal.
    must: bool,
    /// Sequence numbers that are left out between what is sealed and what comes after it.
    numbers: u64,
    /// Whether the newest rows stay in memory.
    holds_back: bool,
}

/// Applies the rows and deletions of a sealed generation to the trees, and lets rows of tables
/// expire that `are_settled`. Tells where the rows of indexed tables went.
pub(super) fn flush_generation(
    storage: Storage<'_>,
    catalogue: &mut Catalogue,
    generation: &Generation,
    are_settled: impl Fn(TableId) -> bool,
) -> Result<FlushedRows> {
    let mut flushed = FlushedRows::default();
    for id in generation.tables() {
        // A table that was dropped since takes its rows with it.
        if let (Some(table), Some(head)) = (catalogue.get(id), generation.head(id)) {
            let mut table = StoredTable::clone(table);
            flushed += table.flush(storage, &head, &|| are_settled(id))?;
            catalogue.put(table);
        }
    }
    Ok(flushed)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;

    use arrow_array::{ArrayRef, RecordBatch, TimestampSecondArray};

    use super::super::group::Group;
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::options::Options;
    use crate::table::Snap;
    use crate::wal::BODY_BYTES_MAX;

    fn rows(times: Range<i64>) -> RecordBatch {
        let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(times));
        RecordBatch::try_from_iter([("at", times)]).expect("one column")
    }

    #[test]
    fn nothing_is_written_after_a_flush_that_panicked() {
        let disk = Arc::new(SimDisk::new(1));
        let options = Options::new().create(true).background(false);
        let engine = Engine::open(disk, Path::new("/store"), options).expect("creates");
        let flushing = engine.flush.lock();
        let flushed = catch_unwind(AssertUnwindSafe(|| {
            engine.flush_sealed(|_, _| panic!("a defect"))
        }));
        drop(flushing);
        flushed.expect_err("it panics");
        let found = engine.flush();
        assert!(matches!(found, Err(Error::ReadOnly { .. })), "{found:?}");
    }
    #[test]
    fn a_batch_that_no_record_has_room_for_is_appended_all_the_same() {
        let disk = Arc::new(SimDisk::new(1));
        let options = Options::new()
            .create(true)
            .background(false)
            .head_bytes(4 * BODY_BYTES_MAX);
        let engine = Engine::open(disk, Path::new("/store"), options).expect("creates");
        let schema = TableSchema::new(rows(0..1).schema(), "at").expect("storable");
        engine.create_table("t", Arc::new(schema), None).expect("fresh");
        let table = engine.view().catalogue.named("t").expect("there").clone();
        let count = BODY_BYTES_MAX as u64 / 8 * 3 / 2;
        engine
            .append(&table, &rows(0..count.cast_signed()), Snap::Refuse)
            .expect("a sound disk");
        let left = engine
            .view()
            .catalogue
            .get(table.entry.id)
            .map(|table| table.entry.rows);
        assert_eq!(left, Some(count));
    }

    #[test]
    fn rows_that_others_replace_meanwhile_keep_none_from_expiring() {
        for are_replaced in [true, false] {
            let disk = Arc::new(SimDisk::new(1));
            let options = Options::new().create(true).background(false);
            let engine = Engine::open(disk, Path::new("/store"), options).expect("creates");
            let schema = TableSchema::new(rows(0..1).schema(), "at").expect("storable");
            engine.create_table("t", Arc::new(schema), None).expect("fresh");
            let table = engine.view().catalogue.named("t").expect("there").clone();
            engine
                .set_retention(table.entry.id, Some(1000))
                .expect("a sound disk");
            engine
                .append(&table, &rows(0..1000), Snap::Refuse)
                .expect("a sound disk");
            engine
                .append(&table, &rows(5000..5100), Snap::Refuse)
                .expect("a sound disk");
            let flushing = engine.flush.lock();
            engine.seal(true).expect("a sound disk");
            let mut group = Group::default();
            if are_replaced {
                group.replace_times(&table, 5000..=5099);
            } else {
                group.delete(&table, 5000..=5099);
            }
            engine
                .group_append(&mut group, &table, &rows(5000..5100), Snap::Refuse)
                .expect("rows");
            let begun = engine.begin_group(group).expect("a sound disk");
            engine.finish(&begun).expect("a sound disk");
            engine.flush_sealed(|_, _| Ok(())).expect("a sound disk");
            drop(flushing);
            let left = engine
                .view()
                .catalogue
                .get(table.entry.id)
                .map(|table| table.entry.rows);
            assert_eq!(left, Some(if are_replaced { 100 } else { 1100 }));
        }
    }
}
