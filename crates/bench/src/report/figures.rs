//! Compares and formats figures.

use super::results::{Kept, Results};
use crate::subjects::SAME_AGAIN;
use crate::subjects::tables::TABLE_BASELINE;

/// A bound and not a store, so it is excluded from comparisons.
const FILE_SUBJECT: &str = "parquet";

/// Returns the distinct names in order of first occurrence.
pub(super) fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Returns the subjects of records: ours first, the bound last.
pub(super) fn subjects(records: &[Kept]) -> Vec<&str> {
    let mut names = distinct(records.iter().map(|kept| kept.subject.as_str()));
    names.sort_by_key(|&name| match name {
        TABLE_BASELINE => (0, name),
        SAME_AGAIN => (1, name),
        FILE_SUBJECT => (3, name),
        _ => (2, name),
    });
    names
}

/// Returns whether a greater figure is better.
pub(super) fn is_rate(unit: &str) -> bool {
    matches!(unit, "krows/s" | "times")
}

/// The figures that make up a deletion: some stores do the work in the flush after it.
pub(super) const DELETION: &[&str] = &["commit of the deletion", "flush after that"];

/// Returns the sum of the medians of some figures.
pub(super) fn sum_of_medians(
    results: &Results,
    file: &str,
    degree: &str,
    metrics: &[&str],
    subject: &str,
) -> Option<f64> {
    let median = |metric: &&str| Some(results.figure(file, degree, metric, subject)?.median);
    metrics.iter().map(median).sum()
}

/// Returns the lead of a subject of ours over the best peer: above 1, we are better.
pub(super) fn ahead(results: &Results, file: &str, degree: &str, metric: &str, ours: &str) -> Option<f64> {
    let ours = results.figure(file, degree, metric, ours)?;
    let (_, records) = results.file(file)?;
    let peers = subjects(records).into_iter();
    let peers = peers.filter(|name| ![TABLE_BASELINE, SAME_AGAIN, FILE_SUBJECT].contains(name));
    let of_peers = peers.filter_map(|peer| results.figure(file, degree, metric, peer));
    let medians = of_peers.map(|kept| kept.median);
    Some(if is_rate(&ours.unit) {
        ours.median / medians.reduce(f64::max)?
    } else {
        medians.reduce(f64::min)? / ours.median
    })
}

/// Formats three digits, or all before the decimal point.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// The line of a table below its head: columns of names, then columns of figures.
pub(super) fn rule(names: usize, figures: usize) -> String {
    "---|".repeat(names) + &"---:|".repeat(figures)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_three_digits() {
        let all = [0.1234, 1.234, 12.34, 123.4, 1234.5, 1_234_567.0, -1234.0];
        let texts = all.map(number);
        assert_eq!(
            texts,
            ["0.123", "1.23", "12.3", "123", "1,234", "1,234,567", "-1,234"]
        );
    }
}
