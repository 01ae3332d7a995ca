//! The shell blocks of the pages run; the `text` block after one is what it prints, in which a line
//! `…` stands for lines that are left out.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::{blocks, pages, root};

/// Pages whose shell blocks build and test the repository, which a test of it cannot run, and the
/// page of another workspace, whose tests run it.
const OF_THE_REPOSITORY: [&str; 4] = ["README.md", "CONTRIBUTING.md", "docs/postgres.md", "docs/sql.md"];

/// The languages of blocks that tests run or read, and the marker of blocks that none does.
const LANGUAGES: [&str; 6] = ["sh", "rust", "python", "sql", "json", "text"];

/// Pages with commands in `text` blocks that build or measure, which takes too long for a test.
const MEASURING: [&str; 2] = ["docs/benchmarks.md", "docs/benchmarks/patterns.md"];

/// Runs the Python blocks of the pages that it names.
const PYTHON: &str = "crates/python/tests/test_docs.py";

/// The line of a `text` block that stands for lines of the output that it leaves out.
const LEFT_OUT: &str = "…";

/// Separates the output of one block from that of the next.
const END: &str = "=== end of block ===";

/// The name of a page within the repository.
fn name(page: &Path) -> String {
    page.strip_prefix(root()).unwrap().display().to_string()
}

/// The shell blocks of a page, each with the output that the page says it has, if any.
fn shell(text: &str) -> Vec<(&str, Option<&str>)> {
    let parts: Vec<&str> = text.split("```").collect();
    let code = |index: usize, language: &str| {
        let block = parts.get(index)?;
        block.strip_prefix(language)?.strip_prefix('\n')
    };
    let (mut found, mut index) = (Vec::new(), 1);
    while index < parts.len() {
        if let Some(script) = code(index, "sh") {
            let follows = parts.get(index + 1).is_some_and(|text| text.trim().is_empty());
            let output = code(index + 2, "text").filter(|_| follows);
            found.push((script, output));
        }
        index += 2;
    }
    found
}

/// Runs the blocks of a page one after the other and returns the output of each.
fn run(page: &Path, scripts: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let examples = root().canonicalize().unwrap().join("examples");
    symlink(examples, dir.path().join("examples")).unwrap();
    let commands = Path::new(env!("CARGO_BIN_EXE_bedload")).parent().unwrap();
    let path = env::join_paths(
        std::iter::once(commands.to_owned()).chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    let marked: String = scripts
        .iter()
        .map(|script| format!("{script}\necho '{END}'\n"))
        .collect();
    let run = Command::new("sh")
        .args(["-ec", &format!("exec 2>&1\n{marked}")])
        .env("PATH", path.unwrap())
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}: {output}", page.display());
    output.split(END).take(scripts.len()).map(str::to_owned).collect()
}

#[test]
fn shell_blocks_run_and_print_what_the_pages_say() {
    let (mut run_blocks, mut compared) = (0, 0);
    for page in pages() {
        if OF_THE_REPOSITORY.contains(&name(&page).as_str()) {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let blocks = shell(&text);
        if blocks.is_empty() {
            continue;
        }
        let scripts: Vec<&str> = blocks.iter().map(|(script, _)| *script).collect();
        for ((script, expected), output) in blocks.iter().zip(run(&page, &scripts)) {
            run_blocks += 1;
            let Some(expected) = expected else { continue };
            compared += 1;
            let mut printed = output.lines();
            let mut may_skip = true;
            for line in expected.lines() {
                if line == LEFT_OUT {
                    may_skip = true;
                    continue;
                }
                let is_line = |printed: &str| printed.trim_end() == line.trim_end();
                let is_printed = if may_skip {
                    printed.by_ref().any(is_line)
                } else {
                    printed.next().is_some_and(is_line)
                };
                assert!(
                    is_printed,
                    "{}: {script} does not print\n{line}\nthere, but\n{output}",
                    page.display()
                );
                may_skip = false;
            }
        }
    }
    assert!(run_blocks > 15, "{run_blocks}");
    assert!(compared > 6, "{compared}");
}

#[test]
fn usage_lines_are_those_of_the_command() {
    let text = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let usage = blocks(&text, "text")[0];
    let of_page: Vec<&str> = usage
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    let bedload = |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_bedload"))
            .args(arguments)
            .output();
        String::from_utf8(command.unwrap().stdout).unwrap()
    };
    let help = bedload(&["--help"]);
    let listed = help.split("Commands:\n").nth(1).unwrap().lines();
    let listed: Vec<&str> = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    for name in &listed {
        assert!(of_page.contains(name), "docs/cli.md leaves out {name}");
    }
    for line in usage.lines() {
        let name = line.split(' ').nth(1).unwrap();
        assert!(listed.contains(&name), "{line}");
        let help = bedload(&[name, "--help"]);
        for option in line.split([' ', '[', ']']).filter(|word| word.starts_with('-')) {
            assert!(help.contains(option), "{line}: no {option} in\n{help}");
        }
    }
}

/// A `text` block is what the shell block before it prints. The others are listed here, so that no
/// command is left untested by its marker.
#[test]
fn text_blocks_are_outputs_or_known() {
    let mut others = Vec::new();
    for page in pages() {
        let name = name(&page);
        if OF_THE_REPOSITORY.contains(&&*name) || MEASURING.contains(&&*name) {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let outputs: Vec<&str> = shell(&text)
            .into_iter()
            .filter_map(|(_, output)| output)
            .collect();
        for block in blocks(&text, "text") {
            if !outputs
                .iter()
                .any(|output| std::ptr::eq(output.as_ptr(), block.as_ptr()))
            {
                others.push(format!("{name}: {}", block.lines().next().unwrap_or_default()));
            }
        }
    }
    assert_eq!(
        others,
        [
            // Compared with the command by `usage_lines_are_those_of_the_command`.
            "docs/cli.md: bedload ingest STORE TABLE FILE… --time COLUMN",
            // An option alone.
            "docs/cli.md: --schema 'flight:utf8,gate:utf8,departure:timestamp(ms, UTC)'",
            // Needs the network; `make py-test` builds the package in another way.
            "docs/python.md: python3 -m venv .venv",
            // Lines of a manifest.
            "docs/rust.md: [dependencies]",
        ]
    );
}

#[test]
fn blocks_name_their_language() {
    let mut wrong = Vec::new();
    let docs = root().join("docs");
    for page in pages().into_iter().filter(|page| page.starts_with(&docs)) {
        // Its blocks are the layout of files and records.
        if page.ends_with("format.md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for block in text.split("```").skip(1).step_by(2) {
            let language = block.lines().next().unwrap();
            if !LANGUAGES.contains(&language) {
                wrong.push(format!("{}: {language:?}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn python_blocks_are_of_pages_that_are_tested() {
    let tested = fs::read_to_string(root().join(PYTHON)).unwrap();
    let mut found = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        if blocks(&text, "python").is_empty() {
            continue;
        }
        found += 1;
        let name = name(&page);
        assert!(
            tested.contains(&format!("\"{name}\"")),
            "{PYTHON} leaves out {name}"
        );
    }
    assert!(found > 3, "{found}");
}

#[test]
fn rust_and_sql_blocks_are_of_known_pages() {
    let of = |language| {
        let with = |page: &Path| !blocks(&fs::read_to_string(page).unwrap(), language).is_empty();
        let pages = pages().into_iter().filter(|page| with(page));
        pages.map(|page| name(&page)).collect::<Vec<_>>()
    };
    // The programs of docs/rust.md run in this folder, and the README's lines are theirs; the page
    // on SQL has tests in crates/datafusion/command.
    assert_eq!(of("rust"), ["README.md", "docs/rust.md", "docs/sql.md"]);
    assert_eq!(of("sql"), ["README.md", "docs/postgres.md"]);
}
