//! Statistics of how late keys are.

/// A power-of-two distance counts only if at least one in this many keys is that late.
const ONE_IN: u64 = 48;
/// One in this many of the counts decays at each query.
const FORGOTTEN: u64 = 8;

/// How far below the greatest key recent late keys lay, by powers of two.
#[derive(Debug)]
pub(crate) struct Lateness {
    /// Late keys, by the bit length of that distance.
    late: [u64; u64::BITS as usize + 1],
    in_order: u64,
}

impl Lateness {
    pub(crate) const fn new() -> Self {
        Self {
            late: [0; u64::BITS as usize + 1],
            in_order: 0,
        }
    }

    /// Counts a key at this distance below the greatest one.
    #[inline(always)]
    pub(crate) const fn note(&mut self, distance: u64) {
        self.late[(u64::BITS - distance.leading_zeros()) as usize] += 1;
    }

    /// Returns the greatest distance by which enough keys are late (see [`ONE_IN`]) and within
    /// which at most `most` entries lie; 0 if there is none. `in_order` keys were in order since
    /// the last call; `keys` are those up to the end of the order.
    pub(crate) fn reached(&mut self, keys: &[u64], in_order: usize, most: usize) -> u64 {
        self.in_order += in_order as u64;
        let all = self.in_order + self.late.iter().sum::<u64>();
        let reached = (0..=u64::BITS)
            .rev()
            .zip(self.late.iter().rev())
            .find_map(|(bits, &late)| {
                let distance = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
                (late * ONE_IN >= all.max(1) && entries_within(keys, distance) <= most).then_some(distance)
            });
        for count in self.late.iter_mut().chain([&mut self.in_order]) {
            *count -= count.div_ceil(FORGOTTEN);
        }
        reached.unwrap_or(0)
    }
}

/// Estimates how many of these ascending keys lie within a distance of the last one, extrapolating
/// below the first.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, of positive numbers"
)]
fn entries_within(keys: &[u64], distance: u64) -> usize {
    let (Some(&first), Some(&last)) = (keys.first(), keys.last()) else {
        return 0;
    };
    if distance <= last - first {
        return keys.len() - keys.partition_point(|&key| key < last - distance);
    }
    (keys.len() as f64 / (last - first) as f64 * distance as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_few_keys_are_late_by_does_not_count() {
        let keys: Vec<u64> = (0..1000).map(|key| key * 10).collect();
        let mut lateness = Lateness::new();
        assert_eq!(lateness.reached(&keys, 1000, 500), 0);
        (0..100).for_each(|late| lateness.note(late * 10));
        lateness.note(1 << 40);
        assert_eq!(lateness.reached(&keys, 1000, 500), 1023);
        // Counts decay step by step.
        assert_eq!(lateness.reached(&keys, 100, 500), 1023);
        (0..8).for_each(|_| {
            lateness.reached(&keys, 1000, 500);
        });
        assert_eq!(lateness.reached(&keys, 1000, 500), 0);
    }

    #[test]
    fn what_is_later_than_the_tail_may_be_long_does_not_count() {
        let keys: Vec<u64> = (0..1000).map(|key| key * 10).collect();
        let reached = |distance: u64, most: usize| {
            let mut lateness = Lateness::new();
            (0..1000).for_each(|_| lateness.note(distance));
            lateness.reached(&keys, 0, most)
        };
        assert_eq!(reached(4_000, 500), 4_095);
        assert_eq!(reached(4_000, 400), 0);
        assert_eq!(reached(40_000, 10_000), 65_535, "beyond the keys there are");
        assert_eq!(reached(40_000, 5_000), 0);
        assert_eq!(reached(u64::MAX, 5_000), 0);
        assert_eq!(reached(0, 5_000), 0);
    }
}
