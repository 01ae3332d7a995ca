//! How much each level of a tree has, from its nodes alone.

use std::collections::HashSet;

use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use bedload_pages::{PageRead, Result};

/// The size of one level of a [`BeTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    /// Nodes.
    pub nodes: u64,
    /// Runs that they name.
    pub runs: u64,
    /// Entries of these runs, including tombstones and slices already pushed to a child.
    pub entries: u64,
    /// Pages of these runs.
    pub pages: u64,
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// Counts each level, from the leaves to the root. Reads one page a node. Other threads may
    /// change the tree meanwhile; entries that move between levels may be counted twice or not at
    /// all.
    ///
    /// # Errors
    ///
    /// The store failed, or a node is damaged.
    ///
    /// ```
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_trees::{Entry, NoRow, Row, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new())?;
    /// let mut batch = tree.batch()?;
    /// batch.put(Entry { key: &U64Order::key(7), tie: 0, row: Row::default() })?;
    /// batch.publish()?;
    /// let levels = tree.levels()?;
    /// assert_eq!(levels.len(), 2);
    /// assert_eq!(levels.iter().map(|level| level.entries).sum::<u64>(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn levels(&self) -> Result<Vec<Level>> {
        let mut levels: Vec<Level> = Vec::new();
        // A damaged tree may lead to a node by two ways.
        let mut seen = HashSet::new();
        let mut nodes = vec![self.root];
        while let Some(id) = nodes.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = self.node(id)?;
            let at = usize::from(node.level);
            levels.resize(levels.len().max(at + 1), Level::default());
            let level = &mut levels[at];
            level.nodes += 1;
            level.runs += node.runs.len() as u64;
            level.entries = level.entries.saturating_add(node.entries());
            level.pages += node
                .runs
                .iter()
                .map(|live| u64::from(live.run.pages))
                .sum::<u64>();
            nodes.extend(node.children.iter().map(|child| child.page));
        }
        Ok(levels)
    }
}
