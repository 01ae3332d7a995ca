//! One block of up to 1,024 integers.

use std::ops::Range;

use super::Order;
use crate::bits::{self, BLOCK, LANES, PIECE};
use crate::error::{Result, damaged};
use crate::processor::by_processor;
use crate::wire::{Bytes, put_signed};

/// The most numbers of a block that may need more bits than the others.
const EXCEPTIONS_MAX: usize = 255;

/// How a block will be packed, and its size in bytes.
#[derive(Clone, Copy, Debug)]
struct Frame {
    base: i64,
    width: u8,
    exceptions: usize,
    exception_bytes: u8,
    bytes: usize,
}

/// Memory for the numbers of a block while it is packed.
#[derive(Debug)]
pub(super) struct Scratch {
    numbers: [i64; BLOCK],
    packed: [u64; BLOCK],
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            numbers: [0; BLOCK],
            packed: [0; BLOCK],
        }
    }
}

by_processor! {
    /// Returns the size of `values` as a block, without a few bytes of its header.
    pub(super) fn cost(order: Order, values: &[i64], scratch: &mut Scratch) -> usize {
        transform(order, values, &mut scratch.numbers);
        Frame::of(&scratch.numbers[..values.len()]).bytes
    }
}

by_processor! {
    /// Appends one block of 1 to 1,024 values.
    pub(super) fn encode(order: Order, values: &[i64], scratch: &mut Scratch, out: &mut Vec<u8>) {
        let Scratch { numbers, packed } = scratch;
        transform(order, values, numbers);
        let frame = Frame::of(&numbers[..values.len()]);
        for (packed, number) in packed.iter_mut().zip(&numbers[..values.len()]) {
            *packed = number.wrapping_sub(frame.base).cast_unsigned();
        }
        let count = u8::try_from(frame.exceptions).expect("a frame has at most 255 exceptions");
        out.extend_from_slice(&[frame.width, count]);
        put_signed(out, frame.base);
        if order != Order::Values {
            put_signed(out, values[0]);
        }
        if order == Order::SecondDifferences {
            put_signed(out, first_difference(values));
        }
        let width = u32::from(frame.width);
        // The last row of lanes is packed as a whole.
        packed[values.len()..values.len().next_multiple_of(LANES)].fill(0);

        bits::pack(packed, values.len(), width, out);
        if frame.exceptions > 0 {
            put_exceptions(&packed[..values.len()], &frame, out);
        }
    }
}

/// Appends the rows of a block's exceptions, and their upper bytes.
fn put_exceptions(packed: &[u64], frame: &Frame, out: &mut Vec<u8>) {
    let width = u32::from(frame.width);
    out.push(frame.exception_bytes);
    let wide = |number: &u64| *number > bits::mask(width);
    for (position, _) in (0u16..).zip(packed).filter(|(_, number)| wide(number)) {
        out.extend_from_slice(&position.to_le_bytes());
    }
    for number in packed.iter().filter(|number| wide(number)) {
        out.extend_from_slice(&(number >> width).to_le_bytes()[..usize::from(frame.exception_bytes)]);
    }
}

fn first_difference(values: &[i64]) -> i64 {
    values.get(1).map_or(0, |second| second.wrapping_sub(values[0]))
}

/// Writes the numbers that `order` stores for `values` into `numbers`. A missing first difference
/// repeats the next one, so that it costs no bits.
#[inline(always)]
fn transform(order: Order, values: &[i64], numbers: &mut [i64; BLOCK]) {
    let count = values.len();
    match order {
        Order::Values => numbers[..count].copy_from_slice(values),
        Order::Differences if count < 2 => numbers[0] = 0,
        Order::Differences => {
            let pairs = values[1..].iter().zip(values);
            for (number, (second, first)) in numbers[1..].iter_mut().zip(pairs) {
                *number = second.wrapping_sub(*first);
            }
            numbers[0] = numbers[1];
        }
        Order::SecondDifferences if count < 3 => numbers[..count].fill(0),
        Order::SecondDifferences => {
            let threes = values[2..].iter().zip(&values[1..]).zip(values);
            for (number, ((third, second), first)) in numbers[2..].iter_mut().zip(threes) {
                let (next, before) = (third.wrapping_sub(*second), second.wrapping_sub(*first));
                *number = next.wrapping_sub(before);
            }
            (numbers[0], numbers[1]) = (numbers[2], numbers[2]);
        }
    }
}

impl Frame {
    #[inline(always)]
    fn of(numbers: &[i64]) -> Self {
        let (min, max) = numbers
            .iter()
            .fold((i64::MAX, i64::MIN), |(min, max), n| (min.min(*n), max.max(*n)));
        let frame = Self::above(min, max.wrapping_sub(min).cast_unsigned(), numbers);
        // If the smallest is an outlier that widens all others, it becomes an exception too.
        let sample = || numbers.iter().step_by(numbers.len().div_ceil(32));
        let (Some(low), Some(high)) = (sample().min(), sample().max()) else {
            return frame;
        };
        let sampled_width = width(high.wrapping_sub(*low).cast_unsigned());
        if sampled_width + 1 >= u32::from(frame.width) || *low == min {
            return frame;
        }
        // The sample may miss the least of the others, which is not far below its own least.
        let near = low.saturating_sub(high.saturating_sub(*low));
        let base = numbers
            .iter()
            .copied()
            .filter(|number| *number >= near)
            .min()
            .unwrap_or(*low);
        let without = Self::above(base, u64::MAX, numbers);
        if without.bytes < frame.bytes {
            without
        } else {
            frame
        }
    }

    /// Returns the cheapest frame that starts at `base`; `max` is the greatest distance from it, or
    /// above it.
    #[inline(always)]
    fn above(base: i64, max: u64, numbers: &[i64]) -> Self {
        let max_width = width(max);
        let mut best = Self {
            base,
            width: 64,
            exceptions: 0,
            exception_bytes: 0,
            bytes: usize::MAX,
        };
        // Which numbers are exceptions changes with few widths; the numbers are read for those.
        let (mut exceptions, mut widest) = (0, max_width);
        for bits_of_most in (0..=max_width).rev() {
            if bits_of_most < widest {
                (exceptions, widest) = wider_than(bits_of_most, base, numbers);
                if exceptions > EXCEPTIONS_MAX {
                    break;
                }
            }
            let exception_bytes = match exceptions {
                0 => 0,
                _ => (max_width - bits_of_most).div_ceil(8),
            };
            let bytes =
                bits::bytes(numbers.len(), bits_of_most) + exceptions * (2 + exception_bytes as usize);
            if bytes < best.bytes {
                best = Self {
                    base,
                    width: u8::try_from(bits_of_most).expect("at most 64"),
                    exceptions,
                    exception_bytes: u8::try_from(exception_bytes).expect("at most eight"),
                    bytes,
                };
            }
        }
        best
    }
}

/// Returns how many numbers are further above `base` than `bits_of_most` bits reach, and the bits
/// of the widest other.
#[inline(always)]
fn wider_than(bits_of_most: u32, base: i64, numbers: &[i64]) -> (usize, u32) {
    let mask = bits::mask(bits_of_most);
    let (mut wider, mut others) = (0u64, 0u64);
    for number in numbers {
        let distance = number.wrapping_sub(base).cast_unsigned();
        let is_wider = distance & !mask != 0;
        wider += u64::from(is_wider);
        others |= if is_wider { 0 } else { distance };
    }
    (usize::try_from(wider).expect("at most 1,024"), width(others))
}

/// Returns the number of significant bits.
fn width(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// A parsed block.
pub(super) struct Block<'a> {
    order: Order,
    count: usize,
    width: u32,
    base: i64,
    first: i64,
    first_difference: i64,
    packed: &'a [u8],
    positions: &'a [[u8; 2]],
    exceptions: &'a [u8],
    exception_bytes: usize,
}

impl<'a> Block<'a> {
    pub(super) fn parse(order: Order, count: usize, mut bytes: Bytes<'a>) -> Result<Self> {
        let (width, exceptions) = (u32::from(bytes.u8()?), usize::from(bytes.u8()?));
        if width > 64 || exceptions > 0 && width == 64 {
            return damaged("a block's numbers have more than 64 bits");
        }
        let base = bytes.signed()?;
        let first = if order == Order::Values {
            0
        } else {
            bytes.signed()?
        };
        let first_difference = if order == Order::SecondDifferences {
            bytes.signed()?
        } else {
            0
        };
        let packed = bytes.take(bits::bytes(count, width))?;
        let mut block = Self {
            order,
            count,
            width,
            base,
            first,
            first_difference,
            packed,
            positions: &[],
            exceptions: &[],
            exception_bytes: 1,
        };
        if exceptions > 0 {
            block.exception_bytes = usize::from(bytes.u8()?);
            if !(1..=8).contains(&block.exception_bytes) {
                return damaged("an exception has no byte, or more than eight");
            }
            block.positions = bytes.take(exceptions * 2)?.as_chunks().0;
            block.exceptions = bytes.take(exceptions * block.exception_bytes)?;
            let last = block
                .positions
                .last()
                .map(|position| u16::from_le_bytes(*position));
            if last.is_some_and(|last| usize::from(last) >= count) {
                return damaged("an exception lies outside of its block");
            }
        }
        Ok(block)
    }

    /// Yields the positions of exceptions, and the amounts to add to the packed numbers there.
    fn exceptions(&self) -> impl Iterator<Item = (usize, u64)> {
        self.positions
            .iter()
            .zip(self.exceptions.chunks_exact(self.exception_bytes))
            .map(|(position, upper)| {
                let mut bytes = [0; 8];
                bytes[..upper.len()].copy_from_slice(upper);
                (
                    usize::from(u16::from_le_bytes(*position)),
                    u64::from_le_bytes(bytes) << self.width,
                )
            })
    }

    /// Calls `sink` with the values of some rows, up to [`PIECE`] at a time. O(rows), plus a sum
    /// over the earlier differences, or all the earlier differences of differences.
    pub(super) fn for_each(
        &self,
        rows: Range<usize>,
        (reference, scale): (i64, i64),
        sink: &mut impl FnMut(&mut [i64]) -> Result<()>,
    ) -> Result<()> {
        let mut begin = match self.order {
            Order::SecondDifferences => 0,
            _ => rows.start / LANES * LANES,
        };
        let mut difference = self.first_difference;
        let mut last = match self.order {
            Order::Values => 0,
            Order::Differences if begin == 0 => self.first.wrapping_sub(self.number(0)),
            Order::Differences => self.get(begin - 1)?,
            Order::SecondDifferences => self.first.wrapping_sub(difference),
        };
        let base = self.base;
        let before = begin;
        let exceptions = self.exceptions();
        let mut exceptions = exceptions
            .skip_while(|(position, _)| *position < before)
            .peekable();
        let (mut numbers, mut values) = ([0; PIECE], [0; PIECE]);
        while begin < rows.end {
            let end = rows.end.min(begin + PIECE);
            bits::unpack(self.packed, begin, self.count, self.width, &mut numbers);
            while let Some((position, upper)) = exceptions.next_if(|(position, _)| *position < end) {
                // Positions that do not ascend are damage.
                let Some(number) = position.checked_sub(begin).and_then(|at| numbers.get_mut(at)) else {
                    return damaged("exceptions are not in order");
                };
                *number |= upper;
            }
            let numbers = &mut numbers[..end - begin];
            match self.order {
                Order::Values => {
                    for (value, number) in values.iter_mut().zip(numbers) {
                        *value = number.cast_signed().wrapping_add(base);
                    }
                }
                Order::Differences => {
                    for (value, number) in values.iter_mut().zip(numbers) {
                        last = last.wrapping_add(number.cast_signed().wrapping_add(base));
                        *value = last;
                    }
                }
                Order::SecondDifferences => {
                    if begin == 0 {
                        // The first two numbers of differences of differences are placeholders.
                        numbers
                            .iter_mut()
                            .take(2)
                            .for_each(|number| *number = base.wrapping_neg().cast_unsigned());
                    }
                    for (value, number) in values.iter_mut().zip(numbers) {
                        difference = difference.wrapping_add(number.cast_signed().wrapping_add(base));
                        last = last.wrapping_add(difference);
                        *value = last;
                    }
                }
            }
            if begin + PIECE > rows.start {
                let values = &mut values[rows.start.saturating_sub(begin)..end - begin];
                if scale != 1 || reference != 0 {
                    for value in values.iter_mut() {
                        *value = value.wrapping_mul(scale).wrapping_add(reference);
                    }
                }
                sink(values)?;
            }
            begin = end;
        }
        Ok(())
    }

    /// Returns the stored number at `index`.
    fn number(&self, index: usize) -> i64 {
        let number = bits::get(self.packed, index, self.width);
        let exception = self.exceptions().find(|(position, _)| *position >= index);
        let upper = exception.filter(|(position, _)| *position == index);
        let number = number | upper.map_or(0, |(_, upper)| upper);
        self.base.wrapping_add(number.cast_signed())
    }

    /// Returns the value at `index`, which is below the count, without scale and reference.
    pub(super) fn get(&self, index: usize) -> Result<i64> {
        Ok(match self.order {
            Order::Values => self.number(index),
            Order::Differences if index == 0 => self.first,
            // Number 0 is a placeholder.
            Order::Differences => self
                .first
                .wrapping_add(self.sum(index + 1))
                .wrapping_sub(self.number(0)),
            Order::SecondDifferences => {
                let mut value = 0;
                self.for_each(index..index + 1, (0, 1), &mut |values| {
                    value = values[0];
                    Ok(())
                })?;
                value
            }
        })
    }

    /// Returns the sum of the first `count` stored numbers, modulo 2⁶⁴.
    pub(super) fn sum(&self, count: usize) -> i64 {
        let packed = bits::sum(self.packed, count, self.width);
        let upper = self.exceptions().filter(|(position, _)| *position < count);
        let all = upper.fold(packed, |all, (_, upper)| all.wrapping_add(upper));
        let bases = self
            .base
            .wrapping_mul(i64::try_from(count).expect("at most 1,024"));
        all.cast_signed().wrapping_add(bases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_block_do_not_depend_on_the_block_before() {
        let before: Vec<i64> = (0..1024).map(|row| row * row * 7_919 % 100_003).collect();
        for order in Order::ALL {
            for count in [1, 2, 3, 5, 16, 17, 100, 1023] {
                let values: Vec<i64> = (0..count).map(|row| row * 31 % 17).collect();
                let (mut alone, mut after, mut used) = (Vec::new(), Vec::new(), Scratch::new());
                encode(order, &values, &mut Scratch::new(), &mut alone);
                encode(order, &before, &mut used, &mut Vec::new());
                encode(order, &values, &mut used, &mut after);
                assert_eq!(alone, after, "{count} values, {order:?}");
                let mut fresh = Scratch::new();
                assert_eq!(cost(order, &values, &mut used), cost(order, &values, &mut fresh));
            }
        }
    }
}
