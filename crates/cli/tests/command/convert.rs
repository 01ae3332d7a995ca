//! `convert` with other columns.

use crate::harness::Place;

const ROWS: &str = "at,sensor,value\n2026-01-01,a,1.5\n2026-01-02,b,\n2026-01-01,b,3\n";

fn loaded(options: &str) -> Place {
    let place = Place::new();
    place.write("rows.csv", ROWS);
    place
        .run(&format!("ingest s t rows.csv --time at {options}"))
        .succeeds();
    place
}

#[test]
fn a_column_is_added_and_another_removed() {
    let place = loaded("");
    place
        .run("convert s t u --add state:utf8,count:int64 --remove value")
        .succeeds();
    assert_eq!(
        place.output("query s u --format csv"),
        "at,sensor,state,count\n2026-01-01T00:00:00,a,,\n2026-01-01T00:00:00,b,,\n2026-01-02T00:00:00,b,,\n"
    );
    assert_eq!(
        place.output("query s t --columns value --format csv"),
        "value\n1.5\n3.0\n\"\"\n",
        "the table is as it was"
    );
    // The new table takes the place of the old one, and rows with the new columns.
    place.run("drop s t").succeeds();
    place.run("rename s u t").succeeds();
    place.write("more.csv", "at,sensor,state,count\n2026-01-03,a,on,7\n");
    place.run("ingest s t more.csv").succeeds();
    assert_eq!(
        place.output("query s t --from 2026-01-03 --format csv"),
        "at,sensor,state,count\n2026-01-03T00:00:00,a,on,7\n"
    );
}

#[test]
fn keys_and_grids_are_kept() {
    let place = loaded("--key sensor");
    place.run("convert s t u --add state:utf8").succeeds();
    place.write("more.csv", "at,sensor,value,state\n2026-01-02,b,9,on\n");
    place.run("ingest s u more.csv").succeeds();
    assert_eq!(
        place.output("query s u --from 2026-01-02 --format csv"),
        "at,sensor,value,state\n2026-01-02T00:00:00,b,9.0,on\n",
        "it replaces the row of its key"
    );

    let place = loaded("--interval 1d");
    place.run("convert s t u --remove sensor").succeeds();
    assert_eq!(
        place.output("query s u --format csv"),
        "at,value\n2026-01-01T00:00:00,3.0\n2026-01-02T00:00:00,\n"
    );
    assert_eq!(
        place.json("info s u --json")["tables"][0]["layout"],
        place.json("info s t --json")["tables"][0]["layout"]
    );
}

#[test]
fn types_are_changed_without_loss() {
    let place = loaded("--key sensor");
    place.write("fine.csv", "at,sensor,value\n2026-01-03 00:00:00.25,a,7\n");
    place.run("ingest s t fine.csv").fails(1);
    place
        .run_with(&[
            "convert",
            "s",
            "t",
            "u",
            "--type",
            "at:timestamp(ms, Europe/Vienna),value:decimal(9, 2)",
        ])
        .succeeds();
    place.write(
        "fine.csv",
        "at,sensor,value\n2026-01-03T00:00:00.25+01:00,a,7.25\n",
    );
    place.run("ingest s u fine.csv").succeeds();
    assert_eq!(
        place.output("query s u --format csv"),
        "at,sensor,value\n\
         2026-01-01T00:00:00+01:00,a,1.50\n\
         2026-01-01T00:00:00+01:00,b,3.00\n\
         2026-01-02T00:00:00+01:00,b,\n\
         2026-01-03T00:00:00.250+01:00,a,7.25\n"
    );

    let place = loaded("--interval 1d");
    let arguments = ["convert", "s", "t", "u", "--type=at:timestamp(ms)"];
    let message = place.run_with(&arguments).fails(2);
    assert!(message.contains("give its --interval"), "{message}");
    let with_interval = [&arguments[..], &["--interval", "1d"]].concat();
    place.run_with(&with_interval).succeeds();
    assert_eq!(
        place.output("query s u --columns at --format csv"),
        "at\n2026-01-01T00:00:00\n2026-01-02T00:00:00\n"
    );
}

#[test]
fn numbers_become_text_and_text_numbers() {
    let place = Place::new();
    place.write(
        "a.csv",
        "at,i,f,d,text\n1,7,0.1,1.50,12\n2,-3,1e300,-2.00,\n3,,NaN,,0.5\n4,,,,\"\"\n5,0,-0,0.00,1e2\n",
    );
    let types = "--schema=at:timestamp(s),i:int64,f:float64,d:decimal(9, 2),text:utf8";
    let ingest = ["ingest", "s", "t", "a.csv", "--time=at", "--null=-", types];
    place.run_with(&ingest).succeeds();
    let rows = |table: &str| place.output(&format!("query s {table} --format csv"));
    let types = |table: &str| place.json(&format!("info s {table} --json"))["tables"][0]["columns"].clone();
    place.output("convert s t texts --type i:utf8,f:utf8,d:utf8");
    assert_eq!(rows("texts").replace("\"\"", ""), rows("t"));
    let text = |column: usize| types("texts")[column]["type"].clone();
    assert_eq!([text(1), text(2), text(3)], ["utf8", "utf8", "utf8"]);
    let back = [
        "convert",
        "s",
        "texts",
        "again",
        "--type=i:int64,f:float64,d:decimal(9, 2)",
    ];
    place.run_with(&back).succeeds();
    assert_eq!((rows("again"), types("again")), (rows("t"), types("t")));
    // An empty text is null.
    place.output("convert s t numbers --type text:float64");
    let numbers = place.json("query s numbers --where text=100 --count --json");
    assert_eq!(numbers["rows"], 1);
    let nulls = ["query", "s", "numbers", "--where", "text is null", "--count"];
    assert_eq!(place.run_with(&nulls).succeeds(), "2\n");
    let message = place.run("convert s t never --type text:int8").fails(1);
    assert_eq!(message, "--type text: `0.5`, at 1970-01-01T00:00:03, is no int8");
}

#[test]
fn numbers_that_would_lose_digits_stay_text() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,long,small,single,zip,plus\n1,1,1,1,1,1\n2,9007199254740993,1e-400,16777217,007,+1\n",
    );
    let types = "t:timestamp(s),long:utf8,small:utf8,single:utf8,zip:utf8,plus:utf8";
    place.output(&format!("ingest s t a.csv --time t --schema {types}"));
    for (column, value, to) in [
        ("long", "9007199254740993", "float64"),
        ("small", "1e-400", "float64"),
        ("single", "16777217", "float32"),
        ("zip", "007", "int64"),
        ("plus", "+1", "decimal128(9, 0)"),
    ] {
        let message = place
            .run_with(&["convert", "s", "t", "u", &format!("--type={column}:{to}")])
            .fails(1);
        let expected =
            format!("--type {column}: `{value}`, at 1970-01-01T00:00:02, would lose digits as {to}");
        assert_eq!(message, expected);
    }
    place.output("convert s t u --type long:int64,single:float64");
    assert_eq!(
        place.output("query s u --columns long,single --from 1970-01-01T00:00:02 --format csv"),
        "long,single\n9007199254740993,16777217.0\n"
    );
}

#[test]
fn rows_whose_keys_differ_are_not_merged() {
    let place = Place::new();
    place.write("a.csv", "t,k,n,f\n1,01,1,0.5\n1,1,2,NaN\n");
    let ingest = "ingest s t a.csv --time t --schema t:timestamp(s),k:utf8,n:int64,f:float64 --key k,n,f";
    place.output(ingest);
    for (column, from, to) in [
        ("k", "utf8", "int64"),
        ("k", "utf8", "float64"),
        ("f", "float64", "utf8"),
    ] {
        let message = place.run(&format!("convert s t u --type {column}:{to}")).fails(1);
        let expected = format!(
            "--type {column}: the column is of the key, and values that differ as {from} may be one as {to}: rows \
             would replace others"
        );
        assert_eq!(message, expected);
    }
    place.output("convert s t u --type n:utf8");
    assert_eq!(
        place.output("query s u --format csv"),
        "t,k,n,f\n1970-01-01T00:00:01,01,1,0.5\n1970-01-01T00:00:01,1,2,NaN\n"
    );
}

#[test]
fn columns_that_cannot_be_changed_are_named() {
    let place = loaded("--key sensor");
    for (options, status, message) in [
        (
            "",
            2,
            "convert needs --layout, --interval, --type, --add or --remove",
        ),
        ("--add value:int64", 1, "--add value: table t has this column"),
        ("--add x", 2, "--add: `x` is not of the form name:type"),
        ("--add x:list", 2, "`list` is not a column type"),
        ("--remove x", 1, "--remove x: table t has no such column"),
        ("--remove at", 1, "--remove at: the table is ordered by it"),
        ("--type x:int64", 1, "--type x: table t has no such column"),
        (
            "--type value:int64 --remove value",
            1,
            "--type value: table t has no such column, or it is removed",
        ),
        (
            "--type sensor:bool",
            1,
            "--type sensor: values of type utf8 have no meaning as bool",
        ),
        (
            "--type at:int64",
            1,
            "--type at: values of type timestamp(s) have no meaning as int64",
        ),
        (
            "--type value:int64",
            1,
            "--type value: 1.5, at 2026-01-01T00:00:00, is no int64",
        ),
        (
            "--remove value,sensor",
            1,
            "--remove sensor: the table is ordered by it, or it is of the key",
        ),
    ] {
        let refused = place.run(&format!("convert s t u {options}"));
        assert_eq!(refused.code, Some(status), "{options}: {}", refused.stderr);
        assert!(refused.stderr.contains(message), "{options}: {}", refused.stderr);
    }
    let tables = place.output("tables s");
    assert!(
        !tables.contains("unfinished") && !tables.contains(" u "),
        "{tables}"
    );
}
