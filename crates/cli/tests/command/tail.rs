//! Commands that read, beside one that writes; `tail`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::Place;

/// An `ingest` that goes on as long as it is fed.
struct Writer {
    child: Child,
    input: Option<ChildStdin>,
    told: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    fn begin(place: &Place, arguments: &str) -> Self {
        let command = place.command(&format!("ingest store t - --ack --batch-rows 1 {arguments}"));
        let (child, told) = begin(command);
        Self::of(child, told)
    }

    fn of(mut child: Child, told: Lines<BufReader<ChildStdout>>) -> Self {
        let input = child.stdin.take();
        Self { child, input, told }
    }

    /// Feeds lines, and waits until so many rows are durable.
    fn feed(&mut self, lines: &str, rows: u64) {
        self.input.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
        let wanted = format!("acknowledged {rows}");
        assert!(self.told.by_ref().any(|line| line.unwrap() == wanted));
    }

    fn end(mut self) {
        drop(self.input.take());
        self.told.by_ref().for_each(drop);
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Starts a command with the signals as a terminal leaves them.
fn begin(command: Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut wrapped = Command::new("env");
    wrapped
        .arg("--default-signal=INT,TERM,HUP")
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = wrapped.spawn().unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, told)
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    lines.next().unwrap().unwrap()
}

const ROWS: &str = "at,x\n2026-01-01 00:00:00,1\n2026-01-01 00:00:01,2\n2026-01-01 00:00:02,3\n";

#[test]
fn commands_that_read_work_beside_a_writer() {
    let place = Place::new();
    place.write("first.csv", ROWS);
    place.output("ingest store t first.csv --time at");
    let mut writer = Writer::begin(&place, "");
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
    place.run("backup store copy").fails(4);
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
    let (mut tail, mut lines) = begin(place.command("tail store t -f -n 1 --format csv --columns x"));
    assert_eq!([next(&mut lines), next(&mut lines)], ["x", "3"]);
    let mut writer = Writer::begin(&place, "");
    writer.feed("at,x\n2026-01-01 00:00:03,4\n", 1);
    assert_eq!(next(&mut lines), "4");
    // A late one.
    writer.feed("2020-01-01 00:00:00,5\n", 2);
    assert_eq!(next(&mut lines), "5");
    writer.kill();
    // The store is recovered, and closed.
    place.write("more.csv", "at,x\n2026-01-01 00:00:04,6\n2026-01-01 00:00:05,7\n");
    place.output("ingest store t more.csv");
    assert_eq!([next(&mut lines), next(&mut lines)], ["6", "7"]);
    let mut writer = Writer::begin(&place, "");
    writer.feed("at,x\n2026-01-01 00:00:06,8\n", 1);
    assert_eq!(next(&mut lines), "8");
    writer.end();
    kill_process(Pid::from_raw(tail.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert_eq!(tail.wait().unwrap().code(), Some(130));
    assert_eq!(lines.count(), 0, "each row is printed once");
    assert_eq!(std::fs::read_dir(place.path("store/readers")).unwrap().count(), 0);
}

#[test]
fn following_ends_when_nobody_reads() {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place.output("ingest store t rows.csv --time at");
    let (mut tail, mut lines) = begin(place.command("tail store t --follow --format json --columns x"));
    assert_eq!(next(&mut lines), "{\"x\":1}");
    drop(lines);
    assert_eq!(tail.wait().unwrap().code(), Some(0));
}

#[test]
fn a_sparse_table_is_followed_by_time() {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place.output("ingest store t rows.csv --time at --layout sparse --interval 1s");
    let (mut tail, mut lines) = begin(place.command("tail store t -f -n 2 --format csv --columns x"));
    assert_eq!(
        [next(&mut lines), next(&mut lines), next(&mut lines)],
        ["x", "2", "3"]
    );
    let mut writer = Writer::begin(&place, "");
    writer.feed("at,x\n2026-01-01 00:00:09,4\n", 1);
    assert_eq!(next(&mut lines), "4");
    writer.end();
    // A row before the last one that was printed stays out, although that one was deleted.
    place.output("delete store t --from 2026-01-01T00:00:08Z");
    thread::sleep(Duration::from_millis(500));
    place.write("more.csv", "at,x\n2026-01-01 00:00:08,5\n");
    place.output("ingest store t more.csv");
    thread::sleep(Duration::from_millis(500));
    place.write("last.csv", "at,x\n2026-01-01 00:00:10,6\n");
    place.output("ingest store t last.csv");
    assert_eq!(next(&mut lines), "6");
    tail.kill().unwrap();
    tail.wait().unwrap();
}
