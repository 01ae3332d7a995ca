//! Prose of documents with generated tables has no measured figures: they would soon be untrue.

use std::fs;
use std::path::Path;

use bedload_bench::report;

/// Units of what is measured. Bytes are left out: they are of formats and settings too.
const UNITS: [&str; 10] = [
    "ns",
    "µs",
    "us",
    "ms",
    "times",
    "×",
    "rows/s",
    "krows/s",
    "commits/s",
    "queries/s",
];

/// Numbers in prose that are settings or counts.
const SETTINGS: &[(&str, &str)] = &[
    ("docs/benchmarks/concurrent.md", "10 ms"),
    ("docs/postgres.md", "20 ×"),
    ("docs/postgres.md", "50 ×"),
];

/// Returns each number of a document's prose that is followed by a unit of what is measured.
fn measured(document: &str) -> Vec<String> {
    let (mut is_generated, mut is_code) = (false, false);
    let mut words: Vec<&str> = Vec::new();
    for line in document.lines() {
        is_generated |= line.starts_with("<!-- table: ");
        is_code ^= line.trim_start().starts_with("```");
        if !is_generated && !is_code {
            words.extend(line.split_whitespace());
        }
        is_generated &= line != "<!-- end -->";
    }
    let is_mark = |c: char| !c.is_alphanumeric() && c != '×' && c != '/';
    let pairs = words.iter().zip(words.iter().skip(1));
    let pairs = pairs.map(|(number, unit)| (number.trim_matches(is_mark), unit.trim_matches(is_mark)));
    let apart = pairs
        .filter(|(number, unit)| is_number(number) && UNITS.contains(unit))
        .map(|(number, unit)| format!("{number} {unit}"));
    let joined = words.iter().map(|word| word.trim_matches(is_mark));
    let joined = joined.filter(|word| {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ',');
        unit.len() < word.len() && UNITS.contains(&unit)
    });
    apart.chain(joined.map(str::to_owned)).collect()
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || ".,–".contains(c))
}

#[test]
fn prose_has_no_measured_figures() {
    let text = "Ingest takes 1.5 ms, 2× or\n3 times as long. A leaf has 16 KiB.\n\
                <!-- table: bars -->\n| 4 ms |\n<!-- end -->\n```text\n5 ms\n```\nAnd 14–155 ns.\n";
    assert_eq!(measured(text), ["1.5 ms", "3 times", "14–155 ns", "2×"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in report::DOCUMENTS {
        let document = fs::read_to_string(root.join(path)).expect("it is there");
        let mut found = measured(&document);
        found.retain(|figure| !SETTINGS.contains(&(path, figure)));
        assert!(
            found.is_empty(),
            "{path}: {found:?}: generate them, or leave them out"
        );
    }
}
