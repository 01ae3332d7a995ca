//! The examples of docs/sql.md, run: the shell's in an empty folder, and the program in the store
//! that they leave.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets an error it does not expect has failed"
)]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The program of the page.
#[rustfmt::skip]
mod newest {
    include!("newest.rs");

    /// Runs it.
    pub(crate) fn run() {
        main().unwrap();
    }
}

/// The code blocks of a page: language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("```").skip(1).step_by(2);
    parts.map(|block| block.split_once('\n').unwrap()).collect()
}

/// A folder with the example data, and a `PATH` with both programs.
fn place() -> (tempfile::TempDir, std::ffi::OsString) {
    let dir = tempfile::tempdir().unwrap();
    let examples = Path::new(ROOT).canonicalize().unwrap().join("examples");
    symlink(examples, dir.path().join("examples")).unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_bedload-sql"));
    symlink(&program, dir.path().join("bin/bedload-sql")).unwrap();
    let command = program.with_file_name("examples").join("bedload");
    symlink(command, dir.path().join("bin/bedload")).unwrap();
    let path = env::var_os("PATH").unwrap();
    let path = env::join_paths(
        [dir.path().join("bin")]
            .into_iter()
            .chain(env::split_paths(&path)),
    );
    (dir, path.unwrap())
}

#[test]
fn examples_print_what_the_page_says() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/sql.md")).unwrap();
    let (dir, path) = place();
    let blocks = blocks(&page);
    let mut compared = 0;
    for (number, (language, script)) in blocks.iter().enumerate() {
        if *language != "sh" {
            continue;
        }
        let run = Command::new("sh")
            .args(["-ec", script])
            .env("PATH", &path)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        assert!(
            run.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        let ("text", expected) = blocks[number + 1] else {
            panic!("no output stands after {script}");
        };
        assert_eq!(printed, expected, "{script}");
        compared += 1;
    }
    assert_eq!(compared, 2);

    let shown: Vec<_> = blocks
        .iter()
        .filter(|(language, _)| *language == "rust")
        .collect();
    assert_eq!(shown, [&("rust", include_str!("newest.rs"))]);
    env::set_current_dir(dir.path()).unwrap();
    newest::run();
}
