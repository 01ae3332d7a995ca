//! Chunks of 64-bit integers, from which all other chunks are built.
//!
//! A chunk is a stride (constant columns have stride 0), blocks of 1,024 packed numbers, or a
//! dictionary with packed indices. A block stores the values, their differences, or the differences
//! of those, less the smallest, in as few bits as most of them need; the few that need more are
//! exceptions, whose upper bits follow.

mod block;
mod decode;
mod dictionary;
mod encode;

pub(crate) use decode::Ints;
pub(crate) use encode::{Access, encode};

const STRIDE: u8 = 0;
const DICTIONARY: u8 = 4;

/// The content of the blocks of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Values,
    Differences,
    SecondDifferences,
}

impl Order {
    const ALL: [Self; 3] = [Self::Values, Self::Differences, Self::SecondDifferences];

    fn code(self) -> u8 {
        match self {
            Self::Values => 1,
            Self::Differences => 2,
            Self::SecondDifferences => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.code() == code)
    }
}
