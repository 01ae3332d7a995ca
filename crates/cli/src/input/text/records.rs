//! The records of a CSV text, and the lines on which they stand.

use std::io::{Cursor, Read as _};
use std::ops::Range;
use std::time::Instant;

use csv_core::ReadRecordResult;

use super::quotes::Quotes;
use super::{Read, plain};
use crate::exit::{Failure, Result};
use crate::input::bytes::text_failure;
use crate::input::live::Text;
use crate::input::rejects::SKIP;
use crate::input::{Place, Reason, Reject};

/// The mark of byte order that a text may begin with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A record longer than this is assumed to have an unclosed quote.
pub(in crate::input) const RECORD_BYTES_MAX: usize = 64 << 20;

/// A record with more fields than this is no row of a table.
const RECORD_FIELDS_MAX: usize = 1 << 20;

/// Reads records. Line ends may be `\n`, `\r\n` or `\r`; blank lines are passed over.
///
/// The line numbers of `csv_core` are those of the end of the *previous* record, which is another
/// line if blank lines follow it or lines end in `\r\n`. So line ends are counted here.
pub(super) struct RecordReader {
    name: String,
    text: Box<dyn Text>,
    delimiter: u8,
    parser: csv_core::Reader,
    /// The line on which the next byte of the text stands.
    line: u64,
    /// Whether the byte before that is a `\r`, which ended its line; a `\n` then belongs to it.
    after_return: bool,
    /// Whether the text has ended, and the parser was given the line end that its last line may
    /// lack.
    ended: bool,
    /// Whether the parser has read bytes: those after a mark of byte order.
    has_begun: bool,
}

impl RecordReader {
    pub(super) fn new(name: String, text: Box<dyn Text>, delimiter: u8) -> Self {
        let parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Self {
            name,
            text,
            delimiter,
            parser,
            line: 1,
            after_return: false,
            ended: false,
            has_begun: false,
        }
    }

    /// Takes a mark of byte order off the beginning of the text, which may come in pieces:
    /// `csv_core` takes a piece with nothing else for the end of the text.
    fn skip_byte_order_mark(&mut self) -> Result<()> {
        let mut first = Vec::new();
        self.text
            .by_ref()
            .take(BYTE_ORDER_MARK.len() as u64)
            .read_to_end(&mut first)
            .map_err(|error| text_failure(&self.name, &error))?;
        if first != BYTE_ORDER_MARK {
            let rest = std::mem::replace(&mut self.text, Box::new(&[][..]));
            self.text = Box::new(Cursor::new(first).chain(rest));
        }
        Ok(())
    }

    /// Waits for the next record of a live feed; `false` if the time is up first.
    pub(super) fn await_record(&mut self, until: Option<Instant>) -> Result<bool> {
        let awaited = self.text.await_line(until);
        awaited.map_err(|error| text_failure(&self.name, &error))
    }

    /// Appends the next record to `records`.
    pub(super) fn read(&mut self, records: &mut Records) -> Result<Read> {
        if !self.has_begun {
            self.skip_byte_order_mark()?;
        }
        self.skip_line_ends()?;
        if self.has_begun && self.read_plain(records)? {
            return Ok(Read::Record);
        }
        let line = self.line;
        let mut quotes = Quotes::default();
        let (mut bytes_len, mut ends_len) = records.used();
        let (first_byte, first_end) = (bytes_len, ends_len);
        loop {
            if records.bytes.len() == bytes_len {
                records.bytes.resize((2 * bytes_len).max(4096), 0);
            }
            if records.ends.len() == ends_len {
                records.ends.resize((2 * ends_len).max(256), 0);
            }
            let text = self
                .text
                .fill_buf()
                .map_err(|error| text_failure(&self.name, &error))?;
            let last_line_end = text.is_empty() && !self.ended;
            let input = if last_line_end { b"\n" } else { text };
            let (result, read, bytes_written, ends_written) = self.parser.read_record(
                input,
                &mut records.bytes[bytes_len..],
                &mut records.ends[ends_len..],
            );
            if last_line_end {
                self.ended = read > 0;
                // A line end is part of a field only within quotes.
                if bytes_written > 0 {
                    return Err(Failure::input(format!(
                        "{}:{line}: a quote is left open",
                        self.name
                    )));
                }
            } else {
                let bytes = &input[..read];
                self.line += line_ends(bytes, &mut self.after_return);
                quotes.take(bytes, self.delimiter);
                self.text.consume(read);
            }
            self.has_begun = true;
            bytes_len += bytes_written;
            ends_len += ends_written;
            if bytes_len - first_byte > RECORD_BYTES_MAX {
                let mib = RECORD_BYTES_MAX >> 20;
                let message = format!(
                    "{}:{line}: a record of over {mib} MiB: is a quote left open?",
                    self.name
                );
                return Err(Failure::input(message));
            }
            if ends_len - first_end > RECORD_FIELDS_MAX {
                return Err(Failure::input(format!(
                    "{}:{line}: a record of over {RECORD_FIELDS_MAX} fields",
                    self.name
                )));
            }
            match result {
                ReadRecordResult::Record => {}
                ReadRecordResult::End => return Ok(Read::End),
                ReadRecordResult::InputEmpty
                | ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull => continue,
            }
            if quotes.goes_on() {
                return Ok(Read::Rejected(Reject {
                    place: Place::Line(line),
                    reason: Reason::Quotes,
                    detail: "a field goes on after its closing quote; a quote within quotes is doubled"
                        .to_owned(),
                    remedy: Some(SKIP.to_owned()),
                }));
            }
            // The parser counts the ends of fields from the record's first byte.
            records.ends[first_end..ends_len]
                .iter_mut()
                .for_each(|end| *end += first_byte);
            records.rows.push(Row {
                line,
                bytes_end: bytes_len,
                ends_end: ends_len,
                gap: 0,
            });
            return Ok(Read::Record);
        }
    }

    /// Appends the next record to `records` if the text's buffer has it as a whole line without
    /// quotes and there is room. The parser must be between two records, and does not see this one.
    fn read_plain(&mut self, records: &mut Records) -> Result<bool> {
        let text = self
            .text
            .fill_buf()
            .map_err(|error| text_failure(&self.name, &error))?;
        let (bytes_len, ends_len) = records.used();
        let ends = &mut records.ends[ends_len..];
        let Some(split) = plain::split(text, self.delimiter, bytes_len, ends) else {
            return Ok(false);
        };
        let bytes_end = bytes_len + split.len;
        let Some(room) = records.bytes.get_mut(bytes_len..bytes_end) else {
            return Ok(false);
        };
        room.copy_from_slice(&text[..split.len]);
        records.rows.push(Row {
            line: self.line,
            bytes_end,
            ends_end: ends_len + split.fields,
            gap: 1,
        });
        self.line += 1;
        self.after_return = text[split.len] == b'\r';
        self.text.consume(split.len + 1);
        Ok(true)
    }

    /// Passes over what is left of the line end before, and over blank lines.
    fn skip_line_ends(&mut self) -> Result<()> {
        loop {
            let input = self
                .text
                .fill_buf()
                .map_err(|error| text_failure(&self.name, &error))?;
            let blank = input
                .iter()
                .take_while(|&&byte| byte == b'\n' || byte == b'\r')
                .count();
            let all = blank == input.len();
            self.line += line_ends(&input[..blank], &mut self.after_return);
            self.text.consume(blank);
            if blank == 0 || !all {
                return Ok(());
            }
        }
    }
}

/// Counts the lines that end in some bytes, of which the one before is a `\r` or not, and so for
/// those that follow.
fn line_ends(bytes: &[u8], after_return: &mut bool) -> u64 {
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return 0;
    };
    let is_end = |&byte: &u8| u64::from(byte == b'\n' || byte == b'\r');
    let is_pair = |pair: &[u8]| u64::from(pair == b"\r\n");
    let ends: u64 = bytes.iter().map(is_end).sum();
    let pairs: u64 = bytes.windows(2).map(is_pair).sum();
    let halves = u64::from(*after_return && *first == b'\n');
    *after_return = *last == b'\r';
    ends - pairs - halves
}

/// Records side by side in one buffer.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The fields' bytes. Those after the last row are room for more.
    bytes: Vec<u8>,
    /// Where each field ends in `bytes`; again with room behind.
    ends: Vec<usize>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    /// The line on which the record begins.
    line: u64,
    /// Where the record ends in `bytes`, and its fields in `ends`.
    bytes_end: usize,
    ends_end: usize,
    /// Bytes between two fields: 1 if their delimiters were kept.
    gap: usize,
}

impl Records {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The memory of the records: their fields, of which each has an end even if it is empty.
    pub(super) fn bytes(&self) -> usize {
        let (bytes, ends) = self.used();
        bytes + ends * size_of::<usize>() + self.rows.len() * size_of::<Row>()
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    /// Appends a record of these fields.
    pub(super) fn push(&mut self, line: u64, fields: &[Vec<u8>]) {
        let (bytes_end, ends_end) = self.used();
        self.bytes.truncate(bytes_end);
        self.ends.truncate(ends_end);
        for field in fields {
            self.bytes.extend_from_slice(field);
            self.ends.push(self.bytes.len());
        }
        let (bytes_end, ends_end) = (self.bytes.len(), self.ends.len());
        self.rows.push(Row {
            line,
            bytes_end,
            ends_end,
            gap: 0,
        });
    }

    /// Forgets the last record.
    pub(super) fn pop(&mut self) {
        self.rows.pop();
    }

    /// How much of `bytes` and of `ends` belongs to rows.
    fn used(&self) -> (usize, usize) {
        self.rows
            .last()
            .map_or((0, 0), |row| (row.bytes_end, row.ends_end))
    }

    /// The number of fields of a record.
    pub(super) fn width(&self, row: usize) -> usize {
        self.field_ends(row).len()
    }

    /// The line on which a record begins.
    pub(super) fn line(&self, row: usize) -> u64 {
        self.rows[row].line
    }

    /// The line on which a field begins. A quote that is written twice within a field is one byte
    /// here, but a line end is always a line end.
    pub(super) fn field_line(&self, row: usize, field: usize) -> u64 {
        let span = self.field_span(row, field);
        self.line(row) + line_ends(&self.bytes[self.first_byte(row)..span.start], &mut false)
    }

    /// A field of a record, which must have it.
    pub(super) fn field(&self, row: usize, field: usize) -> &[u8] {
        &self.bytes[self.field_span(row, field)]
    }

    /// The fields of some rows as texts.
    pub(super) fn texts(&self, rows: Range<usize>) -> Texts<'_> {
        let start = self.first_byte(rows.start);
        let end = self.first_byte(rows.end);
        Texts {
            records: self,
            start,
            whole: std::str::from_utf8(&self.bytes[start..end]).ok(),
        }
    }

    fn field_span(&self, row: usize, field: usize) -> Range<usize> {
        let ends = self.field_ends(row);
        let start = if field == 0 {
            self.first_byte(row)
        } else {
            ends[field - 1] + self.rows[row].gap
        };
        start..ends[field]
    }

    fn field_ends(&self, row: usize) -> &[usize] {
        let start = if row == 0 { 0 } else { self.rows[row - 1].ends_end };
        &self.ends[start..self.rows[row].ends_end]
    }

    fn first_byte(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.rows[row - 1].bytes_end }
    }
}

/// Fields of rows that are texts together, so that not each of them need be checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts<'a> {
    records: &'a Records,
    /// Where `whole` begins among the bytes of the records.
    start: usize,
    /// The rows' bytes, if they are UTF-8.
    whole: Option<&'a str>,
}

impl<'a> Texts<'a> {
    /// A field of a record, and the same as a text if it is UTF-8.
    pub(super) fn field(&self, row: usize, field: usize) -> (&'a [u8], Option<&'a str>) {
        let span = self.records.field_span(row, field);
        let of_whole = self
            .whole
            .and_then(|whole| whole.get(span.start - self.start..span.end - self.start));
        let bytes = &self.records.bytes[span];
        // Two halves of a character in neighbouring fields are UTF-8 only together.
        (bytes, of_whole.or_else(|| std::str::from_utf8(bytes).ok()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Each record's line and fields, the text read in pieces of `buffer` bytes.
    fn read_all(text: &'static str, buffer: usize) -> Vec<(u64, Vec<String>)> {
        let text = BufReader::with_capacity(buffer, text.as_bytes());
        let mut reader = RecordReader::new("text".to_owned(), Box::new(text), b',');
        let mut records = Records::default();
        while !matches!(reader.read(&mut records).unwrap(), Read::End) {}
        (0..records.len())
            .map(|row| {
                let fields = (0..records.width(row))
                    .map(|field| String::from_utf8(records.field(row, field).to_vec()).unwrap());
                (records.line(row), fields.collect())
            })
            .collect()
    }

    fn row(line: u64, fields: &[&str]) -> (u64, Vec<String>) {
        (line, fields.iter().map(|&field| field.to_owned()).collect())
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        let expected = [
            row(1, &["a", "b"]),
            row(2, &["1", ""]),
            row(5, &["x\ny", "5"]),
            row(7, &["q\"q"]),
            row(8, &["6", "7"]),
        ];
        let with_crlf = [
            row(1, &["a", "b"]),
            row(2, &["1", ""]),
            row(5, &["x\r\ny", "5"]),
            row(7, &["q\"q"]),
            row(8, &["6", "7"]),
        ];
        let with_cr = [
            row(1, &["a", "b"]),
            row(2, &["1", ""]),
            row(5, &["x\ry", "5"]),
            row(7, &["q\"q"]),
            row(8, &["6", "7"]),
        ];
        for buffer in [1, 2, 3, 7, 4096] {
            assert_eq!(
                read_all("a,b\n1,\n\n\n\"x\ny\",5\n\"q\"\"q\"\n6,7", buffer),
                expected
            );
            let text = "a,b\r\n1,\r\n\r\n\r\n\"x\r\ny\",5\r\n\"q\"\"q\"\r\n6,7\r\n";
            assert_eq!(read_all(text, buffer), with_crlf);
            let text = "a,b\r1,\r\r\r\"x\ry\",5\r\"q\"\"q\"\r6,7\r";
            assert_eq!(read_all(text, buffer), with_cr);
        }
    }

    #[test]
    fn plain_lines_and_others_mix() {
        let header = row(1, &["number", "text"]);
        let text = "number,text\n1,plain line\r2,another one\r\n\n3,\"quoted, and \"\"\"\n4,\n5,\"\r\n\"\r\n6,the last line";
        let expected = [
            header,
            row(2, &["1", "plain line"]),
            row(3, &["2", "another one"]),
            row(5, &["3", "quoted, and \""]),
            row(6, &["4", ""]),
            row(7, &["5", "\r\n"]),
            row(9, &["6", "the last line"]),
        ];
        for buffer in [1, 5, 16, 40, 4096] {
            assert_eq!(read_all(text, buffer), expected, "{buffer}");
        }
    }

    #[test]
    fn longer_lines_than_there_is_room_for() {
        let long: String = (0..3000).map(|number| format!("{number},")).collect();
        let text: &'static str = format!("a\n{long}\n{long}\n1,2\n").leak();
        let lengths: Vec<usize> = read_all(text, 1 << 20).iter().map(|row| row.1.len()).collect();
        assert_eq!(lengths, [1, 3001, 3001, 2]);
    }

    #[test]
    fn halves_of_a_character_are_no_texts() {
        let text: &[u8] = b"a,b\n\"\xc3\",\"\xa9\"\nfirst \xc3\xa9,second\n";
        let mut reader = RecordReader::new("text".to_owned(), Box::new(text), b',');
        let mut records = Records::default();
        while !matches!(reader.read(&mut records).unwrap(), Read::End) {}
        for rows in [0..3, 1..2, 2..3] {
            let texts = records.texts(rows.clone());
            let text = |row, field| rows.contains(&row).then(|| texts.field(row, field).1);
            assert!(text(1, 0).is_none_or(|text| text.is_none()));
            assert!(text(1, 1).is_none_or(|text| text.is_none()));
            assert!(text(2, 0).is_none_or(|text| text == Some("first é")));
        }
    }

    #[test]
    fn byte_order_mark_and_emptiness() {
        for buffer in [1, 2, 3, 4, 4096] {
            assert_eq!(
                read_all("\u{feff}a\n1\n", buffer),
                [row(1, &["a"]), row(2, &["1"])]
            );
            assert_eq!(read_all("a", buffer), [row(1, &["a"])]);
            assert_eq!(read_all("\u{feff}", buffer), []);
        }
        assert_eq!(read_all("", 16), []);
        assert_eq!(read_all("\n\r\n\n", 16), []);
    }

    #[test]
    fn a_field_knows_its_own_line() {
        let text: &[u8] = b"a\n\"1\n2\n\",\"3\n\",4\n";
        let mut reader = RecordReader::new("text".to_owned(), Box::new(text), b',');
        let mut records = Records::default();
        while !matches!(reader.read(&mut records).unwrap(), Read::End) {}
        assert_eq!([0, 1, 2].map(|field| records.field_line(1, field)), [2, 4, 5]);
    }

    #[test]
    fn an_open_quote_is_an_error() {
        for text in ["a\n1\n\"2\n3\n", "a\n1\n\"2", "a\n1\n\"", "a\n1\n\"2\"\""] {
            let mut reader = RecordReader::new("text".to_owned(), Box::new(text.as_bytes()), b',');
            let mut records = Records::default();
            let failure = loop {
                match reader.read(&mut records) {
                    Ok(Read::Record) => {}
                    Ok(_) => panic!("{text} was read to its end"),
                    Err(failure) => break failure,
                }
            };
            assert_eq!(failure.to_string(), "text:3: a quote is left open");
        }
        assert_eq!(read_all("a\n\"2\"", 4096), [row(1, &["a"]), row(2, &["2"])]);
        assert_eq!(read_all("a\n\"2\n\"", 4096), [row(1, &["a"]), row(2, &["2\n"])]);
    }

    #[test]
    fn text_after_a_closing_quote_rejects_its_record() {
        let text = "\u{feff}\"a\",b\n\"1\",2\n\"3\"x,4\n5,\"6\n\"y\n\"7\",\"8\"";
        for buffer in [1, 3, 4, 5, 4096] {
            let text = BufReader::with_capacity(buffer, text.as_bytes());
            let mut reader = RecordReader::new("text".to_owned(), Box::new(text), b',');
            let (mut records, mut rejected) = (Records::default(), Vec::new());
            loop {
                match reader.read(&mut records).unwrap() {
                    Read::Record => {}
                    Read::Rejected(reject) => rejected.push((reject.place, reject.reason)),
                    Read::End => break,
                }
            }
            let lines = [3, 4].map(|line| (Place::Line(line), Reason::Quotes));
            assert_eq!(rejected, lines, "{buffer}");
            let kept: Vec<u64> = (0..records.len()).map(|row| records.line(row)).collect();
            assert_eq!(kept, [1, 2, 6], "{buffer}");
            assert_eq!(records.field(2, 1), b"8");
        }
    }

    #[test]
    fn the_last_record_can_be_forgotten() {
        let text: &[u8] = b"a,b\nc,d,e\n";
        let mut reader = RecordReader::new("text".to_owned(), Box::new(text), b',');
        let mut records = Records::default();
        reader.read(&mut records).unwrap();
        let bytes = records.bytes();
        reader.read(&mut records).unwrap();
        records.pop();
        assert_eq!((records.len(), records.bytes(), records.width(0)), (1, bytes, 2));
    }

    #[test]
    fn empty_fields_take_memory() {
        let text: &[u8] = b",,,,,,,,,\n";
        let mut reader = RecordReader::new("text".to_owned(), Box::new(text), b',');
        let mut records = Records::default();
        reader.read(&mut records).unwrap();
        assert!(records.bytes() >= size_of::<[usize; 10]>(), "{}", records.bytes());
    }
}
