//! Memory of batches, kept for reuse once they are dropped.
//!
//! The allocator asks the system for the memory of a batch of many rows, and returns it when the
//! batch is dropped, so that each page is faulted in again, which takes as long as copying the
//! rows. Returned memory is kept here instead.

use std::sync::{Arc, Weak};

use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use parking_lot::Mutex;

/// A buffer of fewer bytes is not worth it: the allocator keeps such memory itself.
const WORTH_BYTES: usize = 16 << 10;
/// The extra length of buffers: columns are a power of two long, and would each begin in the same
/// few places of the processor's caches.
const SKEW_BYTES: usize = 4096 + 64;
/// Bytes that are kept: of several batches, as the last one may be held while the next is made.
const KEPT_BYTES: usize = (8 << 20) + 8 * SKEW_BYTES;

/// Memory kept for the batches of a store. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchMemory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Last in, first out: the newest may still be in the processor's cache.
    buffers: Vec<MutableBuffer>,
    bytes: usize,
}

impl BatchMemory {
    /// An empty buffer with room for so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> MutableBuffer {
        if bytes < WORTH_BYTES {
            return MutableBuffer::new(bytes);
        }
        let mut kept = self.0.lock();
        // Memory that is much too long would be held for little.
        let fits = |buffer: &MutableBuffer| (bytes..=4 * bytes).contains(&buffer.capacity());
        match kept.buffers.iter().rposition(fits) {
            Some(at) => {
                let buffer = kept.buffers.remove(at);
                kept.bytes -= buffer.capacity();
                buffer
            }
            None => MutableBuffer::new(bytes + SKEW_BYTES),
        }
    }

    /// The buffer, whose memory comes back when its last holder drops it.
    pub(crate) fn lend(&self, buffer: MutableBuffer) -> Buffer {
        if buffer.capacity() < WORTH_BYTES {
            return buffer.into();
        }
        Bytes::from_owner(Lent {
            buffer,
            home: Arc::downgrade(&self.0),
        })
        .into()
    }
}

/// A buffer that is part of a batch.
struct Lent {
    buffer: MutableBuffer,
    home: Weak<Mutex<Kept>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut kept = home.lock();
        if kept.bytes + self.buffer.capacity() <= KEPT_BYTES {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lend(memory: &BatchMemory, bytes: usize) -> Buffer {
        let mut buffer = memory.take(bytes);
        buffer.resize(bytes, 7);
        memory.lend(buffer)
    }

    #[test]
    fn what_comes_back_is_used_again_and_not_before() {
        let memory = BatchMemory::default();
        let first = lend(&memory, 1 << 20);
        let part = first.slice_with_length(100, 10);
        let begin = first.as_ptr();
        drop(first);
        let second = lend(&memory, 1 << 20);
        assert_ne!(second.as_ptr(), begin, "a part of the first is held");
        assert_eq!(part.as_slice(), [7; 10]);
        drop(part);
        let third = lend(&memory, 700 << 10);
        assert_eq!(third.as_ptr(), begin);
        assert_eq!(third.len(), 700 << 10);
    }

    #[test]
    fn little_is_kept_and_nothing_that_is_much_too_long() {
        let memory = BatchMemory::default();
        let buffers: Vec<Buffer> = (0..20).map(|_| lend(&memory, 1 << 20)).collect();
        drop(buffers);
        assert_eq!(memory.0.lock().buffers.len(), 8);
        drop((lend(&memory, 100), lend(&memory, 20 << 10)));
        assert_eq!(
            memory.0.lock().buffers.len(),
            8,
            "of small ones none, of the others no room"
        );
        let held = lend(&memory, 1 << 20);
        drop(memory);
        assert_eq!(held.as_slice()[77], 7, "it outlives the store");
    }
}
