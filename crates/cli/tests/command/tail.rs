//! Commands that read, beside one that writes; `tail`.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::Place;
use crate::running::{Running, begin, outcome, wait_for_line};

/// Each row is a batch.
const BY_ROW: &str = "--batch-rows 1";

const ROWS: &str = "at,x\n2026-01-01 00:00:00,1\n2026-01-01 00:00:01,2\n2026-01-01 00:00:02,3\n";

#[test]
fn commands_that_read_work_beside_a_writer() {
    let place = Place::new();
    place.write("first.csv", ROWS);
    place.output("ingest store t first.csv --time at");
    let mut writer = Running::ingest(&place, BY_ROW);
    writer.feed("at,x\n2026-01-01 00:00:03,4\n", 1);
    let x = "query store t --columns x --format csv";
    assert_eq!(place.output(x), "x\n1\n2\n3\n4\n");
    assert_eq!(place.json("info store --json")["tables"][0]["rows"], 4);
    assert_eq!(place.output("tables store"), "t\n");
    assert_eq!(place.json("verify store --json")["ok"], true);
    assert!(place.output("retention store t").contains("for ever"));
    assert!(place.output("drop store t --dry-run").contains("4 rows"));
    assert!(
        place
            .output("delete store t --from 2026-01-01 --dry-run")
            .contains("4 rows")
    );
    let output = place.output("query store t --format csv --output rows.csv");
    assert_eq!(output, "");
    place.run("delete store t --from 2026-01-01").fails(4);
    assert!(place.output("backup store copy").contains("4 rows"));
    assert_eq!(
        place.output("query copy t --columns x --format csv"),
        "x\n1\n2\n3\n4\n"
    );
    writer.feed("2026-01-01 00:00:04,5\n", 2);
    assert_eq!(place.output(x), "x\n1\n2\n3\n4\n5\n");
    writer.kill();
    assert_eq!(place.output(x), "x\n1\n2\n3\n4\n5\n");
    assert_eq!(std::fs::read_dir(place.path("store/readers")).unwrap().count(), 0);
    place.output("delete store t --to 2026-01-01T00:00:01");
    assert_eq!(place.output(x), "x\n2\n3\n4\n5\n");
}

#[test]
fn the_newest_rows_are_printed_in_order_of_time() {
    let place = Place::new();
    place.write("rows.csv", format!("{ROWS}2025-12-31 00:00:00,0\n"));
    place.output("ingest store t rows.csv --time at");
    let csv = |arguments: &str| place.output(&format!("tail store t --format csv --columns x {arguments}"));
    assert_eq!(csv(""), "x\n0\n1\n2\n3\n");
    assert_eq!(csv("-n 2"), "x\n2\n3\n");
    assert_eq!(csv("--rows 0"), "x\n");
    let conditions = [
        "tail",
        "store",
        "t",
        "--where",
        "x < 2",
        "-n",
        "1",
        "--format",
        "json",
        "--columns",
        "x",
    ];
    assert_eq!(place.run_with(&conditions).succeeds(), "{\"x\":1}\n");
    assert_eq!(
        place.output("tail store t -n 1 --columns x"),
        "x\n-\n3\n(1 row)\n"
    );
    place.run("tail store other").fails(1);
    place.run("tail nowhere t").fails(6);
    place.run("tail store t --format parquet").fails(2);
}

#[test]
fn many_rows_are_held_once() {
    let place = Place::new();
    let text = "x".repeat(400);
    let row = |n: u32| format!("{},{n}{text}\n", n / 2);
    place.write(
        "rows.csv",
        "at,x\n".to_owned() + &(0..300_000).map(row).collect::<String>(),
    );
    place.output("ingest store t rows.csv --time at --time-unit s");
    let tail = ["tail", "store", "t", "-n", "299999", "--format", "csv"];
    // They take 125 MiB.
    let rows = place.run_within(350_000, &tail).succeeds();
    let all = place.output("query store t --format csv");
    let expected = all.lines().enumerate().filter(|(line, _)| *line != 1);
    assert!(rows.lines().eq(expected.map(|(_, line)| line)));
}

#[test]
fn rows_are_followed_through_checkpoints_and_the_death_of_their_writer() {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place.output("ingest store t rows.csv --time at");
    let tail = Running::begin(place.command("tail store t -f -n 1 --format csv --columns x"));
    assert_eq!(tail.lines(), ["x", "3"]);
    let mut writer = Running::ingest(&place, BY_ROW);
    writer.feed("at,x\n2026-01-01 00:00:03,4\n", 1);
    assert_eq!(tail.lines(), ["4"]);
    // A late one.
    writer.feed("2020-01-01 00:00:00,5\n", 2);
    assert_eq!(tail.lines(), ["5"]);
    writer.kill();
    // The store is recovered, and closed.
    place.write("more.csv", "at,x\n2026-01-01 00:00:04,6\n2026-01-01 00:00:05,7\n");
    place.output("ingest store t more.csv");
    assert_eq!(tail.lines(), ["6", "7"]);
    let mut writer = Running::ingest(&place, BY_ROW);
    writer.feed("at,x\n2026-01-01 00:00:06,8\n", 1);
    assert_eq!(tail.lines(), ["8"]);
    writer.end().succeeds();
    tail.send(Signal::INT);
    let ended = tail.outcome();
    assert_eq!(ended.stdout, "", "each row is printed once");
    assert_eq!(ended.fails(130), "ended by SIGINT");
    assert_eq!(std::fs::read_dir(place.path("store/readers")).unwrap().count(), 0);
}

#[test]
fn following_ends_when_its_output_is_closed() {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place.output("ingest store t rows.csv --time at");
    let mut tail = begin(place.command("tail store t --follow --format json --columns x"));
    wait_for_line(&mut tail, "{\"x\":1}\n");
    drop(tail.stdout.take());
    outcome(tail).succeeds();
}

#[test]
fn a_sparse_table_is_followed_by_time() {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place.output("ingest store t rows.csv --time at --layout sparse --interval 1s");
    let tail = Running::begin(place.command("tail store t -f -n 2 --format csv --columns x"));
    assert_eq!(tail.lines(), ["x", "2", "3"]);
    let mut writer = Running::ingest(&place, BY_ROW);
    writer.feed("at,x\n2026-01-01 00:00:09,4\n", 1);
    assert_eq!(tail.lines(), ["4"]);
    writer.end().succeeds();
    // A row before the last one that was printed stays out, although that one was deleted.
    place.output("delete store t --from 2026-01-01T00:00:08Z");
    thread::sleep(Duration::from_millis(500));
    place.write("more.csv", "at,x\n2026-01-01 00:00:08,5\n");
    place.output("ingest store t more.csv");
    thread::sleep(Duration::from_millis(500));
    place.write("last.csv", "at,x\n2026-01-01 00:00:10,6\n");
    place.output("ingest store t last.csv");
    assert_eq!(tail.lines(), ["6"]);
    tail.kill();
}
