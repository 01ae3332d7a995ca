//! The SB-tree (Jung, Hwang, Na, Lee, Kim, "SB-Tree: A B+-Tree for In-Memory Time Series Databases
//! With Segmented Block", IEEE Access 13, 2025).
//!
//! Keys above all earlier ones go to the *open segment*: a log for each thread that writes
//! ([`log`], [`segment`]). When a log is full the segment is *sealed*, the next one replaces it,
//! and the sealed one is *converted*, a step at a time, to sorted blocks ([`convert`], [`merge`],
//! [`block`]), which a search layer finds ([`search_layer`]). Late keys wait in a lane of their
//! thread, and go to the blocks many at a time ([`lanes`], [`classes`]).
//!
//! ```text
//!   keys   ├──────── blocks ────────┤ edge ├── sealed segment ──┤ floor ├── open segment ──▶
//!                                     ──▶ conversion raises it           sealing moves it up
//! ```
//!
//! # Rules
//!
//! 1. *Each key has one home at a time*: keys up to the edge belong to blocks, keys above the open
//!    segment's floor to it, those between to the sealed segment. Edge and floor only rise, so a
//!    key moves from a log to a block once, with its value.
//! 2. A sealed segment does not change. So an insert or removal below the floor, whose key no block
//!    covers yet, first has everything up to its key converted; a removal above the floor first has
//!    the open segment sealed.
//! 3. The edge is raised before a block covers the keys below it. A reader of a log checks the edge
//!    afterwards: if it lies below the keys read, no block covered them, and no thread could change
//!    them.
//! 4. One thread at a time has the *role* of sealing and converting, taken by try-lock. Threads
//!    wait for it only if they need a segment sealed or converted; readers of a log and appenders
//!    wait for the moment in which it is being closed ([`log`], rules 2 and 4).
//! 5. Memory of logs, nodes and blocks lasts as long as the index, and is reused only for the same
//!    type. So readers pin nothing and announce nothing; their reads count if a version is still
//!    valid: that of a segment's latch, or of a block's.
//! 6. *The order of one key from several threads*: a segment with one writer needs no stamps, as
//!    position is order. When a second writer comes, the segment is sealed, and the next is stamped
//!    ([`stamps`]), except for keys of classes that one thread writes ([`owners`]). Of each log the
//!    last entry counts, and of these the one with the greatest stamp. If an insert with a lesser
//!    stamp is counted afterwards, it began before the other was counted: it is as if it had been
//!    overwritten at once. Readers, who read one log after another, never see fewer entries of any
//!    log later, so the greatest stamp they see never falls.
//! 7. The last entries of a sealed segment are also put into the next one, in a log without a
//!    writer, if the same writers go on and there are several, or keys are disordered. This
//!    includes entries above the key for which it is sealed, as other writers went on meanwhile.
//!    The floor between the two segments lies below these entries: only keys at or below it belong
//!    to the sealed segment. It is the greatest key that belongs there, so that the edge is at the
//!    floor once all is converted: a key between the two would have no home.
//!
//! # Departures from the paper, and why
//!
//! - *Conversion is a merge in bounded steps that inserters share*, one at every 64th insert. In
//!   the paper one thread sorts a complete segment, which makes the 99.99th percentile of inserts
//!   its weak spot (§V-F).
//! - *No separate thread for the search layer*: the thread that appends a block updates it. A walk
//!   along the data layer is at most as long as the number of splits in progress.
//! - *A descent validates nothing*: fences in blocks decide, where the paper goes right by the next
//!   block's least key.
//! - *A log is two columns*, not pairs: it is searched while it is filled, by bisection, or by hash
//!   if its keys do not ascend ([`chains`]).
//! - *Stamps*: the paper does not say which of two threads' values for one key wins.
//! - *A segment takes entries over* from the previous one: the keys that other threads are about to
//!   insert when it is sealed lie a few entries back, as do those that arrive a little late, and
//!   would be late for blocks.
//! - *Late keys go to blocks a lane at a time*, where the paper descends for each: writers whose
//!   late keys fall into one block contend for it once per lane. Readers check one more word, and
//!   lanes if it says that there are any.
//! - *A block keeps the last late keys unsorted*, after the sorted ones, and *fills its right
//!   neighbour before it splits*.
//! - *A scan guesses the position of its entries* between two separators of a search node, so that
//!   they are prefetched together with the block's header.
//! - *Readers use outlines* of the nodes above blocks ([`outline`]), which take a third of the
//!   cache.

mod blocks;
mod data;
mod late;
mod options;
mod scan;
mod search;
mod segments;
mod tree;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use options::{SbTreeOptions, SbTreeWork};
pub use tree::SbTree;
