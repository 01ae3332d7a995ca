//! Maps the numbers of Arrow's arrays to the integers that chunks store.

use arrow_buffer::i256;
use half::f16;

/// A number of up to 64 bits, stored as an integer of the same order.
pub(crate) trait Narrow: Copy {
    fn ordered(self) -> i64;
    /// The inverse; `None` if the integer is out of this type's range.
    fn from_ordered(ordered: i64) -> Option<Self>;
}

macro_rules! narrow {
    ($($native:ty),*) => {$(
        impl Narrow for $native {
            #[inline]
            fn ordered(self) -> i64 {
                i64::from(self)
            }

            #[inline]
            fn from_ordered(ordered: i64) -> Option<Self> {
                Self::try_from(ordered).ok()
            }
        }
    )*};
}

narrow!(i8, i16, i32, i64, u8, u16, u32);

impl Narrow for u64 {
    fn ordered(self) -> i64 {
        (self ^ 1 << 63).cast_signed()
    }

    fn from_ordered(ordered: i64) -> Option<Self> {
        Some(ordered.cast_unsigned() ^ 1 << 63)
    }
}

/// Ordered by its bits in the total order of IEEE 754.
impl Narrow for f16 {
    fn ordered(self) -> i64 {
        let bits = self.to_bits().cast_signed();
        i64::from(bits ^ (bits >> 15) & i16::MAX)
    }

    fn from_ordered(ordered: i64) -> Option<Self> {
        let ordered = i16::try_from(ordered).ok()?;
        Some(Self::from_bits(
            (ordered ^ (ordered >> 15) & i16::MAX).cast_unsigned(),
        ))
    }
}

/// A number of more than 64 bits.
pub(crate) trait Wide: Copy {
    const BYTES: usize;

    fn to_i64(self) -> Option<i64>;
    fn from_i64(value: i64) -> Self;
    /// Appends its big-endian bytes with the sign bit inverted, which sort like the numbers.
    fn put_ordered(self, out: &mut Vec<u8>);
    fn from_ordered(bytes: &[u8]) -> Option<Self>;
}

impl Wide for i128 {
    const BYTES: usize = 16;

    fn to_i64(self) -> Option<i64> {
        self.try_into().ok()
    }

    fn from_i64(value: i64) -> Self {
        value.into()
    }

    fn put_ordered(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self ^ Self::MIN).to_be_bytes());
    }

    fn from_ordered(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_be_bytes(bytes.try_into().ok()?) ^ Self::MIN)
    }
}

impl Wide for i256 {
    const BYTES: usize = 32;

    fn to_i64(self) -> Option<i64> {
        self.to_i128()?.try_into().ok()
    }

    fn from_i64(value: i64) -> Self {
        Self::from_i128(value.into())
    }

    fn put_ordered(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self ^ Self::MIN).to_be_bytes());
    }

    fn from_ordered(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_be_bytes(bytes.try_into().ok()?) ^ Self::MIN)
    }
}
