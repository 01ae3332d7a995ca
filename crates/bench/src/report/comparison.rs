//! Compares two runs of the same scenarios.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::figures::number;
use super::results::{Kept, Results};
use crate::subjects::SAME_AGAIN;

/// Compares two files of results: lists the figures whose ranges over all rounds do not overlap,
/// with the ratio of the medians, greatest change first. For two directories, compares the files
/// that both have, with a line for each: the factor by which the medians of its figures differ, for
/// at most half of them and for nine in ten; the same of each figure divided by the baseline's in
/// the same run, which does not depend on the machine's speed; and the same of the ratios of
/// `same-again` alone. That is the baseline's code measured once more, whose ratio is 1 but for
/// noise: two runs agree where other ratios differ by no more than these.
///
/// # Errors
///
/// A file cannot be read, or is not a file of results.
pub fn compare(before: &Path, after: &Path) -> io::Result<String> {
    if before.is_dir() {
        let (before, after) = (Results::read(before)?, Results::read(after)?);
        return Ok(changes(&before, &after));
    }
    let (_, before) = Results::read_file(before)?;
    let (_, after) = Results::read_file(after)?;
    let mut pairs = in_both(&before, &after);
    let compared = pairs.len();
    pairs.retain(|(kept, again)| again.min > kept.max || again.max < kept.min);
    pairs.sort_by(|a, b| change(b).total_cmp(&change(a)));
    let mut text = format!("{compared} figures in both, {} of them apart\n", pairs.len());
    for (kept, again) in pairs {
        writeln!(
            text,
            "{:>6} × {} → {} {}  {}, {}, {}",
            number(again.median / kept.median),
            number(kept.median),
            number(again.median),
            kept.unit,
            kept.subject,
            kept.metric,
            kept.setting(),
        )
        .map_err(io::Error::other)?;
    }
    Ok(text)
}

/// The lines of the files that two directories have.
fn changes(before: &Results, after: &Results) -> String {
    let head = "figures  half by  nine in ten";
    let mut text = format!(
        "{:24} {head}  to the baseline: {head}  same-again: {head}\n",
        "file"
    );
    let mut all = Changes::default();
    for name in before.names() {
        let (Some((_, kept)), Some((_, again))) = (before.file(name), after.file(name)) else {
            continue;
        };
        let of_file = Changes::of(&in_both(kept, again));
        if !of_file.medians.is_empty() {
            all.medians.extend_from_slice(&of_file.medians);
            all.ratios.extend_from_slice(&of_file.ratios);
            all.noise.extend_from_slice(&of_file.noise);
            text += &of_file.line(name);
        }
    }
    if !all.medians.is_empty() {
        text += &all.line("all");
    }
    text
}

/// How figures differ between two runs, as logarithms of factors.
#[derive(Debug, Default)]
struct Changes {
    /// Changes of the figures themselves.
    medians: Vec<f64>,
    /// Changes of figures divided by the baseline's.
    ratios: Vec<f64>,
    /// The same for `same-again` alone.
    noise: Vec<f64>,
}

impl Changes {
    fn of(pairs: &[(&Kept, &Kept)]) -> Self {
        let same_again = pairs.iter().filter(|(kept, _)| kept.subject == SAME_AGAIN);
        Self {
            medians: pairs.iter().map(change).collect(),
            ratios: pairs.iter().filter_map(change_of_ratio).collect(),
            noise: same_again.filter_map(change_of_ratio).collect(),
        }
    }

    /// The line of a file: for each of the three, how many there are, and what half of them and
    /// nine in ten are at most.
    fn line(self, name: &str) -> String {
        let part = |mut changes: Vec<f64>| {
            changes.sort_by(f64::total_cmp);
            let at = |tenths: usize| {
                let last = changes.len().checked_sub(1)?;
                Some(number(changes[last * tenths / 10].exp()))
            };
            let (half, most) = (at(5).unwrap_or_default(), at(9).unwrap_or_default());
            format!("{:7}  {half:>7}  {most:>11}", changes.len())
        };
        let (medians, ratios, noise) = (part(self.medians), part(self.ratios), part(self.noise));
        let line = format!("{name:24} {medians}  {:17}{ratios}  {:12}{noise}", "", "");
        line.trim_end().to_owned() + "\n"
    }
}

/// The figures that two files have.
fn in_both<'k>(before: &'k [Kept], after: &'k [Kept]) -> Vec<(&'k Kept, &'k Kept)> {
    let same = |a: &Kept, b: &Kept| {
        a.setting() == b.setting() && a.metric == b.metric && a.subject == b.subject && a.unit == b.unit
    };
    let mut pairs = Vec::new();
    for kept in before {
        if let Some(again) = after.iter().find(|again| same(kept, again)) {
            pairs.push((kept, again));
        }
    }
    pairs
}

/// The logarithm of the factor by which the medians of a figure differ.
fn change((kept, again): &(&Kept, &Kept)) -> f64 {
    if kept.median == again.median {
        return 0.0;
    }
    (again.median / kept.median).ln().abs()
}

/// The logarithm of the factor by which the ratios to the baseline differ; of the baseline itself,
/// and of what has none, there is nothing to say.
fn change_of_ratio((kept, again): &(&Kept, &Kept)) -> Option<f64> {
    let is_other = kept
        .baseline
        .as_ref()
        .is_some_and(|baseline| *baseline != kept.subject);
    let change = (again.ratio? / kept.ratio?).ln().abs();
    (is_other && change.is_finite()).then_some(change)
}
