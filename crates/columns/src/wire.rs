//! Reads and writes the small parts of a leaf: numbers of fixed and variable length.

use crate::error::{Error, Result, damaged};

/// Reads bytes in order, and never past their end.
#[derive(Clone, Debug)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns all unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::Damaged {
            what: "bytes end too early",
        })?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Damaged {
            what: "bytes end too early",
        })?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a LEB128 number: seven bits per byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        if let Some((value, length)) = self.0.first_chunk().and_then(|word| varint_in(*word)) {
            self.0 = &self.0[length..];
            return Ok(value);
        }
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        damaged("a number of variable length has more than 64 bits")
    }

    /// Reads a LEB128 number whose lowest bit is the sign.
    pub(crate) fn signed(&mut self) -> Result<i64> {
        let folded = self.varint()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    /// Reads a LEB128 number that counts bytes, rows or entries.
    pub(crate) fn length(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).or(damaged("a length is out of range"))
    }

    /// Reads a length and that many bytes.
    pub(crate) fn counted(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

/// Returns the LEB128 number at the front of eight bytes, and its length; `None` if it is longer.
fn varint_in(word: [u8; 8]) -> Option<(u64, usize)> {
    const CONTINUES: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(word);
    let ends = !word & CONTINUES;
    if ends == 0 {
        return None;
    }
    // The lowest of these bits is the highest of the last byte.
    let bits = word & (ends ^ (ends - 1)) & !CONTINUES;
    // Pairs of seven bits, then of 14, then of 28 are put together.
    let bits = bits & 0x007f_007f_007f_007f | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = bits & 0x0000_3fff_0000_3fff | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = bits & 0x0fff_ffff | (bits & 0x0fff_ffff_0000_0000) >> 4;
    Some((bits, (ends.trailing_zeros() / 8 + 1) as usize))
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ value >> 63).cast_unsigned());
}

pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    put_varint(out, as_u64(length));
}

pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Converts a length to 64 bits.
pub(crate) fn as_u64(length: usize) -> u64 {
    u64::try_from(length).expect("a length in memory has at most 64 bits")
}

/// Converts a length or offset within a leaf, whose parts all have fewer than 2³² bytes.
pub(crate) fn as_u32(length: usize) -> u32 {
    u32::try_from(length).expect("encode refuses columns of more than MAX_COLUMN_BYTES")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_length_come_back_whatever_follows() {
        let edges = (0..=64).flat_map(|bits| {
            let power = 1u64.checked_shl(bits).unwrap_or(0);
            [
                power.wrapping_sub(1),
                power,
                power.wrapping_add(1),
                power.wrapping_mul(3) / 2,
            ]
        });
        for value in edges {
            for (follows, count) in [(0, 0), (0, 9), (0xff, 3), (0xff, 9)] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                let length = bytes.len();
                bytes.resize(length + count, follows);
                let mut read = Bytes::new(&bytes);
                assert_eq!(read.varint().unwrap(), value);
                assert_eq!(read.rest().len(), count, "{value}");
                assert!(Bytes::new(&bytes[..length - 1]).varint().is_err(), "{value}");
            }
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_damage() {
        for bytes in [
            [0xff; 10],
            [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
        ] {
            assert!(Bytes::new(&bytes).varint().is_err());
        }
    }
}
