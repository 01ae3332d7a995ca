//! The distinct strings of a column, when there are few of them.

/// Strings as a dictionary of the distinct ones.
#[derive(Debug)]
pub(crate) struct Distinct<'a> {
    /// The distinct strings, in order of first occurrence.
    pub(crate) entries: Vec<&'a [u8]>,
    /// The entry of each string.
    pub(crate) indices: Vec<i64>,
}

/// Returns strings as a dictionary; `None` if more than half of them, or more than 32,768, are
/// distinct.
pub(super) fn distinct<'a>(strings: &[&'a [u8]]) -> Option<Distinct<'a>> {
    let entries_max = (strings.len() / 2).clamp(1, 1 << 15);
    let mut table = vec![u16::MAX; (4 * entries_max).next_power_of_two()];
    let mask = table.len() - 1;
    let mut entries: Vec<(u64, &[u8])> = Vec::new();
    let mut indices = Vec::with_capacity(strings.len());
    for string in strings {
        let hash = hash(string);
        let mut slot = usize::try_from(hash >> 32).expect("32 bits") & mask;
        let index = loop {
            match entries.get(usize::from(table[slot])) {
                Some((found, entry)) if *found == hash && is_same(entry, string) => break table[slot],
                Some(_) => slot = (slot + 1) & mask,
                None if entries.len() == entries_max => return None,
                None => {
                    table[slot] = u16::try_from(entries.len()).expect("at most 32,768");
                    entries.push((hash, string));
                    break table[slot];
                }
            }
        };
        indices.push(i64::from(index));
    }
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Some(Distinct { entries, indices })
}

/// The length up to which distinct strings of equal length have distinct hashes.
const SHORT_BYTES: usize = 8;

/// Returns whether two strings of the same hash are the same.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.len() <= SHORT_BYTES || one == other)
}

/// Returns whether a sample of `strings` has few enough distinct strings to try a dictionary.
pub(super) fn looks_few(strings: &[&[u8]]) -> bool {
    let step = strings.len().div_ceil(256).max(1);
    let mut sample: Vec<u64> = strings.iter().step_by(step).map(|string| hash(string)).collect();
    let sampled = sample.len();
    sample.sort_unstable();
    sample.dedup();
    sample.len() * 4 <= sampled * 3
}

/// Hashes a string. Each step can be undone, so for strings of one length the hash of a single word
/// tells them apart.
fn hash(string: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let length = string.len();
    let mut hash = u64::try_from(length).unwrap_or_default();
    let word = match *string {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        _ => {
            if length > SHORT_BYTES {
                for words in string[..length - 1].as_chunks::<8>().0 {
                    hash = mix(hash, u64::from_le_bytes(*words));
                }
                string.last_chunk().map_or(0, |last| u64::from_le_bytes(*last))
            } else {
                let ends = string.first_chunk().zip(string.last_chunk());
                let word = |end: &[u8; 4]| u64::from(u32::from_le_bytes(*end));
                ends.map_or(0, |(first, last)| word(first) | word(last) << 32)
            }
        }
    };
    hash = mix(hash, word);
    hash ^ hash >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_strings_of_one_length_have_hashes_of_their_own() {
        // Four bytes are two words that overlap, five to eight ones that overlap in part or not.
        for length in 1..=SHORT_BYTES {
            let mut strings: Vec<Vec<u8>> = Vec::new();
            for position in 0..length {
                for byte in 0..=255 {
                    let mut string = vec![7; length];
                    string[position] = byte;
                    strings.push(string);
                }
            }
            strings.sort_unstable();
            strings.dedup();
            let mut hashes: Vec<u64> = strings.iter().map(|string| hash(string)).collect();
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), strings.len(), "{length} bytes");
        }
    }

    #[test]
    fn each_string_finds_its_entry() {
        let strings: Vec<Vec<u8>> = (0..3000_u32)
            .map(|number| {
                let length = (number % 24) as usize;
                number
                    .to_le_bytes()
                    .iter()
                    .cycle()
                    .map(|byte| byte % 3)
                    .take(length)
                    .collect()
            })
            .collect();
        let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let distinct = distinct(&slices).expect("few are distinct");
        let found = distinct
            .indices
            .iter()
            .map(|&index| distinct.entries[usize::try_from(index).expect("small")]);
        assert!(found.eq(slices.iter().copied()));
        let mut entries = distinct.entries.clone();
        entries.sort_unstable();
        entries.dedup();
        assert_eq!(entries.len(), distinct.entries.len());
    }
}
