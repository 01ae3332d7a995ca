//! Sorting a buffer, so that of equal keys the last one stays.

use super::entry::Buffered;

/// Sorts entries that arrived in this order; of equal keys the last one stays. `adaptively` if they
/// are nearly sorted.
pub(super) fn sort(entries: &mut Vec<Buffered>, adaptively: bool) {
    if !entries.is_sorted_by_key(|entry| entry.key) {
        if adaptively {
            sort_nearly_sorted(entries);
        } else {
            entries.sort_by_key(|entry| entry.key);
        }
    }
    keep_last(entries);
}

/// Sorts in time O(n + K log K) and memory O(K): of each two neighbours that are out of order both
/// are taken out (Cook, Kim, Communications of the ACM 23, 1980), which leaves the rest sorted,
/// then they are sorted and merged back.
fn sort_nearly_sorted(entries: &mut Vec<Buffered>) {
    let mut outliers: Vec<(usize, Buffered)> = Vec::new();
    let mut kept: Vec<(usize, Buffered)> = Vec::with_capacity(entries.len());
    for (arrival, entry) in entries.drain(..).enumerate() {
        match kept.last() {
            Some(&(_, last)) if last.key > entry.key => {
                outliers.extend(kept.pop());
                outliers.push((arrival, entry));
            }
            _ => kept.push((arrival, entry)),
        }
    }
    outliers.sort_unstable_by_key(|&(arrival, entry)| (entry.key, arrival));
    let mut outliers = outliers.into_iter().peekable();
    for (arrival, entry) in kept {
        while let Some(&(out, outlier)) = outliers.peek()
            && (outlier.key, out) < (entry.key, arrival)
        {
            entries.push(outlier);
            outliers.next();
        }
        entries.push(entry);
    }
    entries.extend(outliers.map(|(_, outlier)| outlier));
}

/// Keeps the last of neighbours with equal keys.
pub(super) fn keep_last(entries: &mut Vec<Buffered>) {
    entries.dedup_by(|later, earlier| {
        let is_same = later.key == earlier.key;
        if is_same {
            *earlier = *later;
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_keep_the_last_of_equal_keys(keys in prop::collection::vec(0_u64..50, 0..300)) {
            let arrived = |keys: &[u64]| -> Vec<Buffered> {
                (0..).zip(keys).map(|(number, &key)| Buffered { key, value: Some(number) }).collect()
            };
            let (mut adaptive, mut stable) = (arrived(&keys), arrived(&keys));
            sort(&mut adaptive, true);
            sort(&mut stable, false);
            let expected: std::collections::BTreeMap<u64, u64> = keys.iter().copied().zip(0..).collect();
            let expected: Vec<Buffered> =
                expected.into_iter().map(|(key, number)| Buffered { key, value: Some(number) }).collect();
            prop_assert_eq!(&adaptive, &expected);
            prop_assert_eq!(&stable, &expected);
        }
    }
}
