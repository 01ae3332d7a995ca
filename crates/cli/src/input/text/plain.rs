//! Lines without quotes, whose fields are found eight bytes at a time.

/// A line that was split.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Bytes of the line, without its end.
    pub(super) len: usize,
    pub(super) fields: usize,
}

/// Splits the line with which `text` begins: writes where each field ends, counted from `first`,
/// into `ends`. `None` if the line has a quote, or not all of it is in `text`, or its fields are
/// more than `ends` has room for; what `ends` holds is then of no use.
pub(super) fn split(text: &[u8], delimiter: u8, first: usize, ends: &mut [usize]) -> Option<Line> {
    let sought = [delimiter, b'\n', b'\r', b'"'].map(|byte| u64::from_ne_bytes([byte; 8]));
    let mut fields = 0;
    // A line that ends in the last few bytes is left to the caller, as if it did not end there.
    for (number, word) in text.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let mut found = sought.iter().fold(0, |found, same| found | zeros(word ^ same));
        while found != 0 {
            let at = 8 * number + (found.trailing_zeros() / 8) as usize;
            found &= found - 1;
            let byte = text[at];
            if byte == b'"' {
                return None;
            }
            *ends.get_mut(fields)? = first + at;
            fields += 1;
            if byte != delimiter {
                return Some(Line { len: at, fields });
            }
        }
    }
    None
}

/// The highest bit of each byte of `word` that is zero.
fn zeros(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    !(((word & LOW) + LOW) | word | LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Option<Vec<&str>> {
        let mut ends = [0; 4];
        let line = split(text.as_bytes(), b',', 100, &mut ends)?;
        let ends = ends[..line.fields].iter().map(|end| end - 100);
        let mut start = 0;
        let fields = ends.map(|end| &text[std::mem::replace(&mut start, end + 1)..end]);
        let fields = fields.collect();
        assert_eq!(start, line.len + 1);
        Some(fields)
    }

    #[test]
    fn a_line_ends_at_either_end() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("a,,bcdefghijk,é{end}next line");
            assert_eq!(fields(&text).unwrap(), ["a", "", "bcdefghijk", "é"]);
        }
        assert_eq!(fields("\nnext line").unwrap(), [""]);
    }

    #[test]
    fn lines_that_are_not_plain_or_not_whole_are_left() {
        for text in [
            "",
            "a,b",
            "a,b,c,d,e,f,g,h\n",
            "a,\"b\"\nnext line",
            "a,b\"c\nnext line",
        ] {
            assert_eq!(fields(text), None, "{text}");
        }
        assert_eq!(
            fields("1,2,3,4,5\nnext line"),
            None,
            "more fields than there is room for"
        );
    }

    #[test]
    fn no_other_byte_is_taken_for_one_sought() {
        for byte in (0..=u8::MAX).filter(|byte| !b",\n\r\"".contains(byte)) {
            let mut text = [byte; 16];
            text[13] = b'\n';
            let line = split(&text, b',', 0, &mut [0; 4]);
            assert_eq!(line, Some(Line { len: 13, fields: 1 }), "{byte}");
        }
    }
}
