//! `ingest` of rows that come one at a time, and of none.

use crate::harness::Place;
use crate::running::Running;

#[test]
fn rows_of_json_for_known_columns_are_taken_as_they_come() {
    let place = Place::new();
    let new = "--time t --columns t,n --schema t:timestamp(s),n:int64";
    for (arguments, names) in [
        (new, "t,n"),
        ("", "t,n,x"),
        ("--columns n,t --allow-missing", "t,n,x"),
    ] {
        let mut feed = Running::ingest(&place, &format!("--batch-rows 1 {arguments}"));
        for rows in 1..4 {
            feed.feed(&format!("{{\"t\":{rows},\"n\":{rows}}}\n"), rows);
        }
        feed.end().succeeds();
        let rows = place.output("query store t --format csv --limit 1");
        assert!(rows.starts_with(names), "{rows}");
        if arguments == new {
            place.output("add-columns store t x:utf8");
        }
    }
    assert_eq!(place.json("info store --json")["tables"][0]["rows"], 9);
}

#[test]
fn a_name_that_the_table_lacks_makes_a_bad_row() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2026-01-01,1\n");
    place.output("ingest s t a.csv --time t");
    let rows = [2, 3, 4].map(|day| format!("{{\"t\":\"2026-01-0{day}\",\"n\":{day}}}\n"));
    place.write("b.json", rows.concat().replace("\"n\":3", "\"m\":3"));
    let before = place.contents("s");
    assert_eq!(
        place.run("ingest s t b.json").fails(1),
        "b.json:2: the table has no column m; leave it out with --columns, or add it to the table \
         with add-columns; --on-error skip leaves such rows out"
    );
    assert_eq!(place.contents("s"), before);
    let report = place.json("ingest s t b.json --on-error skip --json");
    let (skipped, reason) = (&report["skipped"], serde_json::json!({ "unknown column": 1 }));
    assert_eq!((&report["rows"], &skipped["by_reason"]), (&2.into(), &reason));
    assert_eq!(place.output("query s t --columns n --format csv"), "n\n1\n2\n4\n");
}

#[test]
fn input_without_bytes_is_no_rows_of_a_table_that_exists() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2026-01-01,1\n");
    place.write("empty", "");
    place.write("blank.csv", "\u{feff}\r\n\n");
    place.write_gzip("empty.csv.gz", "");
    for empty in ["empty", "blank.csv", "empty.csv.gz", "/dev/null"] {
        let message = place
            .run(&format!("ingest new t {empty} a.csv --time t"))
            .fails(1);
        assert_eq!(
            message,
            format!("{empty}: is empty: CSV names its columns in the first line, JSON in its objects")
        );
        assert!(!place.path("new").exists());
    }
    place.output("ingest s t a.csv --time t");
    for (round, arguments) in ["", "--columns n,t", "--header t,n", "--source-id x", "--order"]
        .into_iter()
        .enumerate()
    {
        let ended = place.run(&format!(
            "ingest s t - empty blank.csv a.csv empty.csv.gz /dev/null --json --on-error skip {arguments}"
        ));
        let notes: String = [
            "standard input",
            "empty",
            "blank.csv",
            "empty.csv.gz",
            "/dev/null",
        ]
        .map(|name| format!("bedload: warning: {name}: is empty\n"))
        .concat();
        assert_eq!(ended.stderr, notes, "{arguments}");
        let report: serde_json::Value = serde_json::from_str(&ended.succeeds()).unwrap();
        assert_eq!(report["rows"], 1, "{arguments}");
        assert_eq!(report["table_rows"], round + 2, "{arguments}");
    }
    // A table that the run itself creates exists, too.
    place.output("ingest new t a.csv empty --time t");
}

#[test]
fn files_of_formats_that_are_never_empty_are_errors_if_they_are() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2026-01-01,1\n");
    place.output("ingest s t a.csv --time t");
    let before = place.contents("s");
    for file in ["a.parquet", "a.ARROW", "a.feather", "a.csv.gz"] {
        place.write(file, "");
        let message = place.run(&format!("ingest s t a.csv {file}")).fails(1);
        assert_eq!(
            message,
            format!("{file}: is empty, which a file of this format never is")
        );
        assert_eq!(place.contents("s"), before);
    }
}
