//! An order that makes things difficult: keys that are equal with other bytes.

use std::cmp::Ordering;

use bedload_testkit::contract::Keys;

use super::{KeyBytes, OrderedKeys};
use crate::key_order::KeyOrder;

/// Text without regard to ASCII case and trailing blanks: unequal bytes may be the same key. Its
/// prefix says nothing, it has no hash, and its separators are whole keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CarelessOrder;

/// The one spelling that stands for all spellings of a key.
pub fn canonical(key: &[u8]) -> Vec<u8> {
    key.trim_ascii_end().to_ascii_lowercase()
}

impl KeyOrder for CarelessOrder {
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        canonical(a).cmp(&canonical(b))
    }

    fn prefix(&self, _key: &[u8]) -> u64 {
        0
    }

    fn hash(&self, _key: &[u8]) -> Option<u64> {
        None
    }
}

/// Hexadecimal numbers, spelt as carelessly as they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CarelessKeys;

impl Keys for CarelessKeys {
    type Key = KeyBytes;

    fn key(&self, rank: u64, spelling: u64) -> KeyBytes {
        let mut key = format!("{rank:016x}").into_bytes();
        for (index, byte) in key.iter_mut().enumerate() {
            if spelling >> index & 1 == 1 {
                byte.make_ascii_uppercase();
            }
        }
        key.extend((0..spelling % 3).map(|_| b' '));
        key
    }

    fn rank(&self, key: &KeyBytes) -> Option<u64> {
        u64::from_str_radix(std::str::from_utf8(key).ok()?.trim_end(), 16).ok()
    }
}

impl OrderedKeys for CarelessKeys {
    type Order = CarelessOrder;

    fn order(&self) -> CarelessOrder {
        CarelessOrder
    }

    fn encode(&self, key: &KeyBytes) -> (KeyBytes, u64) {
        (key.clone(), 0)
    }

    fn decode(&self, key: &[u8], tie: u64) -> Option<KeyBytes> {
        (tie == 0).then(|| key.to_vec())
    }
}
