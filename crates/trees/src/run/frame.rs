//! Columns of numbers, packed.
//!
//! A number is what a straight line says at its position, plus a difference of as few bits as the
//! column needs: a frame of reference that is tilted. Sorted keys lie near the line between the
//! first and the last, and the times of a sensor on it; an unsorted column gets a level line. Where
//! the numbers of that have zeros in the same place, as row addresses have between the number of
//! the row and that of its page, these bits are left out: the *gap*. Any number can be read by
//! itself.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | base |
//! | 8 | 8 | slope, whole part |
//! | 16 | 2 | slope, fraction of 2¹⁶ |
//! | 18 | 1 | bits of a difference: 0 to 57, or 64 |
//! | 19 | 1 | bits of a difference below the gap |
//! | 20 | 1 | bits of the gap, 0 for none |
//! | 21 | 3 | zero |
//! | 24 | … | differences, lowest bits first, without gaps |
//! | … | 8 | zero, so that eight bytes can be read at any difference |
//!
//! Number *i* = base + slope · *i* + ⌊fraction · *i* / 2¹⁶⌋ + difference *i*, modulo 2⁶⁴, the gap
//! being put back into the difference.

use std::iter::successors;
use std::mem::size_of;
use std::ops::{Deref, Range};

const HEADER_LEN: usize = 24;
const PADDING_LEN: usize = size_of::<u64>();
/// A difference begins at any bit of a byte, and all of it must lie within the eight bytes from
/// there.
const BITS_MAX: u32 = 57;

/// How a column is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    base: u64,
    slope: u64,
    fraction: u16,
    bits: u32,
    below_gap: u32,
    gap: u32,
}

impl Line {
    /// The line that needs the fewest bits for these numbers, of the level one and the one through
    /// both ends.
    pub(super) fn through(numbers: &[u64]) -> Self {
        let Some((&first, &last)) = numbers.first().zip(numbers.last()) else {
            return Self::default();
        };
        let (mut low, mut high, mut ones) = (first, first, first);
        for &number in numbers {
            (low, high, ones) = (low.min(number), high.max(number), ones | number);
        }
        let level = Self::level(low, high, ones);
        // Only what may ascend lies near a line; and beyond that rise the differences would need a
        // sign of their own.
        if last <= first || (first, last) != (low, high) || high - low > u64::MAX >> 2 {
            return level;
        }
        let steps = numbers.len() as u64 - 1;
        let rise = last - first;
        let mut tilted = Self {
            base: first,
            slope: rise / steps,
            fraction: u16::try_from(((rise % steps) << 16) / steps).unwrap_or(u16::MAX),
            ..Self::default()
        };
        let (mut least, mut most) = (0, 0);
        for (&number, on_line) in numbers.iter().zip(tilted.points(0)) {
            let difference = number.wrapping_sub(on_line).cast_signed();
            (least, most) = (least.min(difference), most.max(difference));
        }
        tilted.base = first.wrapping_add_signed(least);
        tilted.bits = bits_of(most.wrapping_sub(least).cast_unsigned());
        if tilted.bits < level.bits { tilted } else { level }
    }

    /// The level line under numbers from `low` to `high` in which only the bits of `ones` are ever
    /// set.
    fn level(low: u64, high: u64, ones: u64) -> Self {
        let plain = Self {
            base: low,
            bits: bits_of(high - low),
            ..Self::default()
        };
        let (gap_at, gap) = longest_gap(ones);
        // The numbers below the gap stay as they are, so the base has none of their bits.
        let base = low & u64::MAX.checked_shl(gap_at + gap).unwrap_or(0);
        let gapped = Self {
            base,
            bits: bits_of(
                ((high - base).checked_shr(gap_at + gap).unwrap_or(0) << gap_at) | low_bits(gap_at),
            ),
            below_gap: gap_at,
            gap,
            ..Self::default()
        };
        if gapped.bits < plain.bits { gapped } else { plain }
    }

    /// Whether it says the same everywhere.
    fn is_level(&self) -> bool {
        self.slope == 0 && self.fraction == 0
    }

    /// Returns the value of the line at a position.
    #[inline]
    fn at(&self, index: usize) -> u64 {
        let index = index as u64;
        self.base
            .wrapping_add(self.slope.wrapping_mul(index))
            .wrapping_add((u64::from(self.fraction) * index) >> 16)
    }

    /// Returns the values of the line from a position on.
    fn points(self, first: usize) -> impl Iterator<Item = u64> {
        let (slope, fraction) = (self.slope, u64::from(self.fraction));
        let first = first as u64;
        let begin = (
            self.base.wrapping_add(slope.wrapping_mul(first)),
            fraction * first,
        );
        let next = move |&(whole, part): &(u64, u64)| Some((whole.wrapping_add(slope), part + fraction));
        successors(Some(begin), next).map(|(whole, part)| whole.wrapping_add(part >> 16))
    }

    /// Bytes of a column of `count` numbers.
    pub(super) fn len(&self, count: usize) -> usize {
        HEADER_LEN + (count * self.bits as usize).div_ceil(8) + PADDING_LEN
    }

    /// Appends the column.
    pub(super) fn write(&self, numbers: &[u64], out: &mut Vec<u8>) {
        let end = out.len() + self.len(numbers.len());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.slope.to_le_bytes());
        out.extend_from_slice(&self.fraction.to_le_bytes());
        let [bits, below_gap, gap] = [self.bits, self.below_gap, self.gap].map(|bits| bits.to_le_bytes()[0]);
        out.extend_from_slice(&[bits, below_gap, gap, 0, 0, 0]);
        let (mut pending, mut filled) = (0_u128, 0);
        if self.bits > 0 {
            for (&number, on_line) in numbers.iter().zip(self.points(0)) {
                let difference = number.wrapping_sub(on_line);
                let low = difference & low_bits(self.below_gap);
                let packed = low | ((difference - low) >> self.gap);
                pending |= u128::from(packed) << filled;
                filled += self.bits;
                if filled >= 64 {
                    out.extend_from_slice(&pending.to_le_bytes()[..8]);
                    pending >>= 64;
                    filled -= 64;
                }
            }
        }
        out.extend_from_slice(&pending.to_le_bytes()[..filled.div_ceil(8) as usize]);
        out.resize(end, 0);
    }
}

/// The lowest bits of a number.
fn low_bits(bits: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
}

/// The longest stretch of zeros between ones: where it begins, and its length; 0 if there is none.
fn longest_gap(ones: u64) -> (u32, u32) {
    let (mut at, mut longest) = (0, (0, 0));
    let top = u64::BITS - ones.leading_zeros();
    while at < top {
        let zeros = (ones >> at).trailing_zeros().min(top - at);
        if zeros > longest.1 {
            longest = (at, zeros);
        }
        at += zeros;
        at += (ones.checked_shr(at).unwrap_or(0)).trailing_ones();
    }
    longest
}

/// The bits of the largest difference, as columns have them.
fn bits_of(difference: u64) -> u32 {
    match u64::BITS - difference.leading_zeros() {
        bits if bits <= BITS_MAX => bits,
        _ => u64::BITS,
    }
}

/// The packed columns of a page: a few of them, those of an index, without an allocation.
#[derive(Debug, Clone)]
pub(super) struct Frames<'p> {
    few: [Frame<'p>; FEW],
    count: usize,
    /// All of them, if they are more than a few.
    many: Vec<Frame<'p>>,
}

const FEW: usize = 4;

/// How far from its position on a line a number is first searched for.
const BRACKET: usize = 8;
/// By how much farther next.
const BRACKET_GROWTH: usize = 4;

impl<'p> Frames<'p> {
    /// Takes `columns` columns of `count` numbers off `bytes`; `None` if they are not all there.
    #[inline]
    pub(super) fn take(bytes: &mut &'p [u8], columns: usize, count: usize) -> Option<Self> {
        let mut frames = Self {
            few: [Frame::default(); FEW],
            count: columns,
            many: Vec::new(),
        };
        if columns > FEW {
            let many = (0..columns).map(|_| Frame::take(bytes, count));
            frames.many = many.collect::<Option<_>>()?;
            return Some(frames);
        }
        for frame in &mut frames.few[..columns] {
            *frame = Frame::take(bytes, count)?;
        }
        Some(frames)
    }
}

impl<'p> Deref for Frames<'p> {
    type Target = [Frame<'p>];

    #[inline]
    fn deref(&self) -> &[Frame<'p>] {
        if self.count > FEW {
            &self.many
        } else {
            &self.few[..self.count]
        }
    }
}

/// A packed column.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frame<'p> {
    line: Line,
    mask: u64,
    mask_below_gap: u64,
    count: usize,
    differences: &'p [u8],
}

impl<'p> Frame<'p> {
    /// Takes a column of `count` numbers off `bytes`; `None` if it is not all there.
    pub(super) fn take(bytes: &mut &'p [u8], count: usize) -> Option<Self> {
        let (header, _) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let (words, _) = header.as_chunks::<8>();
        let [fraction_low, fraction_high, bits, below_gap, gap, ..] = words[2];
        let line = Line {
            base: u64::from_le_bytes(words[0]),
            slope: u64::from_le_bytes(words[1]),
            fraction: u16::from_le_bytes([fraction_low, fraction_high]),
            bits: u32::from(bits),
            below_gap: u32::from(below_gap),
            gap: u32::from(gap),
        };
        if (line.bits > BITS_MAX && line.bits != u64::BITS) || line.below_gap + line.gap >= u64::BITS {
            return None;
        }
        let (column, rest) = bytes.split_at_checked(line.len(count))?;
        *bytes = rest;
        Some(Self {
            line,
            mask: low_bits(line.bits),
            mask_below_gap: low_bits(line.below_gap),
            count,
            differences: &column[HEADER_LEN..],
        })
    }

    /// The number at a position.
    ///
    /// # Panics
    ///
    /// If the column has no such position.
    #[inline]
    pub(super) fn get(&self, index: usize) -> u64 {
        assert!(index < self.count, "number {index} of {}", self.count);
        self.line.at(index).wrapping_add(self.difference(index))
    }

    #[inline]
    fn difference(&self, index: usize) -> u64 {
        let bit = index * self.line.bits as usize;
        let word = self.differences[bit / 8..]
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let packed = (word >> (bit % 8)) & self.mask;
        let low = packed & self.mask_below_gap;
        low | ((packed - low) << self.line.gap)
    }

    /// Positions between which a number lies in a column that ascends: those before are less, and
    /// those behind are greater. Numbers near a line are looked for where it has them, so that a
    /// search stays in a few lines of the processor's cache.
    #[inline]
    pub(super) fn bracket(&self, number: u64) -> (usize, usize) {
        let line = &self.line;
        if line.is_level() || self.count == 0 {
            return (0, self.count);
        }
        // Differences are about half of the greatest.
        let rise = number.saturating_sub(line.base).saturating_sub(self.mask / 2);
        // The fraction is of account only where the whole part is small.
        let guess = if line.slope >> 48 == 0 {
            (rise.min(u64::MAX >> 16) << 16) / (line.slope << 16 | u64::from(line.fraction))
        } else {
            rise / line.slope
        };
        let guess = usize::try_from(guess).unwrap_or(self.count).min(self.count - 1);
        let (mut low, mut reach) = (guess, BRACKET);
        while low > 0 && self.get(low) >= number {
            low = low.saturating_sub(reach);
            reach *= BRACKET_GROWTH;
        }
        let (mut high, mut reach) = (guess, BRACKET);
        while high < self.count && self.get(high) <= number {
            high = (high + reach).min(self.count);
            reach *= BRACKET_GROWTH;
        }
        (low, high)
    }

    /// Appends the numbers at some positions to `out`.
    pub(super) fn unpack(&self, positions: Range<usize>, out: &mut Vec<u64>) {
        let begin = out.len();
        out.resize(begin + positions.len(), self.line.base);
        let out = &mut out[begin..];
        if !self.line.is_level() {
            let on_line = self.line.points(positions.start);
            out.iter_mut()
                .zip(on_line)
                .for_each(|(number, on_line)| *number = on_line);
        }
        if self.line.bits > 0 {
            for (number, index) in out.iter_mut().zip(positions) {
                *number = number.wrapping_add(self.difference(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pack(numbers: &[u64]) -> (Line, Vec<u8>) {
        let line = Line::through(numbers);
        let mut bytes = Vec::new();
        line.write(numbers, &mut bytes);
        assert_eq!(bytes.len(), line.len(numbers.len()));
        (line, bytes)
    }

    fn check(numbers: &[u64]) {
        let (_, bytes) = pack(numbers);
        let mut rest = &bytes[..];
        let frame = Frame::take(&mut rest, numbers.len()).expect("what was written");
        assert!(rest.is_empty());
        let mut unpacked = Vec::new();
        frame.unpack(0..numbers.len(), &mut unpacked);
        assert_eq!(unpacked, numbers);
        unpacked.clear();
        let middle = numbers.len() / 3;
        frame.unpack(middle..numbers.len(), &mut unpacked);
        assert_eq!(unpacked, numbers[middle..]);
        for (index, &number) in numbers.iter().enumerate() {
            assert_eq!(frame.get(index), number);
        }
        assert!(Frame::take(&mut &bytes[..bytes.len() - 1], numbers.len()).is_none());
    }

    proptest! {
        #[test]
        fn numbers_come_back(mut numbers in proptest::collection::vec(any::<u64>(), 0..300), shift in 0_u32..64, mask: u64, sorted: bool) {
            numbers.iter_mut().for_each(|number| *number = (*number >> shift) & mask);
            if sorted {
                numbers.sort_unstable();
            }
            check(&numbers);
        }
    }

    proptest! {
        #[test]
        fn a_number_lies_in_its_bracket(mut numbers in proptest::collection::vec(0_u64..1 << 20, 1..300), shift in 0_u32..44, near in 0_u64..300, asked: u64) {
            numbers.iter_mut().enumerate().for_each(|(at, number)| *number = (*number % (1 + near) + at as u64) << shift);
            numbers.sort_unstable();
            let (_, bytes) = pack(&numbers);
            let frame = Frame::take(&mut &bytes[..], numbers.len()).expect("what was written");
            let some = numbers[usize::try_from(asked).unwrap_or(0) % numbers.len()];
            for number in [0, asked, asked >> 20, some - some.min(1), some, some + 1, u64::MAX] {
                let (low, high) = frame.bracket(number);
                prop_assert!(low <= high && high <= numbers.len());
                prop_assert!(numbers[..low].iter().all(|&before| before < number));
                prop_assert!(numbers[high..].iter().all(|&behind| behind > number));
            }
        }
    }

    #[test]
    fn extremes_come_back() {
        check(&[]);
        check(&[u64::MAX]);
        check(&[0, u64::MAX]);
        check(&[u64::MAX, 0]);
        check(&[0, u64::MAX / 2, u64::MAX]);
        check(&[1 << 62, (1 << 62) + 1, 1 << 63]);
    }

    #[test]
    fn row_addresses_have_a_gap() {
        let addresses: Vec<u64> = (0..900)
            .map(|i| ((i * 7919 % 20_000) << 16) | (i * 31 % 200 + 1))
            .collect();
        check(&addresses);
        // 15 bits for the page and 8 for the row.
        assert_eq!(pack(&addresses).0.bits, 23);
        assert_eq!(longest_gap(0), (0, 0));
        assert_eq!(longest_gap(0b1000_0001), (1, 6));
        assert_eq!(longest_gap(1 << 63), (0, 63));
        assert_eq!(longest_gap(u64::MAX), (0, 0));
    }

    #[test]
    fn what_lies_on_a_line_takes_no_room() {
        let even: Vec<u64> = (0..1000).map(|i| 1_700_000_000_000 + 10 * i).collect();
        assert_eq!(pack(&even).0.bits, 0);
        let odd: Vec<u64> = (0..1000).map(|i| 77 + i * 10 / 3).collect();
        assert!(pack(&odd).0.bits <= 1);
        let constant = [5; 100];
        assert_eq!(pack(&constant).0.bits, 0);
    }
}
