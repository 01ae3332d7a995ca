//! Tables that `ingest` creates: which columns they get, and how that is said.

use crate::harness::Place;

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
    assert_eq!(message, "the name of column 1 is empty");
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
