//! The SB-tree (Jung, Hwang, Na, Lee, Kim, "SB-Tree: A B+-Tree for In-Memory Time Series Databases With Segmented
//! Block", IEEE Access 13, 2025).
//!
//! Keys above all that came before go to the *open segment*: a log for each thread that writes ([`log`], [`segment`]).
//! When a log is full the segment is *sealed*, the next one stands in its place, and the sealed one is *converted*, a
//! step at a time, to sorted blocks ([`convert`], [`merge`], [`block`]), which a search layer leads to
//! ([`search_layer`]). Late keys wait in a lane of their thread, and go to the blocks many at a time ([`lanes`], [`classes`]).
//!
//! ```text
//!   keys   ├──────── blocks ────────┤ edge ├── sealed segment ──┤ floor ├── open segment ──▶
//!                                     ──▶ conversion raises it           sealing moves it up
//! ```
//!
//! # Rules
//!
//! 1. *Each key has one home at a time*: keys up to the edge belong to blocks, keys above the open segment's floor to it,
//!    those between to the sealed segment. Edge and floor only rise, so a key moves from a log to a block, once, with the
//!    value it has.
//! 2. A sealed segment does not change. So an insert or removal below the floor, whose key no block covers yet, has
//!    everything up to its key converted first; a removal above the floor has the open segment sealed before.
//! 3. The edge is raised before a block covers what lies below it. Who read a log looks at the edge afterwards: if it lies
//!    below what was read, no block covered that, and nobody could change it.
//! 4. One thread at a time has the *role* of sealing and converting. It is taken by trying; those wait for it who cannot
//!    go on before a segment is sealed or converted, and who reads or appends to a log for the moment in which it is being
//!    closed ([`log`], rules 2 and 4).
//! 5. Memory of logs, nodes and blocks lasts as long as the index, and each kind is only used again as what it was. So
//!    readers hold nothing and announce nothing; what they read counts if a version still stands: that of a segment's
//!    latch, or of a block's.
//! 6. *The order of one key from several threads*: a segment with one writer needs no stamps, position is order. When a
//!    second comes, the segment is sealed, and the next is stamped ([`stamps`]), but for keys of classes that one thread
//!    writes ([`owners`]). The greatest counts. If an
//!    insert with a lesser stamp is counted after that, it began before the other was counted: it is as if it had been
//!    overwritten at once. Readers, who look at one log after another, never see less of any log later, so the greatest
//!    stamp they see never falls.
//!
//! 7. The last entries of a sealed segment are in the next one too, in a log that nobody writes to, where it goes on with the
//!    same writers and several write or keys are in disorder: also those above the key for which it is sealed, as others went
//!    on meanwhile. The floor between the two lies below them: to the sealed segment belongs only what is at or below. It is the
//!    greatest key that belongs there, so that the edge is at the floor once all is converted: a key between the two would have no
//!    home.
//!
//! # Departures from the paper, and why
//!
//! - *Conversion is a merge in bounded steps that inserters share*, on the occasion of every 64th insert. There one thread
//!   sorts a whole segment, which makes the 99.99th percentile of inserts its weak spot (§V-F).
//! - *No thread of its own for the search layer*: who appends a block tells it. A walk along the data layer is as long as
//!   there are splits under way.
//! - *Nothing is validated on the way down*: fences in blocks decide, where the paper goes right by the next block's least
//!   key.
//! - *A log is two columns*, not pairs: it is searched while it is filled.
//! - *Stamps*: the paper does not say which of two threads' values for one key counts.
//! - *A segment takes entries over* from the one before: the keys that other threads are about to insert when it is
//!   sealed lie a few entries back, as do those that arrive a little late, and would be late for blocks.
//! - *Late keys go to blocks a lane at a time*, where the paper descends for each: writers whose late keys belong to one place
//!   meet once a lane at its block. Who looks for keys looks at one word more, and at lanes where that says there are any.
//! - *A block keeps the last late keys as they came*, behind those in order, and *fills its right neighbour before it splits*.
//! - *Where a scan's entries lie is guessed* between two separators of a search node, so that they are asked for together
//!   with the block's header.
//! - *Readers go by outlines* of the nodes above blocks ([`outline`]), which take a third of the cache.

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

// What an index of several maps shares with the one of them that it asks in most cases.
pub(crate) use segments::writer_number::{WRITERS, writer_number};
pub(super) use tree::Appended;
