//! Checks of the invariants of a tree without concurrent operations.

use crossbeam_epoch::Guard;

use super::Trunk;
use crate::blink::inner::Inner;
use crate::blink::node::NodePtr;
use crate::search::columns::Words;
use crate::sync::primitive::Ordering;

/// Summary of a node, for the check of the leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafSummary<'g, W: Words> {
    pub(crate) node: NodePtr<'g, W>,
    pub(crate) low: Option<W>,
    pub(crate) high: Option<W>,
}

impl<W: Words> Trunk<W> {
    /// Checks every level; returns the leaves from left to right. No other operation may be under
    /// way.
    pub(crate) fn check<'g>(&self, guard: &'g Guard) -> Result<Vec<LeafSummary<'g, W>>, String> {
        let mut leftmost = self.root(guard).ok_or("there is no root")?;
        let mut expected = vec![(None, leftmost)];
        loop {
            let level = leftmost.level();
            let nodes = nodes_of_level(leftmost, guard);
            let found: Vec<_> = nodes.iter().map(|node| (node.low, node.node)).collect();
            if found != expected {
                return Err(format!(
                    "level {level} holds {} nodes, the level above names {}, and they differ",
                    found.len(),
                    expected.len()
                ));
            }
            expected = Vec::new();
            for node in &nodes {
                check_node(node, level)?;
                if let Some(inner) = node.node.downcast::<Inner<W>>() {
                    expected.extend(children(node, inner, guard)?);
                }
            }
            if level == 0 {
                let last = nodes.last().map(|leaf| leaf.node.as_raw());
                if last != Some(self.rightmost.load(Ordering::Relaxed)) {
                    return Err("the right-most leaf is another".into());
                }
                return Ok(nodes);
            }
            leftmost = expected
                .first()
                .ok_or(format!("level {level} has no children"))?
                .1;
        }
    }
}

fn nodes_of_level<'g, W: Words>(leftmost: NodePtr<'g, W>, guard: &'g Guard) -> Vec<LeafSummary<'g, W>> {
    let mut nodes = Vec::new();
    let (mut low, mut next) = (None, Some(leftmost));
    while let Some(node) = next {
        let right = node.right(guard);
        let high = right.map(|(high, _)| high);
        nodes.push(LeafSummary { node, low, high });
        (low, next) = (high, right.map(|(_, right)| right));
    }
    nodes
}

fn check_node<W: Words>(summary: &LeafSummary<'_, W>, level: u8) -> Result<(), String> {
    let at = || {
        format!(
            "node of level {level} from {:?} to {:?}",
            summary.low, summary.high
        )
    };
    if summary.node.level() != level {
        return Err(format!("{}: it says level {}", at(), summary.node.level()));
    }
    if summary.node.latch.try_latch_now().is_none() {
        return Err(format!("{}: latched or obsolete", at()));
    }
    match (summary.low, summary.high) {
        (Some(low), Some(high)) if low >= high => Err(format!("{}: fences do not ascend", at())),
        _ => Ok(()),
    }
}

/// Nodes with their low fences.
type Children<'g, W> = Vec<(Option<W>, NodePtr<'g, W>)>;

/// Returns the children of a node with their low fences.
fn children<'g, W: Words>(
    summary: &LeafSummary<'g, W>,
    inner: &Inner<W>,
    guard: &'g Guard,
) -> Result<Children<'g, W>, String> {
    let children: Vec<_> = (0..=inner.header().len())
        .map_while(|place| inner.child(place, guard))
        .map(|(separator, child)| (separator.or(summary.low), child))
        .collect();
    if children.len() != inner.header().len() + 1 {
        return Err(format!("inner node from {:?}: a child is missing", summary.low));
    }
    let ascends = children.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let ends_below = summary.high.is_none() || children.last().is_some_and(|last| last.0 < summary.high);
    if ascends && ends_below {
        Ok(children)
    } else {
        Err(format!(
            "inner node from {:?}: separators do not ascend within its fences",
            summary.low
        ))
    }
}
