//! Steps of maintenance that merge nothing: forgetting runs, growing and splitting.

use super::due::Step;
use super::job::runs_of;
use super::node::{Child, Node};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use bedload_pages::{Batch, PageId, PageStore, Result};

impl<O: KeyOrder, L: Runs<O>, S: PageStore> BeTree<O, L, S> {
    /// Does a step that merges nothing; returns whether it did, as another thread may be at it.
    pub(super) fn rearrange(&self, step: &Step) -> Result<bool> {
        match *step {
            Step::Trim { node, end } => self.trim_node(node, end),
            Step::Grow => self.grow(),
            Step::Split { parent, node } => self.split(parent, node),
            _ => Ok(false),
        }
    }

    fn trim_node(&self, id: PageId, end: usize) -> Result<bool> {
        let Some(_right) = self.store.try_maintain(id) else {
            return Ok(false);
        };
        let batch = self.store.batch(&[id])?;
        let mut node = Node::decode(batch.page(0), id)?;
        let before = node.runs.clone();
        let trimmed = self.trim(&mut node, end.min(before.len()));
        batch.commit(|pages| node.encode(pages[0]));
        self.retire(&runs_of(&before[..trimmed]))?;
        Ok(trimmed > 0)
    }

    /// Moves all that the root has into a new node, its only child.
    fn grow(&self) -> Result<bool> {
        let Some(_right) = self.store.try_maintain(self.root) else {
            return Ok(false);
        };
        let reserved = self.store.reserve()?;
        let id = reserved.id;
        let attempt = (|| {
            let batch = self.store.batch(&[self.root, id])?;
            let mut root = Node::decode(batch.page(0), self.root)?;
            let level = root.level.checked_add(1);
            let (true, Some(level)) = (self.has_many_children(&root), level) else {
                return Ok(false);
            };
            let child = Child {
                page: id,
                pushed: 0,
                pending: 0,
                pivot: PointBuf::default(),
            };
            let node = Node {
                level: root.level,
                generation: reserved.generation,
                runs: std::mem::take(&mut root.runs),
                children: std::mem::replace(&mut root.children, vec![child]),
            };
            root.level = level;
            batch.commit(|pages| {
                root.encode(pages[0]);
                node.encode(pages[1]);
            });
            Ok(true)
        })();
        if !matches!(attempt, Ok(true)) {
            self.store.release(reserved);
        }
        attempt
    }

    /// Splits a node without runs in two.
    fn split(&self, parent_id: PageId, id: PageId) -> Result<bool> {
        let rights = (self.store.try_maintain(parent_id)).zip(self.store.try_maintain(id));
        if rights.is_none() {
            return Ok(false);
        }
        let reserved = self.store.reserve()?;
        let attempt = (|| {
            let batch = self.store.batch(&[parent_id, id, reserved.id])?;
            let mut parent = Node::decode(batch.page(0), parent_id)?;
            let mut node = Node::decode(batch.page(1), id)?;
            let Some(slot) = parent.slot_of(id) else {
                return Ok(false);
            };
            if !node.runs.is_empty() || node.children.len() < 2 {
                return Ok(false);
            }
            let children = node.children.split_off(node.children.len() / 2);
            let Some(pivot) = children.first().map(|child| child.pivot.clone()) else {
                return Ok(false);
            };
            if self.room_for_children(&parent, pivot.key.len()) == 0 {
                return Ok(false);
            }
            let sibling = Node {
                level: node.level,
                generation: reserved.generation,
                runs: Vec::new(),
                children,
            };
            let left = &mut parent.children[slot];
            let half = left.pending / 2;
            left.pending -= half;
            let right = Child {
                page: reserved.id,
                pushed: left.pushed,
                pending: half,
                pivot,
            };
            parent.children.insert(slot + 1, right);
            batch.commit(|pages| {
                parent.encode(pages[0]);
                node.encode(pages[1]);
                sibling.encode(pages[2]);
            });
            Ok(true)
        })();
        if !matches!(attempt, Ok(true)) {
            self.store.release(reserved);
        }
        attempt
    }
}
