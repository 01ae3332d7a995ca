//! The floor: collect all keys, sort them, and pack them into leaves.

use quanta::Instant;

use crate::subjects::value_of;

const LEAF_ENTRIES: usize = 256;

/// Keys and values of a leaf, in separate arrays.
type FloorLeaf = ([u64; LEAF_ENTRIES], [u64; LEAF_ENTRIES]);

/// Returns the seconds of each method, with its name; allocation included.
///
/// # Panics
///
/// If a method does not sort.
#[must_use]
pub(super) fn seconds(keys: &[u64]) -> [(&'static str, f64); 3] {
    [
        ("floor, radix sort", timed(keys, radix_sort)),
        (
            "floor, unstable sort",
            timed(keys, |entries| entries.sort_unstable_by_key(|entry| entry.0)),
        ),
        (
            "floor, run-detecting sort",
            timed(keys, |entries| entries.sort_by_key(|entry| entry.0)),
        ),
    ]
}

fn timed(keys: &[u64], sort: impl Fn(&mut Vec<(u64, u64)>)) -> f64 {
    let start = Instant::now();
    let mut entries = Vec::new();
    for &key in keys {
        entries.push((key, value_of(key)));
    }
    sort(&mut entries);
    let leaves: Vec<Box<FloorLeaf>> = entries.chunks(LEAF_ENTRIES).map(pack).collect();
    let seconds = start.elapsed().as_secs_f64();
    let firsts = leaves.iter().map(|leaf| leaf.0[0]);
    assert!(firsts.is_sorted(), "the floor is not sorted");
    seconds
}

fn pack(entries: &[(u64, u64)]) -> Box<FloorLeaf> {
    let mut leaf = Box::new(([0; LEAF_ENTRIES], [0; LEAF_ENTRIES]));
    for (place, &(key, value)) in entries.iter().enumerate() {
        leaf.0[place] = key;
        leaf.1[place] = value;
    }
    leaf
}

/// Sorts by radix from the least significant digit, 11 bits at a time, over the digits that differ;
/// does nothing if the keys are sorted.
fn radix_sort(entries: &mut Vec<(u64, u64)>) {
    const DIGIT_BITS: u32 = 11;
    const DIGITS: usize = 1 << DIGIT_BITS;
    if entries.is_sorted_by_key(|entry| entry.0) {
        return;
    }
    let greatest = entries.iter().map(|entry| entry.0).max().unwrap_or(0);
    let mut scattered = vec![(0, 0); entries.len()];
    for pass in 0..(u64::BITS - greatest.leading_zeros()).div_ceil(DIGIT_BITS) {
        let digit = |key: u64| usize::try_from(key >> (pass * DIGIT_BITS) & (DIGITS as u64 - 1)).unwrap_or(0);
        let mut places = vec![0; DIGITS];
        for &(key, _) in entries.iter() {
            places[digit(key)] += 1;
        }
        let mut end = 0;
        for place in &mut places {
            end += std::mem::replace(place, end);
        }
        for &entry in entries.iter() {
            let place = &mut places[digit(entry.0)];
            scattered[*place] = entry;
            *place += 1;
        }
        std::mem::swap(entries, &mut scattered);
    }
}
