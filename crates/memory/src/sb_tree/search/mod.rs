//! The search layer: from a key to the block that has it, without locks.

pub(crate) mod layer;
pub(crate) mod node;
pub(crate) mod outline;
