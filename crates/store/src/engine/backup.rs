//! Backup: one state of a store as a store of its own, while the first is being written to.
//!
//! The state is that of a checkpoint, whose view is held meanwhile: nothing that it names is
//! overwritten or freed. The copy's data file gets its name last, as when a store is created: until
//! the copy is whole, there is no store.

use std::path::Path;
use std::sync::Arc;

use super::directory::{
    begin_data_file, check_dirs, check_vacant, create_dir, finish_data_file, lock_vacant,
};
use super::lock::StoreLock;
use super::names::{DATA_FILE, LOG_DIR};
use super::state::Engine;
use super::verify::VerifyReport;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::pages::{Cache, CheckpointMeta};
use crate::table::{BlockFiles, PageChanges, View};
use crate::wal::Log;

/// Memory for the pages of the copy while it is checked.
const CHECK_CACHE_BYTES: usize = 16 << 20;

impl Engine {
    /// Copies everything committed so far into a new store in `to`, opens that and checks it.
    pub(crate) fn backup(&self, to: &Path) -> Result<VerifyReport> {
        if self.reading.is_some() {
            self.check_writable()?;
        }
        self.process.check(&self.dir)?;
        check_vacant(&*self.disk, to)?;
        // Under the lock: another flush may hold rows back, which no checkpoint has.
        let view = self.with_space(|| {
            let flushing = self.flush.lock();
            self.flush_locked(&flushing)?;
            Ok(self.view())
        })?;
        self.copy_view(&view, &self.disk, to)?;
        drop(view);
        check_copy(self.disk.clone(), to)
    }

    /// Copies the checkpoint of a view to another place of a disk.
    fn copy_view(&self, view: &View, disk: &Arc<dyn Disk>, to: &Path) -> Result<()> {
        let mut lock = lock_vacant(&**disk, to, &self.dir)?;
        create_dir(&**disk, &to.join(LOG_DIR))?;
        check_dirs(&**disk, to)?;
        // The oldest generation begins where the checkpoint ends.
        let since = &view.generations()[0];
        Log::begin(disk.clone(), to.join(LOG_DIR), self.store_id, since.log_start)?;
        let file = begin_data_file(&**disk, to, (self.page_bytes(), 1), &mut lock)?;
        let cache = Arc::new(Cache::new(0, 0));
        let files = BlockFiles::new(disk.clone(), to, self.store_id, cache, view.pages.number());
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
        view.pages
            .copy_to(file, self.store_id, (&meta, next_generation), |page, payload| {
                changes.apply(page, payload);
            })?;
        finish_data_file(&**disk, to)
    }
}

/// Copies the backup in `from` into a new store in `to`, and checks the copy. A backup that is as
/// it was made is not written to: its checkpoint has everything. One that rows were added to is
/// opened for writing, to bring them into a checkpoint, too.
pub(crate) fn restore(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<VerifyReport> {
    let backup = Engine::open_to_read(disk.clone(), from, options())?;
    let no_writer = StoreLock::shared(&**disk, from, &from.join(DATA_FILE))?;
    check_vacant(&**disk, to)?;
    let view = backup.view();
    // Rows that were held back have numbers from before the checkpoint, and are in the log alone.
    let since = view.active();
    if since.first_sequence == backup.next_sequence() && since.is_empty() {
        backup.copy_view(&view, disk, to)?;
        return check_copy(disk.clone(), to);
    }
    drop((view, backup, no_writer));
    Engine::open(disk.clone(), from, options())?.backup(to)
}

fn options() -> Options {
    Options::new()
        .create(false)
        .background(false)
        .cache_bytes(CHECK_CACHE_BYTES)
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
