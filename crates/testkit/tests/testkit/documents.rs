//! Paths and links in the documents lead to existing files.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the repository whose files documents name.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "examples/", "fuzz/", "scripts/", ".ci/"];

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all documents except historical ones, which name the files of their time.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root(), root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the repository can be listed") {
            let path = entry.expect("the repository can be listed").path();
            let name = path.file_name().unwrap_or_default().to_owned();
            if path.is_dir() && path.starts_with(root().join("docs")) && name != "decisions" {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") && name != "CHANGELOG.md" {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the targets of links and the paths in code spans of a line.
fn paths(line: &str) -> Vec<(bool, &str)> {
    let links = line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        let path = target.split('#').next()?;
        (!path.is_empty() && !path.contains("://")).then_some((true, path))
    });
    let spans = line.split('`').skip(1).step_by(2).filter_map(|span| {
        let is_path =
            FOLDERS.iter().any(|folder| span.starts_with(folder)) && !span.contains(['*', ' ', '<', '{']);
        is_path.then_some((false, span))
    });
    links.chain(spans).collect()
}

#[test]
fn documents_name_files_that_are_there() {
    let documents = documents();
    assert!(documents.len() > 8, "{documents:?}");
    let (mut checked, mut missing) = (0, Vec::new());
    for document in documents {
        let text = fs::read_to_string(&document).expect("a document can be read");
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            in_block ^= line.trim_start().starts_with("```");
            if in_block {
                continue;
            }
            for (is_link, path) in paths(line) {
                let from = if is_link {
                    document.parent().map(Path::to_owned)
                } else {
                    Some(root())
                };
                checked += 1;
                if !from.is_some_and(|from| from.join(path).exists()) {
                    missing.push(format!("{}:{}: {path}", document.display(), number + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked > 40, "only {checked} paths were found");
}
