//! The pages of a data file.

/// Where the pages of a data file begin, as far as they are whole at their beginning.
pub(crate) const PAGES_OFFSET: usize = 64 << 10;

/// The offsets of all pages, whether the last checkpoint has them or not; a long one once.
pub(crate) fn pages_of(bytes: &[u8], page_bytes: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    let mut at = PAGES_OFFSET;
    while at + page_bytes <= bytes.len() {
        let places = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("four bytes")) as usize;
        let end = at + places.max(1) * page_bytes;
        let is_whole = (1..=4).contains(&bytes[at + 4])
            && places > 0
            && end <= bytes.len()
            && crc32c::crc32c(&bytes[at + 4..end]).to_le_bytes() == bytes[at..at + 4];
        if is_whole {
            pages.push(at);
        }
        at = if is_whole { end } else { at + page_bytes };
    }
    pages
}
