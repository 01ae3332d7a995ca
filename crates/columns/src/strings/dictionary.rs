//! The distinct strings of a column, when there are few of them.

/// Returns the distinct strings in order of first occurrence and the index of each string; `None`
/// if more than half of the strings, or more than 32,768, are distinct.
pub(super) fn distinct<'a>(strings: &[&'a [u8]]) -> Option<(Vec<&'a [u8]>, Vec<i64>)> {
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
                Some((found, entry)) if *found == hash && entry == string => break table[slot],
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
    Some((entries.into_iter().map(|(_, entry)| entry).collect(), indices))
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

fn hash(string: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let length = string.len();
    let mut hash = u64::try_from(length).unwrap_or_default();
    if let (Some(first), Some(last)) = (string.first_chunk::<8>(), string.last_chunk::<8>()) {
        for words in string[..length - 1].as_chunks::<8>().0.iter().skip(1) {
            hash = mix(hash, u64::from_le_bytes(*words));
        }
        hash = mix(mix(hash, u64::from_le_bytes(*first)), u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (string.first_chunk::<4>(), string.last_chunk::<4>()) {
        hash = mix(
            hash,
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        );
    } else {
        for byte in string {
            hash = mix(hash, u64::from(*byte));
        }
    }
    hash ^ hash >> 29
}
