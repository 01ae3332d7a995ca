//! Tables of documents.

use std::fmt::Write;
use std::io;

use super::bars;
use super::results::{Kept, Results};
use crate::subjects::tables::{TABLE_BASELINE, TABLE_BASELINE_AGAIN};

const BEGIN: &str = "<!-- table: ";
const END: &str = "<!-- end -->";
/// A bound, not a store: it is not among those that we are compared with.
const FILE_SUBJECT: &str = "parquet";

/// A document with all its tables written from results. A place reads
///
/// - `origin FILE`: where the figures came from;
/// - `settings FILE METRIC`: a line for each setting, and a column for each subject;
/// - `metrics FILE SETTING METRIC; METRIC; …`: a line for each metric of one setting;
/// - `bars`: what was aimed at, and what was seen.
///
/// # Errors
///
/// A place asks for what is not in the results, or has no end.
pub fn write_tables(document: &str, results: &Results) -> io::Result<String> {
    let wrong = |what: &str, line: &str| io::Error::other(format!("{what}: {line}"));
    let mut written = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        let Some(place) = line
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        let table = table(place, results).ok_or_else(|| wrong("nothing in the results is called", place))?;
        written.push('\n');
        written.push_str(&table);
        written.push('\n');
        if !lines.any(|line| line == END) {
            return Err(wrong("no end behind", line));
        }
        written.push_str(END);
        written.push('\n');
    }
    Ok(written)
}

fn table(place: &str, results: &Results) -> Option<String> {
    let (kind, rest) = place.split_once(' ').unwrap_or((place, ""));
    match kind {
        "origin" => origin(rest, results),
        "settings" => {
            let (file, metric) = rest.split_once(' ')?;
            settings(file, metric, results)
        }
        "metrics" => {
            let (file, rest) = rest.split_once(' ')?;
            let (setting, metrics) = rest.split_once(' ')?;
            metrics_of(file, setting, metrics, results)
        }
        "bars" => Some(bars::table(results)),
        _ => None,
    }
}

fn origin(file: &str, results: &Results) -> Option<String> {
    let (origin, records) = results.file(file)?;
    let rounds = records.iter().map(|kept| kept.rounds).max()?;
    let params = &records.first()?.params;
    let rows: f64 = params.get("rows")?.parse().ok()?;
    let mut text = format!(
        "`{}`\n\non {} (UTC), commit {}, {}; {} rows, medians of up to {rounds} turns.",
        origin.command,
        origin.date,
        origin.commit,
        origin.machine,
        number(rows)
    );
    if !origin.note.is_empty() {
        write!(text, " {}", origin.note).ok()?;
    }
    text.push('\n');
    Some(text)
}

/// Names in the order in which they come, each once.
fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The subjects of records: ours first, the bound last.
fn subjects(records: &[Kept]) -> Vec<&str> {
    let mut names = distinct(records.iter().map(|kept| kept.subject.as_str()));
    names.sort_by_key(|&name| match name {
        TABLE_BASELINE => (0, name),
        TABLE_BASELINE_AGAIN => (1, name),
        FILE_SUBJECT => (3, name),
        _ => (2, name),
    });
    names
}

/// Whether more of a figure is better.
fn is_rate(unit: &str) -> bool {
    matches!(unit, "krows/s" | "times")
}

/// How far ahead of the best peer we are: above 1, ahead.
pub(super) fn ahead(results: &Results, file: &str, degree: &str, metric: &str) -> Option<f64> {
    let ours = results.figure(file, degree, metric, TABLE_BASELINE)?;
    let (_, records) = results.file(file)?;
    let peers = subjects(records).into_iter();
    let peers = peers.filter(|name| ![TABLE_BASELINE, TABLE_BASELINE_AGAIN, FILE_SUBJECT].contains(name));
    let of_peers = peers.filter_map(|peer| results.figure(file, degree, metric, peer));
    let medians = of_peers.map(|kept| kept.median);
    Some(if is_rate(&ours.unit) {
        ours.median / medians.reduce(f64::max)?
    } else {
        medians.reduce(f64::min)? / ours.median
    })
}

/// Three digits, or all before the point.
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

/// A line of cells: a name, the medians of subjects, and how far ahead we are.
fn line(name: &str, metric: &str, file: &str, degree: &str, subjects: &[&str], results: &Results) -> String {
    let cell = |&subject: &&str| {
        let kept = results.figure(file, degree, metric, subject);
        kept.map_or_else(|| "–".to_owned(), |kept| number(kept.median))
    };
    let cells: Vec<String> = subjects.iter().map(cell).collect();
    let ours = results.figure(file, degree, metric, TABLE_BASELINE);
    let spread = ours.map_or_else(
        || "–".to_owned(),
        |kept| format!("{}–{}", number(kept.min), number(kept.max)),
    );
    let ahead = ahead(results, file, degree, metric).map_or_else(|| "–".to_owned(), number);
    format!("| {name} | {} | {spread} | {ahead} |\n", cells.join(" | "))
}

fn head(first: &str, subjects: &[&str]) -> String {
    let names = subjects.join(" | ");
    let dashes = "---|".repeat(subjects.len() + 3);
    format!("| {first} | {names} | ours, least to most | ahead |\n|{dashes}\n")
}

fn settings(file: &str, metric: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let of_metric = || records.iter().filter(|kept| kept.metric == metric);
    let unit = &of_metric().next()?.unit;
    let subjects = subjects(records);
    let mut text = head(&format!("{metric}, {unit}"), &subjects);
    for degree in distinct(of_metric().map(Kept::degree)) {
        text += &line(degree, metric, file, degree, &subjects, results);
    }
    Some(text)
}

fn metrics_of(file: &str, degree: &str, metrics: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let subjects = subjects(records);
    let mut text = head("", &subjects);
    for metric in metrics.split("; ") {
        let mut kept = records.iter().filter(|kept| kept.degree() == degree);
        let unit = &kept.find(|kept| kept.metric == metric)?.unit;
        text += &line(
            &format!("{metric}, {unit}"),
            metric,
            file,
            degree,
            &subjects,
            results,
        );
    }
    Some(text)
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
