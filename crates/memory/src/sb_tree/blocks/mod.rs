//! Blocks of sorted keys, and their memory.

pub(crate) mod block;
pub(crate) mod pool;
