//! A block of a sparse table, as log records, heads and block maps name it. Format: docs/format.md,
//! "Block map".

use crate::codec::{Reader, Writer};

/// No store counts more checkpoints than the seven bytes of an entry can hold.
const BORN_MAX: u64 = (1 << 56) - 1;

/// A block that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef {
    pub(crate) crc: u32,
    /// Rows that it has; at least one.
    pub(crate) rows: u16,
    /// Units of the disk that it takes.
    pub(crate) units: u16,
    pub(crate) layer: u8,
    /// Views of earlier checkpoints do not know of it.
    pub(crate) born: u64,
}

impl BlockRef {
    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u32(self.crc);
        out.bytes(&self.rows.to_le_bytes());
        out.bytes(&self.units.to_le_bytes());
        out.u64(u64::from(self.layer) | self.born.min(BORN_MAX) << 8);
    }

    /// The block of an entry; none if there is no block.
    pub(crate) fn decode(fields: &mut Reader<'_>) -> Option<Option<Self>> {
        let crc = fields.u32()?;
        let (rows, units) = (
            fields.array().map(u16::from_le_bytes)?,
            fields.array().map(u16::from_le_bytes)?,
        );
        let last = fields.u64()?;
        let [layer, ..] = last.to_le_bytes();
        Some((rows > 0 && units > 0).then_some(Self {
            crc,
            rows,
            units,
            layer,
            born: last >> 8,
        }))
    }
}
