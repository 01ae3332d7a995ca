//! The tree as a value: creating, opening, looking up.

use std::fmt;

use super::assemble::Sequence;
use super::edge::RightEdge;
use super::entry_ref::{EntryRef, OwnedRow};
use super::fresh::Fresh;
use super::item::EntryItem;
use super::node::{Frame, Node, level_of};
use super::options::BPlusTreeOptions;
use super::search::DescentTarget;
use super::shape::{ChildRow, Shape, shapes};
use crate::entry::{Entry, Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::Point;
use bedload_pages::{Batch, Error, PageId, PageRead, PageStore, Result};

/// An ordered map from (key, tie) to rows, on the pages of a store.
///
/// `S` is the store, a reference to it, or an [`Arc`](std::sync::Arc) of it. A store that can only
/// be read, such as a snapshot, gives a tree that can only be read. All operations take `&self` and
/// may run concurrently, from this value or from others opened on the same root; each is atomic
/// where it says so.
///
/// See the [module](super) for how it works.
///
/// ```
/// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions};
/// use bedload_pages::HeapPages;
/// use bedload_trees::{Entry, FixedRow, Row, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(8192);
/// let tree = BPlusTree::create(&pages, U64Order, FixedRow::<8>, BPlusTreeOptions::new().ties(false))?;
/// for key in 0..1000_u64 {
///     let value = (key * key).to_le_bytes();
///     tree.insert(Entry { key: &U64Order::key(key), tie: 0, row: Row { fixed: &value, variable: &[] } })?;
/// }
/// let square = tree.get_with(&U64Order::key(30), 0, |entry| entry.fixed(0).to_vec())?;
/// assert_eq!(square, Some(900_u64.to_le_bytes().to_vec()));
/// assert!(tree.remove(&U64Order::key(30), 0)?);
/// assert!(tree.get(&U64Order::key(30), 0)?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct BPlusTree<O, L, S> {
    pub(super) store: S,
    pub(super) root: PageId,
    pub(super) order: O,
    pub(super) leaf: Shape<L>,
    pub(super) branch: Shape<ChildRow>,
    pub(super) config: BPlusTreeOptions,
    pub(super) edge: RightEdge,
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BPlusTree<O, L, S> {
    /// The tree whose root is page `root`. Order, layout and [`BPlusTreeOptions::ties`] must be
    /// those it was created with; what of them pages can tell is checked as they are read.
    ///
    /// # Errors
    ///
    /// The root cannot be read, or is not the root of such a tree.
    pub fn open(store: S, root: PageId, order: O, layout: L, config: BPlusTreeOptions) -> Result<Self> {
        let (leaf, branch) = shapes(store.payload_len(), &order, layout, &config)?;
        let (leaf, branch) = (leaf.of_tree(root), branch.of_tree(root));
        let has_fence = {
            let page = store.read(root)?;
            match level_of(&page, root)? {
                0 => Node::parse(&page, &leaf, root, 0)?.high().is_some(),
                level => Node::parse(&page, &branch, root, level)?.high().is_some(),
            }
        };
        if has_fence {
            return Err(Error::Corrupt {
                page: root,
                reason: "it has a high fence, and so is not a root",
            });
        }
        Ok(Self {
            store,
            root,
            order,
            leaf,
            branch,
            config,
            edge: RightEdge::default(),
        })
    }

    /// The page that names the tree, for life.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The store that keeps its pages.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The order of its keys.
    pub fn order(&self) -> &O {
        &self.order
    }

    /// The columns of its rows.
    pub fn layout(&self) -> &L {
        &self.leaf.layout
    }

    /// The row of an entry, copied out. O(log n) pages.
    ///
    /// # Errors
    ///
    /// The key has not the order's width, the store failed, or a page on the way is damaged.
    pub fn get(&self, key: &[u8], tie: u64) -> Result<Option<OwnedRow>> {
        self.get_with(key, tie, |entry| entry.to_owned_row())
    }

    /// Shows `view` an entry in its page, and returns what that returns. O(log n) pages, and no
    /// allocation.
    ///
    /// The page is latched meanwhile: `view` must not use the tree.
    ///
    /// # Errors
    ///
    /// As for [`BPlusTree::get`].
    pub fn get_with<R>(
        &self,
        key: &[u8],
        tie: u64,
        view: impl FnOnce(EntryRef<'_, O, L>) -> R,
    ) -> Result<Option<R>> {
        let point = Point::new(&self.order, Position { key, tie })?;
        let leaf = self.descend(DescentTarget::At(point), None, |_, _| Ok(()))?;
        let node = leaf.node(&self.leaf);
        match node.find(&self.order, 0, &point)? {
            (index, true) => Ok(Some(view(EntryRef::new(&self.order, node, index)?))),
            _ => Ok(None),
        }
    }

    /// The entry as an item of a leaf, if it has the tree's shape and fits.
    pub(super) fn item<'e>(&self, entry: Entry<'e>) -> Result<EntryItem<'e>> {
        let position = Position {
            key: entry.key,
            tie: entry.tie,
        };
        position.check_width(&self.order)?;
        self.leaf.check(&entry)?;
        if self.leaf.has_heap() {
            let variable: usize = entry.row.variable.iter().map(|bytes| bytes.len()).sum();
            let key = if self.leaf.keys { entry.key.len() } else { 0 };
            let len_bytes = (self.leaf.entry_len + variable + key).max(self.branch.entry_len + key);
            let limit_bytes = self.leaf.entry_len_max();
            if len_bytes > limit_bytes {
                return Err(Error::EntryTooLarge {
                    len_bytes,
                    limit_bytes,
                });
            }
        }
        Ok(EntryItem::new(&self.order, entry))
    }
}

impl<O: KeyOrder, L: RowLayout, S: PageStore> BPlusTree<O, L, S> {
    /// A new, empty tree. [`BPlusTree::root`] tells the page by which it can be opened again.
    ///
    /// # Errors
    ///
    /// The store failed, or not even four rows of this layout fit on one of its pages.
    pub fn create(store: S, order: O, layout: L, config: BPlusTreeOptions) -> Result<Self> {
        let (leaf, branch) = shapes(store.payload_len(), &order, layout, &config)?;
        let (root, leaf, branch) = {
            let mut fresh = Fresh::new(&store);
            let root = fresh.reserve()?;
            let (leaf, branch) = (leaf.of_tree(root.id), branch.of_tree(root.id));
            let frame = Frame {
                level: 0,
                generation: root.generation,
                right: None,
                high: None,
            };
            let batch = store.batch(&[root.id])?;
            batch.commit(|pages| Sequence::new(&leaf).write(pages[0], &frame));
            fresh.written();
            (root.id, leaf, branch)
        };
        Ok(Self {
            store,
            root,
            order,
            leaf,
            branch,
            config,
            edge: RightEdge::default(),
        })
    }
}

impl<O, L, S> fmt::Debug for BPlusTree<O, L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BPlusTree")
            .field("root", &self.root)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
