//! Tables that `ingest` creates: which columns they get, and how that is said.

use crate::harness::Place;

#[test]
fn a_sample_without_a_sound_row_needs_types() {
    let place = Place::new();
    let bad = |row: &str| [row; 70_000].concat();
    let advice = "the first rows do not tell the type of the column: give it with --schema 't:timestamp(…)'";
    for (file, rows, sound, detail) in [
        (
            "text.csv",
            bad("soon,1\n"),
            "2026-03-01,2\n",
            "`soon` in column t is not a time",
        ),
        ("none.csv", bad(",1\n"), "2026-03-01,2\n", "no time in column t"),
        (
            "width.csv",
            bad("1\n"),
            "2026-03-01,2\n",
            "1 fields, where the header has 2",
        ),
    ] {
        place.write(file, format!("t,n\n{rows}{sound}"));
        let ingest = format!("ingest s {file} {file} --time t --on-error skip --json");
        assert_eq!(
            place.run(&ingest).fails(1),
            format!("{file}:2: {detail}; {advice}")
        );
        assert!(!place.path("s").exists());
        let report = place.json(&format!("{ingest} --schema t:timestamp(s)"));
        assert_eq!(
            (&report["rows"], &report["skipped"]["rows"]),
            (&1.into(), &70_000.into())
        );
        std::fs::remove_dir_all(place.path("s")).unwrap();
    }
    place.write(
        "a.json",
        format!("{}{{\"t\":\"2026-03-01\"}}\n", bad("{\"t\":x}\n")),
    );
    let ingest = "ingest s t a.json --time t --on-error skip";
    let message = place.run(ingest).fails(1);
    let advice = "; the first lines name no column: give --columns, and the types with --schema";
    assert!(
        message.starts_with("a.json:1:") && message.ends_with(advice),
        "{message}"
    );
    place.output(&format!("{ingest} --columns t --schema t:timestamp(s)"));
}

#[test]
fn an_unknown_zone_is_named() {
    let place = Place::new();
    place.write("a.csv", "t\n2026-03-01\n");
    let message = place
        .run_with(&[
            "ingest",
            "s",
            "t",
            "a.csv",
            "--time=t",
            "--schema=t:timestamp(s, Mars)",
        ])
        .fails(2);
    assert!(message.contains("there is no time zone \"Mars\""), "{message}");
}

#[test]
fn a_column_without_a_name_is_named_by_its_place() {
    let place = Place::new();
    // As pandas writes a frame whose index has no name.
    place.write("frame.csv", ",x,\" \"\n2026-03-01 00:00:00,1.5,\n");
    let report = place.output("ingest s t frame.csv --time column1");
    assert!(
        report.contains("columns column1:timestamp(s),x:float64,column3:utf8"),
        "{report}"
    );
    place.output("ingest s t frame.csv");
    place.write("twice.csv", ",column1\n2026-03-01 00:00:00,1\n");
    let message = place.run("ingest s u twice.csv --time column1").fails(1);
    assert_eq!(message, "twice.csv: two columns are named column1");
    place.write("a.json", "{\"at\":\"2026-03-01\",\"\":1}\n");
    let message = place.run("ingest s u a.json --time at").fails(1);
    assert_eq!(message, "the name of column 2 is empty");
    place.output("ingest s u a.json --time at --columns at");
}

#[test]
fn the_report_names_the_columns_of_a_new_table_once() {
    let place = Place::new();
    place.write(
        "a.csv",
        "at,\"dest, city\",delay\n2013-02-08T17:30:00.25Z,LAX,12\n2013-02-08 18:00:00+01,,\n",
    );
    let report = place.output("ingest s t a.csv --time at");
    let columns = "at:timestamp(ms, UTC),\"dest, city\":utf8,delay:int64";
    assert_eq!(report, format!("          2 rows\n    columns {columns}\n"));
    assert_eq!(place.output("ingest s t a.csv"), "          2 rows\n");

    // They can be given to a table of their own.
    let ingest = [
        "ingest", "s", "u", "a.csv", "--time", "at", "--json", "--schema", columns,
    ];
    let report: serde_json::Value = serde_json::from_str(&place.run_with(&ingest).succeeds()).unwrap();
    let info = place.json("info s --json");
    let tables = info["tables"].as_array().unwrap();
    assert_eq!(report["columns"], tables[0]["columns"]);
    assert_eq!(report["columns"], tables[1]["columns"]);
    assert_eq!(report["columns"][2]["type"], "int64");
    assert_eq!(
        place.json("ingest s u a.csv --json")["columns"],
        serde_json::Value::Null
    );
}
