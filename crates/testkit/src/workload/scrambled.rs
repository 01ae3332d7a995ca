//! Keys in random order.

use crate::{Rng, rng};

/// Returns the numbers `0..len` in a uniformly random order.
///
/// ```
/// let mut keys = bedload_testkit::workload::scrambled(100, 1);
/// keys.sort_unstable();
/// assert!(keys.into_iter().eq(0..100));
/// ```
#[must_use]
pub fn scrambled(len: usize, seed: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..len as u64).collect();
    Rng::new(seed).shuffle(&mut keys);
    keys
}

/// A bijection of the 64-bit numbers that scatters neighbours: it makes sparse distinct keys from
/// dense ones, without a table.
///
/// ```
/// use bedload_testkit::workload::scattered;
/// assert!(scattered(1).abs_diff(scattered(2)) > 1 << 32);
/// ```
#[must_use]
pub const fn scattered(x: u64) -> u64 {
    rng::finalise(x.wrapping_add(0x9e37_79b9_7f4a_7c15))
}
