//! One index that measures how much of its input is late, and keeps new keys where that costs least: in an
//! [`SbTree`](super::sb_tree::SbTree), a [`BlinkHash`](super::blink::hash::BlinkHash) or a [`BlinkTree`](super::blink::tree::BlinkTree).
//!
//! The keys are divided into a few *parts*, each of which has its home in one of the three maps ([`layout`]). The last part is
//! the *head*. A *switch* ends it and begins another:
//!
//! ```text
//!   keys  ├── SB-tree ──┤ limit ├── Blink-hash ──┤ limit ├── SB-tree: head ──┤ granted ┄┄▶
//! ```
//!
//! # Rules
//!
//! 1. *Each key has one home at a time*, told by the layout alone. A map may be the home of several parts, and holds no keys
//!    but theirs (and what rule 5 is about to remove).
//! 2. *The head holds no key above its granted limit.* Who inserts a greater one raises the limit first, well beyond the key, so
//!    that it is done once in hundreds of inserts. A switch takes the limit as it is for the old head's end. So nothing is
//!    moved by a switch, no insert under way can have put anything where it is not looked for, and nobody waits: keys up to
//!    the limit go where they went, keys above it to the new head.
//! 3. *What a reader read of a map counts if the layout's generation is what it was before*: until then the map was the home of
//!    what was read. It moves on before a map loses anything.
//! 4. *Who writes is present* ([`presence`]): it says so before it looks at the layout, until the map has what it wrote. But who
//!    appends to its log, or to its lane, while the head is an SB-tree need not say so: it looks at the generation after it has
//!    found the log or the lane open. A switch from an SB-tree seals it and drains its lanes after the generation has moved on. So
//!    the append is counted before, or refused; and a head's keys are not moved.
//! 5. *Adjacent parts are united by moving the lesser, a chunk at a time*, to its left neighbour's map: the chunk is frozen;
//!    those who were present then are let go; it is copied; the limit between the two is raised; the copied entries are removed
//!    where they were. A writer that meets a frozen chunk thaws it, and the chunk is tried again later; only while at most
//!    [`CHUNK`](moving::CHUNK) entries are being copied does it wait. Readers go on reading what is copied.
//! 6. A map that is the home of nothing any more is given back by epochs, except the SB-tree, whose blocks are used again.
//! 7. One thread at a time has the *role* of switching and moving. It is taken by trying, on the occasion of an insert.
//!
//! The late share is measured by every writer for itself ([`measure`]), in words that it alone writes; late keys that go to its
//! lane are counted when it next writes otherwise, once a lane at least.

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
