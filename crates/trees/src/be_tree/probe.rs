//! How often filters admit a key that their run does not have.

use std::collections::HashSet;

use super::tree::BeTree;
use crate::entry::RowLayout;
use crate::key_order::{KeyOrder, mix};
use bedload_pages::{PageRead, Result};

/// Probes of a tree, as the number of its filters allows: at least the second for each filter.
const PROBES: u64 = 4096;
const PROBES_MIN: u64 = 8;

/// The answers of a tree's filters to keys that no run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterProbes {
    /// Filters that were asked.
    pub filters: u64,
    /// Keys that they were asked for, over all filters.
    pub probes: u64,
    /// Keys of these that a run may have, by its filter.
    pub false_positives: u64,
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BeTree<O, L, S> {
    /// Asks each filter for some keys that no run has. A page for each node, and up to 4,096 pages
    /// of filters, or 8 for each filter if that is more.
    ///
    /// # Errors
    ///
    /// The store failed, or a page is damaged.
    ///
    /// ```
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_trees::{NoRow, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
    /// assert_eq!(tree.probe_filters()?.filters, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn probe_filters(&self) -> Result<FilterProbes> {
        let mut filtered = Vec::new();
        // A damaged tree may lead to a node by two ways.
        let mut seen = HashSet::new();
        let mut nodes = vec![self.root];
        while let Some(id) = nodes.pop() {
            if seen.insert(id) {
                let node = self.node(id)?;
                let runs = node.runs.iter().map(|live| live.run);
                filtered.extend(runs.filter(|run| run.filter.is_some()).map(|run| (id, run)));
                nodes.extend(node.children.iter().map(|child| child.page));
            }
        }
        let mut found = FilterProbes::default();
        let each = (PROBES / (filtered.len() as u64).max(1)).max(PROBES_MIN);
        let mut number = 0_u64;
        for (id, run) in filtered {
            // One mixing alone would make the hashes of small integers, which may be keys.
            let answers = (0..each).map(|_| {
                number += 1;
                run.may_contain(&self.store, mix(mix(number)))
            });
            match answers.collect::<Result<Vec<bool>>>() {
                Ok(answers) => {
                    found.filters += 1;
                    found.probes += each;
                    found.false_positives +=
                        answers.iter().filter(|&&is_positive| is_positive).count() as u64;
                }
                Err(error) if self.node(id)?.runs.iter().any(|live| live.run.is(&run)) => return Err(error),
                // The run was merged into another meanwhile.
                Err(_) => {}
            }
        }
        Ok(found)
    }
}
