//! Compares two runs of the same scenarios.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::figures::number;
use super::results::{Kept, Results};

/// Compares two files of results: the figures whose extremes of all rounds do not overlap are
/// listed, with the ratio of the medians, greatest change first. Of two directories, compares the
/// files that both have, with a line for each: by which factor the medians of its figures differ,
/// of half of them at most, and of nine in ten.
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
    let mut text = format!("{:24} figures  half of them by  nine in ten\n", "file");
    let mut all = Vec::new();
    let mut line = |name: &str, mut changes: Vec<f64>| {
        changes.sort_by(f64::total_cmp);
        let at = |tenths: usize| number(changes[(changes.len() - 1) * tenths / 10].exp());
        text += &format!("{name:24} {:7}  {:>15}  {:>11}\n", changes.len(), at(5), at(9));
    };
    for name in before.names() {
        let (Some((_, kept)), Some((_, again))) = (before.file(name), after.file(name)) else {
            continue;
        };
        let changes: Vec<f64> = in_both(kept, again).iter().map(change).collect();
        if !changes.is_empty() {
            all.extend_from_slice(&changes);
            line(name, changes);
        }
    }
    if !all.is_empty() {
        line("all", all);
    }
    text
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
