//! Sequences in order but for rows that come ahead of their time, as from a clock that is fast.

use crate::Rng;

/// Ticks between two rows in order.
const TICKS: u64 = 10;
/// Rows of a burst: more than an estimator keeps piles.
const BURST: usize = 300;

/// Yields permutations of `0..len`: bursts ahead of time, and sources that are ahead for good.
pub(super) fn ahead(len: usize) -> impl Iterator<Item = Vec<u64>> {
    let ticks = TICKS * len as u64;
    let burst = BURST.min(len / 4);
    let bursts = [
        (0, burst, 2 * ticks),
        (len / 2, burst, 2 * ticks),
        (len / 2, burst, ticks * 3 / 10),
        (0, len / 4, 2 * ticks),
        (len / 3, 3, ticks / 2),
    ];
    let bursts = bursts.map(|(from, rows, ahead)| {
        ranks(len, |row, _| {
            if (from..from + rows).contains(&row) {
                ahead
            } else {
                0
            }
        })
    });
    let sources = [1.0, 5.0, 10.0].into_iter().flat_map(move |percent| {
        [ticks / 10, ticks * 3 / 10].map(|ahead| {
            ranks(len, |_, rng| {
                let jitter = rng.below(ticks / 200 + 1);
                if rng.percent(percent) { ahead + jitter } else { 0 }
            })
        })
    });
    bursts.into_iter().chain(sources).chain([three_ahead(len)])
}

/// Three rows ahead of time, of which the second overtakes the first and the third does not.
fn three_ahead(len: usize) -> Vec<u64> {
    let time = TICKS * (len as u64 * 6 / 10);
    let second = len * 3 / 10;
    ranks(len, |row, _| {
        let early = [(0, 5), (second, 7), (second + 1, 6)];
        let ahead = early.into_iter().find(|&(early, _)| early == row);
        ahead.map_or(0, |(_, ticks)| time + ticks - TICKS * row as u64)
    })
}

/// Returns the ranks by time of rows in order, each of which is ahead by some ticks.
fn ranks(len: usize, mut ahead: impl FnMut(usize, &mut Rng) -> u64) -> Vec<u64> {
    let mut rng = Rng::new(11);
    let mut arrivals: Vec<(u64, usize)> = (0..len)
        .map(|row| (TICKS * row as u64 + ahead(row, &mut rng), row))
        .collect();
    arrivals.sort_unstable();
    let mut ranks = vec![0; len];
    for (rank, (_, row)) in (0..).zip(arrivals) {
        ranks[row] = rank;
    }
    ranks
}
