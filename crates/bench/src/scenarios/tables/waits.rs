//! Figures of how long appends and reads took.

use std::time::Duration;

use crate::record::Figure;
use crate::runner::median;

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(super) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Quantiles that are told, in thousandths; the last is the maximum.
pub(super) const QUANTILES: [(&str, usize); 4] =
    [("p50", 500), ("p99", 990), ("p99.9", 999), ("longest", 1000)];

/// With fewer times beyond it, a quantile says little more than the longest.
const BEYOND_MIN: usize = 10;

/// Returns figures on the times of appends.
pub(super) fn stalls(waits: &[(usize, Duration)]) -> Vec<Figure> {
    let mut times: Vec<Duration> = waits.iter().map(|&(_, wait)| wait).collect();
    times.sort_unstable();
    quantiles("append", "ms", &times)
}

/// Returns the quantiles of sorted times that enough times are beyond, and the longest time.
pub(super) fn quantiles(metric: &str, unit: &'static str, sorted: &[Duration]) -> Vec<Figure> {
    let in_unit = |time: Duration| match unit {
        "ms" => milliseconds(time),
        _ => microseconds(time),
    };
    let told = QUANTILES.iter().filter_map(|&(name, per_mille)| {
        let time = quantile(sorted, per_mille)?;
        Some(Figure::new(format!("{metric} {name}"), unit, in_unit(time)))
    });
    told.collect()
}

/// Returns the quantile of sorted times, in thousandths, if enough times are beyond it.
fn quantile(sorted: &[Duration], per_mille: usize) -> Option<Duration> {
    let last = sorted.len().checked_sub(1)?;
    let at = (last * per_mille).div_ceil(1000);
    let is_told = per_mille == 1000 || last - at >= BEYOND_MIN;
    is_told.then(|| sorted[at])
}

/// Returns the rate in each tenth of the rows, and the ratios of the last to the first and of the
/// slowest to the median.
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
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let ratios = [
        Figure::new("last tenth to the first", "times", rates[9] / rates[0]),
        Figure::new("slowest tenth to the median", "times", slowest / median(&rates)),
    ];
    each.chain(ratios).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::quantiles;

    #[test]
    fn quantiles_of_few_times_are_left_out() {
        let names = |times: u64| -> Vec<String> {
            let times: Vec<Duration> = (0..times).map(Duration::from_millis).collect();
            let figures = quantiles("append", "ms", &times);
            figures.into_iter().map(|figure| figure.metric).collect()
        };
        assert!(names(0).is_empty());
        assert_eq!(names(19), ["append longest"]);
        assert_eq!(names(22), ["append p50", "append longest"]);
        assert_eq!(names(999), ["append p50", "append longest"]);
        assert_eq!(names(1_100), ["append p50", "append p99", "append longest"]);
    }
}
