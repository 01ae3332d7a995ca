//! A B+-tree on the pages of a store, shared by many readers and writers: a B-link tree after
//! Lehman and Yao ("Efficient Locking for Concurrent Operations on B-Trees", TODS 6(4), 1981).
//!
//! Leaves hold their entries column by column, in place: a lookup searches a column of 8-byte
//! prefixes, an insert shifts within the columns, a scan copies slices of them. Where the order's
//! prefixes are exact, keys are nothing but prefixes.
//!
//! # Shape
//!
//! A node covers the points from its low bound, which its parent knows, up to its high fence, which
//! it carries itself, and links to its right neighbour. Branches hold pivots: the low bounds of
//! their children. How the bytes lie is told in `node.rs`.
//!
//! 1. A tree is named by one page, its root, which never moves: a root that splits moves its
//!    entries into two new children, in one batch, and one that has a single child left takes that
//!    child's entries.
//! 2. The nodes of one level cover all points, from left to right, without gap or overlap. The
//!    rightmost has no high fence.
//! 3. A node is a child of the branch that covers it, or it is *pending*: made by a split that its
//!    parent does not know yet, and reached by the right link of its left neighbour.
//! 4. Entries lie within the bounds of their leaf, and ascend strictly by (key, tie).
//!
//! Everything but 3's pending nodes is as in a B+-tree. [`BPlusTree::verify`] checks all of it.
//!
//! # Changes
//!
//! 5. A split writes the node and its new right siblings in one batch, then tells the parent of
//!    each sibling in a batch of its own. If it does not come to that, for a crash or an error, the
//!    next writer who meets the pending node does it. So an operation is done when its first batch
//!    has committed, and fails before it or not at all.
//! 6. A merge moves a node's entries into its left neighbour, a child of the same parent, takes its
//!    pivot out of the parent and marks its page as unlinked, all in one batch; then the page is
//!    retired.
//! 7. No batch has more than four pages.
//!
//! # Threads
//!
//! 8. Readers couple latches: they hold a node shared until they have the next one, its child or
//!    right neighbour. Writers do the same down to the parent of the node that they want, which
//!    they hold shared until they have latched the node itself exclusively. A page is retired only
//!    while its parent and its left neighbour are latched exclusively; so nobody ever waits for a
//!    page that is not part of the tree any more.
//! 9. Latches are taken from parent to child and from left to right, and new pages last. A thread
//!    that holds a node exclusively waits only for nodes below it or to its right. So there is no
//!    deadlock.
//! 10. A handle latches its remembered right edge without the parent. It is a hint: the generation
//!     shows whether the page has begun another life, its kind whether it has been unlinked.
//! 11. No latch is held while a caller's source is asked for entries, nor between two calls of a
//!     cursor.
//!
//! # Departures from Lehman and Yao
//!
//! Their readers latch nothing, as a page is read in one piece and is never freed; ours couple
//! shared latches, because pages are recycled at once. Their writers climb by a stack of the nodes
//! they passed; ours descend again, since a split is rare and the stack may be stale. They do not
//! merge.
//!
//! # Damage
//!
//! Pages come from files, and may hold anything. A header is checked whenever a page is latched;
//! slots are checked before what they point to is used. On its way a reader requires levels to fall
//! and fences to rise, so it arrives or fails. The worst that damage brings about is
//! [`Error::Corrupt`](bedload_pages::Error::Corrupt), or a wrong answer where a checksum would have
//! been needed to notice.

mod assemble;
mod cursor;
mod descend;
mod edge;
mod edit;
mod entry_ref;
mod fresh;
mod insert;
mod item;
mod merge;
mod node;
mod options;
mod remove;
mod search;
mod shape;
mod sorted;
mod split;
mod tree;
mod verify;

pub use cursor::Cursor;
pub use entry_ref::{EntryRef, LeafSlice, OwnedEntry, OwnedRow};
pub use node::tree_of;
pub use options::BPlusTreeOptions;
pub use tree::BPlusTree;
pub use verify::{BPlusTreeProblem, Report};
