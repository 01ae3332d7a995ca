//! Loading an empty tree from the bottom up.

use super::assemble::{Piece, Sequence};
use super::item::{EntryItem, Item, Staging, child_bytes};
use super::node::{Frame, Node, level_of};
use super::shape::{ChildRow, Shape};
use super::sorted::Ascending;
use super::split::fence_between;
use super::tree::BPlusTree;
use crate::entry::{EntrySource, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::{Point, PointBuf};
use bedload_pages::{Batch, Error, PageId, PageStore, Reserved, Result, RunWriter};

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// Fills an empty tree with entries that ascend strictly by (key, tie); returns how many. Every page is written
    /// once, full up to the fill factor (SWARE, §IV-A), through the store's run writer; then one batch publishes
    /// all of them in the root. Until then the tree is empty, and may be used.
    ///
    /// Memory: about two pages a level.
    ///
    /// # Errors
    ///
    /// The tree is not empty, or is not any more when the entries are to be published; the source failed, or its
    /// entries do not ascend or have not the tree's shape; the store failed. The tree is as it was, and what was
    /// written is a leak until the next [sweep](PageStore::sweep).
    pub fn bulk_load(&self, source: &mut impl EntrySource) -> Result<u64> {
        let is_empty = {
            let page = self.store.read(self.root)?;
            level_of(&page, self.root)? == 0 && Node::parse(&page, &self.leaf, self.root, 0)?.count() == 0
        };
        if !is_empty {
            return Err(Error::NotEmpty);
        }
        let mut source = Ascending::new(source);
        let mut load = Load {
            tree: self,
            leaves: Level::new(&self.leaf, 0),
            branches: Vec::new(),
        };
        let loaded = load.run(&mut source);
        for reserved in load.unwritten() {
            self.store.release(reserved);
        }
        loaded
    }
}

/// The page of one level that is being filled.
struct Level<R> {
    shape: Shape<R>,
    level: u8,
    entries: Staging,
    /// The pivot of the page: the fence of the page before it.
    low: PointBuf,
    /// The page, reserved when the one before it was written; `None` while there is none before it.
    page: Option<Reserved>,
}

impl<R: RowLayout> Level<R> {
    fn new(shape: &Shape<R>, level: u8) -> Self {
        Self {
            shape: shape.clone(),
            level,
            entries: Staging::new(shape),
            low: PointBuf::default(),
            page: None,
        }
    }

    /// Whether one more entry fits.
    fn has_room(&self, heap_len: usize, percent: u8) -> bool {
        let count = self.entries.len() + 1;
        let heap_len = self.entries.heap_len() + heap_len;
        count == 1 || (self.shape.fits_within(count, heap_len, percent) && self.shape.fits(count, heap_len))
    }

    /// How many entries to write when `next` does not fit any more, and the fence behind them: all, or so many
    /// fewer that the fence fits too.
    fn cut_before(
        &self,
        next: &Point<'_>,
        fence_between: impl Fn(&Point<'_>, &Point<'_>) -> PointBuf,
    ) -> (usize, PointBuf) {
        let keys = self.shape.keys;
        let mut keep = self.entries.len();
        let mut right = *next;
        loop {
            let fence = fence_between(&self.entries.point(keep - 1, keys), &right);
            let heap_len = self.entries.heap_len_before(keep);
            if keep == 1 || self.shape.fits(keep, heap_len + fence.key.len()) {
                return (keep, fence);
            }
            keep -= 1;
            right = self.entries.point(keep, keys);
        }
    }

    fn write(
        &self,
        keep: usize,
        payload: &mut [u8],
        generation: u64,
        right: Option<PageId>,
        high: Option<Point<'_>>,
    ) {
        let mut sequence = Sequence::new(&self.shape);
        sequence.push(Piece::Staged(&self.entries, 0..keep));
        let frame = Frame {
            level: self.level,
            generation,
            right,
            high,
        };
        sequence.write(payload, &frame);
    }

    /// Writes the first entries to the page, with a right neighbour where there is a fence, and begins the next
    /// page with the others. Returns the page's pivot and its id.
    fn emit<W: RunWriter>(
        &mut self,
        writer: &mut W,
        keep: usize,
        fence: Option<&PointBuf>,
    ) -> Result<(PointBuf, PageId)> {
        if self.page.is_none() {
            self.page = Some(writer.reserve()?);
        }
        let next = match fence {
            Some(_) => Some(writer.reserve()?),
            None => None,
        };
        let right = next.as_ref().map(|next| next.id);
        let Some(page) = std::mem::replace(&mut self.page, next) else {
            unreachable!("a page was reserved above")
        };
        let mut payload = vec![0; self.shape.payload_len];
        self.write(
            keep,
            &mut payload,
            page.generation,
            right,
            fence.map(PointBuf::as_point),
        );
        let id = page.id;
        writer.write(page, &payload)?;
        self.entries.drop_front(keep);
        let low = std::mem::replace(&mut self.low, fence.cloned().unwrap_or_default());
        Ok((low, id))
    }
}

struct Load<'t, O, L, S> {
    tree: &'t BPlusTree<O, L, S>,
    leaves: Level<L>,
    /// From the leaves' parents up.
    branches: Vec<Level<ChildRow>>,
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> Load<'_, O, L, S> {
    fn run(&mut self, source: &mut Ascending<'_, impl EntrySource>) -> Result<u64> {
        let mut writer = self.tree.store.run_writer()?;
        let mut loaded = 0;
        while let Some(item) = source.next(self.tree)? {
            self.push_entry(&mut writer, &item)?;
            loaded += 1;
        }
        self.finish(writer)?;
        Ok(loaded)
    }

    /// The pages that a load which failed has reserved in vain.
    fn unwritten(self) -> impl Iterator<Item = Reserved> {
        let branches = self.branches.into_iter().filter_map(|branch| branch.page);
        self.leaves.page.into_iter().chain(branches)
    }

    fn push_entry(&mut self, writer: &mut impl RunWriter, item: &EntryItem<'_>) -> Result<()> {
        let tree = self.tree;
        if !self
            .leaves
            .has_room(item.heap_len(&tree.leaf), tree.config.fill_percent)
        {
            let (keep, fence) = self.leaves.cut_before(&item.point(), |left, right| {
                fence_between(&tree.order, left, right)
            });
            let (low, page) = self.leaves.emit(writer, keep, Some(&fence))?;
            self.push_child(writer, 0, &low, page)?;
        }
        self.leaves.entries.push(item);
        Ok(())
    }

    /// Adds a child to the branch level `index`.
    fn push_child(
        &mut self,
        writer: &mut impl RunWriter,
        index: usize,
        low: &PointBuf,
        child: PageId,
    ) -> Result<()> {
        let tree = self.tree;
        if index == self.branches.len() {
            let level = u8::try_from(index + 1).unwrap_or(u8::MAX);
            self.branches.push(Level::new(&tree.branch, level));
        }
        let child = child_bytes(child);
        let pivot = EntryItem::pivot(&tree.order, low.as_point(), &child);
        let branch = &mut self.branches[index];
        if !branch.has_room(pivot.heap_len(&tree.branch), tree.config.fill_percent) {
            let (keep, fence) = branch.cut_before(&low.as_point(), |_, right| right.to_buf());
            let (branch_low, page) = branch.emit(writer, keep, Some(&fence))?;
            self.push_child(writer, index + 1, &branch_low, page)?;
        }
        self.branches[index].entries.push(&pivot);
        Ok(())
    }

    /// Writes what is left of each level, from the leaves up. The level that has come to no page of its own is the
    /// root.
    fn finish<W: RunWriter>(&mut self, mut writer: W) -> Result<()> {
        if self.leaves.page.is_some() {
            let (low, page) = self.leaves.emit(&mut writer, self.leaves.entries.len(), None)?;
            self.push_child(&mut writer, 0, &low, page)?;
        }
        let mut index = 0;
        while let Some(branch) = self.branches.get_mut(index)
            && branch.page.is_some()
        {
            let (low, page) = branch.emit(&mut writer, branch.entries.len(), None)?;
            self.push_child(&mut writer, index + 1, &low, page)?;
            index += 1;
        }
        writer.finish()?;
        let tree = self.tree;
        let batch = tree.store.batch(&[tree.root])?;
        if level_of(batch.page(0), tree.root)? != 0 {
            return Err(Error::NotEmpty);
        }
        let root = Node::parse(batch.page(0), &tree.leaf, tree.root, 0)?;
        if root.count() > 0 {
            return Err(Error::NotEmpty);
        }
        let generation = root.generation();
        batch.commit(|pages| match self.branches.last() {
            Some(top) => top.write(top.entries.len(), pages[0], generation, None, None),
            None => self
                .leaves
                .write(self.leaves.entries.len(), pages[0], generation, None, None),
        });
        Ok(())
    }
}
