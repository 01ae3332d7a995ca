//! Maintenance, in pieces as large as the caller likes.

use std::ops::AddAssign;

use super::descend::IntervalTarget;
use super::due::Step;
use super::job::{Job, Published};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use bedload_pages::{PageId, PageStore, Result};

/// The outcome of a step of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Nothing is due.
    Idle,
    /// There is more to do.
    Paused,
    /// Another maintainer is doing the work that is due, or has just done it.
    Busy,
}

/// Counts of the work of a [`Maintainer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MaintenanceWork {
    /// Merges of runs of one node.
    pub merges: u64,
    /// Push-downs.
    pub push_downs: u64,
    /// Nodes split, the root's growing included.
    pub splits: u64,
    /// Merges and push-downs lost because another thread changed their inputs.
    pub lost: u64,
    /// Entries written, including those of lost work.
    pub entries_written: u64,
    /// Pages written, including those of lost work.
    pub pages_written: u64,
}

impl AddAssign for MaintenanceWork {
    fn add_assign(&mut self, other: Self) {
        self.merges += other.merges;
        self.push_downs += other.push_downs;
        self.splits += other.splits;
        self.lost += other.lost;
        self.entries_written += other.entries_written;
        self.pages_written += other.pages_written;
    }
}

/// How many entries tidying writes, about, for each that was at the root or may be in a leaf when
/// it began: twice what an entry's whole way down costs.
const TIDY_WORK_PER_ENTRY: u64 = 16;

/// How much maintenance is asked for.
#[derive(Debug, Clone, Copy)]
enum Extent {
    Due,
    /// The merges that are due at the root.
    Newest,
    /// What is due, and one run at the root.
    Root,
    /// Until nothing is left above the leaves.
    All,
}

/// Pushes down and merges runs. Several maintainers may work on one tree; each node is maintained
/// by one at a time.
///
/// Dropping a maintainer loses the merge it is in the middle of, without harm but for pages that
/// are leaks until the store is swept.
pub struct Maintainer<'t, O: KeyOrder + 't, L: Runs<O> + 't, S: PageStore + 't> {
    tree: &'t BeTree<O, L, S>,
    job: Option<(Step, Job<'t, O, L, S>)>,
    /// Where a node was pushed down to last: it may have too much now.
    next: Option<(PageId, PageId)>,
    drained_to: Option<PointBuf>,
    has_tidied: bool,
    /// How many entries are written in all when tidying has done enough; none before it begins.
    tidied_at: Option<u64>,
    work: MaintenanceWork,
}

impl<O: KeyOrder, L: Runs<O>, S: PageStore> BeTree<O, L, S> {
    /// A maintainer of the tree that has done nothing yet.
    pub fn maintainer(&self) -> Maintainer<'_, O, L, S> {
        Maintainer {
            tree: self,
            job: None,
            next: None,
            drained_to: None,
            has_tidied: false,
            tidied_at: None,
            work: MaintenanceWork::default(),
        }
    }
}

impl<O: KeyOrder, L: Runs<O>, S: PageStore> Maintainer<'_, O, L, S> {
    /// Returns the counts so far.
    pub fn done(&self) -> MaintenanceWork {
        self.work
    }

    /// Does what is due, until about `pages` pages were read and written or nothing is due. The
    /// next call continues an unfinished merge.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged. The merge under way is lost.
    pub fn work(&mut self, pages: u64) -> Result<Progress> {
        self.go_on(pages, Extent::Due, false)
    }

    /// As [`work_on_one`](Self::work_on_one), and at last merges the runs of the root into one, but
    /// for those that are being pushed down: for a quiet moment, as readers look at each of them. A
    /// maintainer does that once.
    ///
    /// Runs may be added meanwhile, so it does about as much as was due when it began, and is
    /// [idle](Progress::Idle) once it has written many times the root's entries.
    ///
    /// # Errors
    ///
    /// As for [`work`](Self::work).
    pub fn tidy(&mut self, pages: u64) -> Result<Progress> {
        self.go_on(pages, Extent::Root, true)
    }

    /// As [`work_on_one`](Self::work_on_one), but does nothing except the merges that are due at the
    /// root: of small runs, which leave the root no room for others until they are merged. To be
    /// called while nothing is [under way](Self::is_under_way).
    ///
    /// # Errors
    ///
    /// As for [`work`](Self::work).
    pub fn merge_newest(&mut self, pages: u64) -> Result<Progress> {
        self.go_on(pages, Extent::Newest, true)
    }

    /// Whether a merge or a push-down has been begun and is not done, so that dropping the
    /// maintainer would lose it.
    pub fn is_under_way(&self) -> bool {
        self.job.is_some()
    }

    /// Whether [`work`](Self::work) would find something to do. Reads the root and the nodes above
    /// the last entries.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    pub fn is_due(&mut self) -> Result<bool> {
        Ok(self.is_under_way() || self.next_due()?.is_some())
    }

    /// As [`work`](Self::work), but ends with the merge, push-down or split at hand.
    ///
    /// # Errors
    ///
    /// As for [`work`](Self::work).
    pub fn work_on_one(&mut self, pages: u64) -> Result<Progress> {
        self.go_on(pages, Extent::Due, true)
    }

    /// As [`work`](Self::work), but does one whole merge, push-down or split.
    ///
    /// # Errors
    ///
    /// As for [`work`](Self::work).
    pub fn finish_one(&mut self) -> Result<Progress> {
        self.work_on_one(u64::MAX)
    }

    /// As [`work_on_one`](Self::work_on_one), but until nothing is left above the leaves, and each
    /// leaf has one run: for a tree that is going to be read rather than changed.
    ///
    /// # Errors
    ///
    /// As for [`work`](Self::work).
    pub fn drain(&mut self, pages: u64) -> Result<Progress> {
        self.go_on(pages, Extent::All, true)
    }

    fn go_on(&mut self, pages: u64, extent: Extent, one: bool) -> Result<Progress> {
        let mut left = pages;
        loop {
            let (step, mut job) = match self.job.take() {
                Some(job) => job,
                None => {
                    let step = match extent {
                        Extent::All => self.next_to_drain()?,
                        Extent::Due => self.next_due()?,
                        Extent::Newest => self.tree.step_to_merge_newest()?,
                        Extent::Root => self.next_to_tidy()?,
                    };
                    let Some(step) = step else {
                        return Ok(Progress::Idle);
                    };
                    if !matches!(step, Step::Merge { .. } | Step::PushDown { .. }) {
                        if !self.tree.rearrange(&step)? {
                            return Ok(Progress::Busy);
                        }
                        self.work.splits += u64::from(!matches!(step, Step::Trim { .. }));
                        if one {
                            return Ok(Progress::Paused);
                        }
                        continue;
                    }
                    match Job::begin(self.tree, &step)? {
                        Some(job) => (step, job),
                        None => return Ok(Progress::Busy),
                    }
                }
            };
            let (has_more, spent) = job.advance(left)?;
            left = left.saturating_sub(spent);
            if has_more {
                self.job = Some((step, job));
                return Ok(Progress::Paused);
            }
            let published = job.publish()?;
            self.note(&step, published);
            if one || left == 0 {
                return Ok(Progress::Paused);
            }
        }
    }

    fn note(&mut self, step: &Step, published: Published) {
        let Published {
            is_lost,
            entries,
            pages,
        } = published;
        self.work.entries_written += entries;
        self.work.pages_written += pages;
        if is_lost {
            self.work.lost += 1;
            return;
        }
        match *step {
            Step::PushDown { parent, child, .. } => {
                self.work.push_downs += 1;
                self.next = Some((parent, child));
            }
            _ => self.work.merges += 1,
        }
    }

    /// The next step of what is due: where something was pushed down to last, at the root, or in
    /// the leaf that is appended to.
    fn next_due(&mut self) -> Result<Option<Step>> {
        let tree = self.tree;
        if let Some((parent, child)) = self.next
            && tree.node(parent)?.slot_of(child).is_some()
        {
            if let Some(step) = tree.step(child, Some(parent), false)? {
                return Ok(Some(step));
            }
            self.next = None;
        }
        if let Some(step) = tree.step(tree.root, None, false)? {
            return Ok(Some(step));
        }
        let mut parent = None;
        for (id, _) in tree.path(IntervalTarget::Last)?.1 {
            if parent.is_some()
                && let Some(step) = tree.step(id, parent, false)?
            {
                return Ok(Some(step));
            }
            parent = Some(id);
        }
        Ok(None)
    }

    /// The next step of what is due, or to have one run at the root, unless enough was done.
    fn next_to_tidy(&mut self) -> Result<Option<Step>> {
        let tree = self.tree;
        let enough = match self.tidied_at {
            Some(enough) => enough,
            None => {
                let entries = tree.node(tree.root)?.entries();
                let entries = entries.saturating_add(tree.config.leaf_entries);
                let most = entries.saturating_mul(TIDY_WORK_PER_ENTRY);
                *self
                    .tidied_at
                    .insert(self.work.entries_written.saturating_add(most))
            }
        };
        if self.work.entries_written >= enough {
            return Ok(None);
        }
        let step = self.next_due()?;
        if step.is_some() || self.has_tidied {
            return Ok(step);
        }
        self.has_tidied = true;
        tree.step_to_tidy()
    }

    /// The next step of what is left to drain, from left to right.
    fn next_to_drain(&mut self) -> Result<Option<Step>> {
        let tree = self.tree;
        loop {
            let target = match &self.drained_to {
                None => IntervalTarget::First,
                Some(point) => IntervalTarget::At(point.as_point()),
            };
            let (interval, nodes) = tree.path(target)?;
            let mut parent = None;
            for (id, _) in nodes {
                if let Some(step) = tree.step(id, parent, true)? {
                    return Ok(Some(step));
                }
                parent = Some(id);
            }
            self.drained_to = interval.high;
            if self.drained_to.is_none() {
                return Ok(None);
            }
        }
    }
}
