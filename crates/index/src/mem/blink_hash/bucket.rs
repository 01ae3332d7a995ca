//! Buckets: a few dozen entries in no order, found by one-byte fingerprints.

use super::super::columns::Words;
use super::super::primitive::{AtomicU32, AtomicU64, Ordering};
use super::super::version_latch::{VersionLatch, Writer};

/// Entries in a bucket. Small under test, so that buckets fill and leaves split.
pub(super) const BUCKET_CAP: usize = if cfg!(any(test, miri, loom)) { 8 } else { 32 };

const LANES: usize = 8;
const WORDS: usize = BUCKET_CAP / LANES;
const EACH_LANE: u64 = 0x0101_0101_0101_0101;

/// The slots of a bucket, one bit each.
pub(super) type Slots = u32;

/// A fingerprint: seven bits of the key's hash, and a lowest bit that tells an entry from a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u8);

impl Fingerprint {
    pub(super) const fn of_hash(hash: u64) -> Self {
        Self(hash.to_le_bytes()[0] | 1)
    }
}

/// See the [module](self). All zeros is an empty bucket that was never written.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket<W: Words> {
    pub(super) latch: VersionLatch,
    /// How many splits of its leaf this bucket has followed; see [`settle`](super::settle).
    settled: AtomicU32,
    /// Which probes of keys at home here ended in another bucket: bit `i` for the `i`-th; above them, the generation
    /// of the leaf in which that was noted.
    strays: AtomicU64,
    fingerprints: [AtomicU64; WORDS],
    keys: W::Columns<BUCKET_CAP>,
    values: [AtomicU64; BUCKET_CAP],
}

impl<W: Words> Bucket<W> {
    #[cfg(any(test, loom))]
    pub(super) fn new() -> Self {
        Self {
            latch: VersionLatch::new(),
            settled: AtomicU32::new(0),
            strays: AtomicU64::new(0),
            fingerprints: std::array::from_fn(|_| AtomicU64::new(0)),
            keys: W::new_columns(),
            values: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(super) fn settled(&self) -> u32 {
        self.settled.load(Ordering::Relaxed)
    }

    pub(super) fn set_settled(&self, generation: u32, _writer: Writer<'_>) {
        self.settled.store(generation, Ordering::Relaxed);
    }

    /// Which probes of keys at home here ended elsewhere, as noted in this generation of the leaf.
    pub(super) fn strays(&self, generation: u32) -> u32 {
        let [noted_in, probes] = halves(self.strays.load(Ordering::Relaxed));
        if noted_in == generation { probes } else { 0 }
    }

    /// Notes that a key at home here was put where its `probe`-th probe led. Notes of older generations are dropped.
    /// Needs no latch.
    pub(super) fn add_stray(&self, probe: usize, generation: u32) {
        let mut before = self.strays.load(Ordering::Relaxed);
        loop {
            let [noted_in, probes] = halves(before);
            let kept = if noted_in == generation { probes } else { 0 };
            let after = u64::from(generation) << 32 | u64::from(kept | 1 << probe);
            match self
                .strays
                .compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// The slots that hold an entry.
    pub(super) fn occupied(&self) -> Slots {
        self.slots(|word| word & EACH_LANE)
    }

    /// The slots whose fingerprint is this one.
    fn matching(&self, fingerprint: Fingerprint) -> Slots {
        let pattern = u64::from(fingerprint.0) * EACH_LANE;
        self.slots(|word| {
            const LOW_BITS: u64 = 0x7f * EACH_LANE;
            // Bit 7 of a lane is set if any bit of the lane differs.
            let differs = word ^ pattern;
            let differs = ((differs & LOW_BITS) + LOW_BITS) | differs;
            !differs >> 7 & EACH_LANE
        })
    }

    /// Gathers one bit of each lane: the lowest, in what `of_word` makes of eight fingerprints.
    #[inline]
    fn slots(&self, of_word: impl Fn(u64) -> u64) -> Slots {
        /// Moves the lowest bit of lane `i` to bit `56 + i`.
        const GATHER: u64 = 0x0102_0408_1020_4080;
        let words = self.fingerprints.iter().enumerate();
        words.fold(0, |slots, (index, word)| {
            let bits = of_word(word.load(Ordering::Relaxed))
                .wrapping_mul(GATHER)
                .to_le_bytes()[7];
            slots | Slots::from(bits) << (LANES * index)
        })
    }

    /// The slot of a key.
    #[inline]
    pub(super) fn find(&self, key: &W, fingerprint: Fingerprint) -> Option<usize> {
        Bits(self.matching(fingerprint)).find(|&slot| self.key(slot) == *key)
    }

    /// A slot that holds no entry.
    pub(super) fn free_slot(&self) -> Option<usize> {
        let slot = self.occupied().trailing_ones() as usize;
        (slot < BUCKET_CAP).then_some(slot)
    }

    pub(super) fn key(&self, slot: usize) -> W {
        W::load(&self.keys, slot)
    }

    pub(super) fn value(&self, slot: usize) -> u64 {
        self.values[slot].load(Ordering::Relaxed)
    }

    pub(super) fn set_value(&self, slot: usize, value: u64, _writer: Writer<'_>) {
        self.values[slot].store(value, Ordering::Relaxed);
    }

    pub(super) fn put(&self, slot: usize, key: W, fingerprint: Fingerprint, value: u64, writer: Writer<'_>) {
        key.store(&self.keys, slot);
        self.values[slot].store(value, Ordering::Relaxed);
        self.set_fingerprint(slot, fingerprint.0, writer);
    }

    pub(super) fn clear(&self, slot: usize, writer: Writer<'_>) {
        self.set_fingerprint(slot, 0, writer);
    }

    fn set_fingerprint(&self, slot: usize, fingerprint: u8, _writer: Writer<'_>) {
        let word = &self.fingerprints[slot / LANES];
        let mut lanes = word.load(Ordering::Relaxed).to_le_bytes();
        lanes[slot % LANES] = fingerprint;
        word.store(u64::from_le_bytes(lanes), Ordering::Relaxed);
    }

    /// Moves the entry in `slot` to a free slot of another bucket. Both are latched.
    pub(super) fn move_to(&self, slot: usize, other: &Self, writer: Writer<'_>) {
        if let Some(free) = other.free_slot() {
            let lanes = self.fingerprints[slot / LANES]
                .load(Ordering::Relaxed)
                .to_le_bytes();
            let fingerprint = Fingerprint(lanes[slot % LANES]);
            other.put(free, self.key(slot), fingerprint, self.value(slot), writer);
            self.clear(slot, writer);
        }
    }

    /// The slots that hold an entry, one after another.
    pub(super) fn entries(&self) -> Bits {
        Bits(self.occupied())
    }
}

/// The upper and the lower half of a word.
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

/// The positions of the bits that are set, ascending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits(pub(super) u32);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let position = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(position as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WRITER: Writer<'static> = Writer::UNPUBLISHED;

    #[test]
    fn entries_are_found_by_key_whatever_their_fingerprint() {
        let bucket = Bucket::<[u64; 1]>::new();
        for key in 0..BUCKET_CAP as u64 {
            // Half of the keys share a fingerprint.
            let fingerprint = Fingerprint::of_hash(if key % 2 == 0 { 0 } else { key });
            let slot = bucket.free_slot().expect("not full");
            bucket.put(slot, [key], fingerprint, key + 100, WRITER);
        }
        assert_eq!(bucket.free_slot(), None);
        for key in 0..BUCKET_CAP as u64 {
            let fingerprint = Fingerprint::of_hash(if key % 2 == 0 { 0 } else { key });
            let slot = bucket.find(&[key], fingerprint).expect("was put");
            assert_eq!(bucket.value(slot), key + 100);
        }
        assert_eq!(bucket.find(&[0], Fingerprint::of_hash(0xff)), None);
        bucket.clear(3, WRITER);
        assert_eq!(bucket.free_slot(), Some(3));
        assert_eq!(bucket.entries().count(), BUCKET_CAP - 1);
    }

    #[test]
    fn a_fingerprint_matches_itself_alone() {
        let step = if cfg!(miri) { 51 } else { 1 };
        for present in (0..=255).step_by(step) {
            for sought in (0..=255).step_by(step) {
                let bucket = Bucket::<[u64; 1]>::new();
                bucket.put(5, [7], Fingerprint::of_hash(present), 1, WRITER);
                let expected = if present | 1 == sought | 1 { 1 << 5 } else { 0 };
                assert_eq!(
                    bucket.matching(Fingerprint::of_hash(sought)),
                    expected,
                    "{present} {sought}"
                );
            }
        }
    }
}
