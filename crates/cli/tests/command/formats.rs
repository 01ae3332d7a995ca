//! Files that are not CSV: JSON lines, and Arrow IPC. Rows that are too long, in any format.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
use parquet::arrow::ArrowWriter;

use crate::harness::{Place, flights, near_sorted_csv};

#[test]
fn json_lines_are_typed_by_their_values() {
    let place = Place::new();
    place.write(
        "a.ndjson",
        "\u{feff}{\"t\":\"2013-01-01T00:00:00.5Z\",\"n\":1,\"x\":0.5,\"ok\":true,\"zip\":\"00501\",\"day\":\"2013-01-01\"}\n\
         \n\
         {\"x\":2,\"t\":\"2013-01-02T00:00:00+01:00\",\"n\":null,\"zip\":\"\",\"big\":18446744073709551615}\r\n\
         {\"t\":\"2013-01-03T00:00:00Z\",\"n\":-3,\"zip\":\"a\\n\\\"\u{e9}\",\"more\":{\"a\":[1, 2]}}",
    );
    place.output("ingest s t a.ndjson --time t");
    let columns = &place.json("info s --json")["tables"][0]["columns"];
    let types: Vec<String> = columns
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            format!(
                "{}:{}",
                column["name"].as_str().unwrap(),
                column["type"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        types.join(" "),
        "t:timestamp(ms, UTC) n:int64 x:float64 ok:bool zip:utf8 day:date32 big:uint64 more:utf8"
    );
    assert_eq!(
        place.output("query s t --format csv --null NULL"),
        "t,n,x,ok,zip,day,big,more\n\
         2013-01-01T00:00:00.500Z,1,0.5,true,00501,2013-01-01,NULL,NULL\n\
         2013-01-01T23:00:00Z,NULL,2.0,NULL,,NULL,18446744073709551615,NULL\n\
         2013-01-03T00:00:00Z,-3,NULL,NULL,\"a\n\"\"\u{e9}\",NULL,NULL,\"{\"\"a\"\":[1, 2]}\"\n"
    );
}

#[test]
fn every_format_that_is_written_is_read_back() {
    let place = Place::new();
    let file = flights();
    let flights = file.to_str().unwrap();
    place
        .run_with(&[
            "ingest",
            "s",
            "t",
            flights,
            "--time",
            "departure",
            "--on-error",
            "skip",
            "--columns",
            "departure,carrier,dest,flight",
        ])
        .succeeds();
    let expected = place.output("query s t --format csv");
    assert!(expected.lines().count() > 300_000);
    for (format, file) in [
        ("json", "a.ndjson"),
        ("arrow", "a.arrow"),
        ("arrow-stream", "a.arrows"),
    ] {
        place.output(&format!("query s t --format {format} --output {file}"));
        place.output(&format!("ingest {format} t {file} --time departure"));
        assert!(
            place.output(&format!("query {format} t --format csv")) == expected,
            "{format}"
        );
        place.output(&format!(
            "ingest {format} small {file} --time departure --batch-rows 1000"
        ));
        assert!(
            place.output(&format!("query {format} small --format csv")) == expected,
            "{format}"
        );
    }
    // A format that is read from front to back can be piped.
    for file in ["a.ndjson", "a.arrows"] {
        let bytes = std::fs::read(place.path(file)).unwrap();
        place
            .run_fed(&format!("ingest piped {file} - --time departure"), &bytes)
            .succeeds();
        assert!(
            place.output(&format!("query piped {file} --format csv")) == expected,
            "{file}"
        );
    }
    let bytes = std::fs::read(place.path("a.arrow")).unwrap();
    let message = place
        .run_fed("ingest piped arrow - --time departure", &bytes)
        .fails(1);
    assert!(message.contains("an Arrow stream can"), "{message}");
    // An indexed table takes the file once more; its measure is that of the rows in order.
    let measured = place.json("sortedness a.arrows --column departure --json");
    assert_eq!(measured["k"], 0);
}

#[test]
fn a_text_of_json_is_no_number_in_later_rows_either() {
    let place = Place::new();
    let good = "{\"t\":1,\"v\":1,\"x\":0.5,\"b\":false}\n".repeat(65_536);
    for (value, expected) in [
        ("\"v\":\"7\"", "the text `7` in column v is not of type int64"),
        ("\"x\":\"7\"", "the text `7` in column x is not of type float64"),
        (
            "\"b\":\"true\"",
            "the text `true` in column b is not of type bool",
        ),
    ] {
        place.write("a.json", format!("{good}{{\"t\":2,{value}}}\n"));
        let message = place.run("ingest s t a.json --time t --time-unit s").fails(1);
        assert_eq!(
            message.split(';').next().unwrap(),
            format!("a.json:65537: {expected}")
        );
        let column = &value[1..2];
        place.output(&format!(
            "ingest {column} t a.json --time t --time-unit s --schema v:int64,x:float64,b:bool"
        ));
    }
}

#[test]
fn a_bad_line_of_json_is_named_with_line_and_column() {
    let place = Place::new();
    let good = "{\"t\":1,\"n\":1}\n";
    for (line, expected) in [
        (
            "{\"t\":2,\"n\":}",
            "a.json:3:12: not a JSON object on a line of its own: expected value",
        ),
        ("{\"t\":2", "a.json:3:"),
        (
            "{\"t\":2} 3",
            "a.json:3:9: not a JSON object on a line of its own: trailing characters",
        ),
        (
            "17",
            "a.json:3:2: not a JSON object on a line of its own: invalid type: integer `17`",
        ),
        ("[2]", "a.json:3: not a JSON object on a line of its own: "),
        ("{\"n\":2}", "a.json:3: no time in column t"),
        (
            "{\"t\":2,\"n\":\"x\"}",
            "a.json:3: `x` in column n is not of type int64",
        ),
        ("{\"t\":2,\"n\":\"\\ud800\"}", "a.json:3:"),
    ] {
        place.write("a.json", format!("{good}\n{line}\n{good}"));
        let ingest = "ingest s t a.json --time t --schema t:timestamp(s),n:int64";
        let message = place.run(ingest).fails(1);
        assert!(message.starts_with(expected), "{line}: {message}");
        assert!(!place.path("s").exists());
        let outcome = place.run(&format!("{ingest} --on-error skip"));
        assert!(
            outcome.stderr.starts_with("1 row skipped: "),
            "{}",
            outcome.stderr
        );
        outcome.succeeds();
        assert_eq!(place.output("query s t --format csv --columns n"), "n\n1\n1\n");
        std::fs::remove_dir_all(place.path("s")).unwrap();
    }
}

#[test]
fn columns_of_json_may_be_missing_and_must_not_appear_late() {
    let place = Place::new();
    place.write("a.json", "{\"t\":\"2013-01-01\",\"n\":1}\n");
    place.output("ingest s t a.json --time t");
    place.write("b.json", "{\"t\":\"2013-01-02\"}\n{\"t\":\"2013-01-03\"}\n");
    place.output("ingest s t b.json");
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 3);
    place.write("c.json", "{\"t\":\"2013-01-02\",\"m\":1}\n");
    let message = place.run("ingest s t c.json").fails(1);
    assert_eq!(
        message,
        "c.json:1: the table has no column m; leave it out with --columns, or add it to the table \
         with add-columns; --on-error skip leaves such rows out"
    );
    place.output("ingest s t c.json --columns t,n");

    let mut late = "{\"t\":1}\n".repeat(65_536);
    late += "{\"t\":2,\"m\":1}\n";
    place.write_gzip("late.json.gz", &late);
    let ingest = "ingest late t late.json.gz --time t --time-unit s";
    let message = place.run(ingest).fails(1);
    assert!(
        message.starts_with("late.json.gz:65537: column m is in no row before; name the columns"),
        "{message}"
    );
    place.output(&format!("{ingest} --columns t"));
    assert_eq!(place.json("info late --json")["tables"][0]["rows"], 65_537);
    let report = place.json("ingest skip t late.json.gz --time t --time-unit s --on-error skip --json");
    assert_eq!(
        report["skipped"]["by_reason"],
        serde_json::json!({ "unknown column": 1 })
    );
}

#[test]
fn names_of_json_that_are_not_asked_for_take_no_memory() {
    let place = Place::new();
    let lines = |names: u32| -> String {
        (0..65_536)
            .map(|n| format!("{{\"t\":{n},\"n\":{n},\"c{}\":1}}\n", n % names))
            .collect()
    };
    place.write("a.json", lines(4000));
    // A number for each name in each of the rows would be 2 GiB.
    let ingest = ["ingest", "s", "t", "a.json", "--time", "t", "--time-unit", "s"];
    let some = ["--columns", "n,t", "--json"];
    let run = |arguments: &[&str]| place.run_within(1_000_000, &[&ingest, arguments].concat());
    run(&some).succeeds();
    assert_eq!(place.json("info s --json")["tables"][0]["rows"], 65_536);
    let message = run(&["--columns", "t,m"]).fails(1);
    assert!(
        message.contains("no column is named m; there are t, n, c0, c1,"),
        "{message}"
    );

    place.write("a.json", lines(5000));
    std::fs::remove_dir_all(place.path("s")).unwrap();
    let message = run(&["--json"]).fails(1);
    assert!(
        message.starts_with("a.json:4094: over 4095 names so far"),
        "{message}"
    );
}

#[test]
fn arrow_that_is_cut_off_leaves_nothing() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(5000));
    place.output("ingest s t a.csv --time t --time-unit s");
    for (format, file) in [("arrow", "a.arrow"), ("arrow-stream", "a.arrows")] {
        place.output(&format!("query s t --format {format} --output {file}"));
        let bytes = std::fs::read(place.path(file)).unwrap();
        for end in [7, 100, bytes.len() / 2, bytes.len() - 100] {
            place.write(file, &bytes[..end]);
            let message = place.run(&format!("ingest n t {file} --time t")).fails(1);
            assert!(message.starts_with(&format!("{file}: ")), "{message}");
            assert!(!place.path("n").exists(), "{file} {end}");
        }
    }
}

#[test]
fn decimals_and_bytes_are_typed_by_hand_and_go_round() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,price,raw\n2013-01-01,12.50,ff00\n2013-01-02,,\n2013-01-03,-0.01,\n",
    );
    place
        .run_with(&[
            "ingest",
            "s",
            "t",
            "a.csv",
            "--time",
            "t",
            "--schema",
            "price:decimal(18,2),raw:binary",
        ])
        .succeeds();
    let rows = "t,price,raw\n2013-01-01,12.50,ff00\n2013-01-02,,\n2013-01-03,-0.01,\n";
    for format in ["csv", "parquet", "arrow"] {
        place.output(&format!("query s t --format {format} --output a-copy.{format}"));
        place.output(&format!(
            "ingest s {format} a-copy.{format} --time t{}",
            match format {
                "csv" => " --schema price:decimal(18,2),raw:binary",
                _ => "",
            }
        ));
        let copy = place.output(&format!("query s {format} --format csv"));
        assert_eq!(
            copy,
            rows.replace("-01,", "-01T00:00:00,")
                .replace("-02,", "-02T00:00:00,")
                .replace("-03,", "-03T00:00:00,")
        );
    }
    // A table's types are those of the next file.
    place.write(
        "b.csv",
        "t,price,raw\n2013-01-04,1.005,00\n2013-01-05,7,0\n2013-01-06,7,00\n2013-01-07,007,00\n2013-01-08,+7,\n",
    );
    let failed = place.run("ingest s t b.csv").fails(1);
    assert!(failed.contains("price"), "{failed}");
    place.output("ingest s t b.csv --on-error skip");
    let rows = place.output("query s t --format csv");
    assert_eq!(rows.lines().count(), 1 + 4, "{rows}");
    let sevens = ["query", "s", "t", "--where", "price = 7", "--format", "csv"];
    assert_eq!(
        place.run_with(&sevens).succeeds(),
        "t,price,raw\n2013-01-06T00:00:00,7.00,00\n"
    );
}

#[test]
fn a_row_with_too_many_bytes_is_a_bad_row() {
    let place = Place::new();
    let long = "x".repeat(2 << 20);
    place.write("a.csv", format!("t,v\n1,a\n,b\n3,{long}\n4,d\n5,{long}\n6,f\n"));
    let ingest = "ingest s t a.csv --time t --time-unit s --columns t,v";
    let message = place
        .run(&format!("{ingest} --schema v:utf8 --on-error fail"))
        .fails(1);
    assert!(message.starts_with("a.csv:3: no time in column t"), "{message}");
    place.write("b.csv", format!("t,v\n1,a\n3,{long}\n"));
    let message = place.run("ingest s t b.csv --time t --time-unit s").fails(1);
    let expected = "b.csv: row 2 of those from line 2: the row has more than the 1,048,576 bytes";
    assert!(message.starts_with(expected), "{message}");
    assert!(
        message.contains("--on-error skip leaves such rows out"),
        "{message}"
    );
    assert!(!place.path("s").exists());

    for run in ["--source-id a", "--source-id a", "--batch-rows 2"] {
        let skipped = place.run(&format!("{ingest} --on-error skip {run}"));
        assert_eq!(skipped.code, Some(0), "{}", skipped.stderr);
        assert!(skipped.stderr.contains("2 too long"), "{}", skipped.stderr);
    }
    let times = place.output("query s t --columns v --format csv");
    assert_eq!(times, "v\na\na\nd\nd\nf\nf\n");

    // Files in columns name the row itself, whether or not others before it were left out.
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(7), None, Some(8)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["g", "h", &long]));
    let batch = RecordBatch::try_from_iter([("t", times), ("v", texts)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    place.write("c.parquet", writer.into_inner().unwrap());
    let skipped = place.run("ingest s t c.parquet --on-error skip");
    let expected = "c.parquet: row 3: the row has more than the 1,048,576 bytes";
    assert!(skipped.stderr.contains(expected), "{}", skipped.stderr);
    assert_eq!(place.json("info s t --json")["tables"][0]["rows"], 7);
}
