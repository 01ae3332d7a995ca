//! Chunks of floating point numbers.
//!
//! Numbers that were decimals, such as 21.57, become integers: 2157 and an exponent of 2 for the
//! chunk. Division is correctly rounded, so 2157 / 10² is the double nearest to 21.57, as parsing
//! the text gives. Each number is checked bit for bit on writing; one that does not round-trip is
//! an exception. The idea is that of ALP (Afroozeh, Kuffo and Boncz, SIGMOD 2024). ALP multiplies
//! by two constants, which reads faster, but makes exceptions of some decimals and searches pairs
//! of exponents; one division loses none of up to 15 digits.
//!
//! A chunk of numbers that are not decimals stores their bits as integers.

use std::ops::Range;

use crate::bits::BLOCK;
use crate::error::{Error, Result, damaged};
use crate::ints::{Access, Ints, encode as encode_ints};
use crate::processor::by_processor;
use crate::wire::{Bytes, put_length};

const DECIMAL: u8 = 0;
const BITS: u8 = 1;

/// The powers of ten tried, all exact as doubles.
const POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// Added to a number between −2⁵¹ and 2⁵¹, rounds it to an integer in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Exclusive limit on the magnitude of a decimal's integer.
const DIGITS_END: u64 = 1 << 51;

/// A floating point type that chunks store.
pub(crate) trait Real: Copy + Default {
    /// Bytes of the type.
    const BYTES: usize;

    /// Returns its bits as an integer in the total order of IEEE 754.
    fn ordered(self) -> i64;
    /// The inverse of `ordered`; `None` if the integer has too many bits.
    fn from_ordered(ordered: i64) -> Option<Self>;
    fn to_f64(self) -> f64;
    /// Rounds to the nearest value.
    fn nearest(value: f64) -> Self;
    fn same_bits(self, other: Self) -> bool;
}

impl Real for f64 {
    const BYTES: usize = 8;

    fn ordered(self) -> i64 {
        let bits = self.to_bits().cast_signed();
        bits ^ (bits >> 63) & i64::MAX
    }

    fn from_ordered(ordered: i64) -> Option<Self> {
        Some(Self::from_bits(
            (ordered ^ (ordered >> 63) & i64::MAX).cast_unsigned(),
        ))
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn nearest(value: f64) -> Self {
        value
    }

    fn same_bits(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Real for f32 {
    const BYTES: usize = 4;

    fn ordered(self) -> i64 {
        let bits = self.to_bits().cast_signed();
        i64::from(bits ^ (bits >> 31) & i32::MAX)
    }

    fn from_ordered(ordered: i64) -> Option<Self> {
        let ordered = i32::try_from(ordered).ok()?;
        Some(Self::from_bits(
            (ordered ^ (ordered >> 31) & i32::MAX).cast_unsigned(),
        ))
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to the nearest is intended"
    )]
    fn nearest(value: f64) -> Self {
        value as Self
    }

    fn same_bits(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

/// Returns the integer of a decimal; meaningless if the value is not one.
#[inline(always)]
fn digits<R: Real>(value: R, power: f64) -> i64 {
    (value.to_f64() * power + ROUND)
        .to_bits()
        .wrapping_sub(ROUND.to_bits())
        .cast_signed()
}

#[inline(always)]
fn decimal<R: Real>(digits: i64, power: f64) -> R {
    let integer = f64::from_bits(digits.cast_unsigned().wrapping_add(ROUND.to_bits())) - ROUND;
    R::nearest(integer / power)
}

#[inline(always)]
fn is_decimal<R: Real>(value: R, digits: i64, power: f64) -> bool {
    digits.unsigned_abs() < DIGITS_END && decimal::<R>(digits, power).same_bits(value)
}

/// Returns the exponent that makes integers of the most values of a sample, if of nearly all.
fn exponent<R: Real>(values: &[R]) -> Option<u8> {
    let step = values.len().div_ceil(128).max(1);
    // Varies the step, as rows an even step apart may have fewer digits than those between.
    let rows = (0..).map(|number| number * step + number % step);
    let sample: Vec<R> = rows.map_while(|row| values.get(row).copied()).collect();
    let mut best = (0, None);
    for (exponent, power) in (0u8..).zip(POWERS) {
        let decimals = sample
            .iter()
            .filter(|value| is_decimal(**value, digits(**value, power), power))
            .count();
        if decimals > best.0 {
            best = (decimals, Some(exponent));
        }
        if decimals == sample.len() {
            break;
        }
    }
    // An exception takes 6 or 10 bytes.
    best.1.filter(|_| best.0 * 8 >= sample.len() * 7)
}

by_processor! {
    /// Writes the integers of decimals; returns whether all values are decimals.
    fn put_digits<R: Real>(values: &[R], power: f64, integers: &mut [i64]) -> bool {
        let mut all = true;
        // Branch-free, so that the loop vectorises.
        for (value, integer) in values.iter().zip(integers) {
            *integer = digits(*value, power);
            all &= is_decimal(*value, *integer, power);
        }
        all
    }
}

/// Appends a chunk of `values`.
pub(crate) fn encode<R: Real>(values: &[R], out: &mut Vec<u8>) {
    if let Some(exponent) = exponent(values) {
        let power = POWERS[usize::from(exponent)];
        let mut integers: Vec<i64> = vec![0; values.len()];
        let mut exceptions = Vec::new();
        let mut last = 0;
        for (start, (values, integers)) in (0..)
            .step_by(BLOCK)
            .zip(values.chunks(BLOCK).zip(integers.chunks_mut(BLOCK)))
        {
            if !put_digits(values, power, integers) {
                for (row, (value, integer)) in (start..).zip(values.iter().zip(integers.iter_mut())) {
                    if is_decimal(*value, *integer, power) {
                        last = *integer;
                    } else {
                        exceptions.push((row, *value));
                        *integer = last;
                    }
                }
            }
        }
        if exceptions.len() * 6 <= values.len() {
            out.extend_from_slice(&[DECIMAL, exponent]);
            put_length(out, exceptions.len());
            for (row, _) in &exceptions {
                out.extend_from_slice(
                    &u16::try_from(*row)
                        .expect("a leaf has at most 65,536 rows")
                        .to_le_bytes(),
                );
            }
            for (_, value) in &exceptions {
                out.extend_from_slice(&value.ordered().to_le_bytes()[..R::BYTES]);
            }
            encode_ints(&integers, Access::Any, out);
            return;
        }
    }
    out.push(BITS);
    let bits: Vec<i64> = values.iter().map(|value| value.ordered()).collect();
    encode_ints(&bits, Access::Any, out);
}

/// A parsed chunk of floating point numbers.
#[derive(Clone, Debug)]
pub(crate) struct Floats<'a> {
    /// The power of ten by which integers are divided; `None` if the integers are bits.
    power: Option<f64>,
    integers: Ints<'a>,
    /// Rows of exceptions in ascending order, and their bits.
    rows: &'a [[u8; 2]],
    exceptions: &'a [u8],
}

impl<'a> Floats<'a> {
    /// Parses a chunk of `count` numbers of type `R` that takes all of `bytes`.
    pub(crate) fn parse<R: Real>(count: usize, bytes: &'a [u8]) -> Result<Self> {
        let mut bytes = Bytes::new(bytes);
        let (mut power, mut rows, mut exceptions): (_, &[_], &[u8]) = (None, &[], &[]);
        match bytes.u8()? {
            BITS => {}
            DECIMAL => {
                power = POWERS.get(usize::from(bytes.u8()?)).copied();
                let found = bytes.length()?;
                if power.is_none() || found > count {
                    return damaged("an exponent of decimals is above 15, or exceptions are more than rows");
                }
                rows = bytes.take(found * 2)?.as_chunks().0;
                exceptions = bytes.take(found * R::BYTES)?;
            }
            _ => return damaged("a chunk of floating point numbers is of an unknown kind"),
        }
        Ok(Self {
            power,
            rows,
            exceptions,
            integers: Ints::parse(count, bytes.rest())?,
        })
    }

    /// Returns the numbers of `rows`, which must lie within the chunk.
    pub(crate) fn decode<R: Real>(&self, rows: Range<usize>) -> Result<Vec<R>> {
        let mut all = Vec::with_capacity(rows.len());
        let Some(power) = self.power else {
            self.integers.for_each(rows, |integers| {
                for integer in integers {
                    all.push(from_bits(*integer)?);
                }
                Ok(())
            })?;
            return Ok(all);
        };
        self.integers.for_each(rows.clone(), |integers| {
            all.extend(integers.iter().map(|integer| decimal::<R>(*integer, power)));
            Ok(())
        })?;
        let first = self.rows.partition_point(|row| row_of(row) < rows.start);
        let found = self.rows[first..]
            .iter()
            .zip(self.exceptions.chunks_exact(R::BYTES).skip(first));
        for (row, exception) in found.take_while(|(row, _)| row_of(row) < rows.end) {
            let value = all.get_mut(row_of(row).wrapping_sub(rows.start));
            *value.ok_or(Error::Damaged {
                what: "exceptions are not in order",
            })? = exception_value(exception)?;
        }
        Ok(all)
    }

    /// Returns the number of one row, which must lie within the chunk.
    pub(crate) fn get<R: Real>(&self, row: usize) -> Result<R> {
        let Some(power) = self.power else {
            return from_bits(self.integers.get(row)?);
        };
        match self.rows.binary_search_by_key(&row, row_of) {
            Ok(found) => match self.exceptions.chunks_exact(R::BYTES).nth(found) {
                Some(exception) => exception_value(exception),
                None => damaged("an exception has no value"),
            },
            Err(_) => Ok(decimal(self.integers.get(row)?, power)),
        }
    }
}

fn row_of(row: &[u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(*row))
}

fn from_bits<R: Real>(bits: i64) -> Result<R> {
    R::from_ordered(bits).ok_or(Error::Damaged {
        what: "a number of 32 bits has more",
    })
}

/// Reads the lowest bytes of an ordered integer and extends its sign.
fn exception_value<R: Real>(bytes: &[u8]) -> Result<R> {
    let mut all = [if bytes.last().is_some_and(|byte| *byte >= 0x80) {
        0xff
    } else {
        0
    }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    from_bits(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_fifteen_digits_are_no_exceptions() {
        for exponent in 0..=6u8 {
            let values: Vec<f64> = (0..4000i64)
                .map(|n| {
                    format!("{}e-{exponent}", (n - 2000) * 4_999_999_989)
                        .parse()
                        .unwrap()
                })
                .collect();
            let mut out = Vec::new();
            encode(&values, &mut out);
            assert_eq!(out[0], DECIMAL);
            let chunk = Floats::parse::<f64>(values.len(), &out).unwrap();
            assert!(chunk.rows.is_empty());
            assert_eq!(chunk.decode::<f64>(0..values.len()).unwrap(), values);
        }
    }

    #[test]
    fn each_bit_comes_back() {
        let odd = [
            f64::NAN,
            -0.0,
            f64::from_bits(0x7ff0_0000_0000_0001),
            f64::from_bits(u64::MAX),
            f64::MIN,
        ];
        let values: Vec<f64> = (0..3000)
            .map(|n| {
                if n % 100 == 7 {
                    odd[n / 100 % 5]
                } else {
                    n as f64 / 8.0
                }
            })
            .collect();
        let mut out = Vec::new();
        encode(&values, &mut out);
        assert_eq!(out[0], DECIMAL);
        let chunk = Floats::parse::<f64>(values.len(), &out).unwrap();
        assert_eq!(chunk.rows.len(), 30);
        let decoded = chunk.decode::<f64>(5..2500).unwrap();
        assert!(
            decoded
                .iter()
                .zip(&values[5..2500])
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
        assert!((0..3000).all(|row| chunk.get::<f64>(row).unwrap().to_bits() == values[row].to_bits()));
        let narrow: Vec<f32> = [f32::NAN, -0.0, f32::from_bits(0x7f80_0001), f32::MIN, 3.7].repeat(50);
        let mut out = Vec::new();
        encode(&narrow, &mut out);
        let decoded = Floats::parse::<f32>(250, &out)
            .unwrap()
            .decode::<f32>(0..250)
            .unwrap();
        assert!(
            decoded
                .iter()
                .zip(&narrow)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
}
