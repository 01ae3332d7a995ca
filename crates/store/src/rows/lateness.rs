//! By how much the recent rows of a table were late.

/// How many rows came later than others by how much: powers of two of the unit of the time column.
#[derive(Debug, Clone)]
pub(crate) struct Lateness {
    latest: i64,
    /// Rows that were late by at least 2ⁿ and less than 2ⁿ⁺¹ ticks.
    counts: [u64; BUCKETS],
}

const BUCKETS: usize = 64;

impl Default for Lateness {
    fn default() -> Self {
        Self {
            latest: i64::MIN,
            counts: [0; BUCKETS],
        }
    }
}

impl Lateness {
    /// Rows of these times arrived one after another.
    pub(crate) fn observe(&mut self, times: &[i64]) {
        for &time in times {
            if time >= self.latest {
                self.latest = time;
            } else {
                self.counts[time.abs_diff(self.latest).ilog2() as usize] += 1;
            }
        }
    }

    /// Forgets half of what was observed, so that what was once is not expected for ever.
    pub(crate) fn age(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
    }

    /// Bounds of lateness in ticks, greatest first: the first holds for all late rows, the next
    /// without the latest ones, and so on, as long as half of the late rows are within it.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = u64> {
        let all: u64 = self.counts.iter().sum();
        let mut later = 0;
        let buckets = (0..BUCKETS).rev().filter(|&bucket| self.counts[bucket] > 0);
        let of_most = buckets.take_while(move |&bucket| {
            let is_of_most = later <= all / 2;
            later += self.counts[bucket];
            is_of_most
        });
        of_most.map(|bucket| u64::MAX >> (BUCKETS - 1 - bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_late_by_less_than_the_bound() {
        let mut lateness = Lateness::default();
        lateness.observe(&[10, 20, 30, 30]);
        assert_eq!(lateness.bounds().next(), None);
        lateness.observe(&[29, 40, 33, 40, i64::MAX, i64::MIN]);
        let bounds = |lateness: &Lateness| lateness.bounds().collect::<Vec<u64>>();
        assert_eq!(
            bounds(&lateness),
            [u64::MAX, 7],
            "two rows of three are later than by 1"
        );
        lateness.age();
        assert_eq!(
            lateness.bounds().next(),
            None,
            "one row of a kind is soon forgotten"
        );
        // Ten rows are late by up to 3 ticks, and ten by 1,000 or more.
        lateness.observe(&[i64::MAX; 1]);
        for late in (2..4).cycle().take(10).chain(1000..1010) {
            lateness.observe(&[i64::MAX - late]);
        }
        assert_eq!(bounds(&lateness), [1023, 3], "half of the rows");
        lateness.observe(&[i64::MAX - 1000]);
        assert_eq!(bounds(&lateness), [1023], "fewer than half");
    }
}
