//! Columns of numbers, packed.
//!
//! A number is what a straight line says at its position, plus a difference of as few bits as the column needs: a
//! frame of reference that is tilted. Sorted keys lie near the line between the first and the last, and the times of
//! a sensor on it; an unsorted column gets a level line. Any number can be read by itself.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | base |
//! | 8 | 8 | slope, whole part |
//! | 16 | 2 | slope, fraction of 2¹⁶ |
//! | 18 | 1 | bits of a difference: 0 to 57, or 64 |
//! | 19 | 5 | zero |
//! | 24 | … | differences, lowest bits first, without gaps |
//! | … | 8 | zero, so that eight bytes can be read at any difference |
//!
//! Number *i* = base + slope · *i* + ⌊fraction · *i* / 2¹⁶⌋ + difference *i*, modulo 2⁶⁴.

use std::mem::size_of;

const HEADER_LEN: usize = 24;
const PADDING_LEN: usize = size_of::<u64>();
/// A difference begins at any bit of a byte, and all of it must lie within the eight bytes from there.
const BITS_MAX: u32 = 57;

/// How a column is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    base: u64,
    slope: u64,
    fraction: u16,
    bits: u32,
}

impl Line {
    /// The line that needs the fewest bits for these numbers, of the level one and the one through both ends.
    pub(super) fn through(numbers: &[u64]) -> Self {
        let Some((&first, &last)) = numbers.first().zip(numbers.last()) else {
            return Self::default();
        };
        let (mut low, mut high) = (first, first);
        for &number in numbers {
            (low, high) = (low.min(number), high.max(number));
        }
        let level = Self {
            base: low,
            bits: bits_of(high - low),
            ..Self::default()
        };
        // Beyond that the differences would need a sign of their own.
        if last <= first || high - low > u64::MAX >> 2 {
            return level;
        }
        let steps = numbers.len() as u64 - 1;
        let rise = last - first;
        let mut tilted = Self {
            base: first,
            slope: rise / steps,
            fraction: u16::try_from(((rise % steps) << 16) / steps).unwrap_or(u16::MAX),
            bits: 0,
        };
        let (mut least, mut most) = (0, 0);
        for (index, &number) in numbers.iter().enumerate() {
            let difference = number.wrapping_sub(tilted.at(index)).cast_signed();
            (least, most) = (least.min(difference), most.max(difference));
        }
        tilted.base = first.wrapping_add_signed(least);
        tilted.bits = bits_of(most.wrapping_sub(least).cast_unsigned());
        if tilted.bits < level.bits { tilted } else { level }
    }

    /// What the line says at a position.
    fn at(&self, index: usize) -> u64 {
        let index = index as u64;
        self.base
            .wrapping_add(self.slope.wrapping_mul(index))
            .wrapping_add((u64::from(self.fraction) * index) >> 16)
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
        out.extend_from_slice(&[self.bits.to_le_bytes()[0], 0, 0, 0, 0, 0]);
        let (mut pending, mut filled) = (0_u128, 0);
        for (index, &number) in numbers.iter().enumerate() {
            pending |= u128::from(number.wrapping_sub(self.at(index))) << filled;
            filled += self.bits;
            if filled >= 64 {
                out.extend_from_slice(&pending.to_le_bytes()[..8]);
                pending >>= 64;
                filled -= 64;
            }
        }
        out.extend_from_slice(&pending.to_le_bytes()[..filled.div_ceil(8) as usize]);
        out.resize(end, 0);
    }
}

/// The bits of the largest difference, as columns have them.
fn bits_of(difference: u64) -> u32 {
    match u64::BITS - difference.leading_zeros() {
        bits if bits <= BITS_MAX => bits,
        _ => u64::BITS,
    }
}

/// A packed column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'p> {
    line: Line,
    mask: u64,
    count: usize,
    differences: &'p [u8],
}

impl<'p> Frame<'p> {
    /// Takes a column of `count` numbers off `bytes`; `None` if it is not all there.
    pub(super) fn take(bytes: &mut &'p [u8], count: usize) -> Option<Self> {
        let (header, _) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let (words, _) = header.as_chunks::<8>();
        let [fraction_low, fraction_high, bits, ..] = words[2];
        let line = Line {
            base: u64::from_le_bytes(words[0]),
            slope: u64::from_le_bytes(words[1]),
            fraction: u16::from_le_bytes([fraction_low, fraction_high]),
            bits: u32::from(bits),
        };
        if line.bits > BITS_MAX && line.bits != u64::BITS {
            return None;
        }
        let (column, rest) = bytes.split_at_checked(line.len(count))?;
        *bytes = rest;
        Some(Self {
            line,
            mask: u64::MAX.checked_shr(u64::BITS - line.bits).unwrap_or(0),
            count,
            differences: &column[HEADER_LEN..],
        })
    }

    /// The number at a position.
    ///
    /// # Panics
    ///
    /// If the column has no such position.
    pub(super) fn get(&self, index: usize) -> u64 {
        assert!(index < self.count, "number {index} of {}", self.count);
        self.line.at(index).wrapping_add(self.difference(index))
    }

    fn difference(&self, index: usize) -> u64 {
        let bit = index * self.line.bits as usize;
        let word = self.differences[bit / 8..]
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (word >> (bit % 8)) & self.mask
    }

    /// Appends all numbers to `out`.
    pub(super) fn unpack(&self, out: &mut Vec<u64>) {
        out.extend((0..self.count).map(|index| self.line.at(index).wrapping_add(self.difference(index))));
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
        frame.unpack(&mut unpacked);
        assert_eq!(unpacked, numbers);
        for (index, &number) in numbers.iter().enumerate() {
            assert_eq!(frame.get(index), number);
        }
        assert!(Frame::take(&mut &bytes[..bytes.len() - 1], numbers.len()).is_none());
    }

    proptest! {
        #[test]
        fn numbers_come_back(mut numbers in proptest::collection::vec(any::<u64>(), 0..300), shift in 0_u32..64, sorted: bool) {
            numbers.iter_mut().for_each(|number| *number >>= shift);
            if sorted {
                numbers.sort_unstable();
            }
            check(&numbers);
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
    fn what_lies_on_a_line_takes_no_room() {
        let even: Vec<u64> = (0..1000).map(|i| 1_700_000_000_000 + 10 * i).collect();
        assert_eq!(pack(&even).0.bits, 0);
        let odd: Vec<u64> = (0..1000).map(|i| 77 + i * 10 / 3).collect();
        assert!(pack(&odd).0.bits <= 1);
        let constant = [5; 100];
        assert_eq!(pack(&constant).0.bits, 0);
    }
}
