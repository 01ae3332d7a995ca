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
