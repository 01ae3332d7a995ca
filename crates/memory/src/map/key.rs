//! Keys of the in-memory indexes, and the words that nodes keep of them.

use std::fmt::Debug;

use crate::search::columns::Words;
use crate::search::copy::copy_words;
use crate::sync::primitive::AtomicU64;

/// A key of fixed size: `u64`, `i64`, or a byte string of 1 to 32 bytes in the order of `memcmp`.
///
/// Nodes keep a key as one to four 64-bit words whose lexicographic order is the key's order. The
/// trait is sealed.
///
/// ```
/// use bedload_memory::BlinkTree;
/// let tree = BlinkTree::<[u8; 4]>::new();
/// tree.insert(*b"lava", 1);
/// assert_eq!(tree.get(*b"lava"), Some(1));
/// ```
pub trait Key: Copy + Ord + Debug + Send + Sync + 'static + sealed::Sealed {}

pub(crate) mod sealed {
    use super::super::key::{Debug, Words};

    /// A key as nodes see it.
    pub trait Sealed {
        /// As many words as the key fills.
        type Words: Words + Debug;

        /// Zero bits after the key in the last word.
        const PADDING_BITS: u32;

        /// The key's words, the first the most significant.
        fn to_words(self) -> Self::Words;

        /// The key that has these words.
        fn from_words(words: Self::Words) -> Self;

        /// Copies `count` keys of columns, from place `from` on, to the beginning of `target`:
        /// fewer if either ends before.
        fn copy_keys<const CAP: usize>(
            columns: &<Self::Words as Words>::KeyColumns<CAP>,
            from: usize,
            count: usize,
            target: &mut [Self],
        ) where
            Self: Sized,
        {
            for (place, key) in (from..CAP).take(count).zip(target) {
                *key = Self::from_words(Self::Words::load(columns, place));
            }
        }
    }
}

impl Key for u64 {}

impl sealed::Sealed for u64 {
    type Words = [u64; 1];

    const PADDING_BITS: u32 = 0;

    fn to_words(self) -> [u64; 1] {
        [self]
    }

    fn from_words([word]: [u64; 1]) -> Self {
        word
    }

    #[inline]
    fn copy_keys<const CAP: usize>(
        [column]: &[[AtomicU64; CAP]; 1],
        from: usize,
        count: usize,
        target: &mut [Self],
    ) {
        copy_words(column, from, count, target);
    }
}

impl Key for i64 {}

const SIGN: u64 = 1 << 63;

impl sealed::Sealed for i64 {
    type Words = [u64; 1];

    const PADDING_BITS: u32 = 0;

    fn to_words(self) -> [u64; 1] {
        [self.cast_unsigned() ^ SIGN]
    }

    fn from_words([word]: [u64; 1]) -> Self {
        (word ^ SIGN).cast_signed()
    }
}

macro_rules! byte_string_keys {
    ($($len:literal)*) => {$(
        impl Key for [u8; $len] {}

        impl sealed::Sealed for [u8; $len] {
            type Words = [u64; usize::div_ceil($len, 8)];

            const PADDING_BITS: u32 = (8 - $len % 8) % 8 * u8::BITS;

            fn to_words(self) -> Self::Words {
                let mut words = [0; usize::div_ceil($len, 8)];
                for (word, chunk) in words.iter_mut().zip(self.chunks(8)) {
                    let mut bytes = [0; 8];
                    bytes[..chunk.len()].copy_from_slice(chunk);
                    *word = u64::from_be_bytes(bytes);
                }
                words
            }

            fn from_words(words: Self::Words) -> Self {
                let mut key = [0; $len];
                for (chunk, word) in key.chunks_mut(8).zip(words) {
                    chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
                }
                key
            }
        }
    )*};
}

byte_string_keys! {
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn keeps_order<K: Key>(keys: &[K]) {
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].to_words() < pair[1].to_words(), "{pair:?}");
        }
        for key in keys {
            assert_eq!(K::from_words(key.to_words()), *key);
        }
    }

    #[test]
    fn words_keep_the_order_of_keys() {
        keeps_order(&[0, 1, u64::MAX / 2, u64::MAX]);
        keeps_order(&[i64::MIN, -1, 0, 1, i64::MAX]);
        keeps_order(&[[0_u8], [1], [255]]);
        keeps_order(&[
            *b"abcdefgh\0",
            *b"abcdefghi",
            *b"abcdefgi\0",
            *b"b\0\0\0\0\0\0\0\0",
        ]);
        let mut last = [7_u8; 32];
        last[31] = 8;
        keeps_order(&[[7_u8; 32], last, [255; 32]]);
    }
}
