//! `query --count`: how many rows there are.

use crate::harness::{Place, near_sorted_csv};

#[test]
fn a_count_is_the_number_of_rows_that_would_be_printed() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(5000));
    place.output("ingest s indexed a.csv --time t --time-unit s");
    place.output("ingest s sparse a.csv --time t --interval 1s --time-unit s");
    place.output("delete s indexed --from @1000100 --to @1000200");
    for table in ["indexed", "sparse"] {
        for arguments in [
            &[][..],
            &["--from", "@1001000"],
            &["--to", "@1001000"],
            &["--from", "@1000150", "--to", "@1000250"],
            &["--from", "@5", "--to", "@6"],
            &["--last", "100s"],
            &["--limit", "7"],
            &["--limit", "7000"],
            &["--where", "n < 300", "--where", "n != 17"],
            &["--where", "n is null"],
            &["--where", "n >= 300", "--limit", "9", "--last", "1h"],
        ] {
            let query = [&["query", "s", table], arguments].concat();
            let with = |more: &[&str]| place.run_with(&[&query, more].concat()).succeeds();
            let rows = with(&["--format", "csv"]).lines().count() - 1;
            assert_eq!(with(&["--count"]), format!("{rows}\n"), "{query:?}");
            let json: serde_json::Value = serde_json::from_str(&with(&["--count", "--json"])).unwrap();
            assert_eq!(json, serde_json::json!({ "rows": rows }), "{query:?}");
        }
    }
    place.output("query s indexed --limit 0 --format csv --output none.csv");
    place.output("ingest s empty none.csv --time t --schema t:timestamp(s),n:int64");
    assert_eq!(place.output("query s empty --count"), "0\n");
}

#[test]
fn a_count_has_no_columns_order_or_file() {
    let place = Place::new();
    for refused in [
        "--columns t",
        "--reverse",
        "--format csv",
        "--null x",
        "--output file",
        "--output files --partition day",
    ] {
        let message = place.run(&format!("query s t --count {refused}")).fails(2);
        assert!(message.contains("'--count' cannot be used with"), "{message}");
    }
    let message = place.run("query s t --json").fails(2);
    assert!(message.contains("--count"), "{message}");
}
