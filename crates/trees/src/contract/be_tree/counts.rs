//! Counts of the events of a schedule.

use std::fmt;
use std::ops::AddAssign;

use crate::be_tree::MaintenanceWork;

/// Counts of the events of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Steps in all.
    pub steps: u64,
    /// Batches published.
    pub batches: u64,
    /// Changes in them.
    pub changes: u64,
    /// Times a batch found no room.
    pub refused: u64,
    /// Entries that cursors gave.
    pub read: u64,
    /// Cursors that came to the end of their range.
    pub cursors: u64,
    /// Lookups.
    pub lookups: u64,
    /// Bulk deletions that were finished.
    pub bulk_deletes: u64,
    /// Entries that these deleted.
    pub deleted: u64,
    /// Pages that were reclaimed.
    pub reclaimed: u64,
    /// Pages that were swept.
    pub swept: u64,
    /// Counts of the work of maintainers.
    pub work: MaintenanceWork,
    /// The most levels a tree had.
    pub height: u8,
    /// Crashes that were recovered from.
    pub crashes: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let sums = [
            (&mut self.steps, other.steps),
            (&mut self.batches, other.batches),
            (&mut self.changes, other.changes),
            (&mut self.refused, other.refused),
            (&mut self.read, other.read),
            (&mut self.cursors, other.cursors),
            (&mut self.lookups, other.lookups),
            (&mut self.bulk_deletes, other.bulk_deletes),
            (&mut self.deleted, other.deleted),
            (&mut self.reclaimed, other.reclaimed),
            (&mut self.swept, other.swept),
            (&mut self.crashes, other.crashes),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        self.work += other.work;
        self.height = self.height.max(other.height);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} steps: {} batches of {} changes, {} refused; {} cursors, {} entries read, {} lookups; {} push-downs, \
             {} merges, {} splits, {} lost, height {}; {} bulk deletions of {} entries; {} pages reclaimed, {} swept; \
             {} crashes",
            self.steps,
            self.batches,
            self.changes,
            self.refused,
            self.cursors,
            self.read,
            self.lookups,
            self.work.push_downs,
            self.work.merges,
            self.work.splits,
            self.work.lost,
            self.height,
            self.bulk_deletes,
            self.deleted,
            self.reclaimed,
            self.swept,
            self.crashes,
        )
    }
}
