//! Hints: entries of a run that readers may pass over.
//!
//! A reader that finds that an entry refers to something dead says so, and later readers skip the
//! entry, a leaf with no other entries, and a node with no other leaves. Nothing is deleted: a
//! merge keeps the entries, without their hints. A hint may get lost, and no one waits for it to be
//! written.
//!
//! A hint about a leaf rests on the deletions in it. If these were lost in a crash and the hint was
//! not, readers would miss live entries, so it is given once they are durable
//! ([`VacuumStore::is_durable`]).

use std::collections::HashSet;

use super::page::{HintMap, PageHeader, RunPage};
use super::reader::{RunReader, child_at};
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::{PageId, Result, VacuumStore};

/// A child of a node above the leaves, the end of its positions, and its slot.
type Share = (PageId, usize, usize);

impl<O: KeyOrder, L: RowLayout, S: VacuumStore> RunReader<O, L, S> {
    /// Sets the hints of the entries at some positions, which ascend. Positions at which the run
    /// has no entry are passed over, and so are pages that are not the run's any more: it may have
    /// been merged into another.
    ///
    /// # Errors
    ///
    /// The store failed, or a page of the run is damaged.
    pub fn hint_dead(&self, dead: &[Position<'_>]) -> Result<()> {
        if !dead.is_empty() {
            self.hint_below(self.run.root, self.top()?, dead)?;
        }
        Ok(())
    }

    /// As [`hint_dead`](Self::hint_dead), for all entries of some leaves, which were all deleted. Waits
    /// until these deletions are durable.
    pub(crate) fn hint_leaves(&self, emptied: &HashSet<PageId>) -> Result<()> {
        if emptied.is_empty() || self.top()? == 0 {
            return Ok(());
        }
        for &leaf in emptied {
            self.store.is_durable(leaf, true)?;
        }
        let (mut nodes, mut level) = (vec![self.run.root], self.top()?);
        while level > 1 {
            let mut below = Vec::new();
            for &id in &nodes {
                let guard = self.store.read(id)?;
                let page = RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?;
                for slot in 0..page.count() {
                    below.push(child_at(&page, id, slot)?);
                }
            }
            (nodes, level) = (below, level - 1);
        }
        for id in nodes {
            let slots = {
                let guard = self.store.read(id)?;
                let page = RunPage::parse(&guard, &self.child_shape, id, &self.name(), 1)?;
                let is_emptied =
                    |&slot: &usize| child_at(&page, id, slot).is_ok_and(|id| emptied.contains(&id));
                (0..page.count()).filter(is_emptied).collect::<Vec<_>>()
            };
            self.hint_children(id, 1, &slots)?;
        }
        Ok(())
    }

    /// Sets hints below a page; whether all its entries are dead now.
    fn hint_below(&self, id: PageId, level: u8, dead: &[Position<'_>]) -> Result<bool> {
        if level == 0 {
            return self.hint_entries(id, dead);
        }
        // None if the page is no longer one of the run's.
        let mut slots = Vec::new();
        let mut begin = 0;
        for (child, end, slot) in self.shares(id, level, dead)? {
            // A reader does not wait until what was deleted below is durable.
            let is_dead = self.hint_below(child, level - 1, &dead[begin..end])?;
            if is_dead && self.store.is_durable(child, false)? {
                slots.push(slot);
            }
            begin = end;
        }
        self.hint_children(id, level, &slots)
    }

    /// Which positions lie below which child.
    fn shares(&self, id: PageId, level: u8, dead: &[Position<'_>]) -> Result<Vec<Share>> {
        let guard = self.store.read(id)?;
        let mut shares: Vec<Share> = Vec::new();
        if !self.has(&guard) {
            return Ok(shares);
        }
        let page = RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?;
        for (index, &position) in dead.iter().enumerate() {
            let (rank, found) = self.rank(&page, Point::new(&self.order, position)?)?;
            let slot = if found { rank } else { rank.saturating_sub(1) };
            match shares.last_mut() {
                Some((_, end, last)) if *last == slot => *end = index + 1,
                _ => shares.push((child_at(&page, id, slot)?, index + 1, slot)),
            }
        }
        Ok(shares)
    }

    /// Sets hints of entries of a leaf; whether all of them are dead now.
    fn hint_entries(&self, id: PageId, dead: &[Position<'_>]) -> Result<bool> {
        self.change(id, |bytes| {
            let page = RunPage::parse(bytes, &self.shape, id, &self.name(), 0)?;
            let mut found = Vec::new();
            for &position in dead {
                if let (index, true) = self.rank(&page, Point::new(&self.order, position)?)? {
                    found.push(index);
                }
            }
            Ok(page.with_hints(&found))
        })
    }

    /// Sets hints of children; whether all that lies below the node is dead now.
    fn hint_children(&self, id: PageId, level: u8, slots: &[usize]) -> Result<bool> {
        if slots.is_empty() {
            return Ok(false);
        }
        self.change(id, |bytes| {
            let page = RunPage::parse(bytes, &self.child_shape, id, &self.name(), level)?;
            let is_within = slots.iter().all(|&slot| slot < page.count());
            Ok(if is_within {
                page.with_hints(slots)
            } else {
                (None, false)
            })
        })
    }

    /// Whether a page says that it is one of the run's.
    fn has(&self, page: &[u8]) -> bool {
        PageHeader::read(page).is_some_and(|header| header.run == self.name())
    }

    /// Puts the map that `hints` makes into a page of the run, and returns what else it says.
    fn change(&self, id: PageId, hints: impl Fn(&[u8]) -> Result<(Option<HintMap>, bool)>) -> Result<bool> {
        let mut is_all_dead = false;
        self.store.hint_in_run(id, &mut |bytes| {
            if !self.has(bytes) {
                return Ok(false);
            }
            let (map, is_all) = hints(bytes)?;
            is_all_dead = is_all;
            if let Some(map) = &map {
                map.put(bytes);
            }
            Ok(map.is_some())
        })?;
        Ok(is_all_dead)
    }
}
