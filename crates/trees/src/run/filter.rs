//! The filter of a run: it excludes most keys that the run does not have.
//!
//! A blocked Bloom filter (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom
//! Filters", WEA 2007), divided among pages by the hash, so that a question costs one of them. Why
//! this kind: docs/decisions/0011.
//!
//! | offset | bytes | of a page of a filter |
//! |---|---|---|
//! | 0 | 2 | magic `0xBED4` |
//! | 2 | 1 | level: 0 for a page of bits, a parent's is its children's plus one |
//! | 3 | 1 | zero |
//! | 4 | 2 | blocks, or children |
//! | 6 | 2 | zero |
//! | 8 | 8 | generation of the run, that of its first page |
//! | 16 | 4 | first page of the run |
//! | 20 | 4 | zero |
//! | 24 | … | blocks of 64 bytes, or page ids of 4 bytes |
//!
//! The pages of bits are numbered in the order of the hashes they are for. Above them stand pages
//! of page ids, each full but the last, up to a level of one page.

use std::sync::Arc;

use super::page::RunName;
use bedload_pages::{Error, PageId, PageRead, Result, RunWriter};

const MAGIC: u16 = 0xBED4;
const HEADER_LEN: usize = 24;
const BLOCK_LEN: usize = 64;
const BLOCK_BITS: usize = 8 * BLOCK_LEN;
const BLOCK_WORDS: usize = BLOCK_LEN / size_of::<u64>();
const ID_LEN: usize = 4;
/// Bits that a key sets: seven times nine bits of a hash name them.
const PROBES: u32 = 7;

/// Where the filter of a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// The page at its top.
    pub root: PageId,
    /// Its pages of bits, those above them not counted.
    pub pages: u32,
}

/// The hashes of a run's keys, 8 bytes each, until the run ends and its filter can be measured out;
/// 16 bytes then.
#[derive(Debug, Default)]
pub(super) struct FilterBuilder {
    hashes: Vec<u64>,
}

impl FilterBuilder {
    /// Adds a key; keys come in order, so that equal ones come together.
    pub(super) fn push(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Writes the pages; returns where they stand, and how many they are in all.
    pub(super) fn write(
        &self,
        writer: &mut impl RunWriter,
        run: &RunName,
        payload_len: usize,
        bits_per_key: u8,
    ) -> Result<(Filter, u32)> {
        let blocks_max = ((payload_len - HEADER_LEN) / BLOCK_LEN).max(1);
        let blocks = (self.hashes.len() * usize::from(bits_per_key))
            .div_ceil(BLOCK_BITS)
            .max(1);
        let parts = blocks.div_ceil(blocks_max);
        let blocks_each = blocks.div_ceil(parts);
        let (hashes, ends) = self.by_part(parts);

        let mut page = Vec::new();
        let mut total = 0;
        let mut write_page = |level: u8, count: usize, content: &[u8]| -> Result<PageId> {
            let reserved = writer.reserve()?;
            let id = reserved.id;
            page.clear();
            page.extend_from_slice(&MAGIC.to_le_bytes());
            page.extend_from_slice(&[level, 0]);
            page.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
            page.extend_from_slice(&[0; 2]);
            page.extend_from_slice(&run.generation.to_le_bytes());
            page.extend_from_slice(&run.first_page.get().to_le_bytes());
            page.extend_from_slice(&[0; 4]);
            page.extend_from_slice(content);
            writer.write(reserved, &page)?;
            total += 1;
            Ok(id)
        };
        let mut bits = vec![0; blocks_each * BLOCK_LEN];
        let mut ids = Vec::with_capacity(parts);
        let mut begin = 0;
        for end in ends {
            bits.fill(0);
            for &hash in &hashes[begin..end] {
                let block = block_of(hash, blocks_each);
                let block = &mut bits[block * BLOCK_LEN..][..BLOCK_LEN];
                for bit in bits_of(hash) {
                    block[bit / 8] |= 1 << (bit % 8);
                }
            }
            ids.push(write_page(0, blocks_each, &bits)?);
            begin = end;
        }
        let mut level = 0;
        while ids.len() > 1 {
            level += 1;
            ids = ids
                .chunks(fan_out(payload_len))
                .map(|children| {
                    let content: Vec<u8> = children.iter().flat_map(|id| id.get().to_le_bytes()).collect();
                    write_page(level, children.len(), &content)
                })
                .collect::<Result<_>>()?;
        }
        let pages = u32::try_from(parts).unwrap_or(u32::MAX);
        Ok((Filter { root: ids[0], pages }, total))
    }

    /// The hashes, those of one part together, and where each part ends: so that its bits stay in
    /// the cache while they are set.
    fn by_part(&self, parts: usize) -> (Vec<u64>, Vec<usize>) {
        let mut next = vec![0; parts];
        for &hash in &self.hashes {
            next[part_of(hash, parts)] += 1;
        }
        let mut before = 0;
        for next in &mut next {
            before += std::mem::replace(next, before);
        }
        let mut sorted = vec![0; self.hashes.len()];
        for &hash in &self.hashes {
            let at = &mut next[part_of(hash, parts)];
            sorted[*at] = hash;
            *at += 1;
        }
        (sorted, next)
    }
}

/// Which part of a filter a hash belongs to.
fn part_of(hash: u64, parts: usize) -> usize {
    // The upper half of a hash below 2^32, times a count below 2^32: the product's upper half is
    // below the count.
    (((hash >> 32) * parts as u64) >> 32) as usize
}

/// Which block of its part.
fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash & 0xffff_ffff) * blocks as u64) >> 32) as usize
}

/// The bits of a hash within its block. They are drawn from all of the hash once more, as its
/// upper bits are alike in one part and its lower ones in one block.
fn bits_of(hash: u64) -> impl Iterator<Item = usize> {
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (0..PROBES).map(move |probe| {
        let [low, high, ..] = (mixed >> (9 * probe)).to_le_bytes();
        usize::from(u16::from_le_bytes([low, high])) % BLOCK_BITS
    })
}

/// A block as the words of which its bits are counted, from the lowest of the first one.
fn words_of(block: &[u8; BLOCK_LEN]) -> [u64; BLOCK_WORDS] {
    let (words, _) = block.as_chunks();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// Whether a block has all the bits of a hash.
fn is_set(block: &[u64; BLOCK_WORDS], hash: u64) -> bool {
    bits_of(hash).all(|bit| block[bit / 64] >> (bit % 64) & 1 == 1)
}

fn fan_out(payload_len: usize) -> usize {
    (payload_len - HEADER_LEN) / ID_LEN
}

impl Filter {
    /// Whether the run may have a key of this hash. A page for each level above the bits, and one
    /// of bits.
    pub(super) fn may_contain(&self, store: &impl PageRead, run: &RunName, hash: u64) -> Result<bool> {
        let parts = self.pages as usize;
        let part = part_of(hash, parts);
        let fan_out = fan_out(store.payload_len());
        let mut id = self.root;
        let mut levels = levels_above(parts, fan_out);
        if levels == 1 {
            let top = self.top(store, run)?;
            let bits = top
                .get(part)
                .and_then(|&bits| PageId::new(u32::try_from(bits).ok()?));
            id = bits.ok_or(missing_child(id))?;
            levels = 0;
        }
        for level in (1..=levels).rev() {
            let below = fan_out.pow(u32::from(level) - 1);
            let guard = store.read(id)?;
            let children: &[[u8; ID_LEN]] = content(&guard, id, run, level)?;
            id = child_at(children, part / below % fan_out, id)?;
        }
        let life = (run.first_page, run.generation);
        if let Some(words) = store.recall(id, life) {
            let (blocks, _) = words.as_chunks();
            let block = blocks.get(block_of(hash, blocks.len()));
            return block.map(|block| is_set(block, hash)).ok_or(missing_child(id));
        }
        let guard = store.read(id)?;
        let blocks: &[[u8; BLOCK_LEN]] = content(&guard, id, run, 0)?;
        store.remember(id, life, || Some(blocks.iter().flat_map(words_of).collect()));
        let block = blocks.get(block_of(hash, blocks.len()));
        block
            .map(|block| is_set(&words_of(block), hash))
            .ok_or(missing_child(id))
    }

    /// The page that [`may_contain`](Self::may_contain) would read first; none if the store
    /// remembers all that it asks for.
    pub(super) fn first_page(&self, store: &impl PageRead, run: &RunName, hash: u64) -> Option<PageId> {
        let parts = self.pages as usize;
        let life = (run.first_page, run.generation);
        let mut id = self.root;
        if levels_above(parts, fan_out(store.payload_len())) == 1 {
            let Some(top) = store.recall(id, life) else {
                return Some(id);
            };
            let bits = top.get(part_of(hash, parts))?;
            id = PageId::new(u32::try_from(*bits).ok()?)?;
        }
        store.recall(id, life).is_none().then_some(id)
    }

    /// The pages of bits, which the page at the top names, as the store remembers them.
    fn top(&self, store: &impl PageRead, run: &RunName) -> Result<Arc<[u64]>> {
        let life = (run.first_page, run.generation);
        if let Some(known) = store.recall(self.root, life) {
            return Ok(known);
        }
        let guard = store.read(self.root)?;
        let ids: &[[u8; ID_LEN]] = content(&guard, self.root, run, 1)?;
        let found = (0..ids.len()).map(|slot| Ok(child_at(ids, slot, self.root)?.get().into()));
        let found: Arc<[u64]> = found.collect::<Result<_>>()?;
        store.remember(self.root, life, || Some(found.clone()));
        Ok(found)
    }

    /// All its pages.
    pub(super) fn all_pages(&self, store: &impl PageRead, run: &RunName) -> Result<Vec<PageId>> {
        let mut all = Vec::new();
        let mut below = vec![self.root];
        for level in (1..=levels_above(self.pages as usize, fan_out(store.payload_len()))).rev() {
            let mut children = Vec::new();
            for &id in &below {
                let guard = store.read(id)?;
                let ids: &[[u8; ID_LEN]] = content(&guard, id, run, level)?;
                for slot in 0..ids.len() {
                    children.push(child_at(ids, slot, id)?);
                }
                if children.len() > self.pages as usize {
                    return Err(Error::Corrupt {
                        page: self.root,
                        reason: "its filter has more pages than it says",
                    });
                }
            }
            all.append(&mut below);
            below = children;
        }
        all.append(&mut below);
        Ok(all)
    }
}

/// The child of a page of page ids.
fn child_at(children: &[[u8; ID_LEN]], slot: usize, id: PageId) -> Result<PageId> {
    children
        .get(slot)
        .and_then(|bytes| PageId::new(u32::from_le_bytes(*bytes)))
        .filter(|&child| child != id)
        .ok_or(missing_child(id))
}

fn missing_child(page: PageId) -> Error {
    Error::Corrupt {
        page,
        reason: "a child of its filter is missing",
    }
}

/// Levels of page ids above so many pages of bits.
fn levels_above(mut pages: usize, fan_out: usize) -> u8 {
    let mut levels = 0;
    while pages > 1 {
        pages = pages.div_ceil(fan_out);
        levels += 1;
    }
    levels
}

/// The contents of a filter's page after its header.
fn content<'p, const LEN: usize>(
    page: &'p [u8],
    id: PageId,
    run: &RunName,
    level: u8,
) -> Result<&'p [[u8; LEN]]> {
    let corrupt = |reason| Error::Corrupt { page: id, reason };
    let (header, rest) = page
        .split_first_chunk::<HEADER_LEN>()
        .ok_or_else(|| corrupt("it is not a page of a filter"))?;
    let (words, _) = header.as_chunks::<8>();
    let [magic_low, magic_high, found_level, _, count_low, count_high, _, _] = words[0];
    let first_page = u32::from_le_bytes([words[2][0], words[2][1], words[2][2], words[2][3]]);
    let count = usize::from(u16::from_le_bytes([count_low, count_high]));
    let (items, _) = rest.as_chunks::<LEN>();
    let reason = if u16::from_le_bytes([magic_low, magic_high]) != MAGIC {
        "it is not a page of a filter"
    } else if first_page != run.first_page.get() || u64::from_le_bytes(words[1]) != run.generation {
        "it belongs to the filter of another run"
    } else if found_level != level {
        "its level is not the one its parent has it for"
    } else if count == 0 || count > items.len() {
        "its filter reaches out of it"
    } else {
        return Ok(&items[..count]);
    };
    Err(corrupt(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bedload_pages::RunLife;

    /// A store that remembers so many words of every page.
    struct Remembering(usize);

    impl PageRead for Remembering {
        type Guard<'s> = Box<[u8]>;

        fn payload_len(&self) -> usize {
            512
        }

        fn read(&self, _id: PageId) -> Result<Box<[u8]>> {
            Ok(Box::new([0; 512]))
        }

        fn recall(&self, _page: PageId, _run: RunLife) -> Option<Arc<[u64]>> {
            Some(vec![0; self.0].into())
        }
    }

    /// A page that two runs name may be remembered as what it is for the other.
    #[test]
    fn too_few_words_that_are_remembered_are_damage() {
        let page = PageId::new(7).expect("not zero");
        let run = RunName {
            first_page: page,
            generation: 1,
        };
        let filter = Filter { root: page, pages: 1 };
        assert!(!filter.may_contain(&Remembering(8), &run, 1).expect("a block"));
        let found = filter.may_contain(&Remembering(6), &run, 1);
        assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
    }
}
