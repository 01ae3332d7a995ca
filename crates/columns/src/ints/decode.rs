//! Reading a chunk of integers.

use std::ops::Range;

use super::block::Block;
use super::{DICTIONARY, Order, STRIDE};
use crate::bits::{BLOCK, PIECE};
use crate::error::{Error, Result, damaged};
use crate::wire::{Bytes, as_u64};

/// A chunk of integers whose blocks are not yet parsed.
#[derive(Clone, Debug)]
pub(crate) enum Ints<'a> {
    Plain(Plain<'a>),
    Dictionary { entries: Plain<'a>, indices: Plain<'a> },
}

/// A chunk without a dictionary.
#[derive(Clone, Debug)]
pub(crate) struct Plain<'a> {
    count: usize,
    shape: Shape<'a>,
}

#[derive(Clone, Debug)]
enum Shape<'a> {
    Stride {
        first: i64,
        stride: i64,
    },
    Blocks {
        order: Order,
        reference: i64,
        scale: i64,
        offsets: &'a [[u8; 4]],
        blocks: &'a [u8],
    },
}

impl<'a> Ints<'a> {
    /// Parses a chunk of `count` values that takes all of `bytes`.
    pub(crate) fn parse(count: usize, bytes: &'a [u8]) -> Result<Self> {
        if bytes.first() != Some(&DICTIONARY) {
            return Plain::parse(count, bytes).map(Self::Plain);
        }
        let mut bytes = Bytes::new(&bytes[1..]);
        let entries = bytes.length()?;
        if entries > count {
            return damaged("a dictionary has more entries than rows");
        }
        let entries = Plain::parse(entries, bytes.counted()?)?;
        Ok(Self::Dictionary {
            entries,
            indices: Plain::parse(count, bytes.rest())?,
        })
    }

    /// Calls `sink` with the values of `rows`, a piece at a time. `rows` must lie within the chunk.
    pub(crate) fn for_each(
        &self,
        rows: Range<usize>,
        mut sink: impl FnMut(&mut [i64]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Plain(plain) => plain.for_each(rows, sink),
            Self::Dictionary { entries, indices } if rows.len() < entries.count / 4 => {
                indices.for_each(rows, |indices| {
                    for index in indices.iter_mut() {
                        *index = entry(entries, *index)?;
                    }
                    sink(indices)
                })
            }
            Self::Dictionary { entries, indices } => {
                let mut values = Vec::with_capacity(entries.count);
                entries.for_each(0..entries.count, |entries| {
                    values.extend_from_slice(entries);
                    Ok(())
                })?;
                indices.for_each(rows, |indices| {
                    let mut sound = true;
                    for index in indices.iter_mut() {
                        let entry = usize::try_from(*index).ok().and_then(|index| values.get(index));
                        sound &= entry.is_some();
                        *index = entry.copied().unwrap_or_default();
                    }
                    if !sound {
                        return damaged("an index is beyond its dictionary");
                    }
                    sink(indices)
                })
            }
        }
    }

    /// Returns the values of `rows`, which must lie within the chunk.
    pub(crate) fn decode(&self, rows: Range<usize>) -> Result<Vec<i64>> {
        let mut all = Vec::with_capacity(rows.len());
        self.for_each(rows, |values| {
            all.extend_from_slice(values);
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the value of one row, which must lie within the chunk.
    pub(crate) fn get(&self, row: usize) -> Result<i64> {
        match self {
            Self::Plain(plain) => plain.get(row),
            Self::Dictionary { entries, indices } => entry(entries, indices.get(row)?),
        }
    }

    /// Returns the sum, modulo 2⁶⁴, of the values from the start of the row's block up to `row`.
    pub(crate) fn sum_in_block(&self, row: usize) -> Result<i64> {
        let start = row / BLOCK * BLOCK;
        if let Self::Plain(Plain { count, shape }) = self {
            match shape {
                Shape::Stride { first, stride: 0 } => return Ok(times(row - start, *first)),
                Shape::Blocks {
                    order: Order::Values,
                    reference,
                    scale,
                    offsets,
                    blocks,
                } => {
                    let block = parse_block(Order::Values, *count, start / BLOCK, offsets, blocks)?;
                    let sum = block.sum(row - start).wrapping_mul(*scale);
                    return Ok(sum.wrapping_add(times(row - start, *reference)));
                }
                _ => {}
            }
        }
        let mut sum = 0i64;
        self.for_each(start..row, |values| {
            sum = values.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
            Ok(())
        })?;
        Ok(sum)
    }
}

/// Returns the dictionary entry at an index.
fn entry(entries: &Plain<'_>, index: i64) -> Result<i64> {
    let index = usize::try_from(index).ok().filter(|index| *index < entries.count);
    entries.get(index.ok_or(Error::Damaged {
        what: "an index is beyond its dictionary",
    })?)
}

impl<'a> Plain<'a> {
    fn parse(count: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut bytes = Bytes::new(bytes);
        let kind = bytes.u8()?;
        let shape = match Order::from_code(kind) {
            _ if kind == STRIDE => Shape::Stride {
                first: bytes.signed()?,
                stride: bytes.signed()?,
            },
            Some(order) => Shape::Blocks {
                order,
                reference: bytes.signed()?,
                scale: bytes.varint()?.cast_signed(),
                offsets: bytes.take(4 * count.div_ceil(BLOCK))?.as_chunks().0,
                blocks: bytes.rest(),
            },
            None => return damaged("a chunk of integers is of an unknown kind"),
        };
        Ok(Self { count, shape })
    }

    fn for_each(&self, rows: Range<usize>, mut sink: impl FnMut(&mut [i64]) -> Result<()>) -> Result<()> {
        if rows.len() == 1 {
            // Decodes one value without unpacking others.
            return sink(&mut [self.get(rows.start)?]);
        }
        match &self.shape {
            Shape::Stride { first, stride } => {
                let mut next = first.wrapping_add(times(rows.start, *stride));
                let mut values = [0; PIECE];
                for begin in rows.clone().step_by(PIECE) {
                    let values = &mut values[..(rows.end - begin).min(PIECE)];
                    for value in values.iter_mut() {
                        *value = next;
                        next = next.wrapping_add(*stride);
                    }
                    sink(values)?;
                }
            }
            Shape::Blocks {
                order,
                reference,
                scale,
                offsets,
                blocks,
            } => {
                let mut from = rows.start;
                while from < rows.end {
                    let start = from / BLOCK * BLOCK;
                    let end = rows.end.min(start + BLOCK);
                    let block = parse_block(*order, self.count, start / BLOCK, offsets, blocks)?;
                    block.for_each(from - start..end - start, (*reference, *scale), &mut sink)?;
                    from = end;
                }
            }
        }
        Ok(())
    }

    fn get(&self, row: usize) -> Result<i64> {
        match &self.shape {
            Shape::Stride { first, stride } => Ok(first.wrapping_add(times(row, *stride))),
            Shape::Blocks {
                order,
                reference,
                scale,
                offsets,
                blocks,
            } => {
                let block = parse_block(*order, self.count, row / BLOCK, offsets, blocks)?;
                Ok(block
                    .get(row % BLOCK)?
                    .wrapping_mul(*scale)
                    .wrapping_add(*reference))
            }
        }
    }
}

fn parse_block<'a>(
    order: Order,
    count: usize,
    number: usize,
    offsets: &[[u8; 4]],
    blocks: &'a [u8],
) -> Result<Block<'a>> {
    let offset = offsets
        .get(number)
        .map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let bytes = offset.and_then(|offset| blocks.get(offset..));
    let bytes = bytes.ok_or(Error::Damaged {
        what: "a block starts after the end of its chunk",
    })?;
    Block::parse(order, (count - number * BLOCK).min(BLOCK), Bytes::new(bytes))
}

fn times(count: usize, value: i64) -> i64 {
    as_u64(count).cast_signed().wrapping_mul(value)
}
