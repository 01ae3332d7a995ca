//! The examples of the pages, run; their links, followed; their drawings, compared.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets an error it does not expect has failed"
)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

mod blocks;
mod keys;
mod pictures;

/// The program of docs/rust.md that keeps rows.
#[rustfmt::skip]
mod readings {
    include!("readings.rs");

    /// Runs it.
    pub(crate) fn run() {
        main().unwrap();
    }
}

/// The program of docs/rust.md that reads beside a writer.
#[rustfmt::skip]
mod reader {
    include!("reader.rs");

    /// Runs it.
    pub(crate) fn run() {
        main().unwrap();
    }
}

/// The program of docs/rust.md that uses an index.
#[rustfmt::skip]
mod squares {
    include!("squares.rs");

    /// Runs it.
    pub(crate) fn run() {
        main().unwrap();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The code blocks of a page in one language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    page.split(&opening)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn programs_are_those_of_the_pages_and_run() {
    let rust = page("docs/rust.md");
    let programs = [
        include_str!("readings.rs"),
        include_str!("reader.rs"),
        include_str!("squares.rs"),
    ];
    assert_eq!(blocks(&rust, "rust"), programs);
    let readme = page("README.md");
    for line in blocks(&readme, "rust").concat().lines() {
        assert!(
            programs[0]
                .lines()
                .any(|of_program| of_program.trim() == line.trim()),
            "{line}"
        );
    }
    // This test alone changes the directory, and no other asks for it.
    let dir = tempfile::tempdir().unwrap();
    env::set_current_dir(dir.path()).unwrap();
    readings::run();
    reader::run();
    squares::run();
    assert!(dir.path().join("readings.bedload").exists());
}

#[test]
fn commands_of_the_readme_run() {
    let dir = tempfile::tempdir().unwrap();
    symlink(
        root().canonicalize().unwrap().join("examples"),
        dir.path().join("examples"),
    )
    .unwrap();
    let readme = page("README.md");
    let script: Vec<&str> = blocks(&readme, "sh")
        .into_iter()
        .flat_map(str::lines)
        // `bedload sql` needs a program of another workspace, whose tests run docs/sql.md.
        .filter(|line| line.starts_with("bedload ") && !line.starts_with("bedload sql "))
        .collect();
    assert_eq!(script.len(), 3, "{script:?}");
    let commands = Path::new(env!("CARGO_BIN_EXE_bedload")).parent().unwrap();
    let path = env::join_paths(
        std::iter::once(commands.to_owned()).chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    let run = Command::new("sh")
        .args(["-ec", &script.join("\n")])
        .env("PATH", path.unwrap())
        .current_dir(dir.path())
        .output()
        .unwrap();
    let (out, errors) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{errors}");
    assert!(out.contains("(5 rows)"), "{out}");
    assert!(dir.path().join("last-day.parquet").exists());
}

#[test]
fn the_readme_is_short() {
    let text = page("README.md");
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let words = text.split_whitespace().filter(is_word).count();
    assert!(words <= 700, "{words} words");
}

/// All pages: those of the root, and those of docs/ and its folders.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![root(), root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && folder != root() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The anchor that a heading gets: lower case, without punctuation, blanks as dashes.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        .collect()
}

/// The headings of a page, outside of code.
fn anchors(text: &str) -> Vec<String> {
    let outside = text.split("```").step_by(2);
    outside
        .flat_map(str::lines)
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for part in text
            .split("```")
            .step_by(2)
            .flat_map(|text| text.split("](").skip(1))
        {
            let target = part.split(')').next().unwrap();
            if target.contains("://") || target.starts_with("mailto:") || target.contains(char::is_whitespace)
            {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            let leads = to.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(&to).unwrap_or_default())
                        .iter()
                        .any(|other| other == anchor));
            if !leads {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 50, "{links}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_summary_lists_each_page_of_docs() {
    let summary = page("docs/SUMMARY.md");
    let docs = root().join("docs");
    let pages = pages();
    let pages = pages.iter().filter_map(|page| page.strip_prefix(&docs).ok());
    for page in pages.filter(|page| *page != Path::new("SUMMARY.md")) {
        let link = format!("]({})", page.display());
        assert_eq!(summary.matches(&link).count(), 1, "docs/SUMMARY.md: {link}");
    }
}
