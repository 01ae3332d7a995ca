//! How threads exclude and wait for one another: where atomics come from, optimistic latches, and
//! two fences that belong together.

pub(crate) mod asymmetric_fence;
#[cfg(feature = "coherence")]
pub mod coherence;
#[cfg(all(test, loom))]
pub(crate) mod exploration;
pub(crate) mod primitive;
#[cfg(all(feature = "coherence", not(loom)))]
pub(crate) mod reporting;
pub(crate) mod version_latch;
