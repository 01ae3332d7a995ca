//! Records on their way to the disk, in memory aligned for it.

use std::ops::{Deref, DerefMut};

use crate::disk::DIRECT_ALIGNMENT;

/// The memory that a buffer keeps for the next records: a record may be a thousand times longer
/// than most.
const KEPT_BYTES: usize = 4 << 20;

/// Bytes aligned for the disk.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    /// Where in the memory they begin.
    begin: usize,
}

impl Buffer {
    /// A copy of `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut buffer = Self::default();
        buffer.extend_from_slice(bytes);
        buffer
    }

    pub(super) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.memory.extend_from_slice(bytes);
    }

    /// Pads the last block, of `block_bytes` bytes, with zeros, in a file in which the buffer
    /// begins at `offset`.
    pub(super) fn pad(&mut self, offset: u64, block_bytes: usize) {
        let begin = usize::try_from(offset % block_bytes as u64).expect("below the block's bytes");
        let end = begin + self.len();
        let padding = end.next_multiple_of(block_bytes) - end;
        self.reserve(padding);
        self.memory.resize(self.memory.len() + padding, 0);
    }

    pub(super) fn clear(&mut self) {
        if self.memory.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
        self.memory.truncate(self.begin);
    }

    /// Makes room: memory that grew by itself might lose its alignment.
    fn reserve(&mut self, bytes: usize) {
        if self.memory.capacity() - self.memory.len() >= bytes {
            return;
        }
        let room = (self.len() + bytes).next_power_of_two();
        let mut memory: Vec<u8> = Vec::with_capacity(DIRECT_ALIGNMENT + room);
        let begin = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        memory.resize(begin, 0);
        memory.extend_from_slice(self);
        *self = Self { memory, begin };
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.begin..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_grows_stays_where_the_disk_can_take_it() {
        let mut buffer = Buffer::of(&[7]);
        for len in 1..2000 {
            buffer.extend_from_slice(&[7; 9]);
            assert_eq!(buffer.as_ptr().align_offset(DIRECT_ALIGNMENT), 0);
            assert_eq!(buffer.len(), 1 + 9 * len);
        }
        buffer.pad(5000, 512);
        assert_eq!((5000 + buffer.len()) % 512, 0);
        assert_eq!(buffer[..1 + 9 * 1999], [7; 1 + 9 * 1999]);
        assert!(buffer[1 + 9 * 1999..].iter().all(|&byte| byte == 0));
        buffer.clear();
        buffer.extend_from_slice(&[3]);
        assert_eq!(
            (&buffer[..], buffer.as_ptr().align_offset(DIRECT_ALIGNMENT)),
            (&[3][..], 0)
        );
        buffer.extend_from_slice(&vec![7; KEPT_BYTES]);
        buffer.clear();
        assert!(buffer.memory.capacity() <= KEPT_BYTES);
    }
}
