//! Blocks of sorted keys, and memory for them.

pub(crate) mod block;
pub(crate) mod pool;
