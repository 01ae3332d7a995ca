//! Joining what waits for a leaf with the leaf.

pub(crate) mod scalar;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod wide;
