//! Deleting entries wherever they are: the vacuum cycle.

use std::collections::{HashSet, VecDeque};

use super::descend::{Interval, IntervalTarget};
use super::meta::Meta;
use super::node::{LiveRun, Node};
use super::tree::BeTree;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use crate::run::{DeleteInRun, Run};
use bedload_pages::{Batch, Error, PageId, PageSet, PageStore, Result, VacuumStore};

/// A bulk deletion under way: it takes the entries whose ties are dead out of every run, in place.
///
/// Each run knows the vacuum cycle that cleaned it last. A deletion begins a new cycle, and stays
/// at each interval until none of its runs is of an older cycle; a merge that read a run before it
/// was cleaned fails to publish. Finally it cleans the pages that are in none of the tree's runs,
/// which are retired and not reclaimed: a cursor may still be reading them.
///
/// Afterwards no entry that was in the tree when the deletion began and whose tie is dead is left,
/// or can come back. The caller ensures that none is inserted meanwhile.
///
/// A tie is dead with every entry that has it, whatever its key; tombstones stay. Of an entry that
/// was put more than once, the newest is deleted first: until the deletion ends, an older one may
/// be seen instead.
///
/// ```
/// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
/// use bedload_pages::HeapPages;
/// use bedload_trees::{Entry, NoRow, Row, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(8192);
/// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
/// let mut batch = tree.batch()?;
/// for address in 0..100 {
///     batch.put(Entry { key: &U64Order::key(address), tie: address, row: Row::default() })?;
/// }
/// batch.publish()?;
/// let deleted = tree.bulk_delete(&mut |address| address % 10 == 3)?;
/// assert_eq!(deleted, 10);
/// assert!(tree.get_with(&U64Order::key(13), 13, |_| ())?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct BulkDelete<'t, O, L, S: PageStore + 't> {
    tree: &'t BeTree<O, L, S>,
    _right: S::Maintenance<'t>,
    delete: DeleteInRun<L>,
    cycle: u64,
    phase: Phase,
    /// The run being cleaned, the node that names it, and its leaves that are left.
    run: Option<(PageId, LiveRun, VecDeque<PageId>)>,
    deleted_in_run: u64,
    /// Leaves of the run of which nothing is left.
    emptied: HashSet<PageId>,
    /// Runs of the tree when all of them were clean, and their leaves.
    clean_runs: HashSet<(PageId, u64)>,
    clean_leaves: PageSet,
    deleted: u64,
}

/// Pages listed at a time.
const PAGES_LISTED: usize = 1024;

enum Phase {
    /// Going through the tree, from left to right; where the next interval begins.
    Tree {
        at: Option<PointBuf>,
    },
    /// Going through it once more, to list the leaves of its runs. All runs are clean by now, and
    /// so is what they are merged into. A leaf that was cleaned earlier may not be: it may have
    /// been retired, and written again by a merge of runs that were not clean yet.
    Listing {
        at: Option<PointBuf>,
    },
    /// Going through pages of runs, ascending: the next ones, and the last one that was listed.
    Pages {
        next: VecDeque<PageId>,
        listed: Option<PageId>,
    },
    Done,
}

impl<O: KeyOrder, L: RowLayout, S: VacuumStore> BeTree<O, L, S> {
    /// Deletes every entry whose tie `is_dead`; returns how many were deleted in the runs of the
    /// tree, where an entry may stand in more than one. See [`BulkDelete`].
    ///
    /// # Errors
    ///
    /// The store failed, a page is damaged, or another deletion is under way ([`Error::Busy`]).
    /// Some entries may have been deleted.
    pub fn bulk_delete(&self, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<u64> {
        let mut delete = self.begin_bulk_delete()?;
        while delete.step(is_dead)? {}
        Ok(delete.deleted())
    }

    /// Begins a bulk deletion that is done step by step.
    ///
    /// # Errors
    ///
    /// The store failed, or another deletion is under way ([`Error::Busy`]).
    pub fn begin_bulk_delete(&self) -> Result<BulkDelete<'_, O, L, S>> {
        let Some(right) = self.store.try_maintain(self.meta) else {
            return Err(Error::Busy { page: self.meta });
        };
        let batch = self.store.batch(&[self.meta])?;
        let mut meta = Meta::decode(batch.page(0), self.meta)?;
        meta.cycle = meta.cycle.saturating_add(1);
        batch.commit(|pages| meta.encode(pages[0]));
        Ok(BulkDelete {
            tree: self,
            _right: right,
            delete: DeleteInRun::new(
                &self.order,
                self.layout.clone(),
                self.config.run,
                self.store.payload_len(),
            ),
            cycle: meta.cycle,
            phase: Phase::Tree { at: None },
            run: None,
            deleted_in_run: 0,
            emptied: HashSet::new(),
            clean_runs: HashSet::new(),
            clean_leaves: PageSet::default(),
            deleted: 0,
        })
    }

    /// The interval at a point, or the first one, and the nodes whose runs it has.
    fn interval_at(&self, point: Option<&PointBuf>) -> Result<(Interval, Vec<(PageId, usize)>)> {
        self.path(match point {
            None => IntervalTarget::First,
            Some(point) => IntervalTarget::At(point.as_point()),
        })
    }

    /// The leaves of a run of a node; `None` if it is retired and cannot be read any more.
    fn leaves_of(&self, node: PageId, run: &Run) -> Result<Option<Vec<PageId>>> {
        match self.reader(*run).pages() {
            Ok(pages) => Ok(Some(pages.leaves)),
            Err(error) if self.node(node)?.runs.iter().any(|other| other.run.is(run)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

impl<O: KeyOrder, L: RowLayout, S: VacuumStore> BulkDelete<'_, O, L, S> {
    /// Entries deleted so far in the runs of the tree, each counted once for each run that has it.
    pub fn deleted(&self) -> u64 {
        self.deleted
    }

    /// Goes on for about one page; whether there is more to do. `is_dead` must not change its mind
    /// between the steps.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged. The step can be tried again.
    pub fn step(&mut self, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        if self.run.is_some() {
            self.clean_run(is_dead)?;
            return Ok(true);
        }
        match &mut self.phase {
            Phase::Tree { .. } => self.find_run().map(|()| true),
            Phase::Listing { .. } => self.list_runs().map(|()| true),
            Phase::Pages { next, listed } => {
                if next.is_empty() {
                    next.extend(self.tree.store.run_pages(*listed, PAGES_LISTED)?);
                    *listed = next.back().copied();
                }
                let Some(&page) = next.front() else {
                    self.phase = Phase::Done;
                    return Ok(false);
                };
                if !self.clean_leaves.contains(page) {
                    self.clean_page(page, is_dead)?;
                }
                // Only now: a step that fails can be tried again.
                if let Phase::Pages { next, .. } = &mut self.phase {
                    next.pop_front();
                }
                Ok(true)
            }
            Phase::Done => Ok(false),
        }
    }

    /// Looks for a run of an older cycle among those that the next interval is made of, and goes on
    /// to the next interval only if there is none.
    fn find_run(&mut self) -> Result<()> {
        let Phase::Tree { at } = &mut self.phase else {
            return Ok(());
        };
        let (interval, nodes) = self.tree.interval_at(at.as_ref())?;
        let mut runs = interval.runs.iter();
        for &(id, count) in &nodes {
            let Some(&live) = runs.by_ref().take(count).find(|live| live.cycle < self.cycle) else {
                continue;
            };
            if let Some(leaves) = self.tree.leaves_of(id, &live.run)? {
                self.run = Some((id, live, leaves.into()));
                self.deleted_in_run = 0;
            }
            return Ok(());
        }
        *at = interval.high;
        if at.is_none() {
            self.phase = Phase::Listing { at: None };
        }
        Ok(())
    }

    /// Lists the leaves of a run that the next interval is made of, and goes on to the next
    /// interval once all of them are listed.
    fn list_runs(&mut self) -> Result<()> {
        let Phase::Listing { at } = &mut self.phase else {
            return Ok(());
        };
        let (interval, nodes) = self.tree.interval_at(at.as_ref())?;
        let mut runs = interval.runs.iter();
        for &(id, count) in &nodes {
            let name = |live: &LiveRun| (live.run.first_page, live.run.generation);
            let is_new = |live: &&LiveRun| !self.clean_runs.contains(&name(live));
            let Some(live) = runs.by_ref().take(count).find(is_new) else {
                continue;
            };
            for leaf in self.tree.leaves_of(id, &live.run)?.unwrap_or_default() {
                self.clean_leaves.insert(leaf);
            }
            self.clean_runs.insert(name(live));
            return Ok(());
        }
        *at = interval.high;
        if at.is_none() {
            self.phase = Phase::Pages {
                next: VecDeque::new(),
                listed: None,
            };
        }
        Ok(())
    }

    /// Cleans the next leaf of the run, or, behind its last, notes in its node that it is clean.
    fn clean_run(&mut self, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let Some((id, live, leaves)) = &mut self.run else {
            return Ok(());
        };
        if let Some(&leaf) = leaves.front() {
            let (mut deleted, mut is_emptied) = (0, false);
            let cleaned = self.tree.store.delete_in_run(leaf, &mut |page| {
                deleted = self.delete.in_page(leaf, page, is_dead)?;
                is_emptied = self.delete.is_emptied(leaf, page);
                Ok(deleted > 0)
            });
            if let Err(error) = cleaned {
                let now = self.tree.node(*id)?;
                if now.runs.iter().any(|other| other.run.is(&live.run)) {
                    return Err(error);
                }
                // It has been retired since; the next look finds its replacement.
                self.run = None;
                self.emptied.clear();
                return Ok(());
            }
            self.deleted += deleted;
            self.deleted_in_run += deleted;
            if is_emptied {
                self.emptied.insert(leaf);
            }
            leaves.pop_front();
            return Ok(());
        }
        // So that readers need not look at each of these leaves. The run may have been retired
        // since, and its pages be gone.
        if let Err(error) = self.tree.reader(live.run).hint_leaves(&self.emptied) {
            let now = self.tree.node(*id)?;
            if now.runs.iter().any(|other| other.run.is(&live.run)) {
                return Err(error);
            }
        }
        self.emptied.clear();
        let batch = self.tree.store.batch(&[*id])?;
        let mut node = Node::decode(batch.page(0), *id)?;
        // The holder of the right to maintain the node may be reading the run.
        let right = self.tree.store.try_maintain(*id);
        let mut gone = None;
        if let Some(at) = node.runs.iter().position(|other| other.run.is(&live.run)) {
            let found = &mut node.runs[at];
            found.cycle = self.cycle;
            found.run.entries = found.run.entries.saturating_sub(self.deleted_in_run);
            if found.run.entries == 0 && right.is_some() {
                gone = Some(node.remove_run(at));
            }
            batch.commit(|pages| node.encode(pages[0]));
        }
        self.run = None;
        self.tree.retire(gone.as_slice())
    }

    /// Cleans a page of whatever run.
    fn clean_page(&mut self, id: PageId, is_dead: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let cleaned = self.tree.store.delete_in_run(id, &mut |page| {
            // No reader takes a page for a part of a run that cannot be read as one.
            let deleted = self.delete.in_page(id, page, is_dead).unwrap_or(0);
            Ok(deleted > 0)
        });
        let Err(error) = cleaned else {
            return Ok(());
        };
        // It may have been reclaimed since.
        let before = PageId::new(id.get() - 1);
        match self.tree.store.run_pages(before, 1)?.first() {
            Some(&page) if page == id => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::be_tree::Progress;
    use crate::contract::small_be_tree;
    use crate::entry::{Entry, NoRow, Row};
    use crate::key_order::U64Order;
    use bedload_pages::HeapPages;

    /// Merges retire leaves while a deletion goes through the tree. A writer may take those, so
    /// that having been cleaned once says nothing of what they have at the end.
    #[test]
    fn leaves_that_were_retired_meanwhile_are_not_passed_over() {
        let pages = HeapPages::new(1536);
        let tree = BeTree::create(&pages, U64Order, NoRow, small_be_tree()).expect("an empty tree");
        for round in 0..3 {
            let mut batch = tree.batch().expect("begun");
            for number in 0..400 {
                let (key, row) = (U64Order::key(number * 10 + round), Row::default());
                let tie = number;
                batch.put(Entry { key: &key, tie, row }).expect("ascending");
            }
            batch.publish().expect("published");
        }
        let mut is_dead = |tie: u64| tie.is_multiple_of(3);
        let mut delete = tree.begin_bulk_delete().expect("begun");
        while matches!(delete.phase, Phase::Tree { .. }) {
            delete.step(&mut is_dead).expect("a step");
        }
        while tree.maintainer().work(1000).expect("maintained") == Progress::Paused {}
        while delete.step(&mut is_dead).expect("a step") {}
        let report = tree.verify().expect("verified");
        assert!(report.is_sound(), "{:?}", report.problems);
        let written = pages.run_pages(None, usize::MAX).expect("listed");
        let retired: Vec<_> = written
            .iter()
            .filter(|page| !report.pages.contains(page))
            .collect();
        assert!(retired.len() > 10, "merges retire what they merge");
        for page in written {
            let is_passed_over = delete.clean_leaves.contains(page);
            assert!(
                !is_passed_over || report.pages.contains(&page),
                "{page} is retired"
            );
        }
    }
}
