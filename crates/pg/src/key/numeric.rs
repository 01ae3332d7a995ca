//! Values of `numeric` as bytes in the order of the numbers.
//!
//! | bytes | |
//! |---|---|
//! | 1 | 1: minus infinity, 2: a negative number, 3: zero, 4: a positive one, 5: infinity, 6: NaN |
//! | 2 | the power of 10,000 of the first digit, the greatest byte first, the sign flipped |
//! | 2 each | digits to the base of 10,000 plus 256, the greatest byte first, without outer zeros |
//! | 1 | 0 |
//!
//! Only numbers other than zero have more than the first byte, and negative ones have the others
//! inverted. No value's bytes begin with those of another.
//!
//! Equal numbers have equal bytes: how many decimal places a value shows is not among them.

/// The first byte of a value, in the order of the numbers.
const MINUS_INFINITY: u8 = 1;
const NEGATIVE: u8 = 2;
const ZERO: u8 = 3;
const POSITIVE: u8 = 4;
const INFINITY: u8 = 5;
const NOT_A_NUMBER: u8 = 6;

/// Added to digits, so that none begins with the byte that ends them.
const DIGIT_MIN: u16 = 256;
const DIGIT_END: u16 = DIGIT_MIN + 10_000;
const END: u8 = 0;

/// Bits of the first word of a value as the server stores it. [`KIND_BITS`] say whether it is a
/// special value, a number whose weight is in this word (short), or one whose weight is in the
/// next.
const KIND_BITS: u16 = 0xc000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xc000;
const STORED_NAN: u16 = 0xc000;
const STORED_INFINITY: u16 = 0xd000;
const STORED_MINUS_INFINITY: u16 = 0xf000;
const SPECIAL_BITS: u16 = 0xf000;
const LONG_NEGATIVE: u16 = 0x4000;
const LONG_SCALE_BITS: u16 = 0x3fff;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_AT: u32 = 7;
const SHORT_SCALE_MAX: u16 = 0x3f;
const SHORT_WEIGHT_BITS: u16 = 0x7f;
const SHORT_WEIGHT_MIN: i16 = -64;
const SHORT_WEIGHT_MAX: i16 = 63;

/// Bytes before the digits of a key.
const HEADER_LEN: usize = 3;

/// The decoded header of a finite number, as the server stores it.
struct Header {
    is_negative: bool,
    /// Decimal places that are shown.
    scale: u16,
    weight: i16,
    /// Bytes of the header.
    len: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

/// The header of a stored value; `None` of a special one.
fn header(stored: &[u8]) -> Option<Header> {
    let first = word(stored, 0)?;
    match first & KIND_BITS {
        SPECIAL => None,
        SHORT => Some(Header {
            is_negative: first & SHORT_NEGATIVE != 0,
            scale: first >> SHORT_SCALE_AT & SHORT_SCALE_MAX,
            // The lowest seven bits, with their sign.
            weight: (first << 9).cast_signed() >> 9,
            len: 2,
        }),
        sign => Some(Header {
            is_negative: sign == LONG_NEGATIVE,
            scale: first & LONG_SCALE_BITS,
            weight: word(stored, 2)?.cast_signed(),
            len: 4,
        }),
    }
}

/// Appends the bytes of a value, given those that the server stores.
pub(super) fn push_key(stored: &[u8], key: &mut Vec<u8>) {
    let Some(Header {
        is_negative,
        mut weight,
        len,
        ..
    }) = header(stored)
    else {
        key.push(match word(stored, 0).unwrap_or(STORED_NAN) & SPECIAL_BITS {
            STORED_INFINITY => INFINITY,
            STORED_MINUS_INFINITY => MINUS_INFINITY,
            _ => NOT_A_NUMBER,
        });
        return;
    };
    let (mut digits, _) = stored[len..].as_chunks::<2>();
    while let [[0, 0], rest @ ..] = digits {
        digits = rest;
        weight = weight.saturating_sub(1);
    }
    while let [rest @ .., [0, 0]] = digits {
        digits = rest;
    }
    if digits.is_empty() {
        key.push(ZERO);
        return;
    }
    key.push(if is_negative { NEGATIVE } else { POSITIVE });
    let begin = key.len();
    let weight = weight.cast_unsigned() ^ 0x8000;
    key.extend_from_slice(&weight.to_be_bytes());
    for digit in digits {
        let digit = u16::from_le_bytes(*digit).min(DIGIT_END - DIGIT_MIN - 1) + DIGIT_MIN;
        key.extend_from_slice(&digit.to_be_bytes());
    }
    key.push(END);
    if is_negative {
        invert(&mut key[begin..]);
    }
}

fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

/// The fewest bytes of a key, given how many the server stores: it stores up to four for zero.
pub(super) fn least_key_len(stored_len: usize) -> usize {
    stored_len.saturating_sub(3).max(1)
}

/// How many of the first bytes are those of a value, which may all be `inverted`; `None` if they
/// end within it.
pub(super) fn key_len(bytes: &[u8], inverted: bool) -> Option<usize> {
    let mask = |is_inverted: bool| if is_inverted { 0xff } else { 0 };
    let class = bytes.first()? ^ mask(inverted);
    if class != NEGATIVE && class != POSITIVE {
        return Some(1);
    }
    let end = END ^ mask(inverted != (class == NEGATIVE));
    let (digits, _) = bytes.get(HEADER_LEN..)?.as_chunks::<2>();
    let digits = digits.iter().take_while(|digit| digit[0] != end).count();
    let len = HEADER_LEN + 2 * digits + 1;
    (bytes.get(len - 1) == Some(&end)).then_some(len)
}

/// How many decimal places a stored value shows.
pub(super) fn scale_of(stored: &[u8]) -> u16 {
    header(stored).map_or(0, |header| header.scale)
}

/// A value of a key, to be stored as the server does.
pub(super) struct Number<'k> {
    class: u8,
    scale: u16,
    weight: i16,
    digits: &'k [[u8; 2]],
}

impl<'k> Number<'k> {
    /// The value of a key, not inverted, that shows so many decimal places; `None` if the bytes are
    /// damaged.
    pub(super) fn of_key(key: &'k [u8], scale: u16) -> Option<Self> {
        let (&class, rest) = key.split_first()?;
        let mut number = Self {
            class,
            scale: scale.min(LONG_SCALE_BITS),
            weight: 0,
            digits: &[],
        };
        if class == NEGATIVE || class == POSITIVE {
            let (weight, rest) = rest.split_first_chunk()?;
            let mask = number.mask();
            number.weight = (u16::from_be_bytes(*weight) ^ mask ^ 0x8000).cast_signed();
            let (digits, [_end]) = rest.as_chunks() else {
                return None;
            };
            number.digits = digits;
            let is_digit =
                |digit: &[u8; 2]| (DIGIT_MIN..DIGIT_END).contains(&(u16::from_be_bytes(*digit) ^ mask));
            return digits.iter().all(is_digit).then_some(number);
        }
        let is_known = (MINUS_INFINITY..=NOT_A_NUMBER).contains(&class);
        (is_known && rest.is_empty()).then_some(number)
    }

    /// The bits of words that are inverted.
    fn mask(&self) -> u16 {
        if self.class == NEGATIVE { u16::MAX } else { 0 }
    }

    fn is_short(&self) -> bool {
        self.scale <= SHORT_SCALE_MAX && (SHORT_WEIGHT_MIN..=SHORT_WEIGHT_MAX).contains(&self.weight)
    }

    fn is_special(&self) -> bool {
        !(NEGATIVE..=POSITIVE).contains(&self.class)
    }

    /// Bytes that the server stores.
    pub(super) fn stored_len(&self) -> usize {
        let header = if self.is_special() || self.is_short() {
            2
        } else {
            4
        };
        header + 2 * self.digits.len()
    }

    /// Writes these bytes to `stored`, which has as many.
    pub(super) fn put(&self, stored: &mut [u8]) {
        let is_negative = self.class == NEGATIVE;
        let first = match self.class {
            MINUS_INFINITY => STORED_MINUS_INFINITY,
            INFINITY => STORED_INFINITY,
            NOT_A_NUMBER => STORED_NAN,
            _ if self.is_short() => {
                let sign = if is_negative { SHORT_NEGATIVE } else { 0 };
                let weight = self.weight.cast_unsigned() & SHORT_WEIGHT_BITS;
                SHORT | sign | self.scale << SHORT_SCALE_AT | weight
            }
            _ => self.scale | if is_negative { LONG_NEGATIVE } else { 0 },
        };
        let (words, _) = stored.as_chunks_mut::<2>();
        let mask = self.mask();
        let mut next = words.iter_mut();
        let mut put = |word: u16| {
            if let Some(bytes) = next.next() {
                *bytes = word.to_le_bytes();
            }
        };
        put(first);
        if !self.is_special() && !self.is_short() {
            put(self.weight.cast_unsigned());
        }
        for digit in self.digits {
            put((u16::from_be_bytes(*digit) ^ mask).wrapping_sub(DIGIT_MIN));
        }
    }
}
