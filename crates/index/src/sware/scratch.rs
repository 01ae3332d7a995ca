//! What merging uses again and again: room to sort and to join, and leaves.

use super::join::Joined;
use super::late::Late;
use super::leaf::Leaf;
use super::stage::Run;

/// As many leaves are kept for the next use.
const LEAVES_KEPT: usize = 64;

/// Room to sort and to join, and leaves for the next use.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) spare: SpareLeaves,
    pub(super) late: Late,
    pub(super) joined: Option<Box<Joined>>,
    pub(super) run: Run,
    pub(super) routes: Vec<Route>,
}

#[derive(Debug)]
pub(super) struct SpareLeaves(Vec<Box<Leaf>>);

/// To which leaf an entry of a run goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) entry: usize,
    pub(super) at: usize,
    pub(super) place: usize,
}

impl Scratch {
    pub(super) const fn new() -> Self {
        Self {
            spare: SpareLeaves(Vec::new()),
            late: Late::new(),
            joined: None,
            run: Run::new(),
            routes: Vec::new(),
        }
    }

    /// Room to join.
    pub(super) fn joined(&mut self) -> &mut Joined {
        self.joined.get_or_insert_with(Joined::new)
    }

    pub(super) fn bytes(&self) -> usize {
        self.spare.0.len() * size_of::<Leaf>() + self.run.bytes()
    }
}

impl SpareLeaves {
    /// An empty leaf.
    pub(super) fn leaf(&mut self) -> Box<Leaf> {
        match self.0.pop() {
            None => Leaf::new(),
            Some(mut leaf) => {
                leaf.truncate(0);
                leaf
            }
        }
    }

    /// A leaf that is to be filled.
    pub(super) fn leaf_to_fill(&mut self) -> Box<Leaf> {
        let mut leaf = self.0.pop().unwrap_or_else(Leaf::new);
        leaf.begin_filling();
        leaf
    }

    pub(super) fn keep(&mut self, leaf: Box<Leaf>) {
        if self.0.len() < LEAVES_KEPT {
            self.0.push(leaf);
        }
    }
}
