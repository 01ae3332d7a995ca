//! The output of psql, made comparable: plans may differ, and so may the order of rows that no
//! query asks for.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Lines that may differ, by file, and why.
const DIFFERENCES: [(&str, &[&str], &str); 4] = [
    (
        "aggregates",
        &["", "495000"],
        "an aggregate that tells whether it was computed in parallel, which bedload's scans are not",
    ),
    (
        "vacuum",
        &[
            "CONTEXT: SQL function \"do_analyze\" statement 1",
            "SQL function \"wrap_do_analyze\" statement 1",
        ],
        "an error of an expression loses its context on its way through a build",
    ),
    (
        "event_trigger",
        &[
            "switching | event trigger switching | event trigger | {switching} | {} | (\"event trigger\",,switching,switching)",
        ],
        "the trigger by which indexes are switched",
    ),
    (
        "vacuum_parallel",
        &["t", "f"],
        "VACUUM has no workers for bedload's indexes",
    ),
];

/// Asserts that files of results are the same in all that matters; returns how many there are.
pub(super) fn same(expected: &Path, found: &Path) -> usize {
    let mut names = Vec::new();
    for file in fs::read_dir(expected).expect("results") {
        let name = file.expect("a file").file_name();
        names.extend(
            name.to_str()
                .filter(|name| name.ends_with(".out"))
                .map(ToOwned::to_owned),
        );
    }
    names.sort();
    let mut differences = String::new();
    for name in &names {
        let [expected, found] = [expected, found].map(|folder| {
            let text = fs::read(folder.join(name)).expect("results of both");
            let path = folder.join(name).with_extension("comparable");
            fs::write(&path, comparable(&String::from_utf8_lossy(&text))).expect("written");
            path
        });
        let difference = Command::new("diff").arg("-U3").args([&expected, &found]).output();
        let difference = difference.expect("diff");
        let difference = String::from_utf8_lossy(&difference.stdout);
        let file = name.trim_end_matches(".out");
        let known = DIFFERENCES
            .iter()
            .find(|(of, ..)| *of == file)
            .map_or(&[][..], |(_, lines, _)| lines);
        let is_new = |line: &str| line.starts_with(['-', '+']) && !known.contains(&&line[1..]);
        // The first two lines are the names of the files.
        if difference.lines().skip(2).any(is_new) {
            differences += &format!("{difference}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
    names.len()
}

/// The lines of psql's output without what may differ.
fn comparable(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut result = String::new();
    let mut at = 0;
    // Where the statements that precede a table of rows begin.
    let mut statements = 0;
    while at < lines.len() {
        // Below a mark in a statement there may be a comment.
        let is_header = lines[at].starts_with(' ') && !lines[at].ends_with('^');
        let has_rows = is_header && lines.get(at + 1).is_some_and(|rule| is_rule(rule));
        if !has_rows {
            push(&mut result, lines[at]);
            at += 1;
            continue;
        }
        let rest = &lines[at + 2..];
        let len = rest
            .iter()
            .take_while(|line| !line.is_empty() && !is_footer(line))
            .count();
        let has_footer = rest.get(len).is_some_and(|line| is_footer(line));
        let mut rows = rest[..len].to_vec();
        let header = lines[at].trim();
        if header == "QUERY PLAN" || header.starts_with("explain_") {
            push(&mut result, "QUERY PLAN");
        } else {
            // The classes of an extension are no part of the system.
            rows.retain(|row| {
                !(row.contains("| operator class ") && row.contains("for access method bedload"))
            });
            // Descriptions have no footer, and an order of their own.
            if has_footer && !is_ordered(&lines[statements..at]) {
                rows.sort_unstable();
            }
            push(&mut result, header);
            rows.iter().for_each(|row| push(&mut result, row));
        }
        at += 2 + len + usize::from(has_footer);
        statements = at;
    }
    result
}

/// The line below the names of columns.
fn is_rule(line: &str) -> bool {
    line.starts_with('-') && line.bytes().all(|byte| b"-+".contains(&byte))
}

fn is_footer(line: &str) -> bool {
    let count = line.strip_prefix('(').and_then(|line| line.split_once(" row"));
    count.is_some_and(|(count, _)| count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the last of some statements asks for an order.
fn is_ordered(lines: &[&str]) -> bool {
    let text = lines.join("\n").to_lowercase();
    let mut statements = text.split(';').filter(|statement| !statement.trim().is_empty());
    statements
        .next_back()
        .is_some_and(|statement| statement.contains("order by"))
}

/// Appends a line without the access method's name and the spaces that its length makes.
fn push(result: &mut String, line: &str) {
    let line = line.replace("bedload", "btree");
    let words: Vec<&str> = line.split_whitespace().collect();
    result.push_str(&words.join(" "));
    result.push('\n');
}

#[test]
fn plans_and_unasked_orders_are_no_difference() {
    let printed = |order: &str, rows: [&str; 2], plan: &str| {
        comparable(&format!(
            "SELECT a FROM t{order};\n a \n---\n {}\n {}\n(2 rows)\n\nEXPLAIN SELECT a FROM t;\n QUERY PLAN\n-----\n {plan}\n(1 row)\n\nDROP TABLE t;\n",
            rows[0], rows[1]
        ))
    };
    let expected = printed("", ["1", "2"], "Seq Scan");
    assert_eq!(printed("", ["2", "1"], "Index Scan"), expected);
    assert_ne!(printed("", ["2", "3"], "Seq Scan"), expected);
    assert_ne!(
        printed(" ORDER BY a", ["1", "2"], "Seq Scan"),
        printed(" ORDER BY a", ["2", "1"], "Seq Scan")
    );
    assert!(expected.contains("DROP TABLE t;"));
}
