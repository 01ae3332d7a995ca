//! Deleting entries of a run in place.

use super::RunOptions;
use super::page::{PageHeader, RunPage};
use super::shape::Shape;
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use bedload_pages::{Error, PageId, Result};

/// Marks entries of leaves of runs as deleted, whichever run a leaf belongs to: what a vacuum does.
/// Nothing moves, so the page never needs more room than it had; the entries are left out when the
/// run is merged.
#[derive(Debug, Clone)]
pub struct DeleteInRun<L> {
    shape: Shape<L>,
}

impl<L: RowLayout> DeleteInRun<L> {
    /// For runs of this order, layout and settings, on pages of `payload_len` bytes.
    pub fn new(order: &impl KeyOrder, layout: L, config: RunOptions, payload_len: usize) -> Self {
        Self {
            shape: Shape::new(layout, order, payload_len, config.ties),
        }
    }

    /// Marks every entry whose tie `is_dead`, but for tombstones, which still have older entries to
    /// hide; returns how many were marked. A page that is not a leaf of a run is left alone.
    ///
    /// # Errors
    ///
    /// The page says that it is a leaf of a run, and is damaged.
    pub fn in_page(&self, id: PageId, page: &mut [u8], is_dead: &mut dyn FnMut(u64) -> bool) -> Result<u64> {
        let Some(PageHeader { level: 0, run }) = PageHeader::read(page) else {
            return Ok(0);
        };
        let parsed = RunPage::parse(page, &self.shape, id, &run, 0)?;
        let dead: Vec<usize> = (0..parsed.count())
            .filter(|&index| !parsed.is_deleted(index) && !parsed.is_tombstone(index))
            .filter(|&index| is_dead(parsed.tie(index)))
            .collect();
        let map = parsed.deleted_at();
        for &index in &dead {
            let byte = page.get_mut(map + index / 8).ok_or(Error::Corrupt {
                page: id,
                reason: "its columns reach out of it",
            })?;
            *byte |= 1 << (index % 8);
        }
        Ok(dead.len() as u64)
    }

    /// Whether a page is a leaf of a run, all of whose entries are deleted.
    pub(crate) fn is_emptied(&self, id: PageId, page: &[u8]) -> bool {
        let Some(PageHeader { level: 0, run }) = PageHeader::read(page) else {
            return false;
        };
        RunPage::parse(page, &self.shape, id, &run, 0)
            .is_ok_and(|parsed| (0..parsed.count()).all(|index| parsed.is_deleted(index)))
    }
}
