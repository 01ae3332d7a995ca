//! A page as it stands in the data file: a header, then the payload. Format: docs/format.md,
//! "Page".

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::page_memory::Piece;
use crate::codec::Reader;

/// Bytes of the header before the payload.
pub(crate) const HEADER_BYTES: usize = 32;

/// The kinds of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// A page of a tree.
    Tree = 1,
    /// A page of the page map; it has no logical id.
    Map = 2,
    /// A page of the catalogue.
    Catalogue = 3,
    /// A page of a run: one of a tree that no batch has changed since it was written.
    Run = 4,
}

/// The header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) crc: u32,
    pub(crate) kind: PageKind,
    pub(crate) logical: u32,
    /// How many places it takes.
    pub(crate) places: u32,
    /// The checkpoint that the page was written for.
    pub(crate) checkpoint: u64,
}

/// The bytes of one page, which may take several places of the file. Immutable once shared.
pub(crate) struct Page(Memory);

enum Memory {
    Own(Box<[u8]>),
    Shared(Piece),
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(piece) => piece,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(piece) => piece,
        }
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        Self::of_bytes(self.bytes().into())
    }
}

impl From<Piece> for Page {
    /// A page to be filled.
    fn from(piece: Piece) -> Self {
        Self(Memory::Shared(piece))
    }
}

impl Page {
    /// A page of zeros.
    pub(crate) fn zeroed(page_bytes: usize) -> Self {
        Self(Memory::Own(vec![0; page_bytes].into()))
    }

    /// Bytes that are no page of a data file, and have no header: a block of a sparse table.
    pub(crate) fn of_bytes(bytes: Box<[u8]>) -> Self {
        Self(Memory::Own(bytes))
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.0[HEADER_BYTES..]
    }

    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0[HEADER_BYTES..]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The whole page, to be filled from disk and then [`check`](Self::check)ed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Says what a page in memory is for.
    pub(crate) fn set_kind(&mut self, kind: PageKind) {
        self.0[4] = kind as u8;
    }

    pub(crate) fn is_of_kind(&self, kind: PageKind) -> bool {
        self.0[4] == kind as u8
    }

    /// Completes the header of a page that takes `places` places, and returns the checksum, which
    /// is kept with each reference to the page.
    pub(crate) fn seal(&mut self, kind: PageKind, logical: u32, places: u32, checkpoint: u64) -> u32 {
        let header = &mut self.0[..HEADER_BYTES];
        header.fill(0);
        header[4] = kind as u8;
        header[8..12].copy_from_slice(&logical.to_le_bytes());
        header[12..16].copy_from_slice(&places.to_le_bytes());
        header[16..24].copy_from_slice(&checkpoint.to_le_bytes());
        let crc = crc32c::crc32c(&self.0[4..]);
        self.0[..4].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Returns the header of a page, if the page is intact.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Self::stamp_of(&self.0).filter(|stamp| crc32c::crc32c(&self.0[4..]) == stamp.crc)
    }

    /// The stamp at the beginning of a page, which may be longer than these bytes.
    pub(crate) fn stamp_of(bytes: &[u8]) -> Option<Stamp> {
        let mut fields = Reader::new(bytes);
        let crc = fields.u32()?;
        let kind = match fields.u32()?.to_le_bytes()[0] {
            1 => PageKind::Tree,
            2 => PageKind::Map,
            3 => PageKind::Catalogue,
            4 => PageKind::Run,
            _ => return None,
        };
        Some(Stamp {
            crc,
            kind,
            logical: fields.u32()?,
            places: fields.u32()?,
            checkpoint: fields.u64()?,
        })
    }

    /// Whether the page is whole, and the very one its place is named for: a page that was written
    /// elsewhere, or whose last write was lost, has a sound checksum of its own and not the
    /// expected one.
    pub(crate) fn check(&self, kind: PageKind, logical: u32, crc: u32) -> Result<(), String> {
        let stored = u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]);
        let computed = crc32c::crc32c(&self.0[4..]);
        if stored != computed {
            return Err(format!(
                "its checksum is {stored:08x}, its bytes have {computed:08x}"
            ));
        }
        if stored != crc {
            return Err(format!(
                "it is whole but not the page expected here (checksum {stored:08x}, expected {crc:08x}): \
                 a write was lost or went astray"
            ));
        }
        let found = u32::from_le_bytes([self.0[8], self.0[9], self.0[10], self.0[11]]);
        // Readers of a tree need not know which of its pages belong to runs.
        let is_run = kind == PageKind::Tree && self.is_of_kind(PageKind::Run);
        if !(self.is_of_kind(kind) || is_run) || found != logical {
            return Err(format!("it says it is page {found} of kind {}", self.0[4]));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("bytes", &self.0.len())
            .finish_non_exhaustive()
    }
}

/// A page held in memory by its reader; it cannot be evicted meanwhile. Dereferences to the
/// payload.
#[derive(Debug, Clone)]
pub struct PageRef(pub(crate) Arc<Page>);

impl Deref for PageRef {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.payload()
    }
}
