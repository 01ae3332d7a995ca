//! The rows of a schedule's entries.

use super::history::Place;
use super::keys::NumberedKeys;
use crate::entry::FixedRow;
use crate::run::RunEntry;

/// A row tells the number of its key, and a value.
pub(super) type Rows = FixedRow<16>;

pub(super) fn row_of(number: u64, value: u64) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&number.to_le_bytes());
    row[8..].copy_from_slice(&value.to_le_bytes());
    row
}

/// Where an entry stands, and its value.
pub(super) fn seen<O: NumberedKeys>(order: &O, entry: &RunEntry<'_, O, Rows>) -> (Place, u64) {
    let (mut row, mut scratch) = (Vec::new(), Vec::new());
    entry.fixed_into(&mut row);
    let word = |at: usize| {
        row[at..]
            .first_chunk()
            .map_or(0, |chunk| u64::from_le_bytes(*chunk))
    };
    let number = word(0);
    let expected = order.key_of(number, 0);
    assert!(
        order.compare(entry.key(&mut scratch), &expected).is_eq(),
        "the key of {number} is {scratch:?}"
    );
    ((number, entry.tie()), word(8))
}
