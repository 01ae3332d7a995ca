//! Hashing a key, for the stage and for fingerprints.

/// Returns a hash of a key; only its upper half is well mixed.
#[inline(always)]
pub(crate) fn hash(key: u64) -> u64 {
    (key ^ key >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
