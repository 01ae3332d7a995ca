//! Quotes around the fields of a CSV record.

/// Looks for a field that goes on after its closing quote, as `"x"y` does. `csv_core` reads it as
/// `xy`, which is hardly ever what was meant: a quote within a quoted field has to be doubled.
#[derive(Debug, Default)]
pub(super) struct Quotes {
    /// Whether the next byte is within quotes.
    is_within: bool,
    /// Whether the last byte was a quote within quotes: it closes them unless another one follows.
    may_close: bool,
    /// The last byte; none at the beginning of the record.
    last: Option<u8>,
    /// Whether a field was found that goes on.
    goes_on: bool,
}

impl Quotes {
    /// Takes the next bytes of a record.
    pub(super) fn take(&mut self, bytes: &[u8], delimiter: u8) {
        let mut at = 0;
        loop {
            if self.may_close {
                let Some(&next) = bytes.get(at) else { break };
                self.may_close = false;
                if next == b'"' {
                    at += 1;
                } else {
                    self.is_within = false;
                    self.goes_on |= next != delimiter && next != b'\n' && next != b'\r';
                }
            }
            let Some(quote) = bytes[at..].iter().position(|&byte| byte == b'"') else {
                break;
            };
            let quote = at + quote;
            if self.is_within {
                self.may_close = true;
            } else {
                let before = if quote == 0 {
                    self.last
                } else {
                    Some(bytes[quote - 1])
                };
                // Elsewhere in a field it is a character like others.
                self.is_within = before.is_none_or(|byte| byte == delimiter);
            }
            at = quote + 1;
        }
        self.last = bytes.last().copied().or(self.last);
    }

    /// Whether a field was found that goes on after its closing quote.
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_ends_with_its_closing_quote() {
        for (record, expected) in [
            ("a,b\n", false),
            ("\"a\",\"b\"\n", false),
            ("\"a\",\"b\"", false),
            ("\"a\"\r\n", false),
            ("\"\",\"\"\"\",\"\"\"x\"\"\"\n", false),
            ("\"a,\"\",b\n\",c\n", false),
            ("a\"b,c\"d\"\n", false),
            (" \"a\",b \"c\"\n", false),
            ("\"a\"b,c\n", true),
            ("a,\"b\"c\n", true),
            ("\"a\" ,b\n", true),
            ("\"a\"\"\"b\n", true),
            ("\"said \"yes\" twice\"\n", true),
            ("\"a\"b,\"c\"\n", true),
        ] {
            for piece in 1..=record.len() {
                let mut quotes = Quotes::default();
                let pieces = record.as_bytes().chunks(piece);
                pieces.for_each(|bytes| quotes.take(bytes, b','));
                assert_eq!(quotes.goes_on(), expected, "{record:?} in pieces of {piece}");
            }
        }
    }
}
