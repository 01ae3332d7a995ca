//! Chunks of byte strings: text, binary, and numbers of more than 64 bits.
//!
//! A chunk is the concatenated strings; the same compressed by a table of up to 255 symbols of up
//! to eight bytes (FSST: Boncz, Neumann and Leis, PVLDB 13, 2020), where one string can still be
//! read alone; or a dictionary of the distinct strings, itself such a chunk, with packed indices.

mod decode;
mod dictionary;
mod encode;

pub(crate) use decode::{Strings, StringsDecoded};
pub(crate) use dictionary::Distinct;
pub(crate) use encode::encode;

const PLAIN: u8 = 0;
const SYMBOLS: u8 = 1;
const DICTIONARY: u8 = 2;

/// Escape code of a compressed string: the next byte is a literal.
const ESCAPE: u8 = 255;
