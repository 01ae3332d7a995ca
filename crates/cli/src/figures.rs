//! Figures as people and machines read them.

use bedload_sortedness::{Estimate, Sortedness};
use serde_json::{Value, json};

/// A number with its thousands set apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of rows in words.
pub(crate) fn rows_text(rows: u64) -> String {
    format!("{} {}", grouped(rows), rows_word(rows))
}

/// A line of a report that begins with a number of rows, its figures below those of other lines.
pub(crate) fn rows_line(rows: u64) -> String {
    format!("{:>11} {}", grouped(rows), rows_word(rows))
}

fn rows_word(rows: u64) -> &'static str {
    if rows == 1 { "row" } else { "rows" }
}

/// Averages over fewer rows are not told: starting and a file's first pages outweigh the rows.
const ROWS_MIN: u64 = 1000;

/// A line about the speed of a run; none if it was too short to be measured. Its third digit is the
/// last that means something.
pub(crate) fn rate_line(rows: u64, rows_per_second: u64) -> Option<String> {
    let unit = 10_u64.pow(rows_per_second.checked_ilog10().unwrap_or(0).saturating_sub(2));
    let rounded = rows_per_second.saturating_add(unit / 2) / unit * unit;
    (rows >= ROWS_MIN).then(|| format!("{:>11} rows a second", grouped(rounded)))
}

/// A line about the size of a store; none if it has so few rows that its average tells nothing.
pub(crate) fn size_line(rows: u64, bytes_per_row: f64) -> Option<String> {
    (rows >= ROWS_MIN).then(|| format!("{bytes_per_row:>11.1} bytes a row"))
}

/// How many of the rows something is true of, or how many rows it spans, and the share of all that
/// this is.
struct Measure {
    /// Its name for machines.
    field: &'static str,
    count: u64,
    /// None where a share would mislead, because the count may exceed the rows.
    share: Option<f64>,
    /// Digits behind the point of its percentage.
    decimals: usize,
}

impl Measure {
    const fn new(field: &'static str, count: u64, share: f64, decimals: usize) -> Self {
        Self {
            field,
            count,
            share: Some(share),
            decimals,
        }
    }

    fn percent(&self) -> Option<String> {
        Some(format!("{:.*} %", self.decimals, 100.0 * self.share?))
    }

    /// The count, and in parentheses its share.
    fn count_and_share(&self) -> String {
        let share = self.percent().map(|percent| format!(" ({percent})"));
        grouped(self.count) + &share.unwrap_or_default()
    }
}

fn json_of(rows: u64, measures: &[Measure]) -> Value {
    let mut object = json!({ "rows": rows });
    for measure in measures {
        object[measure.field] = json!(measure.count);
        object[format!("{}_percent", measure.field)] = json!(measure.share.map(|share| 100.0 * share));
    }
    object
}

fn sortedness(measured: &Sortedness) -> [Measure; 4] {
    [
        Measure::new("k", measured.k, measured.k_share(), 1),
        Measure::new("l", measured.l, measured.l_share(), 2),
        Measure::new(
            "below_running_max",
            measured.below_running_max,
            measured.below_running_max_share(),
            1,
        ),
        Measure::new(
            "adjacent_inversions",
            measured.adjacent_inversions,
            measured.adjacent_inversions_share(),
            1,
        ),
    ]
}

fn estimates(order: &Estimate, is_window: bool) -> [Measure; 4] {
    let l = Measure {
        // A row may lie further from its place than a window is long.
        share: (!is_window).then(|| order.l_share()),
        ..Measure::new("l", order.l, 0.0, 2)
    };
    [
        Measure::new("k", order.k, order.k_share(), 1),
        l,
        Measure::new(
            "below_running_max",
            order.below_running_max,
            order.late_share(),
            1,
        ),
        Measure::new("overlapping", order.overlapping, order.overlapping_share(), 1),
    ]
}

/// The measures for people, below a line with the number of rows.
pub(crate) fn sortedness_text(measured: &Sortedness) -> String {
    const MEANINGS: [(&str, &str); 4] = [
        ("K", "rows less a longest non-decreasing subsequence"),
        ("L", "largest distance of a row from its sorted position"),
        (" ", "rows below the running maximum"),
        (" ", "rows below the row before them"),
    ];
    let measures = sortedness(measured);
    let lines = measures.iter().zip(MEANINGS).map(|(measure, (letter, meaning))| {
        let (count, percent) = (grouped(measure.count), measure.percent().unwrap_or_default());
        format!("{count:>11} {letter}  ({percent})  {meaning}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The measures for machines.
pub(crate) fn sortedness_json(measured: &Sortedness) -> Value {
    json_of(measured.rows, &sortedness(measured))
}

/// Estimates for people, in a line. `is_window` tells those of the last window from those of all
/// rows.
pub(crate) fn estimate_text(order: &Estimate, is_window: bool) -> String {
    let [k, l, late, overlapping] = estimates(order, is_window);
    format!(
        "{}: K {}, L {}, {} late, {} overlapping",
        rows_text(order.rows),
        k.count_and_share(),
        l.count_and_share(),
        late.percent().unwrap_or_default(),
        overlapping.percent().unwrap_or_default(),
    )
}

/// Estimates for machines.
pub(crate) fn estimate_json(order: &Estimate, is_window: bool) -> Value {
    json_of(order.rows, &estimates(order, is_window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let rate = |rows, rate| rate_line(rows, rate).map(|line| line.trim().to_owned());
        assert_eq!(rate(1000, 127_806).as_deref(), Some("128,000 rows a second"));
        assert_eq!(rate(1000, 999_999).as_deref(), Some("1,000,000 rows a second"));
        assert_eq!(rate(1000, 86).as_deref(), Some("86 rows a second"));
        assert_eq!(rate(1000, 0).as_deref(), Some("0 rows a second"));
        assert!(rate(1000, u64::MAX).is_some());
        assert_eq!(rate(999, 1_000_000), None);
    }

    #[test]
    fn one_row_is_no_rows() {
        assert_eq!([0, 1, 2].map(rows_text), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(rows_line(1), "          1 row");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
