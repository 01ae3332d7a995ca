//! Documents and comments are at most 100 columns wide.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::root;

/// The widest line of prose.
const COLUMNS: usize = 100;

/// Folders of the repository without prose of ours.
const LEFT_OUT: [&str; 5] = ["target", "corpus", "artifacts", "demo", ".git"];

/// Returns all files of the repository that have prose.
fn files() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the repository can be listed") {
            let path = entry.expect("the repository can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if !LEFT_OUT.contains(&&*name) && !path.is_symlink() {
                    folders.push(path);
                }
            } else if name == "Makefile" || mark(&path).is_some() {
                found.push(path);
            }
        }
    }
    found
}

/// Returns how the comments of a file begin, and an empty text for a document.
fn mark(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "md" => Some(""),
        "rs" => Some("//"),
        "py" | "toml" | "yml" => Some("#"),
        _ => None,
    }
}

/// Returns the lines of prose with their numbers: of a document, those outside of code and tables.
fn prose<'a>(text: &'a str, mark: &str) -> Vec<(usize, &'a str)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let begins = line.trim_start();
        if !begins.starts_with(mark) {
            in_code = false;
            continue;
        }
        let words = begins.trim_start_matches(['/', '#', '!', ':']).trim_start();
        if words.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !words.starts_with('|') && !words.starts_with("<!--") {
            found.push((number + 1, line));
        }
    }
    found
}

/// Returns whether a line is too wide and can be broken: at a blank outside of code spans. The
/// targets of links do not count.
fn is_too_wide(line: &str) -> bool {
    let (mut column, mut in_span, mut in_target, mut last) = (0, false, false, ' ');
    let (mut has_words, mut can_be_broken) = (false, false);
    for c in line.chars() {
        in_span ^= c == '`';
        in_target = (in_target || (last == ']' && c == '(')) && c != ')';
        can_be_broken |= c == ' ' && has_words && !in_span && !in_target;
        has_words |= c.is_alphanumeric() || c == '`';
        column += usize::from(!in_target);
        last = c;
    }
    column > COLUMNS && can_be_broken
}

#[test]
fn lines_are_at_most_100_columns_wide() {
    let files = files();
    assert!(files.len() > 500, "{}", files.len());
    let (mut lines, mut wide) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a file can be read");
        let prose = prose(&text, mark(&file).unwrap_or("#"));
        lines += prose.len();
        let too_wide = prose.iter().filter(|(_, line)| is_too_wide(line));
        wide.extend(too_wide.map(|(number, _)| format!("{}:{number}", file.display())));
    }
    assert!(lines > 10_000, "{lines}");
    assert!(
        wide.is_empty(),
        "wider than {COLUMNS} columns:\n{}",
        wide.join("\n")
    );
}

#[test]
fn a_line_is_too_wide_only_where_it_can_be_broken() {
    let words = "word ".repeat(20);
    assert!(!is_too_wide(words.trim_end()));
    assert!(is_too_wide(&format!("{words}more")));
    assert!(!is_too_wide(&format!("- `{words}more`")));
    assert!(!is_too_wide(&format!("[short](https://{})", "x".repeat(100))));
}
