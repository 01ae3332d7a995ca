//! Compares two runs of the same scenario.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::figures::number;
use super::results::{Kept, Results};

/// Compares the figures of two files of results: those whose extremes of all rounds do not overlap
/// are listed, with the ratio of the medians, greatest change first.
///
/// # Errors
///
/// A file cannot be read, or is not a file of results.
pub fn compare(before: &Path, after: &Path) -> io::Result<String> {
    let (_, before) = Results::read_file(before)?;
    let (_, after) = Results::read_file(after)?;
    let same = |a: &Kept, b: &Kept| {
        a.setting() == b.setting() && a.metric == b.metric && a.subject == b.subject && a.unit == b.unit
    };
    let mut pairs = Vec::new();
    for kept in &before {
        if let Some(again) = after.iter().find(|again| same(kept, again)) {
            pairs.push((kept, again));
        }
    }
    let compared = pairs.len();
    pairs.retain(|(kept, again)| again.min > kept.max || again.max < kept.min);
    let change = |(kept, again): &(&Kept, &Kept)| (again.median / kept.median).ln().abs();
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
