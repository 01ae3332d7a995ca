//! Tables of documents.

use std::io;

use super::bars;
use super::figures::{ahead, distinct, number, rule, subjects};
use super::losses;
use super::results::{Kept, Results};
use super::summary;
use crate::subjects::tables::TABLE_BASELINE;

/// The documents with generated tables, below the repository's root.
pub const DOCUMENTS: [&str; 11] = [
    "README.md",
    "docs/benchmarks.md",
    "docs/benchmarks/tables.md",
    "docs/benchmarks/patterns.md",
    "docs/benchmarks/concurrent.md",
    "docs/benchmarks/near-sorted.md",
    "docs/benchmarks/swa-buffer.md",
    "docs/benchmarks/sparse.md",
    "docs/benchmarks/pages.md",
    "docs/postgres.md",
    "docs/python.md",
];

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
/// - `subjects FILE METRIC; METRIC; …`: a row for each subject, and a column for each metric, with
///   the medians under all settings in each cell;
/// - `figures FILE METRIC; METRIC; …`: the same with a row for each metric;
/// - `ratios FILE SUBJECT SUBJECT METRIC; METRIC; …`: a row for each metric, and a column for each
///   setting, with the first subject's figure divided by the second's;
/// - `losses FILE SUBJECT METRIC; METRIC; …`: a row for each metric and setting in which an index
///   of ours takes longer than the subject, in every round;
/// - `bars`: the goals, and the measured values;
/// - `summary`: how many times as good tables are as each other store.
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
        "subjects" | "figures" => {
            let (file, metrics) = rest.split_once(' ')?;
            let metrics: Vec<&str> = metrics.split("; ").collect();
            if kind == "subjects" {
                subjects_of(file, &metrics, results)
            } else {
                figures_of(file, &metrics, results)
            }
        }
        "ratios" => {
            let (file, rest) = rest.split_once(' ')?;
            let (subject, rest) = rest.split_once(' ')?;
            let (other, metrics) = rest.split_once(' ')?;
            ratios(file, subject, other, metrics, results)
        }
        "losses" => {
            let (file, rest) = rest.split_once(' ')?;
            let (subject, metrics) = rest.split_once(' ')?;
            losses::table(file, subject, metrics, results)
        }
        "bars" => Some(bars::table(results)),
        "summary" => Some(summary::table(results)),
        _ => None,
    }
}

fn origin(file: &str, results: &Results) -> Option<String> {
    let (origin, records) = results.file(file)?;
    let rounds = records.iter().map(|kept| kept.rounds).max()?;
    let params = &records.first()?.params;
    let size = ["rows", "seconds", "entries"]
        .into_iter()
        .find(|&size| params.contains_key(size))?;
    let sizes = records
        .iter()
        .filter_map(|kept| kept.params.get(size)?.parse().ok());
    let (least, most) = sizes.fold((f64::MAX, 0.0_f64), |(least, most), entries: f64| {
        (least.min(entries), most.max(entries))
    });
    let entries = if least < most {
        format!("{} to {}", number(least), number(most))
    } else {
        number(most)
    };
    let turns = match rounds {
        1 => "one turn".to_owned(),
        _ => format!("medians of up to {rounds} turns"),
    };
    let peers = if origin.peers.is_empty() {
        String::new()
    } else {
        format!(" Versions: {}.", origin.peers.join(", "))
    };
    let sentence = format!(
        "on {} (UTC), commit {}, {}; {entries} {size}, {turns}.{peers} {}",
        origin.date, origin.commit, origin.machine, origin.note
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
fn cell(results: &Results, file: &str, setting: &str, metric: &str, subject: &str) -> String {
    let kept = results.figure(file, setting, metric, subject);
    kept.map_or_else(|| "–".to_owned(), |kept| number(kept.median))
}

/// Formats a row: a name, the medians of subjects, and our lead.
fn line(name: &str, metric: &str, file: &str, setting: &str, subjects: &[&str], results: &Results) -> String {
    let cells = subjects
        .iter()
        .map(|subject| cell(results, file, setting, metric, subject));
    let cells: Vec<String> = cells.collect();
    let ours = results.figure(file, setting, metric, TABLE_BASELINE);
    let spread = ours.map_or_else(
        || "–".to_owned(),
        |kept| format!("{}–{}", number(kept.min), number(kept.max)),
    );
    let spread = if has_spread(results, file) {
        format!(" {spread} |")
    } else {
        String::new()
    };
    let ahead = ahead(results, file, setting, metric, TABLE_BASELINE).map_or_else(|| "–".to_owned(), number);
    format!("| {name} | {} |{spread} {ahead} |\n", cells.join(" | "))
}

/// Returns whether a file has figures of several turns, so that they differ.
fn has_spread(results: &Results, file: &str) -> bool {
    let records = results.file(file).map_or(&[][..], |(_, records)| records);
    records.iter().any(|kept| kept.rounds > 1)
}

fn head(first: &str, subjects: &[&str], has_spread: bool) -> String {
    let names = subjects.join(" | ");
    let (spread, columns) = if has_spread {
        (" ours, least to most |", 2)
    } else {
        ("", 1)
    };
    let dashes = rule(1, subjects.len() + columns);
    format!("| {first} | {names} |{spread} ahead |\n|{dashes}\n")
}

fn settings(file: &str, metric: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let of_metric = || records.iter().filter(|kept| kept.metric == metric);
    let unit = &of_metric().next()?.unit;
    let subjects = subjects(records);
    let mut text = head(&format!("{metric}, {unit}"), &subjects, has_spread(results, file));
    for setting in distinct(of_metric().map(Kept::setting)) {
        text += &line(setting, metric, file, setting, &subjects, results);
    }
    Some(text)
}

fn medians(file: &str, metric: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let of_metric = || records.iter().filter(|kept| kept.metric == metric);
    let unit = &of_metric().next()?.unit;
    let subjects = in_alphabetical_order(records);
    let mut text = plain_head(&format!("{metric}, {unit}"), &subjects);
    for setting in distinct(of_metric().map(Kept::setting)) {
        let cells = subjects
            .iter()
            .map(|subject| cell(results, file, setting, metric, subject));
        text += &plain_line(setting, cells);
    }
    Some(text)
}

fn subjects_of(file: &str, metrics: &[&str], results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let columns: Option<Vec<String>> = metrics.iter().map(|metric| with_unit(metric, records)).collect();
    let mut text = plain_head("", &columns?);
    for subject in in_alphabetical_order(records) {
        let cells = metrics
            .iter()
            .map(|metric| cell_of_all(results, file, metric, subject));
        text += &plain_line(&format!("`{subject}`"), cells);
    }
    Some(text)
}

fn figures_of(file: &str, metrics: &[&str], results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let subjects = in_alphabetical_order(records);
    let mut text = plain_head("", &subjects);
    for metric in metrics {
        let cells = subjects
            .iter()
            .map(|subject| cell_of_all(results, file, metric, subject));
        text += &plain_line(&with_unit(metric, records)?, cells);
    }
    Some(text)
}

fn ratios(file: &str, subject: &str, other: &str, metrics: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let settings = distinct(records.iter().map(Kept::setting));
    let mut text = plain_head(&format!("{subject} / {other}"), &settings);
    for metric in metrics.split("; ") {
        let ratio = |setting: &&str| {
            let figure = results.figure(file, setting, metric, subject)?;
            Some(figure.median / results.figure(file, setting, metric, other)?.median)
        };
        let cells: Option<Vec<String>> = settings
            .iter()
            .map(|setting| ratio(setting).map(number))
            .collect();
        text += &plain_line(metric, cells?.into_iter());
    }
    Some(text)
}

/// Subjects take turns to be first in the records.
fn in_alphabetical_order(records: &[Kept]) -> Vec<&str> {
    let mut subjects = distinct(records.iter().map(|kept| kept.subject.as_str()));
    subjects.sort_unstable();
    subjects
}

/// Formats the name of a metric with its unit, if there is such a metric.
fn with_unit(metric: &str, records: &[Kept]) -> Option<String> {
    let unit = &records.iter().find(|kept| kept.metric == metric)?.unit;
    Some(if unit.is_empty() {
        metric.to_owned()
    } else {
        format!("{metric}, {unit}")
    })
}

/// Formats the medians under all settings that the metric has.
fn cell_of_all(results: &Results, file: &str, metric: &str, subject: &str) -> String {
    let records = results.file(file).map_or(&[][..], |(_, records)| records);
    let of_metric = records.iter().filter(|kept| kept.metric == metric);
    let settings = distinct(of_metric.map(Kept::setting));
    let cells: Vec<String> = settings
        .iter()
        .map(|setting| cell(results, file, setting, metric, subject))
        .collect();
    cells.join(" / ")
}

fn plain_head(first: &str, columns: &[impl AsRef<str>]) -> String {
    let names = columns.iter().map(|name| name.as_ref().to_owned());
    let dashes = rule(1, columns.len());
    format!("{}|{dashes}\n", plain_line(first, names))
}

fn plain_line(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}

fn metrics_of(file: &str, setting: &str, metrics: &str, results: &Results) -> Option<String> {
    let (_, records) = results.file(file)?;
    let subjects = subjects(records);
    let mut text = head("", &subjects, has_spread(results, file));
    for metric in metrics.split("; ") {
        let mut kept = records.iter().filter(|kept| kept.setting() == setting);
        let unit = &kept.find(|kept| kept.metric == metric)?.unit;
        text += &line(
            &format!("{metric}, {unit}"),
            metric,
            file,
            setting,
            &subjects,
            results,
        );
    }
    Some(text)
}
