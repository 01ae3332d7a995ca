//! Runs every scenario with every subject at the tiny scale.

mod prose;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use bedload_bench::plan::{Plan, Scale};
use bedload_bench::report::{self, Results};
use bedload_bench::runs::STORED_RUNS;
use bedload_bench::scenarios;

#[test]
fn every_scenario_runs_with_every_subject() {
    for scenario in scenarios::all() {
        let plan = Plan::new(Scale::Tiny).with_command(env!("CARGO_BIN_EXE_bedload-bench"));
        let records = (scenario.run)(&plan);
        for subject in (scenario.subjects)() {
            let of_entrant: Vec<_> = records
                .iter()
                .filter(|record| record.subject == subject)
                .collect();
            assert!(!of_entrant.is_empty(), "{subject} did not run {}", scenario.name);
            for record in of_entrant {
                assert!(record.scenario.starts_with(scenario.name), "{record}");
                assert!(
                    record.min <= record.median && record.median <= record.max,
                    "{record}"
                );
                assert!(record.median.is_finite(), "{record}");
            }
        }
        assert!(scenarios::by_name(scenario.name).is_some());
    }
}

/// The limits on timed operations hold for any load, and are recorded.
#[test]
fn operations_are_bounded() {
    let plan = Plan::new(Scale::Tiny);
    assert_eq!(plan.share(4_000, 2), 2_000);
    let bounded = plan.with_operations_max(10);
    assert_eq!(bounded.share(4_000, 2), 5);
    assert_eq!(bounded.share(4, 2), 2, "it is no more than there is to do");
    let lookup = scenarios::by_name("timeseries-lookup").expect("it is listed");
    for record in (lookup.run)(&bounded) {
        assert_eq!(record.params["entries"], "4000", "{record}");
        assert_eq!(record.params["operations at most"], "10", "{record}");
    }
}

#[test]
fn the_command_takes_every_option() {
    let run = |options: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_bedload-bench"))
            .args([
                "run",
                "timeseries-lookup",
                "--scale",
                "tiny",
                "--only",
                "blink-hash",
            ])
            .args(options)
            .output()
            .expect("the command runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let json = tempfile::NamedTempFile::new().expect("there is room");
    let path = json.path().to_str().expect("it is text");
    let options = [
        "--entries",
        "2000",
        "--operations",
        "64",
        "--rounds",
        "2",
        "--json",
        path,
    ];
    assert_eq!(run(&options).0, Some(0));
    let written = fs::read_to_string(path).expect("it was written");
    let records: Vec<serde_json::Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a record"))
        .collect();
    assert!(records.iter().any(|record| record["subject"] == "blink-hash"));
    for record in records {
        assert_eq!(record["params"]["entries"], "2000");
        assert_eq!(record["params"]["operations at most"], "64");
        assert_eq!(record["rounds"], 2);
    }
    let (status, message) = run(&["--operations", "many"]);
    assert_eq!(status, Some(2));
    assert!(message.contains("many is no number"), "{message}");
}

/// Tables in documents match the results.
#[test]
fn documents_follow_from_results() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let results = Results::read(&crate_dir.join("results")).expect("results are read");
    let read = |path: &str| fs::read_to_string(crate_dir.join("../..").join(path)).expect("it is there");
    for path in report::DOCUMENTS {
        let document = read(path);
        let written = report::write_tables(&document, &results).expect("all that it asks for is there");
        assert!(written == document, "{path}: run bedload-bench report");
    }
    let document = read("docs/benchmarks/tables.md");
    assert!(document.contains("| in-order |"), "it has figures");
    let changed = document.replacen("| in-order | ", "| in-order | 1", 1);
    let mended = report::write_tables(&changed, &results).expect("all that it asks for is there");
    assert_eq!(mended, document, "a figure that was edited comes back");
    let of_subjects = "<!-- table: subjects patterns insert; hit -->\n<!-- end -->\n";
    let written = report::write_tables(of_subjects, &results).expect("patterns were measured");
    assert!(
        written.contains("|  | insert, ns | hit, ns |\n|---|---:|---:|\n| `blink-hash` | "),
        "{written}"
    );
    let of_figures = "<!-- table: figures patterns insert; hit -->\n<!-- end -->\n";
    let written = report::write_tables(of_figures, &results).expect("patterns were measured");
    assert!(
        written.contains("\n| insert, ns | ") && written.contains(" / "),
        "{written}"
    );
    let unknown = "<!-- table: settings table-ingest nothing -->\n<!-- end -->\n";
    assert!(report::write_tables(unknown, &results).is_err());
}

/// A table asks for a figure by these, so a file has no two figures that share them all.
#[test]
fn figures_of_a_file_are_told_apart() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    for entry in fs::read_dir(results).expect("it is there") {
        let path = entry.expect("reads").path();
        let text = fs::read_to_string(&path).expect("reads");
        let mut seen = HashSet::new();
        for line in text.lines().skip(1) {
            let record: serde_json::Value = serde_json::from_str(line).expect("an object");
            let params = &record["params"];
            let setting = params.get("degree").or_else(|| params.get("threads")).cloned();
            let figure = (setting, record["metric"].clone(), record["subject"].clone());
            assert!(!seen.contains(&figure), "{}: {figure:?}", path.display());
            seen.insert(figure);
        }
        assert!(!seen.is_empty(), "{} has no figures", path.display());
    }
}

/// Results that are stored can be measured again by one command.
#[test]
fn results_are_those_of_stored_runs() {
    for run in STORED_RUNS {
        let scenario = run.arguments.split(' ').next().expect("a scenario");
        assert!(scenarios::by_name(scenario).is_some(), "{run:?}");
    }
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    for file in fs::read_dir(results).expect("results are there") {
        let path = file.expect("results are read").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_str()
            .expect("text")
            .to_owned();
        // Those of PostgreSQL and of Python come from workspaces of their own.
        let text = fs::read_to_string(&path).expect("results are read");
        let is_of_postgres = name.starts_with("pg-") && text.starts_with(r#"{"command":"make pg-"#);
        let is_of_python = name.starts_with("python-") && text.starts_with(r#"{"command":"python bench/"#);
        assert!(
            is_of_postgres || is_of_python || STORED_RUNS.iter().any(|run| run.name == name),
            "{name}"
        );
    }
}

#[test]
fn files_of_results_are_compared() {
    let dir = tempfile::tempdir().expect("there is room");
    let path = |name: &str| dir.path().join(name);
    let origin = r#"{"command":"c","date":"d","commit":"c","machine":"m","note":""}"#;
    let record = |metric: &str, low: f64, high: f64| {
        let (subject, baseline) = match metric {
            "slower" => ("s", "other"),
            "again" => ("same-again", "s"),
            _ => ("s", "s"),
        };
        format!(
            r#"{{"subject":"{subject}","metric":"{metric}","unit":"ns","median":{low},"min":{low},"max":{high},"rounds":2,"baseline":"{baseline}","ratio":{low},"params":{{}}}}"#
        )
    };
    let write = |name: &str, records: [String; 4]| {
        fs::write(path(name), format!("{origin}\n{}\n", records.join("\n"))).expect("there is room");
    };
    write(
        "a.jsonl",
        [
            record("same", 1.0, 2.0),
            record("slower", 1.0, 2.0),
            record("again", 1.0, 9.0),
            record("gone", 1.0, 1.0),
        ],
    );
    write(
        "b.jsonl",
        [
            record("same", 2.0, 3.0),
            record("slower", 3.0, 4.0),
            record("again", 5.0, 6.0),
            record("new", 1.0, 1.0),
        ],
    );
    let compare = |b: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_bedload-bench"))
            .arg("compare")
            .args([path("a.jsonl"), path(b)])
            .output()
            .expect("the command runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let (status, text) = compare("b.jsonl");
    assert_eq!(status, Some(0));
    assert_eq!(
        text,
        "3 figures in both, 1 of them apart\n  3.00 × 1.00 → 3.00 ns  s, slower, \n"
    );
    assert_eq!(compare("c.jsonl").0, Some(1), "there is no such file");

    let folder = |name: &str, file: &str| {
        fs::create_dir(path(name)).expect("there is room");
        fs::copy(path(file), path(name).join("both.jsonl")).expect("there is room");
        path(name)
    };
    let (before, after) = (folder("before", "a.jsonl"), folder("after", "b.jsonl"));
    let output = Command::new(env!("CARGO_BIN_EXE_bedload-bench"))
        .arg("compare")
        .args([before, after])
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let of_files: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    // The medians differ by 2, 3 and 5. The first is the baseline's, which has no ratio to another;
    // the last is noise. Half of few, and nine in ten, are all but the greatest.
    let found = ["3", "3.00", "3.00", "2", "3.00", "3.00", "1", "5.00", "5.00"];
    assert_eq!(
        of_files[1..].iter().map(|line| line[0]).collect::<Vec<_>>(),
        ["both", "all"]
    );
    assert!(of_files[1..].iter().all(|line| line[1..] == found), "{text}");
}

#[test]
fn records_are_json() {
    let records =
        (scenarios::by_name("timeseries-insert").expect("it is listed").run)(&Plan::new(Scale::Tiny));
    let line = serde_json::to_value(&records[0]).expect("a record is JSON");
    for field in [
        "scenario", "subject", "metric", "unit", "median", "min", "max", "rounds", "baseline", "ratio",
        "params",
    ] {
        assert!(line.get(field).is_some(), "{field} is missing");
    }
}
