//! Backup: one state of a store as a store of its own, while the first is being written to.
//!
//! The state is that of a checkpoint, whose view is held meanwhile: nothing that it names is
//! overwritten or freed. A process that has the store open for writing flushes first. Any other
//! one is a reader ([`reading`](super::reading)): it adds the rows that the log has after the
//! checkpoint to the copy, and writes nothing to the store. The copy's data file gets its name
//! last, as when a store is created: until the copy is whole, there is no store.

use std::path::Path;
use std::sync::Arc;

use super::directory::{
    begin_data_file, check_dirs, check_vacant, create_dir, draw_id, finish_data_file, lock_vacant,
};
use super::names::LOG_DIR;
use super::recovery::Recovery;
use super::state::Engine;
use super::verify::VerifyReport;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{Cache, CheckpointMeta};
use crate::rows::Generation;
use crate::table::{BlockFiles, Catalogue, PageChanges, View};
use crate::wal::Log;

/// Memory for pages of the store that is read, of the copy, and of the copy while it is checked.
const CACHE_BYTES: usize = 16 << 20;

impl Engine {
    /// Copies everything committed so far into a new store in `to`, opens that and checks it.
    pub(crate) fn backup(&self, to: &Path) -> Result<VerifyReport> {
        self.process.check(&self.dir)?;
        if let Some(reading) = &self.reading {
            self.check_place()?;
            return copy_store(&reading.disk, &self.dir, to);
        }
        check_vacant(&*self.disk, to)?;
        // Under the lock: another flush may hold rows back, which no checkpoint has.
        let view = self.with_space(|| {
            let flushing = self.flush.lock();
            self.flush_locked(&flushing)?;
            Ok(self.view())
        })?;
        self.copy_view(&view, None, &self.disk, to)?;
        drop(view);
        check_copy(self.disk.clone(), to)
    }

    /// Copies the checkpoint of a view to another place of a disk, and what `newer` has after it.
    fn copy_view(
        &self,
        view: &View,
        newer: Option<&Generation>,
        disk: &Arc<dyn Disk>,
        to: &Path,
    ) -> Result<()> {
        let mut lock = lock_vacant(&**disk, to, &self.dir)?;
        let log_dir = to.join(LOG_DIR);
        create_dir(&**disk, &log_dir)?;
        check_dirs(&**disk, to)?;
        // The oldest generation begins where the checkpoint ends.
        let since = &view.generations()[0];
        // As after every other checkpoint, the log before the newest one is missing.
        let log_start = since.log_start + u64::from(newer.is_some());
        Log::begin(disk.clone(), log_dir, self.store_id, log_start)?;
        let pages = CACHE_BYTES / self.page_bytes() / 2;
        let file = begin_data_file(&**disk, to, (self.page_bytes(), pages), &mut lock)?;
        let cache = Arc::new(Cache::new(0, 0));
        let files = BlockFiles::new(disk.clone(), to, self.store_id, cache, view.pages.number());
        let files = files.for_copy();
        let mut changes = PageChanges::default();
        for table in view.catalogue.iter() {
            table.copy_files(view, &files, &mut changes)?;
        }
        let meta = CheckpointMeta {
            log_start: since.log_start,
            next_sequence: since.first_sequence,
            catalogue: view.catalogue.encode(),
        };
        let next_generation = self.pages.next_generation();
        let change = |page, payload: &mut [u8]| changes.apply(page, payload);
        let pages = view.pages.copy_to(
            file,
            (self.store_id, draw_id(to)?),
            (&meta, next_generation),
            pages,
            change,
        )?;
        if let Some(newer) = newer {
            let next = (copy_heads(view, newer, &files)?, self.next_sequence());
            let catalogue = Catalogue::clone(&view.catalogue);
            Recovery::new(to, (self.store_id, pages, files), catalogue, next).checkpoint(log_start)?;
        }
        finish_data_file(&**disk, to)
    }
}

/// The generation after the checkpoint of a view, with its blocks copied into the files of another
/// store.
fn copy_heads(view: &View, newer: &Generation, files: &BlockFiles) -> Result<Generation> {
    let copy = Generation::new(newer.log_start, newer.first_sequence);
    copy.take_heads(newer);
    for id in newer.tables() {
        if let (Some(table), Some(head)) = (view.catalogue.get(id), newer.head(id)) {
            copy.put_head(id, table.copy_head(view, &head, files)?);
        }
    }
    Ok(copy)
}

/// Copies the store in `from`, with everything committed so far, into a new store in `to`, and
/// checks the copy. Nothing is written to the store.
pub(crate) fn copy_store(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<VerifyReport> {
    let store = Engine::open_to_read(disk.clone(), from, options())?;
    check_vacant(&**disk, to)?;
    let view = store.view();
    let newer = view.active();
    // Rows that were held back have numbers from before the checkpoint, and are in the log alone.
    let is_newer = newer.first_sequence != store.next_sequence() || !newer.is_empty();
    store.copy_view(&view, is_newer.then_some(&**newer), disk, to)?;
    drop((view, store));
    check_copy(disk.clone(), to)
}

fn options() -> Options {
    Options::new()
        .create(false)
        .background(false)
        .cache_bytes(CACHE_BYTES)
}

/// Opens a copy and checks all of it.
fn check_copy(disk: Arc<dyn Disk>, copy: &Path) -> Result<VerifyReport> {
    let report = Engine::open(disk, copy, options())?.verify()?;
    match report.problems.first() {
        None => Ok(report),
        Some(problem) => Err(Error::corrupt(
            &problem.file,
            problem.place.clone(),
            problem.reason.clone(),
        )),
    }
}
