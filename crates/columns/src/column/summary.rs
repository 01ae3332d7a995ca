//! A column's entry in the directory of a leaf: its bounds, and whether it is sorted.

use arrow_buffer::NullBuffer;

use crate::bounds::{Bound, Bounds};
use crate::floats::Real;
use crate::processor::by_processor;
use crate::strings::Distinct;

/// Content of the directory's entry for a column.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) bounds: Option<Bounds>,
    pub(crate) sorted: bool,
}

/// Nulls repeat other values, so bounds may ignore them.
pub(super) fn summary_of_ints(ordered: &[i64], nulls: Option<&NullBuffer>) -> Summary {
    summary_of(extent_of_ints(ordered), nulls)
}

/// As [`summary_of_ints`], in the total order of IEEE 754.
pub(super) fn summary_of_reals<R: Real>(values: &[R], nulls: Option<&NullBuffer>) -> Summary {
    summary_of(extent_of_reals(values), nulls)
}

by_processor! {
    fn extent_of_ints(ordered: &[i64]) -> Extent {
        Extent::of(ordered.iter().copied())
    }
}

by_processor! {
    fn extent_of_reals<R: Real>(values: &[R]) -> Extent {
        Extent::of(values.iter().map(|value| value.ordered()))
    }
}

/// The least and the greatest of some numbers, and whether they ascend.
struct Extent {
    min: i64,
    max: i64,
    sorted: bool,
}

impl Extent {
    #[inline(always)]
    fn of(ordered: impl Iterator<Item = i64>) -> Self {
        let (mut min, mut max, mut sorted, mut last) = (i64::MAX, i64::MIN, true, i64::MIN);
        for value in ordered {
            min = min.min(value);
            max = max.max(value);
            sorted &= last <= value;
            last = value;
        }
        Self { min, max, sorted }
    }
}

fn summary_of(Extent { min, max, sorted }: Extent, nulls: Option<&NullBuffer>) -> Summary {
    let bounds = Bounds {
        min: Bound::Int(min),
        max: Some(Bound::Int(max)),
        exact: true,
    };
    Summary {
        bounds: (min <= max).then_some(bounds),
        sorted: sorted && nulls.is_none(),
    }
}

/// The summary of strings without nulls that a dictionary has.
pub(super) fn summary_of_distinct(distinct: &Distinct<'_>) -> Summary {
    let entries = &distinct.entries;
    let mut by_value: Vec<usize> = (0..entries.len()).collect();
    by_value.sort_unstable_by_key(|&entry| entries[entry]);
    let (Some(&min), Some(&max)) = (by_value.first(), by_value.last()) else {
        return Summary::default();
    };
    let mut rank = vec![0; entries.len()];
    for (number, &entry) in by_value.iter().enumerate() {
        rank[entry] = number;
    }
    let rank_of = |index: i64| usize::try_from(index).map_or(0, |entry| rank[entry]);
    let bounds = Bounds {
        min: Bound::Bytes(entries[min].to_vec()),
        max: Some(Bound::Bytes(entries[max].to_vec())),
        exact: true,
    };
    Summary {
        bounds: Some(bounds),
        sorted: distinct.indices.is_sorted_by_key(|&index| rank_of(index)),
    }
}

/// The first four bytes of a string, zeros after its end: of two strings with different prefixes,
/// the one with the lesser prefix is less.
fn prefix(string: &[u8]) -> u32 {
    let bytes = match *string {
        [] => [0; 4],
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        [a, b, c, d, ..] => [a, b, c, d],
    };
    u32::from_be_bytes(bytes)
}

pub(super) fn summary_of_strings(strings: &[&[u8]], nulls: Option<&NullBuffer>) -> Summary {
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let mut all = strings
        .iter()
        .enumerate()
        .filter(|(row, _)| valid(*row))
        .map(|(_, string)| *string);
    let Some(first) = all.next() else {
        return Summary::default();
    };
    let (mut min, mut max, mut last, mut sorted) = (first, first, first, true);
    let (mut min_prefix, mut max_prefix) = (prefix(first), prefix(first));
    for string in all {
        // Most strings lie between the bounds, and a comparison of their prefixes shows it.
        let of_string = prefix(string);
        let between = min_prefix < of_string && of_string < max_prefix;
        if !between {
            if string < min {
                (min, min_prefix) = (string, of_string);
            }
            if string > max {
                (max, max_prefix) = (string, of_string);
            }
        }
        if sorted {
            sorted = last <= string;
            last = string;
        }
    }
    let bounds = Bounds {
        min: Bound::Bytes(min.to_vec()),
        max: Some(Bound::Bytes(max.to_vec())),
        exact: true,
    };
    Summary {
        bounds: Some(bounds),
        sorted: sorted && nulls.is_none(),
    }
}
