//! The figures in which an index takes longer than a baseline.

use super::figures::{distinct, number, rule};
use super::results::{Kept, Results};
use crate::subjects::SAME_AGAIN;

/// How many times as long as the baseline a figure must take, besides being outside of all that
/// the baseline was measured at.
const LEAST_LOSS: f64 = 1.1;

/// Subjects that are not ours.
const PEERS: [&str; 2] = [SAME_AGAIN, "bplustree"];

/// Writes a row for each metric and setting in which one of ours takes longer than the baseline in
/// every round, with a column for each of ours: how many times as long, or nothing where it does
/// not.
pub(super) fn table(file: &str, baseline: &str, metrics: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let mut ours = distinct(records.iter().map(|kept| kept.subject.as_str()));
    ours.retain(|name| *name != baseline && !PEERS.contains(name));
    ours.sort_unstable();
    let mut text = format!("| | | {} |\n", ours.join(" | "));
    text += &format!("|{}\n", rule(2, ours.len()));
    for metric in metrics.split("; ") {
        let of_metric = records.iter().filter(|kept| kept.metric == metric);
        let settings = distinct(of_metric.map(Kept::setting));
        if settings.is_empty() {
            return None;
        }
        for setting in settings {
            let of = |subject| results.figure(file, setting, metric, subject);
            let losses: Vec<Option<f64>> = ours
                .iter()
                .map(|subject| loss(of(subject)?, of(baseline)?, of(SAME_AGAIN)?))
                .collect();
            if losses.iter().any(Option::is_some) {
                let cells = losses.iter().map(|loss| loss.map_or_else(String::new, number));
                let cells: Vec<String> = cells.collect();
                text += &format!("| {metric} | {setting} | {} |\n", cells.join(" | "));
            }
        }
    }
    Some(text)
}

/// Returns how many times as long as the baseline a figure takes, if that is more than noise.
fn loss(figure: &Kept, baseline: &Kept, again: &Kept) -> Option<f64> {
    let ratio = figure.median / baseline.median;
    (ratio >= LEAST_LOSS && figure.min > baseline.max.max(again.max)).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::{Kept, loss};

    fn measured(min: f64, median: f64, max: f64) -> Kept {
        Kept {
            subject: String::new(),
            metric: String::new(),
            unit: "ns".to_owned(),
            median,
            min,
            max,
            rounds: 3,
            baseline: None,
            ratio: None,
            params: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn a_loss_is_beyond_each_round_of_the_baseline() {
        let (baseline, again) = (measured(9.0, 10.0, 11.0), measured(9.0, 10.0, 12.0));
        let of = |figure| loss(&figure, &baseline, &again);
        assert_eq!(of(measured(13.0, 20.0, 21.0)), Some(2.0));
        assert_eq!(
            of(measured(11.5, 20.0, 21.0)),
            None,
            "the baseline took as long once"
        );
        assert_eq!(
            loss(
                &measured(9.9, 10.5, 11.0),
                &measured(9.5, 9.7, 9.8),
                &measured(9.5, 9.7, 9.8)
            ),
            None
        );
    }
}
