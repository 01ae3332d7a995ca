//! Little-endian fields, one after another.

/// Takes fields off a page, as long as there is some of it left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'p> {
    rest: &'p [u8],
}

impl<'p> Reader<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*chunk)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }
}

/// Writes a field at an offset.
pub(super) fn put(page: &mut [u8], at: usize, field: &[u8]) {
    page[at..at + field.len()].copy_from_slice(field);
}
