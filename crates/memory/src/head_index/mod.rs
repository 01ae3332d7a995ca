//! An index that measures how much of its input is late, and puts new keys where that costs least:
//! into an [`SbTree`](super::sb_tree::SbTree), a [`BlinkHash`](super::blink::hash::BlinkHash) or a
//! [`BlinkTree`](super::blink::tree::BlinkTree).
//!
//! The keys are divided into a few *parts*, each of which has its home in one of the three maps
//! ([`layout`]). The last part is the *head*. A *switch* ends it and begins another:
//!
//! ```text
//!   keys  ├── SB-tree ──┤ limit ├── Blink-hash ──┤ limit ├── SB-tree: head ──┤ granted ┄┄▶
//! ```
//!
//! # Rules
//!
//! 1. *Each key has one home at a time*, given by the layout alone. A map may be the home of
//!    several parts, and holds only their keys (and those that rule 5 is about to remove).
//! 2. *The head holds no key above its granted limit.* To insert a greater key, a writer first
//!    raises the limit, well beyond the key, so that hundreds of inserts share one raise. A switch
//!    makes the current limit the old head's end. So a switch moves no entry, no concurrent insert
//!    can put an entry where readers would miss it, and no thread waits: keys up to the limit go
//!    where they went, keys above it to the new head.
//! 3. *A read of a map is valid if the layout's generation is unchanged afterwards*: until then
//!    the map was the home of the keys read. The generation is incremented before a map loses
//!    any key.
//! 4. *A writer is present* ([`presence`]): it declares itself before it looks at the layout, and
//!    leaves when the map has its write. A writer that appends to its log or its lane while the
//!    head is an SB-tree need not declare itself: it checks the generation after it has found the
//!    log or the lane open. A switch from an SB-tree seals it and drains its lanes after the
//!    generation was incremented. So the append is included or refused; and keys of the head are
//!    never moved.
//! 5. *Adjacent parts are united by moving the smaller, a chunk at a time*, to its left neighbour's
//!    map: the chunk is frozen; writers then present finish; it is copied; the limit between the
//!    two parts is raised; the copied entries are removed from the old map. A writer that meets a
//!    frozen chunk thaws it, and the chunk is tried again later; it waits only while at most
//!    [`CHUNK`](moving::CHUNK) entries are being copied. Readers keep reading the chunk meanwhile.
//! 6. A map that is home to no part is freed through epochs, except the SB-tree, whose blocks are
//!    reused.
//! 7. One thread at a time has the *role* of switching and moving. Inserts take it by try-lock.
//!
//! Every writer measures its late share ([`measure`]) in words that it alone writes; late keys that
//! go to its lane are counted when it next writes elsewhere, at least once per lane.

mod index;
mod layout;
mod maps;
mod measure;
mod moving;
mod options;
mod presence;
mod role;
mod scan;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

pub use index::HeadIndex;
pub use options::{HeadIndexOptions, HeadKind, HeadWork};
