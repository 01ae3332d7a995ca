//! The superblock: where everything else is found. Format: docs/format.md, "Superblock".
//!
//! Two slots are written in turn, each only after everything it names is durable. A torn write
//! damages the slot of the checkpoint that was not finished; the other slot names the one before,
//! none of whose pages was reused.

use std::path::Path;

use super::page_map::Slot;
use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};

/// The newest format this release writes and reads.
pub(crate) const FORMAT_VERSION: u32 = 2;

/// No store's sequence numbers, generations, checkpoints or bytes of log get this far: a greater
/// value is damage. So counting on never overflows.
pub(crate) const COUNTER_MAX: u64 = 1 << 62;

/// Bytes of one slot. The second begins where pages of any size may; pages begin after it.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
const SLOT_OFFSETS: [u64; 2] = [0, 32 * 1024];
/// Offset in the data file of the first page.
pub(crate) const PAGES_OFFSET: u64 = 64 * 1024;

const MAGIC: [u8; 8] = *b"bedload\n";

/// The state of the store at one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Names the store; its log segments carry the same name.
    pub(crate) store_id: [u8; 16],
    pub(crate) page_bytes: u32,
    /// Ascends by one with each checkpoint.
    pub(crate) checkpoint: u64,
    /// Log records before this position are contained in the checkpoint.
    pub(crate) log_start: u64,
    /// The first sequence number that the checkpoint has not given out.
    pub(crate) next_sequence: u64,
    /// No generation given to a page reaches this one.
    pub(crate) next_generation: u64,
    /// The root page of the page map, and the levels above its leaves.
    pub(crate) map_root: Slot,
    pub(crate) map_levels: u32,
    pub(crate) map_leaves: u32,
    /// The first page of the catalogue, its length, and the first page of its copy.
    pub(crate) catalogue: Slot,
    pub(crate) catalogue_bytes: u32,
    pub(crate) catalogue_copy: Slot,
    /// Tells a copy from the store that it was made of; zero if the store is no copy.
    pub(crate) copy_id: [u8; 16],
}

impl Superblock {
    /// Where the superblock of `checkpoint` stands in the data file.
    pub(crate) fn offset(checkpoint: u64) -> u64 {
        SLOT_OFFSETS[usize::from(!checkpoint.is_multiple_of(2))]
    }

    /// The offsets of both slots.
    pub(crate) fn offsets() -> [u64; 2] {
        SLOT_OFFSETS
    }

    /// The file is at least so long, as each leaf of the page map has a place, and so has the
    /// catalogue.
    pub(super) fn file_bytes_min(&self) -> u64 {
        let pages = u64::from(self.map_leaves) * u64::from(self.page_bytes);
        PAGES_OFFSET + pages + u64::from(self.catalogue_bytes)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::with_capacity(SUPERBLOCK_BYTES);
        out.bytes(&MAGIC);
        out.u32(FORMAT_VERSION);
        out.u32(self.page_bytes);
        out.bytes(&self.store_id);
        out.u64(self.checkpoint);
        out.u64(self.log_start);
        out.u64(self.next_sequence);
        out.u64(self.next_generation);
        out.u32(self.map_root.page);
        out.u32(self.map_root.crc);
        out.u32(self.map_levels);
        out.u32(self.map_leaves);
        out.u32(self.catalogue.page);
        out.u32(self.catalogue.crc);
        out.u32(self.catalogue_bytes);
        out.u32(self.catalogue_copy.page);
        out.u32(self.catalogue_copy.crc);
        out.bytes(&self.copy_id);
        let mut bytes = out.into_bytes();
        bytes.resize(SUPERBLOCK_BYTES - 4, 0);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the slot at `offset` of the data file. Magic, version and the checksum at the end of
    /// the slot stand where they do in every version of the format, so that a changed byte is not
    /// taken for a newer release.
    pub(crate) fn decode(path: &Path, offset: u64, bytes: &[u8]) -> Result<Self> {
        let damaged =
            |reason: &str| Error::corrupt(path, format!("the superblock at offset {offset}"), reason);
        let (body, stored) = bytes
            .split_last_chunk::<4>()
            .ok_or_else(|| damaged("it is cut short"))?;
        let mut fields = Reader::new(body);
        let mut decoded = || -> Option<(u32, Self)> {
            if fields.array::<8>()? != MAGIC {
                return None;
            }
            let version = fields.u32()?;
            let page_bytes = fields.u32()?;
            let superblock = Self {
                page_bytes,
                store_id: fields.array()?,
                checkpoint: fields.u64()?,
                log_start: fields.u64()?,
                next_sequence: fields.u64()?,
                next_generation: fields.u64()?,
                map_root: slot(&mut fields)?,
                map_levels: fields.u32()?,
                map_leaves: fields.u32()?,
                catalogue: slot(&mut fields)?,
                catalogue_bytes: fields.u32()?,
                catalogue_copy: slot(&mut fields)?,
                copy_id: fields.array()?,
            };
            Some((version, superblock))
        };
        let (version, superblock) = decoded().ok_or_else(|| damaged("it does not begin as one"))?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*stored) {
            return Err(damaged("its checksum does not match"));
        }
        if version > FORMAT_VERSION {
            return Err(Error::NewerFormat {
                path: path.into(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        if version == 0 {
            return Err(damaged("no store has its version"));
        }
        if version < FORMAT_VERSION {
            return Err(Error::OlderFormat {
                path: path.into(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        let counters = [
            superblock.checkpoint,
            superblock.log_start,
            superblock.next_sequence,
            superblock.next_generation,
        ];
        if counters.iter().any(|&counter| counter > COUNTER_MAX) {
            return Err(damaged("it counts further than any store gets"));
        }
        if !page_bytes_admissible(superblock.page_bytes) {
            return Err(damaged("no store has its page size"));
        }
        Ok(superblock)
    }
}

fn slot(fields: &mut Reader<'_>) -> Option<Slot> {
    Some(Slot {
        page: fields.u32()?,
        crc: fields.u32()?,
        places: 1,
    })
}

/// Page sizes are powers of two from 4 KiB to 32 KiB: small enough that 16 bits address any byte of
/// a page.
pub(crate) fn page_bytes_admissible(page_bytes: u32) -> bool {
    page_bytes.is_power_of_two() && (4096..=32 * 1024).contains(&page_bytes)
}
