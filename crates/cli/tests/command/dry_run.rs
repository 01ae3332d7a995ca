//! `ingest --dry-run`: it says what `ingest` would, and writes nothing.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use crate::harness::Place;

const ROWS: &str = "at,sensor,x\n2026-03-01T00:00:00,a,1\n2026-03-01T00:00:01,b,2\n";

/// The files below a directory, with their sizes and the times at which they were written.
fn files(path: &Path) -> Vec<(String, u64, SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let metadata = path.metadata().unwrap();
            let name = path.display().to_string();
            found.push((name, metadata.len(), metadata.modified().unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn nothing_is_created_or_changed() {
    let place = Place::new();
    place.write("a.csv", ROWS);
    let said = "          2 rows would be added\n    \
                columns at:timestamp(s),sensor:utf8,x:int64\n\
                nothing was written: --dry-run\n";
    assert_eq!(place.output("ingest s t a.csv --time at --dry-run"), said);
    assert!(!place.path("s").exists());
    place.output("ingest s t a.csv --time at");
    let before = files(&place.path("s"));
    assert_eq!(place.output("ingest s u a.csv --time at --dry-run"), said);
    let said = "          2 rows would be added\nnothing was written: --dry-run\n";
    assert_eq!(place.output("ingest s t a.csv --dry-run"), said);
    let report = place.json("ingest s t a.csv --dry-run --json --order");
    assert_eq!(
        (&report["rows"], &report["k"], &report["dry_run"]),
        (&2.into(), &0.into(), &true.into())
    );
    assert!(report["table_rows"].is_null() && report["bytes_per_row"].is_null());
    assert_eq!(files(&place.path("s")), before);
}

#[test]
fn rows_are_refused_as_without_it() {
    let place = Place::new();
    let long = "x".repeat(2 << 20);
    place.write("a.csv", ROWS);
    place.write(
        "text.csv",
        "at,sensor,x\n2026-03-01T00:00:02,c,3\n2026-03-01T00:00:03,d,y\n",
    );
    place.write("notime.csv", "at,sensor,x\n,a,1\n");
    place.write("long.csv", format!("at,sensor,x\n2026-03-01T00:00:05,{long},1\n"));
    place.write("half.csv", "at,sensor,x\n2026-03-01T00:00:03,a,1\n");
    place.write("columns.csv", "at,sensor,y\n2026-03-01T00:00:02,c,3\n");
    place.write("nosuch", "a file");
    place.output("ingest s t a.csv --time at");
    place.output("ingest s keyed a.csv --time at --key sensor");
    place.output("ingest s sparse a.csv --time at --interval 1s");
    place.output("ingest s even half.csv --time at --interval 3s");
    std::fs::create_dir(place.path("full")).unwrap();
    place.write("full/a", "");
    for (store, other) in [("cut", "lock"), ("alien", "a")] {
        std::fs::create_dir(place.path(store)).unwrap();
        place.write(&format!("{store}/lock"), "");
        place.write(&format!("{store}/{other}"), "");
    }
    place.output("ingest gone t a.csv --time at");
    std::fs::remove_file(place.path("gone/data")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("dangling")).unwrap();
    for arguments in [
        "s t text.csv",
        "s t text.csv --on-error skip",
        "s t notime.csv",
        "s t long.csv",
        "s t long.csv --on-error skip",
        "s t columns.csv",
        "s t a.csv missing.csv",
        "s t a.csv --time x",
        "s t a.csv --key sensor",
        "s t a.csv --snap down",
        "s even a.csv",
        "s even a.csv --snap down",
        "s keyed text.csv",
        "s sparse notime.csv",
        "s bedload.sources a.csv --time at",
        "s new a.csv",
        "s new a.csv --time sensor",
        "s new notime.csv --time at",
        "s new a.csv --time at --interval 1ms",
        "s new a.csv --time at --interval 1s --key sensor",
        "s new a.csv --time at --interval 7s",
        "s new a.csv --time at --key nosuch",
        "nosuch t a.csv --time at",
        "full t a.csv --time at",
        "cut t a.csv --time at",
        "alien t a.csv --time at",
        "gone t a.csv --time at",
        "dangling t a.csv --time at",
        "no/such t a.csv --time at",
    ] {
        let before = place.contents("s");
        let dry = place.run(&format!("ingest {arguments} --dry-run"));
        assert_eq!(place.contents("s"), before, "{arguments}");
        let wet = place.run(&format!("ingest {arguments}"));
        assert_eq!((dry.code, &dry.stderr), (wet.code, &wet.stderr), "{arguments}");
        if wet.code == Some(0) {
            let rows = |text: &str| text.split_whitespace().next().map(str::to_owned);
            assert_eq!(rows(&dry.stdout), rows(&wet.stdout), "{arguments}");
        }
    }
    for option in ["--follow", "--ack"] {
        let message = place
            .run(&format!("ingest s t a.csv --dry-run {option}"))
            .fails(2);
        assert!(message.contains("--dry-run"), "{message}");
    }
}

#[test]
fn it_works_beside_a_writer_and_skips_what_a_source_has_given() {
    let place = Place::new();
    place.write("a.csv", ROWS);
    place.output("ingest s t a.csv --time at --source-id one");
    let mut writer = place.command("ingest s t - --follow --every 1ms --ack");
    let mut writer = writer
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut feed = writer.stdin.take().unwrap();
    feed.write_all(ROWS.as_bytes()).unwrap();
    let mut acknowledged = [0; 14];
    std::io::Read::read_exact(&mut writer.stdout.take().unwrap(), &mut acknowledged).unwrap();
    place.run("ingest s t a.csv").fails(4);
    place.write("b.csv", "at,sensor,x\n2026-03-01T00:00:02,c,3\n");
    let report = place.json("ingest s t a.csv b.csv --source-id one --dry-run --json");
    assert_eq!((&report["rows"], &report["taken_before"]), (&1.into(), &2.into()));
    let message = place.run("ingest s t b.csv --source-id one --dry-run").fails(1);
    assert!(message.contains("another --source-id"), "{message}");
    drop(feed);
    writer.wait().unwrap();
}
