//! Packing numbers of up to 64 bits into blocks of 1,024.
//!
//! A block has 16 lanes: number *i* is in lane *i* mod 16, row *i* / 16. Each lane is a bit string
//! of its own, and the words of the lanes alternate. So the same shifts and masks apply to 16
//! neighbours at a time, which compilers vectorise, and one number is found without touching the
//! others. The layout follows FastLanes (Afroozeh and Boncz, VLDB 2023), but keeps numbers in their
//! order, so that any prefix of a block can be cut off.

use crate::processor::by_processor;

/// Numbers in a block.
pub(crate) const BLOCK: usize = 1024;

/// Neighbouring numbers that are packed in parallel.
pub(crate) const LANES: usize = 16;

/// Returns the words that `count` numbers of `width` bits take.
pub(crate) fn words(count: usize, width: u32) -> usize {
    (count.div_ceil(LANES) * width as usize).div_ceil(64) * LANES
}

/// Returns the bytes that `count` numbers of `width` bits take.
pub(crate) fn bytes(count: usize, width: u32) -> usize {
    words(count, width) * 8
}

/// Returns the greatest number of `width` bits.
pub(crate) fn mask(width: u32) -> u64 {
    u64::MAX.checked_shr(64 - width).unwrap_or(0)
}

/// Appends the lowest `width` bits of the first `count` numbers. To be inlined where it is compiled
/// [`by_processor`].
#[inline(always)]
pub(crate) fn pack(numbers: &[u64; BLOCK], count: usize, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mask, begin) = (mask(width), out.len());
    out.resize(begin + bytes(count, width), 0);
    let words = out[begin..].as_chunks_mut::<{ LANES * 8 }>().0;
    let mut bit = 0u32;
    for row in numbers.as_chunks::<LANES>().0.iter().take(count.div_ceil(LANES)) {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        for (lane, number) in words[word].as_chunks_mut().0.iter_mut().zip(row) {
            *lane = (u64::from_le_bytes(*lane) | (number & mask) << shift).to_le_bytes();
        }
        if shift + width > 64 {
            for (lane, number) in words[word + 1].as_chunks_mut().0.iter_mut().zip(row) {
                *lane = ((number & mask) >> (64 - shift)).to_le_bytes();
            }
        }
        bit += width;
    }
}

/// Numbers unpacked at a time.
pub(crate) const PIECE: usize = 128;

by_processor! {
    /// Unpacks numbers from `begin`, a multiple of 16, to the end of the piece or of the block of
    /// `count`. Numbers beyond that are undefined.
    ///
    /// `packed` must have [`bytes`]`(count, width)` bytes.
    pub(crate) fn unpack(packed: &[u8], begin: usize, count: usize, width: u32, numbers: &mut [u64; PIECE]) {
        if width == 0 {
            numbers.fill(0);
            return;
        }
        let rows = (count - begin).min(PIECE).div_ceil(LANES);
        let words = packed.as_chunks().0;
        let mut bit = u32::try_from(begin / LANES).expect("at most 64 rows") * width;
        for row in numbers.as_chunks_mut::<LANES>().0.iter_mut().take(rows) {
            unpack_row(words, bit, width, row);
            bit += width;
        }
    }
}

by_processor! {
    /// Returns the sum of the first `count` numbers. `packed` must have at least [`bytes`]`(count,
    /// width)` bytes.
    pub(crate) fn sum(packed: &[u8], count: usize, width: u32) -> u64 {
        if width == 0 {
            return 0;
        }
        let words = packed.as_chunks().0;
        let (mut sums, mut row) = ([0u64; LANES], [0u64; LANES]);
        let mut bit = 0u32;
        for _ in 0..count / LANES {
            unpack_row(words, bit, width, &mut row);
            for (sum, number) in sums.iter_mut().zip(&row) {
                *sum = sum.wrapping_add(*number);
            }
            bit += width;
        }
        let last = count % LANES;
        if last > 0 {
            unpack_row(words, bit, width, &mut row);
            for (sum, number) in sums.iter_mut().zip(&row[..last]) {
                *sum = sum.wrapping_add(*number);
            }
        }
        sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
    }
}

#[inline(always)]
fn unpack_row(words: &[[u8; 8]], bit: u32, width: u32, row: &mut [u64; LANES]) {
    let (mask, word, shift) = (mask(width), (bit / 64) as usize * LANES, bit % 64);
    let low: &[[u8; 8]; LANES] = words[word..].first_chunk().expect("each row of words has 16");
    if shift + width <= 64 {
        for (number, low) in row.iter_mut().zip(low) {
            *number = u64::from_le_bytes(*low) >> shift & mask;
        }
    } else {
        let high: &[[u8; 8]; LANES] = words[word + LANES..]
            .first_chunk()
            .expect("each row of words has 16");
        for ((number, low), high) in row.iter_mut().zip(low).zip(high) {
            *number = (u64::from_le_bytes(*low) >> shift | u64::from_le_bytes(*high) << (64 - shift)) & mask;
        }
    }
}

/// Returns the number at `index`. `packed` must have [`bytes`]`(count, width)` bytes for a `count`
/// above `index`.
pub(crate) fn get(packed: &[u8], index: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let row = u32::try_from(index / LANES).expect("at most 64 rows");
    let bit = row * width;
    let (word, shift) = ((bit / 64) as usize * LANES + index % LANES, bit % 64);
    let words = packed.as_chunks().0;
    let mut number = u64::from_le_bytes(words[word]) >> shift;
    if shift + width > 64 {
        number |= u64::from_le_bytes(words[word + LANES]) << (64 - shift);
    }
    number & mask(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_and_count_round_trips() {
        let mut state = 1u64;
        let numbers: [u64; BLOCK] = std::array::from_fn(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        });
        for width in 0..=64 {
            for count in [0, 1, 15, 16, 17, 130, 1024] {
                let mut packed = Vec::new();
                pack(&numbers, count, width, &mut packed);
                assert_eq!(packed.len(), bytes(count, width));
                let mut unpacked = [0; BLOCK];
                for (begin, piece) in (0..count).step_by(PIECE).zip(unpacked.as_chunks_mut().0) {
                    unpack(&packed, begin, count, width, piece);
                }
                for index in 0..count {
                    assert_eq!(
                        unpacked[index],
                        numbers[index] & mask(width),
                        "width {width}, {index} of {count}"
                    );
                    assert_eq!(get(&packed, index, width), unpacked[index]);
                    let sum_of_all = unpacked[..=index]
                        .iter()
                        .fold(0, |all: u64, one| all.wrapping_add(*one));
                    assert_eq!(sum(&packed, index + 1, width), sum_of_all);
                }
            }
        }
    }
}
