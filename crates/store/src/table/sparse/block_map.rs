//! The block map: which layer of each block of a file counts, and what is to be found there. One
//! page for each file. Format: docs/format.md, "Block map".

use crate::codec::{Reader, Writer};
use crate::rows::BlockRef;

const MAGIC: u16 = 0xBED2;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;

/// Blocks that a map has room for.
pub(super) fn capacity(payload_len: usize) -> usize {
    (payload_len - HEADER_BYTES) / ENTRY_BYTES
}

/// The page of the map of a file without blocks.
pub(super) fn format(payload: &mut [u8], table: u32, file: i64) {
    payload.fill(0);
    let mut header = Writer::with_capacity(HEADER_BYTES);
    header.bytes(&MAGIC.to_le_bytes());
    header.bytes(&[0; 2]);
    header.u32(table);
    header.i64(file);
    let header = header.into_bytes();
    payload[..header.len()].copy_from_slice(&header);
}

/// The table and file that a page is the map of, if it is one.
pub(super) fn owner(payload: &[u8]) -> Option<(u32, i64)> {
    let mut fields = Reader::new(payload);
    (fields.array().map(u16::from_le_bytes)? == MAGIC).then_some(())?;
    fields.bytes(2)?;
    Some((fields.u32()?, fields.i64()?))
}

fn entry_at(index: usize) -> usize {
    HEADER_BYTES + index * ENTRY_BYTES
}

/// The block of this number in the file.
pub(super) fn get(payload: &[u8], index: usize) -> Option<BlockRef> {
    let mut fields = Reader::new(payload.get(entry_at(index)..)?);
    BlockRef::decode(&mut fields)?
}

pub(super) fn set(payload: &mut [u8], index: usize, block: Option<BlockRef>) {
    let place = &mut payload[entry_at(index)..][..ENTRY_BYTES];
    match block {
        Some(block) => {
            let mut out = Writer::with_capacity(ENTRY_BYTES);
            block.encode(&mut out);
            place.copy_from_slice(&out.into_bytes());
        }
        None => place.fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_beside_each_other() {
        let mut page = vec![0xFF; 4064];
        format(&mut page, 7, -3);
        assert_eq!(owner(&page), Some((7, -3)));
        let blocks = capacity(page.len());
        assert_eq!(blocks, 252);
        let block = |n: usize| BlockRef {
            crc: u32::try_from(n).expect("small") << 20,
            rows: 1 + u16::try_from(n).expect("small"),
            units: 4,
            layer: u8::try_from(n % 256).expect("less"),
            born: (1 << 56) - 1 - n as u64,
        };
        for n in (0..blocks).step_by(2) {
            set(&mut page, n, Some(block(n)));
        }
        for n in 0..blocks {
            assert_eq!(get(&page, n), n.is_multiple_of(2).then(|| block(n)), "block {n}");
        }
        set(&mut page, 4, None);
        assert_eq!(get(&page, 4), None);
        assert_eq!(get(&page, blocks), None);
    }
}
