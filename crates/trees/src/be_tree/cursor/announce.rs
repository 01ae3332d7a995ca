//! Announces the pages that a cursor reads first in an interval, so that a store on a disk fetches
//! them at the same time: a filter of each run for a lookup, then a leaf of each.

use std::ops::Bound;

use super::Cursor;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use crate::run::{Run, RunEdge};
use bedload_pages::{PageId, PageRead};

impl<O: KeyOrder, L: RowLayout, S: PageRead> Cursor<'_, O, L, S> {
    /// Announces the filter pages of runs to be asked, and for runs without a filter the first page
    /// to be read; returns these pages.
    pub(super) fn announce_filters(
        &self,
        runs: impl Iterator<Item = Run>,
        hash: u64,
        bounds: (&Bound<PointBuf>, &Bound<PointBuf>),
    ) -> Vec<PageId> {
        let mut pages = Vec::new();
        for run in runs {
            if run.filter.is_some() {
                pages.extend(run.first_page_of_filter(&self.tree.store, hash));
            } else if let Ok(mut cursor) = self.run_cursor(run, bounds) {
                match cursor.first_node() {
                    Some(node) => pages.push(node),
                    // A failure is reported when the run itself is read.
                    None => drop(cursor.find_leaves(&mut pages)),
                }
            }
        }
        self.tree.store.read_ahead(&pages);
        pages
    }

    /// Announces the leaves that are read first: of each run that may have an entry where the
    /// cursor begins. Those that are announced already are left out.
    pub(super) fn announce_leaves(&mut self, begin: &Bound<PointBuf>, announced: &[PageId]) {
        let (Bound::Included(begin) | Bound::Excluded(begin)) = begin else {
            return;
        };
        let may_begin = |head: &RunEdge| {
            if self.is_ascending {
                head.prefix <= begin.prefix
            } else {
                head.prefix >= begin.prefix
            }
        };
        let begun = self.heads.iter().map(may_begin);
        let mut begun: Vec<_> = (self.sources.iter_mut().zip(begun))
            .filter_map(|(source, may_begin)| may_begin.then_some(&mut source.cursor))
            .collect();
        // There is nothing to be read beside one leaf.
        if begun.len() < 2 {
            return;
        }
        let store = &self.tree.store;
        let mut nodes: Vec<_> = begun.iter().filter_map(|cursor| cursor.first_node()).collect();
        nodes.retain(|node| !announced.contains(node));
        store.read_ahead(&nodes);
        let mut leaves = Vec::new();
        for cursor in &mut begun {
            // A failure is reported when the run itself is read.
            let _ = cursor.find_leaves(&mut leaves);
        }
        leaves.retain(|leaf| !announced.contains(leaf));
        store.read_ahead(&leaves);
    }
}
