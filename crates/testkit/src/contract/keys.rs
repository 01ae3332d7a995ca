//! Sources of test keys.

use std::fmt::Debug;

/// Maps ranks to keys, so that one suite and one oracle serve keys of every type and order.
///
/// # Laws
///
/// 1. `key(a, _)` is less than `key(b, _)` in the index's order exactly if `a < b`.
/// 2. `rank(&key(a, s)) == Some(a)` for every spelling `s`.
///
/// An index that keeps several entries of one key, distinguished by a tie, has (key, tie) as `Key`:
/// neighbouring ranks then share a key and differ in the tie.
pub trait Keys: Clone + Send + Sync {
    /// A key, or whatever makes an entry unique.
    type Key: Clone + Debug + Send + Sync;

    /// The greatest rank; at least 2¹⁶.
    fn rank_max(&self) -> u64 {
        u64::MAX
    }

    /// Returns the key of a rank, at most [`rank_max`](Self::rank_max). If different bytes can be
    /// equal keys, different spellings should give different bytes; otherwise the spelling is
    /// ignored.
    fn key(&self, rank: u64, spelling: u64) -> Self::Key;

    /// Returns the rank of a key; `None` if no rank has the key.
    fn rank(&self, key: &Self::Key) -> Option<u64>;
}

/// Unsigned integers: each is its own rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct U64Keys;

impl Keys for U64Keys {
    type Key = u64;

    fn key(&self, rank: u64, _spelling: u64) -> u64 {
        rank
    }

    fn rank(&self, key: &u64) -> Option<u64> {
        Some(*key)
    }
}

/// Signed integers, from `i64::MIN` at rank 0 to `i64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct I64Keys;

const SIGN: u64 = 1 << 63;

impl Keys for I64Keys {
    type Key = i64;

    fn key(&self, rank: u64, _spelling: u64) -> i64 {
        (rank ^ SIGN).cast_signed()
    }

    fn rank(&self, key: &i64) -> Option<u64> {
        Some(key.cast_unsigned() ^ SIGN)
    }
}

/// Byte strings of `N` ≥ 4 bytes in the order of `memcmp`. For `N` ≥ 9, neighbouring ranks differ
/// only in the last four bytes: ranks below 2³² share all other bytes. Rank 0 is all zeros and the
/// greatest rank all ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteKeys<const N: usize>;

impl<const N: usize> Keys for ByteKeys<N> {
    type Key = [u8; N];

    fn rank_max(&self) -> u64 {
        const { assert!(N >= 4, "too short to hold 2^16 ranks with room") };
        if N >= 8 { u64::MAX } else { (1 << (8 * N)) - 1 }
    }

    fn key(&self, rank: u64, _spelling: u64) -> [u8; N] {
        let bytes = rank.to_be_bytes();
        let mut key = [bytes[0]; N];
        if N >= 8 {
            key[..4].copy_from_slice(&bytes[..4]);
            key[N - 4..].copy_from_slice(&bytes[4..]);
        } else {
            key.copy_from_slice(&bytes[8 - N..]);
        }
        key
    }

    fn rank(&self, key: &[u8; N]) -> Option<u64> {
        let mut bytes = [0; 8];
        if N >= 8 {
            bytes[..4].copy_from_slice(&key[..4]);
            bytes[4..].copy_from_slice(&key[N - 4..]);
        } else {
            bytes[8 - N..].copy_from_slice(key);
        }
        let rank = u64::from_be_bytes(bytes);
        (self.key(rank, 0) == *key).then_some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laws<K: Keys>(keys: K)
    where
        K::Key: Ord,
    {
        let max = keys.rank_max();
        let mut ranks = vec![0, 1, 255, 256, 65_535, max / 2, max / 2 + 1, max - 1, max];
        ranks.sort_unstable();
        ranks.dedup();
        for pair in ranks.windows(2) {
            assert!(keys.key(pair[0], 0) < keys.key(pair[1], 1), "{pair:?}");
            assert_eq!(keys.rank(&keys.key(pair[0], 2)), Some(pair[0]));
        }
        assert_eq!(keys.rank(&keys.key(max, 0)), Some(max));
    }

    #[test]
    fn ranks_keep_the_order_of_keys() {
        laws(U64Keys);
        laws(I64Keys);
        laws(ByteKeys::<4>);
        laws(ByteKeys::<8>);
        laws(ByteKeys::<17>);
        laws(ByteKeys::<32>);
        assert_eq!(ByteKeys::<32>.key(u64::MAX, 0), [0xff; 32]);
        assert_eq!(ByteKeys::<32>.rank(&[7; 32]), Some(0x0707_0707_0707_0707));
        let mut stray = [0; 32];
        stray[16] = 1;
        assert_eq!(ByteKeys::<32>.rank(&stray), None);
    }
}
