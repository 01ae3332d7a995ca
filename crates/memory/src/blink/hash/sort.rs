//! Sorts the entries of a hash leaf, usually thousands at once.
//!
//! Time stamps are spread about evenly between the least and the greatest. So entries are first
//! distributed over equal parts of that range; comparisons then sort the few entries of each part,
//! or many where keys are spread unevenly.

use crate::search::columns::Words;

/// Fewer entries than this are sorted by comparisons alone.
const ENTRIES_MIN: usize = if cfg!(miri) { 24 } else { 256 };
/// Entries per part if they are spread evenly.
const PART_ENTRIES: usize = 4;

/// Sorts entries by their keys, which are distinct.
pub(super) fn sort<W: Words>(entries: &mut [(W, u64)]) {
    let words = || entries.iter().map(|entry| entry.0.first_word());
    let (Some(least), Some(greatest)) = (words().min(), words().max()) else {
        return;
    };
    if entries.len() < ENTRIES_MIN || least == greatest {
        entries.sort_unstable_by_key(|entry| entry.0);
        return;
    }
    let parts_log = (entries.len() / PART_ENTRIES).ilog2();
    let shift = (greatest - least).ilog2().saturating_sub(parts_log - 1);
    let part_of = |entry: &(W, u64)| {
        let part = (entry.0.first_word() - least) >> shift;
        usize::try_from(part).unwrap_or(usize::MAX)
    };
    // The start of each part; while it is filled, the position of its next entry.
    let mut next = vec![0; (1 << parts_log) + 1];
    for entry in &*entries {
        next[part_of(entry) + 1] += 1;
    }
    for part in 1..next.len() {
        next[part] += next[part - 1];
    }
    let as_they_came = entries.to_vec();
    for entry in as_they_came {
        let place = &mut next[part_of(&entry)];
        entries[*place] = entry;
        *place += 1;
    }
    let mut begin = 0;
    for &end in &next[..next.len() - 1] {
        entries[begin..end].sort_unstable_by_key(|entry| entry.0);
        begin = end;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    fn is_sorted_like_the_library_does<const W: usize>(keys: impl Iterator<Item = [u64; W]>) {
        let mut entries: Vec<_> = keys.zip(0..).collect();
        let mut expected = entries.clone();
        expected.sort_unstable();
        sort(&mut entries);
        assert_eq!(entries, expected);
    }

    #[test]
    fn entries_are_sorted_however_they_lie() {
        let mut rng = Rng::new(1);
        let most = if cfg!(miri) { ENTRIES_MIN } else { 5_000 };
        for len in [0, 1, 2, ENTRIES_MIN - 1, ENTRIES_MIN, ENTRIES_MIN + 1, most] {
            let numbers = 0..len as u64;
            is_sorted_like_the_library_does(numbers.clone().map(|number| [number]));
            is_sorted_like_the_library_does(numbers.clone().rev().map(|number| [number]));
            is_sorted_like_the_library_does(numbers.clone().map(|number| [u64::MAX - number]));
            // All but two in one part.
            let ends = [[0], [u64::MAX]];
            is_sorted_like_the_library_does(
                ends.into_iter()
                    .chain(numbers.clone().map(|n| [n * 7 % 8191 + 5])),
            );
            is_sorted_like_the_library_does(numbers.clone().map(|number| [3, u64::MAX - number]));
            is_sorted_like_the_library_does(numbers.clone().map(|number| [number % 5, number]));
            is_sorted_like_the_library_does(numbers.map(|_| [rng.next_u64(), rng.next_u64()]));
        }
    }
}
