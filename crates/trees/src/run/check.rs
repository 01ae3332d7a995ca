//! Checking what a search in a run relies on, which reading it from end to end does not show.

use super::page::RunPage;
use super::reader::{RunReader, child_at};
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use bedload_pages::{PageId, PageRead, Result};

/// The first entry of a page, deleted or not: its prefix, tie and key.
type FirstEntry = (u64, u64, Vec<u8>);

impl<O: KeyOrder, L: RowLayout, S: PageRead> RunReader<O, L, S> {
    /// Checks that the entries of each node above the leaves are the first ones of its children.
    /// Reads every page but those of the filter.
    ///
    /// # Errors
    ///
    /// They are not, the store failed, or a page is damaged.
    pub(crate) fn check_nodes(&self) -> Result<()> {
        let mut nodes = vec![self.run.root];
        for level in (1..=self.top()?).rev() {
            let mut below = Vec::new();
            for id in nodes {
                let guard = self.store.read(id)?;
                let node = RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?;
                for slot in 0..node.count() {
                    let child = child_at(&node, id, slot)?;
                    if first_entry(&node, slot)? != self.first_of(child, level - 1)? {
                        return Err(node.corrupt("an entry of it is not the first one of the child"));
                    }
                    below.push(child);
                }
            }
            if below.len() > self.run.pages as usize {
                return Err(self.too_many_pages());
            }
            nodes = below;
        }
        Ok(())
    }

    fn first_of(&self, id: PageId, level: u8) -> Result<FirstEntry> {
        let guard = self.store.read(id)?;
        if level == 0 {
            first_entry(&RunPage::parse(&guard, &self.shape, id, &self.name(), 0)?, 0)
        } else {
            first_entry(
                &RunPage::parse(&guard, &self.child_shape, id, &self.name(), level)?,
                0,
            )
        }
    }
}

fn first_entry<R: RowLayout>(page: &RunPage<'_, R>, index: usize) -> Result<FirstEntry> {
    let mut key = Vec::new();
    if index >= page.count() {
        return Err(page.corrupt("it is a child without entries"));
    }
    page.key(index, &mut key)?;
    Ok((page.prefix(index), page.tie(index), key))
}
