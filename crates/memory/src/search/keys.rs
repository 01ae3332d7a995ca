//! Counting in short ascending columns of keys: how a place is found in a node.
//!
//! Columns have a fixed length and are padded with [`NO_KEY`], so there is no branch to mispredict,
//! and the compiler makes vector instructions of the loops wherever the caller is compiled for a
//! processor that has them. So whole operations are compiled once more for such processors, and
//! [`vectorised`](super::dispatch::vectorised) chooses. For 512 bits it makes worse code than for
//! 256: counts are taken from masks bit by bit. So what is done for many keys at once is written
//! with such vectors by hand.

/// Stands where there is no key: greater than every key in a node.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// Keys and their values.
pub(crate) type EntryColumns<'c> = (&'c [u64], &'c [u64]);

/// The destination of a join: there is room for the joined entries and for the surplus of copies,
/// up to a multiple of eight or of the number copied at once.
pub(crate) type EntryColumnsMut<'c> = (&'c mut [u64], &'c mut [u64]);

/// Keys searched at once.
pub(crate) const GROUP: usize = 16;

/// Lanes of a vector.
pub(crate) const LANES: usize = 8;

/// Fingerprints compared at once.
pub(crate) const FINGERPRINTS: usize = 32;

/// Marks a missing group: greater than every sample, of groups and of keys searched for.
pub(crate) const NO_SAMPLE: u16 = u16::MAX;

/// The greatest sample.
pub(crate) const MOST: u16 = NO_SAMPLE - 1;

/// How many keys of the column lie below `probe`.
#[inline(always)]
pub(crate) fn count_below<const N: usize>(column: &[u64; N], probe: u64) -> usize {
    let below: u64 = column.iter().map(|&key| u64::from(key < probe)).sum();
    usize_of(below)
}

/// How many keys of the column are at most `probe`, which is not [`NO_KEY`].
#[inline(always)]
pub(crate) fn count_up_to<const N: usize>(column: &[u64; N], probe: u64) -> usize {
    let up_to: u64 = column.iter().map(|&key| u64::from(key <= probe)).sum();
    usize_of(up_to)
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "counts lie below the length of a slice"
)]
const fn usize_of(count: u64) -> usize {
    count as usize
}

/// How nodes are searched for a key.
pub(crate) trait Vectors: Copy {
    /// How many keys of a line are at most `probe`, which is not [`NO_KEY`].
    fn count_up_to(self, line: &[u64; LANES], probe: u64) -> usize;

    /// The place of the last sample that is at most `probe`; 0 if none is.
    fn last_sample_up_to(self, samples: &[u16; GROUP], probe: u16) -> usize;

    /// Bits of the fingerprints that are this one, the lowest that of the first.
    fn matching(self, fingerprints: &[u16; FINGERPRINTS], one: u16) -> u32;

    /// The value beside a key, if it is there. All values come from memory together with the keys.
    fn value_of(self, keys: &[u64; GROUP], values: &[u64; GROUP], key: u64) -> Option<u64>;
}

/// With what the compiler makes of loops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compiled;

impl Vectors for Compiled {
    #[inline(always)]
    fn count_up_to(self, line: &[u64; LANES], probe: u64) -> usize {
        count_up_to(line, probe)
    }

    #[inline(always)]
    fn last_sample_up_to(self, samples: &[u16; GROUP], probe: u16) -> usize {
        let up_to: u16 = samples.iter().map(|&sample| u16::from(sample <= probe)).sum();
        usize::from(up_to).saturating_sub(1)
    }

    #[inline(always)]
    fn matching(self, fingerprints: &[u16; FINGERPRINTS], one: u16) -> u32 {
        let mut is_there = 0;
        for &fingerprint in fingerprints {
            is_there |= u16::from(fingerprint == one);
        }
        if is_there == 0 {
            return 0;
        }
        // Seldom: no vector gathers bits without instructions of its own.
        let bits = fingerprints.iter().enumerate();
        bits.fold(0, |bits, (place, &fingerprint)| {
            bits | u32::from(fingerprint == one) << place
        })
    }

    #[inline(always)]
    fn value_of(self, keys: &[u64; GROUP], values: &[u64; GROUP], key: u64) -> Option<u64> {
        let (mut is_there, mut found) = (false, 0);
        for (&there, &value) in keys.iter().zip(values) {
            is_there |= there == key;
            found |= if there == key { value } else { 0 };
        }
        is_there.then_some(found)
    }
}
