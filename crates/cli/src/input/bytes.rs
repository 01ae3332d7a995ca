//! The bytes of a file: what they are, and how many have been read.

use std::ffi::OsStr;
#[cfg(feature = "formats")]
use std::fs::File;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
#[cfg(feature = "formats")]
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::STDIN;
use super::gzip::{Members, TrailingBytes};
use super::live::{LiveText, Text};
use crate::exit::{Failure, Result};
use crate::interrupt;

const BUFFER_BYTES: usize = 256 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const PARQUET_MAGIC: [u8; 4] = *b"PAR1";
const ARROW_MAGIC: [u8; 6] = *b"ARROW1";
/// A stream begins with a message, and each message since version 0.15 of Arrow with this.
pub(super) const ARROW_CONTINUATION: [u8; 4] = [0xff; 4];
/// How files begin that are compressed in a way that is not read, and what decompresses them.
const OTHER_MAGICS: [(&[u8], &str); 5] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -dc"),
    (b"\xfd7zXZ\0", "xz -dc"),
    (b"BZh91AY&SY", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4 -dc"),
];
/// Extensions of formats whose files have bytes even without rows.
const NEVER_EMPTY: [&str; 6] = ["arrow", "arrows", "feather", "gz", "ipc", "parquet"];
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";

/// The contents of a file, by format.
pub(super) enum Content {
    /// CSV, decompressed if need be.
    Csv(Box<dyn Text>),
    /// JSON, one object a line, decompressed if need be.
    Json(Box<dyn Text>),
    /// A Parquet file.
    #[cfg(feature = "formats")]
    Parquet(File),
    /// An Arrow IPC file.
    #[cfg(feature = "formats")]
    Arrow(Counting<File>),
    /// An Arrow IPC stream.
    #[cfg(feature = "formats")]
    ArrowStream(Box<dyn BufRead>),
}

/// Opens a file or standard input and tells by its first bytes what it holds. A text that is
/// followed is given by whole lines as they come.
pub(super) fn open(path: &Path, follow: bool) -> Result<(Content, Progress)> {
    if path == Path::new(STDIN) {
        return match follow {
            true => live("standard input", io::stdin()),
            false => piped("standard input", io::stdin()),
        };
    }
    // Opening a FIFO would wait for its writer, reading does: there a signal ends the wait.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::input(format!("{}: no such file", path.display())),
        _ => Failure::io(path, &error),
    })?;
    let metadata = file.metadata().map_err(|error| Failure::io(path, &error))?;
    if metadata.is_dir() {
        return Err(Failure::input(format!("{}: is a directory", path.display())));
    }
    let name = path.display().to_string();
    if follow {
        return live(&name, file);
    }
    if !metadata.is_file() {
        return piped(&name, file);
    }
    if metadata.len() == 0 && is_never_empty(path) {
        return Err(Failure::input(format!(
            "{name}: is empty, which a file of this format never is"
        )));
    }
    let progress = Progress::of_bytes(metadata.len());
    #[cfg(feature = "formats")]
    let whole = file.try_clone().map_err(|error| Failure::io(path, &error))?;
    let reader = BufReader::with_capacity(BUFFER_BYTES, progress.counting(file));
    let content = match leading(&name, reader)? {
        #[cfg(feature = "formats")]
        (Leading::Parquet, _) => Content::Parquet(whole),
        #[cfg(feature = "formats")]
        (Leading::Arrow, _) => Content::Arrow(progress.counting(whole)),
        (leading, reader) => sequential(&name, reader, &leading)?,
    };
    Ok((content, progress))
}

fn is_never_empty(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|found| NEVER_EMPTY.iter().any(|name| found.eq_ignore_ascii_case(name)))
}

/// Input from a pipe, a terminal or a device.
fn piped(name: &str, source: impl AsFd + Send + 'static) -> Result<(Content, Progress)> {
    let progress = Progress::of_unknown();
    let reader = BufReader::with_capacity(BUFFER_BYTES, progress.counting(Awaited(source)));
    let (leading, reader) = leading(name, reader)?;
    let content = match leading {
        #[cfg(feature = "formats")]
        Leading::Parquet => Err(Failure::input(format!(
            "{name}: Parquet is read from its end and cannot be piped in"
        ))),
        #[cfg(feature = "formats")]
        Leading::Arrow => Err(Failure::input(format!(
            "{name}: an Arrow file is read from its end and cannot be piped in; an Arrow stream can"
        ))),
        leading => sequential(name, reader, &leading),
    }?;
    Ok((content, progress))
}

/// Text whose lines come one at a time.
fn live(name: &str, source: impl AsFd + Send + 'static) -> Result<(Content, Progress)> {
    let progress = Progress::of_unknown();
    match leading(name, LiveText::new(source, progress.clone()))? {
        (Leading::Other, reader) => Ok((text(name, reader)?, progress)),
        _ => Err(Failure::input(format!(
            "{name}: --follow reads CSV or JSON lines that are not compressed"
        ))),
    }
}

/// A source that is read from front to back.
fn sequential(name: &str, reader: impl Text + 'static, leading: &Leading) -> Result<Content> {
    match leading {
        #[cfg(not(feature = "formats"))]
        Leading::Parquet | Leading::Arrow | Leading::ArrowStream => Err(Failure::input(format!(
            "{name}: this build reads no Parquet and no Arrow: build the command with its default features"
        ))),
        #[cfg(feature = "formats")]
        Leading::ArrowStream => Ok(Content::ArrowStream(Box::new(reader))),
        Leading::Gzip => text(name, BufReader::with_capacity(BUFFER_BYTES, Members::new(reader))),
        _ => text(name, reader),
    }
}

/// A reader whose first bytes were looked at.
type Begun<R> = Chain<Cursor<Vec<u8>>, R>;

/// Reads until there is enough of the beginning, for a pipe gives as little at once as its writer
/// wrote. A beginning of [`BUFFER_BYTES`] is always enough.
fn begin<R: BufRead>(
    name: &str,
    mut reader: R,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Result<(Vec<u8>, Begun<R>)> {
    let mut head = Vec::new();
    while !is_enough(&head) && head.len() < BUFFER_BYTES {
        let part = reader.fill_buf().map_err(|error| text_failure(name, &error))?;
        let len = part.len();
        if len == 0 {
            break;
        }
        head.extend_from_slice(part);
        reader.consume(len);
    }
    let begun = Cursor::new(head.clone()).chain(reader);
    Ok((head, begun))
}

/// Whether a text may turn out to begin with `magic` when more of it is there.
fn may_become(head: &[u8], magic: &[u8]) -> bool {
    head.len() < magic.len() && magic.starts_with(head)
}

/// Reads what may keep its reader waiting, until a signal asks for the end.
struct Awaited<F>(F);

impl<F: AsFd> Read for Awaited<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            interrupt::wait(self.0.as_fd(), PollFlags::IN)?;
            match rustix::io::read(&self.0, &mut *buffer) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Leading {
    Gzip,
    Parquet,
    Arrow,
    ArrowStream,
    Other,
}

fn leading<R: BufRead>(name: &str, reader: R) -> Result<(Leading, Begun<R>)> {
    let magics: [&[u8]; 4] = [&GZIP_MAGIC, &PARQUET_MAGIC, &ARROW_MAGIC, &ARROW_CONTINUATION];
    let others = OTHER_MAGICS.map(|(magic, _)| magic);
    let is_enough = |head: &[u8]| !magics.iter().chain(&others).any(|magic| may_become(head, magic));
    let (head, reader) = begin(name, reader, is_enough)?;
    if let Some((_, tool)) = OTHER_MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(Failure::input(format!(
            "{name}: is compressed, and not by gzip: pipe it through `{tool}`"
        )));
    }
    let leading = if head.starts_with(&GZIP_MAGIC) {
        Leading::Gzip
    } else if head.starts_with(&PARQUET_MAGIC) {
        Leading::Parquet
    } else if head.starts_with(&ARROW_MAGIC) {
        Leading::Arrow
    } else if head.starts_with(&ARROW_CONTINUATION) {
        Leading::ArrowStream
    } else {
        Leading::Other
    };
    Ok((leading, reader))
}

/// Tells CSV and JSON apart.
fn text(name: &str, text: impl Text + 'static) -> Result<Content> {
    let is_enough = |head: &[u8]| match first_tokens(head) {
        (Some(b'{' | b'['), second) => second.is_some(),
        (first, _) => first.is_some() && !may_become(head, UTF8_BOM),
    };
    let (head, text) = begin(name, text, is_enough)?;
    match first_tokens(&head) {
        (Some(b'{'), Some(b'"' | b'}')) => Ok(Content::Json(Box::new(text))),
        (Some(b'['), Some(b'{')) => Err(Failure::input(format!(
            "{name}: holds a JSON array; write one object a line, as `jq -c '.[]'` does"
        ))),
        _ => Ok(Content::Csv(Box::new(text))),
    }
}

/// The first two non-blank bytes of a text, which tell JSON objects and arrays from a CSV header.
fn first_tokens(head: &[u8]) -> (Option<u8>, Option<u8>) {
    let head = head.strip_prefix(UTF8_BOM).unwrap_or(head);
    let mut tokens = head.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    (tokens.next(), tokens.next())
}

/// Why text could not be read: an end that comes too early is the input's fault, the rest the
/// system's.
pub(super) fn text_failure(name: &str, error: &io::Error) -> Failure {
    if let Some(trailing) = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<TrailingBytes>())
    {
        return Failure::input(format!("{name}: {trailing}"));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            Failure::input(format!("{name}: the gzip stream is cut off before its end"))
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Failure::input(format!("{name}: the gzip stream is damaged: {error}"))
        }
        _ => Failure::io(Path::new(name), error),
    }
}

/// How far the reading of a file has come. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    fn of_unknown() -> Self {
        Self {
            read: Arc::default(),
            total: None,
        }
    }

    fn of_bytes(total: u64) -> Self {
        Self {
            read: Arc::default(),
            total: Some(total),
        }
    }

    fn counting<R>(&self, inner: R) -> Counting<R> {
        Counting {
            inner,
            read: Arc::clone(&self.read),
        }
    }

    /// Says how far a reading that does not go from front to back has come.
    #[cfg(feature = "formats")]
    pub(super) fn set(&self, read: u64) {
        self.read.store(read, Ordering::Relaxed);
    }

    pub(super) fn add(&self, read: u64) {
        self.read.fetch_add(read, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }
}

/// A reader whose bytes are counted.
pub(super) struct Counting<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

#[cfg(feature = "formats")]
impl<R> Counting<R> {
    pub(super) fn get_ref(&self) -> &R {
        &self.inner
    }
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(feature = "formats")]
impl<R: Seek> Seek for Counting<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time, as a pipe does whose writer writes so.
    struct ByteByByte(Cursor<Vec<u8>>);

    impl Read for ByteByByte {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(1);
            self.0.read(&mut buffer[..len])
        }
    }

    fn leading_of(input: &[u8]) -> (Leading, impl Text + use<>) {
        let reader = BufReader::new(ByteByByte(Cursor::new(input.to_vec())));
        leading("pipe", reader).unwrap()
    }

    /// The format that input is recognised as, and all its bytes.
    fn told(input: &[u8]) -> (&'static str, Vec<u8>) {
        let (leading, reader) = leading_of(input);
        let (kind, mut text): (_, Box<dyn BufRead>) = match sequential("pipe", reader, &leading) {
            Ok(Content::Csv(text)) => ("csv", text),
            Ok(Content::Json(text)) => ("json", text),
            #[cfg(feature = "formats")]
            Ok(Content::ArrowStream(stream)) => ("arrow", stream),
            #[cfg(feature = "formats")]
            Ok(_) => unreachable!("files are not sequential"),
            Err(failure) => return ("error", failure.to_string().into_bytes()),
        };
        let mut bytes = Vec::new();
        text.read_to_end(&mut bytes).unwrap();
        (kind, bytes)
    }

    #[test]
    fn a_pipe_that_gives_a_byte_at_a_time_is_typed_by_as_many_as_it_takes() {
        for (input, kind) in [
            (&b"{\"t\":1}\n"[..], "json"),
            (b"\xef\xbb\xbf \n{ }\n", "json"),
            (b"{", "csv"),
            (b"", "csv"),
            (b"t,n\n1,2\n", "csv"),
            (b"\xef\xbb\xbft\n1\n", "csv"),
            (b"PARIS\n1\n", "csv"),
            (b"\x1f", "csv"),
            #[cfg(feature = "formats")]
            (b"\xff\xff\xff\xff rest", "arrow"),
        ] {
            assert_eq!(told(input), (kind, input.to_vec()), "{}", input.escape_ascii());
        }
        let json = b"{\"t\":1}\n{\"t\":2}\n".to_vec();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, &json).unwrap();
        assert_eq!(told(&gzip.finish().unwrap()), ("json", json));
        let (kind, message) = told(b"[\n {\"t\":1}]");
        assert_eq!(kind, "error");
        assert!(String::from_utf8(message).unwrap().contains("holds a JSON array"));
        assert!(leading_of(b"PAR1rest").0 == Leading::Parquet);
        assert!(leading_of(b"ARROW1rest").0 == Leading::Arrow);
    }

    /// Both kinds of text are told by their first line, which a person may be typing.
    #[test]
    fn no_more_is_read_than_is_needed() {
        let (_, mut rest) = leading_of(b"t,n\n");
        assert_eq!(rest.fill_buf().unwrap(), b"t");
    }
}
