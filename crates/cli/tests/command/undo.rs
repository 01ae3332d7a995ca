//! A run that fails leaves the store as it was, however many batches it had made durable.

use crate::harness::{Place, near_sorted_csv};

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
    assert!(place.output("verify s").starts_with("whole"));
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
    assert!(place.output("verify s").starts_with("whole"));
    // And it goes on from there.
    place.output(&ingest("t", "good.csv"));
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 2510);
}
