//! Tables of documents.

use std::fmt::Write;
use std::io;

use super::bars;
use super::figures::{ahead, distinct, number, subjects};
use super::results::{Kept, Results};
use crate::subjects::tables::TABLE_BASELINE;

/// The documents with generated tables, below the repository's root.
pub const DOCUMENTS: [&str; 2] = ["docs/benchmarks/tables.md", "docs/benchmarks/patterns.md"];

/// Columns of a line of prose in documents.
const LINE_COLUMNS: usize = 100;

const BEGIN: &str = "<!-- table: ";
const END: &str = "<!-- end -->";

/// Returns a document with all its tables generated from results. A table is specified by
///
/// - `origin FILE`: the origin of the figures;
/// - `settings FILE METRIC`: a row for each setting, and a column for each subject;
/// - `metrics FILE SETTING METRIC; METRIC; …`: a row for each metric of one setting;
/// - `medians FILE METRIC`: a row for each setting, and a column for each subject, without more;
/// - `bars`: the goals, and the measured values.
///
/// # Errors
///
/// A table needs a figure that is not in the results, or has no end.
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
        "medians" => {
            let (file, metric) = rest.split_once(' ')?;
            medians(file, metric, results)
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
    let sentence = format!(
        "on {} (UTC), commit {}, {}; {} rows, medians of up to {rounds} turns. {}",
        origin.date,
        origin.commit,
        origin.machine,
        number(rows),
        origin.note
    );
    Some(format!("`{}`\n\n{}", origin.command, wrapped(&sentence)))
}

/// Breaks text into lines of at most [`LINE_COLUMNS`].
fn wrapped(text: &str) -> String {
    let (mut lines, mut columns) = (String::new(), 0);
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if columns > 0 && columns + 1 + len > LINE_COLUMNS {
            lines.push('\n');
            columns = 0;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += len;
    }
    lines.push('\n');
    lines
}

/// Formats a median, or a dash if there is none.
fn cell(results: &Results, file: &str, degree: &str, metric: &str, subject: &str) -> String {
    let kept = results.figure(file, degree, metric, subject);
    kept.map_or_else(|| "–".to_owned(), |kept| number(kept.median))
}

/// Formats a row: a name, the medians of subjects, and our lead.
fn line(name: &str, metric: &str, file: &str, degree: &str, subjects: &[&str], results: &Results) -> String {
    let cells = subjects
        .iter()
        .map(|subject| cell(results, file, degree, metric, subject));
    let cells: Vec<String> = cells.collect();
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

fn medians(file: &str, metric: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let of_metric = || records.iter().filter(|kept| kept.metric == metric);
    let unit = &of_metric().next()?.unit;
    let mut subjects = distinct(records.iter().map(|kept| kept.subject.as_str()));
    // Subjects take turns to be first.
    subjects.sort_unstable();
    let mut text = format!(
        "| {metric}, {unit} | {} |\n|{}\n",
        subjects.join(" | "),
        "---|".repeat(subjects.len() + 1)
    );
    for degree in distinct(of_metric().map(Kept::degree)) {
        let cells: Vec<String> = subjects
            .iter()
            .map(|subject| cell(results, file, degree, metric, subject))
            .collect();
        writeln!(text, "| {degree} | {} |", cells.join(" | ")).ok()?;
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
