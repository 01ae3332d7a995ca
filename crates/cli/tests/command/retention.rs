//! For how long a table keeps its rows.

use crate::harness::Place;

/// A row each day for 40 days.
fn with_store() -> Place {
    let place = Place::new();
    let day = |n: i64| format!("{},{n}\n", 1_700_000_000 + n * 86_400);
    place.write(
        "a.csv",
        "t,n\n".to_owned() + &(0..40).map(day).collect::<String>(),
    );
    place.output("ingest s t a.csv --time t --time-unit s");
    place
}

#[test]
fn older_rows_are_deleted_now_and_by_later_writes() {
    let place = with_store();
    assert_eq!(place.output("retention s t"), "table t keeps its rows for ever\n");
    assert!(!place.output("info s").contains("kept"));
    assert_eq!(
        place.output("retention s t 30d --dry-run"),
        "too old in table t: 9 rows; nothing was changed: --dry-run\n"
    );
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 40);
    assert_eq!(
        place.output("retention s t 30d"),
        "table t keeps its rows for 30d; deleted 9 rows\n"
    );
    assert_eq!(place.output("retention s t"), "table t keeps its rows for 30d\n");
    assert!(place.output("info s t").contains("\nkept     for 30d\n"));
    let info = place.json("info s --json");
    assert_eq!(info["tables"][0]["retention_ticks"], 30 * 86_400);
    let first = place.output("query s t --columns n --limit 1 --format csv");
    assert_eq!(first, "n\n9\n");

    // A newer row makes ten more too old.
    place.write("b.csv", format!("t,n\n{},49\n", 1_700_000_000 + 49 * 86_400));
    place.output("ingest s t b.csv");
    let first = place.output("query s t --columns n --limit 1 --format csv");
    assert_eq!(first, "n\n19\n");
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn the_order_of_a_run_includes_its_rows_that_expire() {
    for source in ["", "--source-id x"] {
        let place = with_store();
        place.output("retention s t 30d");
        let day = |n: i64| format!("{},{n}\n", 1_700_000_000 + n * 86_400);
        place.write(
            "b.csv",
            "t,n\n".to_owned() + &(40..80).map(day).collect::<String>(),
        );
        let report = place.json(&format!("ingest s t b.csv --order --json {source}"));
        let order = (&report["rows"], &report["k"], &report["l"]);
        assert_eq!(order, (&40.into(), &0.into(), &0.into()), "{source} {report}");
        let first = place.output("query s t --columns n --limit 1 --format csv");
        assert_eq!(first, "n\n49\n", "{source}");
        assert!(place.output("verify s").starts_with("OK: "));
    }
}

#[test]
fn a_table_of_another_layout_or_name_keeps_its_rows_as_long() {
    let place = with_store();
    place.output("retention s t 30d");
    place.output("convert s t sparse --interval 1s");
    place.output("convert s sparse indexed --layout indexed");
    place.output("rename s indexed u");
    for table in ["t", "sparse", "u"] {
        assert_eq!(
            place.output(&format!("retention s {table}")),
            format!("table {table} keeps its rows for 30d\n")
        );
    }
}

#[test]
fn rows_that_a_copy_lets_expire_are_reported() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2026-01-01,1\n2026-01-02,2\n2026-01-31,3\n");
    place.output("ingest s t a.csv --time t --interval 12h");
    place.output("retention s t 30d");
    // Rows of a sparse table expire by files.
    place.write("b.csv", "t,n\n2026-03-01T12:00:00,4\n");
    place.output("ingest s t b.csv");
    assert_eq!(
        place.output("convert s t u --layout indexed"),
        "2 rows copied to table u, which is indexed\n\
         2 rows skipped: too old for the retention of table t\n"
    );
    assert_eq!(place.output("query s u --columns n --format csv"), "n\n3\n4\n");
    assert_eq!(
        place.json("convert s t v --layout indexed --json"),
        serde_json::json!({ "rows": 4, "kept": 2, "expired": 2 })
    );
}

#[test]
fn a_retention_can_be_lifted() {
    let place = with_store();
    let done = place.json("retention s t 52w --json");
    assert_eq!((&done["rows"], &done["changed"]), (&0.into(), &true.into()));
    let done = place.json("retention s t 1d --json --dry-run");
    assert_eq!((&done["rows"], &done["changed"]), (&38.into(), &false.into()));
    assert_eq!(
        place.output("retention s t off"),
        "table t keeps its rows for ever; deleted 0 rows\n"
    );
    let setting = place.json("retention s t --json");
    assert_eq!(setting["retention_ticks"], serde_json::Value::Null);
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 40);
}

#[test]
fn a_duration_that_is_none_is_wrong_usage() {
    let place = with_store();
    for keep in ["0d", "30", "never", "1.5h"] {
        let message = place.run(&format!("retention s t {keep}")).fails(2);
        assert!(message.contains("or `off`"), "{message}");
    }
    place.run("retention s none 30d").fails(1);
    place.run("retention s t --dry-run").fails(2);
    place.run("retention none t 30d").fails(6);
    assert_eq!(place.output("retention s t"), "table t keeps its rows for ever\n");
}

#[test]
fn a_run_that_is_undone_lets_no_rows_expire() {
    let sparse = "--layout sparse --interval 1d";
    for layout in ["", sparse] {
        let place = Place::new();
        let day = |n: i64| format!("{},{n}\n", 1_700_006_400 + n * 86_400);
        place.write(
            "a.csv",
            "t,n\n".to_owned() + &(0..40).map(day).collect::<String>(),
        );
        place.output(&format!("ingest s t a.csv --time t --time-unit s {layout}"));
        place.output("retention s t 60d");
        place.write("typo.csv", format!("t,n\n{}", day(10_000)));
        place.run("ingest s t typo.csv missing.csv").fails(1);
        place.write("b.csv", format!("t,n\n{}", day(40)));
        place.output("ingest s t b.csv");
        assert_eq!(place.json("info s --json")["tables"][0]["rows"], 41, "{layout}");
        assert!(place.output("verify s").starts_with("OK: "));
    }
}
