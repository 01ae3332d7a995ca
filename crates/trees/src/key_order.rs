//! Orders of keys.
//!
//! A key is a byte string, which its [`KeyOrder`] interprets. Pages keep a column of 8-byte
//! prefixes, searched without calling the order; [`KeyOrder::compare`] is called only if two
//! prefixes are equal and inexact. For [`U64Order`] and [`I64Order`] the prefix *is* the key: pages
//! store nothing else and `compare` is never called.

use std::cmp::Ordering;

/// A total order of byte-string keys, with what a page needs to search them quickly.
///
/// An order is a value: one that stands for a collation carries it. Trees are monomorphised over
/// it.
///
/// # Laws
///
/// 1. `compare` is a total preorder: reflexive, transitive, any two keys comparable. Keys that
///    compare equal are the *same key*, even if their bytes differ.
/// 2. `prefix` is monotone: `compare(a, b) == Less` implies `prefix(a) <= prefix(b)`, and `Equal`
///    implies equal prefixes.
/// 3. If `prefix_is_exact`, then `compare(a, b) == prefix(a).cmp(&prefix(b))` and `key_of_prefix`
///    inverts `prefix`.
/// 4. `hash` agrees with equality: keys that compare equal have the same hash. An order that cannot
///    promise this returns `None`, and no filter is ever built over it.
/// 5. No method panics on any byte string at all, or, if prefixes are exact, on any of the fixed
///    width: keys come from pages, and pages may be damaged. A separator of a fixed width order has
///    that width.
pub trait KeyOrder: Clone + Send + Sync + 'static {
    /// Compares two keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// A monotone 8-byte summary of the key (law 2). A constant is a correct prefix.
    fn prefix(&self, key: &[u8]) -> u64;

    /// Whether the prefix determines the key (law 3). Such orders store no key bytes in pages.
    fn prefix_is_exact(&self) -> bool {
        false
    }

    /// Writes to `key` the key whose prefix is `prefix`. Called only where [`prefix_is_exact`]
    /// holds.
    ///
    /// [`prefix_is_exact`]: KeyOrder::prefix_is_exact
    fn key_of_prefix(&self, prefix: u64, key: &mut Vec<u8>) {
        let _ = (prefix, key);
        unreachable!("only orders with exact prefixes are asked to invert one")
    }

    /// The length in bytes of every key of this order, if there is one.
    fn fixed_width(&self) -> Option<usize> {
        None
    }

    /// A hash that is equal for keys that compare equal, or `None` if the order knows of none (law
    /// 4).
    fn hash(&self, key: &[u8]) -> Option<u64>;

    /// Writes to `out` a key `s` with `left < s <= right`, as short as is easy to find;
    /// `left < right` is given. Parents keep it as the pivot between a page that ends with `left`
    /// and one that begins with `right`.
    fn separator(&self, left: &[u8], right: &[u8], out: &mut Vec<u8>) {
        let _ = left;
        out.clear();
        out.extend_from_slice(right);
    }
}

/// Unsigned 64-bit integers. Keys are their 8 big-endian bytes, made by [`U64Order::key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct U64Order;

impl U64Order {
    /// The key bytes of `value`.
    ///
    /// ```
    /// use bedload_trees::{KeyOrder, U64Order};
    /// assert_eq!(U64Order.prefix(&U64Order::key(42)), 42);
    /// ```
    #[must_use]
    pub const fn key(value: u64) -> [u8; 8] {
        value.to_be_bytes()
    }

    /// The value whose key bytes are `key`.
    #[must_use]
    pub const fn value(key: [u8; 8]) -> u64 {
        u64::from_be_bytes(key)
    }
}

/// Signed 64-bit integers, time stamps among them. Keys are their big-endian bytes with the sign
/// bit flipped, so that byte order is numeric order; they are made by [`I64Order::key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct I64Order;

const SIGN: u64 = 1 << 63;

impl I64Order {
    /// The key bytes of `value`.
    ///
    /// ```
    /// use bedload_trees::I64Order;
    /// assert!(I64Order::key(-1) < I64Order::key(0));
    /// assert_eq!(I64Order::value(I64Order::key(-7)), -7);
    /// ```
    #[must_use]
    pub const fn key(value: i64) -> [u8; 8] {
        Self::prefix_of(value).to_be_bytes()
    }

    /// The value whose key bytes are `key`.
    #[must_use]
    pub const fn value(key: [u8; 8]) -> i64 {
        Self::value_of(u64::from_be_bytes(key))
    }

    /// The prefix under which pages store `value`.
    #[must_use]
    pub const fn prefix_of(value: i64) -> u64 {
        value.cast_unsigned() ^ SIGN
    }

    /// The value that pages store under `prefix`.
    #[must_use]
    pub const fn value_of(prefix: u64) -> i64 {
        (prefix ^ SIGN).cast_signed()
    }
}

/// Orders of words, whose key bytes sort as they do.
macro_rules! orders_of_words {
    ($($order:ident),*) => {$(
        impl KeyOrder for $order {
            fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
                a.cmp(b)
            }

            fn prefix(&self, key: &[u8]) -> u64 {
                leading_u64(key)
            }

            fn prefix_is_exact(&self) -> bool {
                true
            }

            fn key_of_prefix(&self, prefix: u64, key: &mut Vec<u8>) {
                key.clear();
                key.extend_from_slice(&prefix.to_be_bytes());
            }

            fn fixed_width(&self) -> Option<usize> {
                Some(8)
            }

            fn hash(&self, key: &[u8]) -> Option<u64> {
                Some(mix(leading_u64(key)))
            }
        }
    )*};
}

orders_of_words!(U64Order, I64Order);

/// Byte strings in the order of `memcmp`, a prefix before its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteOrder;

impl KeyOrder for ByteOrder {
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn prefix(&self, key: &[u8]) -> u64 {
        leading_u64(key)
    }

    fn hash(&self, key: &[u8]) -> Option<u64> {
        let mut state = key.len() as u64;
        for chunk in key.chunks(8) {
            state = mix(state ^ leading_u64(chunk));
        }
        Some(mix(state))
    }

    fn separator(&self, left: &[u8], right: &[u8], out: &mut Vec<u8>) {
        let shared = left.iter().zip(right).take_while(|(l, r)| l == r).count();
        out.clear();
        out.extend_from_slice(&right[..(shared + 1).min(right.len())]);
    }
}

/// The first eight bytes as a big-endian number, a shorter key padded with zeros: monotone in byte
/// order.
fn leading_u64(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 8];
            padded[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(padded)
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit reaches every
/// output bit.
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
