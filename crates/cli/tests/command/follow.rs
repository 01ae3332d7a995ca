//! `ingest --follow`: rows of a live feed.

use std::io::{PipeReader, Write};
use std::process::Child;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::Place;
use crate::running::{Running, begin_to, outcome, send, wait_until};

const CSV: &str = "--time t --schema t:timestamp(s),n:int64 --follow";

/// Only a full batch is durable.
const SELDOM: &str = "--every 1w";

fn numbers(place: &Place) -> String {
    place.output("query store t --columns n --format csv")
}

#[test]
fn rows_are_durable_soon_after_they_came() {
    let json = "--time t --schema t:timestamp(s) --follow";
    for (arguments, head, rows) in [
        (
            CSV,
            "t,n\r\n",
            ["1,1\r\n\r\n", "2,2\n3,", "3\n", "4,4\n\n\n5,5\r\n\r\n\n6"],
        ),
        (
            json,
            "",
            [
                "{\"t\":1,\"n\":1}\n",
                "\n{\"t\":2,\"n\":2}\n{\"t\"",
                ":3,\"n\":3}\r\n",
                "{\"t\":4,\"n\":4}\n  \n{\"t\":5,\"n\":5}\n  \n\n{",
            ],
        ),
    ] {
        let place = Place::new();
        let mut feed = Running::ingest(&place, &format!("{arguments} --every 300ms"));
        feed.write(head);
        for (lines, count) in rows.into_iter().zip([1, 2, 3, 5]) {
            let began = Instant::now();
            feed.feed(lines, count);
            assert!(began.elapsed() >= Duration::from_millis(250), "{lines}");
            assert_eq!(place.output("query store t --count"), format!("{count}\n"));
        }
        // A last line needs no end.
        feed.write(if head.is_empty() { "\"t\":6,\"n\":6}" } else { ",6" });
        feed.end().succeeds();
        assert_eq!(numbers(&place), "n\n1\n2\n3\n4\n5\n6\n");
    }
}

#[test]
fn a_full_batch_is_not_kept_waiting() {
    let place = Place::new();
    let mut feed = Running::ingest(&place, &format!("{CSV} {SELDOM} --batch-rows 2"));
    feed.write("t,n\n1,1\n");
    feed.feed("2,2\n", 2);
    feed.feed("3,3\n4,4\n", 4);
    feed.end().succeeds();
    // Without --every, a second is awaited.
    let mut feed = Running::ingest(&place, "--follow");
    feed.write("t,n\n");
    let began = Instant::now();
    feed.feed("5,5\n", 1);
    assert!(began.elapsed() >= Duration::from_millis(900));
    feed.end().succeeds();
    assert_eq!(numbers(&place), "n\n1\n2\n3\n4\n5\n");
}

#[test]
fn a_signal_keeps_the_rows_that_have_come_whole() {
    let layouts = ["", "--layout sparse --interval 1s", "--key n"];
    for (signal, layout) in [Signal::TERM, Signal::INT, Signal::HUP].into_iter().zip(layouts) {
        let place = Place::new();
        for exists in [false, true] {
            let mut feed = Running::ingest(&place, &format!("{CSV} {SELDOM} --batch-rows 3 {layout}"));
            feed.feed("t,n\n1,1\n2,2\n3,3\n", 3);
            let more: String = (4..=1000).map(|n| format!("{n},{n}\n")).collect();
            feed.write(&format!("{more}1001,"));
            feed.send(signal);
            let ended = feed.outcome();
            assert_eq!(ended.stderr, "");
            assert!(ended.succeeds().contains("      1,000 rows\n"));
            let times = 1 + usize::from(exists && layout.is_empty());
            let rows: String = (1..=1000).map(|n| format!("{n}\n").repeat(times)).collect();
            assert_eq!(numbers(&place), format!("n\n{rows}"), "{layout}");
        }
        assert!(place.output("verify store").starts_with("OK: "));
    }
}

#[test]
fn a_signal_before_the_first_batch_keeps_its_rows() {
    let place = Place::new();
    for (rows, taken) in [("", 0), ("{\"t\":1,", 0), ("{\"t\":1,\"n\":2}\n{\"t\"", 1)] {
        let mut feed = Running::ingest(&place, &format!("--time t --time-unit s --follow {SELDOM}"));
        feed.write(rows);
        sleep(Duration::from_millis(300));
        feed.send(Signal::TERM);
        let ended = feed.outcome();
        assert_eq!(ended.stderr, "");
        ended.succeeds();
        assert_eq!(place.path("store").exists(), taken > 0);
    }
    assert_eq!(numbers(&place), "n\n2\n");
}

/// A feed whose output goes to a pipe that is full, and the end of that pipe.
fn begin_unread(place: &Place, arguments: &str) -> (Child, PipeReader) {
    place.write("a.csv", "t,n\n1,1\n");
    place.output("ingest store t a.csv --time t --time-unit s");
    let (reader, mut writer) = std::io::pipe().unwrap();
    // As much as a pipe holds.
    writer.write_all(&[b' '; 1 << 16]).unwrap();
    let command = place.command(&format!("ingest store t - --follow {arguments}"));
    (begin_to(command, writer), reader)
}

#[test]
fn a_signal_keeps_rows_that_are_still_in_the_pipe() {
    let place = Place::new();
    let (mut child, mut reader) = begin_unread(&place, "--batch-rows 1 --ack");
    let mut stdin = child.stdin.take().unwrap();
    // The command waits for its acknowledgement to be read, and its input for the command.
    stdin.write_all(b"t,n\n2,2\n3,3\n4,4\n5,5\n").unwrap();
    wait_until(|| place.output("query store t --count") == "2\n");
    sleep(Duration::from_millis(300));
    stdin.write_all(b"6,6\n7,7\n8,").unwrap();
    send(&child, Signal::TERM);
    wait_until(|| place.output("query store t --count") == "7\n");
    let report = spawn(move || std::io::read_to_string(&mut reader).unwrap());
    outcome(child).succeeds();
    assert!(report.join().unwrap().contains("          6 rows\n"));
    drop(stdin);
    assert_eq!(numbers(&place), "n\n1\n2\n3\n4\n5\n6\n7\n");
}

#[test]
fn a_second_signal_does_not_wait_for_the_report() {
    let place = Place::new();
    let (mut child, reader) = begin_unread(&place, "--every 50ms");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"t,n\n2,2\n").unwrap();
    wait_until(|| place.output("query store t --count") == "2\n");
    for signal in [Signal::STOP, Signal::HUP, Signal::TERM, Signal::CONT] {
        send(&child, signal);
    }
    // The system decides which of two signals that wait is the first.
    let ended = outcome(child);
    let (code, name) = match ended.code {
        Some(129) => (129, "SIGHUP"),
        _ => (143, "SIGTERM"),
    };
    assert_eq!(ended.fails(code), format!("ended by {name}; what is done stays"));
    drop((reader, stdin));
    assert_eq!(numbers(&place), "n\n1\n2\n");
}

#[test]
fn a_bad_row_ends_a_feed_after_those_before_it() {
    let long = format!("3,3,{}\n", "x".repeat(9_000_000));
    for (arguments, bad, message) in [
        (
            "",
            "3,x,c\n",
            "standard input:4: `x` in column n is not of type int64",
        ),
        ("", "3,3\n", "standard input:4: 2 fields, where the header has 3"),
        (
            "",
            "3,\"3\"x,c\n",
            "standard input:4: a field goes on after its closing quote",
        ),
        (
            "",
            &long,
            "standard input: row 3 of those from line 2: the row has more than",
        ),
        (
            "--interval 1s --layout sparse",
            "3.5,3,c\n",
            "standard input:4: `3.5` in column t is finer than its type timestamp(s)",
        ),
        (
            "--interval 2s --layout sparse",
            "5,3,c\n",
            "standard input: in the rows from line 2: ",
        ),
    ] {
        for exists in [false, true] {
            let place = Place::new();
            let schema = "--time t --schema t:timestamp(s),n:int64,x:utf8 --follow";
            if exists {
                place.write("none.csv", "t,n,x\n0,0,a\n");
                place.output(&format!(
                    "ingest store t none.csv --time t --time-unit s --schema x:utf8 {arguments}"
                ));
            }
            let mut feed = Running::ingest(&place, &format!("{schema} {SELDOM} --batch-rows 4 {arguments}"));
            feed.write(&format!("t,n,x\n2,1,a\n4,2,b\n{bad}6,4,d\n"));
            let ended = feed.outcome();
            assert_eq!(ended.stdout, "acknowledged 2\n", "{message}");
            let failure = ended.fails(1);
            assert!(failure.starts_with(message), "{failure}");
            assert!(failure.ends_with("; 2 rows of this run stay"), "{failure}");
            let expected = if exists { "n\n0\n1\n2\n" } else { "n\n1\n2\n" };
            assert_eq!(numbers(&place), expected, "{message}");
        }
    }
}

#[test]
fn bad_rows_of_a_feed_can_be_skipped() {
    let place = Place::new();
    let mut feed = Running::ingest(&place, &format!("{CSV} --every 100ms --on-error skip --json"));
    feed.feed("t,n\n1,1\nx,2\n3,3\n", 2);
    feed.feed("4\n5,5\n", 3);
    let ended = feed.end().succeeds();
    let report: serde_json::Value = serde_json::from_str(&ended).unwrap();
    assert_eq!(
        (&report["rows"], &report["skipped"]["rows"]),
        (&3.into(), &2.into())
    );
    assert_eq!(numbers(&place), "n\n1\n3\n5\n");
}

#[test]
fn a_feed_that_fails_at_its_first_row_leaves_nothing() {
    let place = Place::new();
    let mut feed = Running::ingest(&place, CSV);
    feed.write("t,n\nx,1\n");
    let message = feed.outcome().fails(1);
    assert!(
        message.starts_with("standard input:2: `x` in column t is not a time"),
        "{message}"
    );
    assert!(!place.path("store").exists());
}

#[test]
fn rows_expire_while_a_feed_goes_on() {
    let place = Place::new();
    let day = |day: u32, text: &str| format!("{},{text}\n", 1_600_041_600 + u64::from(day) * 86_400);
    let days = |days: std::ops::Range<u32>| days.map(|n| day(n, "a")).collect::<String>();
    place.write("a.csv", format!("t,n\n{}", days(0..40)));
    place.output("ingest store t a.csv --time t --time-unit s");
    place.output("retention store t 60d");
    let mut feed = Running::ingest(&place, "--follow --every 50ms");
    feed.write("t,n\n");
    // Rows expire when others are written to pages, for which these are enough.
    let text = "b".repeat(50_000);
    let long: String = (400..1400).map(|n| day(n, &text)).collect();
    feed.feed(&long, 1000);
    feed.feed(&days(1400..1401), 1001);
    wait_until(|| place.output("query store t --where n=a --count") == "1\n");
    feed.end().succeeds();
}

#[test]
fn a_feed_is_one_text_that_is_not_undone() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n");
    place.write_gzip("a.csv.gz", "t,n\n1,1\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    place.output("query s t --output a.parquet");
    place.output("query s t --output a.arrow");
    place.output("query s t --output a.arrows");
    let follow = "ingest s t --follow";
    for (arguments, expected) in [
        ("a.csv --source-id x", "cannot be used with"),
        ("a.csv --order", "cannot be used with"),
        ("a.csv -", "--follow takes one input"),
    ] {
        let message = place.run(&format!("{follow} {arguments}")).fails(2);
        assert!(message.contains(expected), "{message}");
    }
    let message = place.run("ingest s t a.csv --every 1s").fails(2);
    assert!(message.contains("--follow"), "{message}");
    for file in ["a.csv.gz", "a.parquet", "a.arrow", "a.arrows"] {
        let message = place.run(&format!("{follow} {file}")).fails(1);
        assert_eq!(
            message,
            format!("{file}: --follow reads CSV or JSON lines that are not compressed")
        );
    }
    assert_eq!(place.output("query s t --count"), "1\n");
    // A file ends.
    place.output(&format!("{follow} a.csv"));
    assert_eq!(place.output("query s t --count"), "2\n");
}
