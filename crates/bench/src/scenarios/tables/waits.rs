//! Figures of how long appends and reads took.

use std::time::Duration;

use crate::record::Figure;

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(super) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns figures on the times of appends.
pub(super) fn stalls(waits: &[(usize, Duration)]) -> Vec<Figure> {
    let mut sorted: Vec<Duration> = waits.iter().map(|&(_, wait)| wait).collect();
    sorted.sort_unstable();
    [("p50", 500), ("p99.9", 999), ("longest", 1000)]
        .map(|(name, per_mille)| {
            let wait = milliseconds(quantile(&sorted, per_mille));
            Figure::new(format!("append {name}"), "ms", wait)
        })
        .to_vec()
}

/// Returns the quantile of sorted times, in thousandths.
pub(super) fn quantile(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[((sorted.len() - 1) * per_mille).div_ceil(1000)]
}

/// Returns the rate in each tenth of the rows, and the ratio of the last to the first.
pub(super) fn tenths(waits: &[(usize, Duration)]) -> Vec<Figure> {
    let all: usize = waits.iter().map(|(rows, _)| rows).sum();
    let mut parts = [(0, Duration::ZERO); 10];
    let mut done = 0;
    for &(rows, wait) in waits {
        let part = &mut parts[(done * 10 / all).min(9)];
        *part = (part.0 + rows, part.1 + wait);
        done += rows;
    }
    if parts.iter().any(|(rows, _)| *rows == 0) {
        return Vec::new();
    }
    let rates = parts.map(|(rows, time)| rows as f64 / time.as_secs_f64() / 1e3);
    let each = rates
        .iter()
        .zip(1..)
        .map(|(&rate, number)| Figure::new(format!("ingest, tenth {number}"), "krows/s", rate));
    let flatness = Figure::new("last tenth to the first", "times", rates[9] / rates[0]);
    each.chain([flatness]).collect()
}
