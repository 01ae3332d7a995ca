//! Reading nodes one by one, apart from their tree: for what damage has left of it.

use super::entry_ref::LeafSlice;
use super::node;
use super::node::{Branch, Node, level_of};
use super::options::BPlusTreeOptions;
use super::shape::{ChildRow, Shape, shapes};
use crate::entry::RowLayout;
use crate::key_order::KeyOrder;
use bedload_pages::{PageId, Result};

/// The root of the tree that the node on a page says it belongs to; none if it holds no node.
#[must_use]
pub fn tree_of(page: &[u8]) -> Option<PageId> {
    node::tree_of(page)
}

/// Reads single nodes of a tree whose way there may be damaged.
///
/// Every node names its tree, and every leaf its right neighbour and the fence between the two. So whatever pages
/// are still whole can be told apart by tree, put in order, and the gaps between them named.
///
/// ```
/// use bedload_trees::bplus_tree::{BPlusTree, BPlusTreeOptions, NodeReader, tree_of};
/// use bedload_pages::{HeapPages, PageRead};
/// use bedload_trees::{Entry, NoRow, Row, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(4096);
/// let config = BPlusTreeOptions::new().max_entries(4);
/// let tree = BPlusTree::create(&pages, U64Order, NoRow, config.clone())?;
/// for key in 0..100_u64 {
///     tree.insert(Entry { key: &U64Order::key(key), tie: 0, row: Row::default() })?;
/// }
///
/// let reader = NodeReader::new(tree.root(), pages.payload_len(), U64Order, NoRow, &config)?;
/// let mut entries = 0;
/// for page in tree.verify()?.pages {
///     let bytes = pages.read(page)?;
///     assert_eq!(tree_of(&bytes), Some(tree.root()));
///     if reader.level(page, &bytes)? == 0 {
///         entries += reader.leaf(page, &bytes)?.entries().len();
///     }
/// }
/// assert_eq!(entries, 100);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NodeReader<O, L> {
    order: O,
    leaf: Shape<L>,
    branch: Shape<ChildRow>,
}

impl<O: KeyOrder, L: RowLayout> NodeReader<O, L> {
    /// A reader of the nodes of the tree whose root is page `root`, with the order, layout and settings that the
    /// tree was created with.
    ///
    /// # Errors
    ///
    /// No tree of this layout can stand on pages of `payload_len` bytes.
    pub fn new(
        root: PageId,
        payload_len: usize,
        order: O,
        layout: L,
        config: &BPlusTreeOptions,
    ) -> Result<Self> {
        let (leaf, branch) = shapes(payload_len, &order, layout, config)?;
        Ok(Self {
            order,
            leaf: leaf.of_tree(root),
            branch: branch.of_tree(root),
        })
    }

    /// The level of the node on a page, 0 for a leaf.
    ///
    /// # Errors
    ///
    /// There is no node on it.
    pub fn level(&self, id: PageId, page: &[u8]) -> Result<u8> {
        level_of(page, id)
    }

    /// The leaf on a page.
    ///
    /// # Errors
    ///
    /// There is none, or none of this tree, or its bytes contradict one another.
    pub fn leaf<'r>(&'r self, id: PageId, page: &'r [u8]) -> Result<Leaf<'r, O, L>> {
        let node = Node::parse(page, &self.leaf, id, 0)?;
        node.check_slots(0..node.count())?;
        Ok(Leaf {
            order: &self.order,
            node,
        })
    }

    /// The first child of the branch on a page.
    ///
    /// # Errors
    ///
    /// As for [`leaf`](Self::leaf).
    pub fn first_child(&self, id: PageId, page: &[u8]) -> Result<PageId> {
        Branch::parse(page, &self.branch, id, level_of(page, id)?)?.child(0)
    }
}

/// A leaf read by itself.
#[derive(Debug)]
pub struct Leaf<'r, O, L> {
    order: &'r O,
    node: Node<'r, L>,
}

impl<'r, O: KeyOrder, L: RowLayout> Leaf<'r, O, L> {
    /// Its entries.
    #[must_use]
    pub fn entries(&self) -> LeafSlice<'r, O, L> {
        LeafSlice::new(self.order, self.node, 0..self.node.count())
    }

    /// Its right neighbour, and the prefix of the key at which that begins; none for the last leaf of a tree.
    #[must_use]
    pub fn right(&self) -> Option<(PageId, u64)> {
        Some((self.node.right()?, self.node.high()?.prefix))
    }
}
