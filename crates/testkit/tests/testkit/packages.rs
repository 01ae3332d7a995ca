//! The registry's page of each published crate has something to show, within the registry's limits.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::root;

/// Returns the folders of the published crates.
fn published() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).expect("the repository can be listed");
    crates
        .map(|folder| folder.expect("the repository can be listed").path())
        .filter(|folder| {
            let manifest = read(&folder.join("Cargo.toml"));
            manifest.contains("\nversion.workspace = true\n") && !manifest.contains("\npublish = false\n")
        })
        .collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the value of a field of a manifest, or of the workspace's if the manifest refers to it.
fn field<'a>(manifest: &'a str, workspace: &'a str, name: &str) -> Option<&'a str> {
    let of = |text: &'a str| {
        text.lines()
            .find_map(|line| line.strip_prefix(&format!("{name} = ")))
    };
    match manifest.contains(&format!("\n{name}.workspace = true\n")) {
        true => of(workspace),
        false => of(manifest),
    }
}

#[test]
fn published_crates_are_described_within_the_limits() {
    let workspace = read(&root().join("Cargo.toml"));
    let published = published();
    assert!(published.len() > 8, "{published:?}");
    for folder in published {
        let manifest = read(&folder.join("Cargo.toml"));
        let name = folder.display();
        for field_name in ["description", "documentation", "license"] {
            assert!(
                field(&manifest, &workspace, field_name).is_some(),
                "{name}: {field_name}"
            );
        }
        for field_name in ["keywords", "categories"] {
            let list = field(&manifest, &workspace, field_name).unwrap_or_default();
            let words: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
            assert!((1..=5).contains(&words.len()), "{name}: {field_name} {words:?}");
            assert!(
                field_name == "categories" || words.iter().all(|word| word.len() <= 20),
                "{name}: {words:?}"
            );
        }
        if field(&manifest, &workspace, "readme").is_none() {
            let library = read(&folder.join("src/lib.rs"));
            assert!(
                read(&folder.join("README.md")).contains("```rust\n"),
                "{name}: an example"
            );
            assert!(
                library.contains("include_str!(\"../README.md\")"),
                "{name}: the example runs"
            );
        }
    }
}
