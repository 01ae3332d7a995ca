//! By how much the rows of a table were late, lately.

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

    /// By how many ticks rows were late at most, the greatest lateness first; then without those
    /// that were as late, and so on.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = u64> {
        let buckets = (0..BUCKETS).rev().filter(|&bucket| self.counts[bucket] > 0);
        buckets.map(|bucket| u64::MAX >> (BUCKETS - 1 - bucket))
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
        let bounds: Vec<u64> = lateness.bounds().collect();
        assert_eq!(bounds, [u64::MAX, 7, 1]);
        lateness.age();
        assert_eq!(
            lateness.bounds().next(),
            None,
            "one row of a kind is soon forgotten"
        );
    }
}
