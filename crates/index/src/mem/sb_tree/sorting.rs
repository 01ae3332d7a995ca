//! Putting a log in order whose keys do not ascend, a stretch at a time.
//!
//! Keys that arrive a little late belong a few places before where they lie. So each is moved there past those before it, as
//! long as that takes few moves; otherwise what there is is sorted, which merges what is in order with what is not.

use super::log::LOG_CAP;

/// Moves for each entry of a stretch, on average, up to which it is not sorted: then the moves take as long.
const MOVES: usize = 16;

/// Keys of a log with their places, ascending; equal ones by place.
#[derive(Debug)]
pub(super) struct Sorting<W>(Vec<(W, u16)>);

impl<W: Ord + Copy> Sorting<W> {
    /// None yet; room for so many.
    pub(super) fn new(entries: usize) -> Self {
        Self(Vec::with_capacity(entries))
    }

    /// How many are in order.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A key in order, and its place in the log.
    pub(super) fn entry(&self, index: usize) -> (W, usize) {
        let (key, place) = self.0[index];
        (key, usize::from(place))
    }

    /// How many have keys up to `greatest`.
    pub(super) fn up_to(&self, greatest: &W) -> usize {
        self.0.partition_point(|(key, _)| key <= greatest)
    }

    /// Adds what follows in the log.
    pub(super) fn add(&mut self, stretch: impl ExactSizeIterator<Item = (W, usize)>) {
        let mut moves = MOVES * stretch.len();
        let mut is_in_order = true;
        for (key, place) in stretch {
            let entry = (key, u16::try_from(place).unwrap_or(u16::MAX));
            let mut to = self.0.len();
            self.0.push(entry);
            while is_in_order && to > 0 && self.0[to - 1].0 > key {
                self.0[to] = self.0[to - 1];
                to -= 1;
                is_in_order = moves > 0;
                moves = moves.saturating_sub(1);
            }
            self.0[to] = entry;
        }
        if !is_in_order {
            self.0.sort();
        }
    }
}

const _: () = assert!(LOG_CAP <= u16::MAX as usize);

#[cfg(all(test, not(loom)))]
mod tests {
    use bedload_testkit::Rng;

    use super::*;

    #[test]
    fn whatever_the_disorder_keys_ascend_and_equal_ones_by_place() {
        let mut rng = Rng::new(1);
        for disorder in [1, 3, 40, 1_000_000] {
            let keys: Vec<u64> = (0..1_000).map(|place| place + rng.below(disorder)).collect();
            let mut expected: Vec<(u64, usize)> = keys.iter().copied().zip(0..).collect();
            expected.sort();
            let mut sorting = Sorting::new(0);
            for (number, stretch) in keys.chunks(100).enumerate() {
                sorting.add(
                    stretch
                        .iter()
                        .enumerate()
                        .map(|(place, &key)| (key, 100 * number + place)),
                );
                assert!((1..sorting.len()).all(|index| sorting.entry(index - 1) < sorting.entry(index)));
            }
            let sorted: Vec<_> = (0..sorting.len()).map(|index| sorting.entry(index)).collect();
            assert_eq!(sorted, expected);
        }
    }
}
