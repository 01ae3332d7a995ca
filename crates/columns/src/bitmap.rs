//! Chunks of bits: validity, and columns of booleans.

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

use crate::error::{Error, Result, damaged};
use crate::ints::{Access, Ints, encode as encode_ints};
use crate::wire::{Bytes, put_length};

const CLEAR: u8 = 0;
const SET: u8 = 1;
const PLAIN: u8 = 2;
const RUNS: u8 = 3;

/// Appends a chunk of `bits`.
pub(crate) fn encode(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let set = bits.count_set_bits();
    if set == 0 || set == bits.len() {
        out.push(if set == 0 { CLEAR } else { SET });
        return;
    }
    let plain = bits.len().div_ceil(8);
    // Rows at which runs of set bits begin and end.
    let mut ends = Vec::new();
    for (start, end) in bits.set_slices() {
        ends.extend([start, end].map(|row| i64::try_from(row).expect("a leaf has at most 65,536 rows")));
        if ends.len() > plain {
            break;
        }
    }
    if ends.len() <= plain {
        let mut runs = Vec::new();
        encode_ints(&ends, Access::Direct, &mut runs);
        if runs.len() < plain {
            out.push(RUNS);
            put_length(out, ends.len());
            out.extend_from_slice(&runs);
            return;
        }
    }
    out.push(PLAIN);
    let start = out.len();
    out.resize(start + plain, 0);
    let aligned = bits.sliced();
    out[start..].copy_from_slice(&aligned.as_slice()[..plain]);
    if !bits.len().is_multiple_of(8) {
        out[start + plain - 1] &= (1 << (bits.len() % 8)) - 1;
    }
}

/// A parsed chunk of bits.
#[derive(Clone, Debug)]
pub(crate) enum Bitmap<'a> {
    All(bool),
    Plain(&'a [u8]),
    Runs { ends: Ints<'a>, count: usize },
}

impl<'a> Bitmap<'a> {
    /// Parses a chunk of `count` bits that takes all of `bytes`.
    pub(crate) fn parse(count: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut bytes = Bytes::new(bytes);
        match bytes.u8()? {
            CLEAR => Ok(Self::All(false)),
            SET => Ok(Self::All(true)),
            PLAIN => Ok(Self::Plain(bytes.take(count.div_ceil(8))?)),
            RUNS => {
                let ends = bytes.length()?;
                if ends > count + 1 || ends % 2 > 0 {
                    return damaged("a bitmap has too many runs, or half of one");
                }
                Ok(Self::Runs {
                    ends: Ints::parse(ends, bytes.rest())?,
                    count: ends,
                })
            }
            _ => damaged("a bitmap is of an unknown kind"),
        }
    }

    /// Returns the bits of `rows`, which must lie within the chunk.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<BooleanBuffer> {
        match self {
            Self::All(false) => Ok(BooleanBuffer::new_unset(rows.len())),
            Self::All(true) => Ok(BooleanBuffer::new_set(rows.len())),
            Self::Plain(bytes) => {
                let bytes = &bytes[rows.start / 8..rows.end.div_ceil(8)];
                Ok(BooleanBuffer::new(
                    bytes.to_vec().into(),
                    rows.start % 8,
                    rows.len(),
                ))
            }
            Self::Runs { ends, count } => {
                let mut bits = BooleanBufferBuilder::new(rows.len());
                let mut set = false;
                let mut at = 0;
                for end in ends.decode(0..*count)? {
                    let end = usize::try_from(end).ok().filter(|end| *end >= at);
                    let end = end.ok_or(Error::Damaged {
                        what: "runs of a bitmap are not in order",
                    })?;
                    let within = at.max(rows.start)..end.min(rows.end);
                    bits.append_n(within.len(), set);
                    (at, set) = (end, !set);
                    if at >= rows.end {
                        break;
                    }
                }
                bits.append_n(rows.len() - bits.len(), false);
                Ok(bits.finish())
            }
        }
    }

    /// Returns one bit, which must lie within the chunk.
    pub(crate) fn get(&self, row: usize) -> Result<bool> {
        match self {
            Self::All(set) => Ok(*set),
            Self::Plain(bytes) => Ok(bytes[row / 8] >> (row % 8) & 1 == 1),
            Self::Runs { ends, count } => {
                let row = i64::try_from(row).expect("a leaf has at most 65,536 rows");
                let (mut low, mut high) = (0, *count);
                while low < high {
                    let middle = usize::midpoint(low, high);
                    match ends.get(middle)? <= row {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                Ok(low % 2 == 1)
            }
        }
    }
}
