//! The fingerprints of a bucket: a byte for each slot, compared all at once.

use crate::search::bytes::{LANES, SeenSlots, Slots, look_for};
use crate::sync::primitive::{AtomicU64, Ordering};
use crate::sync::version_latch::Writer;

/// Entries in a bucket. Small under test, so that buckets fill and leaves split.
pub(super) const BUCKET_CAP: usize = if cfg!(any(test, miri, loom)) { 8 } else { 32 };

/// Seven bits of a key's hash, above a lowest bit that tells an entry from a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u8);

impl Fingerprint {
    pub(super) const fn of_hash(hash: u64) -> Self {
        Self(hash.to_le_bytes()[0] | 1)
    }
}

/// See the [module](self). All zeros is a bucket without entries.
#[derive(Debug)]
pub(super) struct Fingerprints([AtomicU64; BUCKET_CAP / LANES]);

impl Fingerprints {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Returns the occupied slots.
    #[inline]
    pub(super) fn occupied(&self) -> Slots {
        look_for(&self.0, 0).occupied
    }

    /// Searches for a fingerprint.
    #[inline]
    pub(super) fn look(&self, fingerprint: Fingerprint) -> SeenSlots {
        look_for(&self.0, fingerprint.0)
    }

    /// Returns the fingerprint in an occupied slot.
    pub(super) fn get(&self, slot: usize) -> Fingerprint {
        let lanes = self.0[slot / LANES].load(Ordering::Relaxed).to_le_bytes();
        Fingerprint(lanes[slot % LANES])
    }

    /// Fills or frees a slot.
    #[inline]
    pub(super) fn set(&self, slot: usize, fingerprint: Option<Fingerprint>, _writer: Writer<'_>) {
        let word = &self.0[slot / LANES];
        // Uses shifts: a byte stored to an array in memory would delay the next load of the word.
        let shift = 8 * (slot % LANES);
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        let lane = u64::from(fingerprint.map_or(0, |fingerprint| fingerprint.0));
        word.store(others | lane << shift, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_and_freed_one_by_one() {
        let fingerprints = Fingerprints::new();
        let of = |slot: usize| Fingerprint::of_hash(slot as u64 * 37);
        for slot in 0..BUCKET_CAP {
            fingerprints.set(slot, Some(of(slot)), Writer::UNPUBLISHED);
        }
        for freed in 0..BUCKET_CAP {
            let before = fingerprints.occupied();
            fingerprints.set(freed, None, Writer::UNPUBLISHED);
            assert_eq!(fingerprints.occupied(), before & !(1 << freed));
            for slot in freed + 1..BUCKET_CAP {
                assert_eq!(fingerprints.get(slot), of(slot));
            }
        }
    }
}
