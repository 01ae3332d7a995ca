//! The section of docs/cli.md about a command names the keys of the JSON objects that it prints.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::root;

/// The section of a page about a command.
fn section<'p>(page: &'p str, command: &str) -> &'p str {
    let mut sections = page.split("\n## ").skip(1);
    let heading = format!("`{command}`");
    let found = sections.find(|text| text.lines().next().is_some_and(|line| line.contains(&heading)));
    found.unwrap_or_else(|| panic!("no section about {command}"))
}

/// The names in code: of `tables[].name`, both.
fn named(text: &str) -> HashSet<&str> {
    let code = text.split('`').skip(1).step_by(2);
    code.flat_map(|code| code.split(['.', '[', ']'])).collect()
}

/// The keys of an object and of the objects within it.
fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.push(key.clone());
                // Its keys are reasons, in words.
                if key != "by_reason" {
                    keys(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn keys_of_reports_are_in_the_page_of_the_command() {
    let page = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.csv"), "t,n\n1,1\n2,2\n").unwrap();
    let ingest = "ingest s TABLE a.csv --time t --time-unit s --json";
    let commands = [
        ingest.replace("TABLE", "indexed --order --source-id a"),
        ingest.replace("TABLE", "sparse --interval 1s"),
        ingest.replace("TABLE", "keyed --key n"),
        "ingest s indexed a.csv --json".to_owned(),
        "query s indexed --count --json".to_owned(),
        "info s --json".to_owned(),
        "convert s indexed copy --layout sparse --interval 1s --json".to_owned(),
        "retention s copy 30d --json".to_owned(),
        "delete s copy --to @2 --json".to_owned(),
        "tables s --json".to_owned(),
        "sources s indexed --json".to_owned(),
        "sources s indexed --forget a --json".to_owned(),
        "sortedness a.csv --column t --json".to_owned(),
        "verify s --json".to_owned(),
        "salvage s salvaged --json".to_owned(),
        "backup s copy --json".to_owned(),
        "restore copy restored --json".to_owned(),
        "add-columns s indexed x:utf8 --json".to_owned(),
        "rename-column s indexed x y --json".to_owned(),
        "drop-column s indexed y --json".to_owned(),
        "rename s copy renamed --json".to_owned(),
        "drop s renamed --json".to_owned(),
    ];
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_bedload"))
            .args(command.split_whitespace())
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        let mut found = Vec::new();
        keys(&serde_json::from_slice(&output.stdout).unwrap(), &mut found);
        // One of them stands for all shares.
        found.retain(|key| !key.ends_with("_percent"));
        // The figures of order are those of `sortedness`, wherever they are given.
        let of_command = section(&page, command.split(' ').next().unwrap());
        let text = [of_command, section(&page, "sortedness")].concat();
        let named = named(&text);
        for key in found {
            assert!(named.contains(&*key), "{command}: {key}");
        }
    }
}
