//! A run that fails leaves the store as it was, however many batches it had made durable.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Outcome, Place, near_sorted_csv};

/// Files that fail after many good rows, and the options to read them.
fn bad_files(place: &Place) -> Vec<&'static str> {
    let good = near_sorted_csv(3000);
    place.write("bad_time.csv", format!("{good}soon,1\n"));
    place.write("no_time.csv", format!("{good},1\n"));
    place.write("bad_number.csv", format!("{good}17,one\n"));
    place.write("ragged.csv", format!("{good}17\n"));
    place.write("wide.csv", format!("{good}17,1,1\n"));
    place.write("not_utf8.csv", [good.as_bytes(), b"\xff\xfe,1\n"].concat());
    place.write_gzip("cut.csv.gz", near_sorted_csv(200_000));
    let bytes = std::fs::read(place.path("cut.csv.gz")).unwrap();
    place.write("cut.csv.gz", &bytes[..bytes.len() - 10]);
    place.write("good.csv", near_sorted_csv(10));
    vec![
        "bad_time.csv",
        "no_time.csv",
        "bad_number.csv",
        "ragged.csv",
        "wide.csv",
        "not_utf8.csv",
        "cut.csv.gz",
        "good.csv bad_time.csv",
        "good.csv none.csv",
    ]
}

#[test]
fn a_sparse_table_keeps_its_rows_and_no_more() {
    let place = Place::new();
    // Rows of the run stand where there were some, beside them, and far off; so that they are
    // written over by batches that fill blocks as well as one by one.
    let sparse = |files: &str| ingest("t", files).replace(" --ack", "");
    let csv = |times: &[std::ops::Range<i64>], step: usize, value: i64| {
        let rows = times.iter().cloned().flatten().step_by(step);
        rows.fold("t,n\n".to_owned(), |csv, time| csv + &format!("{time},{value}\n"))
    };
    place.write("own.csv", csv(&[0..5000, 9000..9100, 1_000_000..1_000_010], 3, 1));
    place.output(&(sparse("own.csv") + " --layout sparse --interval 1s"));
    let before = place.contents("s");
    for (step, batch_rows) in [(1, 2000), (2, 100), (7, 65_536)] {
        let times = [2000..6000, -700..100, 50_000..52_000, 999_990..1_000_005];
        let good = csv(&times, step, 2);
        place.write("bad_time.csv", format!("{good}soon,1\n"));
        place.write("bad_number.csv", format!("{good}17,one\n"));
        place.write("good.csv", &good);
        for files in ["bad_time.csv", "bad_number.csv", "good.csv none.csv"] {
            let outcome = place.run(&sparse(files).replace("100", &batch_rows.to_string()));
            let message = outcome.fails(1);
            assert!(!message.contains("could not be put back"), "{files}: {message}");
            assert_eq!(
                place.contents("s"),
                before,
                "{files}, each {step}th, batches of {batch_rows}"
            );
        }
    }
    assert!(place.output("verify s").starts_with("OK: "));
    place.output(&sparse("good.csv"));
    assert_ne!(place.contents("s"), before);
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn what_was_moved_to_a_grid_is_taken_back() {
    let place = Place::new();
    place.write("own.csv", "t,n\n0,1\n10,1\n40,1\n");
    place
        .output("ingest s t own.csv --time t --schema t:timestamp(s),n:int64 --layout sparse --interval 10s");
    let before = place.contents("s");
    place.write("bad.csv", "t,n\n-14,2\n6,2\n24,2\n44,2\nsoon,2\n");
    for snap in ["nearest", "down"] {
        place
            .run(&format!("ingest s t bad.csv --batch-rows 2 --snap {snap}"))
            .fails(1);
        assert_eq!(place.contents("s"), before, "{snap}");
    }
}

fn ingest(table: &str, files: &str) -> String {
    format!("ingest s {table} {files} --time t --schema t:timestamp(s),n:int64 --batch-rows 100 --ack")
}

#[test]
fn no_store_is_left_where_there_was_none() {
    let place = Place::new();
    for files in bad_files(&place) {
        place.run(&ingest("t", files)).fails(1);
        assert!(!place.path("s").exists(), "{files}");
        std::fs::create_dir(place.path("s")).unwrap();
        place.run(&ingest("t", files)).fails(1);
        assert_eq!(std::fs::read_dir(place.path("s")).unwrap().count(), 0, "{files}");
        std::fs::remove_dir(place.path("s")).unwrap();
    }
}

#[test]
fn no_table_is_left_where_there_was_none() {
    let place = Place::new();
    let files = bad_files(&place);
    place.output(&ingest("other", "good.csv"));
    let before = place.contents("s");
    for files in files {
        place.run(&ingest("t", files)).fails(1);
        assert_eq!(place.contents("s"), before, "{files}");
    }
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn a_table_keeps_its_rows_and_no_more() {
    let place = Place::new();
    let files = bad_files(&place);
    place.write("own.csv", near_sorted_csv(2500));
    place.output(&ingest("t", "own.csv"));
    let before = place.contents("s");
    for files in files {
        let outcome = place.run(&ingest("t", files));
        assert!(
            files.contains("good") || outcome.stdout.contains("acknowledged 3000\n") || files.contains("cut")
        );
        outcome.fails(1);
        assert_eq!(place.contents("s"), before, "{files}");
    }
    assert!(place.output("verify s").starts_with("OK: "));
    // And it goes on from there.
    place.output(&ingest("t", "good.csv"));
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 2510);
}

#[test]
fn a_store_that_another_process_made_meanwhile_stays() {
    let place = Place::new();
    place.write("good.csv", near_sorted_csv(10));
    for (table, message) in [
        ("u", "standard input:20002: `soon` in column t is not a time"),
        (
            "t",
            "another process has created table t since this run began: run it again",
        ),
    ] {
        let mut waiting = place
            .command(&format!("ingest s {table} - --time t --time-unit s"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = waiting.stdin.take().unwrap();
        // More than a pipe holds, so that the run has looked for the store once all is written.
        let rows = near_sorted_csv(20_000);
        assert!(rows.len() > 3 << 16);
        input.write_all(rows.as_bytes()).unwrap();
        assert!(!place.path("s").exists());
        place.output(&ingest("t", "good.csv"));
        let before = place.contents("s");

        input.write_all(b"soon,1\n").unwrap();
        drop(input);
        let failed = Outcome::from(waiting.wait_with_output().unwrap()).fails(1);
        assert!(failed.starts_with(message), "{failed}");
        assert_eq!(place.contents("s"), before);
        assert!(place.output("verify s").starts_with("OK: "));
        std::fs::remove_dir_all(place.path("s")).unwrap();
    }
}
