//! The node at the top of a run, as a store remembers it.

use std::sync::Arc;

use super::builder::ChildRow;
use super::page::RunPage;
use super::reader::child_at;
use bedload_pages::{Error, PageId, Result};

/// The most children of a node that a store is to remember.
const TOP_MAX: usize = 1024;

/// The node at the top, of an order whose prefixes are exact: the prefixes of its entries, their
/// ties, their children.
pub(super) struct Top<'t>(pub(super) &'t [u64]);

impl Top<'_> {
    /// Copies a node for the store to remember; returns `None` if the node is large, or a child of
    /// it has only dead entries.
    pub(super) fn of(page: &RunPage<'_, ChildRow>, id: PageId) -> Option<Arc<[u64]>> {
        let slots = 0..page.count();
        if slots.end > TOP_MAX || slots.clone().any(|slot| page.is_dead(slot)) {
            return None;
        }
        let mut top: Vec<u64> = slots.clone().map(|slot| page.prefix(slot)).collect();
        top.extend(slots.clone().map(|slot| page.tie(slot)));
        for slot in slots {
            // The cursor that reaches the damage reports it.
            top.push(child_at(page, id, slot).ok()?.get().into());
        }
        Some(top.into())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len() / 3
    }

    /// How many entries lie before one, or at it if such an entry counts.
    pub(super) fn rank(&self, (prefix, tie): (u64, u64), counts_equal: bool) -> usize {
        let (prefixes, rest) = self.0.split_at(self.count());
        let (mut low, mut high) = (0, prefixes.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let order = (prefixes[middle], rest[middle]).cmp(&(prefix, tie));
            if order.is_lt() || (counts_equal && order.is_eq()) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn child(&self, slot: usize, page: PageId) -> Result<PageId> {
        let child = self.0.get(2 * self.count() + slot);
        child
            .and_then(|&child| PageId::new(u32::try_from(child).ok()?))
            .ok_or(Error::Corrupt {
                page,
                reason: "it names a child that it cannot have",
            })
    }
}
