//! Buckets: a few dozen unordered entries, found by one-byte fingerprints.

use super::fingerprints::{BUCKET_CAP, Fingerprint, Fingerprints};
use crate::search::bytes::{SeenSlots, Slots};
use crate::search::columns::Words;
use crate::search::prefetch::prefetch;
use crate::sync::primitive::{AtomicU32, AtomicU64, Ordering};
use crate::sync::version_latch::{VersionLatch, Writer};

/// Slots that share a cache line, for entries of 16 bytes.
const LINE_SLOTS: usize = 4;

/// See the [module](self). All zeros is an empty bucket that was never written.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Bucket<W: Words> {
    pub(super) latch: VersionLatch,
    /// Number of splits of its leaf that this bucket has followed; see [`settle`](super::settle).
    settled: AtomicU32,
    /// The slots whose entries are in an [`OrderedView`](super::ordered_view).
    viewed: AtomicU32,
    /// Bit `i` is set if the `i`-th probe of a key whose home is this bucket ended in another
    /// bucket; the upper half is the leaf's generation since which this is noted.
    strays: AtomicU64,
    fingerprints: Fingerprints,
    entries: Entries<W>,
}

/// Aligned to a cache line, so that no entry of 16 bytes crosses lines.
#[derive(Debug)]
#[repr(align(64))]
struct Entries<W: Words>([BucketEntry<W>; BUCKET_CAP]);

/// A key beside its value, in the same cache line.
#[derive(Debug)]
struct BucketEntry<W: Words> {
    key: W::KeyColumns<1>,
    value: AtomicU64,
}

impl<W: Words> Bucket<W> {
    pub(super) fn new() -> Self {
        Self {
            latch: VersionLatch::new(),
            settled: AtomicU32::new(0),
            viewed: AtomicU32::new(0),
            strays: AtomicU64::new(0),
            fingerprints: Fingerprints::new(),
            entries: Entries(std::array::from_fn(|_| BucketEntry {
                key: W::new_columns(),
                value: AtomicU64::new(0),
            })),
        }
    }

    pub(super) fn settled(&self) -> u32 {
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn set_settled(&self, generation: u32, _writer: Writer<'_>) {
        self.settled.store(generation, Ordering::Release);
    }

    /// Returns the stray probes of keys whose home is this bucket, as noted since this generation
    /// of the leaf.
    #[inline]
    pub(super) fn strays(&self, since: u32) -> u32 {
        let [noted_since, probes] = halves(self.strays.load(Ordering::Relaxed));
        if noted_since == since { probes } else { 0 }
    }

    /// Notes that a key whose home is this bucket was put where its `probe`-th probe led. Drops
    /// notes of older generations; drops this note if there are notes of a newer generation: the
    /// entry is then in a bucket that has yet to settle, and is noted when it does. Needs no latch.
    pub(super) fn add_stray(&self, probe: usize, since: u32) {
        let mut before = self.strays.load(Ordering::Relaxed);
        loop {
            let [noted_since, probes] = halves(before);
            if noted_since > since {
                return;
            }
            let kept = if noted_since == since { probes } else { 0 };
            let after = u64::from(since) << 32 | u64::from(kept | 1 << probe);
            match self
                .strays
                .compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// Returns the slots whose fingerprints match, and the occupied ones.
    #[inline]
    pub(super) fn look(&self, fingerprint: Fingerprint) -> SeenSlots {
        self.fingerprints.look(fingerprint)
    }

    /// Returns the slot of a key among those whose fingerprint matches.
    #[inline]
    pub(super) fn find(&self, key: &W, seen: SeenSlots) -> Option<usize> {
        Bits::of(seen.matching).find(|&slot| self.key(slot) == *key)
    }

    /// Returns a free slot, in this line if it has one.
    #[inline]
    pub(super) fn free_slot(&self, line: Line) -> Option<usize> {
        free_slot(self.fingerprints.occupied(), line)
    }

    /// Prefetches for a lookup of a key of this line: the fingerprints, and the entries in
    /// parallel.
    #[inline]
    pub(super) fn prefetch(&self, line: Line) {
        prefetch(&self.latch);
        prefetch(&self.entries.0[line.first_slot()]);
    }

    /// Prefetches the complete bucket, before entries are moved.
    #[inline]
    pub(super) fn prefetch_all(&self) {
        prefetch(&self.latch);
        self.entries
            .0
            .chunks(LINE_SLOTS)
            .for_each(|line| prefetch(&line[0]));
    }

    pub(super) fn key(&self, slot: usize) -> W {
        W::load(&self.entries.0[slot].key, 0)
    }

    pub(super) fn value(&self, slot: usize) -> u64 {
        self.entries.0[slot].value.load(Ordering::Relaxed)
    }

    pub(super) fn set_value(&self, slot: usize, value: u64, _writer: Writer<'_>) {
        self.entries.0[slot].value.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn put(&self, slot: usize, key: W, fingerprint: Fingerprint, value: u64, writer: Writer<'_>) {
        key.store(&self.entries.0[slot].key, 0);
        self.entries.0[slot].value.store(value, Ordering::Relaxed);
        self.fingerprints.set(slot, Some(fingerprint), writer);
    }

    pub(super) fn clear(&self, slot: usize, writer: Writer<'_>) {
        self.fingerprints.set(slot, None, writer);
        let viewed = self.viewed.load(Ordering::Relaxed);
        self.viewed.store(viewed & !(1 << slot), Ordering::Relaxed);
    }

    pub(super) fn is_viewed(&self, slot: usize) -> bool {
        self.viewed.load(Ordering::Relaxed) & 1 << slot != 0
    }

    /// Returns the slots whose entries are in no view.
    pub(super) fn unviewed(&self) -> Bits {
        Bits::of(self.fingerprints.occupied() & !self.viewed.load(Ordering::Relaxed))
    }

    pub(super) fn set_all_viewed(&self, _writer: Writer<'_>) {
        self.viewed.store(self.fingerprints.occupied(), Ordering::Relaxed);
    }

    /// Moves the entry in `slot` to a free slot of another bucket; it stays in its view. Both are
    /// latched.
    pub(super) fn move_to(&self, slot: usize, other: &Self, writer: Writer<'_>) {
        if let Some(free) = other.free_slot(Line::of_slot(slot)) {
            let fingerprint = self.fingerprints.get(slot);
            other.put(free, self.key(slot), fingerprint, self.value(slot), writer);
            let viewed = other.viewed.load(Ordering::Relaxed);
            let moved = u32::from(self.is_viewed(slot)) << free;
            other.viewed.store(viewed | moved, Ordering::Relaxed);
            self.clear(slot, writer);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fingerprints.occupied() == 0
    }

    /// Returns the occupied slots, in order.
    pub(super) fn entries(&self) -> Bits {
        Bits::of(self.fingerprints.occupied())
    }
}

/// The line of a bucket in which a key is preferably put. It depends on the hash alone, so it can
/// be prefetched together with the fingerprints.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line(usize);

impl Line {
    pub(super) fn of_hash(hash: u64) -> Self {
        Self(usize::from(hash.to_le_bytes()[1]) % (BUCKET_CAP / LINE_SLOTS))
    }

    const fn of_slot(slot: usize) -> Self {
        Self(slot / LINE_SLOTS)
    }

    fn first_slot(self) -> usize {
        self.0 * LINE_SLOTS
    }
}

/// Returns a slot that is not occupied, in this line if there is one.
#[inline]
pub(super) fn free_slot(occupied: Slots, line: Line) -> Option<usize> {
    let free = !occupied & Slots::MAX >> (Slots::BITS as usize - BUCKET_CAP);
    let in_line = free & ((1 << LINE_SLOTS) - 1) << line.first_slot();
    let slot = if in_line == 0 { free } else { in_line }.trailing_zeros() as usize;
    (slot < BUCKET_CAP).then_some(slot)
}

/// Returns the upper and the lower half of a word.
#[inline]
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

/// The positions of the bits that are set, ascending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits(pub(super) u64);

impl Bits {
    fn of(slots: Slots) -> Self {
        Self(slots.into())
    }
}

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
    fn entries_of_16_bytes_lie_in_one_cache_line() {
        let bucket = Bucket::<[u64; 1]>::new();
        for line in bucket.entries.0.chunks(LINE_SLOTS) {
            assert_eq!(std::ptr::from_ref(&line[0]).addr() % 64, 0);
            assert_eq!(size_of_val(line), 64);
        }
    }

    #[test]
    fn a_late_note_does_not_drop_newer_ones() {
        let bucket = Bucket::<[u64; 1]>::new();
        bucket.add_stray(3, 1);
        bucket.add_stray(5, 1);
        assert_eq!((bucket.strays(1), bucket.strays(2)), (1 << 3 | 1 << 5, 0));
        bucket.add_stray(2, 4);
        bucket.add_stray(6, 1);
        assert_eq!((bucket.strays(1), bucket.strays(4)), (0, 1 << 2));
    }

    #[test]
    fn entries_are_found_by_key_whatever_their_fingerprint() {
        let bucket = Bucket::<[u64; 1]>::new();
        for key in 0..BUCKET_CAP as u64 {
            // Half of the keys share a fingerprint.
            let fingerprint = Fingerprint::of_hash(if key % 2 == 0 { 0 } else { key });
            let line = Line::of_hash(key << 8);
            let slot = bucket.free_slot(line).expect("not full");
            assert_eq!(slot / LINE_SLOTS, line.0, "each line has room for its keys");
            bucket.put(slot, [key], fingerprint, key + 100, WRITER);
        }
        assert_eq!(bucket.free_slot(Line::of_slot(0)), None);
        for key in 0..BUCKET_CAP as u64 {
            let fingerprint = Fingerprint::of_hash(if key % 2 == 0 { 0 } else { key });
            let slot = bucket.find(&[key], bucket.look(fingerprint)).expect("was put");
            assert_eq!(bucket.value(slot), key + 100);
        }
        assert_eq!(bucket.find(&[0], bucket.look(Fingerprint::of_hash(0xff))), None);
        bucket.clear(3, WRITER);
        assert_eq!(
            bucket.free_slot(Line::of_slot(7)),
            Some(3),
            "a full line lends from others"
        );
        assert_eq!(bucket.entries().count(), BUCKET_CAP - 1);
    }
}
