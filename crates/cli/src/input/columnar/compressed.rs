//! Compressed buffers of Arrow data whose stated length no memory holds.
//!
//! Before each compressed buffer stands how long it was. `arrow-ipc` allocates that much, and where
//! it cannot, the process is aborted. A damaged length is found here first, and is an error.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;

use arrow_ipc::{Block, Buffer, Message, RecordBatch, root_as_footer, root_as_message};

use crate::input::bytes::ARROW_CONTINUATION;

/// A file ends with the length of its footer and a magic number.
const TRAILER_BYTES: u64 = 10;

/// Checks each batch of an Arrow file. Damage of another kind is left to the reader of the file.
pub(super) fn check_file(file: &File) -> io::Result<()> {
    let Some(footer) = footer_of(file) else {
        return Ok(());
    };
    let Ok(footer) = root_as_footer(&footer) else {
        return Ok(());
    };
    let batches = footer.dictionaries().into_iter().chain(footer.recordBatches());
    batches.flatten().try_for_each(|block| check_block(file, block))
}

fn footer_of(file: &File) -> Option<Vec<u8>> {
    let trailer_at = file.metadata().ok()?.len().checked_sub(TRAILER_BYTES)?;
    let mut len = [0; 4];
    file.read_exact_at(&mut len, trailer_at).ok()?;
    let len = u64::from(u32::from_le_bytes(len));
    bytes_at(file, trailer_at.checked_sub(len)?, len)
}

fn check_block(file: &File, block: &Block) -> io::Result<()> {
    let at = u64::try_from(block.offset()).ok();
    let metadata_len = u64::try_from(block.metaDataLength()).ok();
    let Some((at, metadata_len)) = at.zip(metadata_len) else {
        return Ok(());
    };
    let Some(metadata) = bytes_at(file, at, metadata_len) else {
        return Ok(());
    };
    let message = metadata.strip_prefix(&ARROW_CONTINUATION).unwrap_or(&metadata);
    let Some(Ok(message)) = message.get(4..).map(root_as_message) else {
        return Ok(());
    };
    let body_len = u64::try_from(block.bodyLength()).unwrap_or(0);
    check(message, |offset| {
        let mut bytes = [0; 8];
        if offset.checked_add(8)? > body_len {
            return None;
        }
        let at = at.checked_add(metadata_len)?.checked_add(offset)?;
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    })
}

/// Part of a file that has it.
fn bytes_at(file: &File, at: u64, len: u64) -> Option<Vec<u8>> {
    let file_len = file.metadata().ok()?.len();
    if at.checked_add(len)? > file_len {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

/// The batch of a message, if it is compressed.
fn compressed(message: Message<'_>) -> Option<RecordBatch<'_>> {
    let batch = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch()?.data())?;
    batch.compression().is_some().then_some(batch)
}

/// Checks the buffers of a message; `body` gives eight bytes of its body.
fn check(message: Message<'_>, body: impl Fn(u64) -> Option<[u8; 8]>) -> io::Result<()> {
    let buffers = compressed(message).and_then(|batch| batch.buffers());
    // Empty buffers have no length before them.
    let with_length = |buffer: &&Buffer| buffer.length() >= 8;
    for buffer in buffers.into_iter().flatten().filter(with_length) {
        let Some(length) = u64::try_from(buffer.offset()).ok().and_then(&body) else {
            continue;
        };
        // -1 means that the buffer is not compressed; the reader refuses other negative lengths.
        let length = usize::try_from(i64::from_le_bytes(length)).unwrap_or(0);
        let mut memory = Vec::<u8>::new();
        let reserved = memory.try_reserve_exact(length);
        // Otherwise the compiler may leave out the allocation, as nothing uses it.
        black_box(&mut memory);
        if reserved.is_err() {
            let message = format!("a compressed buffer says that it is {length} bytes long");
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
    }
    Ok(())
}

/// An Arrow stream, each batch of which is checked before its reader gets it.
pub(super) struct Checked<R> {
    stream: R,
    /// Bytes that were read ahead, of which the reader has had the first `given`.
    ahead: Vec<u8>,
    given: usize,
    /// Bytes that need no check: the rest of a message, or of a stream that is damaged.
    unchecked: u64,
}

impl<R: Read> Checked<R> {
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream,
            ahead: Vec::new(),
            given: 0,
            unchecked: 0,
        }
    }

    /// Reads so many bytes ahead; `false` if the stream ends before.
    fn read_ahead(&mut self, len: u64) -> io::Result<bool> {
        let read = self.stream.by_ref().take(len).read_to_end(&mut self.ahead)?;
        Ok(read as u64 == len)
    }

    /// Reads the next message ahead, with its body if that is compressed.
    fn read_message(&mut self) -> io::Result<()> {
        self.ahead.clear();
        self.given = 0;
        // Bytes that are no message are passed on: the reader of the stream reports them.
        self.unchecked = u64::MAX;
        let mut begins_at = 4;
        if !self.read_ahead(4)? {
            return Ok(());
        }
        if self.ahead == ARROW_CONTINUATION {
            begins_at = 8;
            if !self.read_ahead(4)? {
                return Ok(());
            }
        }
        let mut len = [0; 4];
        len.copy_from_slice(&self.ahead[begins_at - 4..]);
        let Ok(len @ 1..) = u64::try_from(i32::from_le_bytes(len)) else {
            return Ok(());
        };
        if !self.read_ahead(len)? {
            return Ok(());
        }
        let Ok(message) = root_as_message(&self.ahead[begins_at..]) else {
            return Ok(());
        };
        let Ok(body_len) = u64::try_from(message.bodyLength()) else {
            return Ok(());
        };
        if compressed(message).is_none() {
            self.unchecked = body_len;
            return Ok(());
        }
        let body_at = self.ahead.len();
        if !self.read_ahead(body_len)? {
            return Ok(());
        }
        self.unchecked = 0;
        let (metadata, body) = self.ahead.split_at(body_at);
        // It was read above, and the bytes have not changed.
        root_as_message(&metadata[begins_at..]).map_or(Ok(()), |message| {
            check(message, |offset| {
                let bytes = body.get(usize::try_from(offset).ok()?..)?;
                bytes.first_chunk().copied()
            })
        })
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ahead.len() && self.unchecked == 0 {
            self.read_message()?;
        }
        let mut ahead = &self.ahead[self.given..];
        if ahead.is_empty() {
            let read = self.stream.by_ref().take(self.unchecked).read(buffer)?;
            self.unchecked -= read as u64;
            return Ok(read);
        }
        let read = ahead.read(buffer)?;
        self.given += read;
        Ok(read)
    }
}
