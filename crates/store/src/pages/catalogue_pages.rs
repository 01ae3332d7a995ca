//! The catalogue in pages: a directory, and parts of which a checkpoint writes only those that
//! changed. Directory and parts have a copy each: without them nothing in the file could be made
//! sense of. Format: docs/format.md, "Catalogue".

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::page::{HEADER_BYTES, PageKind};
use super::page_file::PageFile;
use super::page_map::{SLOT_BYTES, Slot, decode_slots, encode_slots};
use super::superblock::Superblock;
use crate::codec::{Reader, Writer};
use crate::error::{Error, Result};

/// The magic bytes of a directory.
pub(super) const DIRECTORY_MAGIC: [u8; 8] = *b"bedparts";

/// Bytes of a directory before its entries, and of each of these.
const DIRECTORY_HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 24;

/// The catalogue as text, in numbered parts. A part that is the same memory as in the checkpoint
/// before is not written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CatalogueText {
    /// The id of the next table.
    pub(crate) next_table: u32,
    pub(crate) parts: BTreeMap<u32, Arc<[u8]>>,
}

impl CatalogueText {
    fn is_empty(&self) -> bool {
        self.next_table == 0 && self.parts.is_empty()
    }
}

/// A part as it stands in the data file.
#[derive(Debug, Clone)]
pub(super) struct WrittenPart {
    /// None if one of the two is damaged, and the part is to be written again.
    text: Option<Arc<[u8]>>,
    bytes: u32,
    /// The first page of each of the two.
    first: [Slot; 2],
    /// The places of all pages of both.
    pub(super) places: Vec<u32>,
}

/// The parts of the last checkpoint.
pub(super) type WrittenParts = BTreeMap<u32, WrittenPart>;

/// Where a directory stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Directory {
    pub(super) first: [Slot; 2],
    pub(super) bytes: u32,
}

/// Writes what is not written yet, and a directory of all; places of new parts are added to
/// `begun`, those of the directory to `fixtures`.
pub(super) fn write_catalogue(
    file: &PageFile,
    text: &CatalogueText,
    before: &WrittenParts,
    checkpoint: u64,
    (begun, fixtures): (&mut Vec<u32>, &mut Vec<u32>),
) -> Result<(WrittenParts, Directory)> {
    if text.is_empty() {
        return Ok((WrittenParts::new(), Directory::default()));
    }
    let mut written = WrittenParts::new();
    for (&number, text) in &text.parts {
        let known = before.get(&number).filter(|known| {
            let same = known.text.as_ref().map(|known| Arc::ptr_eq(known, text));
            same.unwrap_or(false)
        });
        let part = match known {
            Some(known) => known.clone(),
            None => {
                let mut places = Vec::new();
                let first = [(); 2].map(|()| write_chain(file, text, checkpoint, &mut places));
                begun.extend_from_slice(&places);
                let [first, copy] = first;
                WrittenPart {
                    text: Some(text.clone()),
                    bytes: count(text.len()),
                    first: [first?, copy?],
                    places,
                }
            }
        };
        written.insert(number, part);
    }
    let mut out = Writer::with_capacity(DIRECTORY_HEAD_BYTES + ENTRY_BYTES * written.len());
    out.bytes(&DIRECTORY_MAGIC);
    out.u32(text.next_table);
    out.u32(count(written.len()));
    for (&number, part) in &written {
        out.u32(number);
        out.u32(part.bytes);
        for slot in part.first {
            out.u32(slot.page);
            out.u32(slot.crc);
        }
    }
    let directory = out.into_bytes();
    let first = [
        write_chain(file, &directory, checkpoint, fixtures)?,
        write_chain(file, &directory, checkpoint, fixtures)?,
    ];
    let bytes = count(directory.len());
    Ok((written, Directory { first, bytes }))
}

/// Writes bytes as a chain of pages, its last page first, as each page names the next.
fn write_chain(file: &PageFile, bytes: &[u8], checkpoint: u64, places: &mut Vec<u32>) -> Result<Slot> {
    let chunk_bytes = file.page_bytes - HEADER_BYTES - SLOT_BYTES;
    let mut next = Slot::default();
    for chunk in bytes.chunks(chunk_bytes).rev() {
        let slots = file.write_payloads(PageKind::Catalogue, 1, checkpoint, |_, payload| {
            encode_slots(&[next], &mut payload[..SLOT_BYTES]);
            payload[SLOT_BYTES..][..chunk.len()].copy_from_slice(chunk);
        })?;
        next = slots[0];
        places.push(next.page);
    }
    Ok(next)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("bounded by what a catalogue may have")
}

/// Reads the `len` bytes of the chain that begins at `first`; the places of its pages are added to
/// `places`.
pub(super) fn read_chain(file: &PageFile, first: Slot, len: usize, places: &mut Vec<u32>) -> Result<Vec<u8>> {
    // Grows with what is there, not with the length claimed.
    let mut bytes = Vec::new();
    let mut next = first;
    let mut seen = HashSet::new();
    while bytes.len() < len {
        if !seen.insert(next.page) {
            let reason = format!("its pages lead in a circle at place {}", next.page);
            return Err(Error::corrupt(file.path(), "the catalogue", reason));
        }
        let page = file.read(next, PageKind::Catalogue, 0)?;
        places.push(next.page);
        let (link, chunk) = page.payload().split_at(SLOT_BYTES);
        bytes.extend_from_slice(&chunk[..chunk.len().min(len - bytes.len())]);
        next = decode_slots(link).next().unwrap_or_default();
    }
    Ok(bytes)
}

/// The entries of a directory: number, bytes, and both first pages of each part.
pub(super) struct DirectoryText {
    pub(super) next_table: u32,
    pub(super) entries: Vec<(u32, u32, [Slot; 2])>,
}

impl DirectoryText {
    /// The directory in these bytes; zeros at its end may be missing. None if they are no
    /// directory.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(bytes);
        if fields.array::<8>()? != DIRECTORY_MAGIC {
            return None;
        }
        let (next_table, count) = (fields.u32()?, fields.u32()? as usize);
        if count > bytes.len() / ENTRY_BYTES + 1 {
            return None;
        }
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().max(DIRECTORY_HEAD_BYTES + ENTRY_BYTES * count), 0);
        let mut fields = Reader::new(&padded[DIRECTORY_HEAD_BYTES..]);
        let mut entry = || {
            let (number, bytes) = (fields.u32()?, fields.u32()?);
            let mut slot = || {
                Some(Slot {
                    page: fields.u32()?,
                    crc: fields.u32()?,
                    places: 1,
                })
            };
            Some((number, bytes, [slot()?, slot()?]))
        };
        let entries = (0..count).map(|_| entry()).collect::<Option<_>>()?;
        Some(Self { next_table, entries })
    }
}

/// A catalogue that was read.
pub(super) struct ReadCatalogue {
    pub(super) text: CatalogueText,
    pub(super) written: WrittenParts,
    /// Returns the damage of one of two copies, if any.
    pub(super) damage: Option<Error>,
}

/// Reads directory and parts, each with its copy. Pages of a damaged copy which could not be
/// reached are free: what is written there harms nothing that is whole. The places of the directory
/// are added to `fixtures`.
///
/// # Errors
///
/// Both copies of something are damaged.
pub(super) fn read_catalogue(
    file: &PageFile,
    superblock: &Superblock,
    fixtures: &mut Vec<u32>,
) -> Result<ReadCatalogue> {
    let mut read = ReadCatalogue {
        text: CatalogueText::default(),
        written: WrittenParts::new(),
        damage: None,
    };
    if superblock.catalogue_bytes == 0 {
        return Ok(read);
    }
    let first = [superblock.catalogue, superblock.catalogue_copy];
    let (bytes, damage) = read_both(file, first, superblock.catalogue_bytes, fixtures)?;
    read.damage = damage;
    let directory = DirectoryText::decode(&bytes)
        .ok_or_else(|| Error::corrupt(file.path(), "the catalogue", "its directory makes no sense"))?;
    read.text.next_table = directory.next_table;
    for (number, bytes, first) in directory.entries {
        let mut places = Vec::new();
        let (text, damage) = read_both(file, first, bytes, &mut places)?;
        let text: Arc<[u8]> = text.into();
        read.text.parts.insert(number, text.clone());
        let part = WrittenPart {
            text: damage.is_none().then_some(text),
            bytes,
            first,
            places,
        };
        read.damage = read.damage.or(damage);
        if read.written.insert(number, part).is_some() {
            let reason = format!("its directory has part {number} twice");
            return Err(Error::corrupt(file.path(), "the catalogue", reason));
        }
    }
    Ok(read)
}

/// Reads a chain and its copy; returns what is wrong with one of them, if anything is.
fn read_both(
    file: &PageFile,
    first: [Slot; 2],
    bytes: u32,
    places: &mut Vec<u32>,
) -> Result<(Vec<u8>, Option<Error>)> {
    let [first, second] = first.map(|first| read_chain(file, first, bytes as usize, places));
    match (first, second) {
        (Ok(bytes), other) => Ok((bytes, other.err())),
        (Err(damage), Ok(bytes)) => Ok((bytes, Some(damage))),
        (Err(first), Err(second)) => Err(match (first, second) {
            (Error::Corrupt { file, place, reason }, second @ Error::Corrupt { .. }) => Error::corrupt(
                &file,
                place,
                format!("{reason}; and the copy is damaged, too: {second}"),
            ),
            (first, _) => first,
        }),
    }
}

/// All that is wrong with either copy of anything.
pub(super) fn check_catalogue(file: &PageFile, superblock: &Superblock) -> Vec<Error> {
    let both = [superblock.catalogue, superblock.catalogue_copy];
    let mut damage = Vec::new();
    let mut read = |first: Slot, bytes: u32| {
        let read = read_chain(file, first, bytes as usize, &mut Vec::new());
        read.map_err(|error| damage.push(error)).ok()
    };
    let directory = both.map(|first| read(first, superblock.catalogue_bytes));
    let bytes = directory.into_iter().flatten().next().unwrap_or_default();
    for (_, bytes, first) in DirectoryText::decode(&bytes).map_or(Vec::new(), |found| found.entries) {
        for first in first {
            read(first, bytes);
        }
    }
    damage
}

/// Where the pages of directory and parts stand in the data file, and those of their copies: a
/// chain each.
#[cfg(test)]
pub(crate) fn catalogue_chains(
    path: &std::path::Path,
    file: Box<dyn crate::disk::DiskFile>,
) -> [Vec<Vec<u64>>; 2] {
    let (superblock, _) = PageFile::read_superblock(path, &*file).expect("a sound store");
    let file = PageFile::new(path.into(), file, superblock.page_bytes as usize, 1);
    let chain = |first: Slot, bytes: u32| {
        let mut places = Vec::new();
        let text = read_chain(&file, first, bytes as usize, &mut places).expect("a sound store");
        (text, places.into_iter().map(|place| file.offset(place)).collect())
    };
    [0, 1].map(|copy| {
        let first = [superblock.catalogue, superblock.catalogue_copy][copy];
        let (text, places) = chain(first, superblock.catalogue_bytes);
        let directory = DirectoryText::decode(&text).expect("a sound store");
        let parts = directory.entries.iter();
        let parts = parts.map(|&(_, bytes, first)| chain(first[copy], bytes).1);
        std::iter::once(places).chain(parts).collect()
    })
}
