//! The tree as a value: creating and opening it, and what its nodes have room for.

use std::fmt;

use super::meta::{Form, Meta};
use super::node::{CHILD_LEN, Child, HEADER_LEN, Node, NodeView, RUN_LEN};
use super::options::BeTreeOptions;
use super::runs::{Runs, TreeRun};
use crate::entry::{Position, RowLayout};
use crate::key_order::KeyOrder;
use crate::point::PointBuf;
use crate::run::{Run, RunReader};
use bedload_pages::{Batch, Error, PageId, PageRead, PageStore, Result};

/// The fewest children for whose longest pivots a node has room.
const CHILDREN_MIN: usize = 8;

/// An ordered map from (key, tie) to rows that takes its changes in sorted batches, on the pages of
/// a store.
///
/// `S` is the store, a reference to it, or an [`Arc`](std::sync::Arc) of it; one that can only be
/// read gives a tree that can only be read. All operations take `&self` and may run concurrently,
/// from this value or from others opened on the same meta page.
///
/// Nothing is pushed down or merged unless somebody has a [`Maintainer`](super::Maintainer) work. See the
/// [module](super) for how it works.
///
/// ```
/// use std::ops::Bound;
/// use bedload_trees::be_tree::{BeTree, BeTreeOptions, Maintainer, Progress};
/// use bedload_pages::HeapPages;
/// use bedload_trees::{Entry, NoRow, Row, U64Order};
///
/// # fn main() -> bedload_pages::Result<()> {
/// let pages = HeapPages::new(8192);
/// let tree = BeTree::create(&pages, U64Order, NoRow, BeTreeOptions::new().shrunk(64))?;
/// for round in 0..50_u64 {
///     let mut batch = tree.batch()?;
///     for number in 0..1000 {
///         batch.put(Entry { key: &U64Order::key(50 * number + round), tie: 0, row: Row::default() })?;
///     }
///     batch.publish()?;
///     while tree.maintainer().work(1000)? == Progress::Paused {}
/// }
/// let mut batch = tree.batch()?;
/// batch.remove(&U64Order::key(7), 0)?;
/// batch.publish()?;
///
/// assert!(tree.get_with(&U64Order::key(6), 0, |_| ())?.is_some());
/// assert!(tree.get_with(&U64Order::key(7), 0, |_| ())?.is_none());
/// let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded)?;
/// let mut count = 0;
/// while cursor.next_entry()?.is_some() {
///     count += 1;
/// }
/// assert_eq!(count, 49_999);
/// # Ok(())
/// # }
/// ```
pub struct BeTree<O, L, S> {
    pub(super) store: S,
    pub(super) meta: PageId,
    /// Never moves, and so needs no check.
    pub(super) root: PageId,
    pub(super) order: O,
    pub(super) layout: L,
    pub(super) config: BeTreeOptions,
}

impl<O: KeyOrder, L: Runs<O>, S: PageRead> BeTree<O, L, S> {
    /// The tree whose meta page is `meta`. Order, layout and [`BeTreeOptions::ties`] must be those
    /// it was created with; what of them pages can tell is checked.
    ///
    /// # Errors
    ///
    /// The meta page or the root cannot be read, or is not that of such a tree; the settings ask
    /// for more room than a page has.
    pub fn open(store: S, meta: PageId, order: O, layout: L, config: BeTreeOptions) -> Result<Self> {
        check_room(&config, &order, store.payload_len())?;
        let found = Meta::decode(&store.read(meta)?, meta)?;
        if !found.shape.fits(&order, &layout, config.has_ties()) {
            let reason = "it was created with keys, rows or ties of another kind";
            return Err(Error::Shape { reason });
        }
        let tree = Self {
            store,
            meta,
            root: found.root,
            order,
            layout,
            config,
        };
        NodeView::parse(&tree.store.read(tree.root)?, tree.root)?;
        Ok(tree)
    }

    /// The tree with a meta page and a root that were told by one that was [opened](Self::open)
    /// before, with the same order, layout and settings. Reads no page.
    ///
    /// ```
    /// use bedload_pages::HeapPages;
    /// use bedload_trees::be_tree::{BeTree, BeTreeOptions};
    /// use bedload_trees::{NoRow, U64Order};
    ///
    /// # fn main() -> bedload_pages::Result<()> {
    /// let pages = HeapPages::new(8192);
    /// let settings = BeTreeOptions::new();
    /// let tree = BeTree::create(&pages, U64Order, NoRow, settings)?;
    /// let again = BeTree::reopen(&pages, (tree.meta(), tree.root()), U64Order, NoRow, settings);
    /// assert!(again.get_with(&U64Order::key(7), 0, |_| ())?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reopen(
        store: S,
        (meta, root): (PageId, PageId),
        order: O,
        layout: L,
        config: BeTreeOptions,
    ) -> Self {
        Self {
            store,
            meta,
            root,
            order,
            layout,
            config,
        }
    }

    /// The page that names the tree, for life.
    pub fn meta(&self) -> PageId {
        self.meta
    }

    /// The root's page, for life.
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
        &self.layout
    }

    /// How it batches, pushes down and merges.
    pub fn config(&self) -> &BeTreeOptions {
        &self.config
    }

    /// The most bytes a key may have in a tree over pages of `payload_len` bytes: a node must have
    /// room for a few pivots. A page of a run may take less.
    pub fn key_len_max(payload_len: usize, order: &O, config: &BeTreeOptions) -> usize {
        if order.prefix_is_exact() {
            usize::MAX
        } else {
            (config.children_room(payload_len) / CHILDREN_MIN).saturating_sub(CHILD_LEN)
        }
    }

    pub(super) fn run(&self, run: Run) -> TreeRun<'_, O, S> {
        TreeRun {
            store: &self.store,
            order: &self.order,
            options: self.config.run,
            run,
        }
    }

    pub(super) fn node(&self, id: PageId) -> Result<Node> {
        Node::decode(&self.store.read(id)?, id)
    }

    /// The key of a point, made in `scratch` where pages keep no key bytes.
    pub(super) fn position<'k>(&self, point: &'k PointBuf, scratch: &'k mut Vec<u8>) -> Position<'k> {
        let key = if self.order.prefix_is_exact() {
            self.order.key_of_prefix(point.prefix, scratch);
            scratch
        } else {
            &point.key
        };
        Position { key, tie: point.tie }
    }

    /// The point of a key, without its bytes where the prefix says it all.
    pub(super) fn point_buf(&self, key: &[u8], tie: u64) -> PointBuf {
        PointBuf {
            prefix: self.order.prefix(key),
            tie,
            key: if self.order.prefix_is_exact() {
                Vec::new()
            } else {
                key.to_vec()
            },
        }
    }

    /// Bytes of the node that runs leave to its children, including those that splits of the
    /// children may add: room is kept for pivots as long as the node's longest.
    fn kept_for_children(&self, node: &Node) -> usize {
        let room = self.config.children_room(self.store.payload_len());
        let children = 2 * self.config.fan_out + CHILDREN_MIN;
        match self.child_len(node) {
            _ if node.level == 0 => 0,
            Some(child_len) => room.min(children * child_len),
            None => room,
        }
    }

    /// Bytes that a child of the node takes, if its pivot is the longest; none if there is no pivot
    /// yet to tell.
    pub(super) fn child_len(&self, node: &Node) -> Option<usize> {
        if self.order.prefix_is_exact() {
            return Some(CHILD_LEN);
        }
        // The first one is not looked at.
        let pivots = node.children.iter().skip(1).map(|child| child.pivot.key.len());
        pivots.max().map(|longest| CHILD_LEN + longest)
    }

    /// The most pages of a run.
    pub(super) fn run_pages_max(&self) -> u64 {
        self.layout.pages_max(&self.store).into()
    }

    /// Whether the node has room for another run.
    pub(super) fn has_room_for_run(&self, node: &Node) -> bool {
        self.room_for_runs(node) > 0
    }

    /// How many more runs the node has room for.
    pub(super) fn room_for_runs(&self, node: &Node) -> usize {
        let children_len = node.children_len().max(self.kept_for_children(node));
        let taken = HEADER_LEN + node.runs.len() * RUN_LEN + children_len;
        self.store.payload_len().saturating_sub(taken) / RUN_LEN
    }

    /// Bytes that the node has for further children, however many runs others add to it meanwhile.
    pub(super) fn kept_for_more_children(&self, node: &Node) -> usize {
        let kept = self.kept_for_children(node).saturating_sub(node.children_len());
        kept.min(self.store.payload_len().saturating_sub(node.len()))
    }

    /// How many more children of pivots as long as `key_len` the node has room for.
    pub(super) fn room_for_children(&self, node: &Node, key_len: usize) -> usize {
        let payload_len = self.store.payload_len();
        let room = self
            .config
            .children_room(payload_len)
            .saturating_sub(node.children_len())
            .min(payload_len.saturating_sub(node.len()));
        room / (CHILD_LEN + key_len)
    }

    /// Whether the node has so many children that it is to be split.
    pub(super) fn has_many_children(&self, node: &Node) -> bool {
        let room = self.config.children_room(self.store.payload_len());
        node.children.len() > self.config.fan_out
            || (node.children.len() >= CHILDREN_MIN / 2 && node.children_len() > room / 2)
    }
}

impl<O: KeyOrder, L: RowLayout, S: PageRead> BeTree<O, L, S> {
    pub(super) fn reader(&self, run: Run) -> RunReader<O, L, &S> {
        RunReader::new(
            &self.store,
            self.order.clone(),
            self.layout.clone(),
            self.config.run,
            run,
        )
    }
}

impl<O: KeyOrder, L: Runs<O>, S: PageStore> BeTree<O, L, S> {
    /// A new, empty tree. [`BeTree::meta`] tells the page by which it can be opened again, which is
    /// reserved first.
    ///
    /// # Errors
    ///
    /// The store failed, or the settings ask for more room than a page has.
    pub fn create(store: S, order: O, layout: L, config: BeTreeOptions) -> Result<Self> {
        check_room(&config, &order, store.payload_len())?;
        let meta = store.reserve()?;
        let (root, leaf) = (store.reserve()?, store.reserve()?);
        let nodes = [
            Node {
                level: 1,
                generation: root.generation,
                runs: Vec::new(),
                children: vec![Child {
                    page: leaf.id,
                    pushed: 0,
                    pending: 0,
                    pivot: PointBuf::default(),
                }],
            },
            Node::leaf(leaf.generation, Vec::new()),
        ];
        let named = Meta {
            root: root.id,
            generation: meta.generation,
            cycle: 0,
            shape: Form::new(&order, layout.form(), config.has_ties()),
        };
        let batch = store.batch(&[root.id, leaf.id, meta.id])?;
        batch.commit(|pages| {
            nodes[0].encode(pages[0]);
            nodes[1].encode(pages[1]);
            named.encode(pages[2]);
        });
        Ok(Self {
            store,
            meta: meta.id,
            root: root.id,
            order,
            layout,
            config,
        })
    }

    /// The vacuum cycle begun last. A run written before the next cycle begins is that clean: it
    /// either lacks the entries that die later, or is searched for them.
    pub(super) fn cycle(&self) -> Result<u64> {
        Ok(Meta::decode(&self.store.read(self.meta)?, self.meta)?.cycle)
    }

    /// Retires the pages of runs that no node names any more.
    pub(super) fn retire(&self, runs: &[Run]) -> Result<()> {
        for &run in runs {
            self.store.retire(&self.layout.pages(&self.run(run))?);
        }
        Ok(())
    }
}

/// Fails if a node has no room for what the settings demand.
fn check_room(config: &BeTreeOptions, order: &impl KeyOrder, payload_len: usize) -> Result<()> {
    // Pivots of sixteen bytes are the least that is of use.
    let pivot = if order.prefix_is_exact() { 0 } else { 16 };
    let least = CHILDREN_MIN * (CHILD_LEN + pivot);
    if config.children_room(payload_len) < least {
        return Err(Error::EntryTooLarge {
            len_bytes: HEADER_LEN + config.reserved_runs() * RUN_LEN + least,
            limit_bytes: payload_len,
        });
    }
    Ok(())
}

impl BeTreeOptions {
    /// Bytes of a node that its children may take.
    fn children_room(&self, payload_len: usize) -> usize {
        payload_len.saturating_sub(HEADER_LEN + self.reserved_runs() * RUN_LEN)
    }
}

impl<O, L, S> fmt::Debug for BeTree<O, L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeTree")
            .field("meta", &self.meta)
            .field("root", &self.root)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
