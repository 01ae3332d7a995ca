//! The distinct values of a column, when there are few of them.

/// The most distinct values for which a dictionary is tried.
const ENTRIES_MAX: usize = 4096;

const SLOTS: usize = 4 * ENTRIES_MAX;

/// Returns the distinct values in ascending order and the index of each value; `None` if there are
/// too many.
pub(super) fn distinct(values: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
    let mut slots = vec![u16::MAX; SLOTS];
    let mut entries: Vec<i64> = Vec::new();
    let mut found = Vec::with_capacity(values.len());
    for value in values {
        let mut slot = start(*value);
        let entry = loop {
            match entries.get(usize::from(slots[slot])) {
                Some(entry) if entry == value => break slots[slot],
                Some(_) => slot = (slot + 1) % SLOTS,
                None if entries.len() == ENTRIES_MAX || entries.len() * 4 > values.len() + 64 => return None,
                None => {
                    slots[slot] = u16::try_from(entries.len()).expect("at most ENTRIES_MAX");
                    entries.push(*value);
                    break slots[slot];
                }
            }
        };
        found.push(entry);
    }
    let mut by_value: Vec<usize> = (0..entries.len()).collect();
    by_value.sort_unstable_by_key(|entry| entries[*entry]);
    let mut rank = vec![0; entries.len()];
    for (index, entry) in (0..).zip(&by_value) {
        rank[*entry] = index;
    }
    let indices = found.iter().map(|entry| rank[usize::from(*entry)]).collect();
    entries.sort_unstable();
    Some((entries, indices))
}

/// Returns whether a sample of `values` has few enough distinct values that a dictionary may take
/// less than `cost` bytes: an index takes as many bits as tell the values apart.
pub(super) fn may_save(values: &[i64], cost: usize) -> bool {
    let step = values.len().div_ceil(512);
    let mut sample: Vec<i64> = values.iter().step_by(step.max(1)).copied().collect();
    let sampled = sample.len();
    sample.sort_unstable();
    sample.dedup();
    let index_bits = sample.len().next_power_of_two().ilog2() as usize;
    sample.len() * 2 < sampled && values.len() * index_bits / 8 < cost
}

fn start(value: i64) -> usize {
    let hash = value.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(hash >> 40).expect("24 bits") % SLOTS
}
