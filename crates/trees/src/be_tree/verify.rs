//! The structural check.

use std::collections::BTreeSet;

use super::node::{Node, NodeView};
use super::runs::Runs;
use super::tree::BeTree;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use crate::run::Run;
use bedload_pages::{Error, PageId, PageRead, Result};

/// The report of [`BeTree::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// All that is wrong, as far as it was seen.
    pub problems: Vec<BeTreeProblem>,
    /// Every page of the tree, the meta page included: what a sweep is to keep.
    pub pages: BTreeSet<PageId>,
    /// Levels, leaves included.
    pub height: u8,
    /// Nodes above the leaves.
    pub nodes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Runs of nodes above the leaves.
    pub runs_above: u64,
    /// Runs of leaves.
    pub leaf_runs: u64,
    /// Entries of all runs, hidden ones and tombstones included.
    pub entries: u64,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Something wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BeTreeProblem {
    /// The page.
    pub page: PageId,
    /// The damage.
    pub what: String,
}

/// A node's interval.
type Between<'k> = (Option<&'k PointBuf>, Option<&'k PointBuf>);

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// Reads the whole tree and reports all damage. Call it only while no other thread changes the
    /// tree.
    ///
    /// # Errors
    ///
    /// Something failed that concerns no page. Pages that are damaged or cannot be read are
    /// problems, and not errors.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report::default();
        report.pages.insert(self.meta);
        let root = self.store.read(self.root);
        match root.and_then(|guard| NodeView::parse(&guard, self.root).map(|view| view.level)) {
            Ok(level) => {
                report.height = level.saturating_add(1);
                self.verify_node(self.root, level, (None, None), &mut report)?;
            }
            Err(error) => note(&mut report, self.root, error)?,
        }
        Ok(report)
    }

    fn verify_node(&self, id: PageId, level: u8, between: Between<'_>, report: &mut Report) -> Result<()> {
        if !report.pages.insert(id) {
            problem(report, id, "it is in the tree twice");
            return Ok(());
        }
        let page = self.store.read(id);
        let node = match page.and_then(|guard| Node::decode(&guard, id)) {
            Ok(node) => node,
            Err(error) => return note(report, id, error),
        };
        if node.level != level {
            problem(report, id, "its level is not the one its parent has it for");
            return Ok(());
        }
        let of_runs = if level == 0 {
            report.leaves += 1;
            &mut report.leaf_runs
        } else {
            report.nodes += 1;
            &mut report.runs_above
        };
        *of_runs += node.runs.len() as u64;
        for live in &node.runs {
            report.entries = report.entries.saturating_add(live.run.entries);
            if let Err(error) = self.verify_run(&live.run, between, report) {
                note(report, live.run.root, error)?;
            }
        }
        let is_within = |low: Option<&PointBuf>, high: Option<&PointBuf>| {
            low.zip(high).is_none_or(|(low, high)| {
                let ordering = low.as_point().cmp(&self.order, &high.as_point());
                ordering.is_lt()
            })
        };
        let pivots: Vec<&PointBuf> = node.children.iter().map(|child| &child.pivot).collect();
        for (slot, child) in node.children.iter().enumerate() {
            let low = if slot == 0 { between.0 } else { Some(pivots[slot]) };
            let high = pivots.get(slot + 1).copied().or(between.1);
            if !is_within(low, high) || !is_within(between.0, high) {
                problem(report, id, &format!("the pivot of child {slot} is out of order"));
            }
            self.verify_node(child.page, level - 1, (low, high), report)?;
        }
        Ok(())
    }

    fn verify_run(&self, run: &Run, (low, high): Between<'_>, report: &mut Report) -> Result<()> {
        let source = self.run(*run);
        let pages = self.layout.pages(&source)?;
        for &page in &pages {
            if !report.pages.insert(page) {
                problem(report, page, "it is in the tree twice");
            }
        }
        if pages.len() != run.pages as usize {
            problem(report, run.root, "its run has not the pages that its node says");
        }
        let (mut low_key, mut high_key) = (Vec::new(), Vec::new());
        let low = low.map(|low| self.position(low, &mut low_key));
        let high = high.map(|high| self.position(high, &mut high_key));
        for wrong in self.layout.check(&source, (low, high))? {
            problem(report, wrong.page, &wrong.what);
        }
        Ok(())
    }
}

fn problem(report: &mut Report, page: PageId, what: &str) {
    report.problems.push(BeTreeProblem {
        page,
        what: what.to_owned(),
    });
}

/// Damage is a problem, and anything else an error.
fn note(report: &mut Report, page: PageId, error: Error) -> Result<()> {
    match error {
        Error::Corrupt { page, reason } => problem(report, page, reason),
        Error::Store(_) => problem(report, page, &error.to_string()),
        other => return Err(other),
    }
    Ok(())
}
