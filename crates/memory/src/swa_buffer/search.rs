//! Searching the sorted parts of a buffer by interpolation (Perl, Itai, Avni, 1978).

use super::entry::Buffered;

/// Steps of interpolation; under skew they would be many, so binary search goes on from there.
const STEPS: usize = 6;
/// Fewer entries than this are searched by binary search at once.
const FEW: usize = 16;

/// How many entries, which ascend, lie below the key.
pub(super) fn lower_bound(entries: &[Buffered], key: u64) -> usize {
    let (mut from, mut to) = (0, entries.len());
    for _ in 0..STEPS {
        if to - from < FEW {
            break;
        }
        let (first, last) = (entries[from].key, entries[to - 1].key);
        if key <= first {
            return from;
        }
        if key > last {
            return to;
        }
        let at = from + share(key - first, last - first, to - 1 - from);
        if entries[at].key < key {
            from = at + 1;
        } else {
            to = at;
        }
    }
    from + entries[from..to].partition_point(|entry| entry.key < key)
}

/// `part` of `whole` parts of `len`; 0 of 0.
fn share(part: u64, whole: u64, len: usize) -> usize {
    (u128::from(part) * len as u128 / u128::from(whole.max(1))) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_place_whatever_the_skew() {
        for power in 1..6_u32 {
            let places = if cfg!(miri) { 60_u64 } else { 3_000 };
            let keys: Vec<u64> = (0..places).map(|place| (place / 2).pow(power)).collect();
            let entries: Vec<Buffered> = keys.iter().map(|&key| Buffered { key, value: None }).collect();
            let around = keys.iter().flat_map(|&key| [key.saturating_sub(1), key, key + 1]);
            for key in around.chain([u64::MAX]) {
                assert_eq!(
                    lower_bound(&entries, key),
                    keys.partition_point(|&other| other < key)
                );
            }
        }
    }
}
