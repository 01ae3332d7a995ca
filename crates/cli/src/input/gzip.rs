//! Text compressed by gzip: one member, or several one after the other.

use std::fmt;
use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// The magic number of each member. With another second byte the header cannot be read.
const MEMBER: u8 = 0x1f;

/// Bytes behind the last member are counted up to here.
const COUNTED_MAX: usize = 16 << 20;

/// Reads the members of a gzip stream.
pub(super) struct Members<R> {
    /// The member that is being read; none when the last one has ended.
    member: Option<GzDecoder<R>>,
}

/// Bytes after the last member that do not begin another.
#[derive(Debug)]
pub(super) struct TrailingBytes {
    count: usize,
}

impl fmt::Display for TrailingBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (over, plural) = (
            if self.count > COUNTED_MAX { "over " } else { "" },
            if self.count == 1 { "" } else { "s" },
        );
        let count = self.count.min(COUNTED_MAX);
        write!(f, "{over}{count} byte{plural} after the end of the gzip data")
    }
}

impl std::error::Error for TrailingBytes {}

impl<R: BufRead> Members<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            member: Some(GzDecoder::new(reader)),
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match member.get_mut().fill_buf()?.first() {
                Some(&MEMBER) => {
                    self.member = self
                        .member
                        .take()
                        .map(|member| GzDecoder::new(member.into_inner()));
                }
                Some(_) => {
                    let count = count(member.get_mut())?;
                    return Err(io::Error::other(TrailingBytes { count }));
                }
                None => self.member = None,
            }
        }
        Ok(0)
    }
}

/// How many bytes are left; one more than are counted if there are more.
fn count(reader: &mut impl BufRead) -> io::Result<usize> {
    let mut count = 0;
    while count <= COUNTED_MAX {
        let read = reader.fill_buf()?.len();
        if read == 0 {
            return Ok(count);
        }
        reader.consume(read);
        count += read;
    }
    Ok(COUNTED_MAX + 1)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8], buffer: usize) -> Result<String, String> {
        let mut text = String::new();
        Members::new(BufReader::with_capacity(buffer, bytes))
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn members_follow_one_another_and_nothing_else_does() {
        for buffer in [1, 2, 7, 4096] {
            let two = [member("a\n"), member(""), member("b\n")].concat();
            assert_eq!(read(&two, buffer).as_deref(), Ok("a\nb\n"));
            for (trailing, message) in [
                (1, "1 byte after the end of the gzip data"),
                (5000, "5000 bytes after the end of the gzip data"),
            ] {
                let bytes = [two.clone(), vec![b'x'; trailing]].concat();
                assert_eq!(read(&bytes, buffer), Err(message.to_owned()));
            }
            assert!(read(&two[..two.len() - 1], buffer).is_err(), "cut off");
        }
        let bytes = [member("a\n"), vec![0; COUNTED_MAX + 1000]].concat();
        let message = "over 16777216 bytes after the end of the gzip data";
        assert_eq!(read(&bytes, 4096), Err(message.to_owned()));
    }
}
