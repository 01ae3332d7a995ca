//! SIGINT, SIGTERM and SIGHUP end every command as an error does: what was begun is undone, and the
//! exit code is 128 and the number of the signal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bedload_testkit::Rng;
use rustix::process::Signal;

use crate::harness::{Outcome, Place, near_sorted_csv};
use crate::running::{begin, outcome, send, wait_for_line};

const SIGNALS: [(Signal, i32, &str); 3] = [
    (Signal::INT, 130, "SIGINT"),
    (Signal::TERM, 143, "SIGTERM"),
    (Signal::HUP, 129, "SIGHUP"),
];

/// Waits until the command has said that it wants to see its signals.
fn wait_until_caught(child: &Child) {
    const MASK: u64 = 1 << 1 | 1 << 14 | 1;
    let is_caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_none_or(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & MASK == MASK)
    };
    while !is_caught() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn entries(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const INGEST: &str = "ingest s t - --time t --schema t:timestamp(s),n:int64 --batch-rows 1 --ack";

#[test]
fn an_ingest_that_waits_for_input_is_undone() {
    for (signal, code, name) in SIGNALS {
        for layout in ["", " --layout sparse --interval 1s"] {
            let place = Place::new();
            for exists in [false, true] {
                let before = place.contents("s");
                let mut child = begin(place.command(&(INGEST.to_owned() + layout)));
                let mut stdin = child.stdin.take().unwrap();
                stdin.write_all(b"t,n\n17,2\n18,2\n19,2\n").unwrap();
                wait_for_line(&mut child, "acknowledged 2\n");
                send(&child, signal);
                // Nothing more comes, and the pipe stays open: the wait itself must end.
                let message = outcome(child).fails(code);
                assert_eq!(message, format!("ended by {name}; the store is as it was before"));
                assert_eq!(place.contents("s"), before, "{name}{layout}");
                if !exists {
                    place.write("own.csv", "t,n\n17,1\n");
                    place.output(&(INGEST.replacen(" - ", " own.csv ", 1) + layout));
                }
            }
        }
    }
}

#[test]
fn following_ends_while_its_reader_is_slow() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    place.write("more.csv", near_sorted_csv(50_000));
    for (signal, code, name) in SIGNALS {
        let mut tail = begin(place.command("tail s t -f -n 0 --format csv"));
        wait_for_line(&mut tail, "t,n\n");
        wait_until_caught(&tail);
        place.output("ingest s t more.csv --time-unit s");
        // The pipe takes no more when as much is in it as a while ago.
        let stdout = tail.stdout.as_ref().unwrap();
        let (mut before, mut now) = (0, 0);
        while now == 0 || now > before {
            std::thread::sleep(Duration::from_millis(300));
            (before, now) = (now, rustix::io::ioctl_fionread(stdout).unwrap());
        }
        send(&tail, signal);
        assert_eq!(outcome(tail).fails(code), format!("ended by {name}"));
    }
}

#[test]
fn an_ingest_from_a_fifo_without_a_writer_ends() {
    let place = Place::new();
    let status = Command::new("mkfifo").arg(place.path("fifo")).status().unwrap();
    assert!(status.success());
    let child = begin(place.command("ingest s t fifo --time t --time-unit s"));
    wait_until_caught(&child);
    send(&child, Signal::TERM);
    assert_eq!(outcome(child).fails(143), "ended by SIGTERM");
    assert!(!place.path("s").exists());
}

#[test]
fn a_query_that_waits_for_the_reader_of_a_pipe_ends() {
    let place = Place::new();
    let status = Command::new("mkfifo").arg(place.path("fifo")).status().unwrap();
    assert!(status.success());
    // The answer is longer than a pipe.
    place.write("rows.csv", near_sorted_csv(20_000));
    place.output("ingest s t rows.csv --time t --time-unit s");
    for ((signal, _, name), has_reader) in SIGNALS.into_iter().zip([false, true, true]) {
        let child = begin(place.command("query s t --format csv --output fifo"));
        let reader = has_reader.then(|| {
            let mut reader = std::fs::File::open(place.path("fifo")).unwrap();
            reader.read_exact(&mut [0]).unwrap();
            reader
        });
        std::thread::sleep(Duration::from_millis(200));
        send(&child, signal);
        // There is nothing to undo: the signal itself ends it.
        assert_eq!(outcome(child).code, None, "{name}");
        drop(reader);
    }
}

#[test]
fn an_ingest_is_undone_wherever_the_signal_comes() {
    let place = Place::new();
    place.write("own.csv", near_sorted_csv(2000));
    place.write("rows.csv", near_sorted_csv(150_000));
    let command = "ingest s t FILE --time t --time-unit s --batch-rows 500";
    place.output(&command.replace("FILE", "own.csv"));
    let before = place.contents("s");
    let mut random = Rng::new(0x51_6e41);
    let mut ended = 0;
    for round in 0..30 {
        let (signal, code, _) = SIGNALS[round % 3];
        let child = begin(place.command(&command.replace("FILE", "rows.csv")));
        wait_until_caught(&child);
        std::thread::sleep(Duration::from_micros(random.below(250_000)));
        send(&child, signal);
        let outcome = outcome(child);
        // A signal that comes after the commit, before the process has ended, undoes nothing.
        if outcome.code == Some(0) || outcome.stderr.contains("what is done stays") {
            place.output("delete s t --from @0");
            place.output(&command.replace("FILE", "own.csv"));
        } else {
            ended += 1;
            let message = outcome.fails(code);
            assert!(message.ends_with("; the store is as it was before"), "{message}");
        }
        assert_eq!(place.contents("s"), before, "round {round}");
    }
    assert!(ended > 5, "{ended}");
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn a_second_signal_does_not_stop_the_undoing() {
    let place = Place::new();
    place.write("own.csv", near_sorted_csv(2000));
    place.write("rows.csv", near_sorted_csv(150_000));
    place.output("ingest s t own.csv --time t --time-unit s");
    let before = place.contents("s");
    let command = "ingest s t rows.csv - --time t --time-unit s --batch-rows 500 --ack";
    let mut child = begin(place.command(command));
    let stdin = child.stdin.take();
    wait_for_line(&mut child, "acknowledged 150000\n");
    send(&child, Signal::TERM);
    send(&child, Signal::INT);
    let ended = outcome(child);
    drop(stdin);
    assert!(
        matches!(ended.code, Some(130 | 143)),
        "{:?} {}",
        ended.code,
        ended.stderr
    );
    assert!(
        ended.stderr.ends_with("; the store is as it was before\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.contents("s"), before);
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let place = Place::new();
    let mut command = Command::new("env");
    command
        .args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_bedload")])
        .args(INGEST.split(' '))
        .current_dir(place.path("."));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"t,n\n17,2\n18,2\n").unwrap();
    wait_for_line(&mut child, "acknowledged 1\n");
    send(&child, Signal::HUP);
    std::thread::sleep(Duration::from_millis(20));
    stdin.write_all(b"19,2\n").unwrap();
    drop(stdin);
    outcome(child).succeeds();
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 3);
}

/// Runs a command again and again and ends it at random moments; `check` is told whether it was
/// ended.
fn end_at_random(
    place: &Place,
    arguments: &str,
    rounds: usize,
    below_micros: u64,
    check: impl Fn(bool),
) -> usize {
    let mut random = Rng::new(0xe4d);
    let mut ended = 0;
    for round in 0..rounds {
        let (signal, code, _) = SIGNALS[round % 3];
        let child = begin(place.command(arguments));
        wait_until_caught(&child);
        std::thread::sleep(Duration::from_micros(random.below(below_micros)));
        send(&child, signal);
        let outcome = outcome(child);
        let is_done = outcome.code == Some(0) || outcome.stderr.contains("what is done stays");
        if !is_done {
            ended += 1;
            outcome.fails(code);
        }
        check(!is_done);
    }
    ended
}

fn with_rows(rows: u64) -> Place {
    let place = Place::new();
    place.write("rows.csv", near_sorted_csv(rows));
    place.output("ingest s t rows.csv --time t --time-unit s");
    place
}

#[test]
fn copies_are_whole_or_not_there() {
    let place = with_rows(150_000);
    let before = place.contents("s");
    for command in ["backup s new", "restore s new", "salvage s new"] {
        for within in [false, true] {
            if within {
                std::fs::create_dir(place.path("new")).unwrap();
            }
            let ended = end_at_random(&place, command, 9, 60_000, |ended| {
                if ended {
                    assert_eq!(place.path("new").exists(), within, "{command}");
                } else {
                    assert_eq!(place.contents("new"), before, "{command}");
                    std::fs::remove_dir_all(place.path("new")).unwrap();
                }
                if within && ended {
                    assert_eq!(entries(&place.path("new")), [""; 0], "{command}");
                } else if within {
                    std::fs::create_dir(place.path("new")).unwrap();
                }
                let expected: &[&str] = if within {
                    &["new", "rows.csv", "s"]
                } else {
                    &["rows.csv", "s"]
                };
                assert_eq!(entries(&place.path(".")), expected, "{command}");
            });
            assert!(ended > 0, "{command}");
            let _ = std::fs::remove_dir(place.path("new"));
        }
    }
    assert_eq!(place.contents("s"), before);
}

#[test]
fn a_converted_table_is_whole_or_not_there() {
    let place = with_rows(100_000);
    let before = place.contents("s");
    let command = "convert s t new --layout sparse --interval 1s";
    let ended = end_at_random(&place, command, 12, 100_000, |ended| {
        if !ended {
            // There is no command that drops a table.
            std::fs::remove_dir_all(place.path("s")).unwrap();
            place.output("ingest s t rows.csv --time t --time-unit s");
        }
        assert_eq!(place.contents("s"), before);
    });
    assert!(ended > 0);

    // The remains of a `kill -9` are named as such, and do not stand in the way.
    let mut left = 0;
    for delay in 0..40 {
        let mut child = begin(place.command(command));
        wait_until_caught(&child);
        std::thread::sleep(Duration::from_millis(2 * delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let info = place.json("info s --json");
        let tables: Vec<&str> = info["tables"]
            .as_array()
            .unwrap()
            .iter()
            .map(|table| table["name"].as_str().unwrap())
            .collect();
        if tables.contains(&"new") {
            break;
        }
        left += usize::from(tables.contains(&"(unfinished convert)"));
    }
    assert!(left > 0);
    if !place.output("info s").contains("table    new") {
        place.output(command);
    }
    assert_eq!(place.json("info s --json")["tables"].as_array().unwrap().len(), 2);
}

#[test]
fn an_answer_in_a_file_is_whole_or_not_there() {
    let place = with_rows(150_000);
    let whole = place.output("query s t --format csv");
    place.write("answer", "of before");
    let ended = end_at_random(
        &place,
        "query s t --format csv --output answer",
        15,
        60_000,
        |ended| {
            let answer = std::fs::read_to_string(place.path("answer")).unwrap();
            assert_eq!(
                answer,
                if ended {
                    "of before".to_owned()
                } else {
                    whole.clone()
                }
            );
            place.write("answer", "of before");
            assert_eq!(entries(&place.path(".")), ["answer", "rows.csv", "s"]);
        },
    );
    assert!(ended > 0);
}

#[test]
fn an_answer_goes_where_a_link_leads_and_into_devices() {
    let place = with_rows(3);
    let whole = place.output("query s t --format csv");
    std::os::unix::fs::symlink("target", place.path("link")).unwrap();
    place.write("target", "");
    place.output("query s t --format csv --output link");
    assert_eq!(std::fs::read_to_string(place.path("target")).unwrap(), whole);
    assert!(place.path("link").is_symlink());
    assert_eq!(place.output("query s t --format csv --output /dev/stdout"), whole);
    place.output("query s t --format csv --output /dev/null");
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    std::fs::create_dir(place.path("dir")).unwrap();
    assert_eq!(
        place.run("query s t --format csv --output dir").fails(5),
        "dir: is a directory"
    );
}

/// Signals that come while the process is stopped are all seen at once when it goes on, before
/// anything is undone.
#[test]
fn the_third_signal_ends_an_undoing() {
    // The undoing may be quicker than the thread that counts.
    for _ in 0..10 {
        let place = Place::new();
        let mut child = begin(place.command(INGEST));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"t,n\n17,2\n18,2\n19,2\n").unwrap();
        wait_for_line(&mut child, "acknowledged 2\n");
        for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::HUP, Signal::CONT] {
            send(&child, signal);
        }
        let Outcome { code, stderr, .. } = outcome(child);
        assert!(matches!(code, Some(129 | 130 | 143)), "{code:?}: {stderr}");
        let left = place.run("verify s");
        assert!(matches!(left.code, Some(0 | 6)), "{}", left.stderr);
        if stderr.contains("the third signal, before all was undone") {
            return;
        }
    }
    panic!("three signals let ten commands undo their work");
}
