//! Figures as people and machines read them.

use bedload_index::sortedness::{Estimate, Sortedness};
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

/// The measures for people.
pub(crate) fn sortedness_text(measured: &Sortedness) -> String {
    let Sortedness {
        rows,
        k,
        l,
        below_running_max,
        adjacent_inversions,
    } = *measured;
    format!(
        "{:>11} rows\n\
         {:>11} K  ({:.1} %)  rows less a longest non-decreasing subsequence\n\
         {:>11} L  ({:.2} %)  largest distance of a row from its sorted position\n\
         {:>11}    ({:.1} %)  rows below the running maximum\n\
         {:>11}    ({:.1} %)  rows below the row before them",
        grouped(rows),
        grouped(k),
        100.0 * measured.k_share(),
        grouped(l),
        100.0 * measured.l_share(),
        grouped(below_running_max),
        100.0 * measured.below_running_max_share(),
        grouped(adjacent_inversions),
        100.0 * measured.adjacent_inversions_share(),
    )
}

/// The measures for machines.
pub(crate) fn sortedness_json(measured: &Sortedness) -> Value {
    json!({
        "rows": measured.rows,
        "k": measured.k,
        "k_percent": 100.0 * measured.k_share(),
        "l": measured.l,
        "l_percent": 100.0 * measured.l_share(),
        "below_running_max": measured.below_running_max,
        "below_running_max_percent": 100.0 * measured.below_running_max_share(),
        "adjacent_inversions": measured.adjacent_inversions,
        "adjacent_inversions_percent": 100.0 * measured.adjacent_inversions_share(),
    })
}

/// Estimates for people, in a line.
pub(crate) fn estimate_text(order: &Estimate) -> String {
    format!(
        "{} rows: K {} ({:.1} %), L {} ({:.2} %), {:.1} % late, {:.1} % overlapping",
        grouped(order.rows),
        grouped(order.k),
        100.0 * order.k_share(),
        grouped(order.l),
        100.0 * order.l_share(),
        100.0 * order.late_share(),
        100.0 * order.overlapping_share(),
    )
}

/// Estimates for machines.
pub(crate) fn estimate_json(order: &Estimate) -> Value {
    json!({
        "rows": order.rows,
        "k": order.k,
        "k_percent": 100.0 * order.k_share(),
        "l": order.l,
        "l_percent": 100.0 * order.l_share(),
        "below_running_max": order.below_running_max,
        "below_running_max_percent": 100.0 * order.late_share(),
        "overlapping": order.overlapping,
        "overlapping_percent": 100.0 * order.overlapping_share(),
    })
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
