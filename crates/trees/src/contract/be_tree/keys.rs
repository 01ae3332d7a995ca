//! Keys by number.

use crate::contract::CarelessOrder;
use crate::key_order::{ByteOrder, I64Order, KeyOrder, U64Order};

/// An order with a key for each number, in the order of the numbers.
pub trait NumberedKeys: KeyOrder {
    /// The key of a number; several spellings are the same key.
    fn key_of(&self, number: u64, spelling: u64) -> Vec<u8>;
}

impl NumberedKeys for U64Order {
    fn key_of(&self, number: u64, _spelling: u64) -> Vec<u8> {
        Self::key(number).into()
    }
}

impl NumberedKeys for I64Order {
    fn key_of(&self, number: u64, _spelling: u64) -> Vec<u8> {
        Self::key(number.cast_signed() - 300).into()
    }
}

impl NumberedKeys for ByteOrder {
    fn key_of(&self, number: u64, _spelling: u64) -> Vec<u8> {
        format!("with/a/prefix/{number:08}").into_bytes()
    }
}

impl NumberedKeys for CarelessOrder {
    fn key_of(&self, number: u64, spelling: u64) -> Vec<u8> {
        let mut key = format!("{number:08x}").into_bytes();
        if spelling % 2 == 1 {
            key.make_ascii_uppercase();
        }
        key.extend((0..spelling % 3).map(|_| b' '));
        key
    }
}
