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
    let plural = if rows == 1 { "" } else { "s" };
    format!("{} row{plural}", grouped(rows))
}

/// How many of the rows something is true of, or how many rows it spans, and the share of all that this is.
struct Measure {
    /// Its name for machines.
    field: &'static str,
    count: u64,
    share: f64,
    /// Digits behind the point of its percentage.
    decimals: usize,
}

impl Measure {
    const fn new(field: &'static str, count: u64, share: f64, decimals: usize) -> Self {
        Self {
            field,
            count,
            share,
            decimals,
        }
    }

    fn percent(&self) -> String {
        format!("{:.*} %", self.decimals, 100.0 * self.share)
    }
}

fn json_of(rows: u64, measures: &[Measure]) -> Value {
    let mut object = json!({ "rows": rows });
    for measure in measures {
        object[measure.field] = json!(measure.count);
        object[format!("{}_percent", measure.field)] = json!(100.0 * measure.share);
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

fn estimates(order: &Estimate) -> [Measure; 4] {
    [
        Measure::new("k", order.k, order.k_share(), 1),
        Measure::new("l", order.l, order.l_share(), 2),
        Measure::new(
            "below_running_max",
            order.below_running_max,
            order.late_share(),
            1,
        ),
        Measure::new("overlapping", order.overlapping, order.overlapping_share(), 1),
    ]
}

/// The measures for people.
pub(crate) fn sortedness_text(measured: &Sortedness) -> String {
    const MEANINGS: [(&str, &str); 4] = [
        ("K", "rows less a longest non-decreasing subsequence"),
        ("L", "largest distance of a row from its sorted position"),
        (" ", "rows below the running maximum"),
        (" ", "rows below the row before them"),
    ];
    let mut text = format!("{:>11} rows", grouped(measured.rows));
    for (measure, (letter, meaning)) in sortedness(measured).iter().zip(MEANINGS) {
        let (count, percent) = (grouped(measure.count), measure.percent());
        text += &format!("\n{count:>11} {letter}  ({percent})  {meaning}");
    }
    text
}

/// The measures for machines.
pub(crate) fn sortedness_json(measured: &Sortedness) -> Value {
    json_of(measured.rows, &sortedness(measured))
}

/// Estimates for people, in a line.
pub(crate) fn estimate_text(order: &Estimate) -> String {
    let [k, l, late, overlapping] = estimates(order);
    format!(
        "{} rows: K {} ({}), L {} ({}), {} late, {} overlapping",
        grouped(order.rows),
        grouped(k.count),
        k.percent(),
        grouped(l.count),
        l.percent(),
        late.percent(),
        overlapping.percent(),
    )
}

/// Estimates for machines.
pub(crate) fn estimate_json(order: &Estimate) -> Value {
    json_of(order.rows, &estimates(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
