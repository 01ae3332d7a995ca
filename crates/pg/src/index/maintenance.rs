//! Merges that are due: by the session that commits, by VACUUM, or by a background worker.

use std::time::Duration;

use bedload_trees::be_tree::{self, FilterProbes, MaintenanceWork, Pressure, Progress, SealedBatch};

use super::meta::{self, Work};
use super::{Index, Tree, wait};
use crate::compat;
use crate::interrupts::interrupt_point;
use crate::key::{EntryOrder, EntryRow};
use crate::pages::PgPages;
use crate::worker;

type Maintainer<'t> = be_tree::Maintainer<'t, EntryOrder, EntryRow, &'t PgPages>;

/// A commit that finds maintenance due, and no worker to do it, does one step, and continues while
/// it has written fewer than this many entries for each of its own: twice the cost of an entry's
/// whole way down. So maintenance keeps up, and a small commit does not wait for the work that
/// others left.
const WORK_PER_ENTRY: u64 = 16;
/// Pages that are merged between two looks for a cancelled statement or worker.
const MAINTENANCE_PAGES: u64 = 64;
/// How much may be pending in the root before commits are slowed, in hundredths of the amount at
/// which it pushes down.
const BACKLOG_FREE: u64 = 200;
/// How long a commit waits for each of its entries, for each multiple of the due amount by which
/// the root's backlog exceeds [`BACKLOG_FREE`]: about as long as an entry's whole way down takes.
const PAUSE_PER_ENTRY: Duration = Duration::from_micros(1);
/// How long `VACUUM` waits for another process to end a merge.
const VACUUM_WAITS_MS: u32 = 1000;

impl Index {
    pub(super) fn publish(
        &self,
        tree: &Tree<'_>,
        mut batch: SealedBatch<'_, EntryOrder, EntryRow, &PgPages>,
        count: u64,
        published: impl FnOnce(),
    ) {
        let mut maintainer = tree.maintainer();
        let pressure = loop {
            if let Some(pressure) = self.done(batch.try_publish()) {
                break pressure;
            }
            interrupt_point();
            // Another process makes room. It holds no latch that we could wait for.
            if worker::is_at(self) || self.finish_one(&mut maintainer) != Progress::Paused {
                wait();
            }
        };
        published();
        if worker::takes_over(self, pressure) {
            if pressure != Pressure::None {
                self.slow_down(tree, count);
            }
        } else {
            // Each commit pays for the way down of its own entries. It does whole merges, as one
            // that is not finished is lost with this call. Nodes tell which merges are due, so any
            // session can do the next one.
            let enough = WORK_PER_ENTRY * count;
            while self.finish_one(&mut maintainer) == Progress::Paused {
                interrupt_point();
                if maintainer.done().entries_written > enough {
                    break;
                }
            }
        }
        self.count_work(count, maintainer.done());
    }

    /// Does one whole step of what is due. It can be cancelled, and is lost then.
    fn finish_one(&self, maintainer: &mut Maintainer<'_>) -> Progress {
        loop {
            let progress = self.done(maintainer.work_on_one(MAINTENANCE_PAGES));
            if !maintainer.is_under_way() {
                break progress;
            }
            interrupt_point();
        }
    }

    /// Lets a worker catch up that is far behind, the longer the further it is.
    fn slow_down(&self, tree: &Tree<'_>, count: u64) {
        let excess = self.done(tree.backlog()).saturating_sub(BACKLOG_FREE);
        let count = u32::try_from(count * excess / 100).unwrap_or(u32::MAX);
        let mut left = PAUSE_PER_ENTRY.saturating_mul(count);
        while !left.is_zero() {
            interrupt_point();
            let pause = left.min(Duration::from_millis(1));
            std::thread::sleep(pause);
            left -= pause;
        }
    }

    /// Does what is due until it `is_enough`, and nothing by halves. Busy or idle only if it did
    /// nothing.
    pub(crate) fn work_off(&self, is_enough: impl Fn() -> bool) -> Progress {
        let tree = self.tree();
        let mut maintainer = tree.maintainer();
        let progress = loop {
            let mut progress = Progress::Idle;
            // Sessions add runs to the root meanwhile, and wait when it has no room.
            if !maintainer.is_under_way() {
                progress = self.done(maintainer.merge_newest(MAINTENANCE_PAGES));
            }
            if progress == Progress::Idle {
                progress = self.done(maintainer.work_on_one(MAINTENANCE_PAGES));
            }
            interrupt_point();
            if progress != Progress::Paused || !maintainer.is_under_way() && is_enough() {
                break progress;
            }
        };
        let done = maintainer.done();
        self.count_work(0, done);
        if done == MaintenanceWork::default() {
            progress
        } else {
            Progress::Paused
        }
    }

    fn count_work(&self, published: u64, done: MaintenanceWork) {
        let merged = done.entries_written;
        if published > 0 || merged > 0 {
            meta::count(&self.pages, Work { published, merged });
        }
        #[cfg(feature = "harness")]
        crate::hooks::note(done);
    }

    /// Counts of what sessions have written, and of errors of filters.
    pub(crate) fn work(&self) -> (Work, FilterProbes) {
        (meta::work(&self.pages), self.done(self.tree().probe_filters()))
    }

    /// Lets `change` look at when a worker was called last, in the server's time, and change it;
    /// returns what it returns.
    pub(crate) fn with_call<T>(&self, change: impl FnOnce(&mut i64) -> T) -> T {
        meta::with_call(&self.pages, change)
    }

    /// Does the maintenance that is due when it begins, at VACUUM's pace, and merges the root's
    /// runs into one; with `all`, until each leaf has one run and nothing is above.
    pub(crate) fn maintain(&self, all: bool) {
        if all {
            self.seal_all();
        }
        let tree = self.tree();
        let mut maintainer = tree.maintainer();
        let mut waits = 0;
        loop {
            let progress = if all {
                maintainer.drain(MAINTENANCE_PAGES)
            } else {
                maintainer.tidy(MAINTENANCE_PAGES)
            };
            match self.done(progress) {
                Progress::Paused => {}
                Progress::Busy if all || waits < VACUUM_WAITS_MS => {
                    waits += 1;
                    wait();
                }
                _ => break,
            }
            if maintainer.is_under_way() {
                // Its nodes take nothing from others until it is done: no time to sleep.
                interrupt_point();
                continue;
            }
            #[cfg(feature = "harness")]
            crate::hooks::pause(crate::hooks::Pause::Delay);
            compat::vacuum_delay();
        }
        self.count_work(0, maintainer.done());
    }
}
