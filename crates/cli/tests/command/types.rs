//! Files whose columns have other types than those of their table, and times without a zone.

use crate::harness::Place;

const ROWS: &str = "at,n,x,s\n2026-03-01T00:00:00Z,1,0.5,a\n2026-03-01T00:00:01Z,,,\n";

/// A file of these rows whose columns have these types, and a table `t` of the store `s` with the
/// types that are inferred.
fn with_file(rows: &str, types: &str, file: &str) -> Place {
    let place = Place::new();
    place.write("a.csv", ROWS);
    place.run("ingest s t a.csv --time at").succeeds();
    place.write("b.csv", rows);
    let types = format!("--schema={types}");
    place
        .run_with(&["ingest", "other", "t", "b.csv", "--time", "at", &types])
        .succeeds();
    place.run(&format!("query other t --output {file}")).succeeds();
    place
}

#[test]
fn columns_of_other_types_are_taken_if_no_value_changes() {
    for (types, file) in [
        ("at:timestamp(ns, UTC),n:int16,x:float32", "b.parquet"),
        (
            "at:timestamp(us, Europe/Vienna),n:float64,x:decimal(9, 2)",
            "b.arrow",
        ),
        ("at:timestamp(ms, +02:00),n:uint8,x:float16", "b.arrows"),
    ] {
        let place = with_file(ROWS, types, file);
        place.run(&format!("ingest s t {file}")).succeeds();
        assert_eq!(
            place.output("query s t --format csv"),
            "at,n,x,s\n\
             2026-03-01T00:00:00Z,1,0.5,a\n\
             2026-03-01T00:00:00Z,1,0.5,a\n\
             2026-03-01T00:00:01Z,,,\n\
             2026-03-01T00:00:01Z,,,\n",
            "{types}"
        );
        // A new table takes the types that the user names, too.
        place
            .run_with(&["ingest", "s", "u", file, "--time=at", "--schema=n:int32"])
            .succeeds();
        let columns = &place.json("info s --json")["tables"][1]["columns"];
        assert_eq!(columns[1]["type"], "int32", "{columns}");
    }
}

#[test]
fn values_that_would_change_are_named_by_their_row() {
    let fine = "at,n,x,s\n2026-03-01T00:00:00Z,1,1,a\n2026-03-01T00:00:01.250Z,2,1,b\n";
    let parts = "at,n,x,s\n2026-03-01T00:00:00Z,1,1,a\n2026-03-01T00:00:01Z,2.5,1,b\n";
    for (rows, types, message) in [
        (
            fine,
            "at:timestamp(ms, UTC),n:int64,x:float64",
            "row 2: 2026-03-01T00:00:01.250Z in column at is no timestamp(s, UTC): it would be rounded",
        ),
        (
            parts,
            "at:timestamp(s, UTC),n:float64,x:float64",
            "row 2: 2.5 in column n is no int64",
        ),
        (
            fine,
            "at:timestamp(ms, UTC),n:utf8,x:float64",
            "column n is of type utf8, not int64",
        ),
    ] {
        let place = with_file(rows, types, "b.parquet");
        let failure = place.run("ingest s t b.parquet").fails(1);
        assert!(failure.contains(message), "{failure}");
        assert_eq!(place.output("query s t --columns n --format csv"), "n\n1\n\"\"\n");
    }
}

#[test]
fn times_without_a_zone_are_read_on_a_clock() {
    let place = Place::new();
    // Clocks in Vienna skip the hour after two on this day.
    place.write("a.csv", "at,n\n2026-03-29 01:30:00,1\n2026-03-29 03:30:00,2\n");
    place.write("b.csv", "at,n\n2026-03-29 02:30:00,3\n");
    place.write("c.json", "{\"at\":\"2026-03-29T03:30:00\",\"n\":4}\n");
    let clock = "--time-zone Europe/Vienna";
    place
        .run(&format!("ingest s t a.csv --time at {clock}"))
        .succeeds();
    let failure = place.run(&format!("ingest s t b.csv {clock}")).fails(1);
    assert!(
        failure.contains("`2026-03-29 02:30:00` does not exist in Europe/Vienna"),
        "{failure}"
    );
    let failure = place.run("ingest s t c.json").fails(1);
    assert!(failure.contains("with --time-zone"), "{failure}");
    place.run(&format!("ingest s t c.json {clock}")).succeeds();
    // The same rows in a Parquet file, without their zone.
    place.run("ingest plain t a.csv --time at").succeeds();
    place.run("query plain t --output a.parquet").succeeds();
    let failure = place.run("ingest s t a.parquet").fails(1);
    assert!(failure.contains("with --time-zone"), "{failure}");
    place.run(&format!("ingest s t a.parquet {clock}")).succeeds();
    let rows = "2026-03-29T01:30:00+01:00,1\n2026-03-29T01:30:00+01:00,1\n\
                2026-03-29T03:30:00+02:00,2\n2026-03-29T03:30:00+02:00,4\n2026-03-29T03:30:00+02:00,2\n";
    assert_eq!(place.output("query s t --format csv"), format!("at,n\n{rows}"));
    // A new table of such a file, and one whose times have no zone.
    place
        .run(&format!("ingest s new a.parquet --time at {clock}"))
        .succeeds();
    let first = "at,n\n2026-03-29T01:30:00+01:00,1\n";
    assert_eq!(place.output("query s new --limit 1 --format csv"), first);
    place.run(&format!("ingest plain t a.csv {clock}")).succeeds();
    let first = "at,n\n2026-03-29T01:30:00,1\n";
    assert_eq!(place.output("query plain t --limit 1 --format csv"), first);
    let failure = place.run("ingest s t a.csv --time-zone Europe/Vien").fails(2);
    assert!(failure.contains("Europe/Vien"), "{failure}");
}

#[test]
fn floats_without_a_fraction_are_taken_as_integers() {
    let place = Place::new();
    place.write("a.csv", ROWS);
    place.run("ingest s t a.csv --time at --columns at,n").succeeds();
    place.write("b.csv", "at,n\n2026-03-01T00:00:02Z,2.0\n2026-03-01T00:00:03Z,\n");
    place.run("ingest s t b.csv").succeeds();
    place.write("b.json", "{\"at\":\"2026-03-01T00:00:04Z\",\"n\":4e0}\n");
    place.run("ingest s t b.json").succeeds();
    assert_eq!(
        place.output("query s t --columns n --format csv"),
        "n\n1\n\"\"\n2\n\"\"\n4\n"
    );
    place.write("c.csv", "at,n\n2026-03-01T00:00:05Z,1.5\n");
    let failure = place.run("ingest s t c.csv").fails(1);
    assert!(
        failure.starts_with("c.csv:2: `1.5` in column n is not of type int64"),
        "{failure}"
    );
}
