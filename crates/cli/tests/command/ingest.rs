//! Loading files: what is read, what is left out, and what is said about it.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Place, near_sorted_csv};

#[test]
fn integers_for_a_table_that_exists_count_in_its_unit() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1000,1\n2000,2\n");
    for (table, unit) in [
        ("seconds", "timestamp(s)"),
        ("zoned", "timestamp(ms, America/New_York)"),
    ] {
        let schema = format!("--schema=t:{unit}");
        place
            .run_with(&["ingest", "s", table, "a.csv", "--time", "t", &schema])
            .succeeds();
        place.output(&format!("ingest s {table} a.csv"));
        let rows = place.output(&format!("query s {table} --columns t,n --format csv"));
        let rows: Vec<&str> = rows.lines().skip(1).collect();
        assert_eq!((rows.len(), rows[0], rows[2]), (4, rows[1], rows[3]), "{rows:?}");
        // The same through Parquet, where the time column is one of integers.
        place.output(&format!("ingest t_{table} t a.csv --time n --time-unit s"));
        place.output(&format!(
            "query t_{table} t --columns t,n --format parquet --output {table}.parquet"
        ));
        let file = format!("{table}.parquet");
        let message = place.run(&format!("ingest s {table} {file}")).fails(1);
        assert!(
            message.contains("column n is of type timestamp(s), not int64"),
            "{message}"
        );
    }
}

#[test]
fn a_number_with_an_exponent_is_no_time() {
    let place = Place::new();
    place.write("a.json", "{\"t\":1.7e9,\"n\":1}\n");
    place.write("a.csv", "t,n\n1.7E+09,1\n");
    place.write("b.json", "{\"t\":1700000000,\"n\":1}\n{\"t\":1.7e9,\"n\":2}\n");
    let advice = "write a number of units since 1970 with all its digits, as 1700000000, and no exponent";
    for (file, shown) in [
        ("a.json:1", "1.7e9"),
        ("a.csv:2", "1.7E+09"),
        ("b.json:2", "1.7e9"),
    ] {
        let (name, _) = file.split_once(':').unwrap();
        let command = format!("ingest s t {name} --time t --time-unit s");
        let message = place.run(&command).fails(1);
        let expected = format!("{file}: `{shown}` in column t is not a time; {advice}");
        assert!(message.starts_with(&expected), "{message}");
    }
    place.output("ingest s t b.json --time t --time-unit s --on-error skip");
    let message = place.run("ingest s t a.json").fails(1);
    assert!(message.contains(advice), "{message}");
    assert_eq!(place.output("query s t --columns n --format csv"), "n\n1\n");
}

/// As tcpdump, Zeek and many sensors write times.
#[test]
fn numbers_with_fractions_are_times() {
    let place = Place::new();
    let times = |table: &str| {
        let rows = place.output(&format!("query s {table} --columns t --format csv"));
        rows.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let [first, second, third] = ["25", "5", "75"].map(|fraction| format!("2013-02-08T17:30:00.{fraction}"));
    place.write("a.csv", "t,n\n1360344600.25,1\n1360344600.5,2\n");
    place.write(
        "a.json",
        "{\"t\":1360344600.25,\"n\":1}\n{\"t\":\"1360344600.50\",\"n\":2}\n",
    );
    for (table, file) in [("csv", "a.csv"), ("json", "a.json")] {
        place.output(&format!("ingest s {table} {file} --time t --time-unit s"));
        let found = times(table);
        assert!(
            found[0].starts_with(&first) && found[1].starts_with(&second),
            "{found:?}"
        );
    }
    // The table counts in milliseconds now, and files in whatever they say.
    place.write("b.csv", "t,n\n1360344600750000000,3\n");
    place.output("ingest s csv b.csv --time-unit ns");
    place.write("b.csv", "t,n\n1360344601,4\n");
    place.output("ingest s csv b.csv --time-unit s");
    let found = times("csv");
    assert!(
        found[2].starts_with(&third) && found[3].starts_with("2013-02-08T17:30:01"),
        "{found:?}"
    );

    place.write("c.csv", "t,n\n1360344602,5\n1360344602.0001,6\n");
    let message = place.run("ingest s csv c.csv --time-unit s").fails(1);
    let expected = "c.csv:3: `1360344602.0001` in column t is finer than its type timestamp(ms)";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(times("csv"), found, "and nothing of the file is there");
    // Written times may be finer than the unit of numbers.
    place.write("d.csv", "t,n\n2013-02-08T17:30:00.25,1\n");
    place.output("ingest s fine d.csv --time t --time-unit s");
    assert!(times("fine")[0].starts_with(&first), "{:?}", times("fine"));
    let message = place.run("ingest s new a.csv --time t").fails(1);
    assert!(
        message.contains("column t holds numbers") && message.contains("--time-unit"),
        "{message}"
    );
    let message = place.run("ingest s csv a.csv").fails(1);
    assert!(
        message.contains("`1360344600.25` in column t is not a time"),
        "{message}"
    );
    assert!(message.contains("--time-unit"), "{message}");
}

#[test]
fn a_unit_that_no_one_names_is_told_and_refused_where_another_fits() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1360344600.25,1\n");
    place.output("ingest s ms a.csv --time t --time-unit s");
    place.write("seconds.csv", "t,n\n1360344600,1\n1360344601,2\n");
    place.output("ingest s s seconds.csv --time t --time-unit s");
    place.write("millis.csv", "t,n\n1360344601000,2\n");
    let before = place.contents("s");

    let message = place.run("ingest s ms seconds.csv").fails(1);
    let expected = "seconds.csv: in ms, the unit of table ms, the integers in column t lie in January 1970, in s \
                    beside its rows: say which they are with --time-unit s or --time-unit ms";
    assert_eq!(message, expected);
    let message = place.run("ingest s s millis.csv").fails(1);
    assert!(
        message.contains("column t lie after the year 9999, in ms beside"),
        "{message}"
    );
    // The same in a file that names the types of its columns.
    place.write("typed.csv", "at,t,n\n2013-01-01,1360344600,1\n");
    place.output("ingest typed t typed.csv --time at");
    place.output("query typed t --columns t,n --format parquet --output typed.parquet");
    let message = place.run("ingest s ms typed.parquet").fails(1);
    assert!(message.contains("lie in January 1970, in s beside"), "{message}");
    assert_eq!(place.contents("s"), before);

    let told = "times read as numbers of ms, the unit of the table; --time-unit names another\n";
    assert!(place.output("ingest s ms millis.csv").contains(told));
    let report = place.json("ingest s ms millis.csv --json");
    assert_eq!(report["assumed_unit"], "ms");
    for named in ["--time-unit ms", "--schema t:timestamp(ms)"] {
        let report = place.json(&format!("ingest s ms seconds.csv {named} --json"));
        assert_eq!(
            (&report["assumed_unit"], &report["rows"]),
            (&().into(), &2.into())
        );
    }
    // A device whose clock is not set counts from 1970. No unit puts its times near the others.
    place.output("ingest s s seconds.csv --time-unit s");
    place.write("unset.csv", "t,n\n5,1\n");
    place.output("ingest s s unset.csv");
}

#[test]
fn a_missing_time_before_integers_makes_none_of_them_unreadable() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2020-01-01,1\n");
    place.output("ingest s t a.csv --time t");
    for missing in ["NA", ""] {
        place.write("b.csv", format!("t,n\n{missing},1\n1577836800,2\n1577836801,3\n"));
        let report = place.json("ingest s t b.csv --null NA --on-error skip --json");
        assert_eq!(
            (&report["rows"], &report["assumed_unit"]),
            (&2.into(), &"s".into())
        );
        let by_reason = serde_json::json!({ "missing time": 1 });
        assert_eq!(report["skipped"]["by_reason"], by_reason, "{missing}");
    }
}

#[test]
fn averages_are_told_once_there_are_rows_enough() {
    let place = Place::new();
    place.write("few.csv", near_sorted_csv(3));
    place.write("many.csv", near_sorted_csv(2000));
    let few = place.output("ingest s t few.csv --time t --time-unit s");
    assert!(!few.contains("bytes a row"), "{few}");
    let many = place.output("ingest s t many.csv --time t --time-unit s");
    assert!(
        many.contains(" bytes a row, over 2,003 rows in the store"),
        "{many}"
    );
}

#[test]
fn rows_that_are_left_out_are_listed_and_counted() {
    let place = Place::new();
    place.write(
        "mixed.csv",
        b"t,n\n2013-01-01,1\n,2\nsoon,3\n\"2013-01-02\",4\n2013-01-03\n2013-01-03,5,6\n2013-01-04,x\n2013-01-05,\n\xff,1\n,\n",
    );
    let arguments = "ingest s t mixed.csv --time t --on-error skip --schema t:timestamp(s),n:int32";
    let outcome = place.run(arguments);
    assert_eq!(
        outcome.stderr,
        "7 rows skipped:\n\
         \x20         2 missing time\n\
         \x20         1 unreadable time\n\
         \x20         1 unreadable value in n\n\
         \x20         2 wrong number of fields\n\
         \x20         1 not UTF-8\n\
         \x20 mixed.csv:3: no time in column t\n\
         \x20 mixed.csv:4: `soon` in column t is not a time\n\
         \x20 mixed.csv:6: 1 fields, where the header has 2\n\
         \x20 mixed.csv:7: 3 fields, where the header has 2\n\
         \x20 mixed.csv:8: `x` in column n is not of type int32\n\
         \x20 mixed.csv:10: column t holds bytes that are not UTF-8\n\
         \x20 mixed.csv:11: no time in column t\n"
    );
    outcome.succeeds();
    let rows = place.output("query s t --format csv");
    assert_eq!(
        rows,
        "t,n\n2013-01-01T00:00:00,1\n2013-01-02T00:00:00,4\n2013-01-05T00:00:00,\n"
    );
}

#[test]
fn bad_rows_do_not_hinder_inference() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,n\nsoon,1\n,2\n2013-01-01T00:00:00.5Z,3\n2013-01-02,4\n2013-01-03T00:00:00Z,5\n",
    );
    let report = place
        .run("ingest s t a.csv --time t --on-error skip --json")
        .succeeds();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        report["skipped"]["by_reason"],
        serde_json::json!({ "missing time": 1, "unreadable time": 2 })
    );
    assert_eq!(
        place.output("query s t --format csv"),
        "t,n\n2013-01-01T00:00:00.500Z,3\n2013-01-03T00:00:00Z,5\n"
    );
}

#[test]
fn the_batch_size_changes_nothing_about_what_is_left_out() {
    let place = Place::new();
    let mut text = "t,n\n".to_owned();
    for i in 0..200 {
        text += match i % 7 {
            0 => ",1\n",
            3 => "2013-01-01\n",
            5 => "x,1\n",
            _ => "2013-01-01,1\n",
        };
    }
    place.write("a.csv", text);
    let run = |rows: usize| {
        let arguments = format!(
            "ingest s{rows} t a.csv --time t --schema t:timestamp(s),n:int8 --on-error skip --json --batch-rows {rows}"
        );
        let report = place.json(&arguments);
        (report["rows"].clone(), report["skipped"].clone())
    };
    let expected = run(1000);
    let good = (0..200).filter(|i| ![0, 3, 5].contains(&(i % 7))).count();
    assert_eq!(expected.0, good);
    for rows in [1, 2, 7, 50, 199, 200] {
        assert_eq!(run(rows), expected, "{rows}");
    }
}

/// Rows that all have the same time, and so keep the order of the file: every 40th has a quote and
/// two lines. Row `row` stands on line `2 + row + row.div_ceil(40)`.
fn rows_in_order(rows: usize, bad: &[usize]) -> (String, Vec<String>) {
    let (mut text, mut values) = ("t,n,name\n".to_owned(), Vec::new());
    for row in 0..rows {
        let number = if bad.contains(&row) {
            "many".to_owned()
        } else {
            row.to_string()
        };
        let name = if row % 40 == 0 { "\"two\nlines\"" } else { "one" };
        text += &format!("2013-01-01,{number},{name}\n");
        values.push(number);
    }
    (text, values)
}

#[test]
fn batches_and_rows_left_out_keep_the_order_of_the_file() {
    let place = Place::new();
    let bad = [7, 8, 99, 100, 640, 641, 1999];
    let (text, values) = rows_in_order(2000, &bad);
    place.write("a.csv", &text);
    place.write_gzip("a.csv.gz", &text);
    let arguments = "--time t --schema n:int32 --on-error skip --json --batch-rows 50";
    let kept: Vec<&str> = values
        .iter()
        .map(String::as_str)
        .filter(|value| *value != "many")
        .collect();
    let listed: Vec<String> = bad
        .iter()
        .map(|row| {
            let line = 2 + row + row.div_ceil(40);
            format!("{line}: `many` in column n is not of type int32")
        })
        .collect();
    for (store, file) in [("plain", "a.csv"), ("gzip", "a.csv.gz"), ("fed", "-")] {
        let report = place.run_fed(&format!("ingest {store} t {file} {arguments}"), text.as_bytes());
        let report: serde_json::Value = serde_json::from_str(&report.succeeds()).unwrap();
        let first = report["skipped"]["first"].as_array().unwrap();
        let first = first
            .iter()
            .map(|row| row.as_str().unwrap().split_once(':').unwrap().1);
        assert!(first.eq(&listed), "{report}");
        let rows = place.output(&format!("query {store} t --columns n --format csv"));
        assert!(rows.lines().skip(1).eq(kept.iter().copied()), "{store}");
    }
}

#[test]
fn the_first_of_several_errors_is_told() {
    let place = Place::new();
    let (text, _) = rows_in_order(2000, &[641, 700]);
    for batch_rows in [1, 50, 641, 642, 5000] {
        let arguments = format!(
            "ingest s t - --time t --schema t:timestamp(s),n:int32,name:utf8 --batch-rows {batch_rows}"
        );
        // The quote that stays open is met by a later batch, unless all are one.
        let message = place.run_fed(&arguments, format!("{text}2013-01-01,1,\"").as_bytes());
        let expected = match batch_rows {
            5000 => "standard input:2052: a quote is left open",
            _ => "standard input:660: `many` in column n is not of type int32",
        };
        let message = message.fails(1);
        assert!(message.starts_with(expected), "{batch_rows}: {message}");
        assert_eq!(place.contents("s"), None);
    }
}

#[test]
fn an_error_does_not_wait_for_the_end_of_a_pipe() {
    let place = Place::new();
    let mut command = place.command("ingest s t - --time t --schema t:timestamp(s),n:int32 --batch-rows 2");
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"t,n\n2013-01-01,1\n2013-01-01,many\n2013-01-01,3\n")
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(stdin);
}

#[test]
fn a_report_that_machines_can_read() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(1000));
    let report = place.json("ingest s t a.csv --time t --time-unit s --json");
    assert_eq!((&report["rows"], &report.get("k")), (&1000.into(), &None));
    let told = place.output("ingest s u a.csv --time t --time-unit s");
    assert!(
        told.starts_with("      1,000 rows\n") && !told.contains(" K "),
        "{told}"
    );
    let told = place.output("ingest s v a.csv --time t --time-unit s --order");
    assert!(told.contains(" K "), "{told}");
    let report = place.json("ingest s w a.csv --time t --time-unit s --order --json");
    assert_eq!(report["rows"], 1000);
    assert_eq!(report["table_rows"], 1000);
    assert_eq!(report["skipped"]["rows"], 0);
    assert!(report["rows_per_second"].as_u64().unwrap() > 0);
    assert!(report["bytes_per_row"].as_f64().unwrap() > 0.0);
    let measured = place.json("sortedness a.csv --column t --json");
    for figure in [
        "k",
        "l",
        "below_running_max",
        "adjacent_inversions",
        "k_percent",
        "l_percent",
    ] {
        assert_eq!(report[figure], measured[figure], "{figure}");
    }
    assert!(measured["k"].as_u64().unwrap() > 0);
}

#[test]
fn the_measure_is_that_of_the_run_and_not_of_the_table() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(1000));
    place.output("ingest s t a.csv --time t --time-unit s");
    let again = place.json("ingest s t a.csv --time t --time-unit s --order --json --batch-rows 64");
    let measured = place.json("sortedness a.csv --column t --json");
    assert_eq!(
        (&again["rows"], &again["table_rows"]),
        (&1000.into(), &2000.into())
    );
    assert_eq!((&again["k"], &again["l"]), (&measured["k"], &measured["l"]));
}

#[test]
fn standard_input_plain_and_compressed() {
    let place = Place::new();
    let text = near_sorted_csv(1000);
    place.write_gzip("a.csv.gz", &text);
    let compressed = std::fs::read(place.path("a.csv.gz")).unwrap();
    place.write("a.csv", &text);
    place.output("ingest file t a.csv --time t --time-unit s");
    place
        .run_fed("ingest plain t - --time t --time-unit s", text.as_bytes())
        .succeeds();
    place
        .run_fed("ingest gzip t - --time t --time-unit s", &compressed)
        .succeeds();
    place.output("ingest gzip_file t a.csv.gz --time t --time-unit s");
    let expected = place.contents("file");
    for store in ["plain", "gzip", "gzip_file"] {
        assert_eq!(place.contents(store), expected, "{store}");
    }

    let parquet = [b"PAR1".as_slice(), &[0; 100]].concat();
    let message = place.run_fed("ingest p t - --time t", &parquet).fails(1);
    assert!(message.starts_with("standard input: Parquet"), "{message}");
    let message = place
        .run_fed("ingest p t - --time t", b"t\n2013-01-01\nsoon\n")
        .fails(1);
    assert!(message.starts_with("standard input:3: `soon`"), "{message}");
}

#[test]
fn every_batch_is_acknowledged() {
    let place = Place::new();
    place.write("a.csv", near_sorted_csv(25));
    let output = place.output("ingest s t a.csv --time t --time-unit s --batch-rows 10 --ack --json");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines[..3],
        ["acknowledged 10", "acknowledged 20", "acknowledged 25"]
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(lines[3]).unwrap()["rows"],
        25
    );
}

#[test]
fn csv_without_a_header_line() {
    let place = Place::new();
    place.write("a.csv", "\u{feff}10,a\n20,\"b\nc\"\n");
    place.write("b.csv", "30,d\n");
    place.output("ingest s t a.csv b.csv --header at,word --time at --time-unit s");
    assert_eq!(
        place.output("query s t --format csv --columns word"),
        "word\na\n\"b\nc\"\nd\n"
    );
    let measured = place.json("sortedness a.csv --header at,word --column at --json");
    assert_eq!(measured["rows"], 2);

    place.write("short.csv", "10,a\n20\n");
    let message = place
        .run("ingest s u short.csv --header at,word --time at --time-unit s")
        .fails(1);
    assert!(message.starts_with("short.csv:2: "), "{message}");
    let message = place
        .run("ingest s u a.csv --header at,at --time at --time-unit s")
        .fails(1);
    assert!(message.contains("two columns are named at"), "{message}");
}

#[test]
fn columns_delimiters_and_null_texts() {
    let place = Place::new();
    place.write("a.csv", "x;t;y;name\n1;2013-01-01;NA;NA\n;2013-01-02;3;\n");
    place.output("ingest s t a.csv --time t --delimiter ; --null NA --columns name,t,y");
    let rows = place.output("query s t --format csv --null -");
    assert_eq!(
        rows,
        "name,t,y\n-,2013-01-01T00:00:00,-\n\"\",2013-01-02T00:00:00,3\n".replace("\"\"", "")
    );
    let columns = &place.json("info s --json")["tables"][0]["columns"];
    assert_eq!(columns[1]["type"], "timestamp(s)");
    assert_eq!(columns[2]["type"], "int64");
}

#[test]
fn wide_rows_take_the_place_of_others_in_several_commits() {
    let place = Place::new();
    let wide = "x".repeat(1_000_000);
    let rows = |first: u32| (first..first + 40).map(|n| format!("{n},a,{wide}\n"));
    place.write("a.csv", "t,sensor,x\n".to_owned() + &rows(0).collect::<String>());
    place.write("b.csv", "t,sensor,x\n".to_owned() + &rows(20).collect::<String>());
    place.output("ingest s t a.csv --time t --time-unit s --key sensor");
    let report = place.json("ingest s t b.csv --json");
    assert_eq!((&report["rows"], &report["replaced"]), (&40.into(), &20.into()));
    let report = place.json("ingest s t b.csv --source-id b --json");
    assert_eq!((&report["rows"], &report["replaced"]), (&40.into(), &40.into()));
    assert_eq!(report["table_rows"], 60);
}

#[test]
fn a_row_that_is_too_long_takes_the_place_of_none() {
    let place = Place::new();
    place.write("a.csv", "t,sensor,x\n1,a,x\n2,a,x\n");
    place.write(
        "long.csv",
        format!("t,sensor,x\n1,a,y\n2,a,{}\n", "x".repeat(1_200_000)),
    );
    place.output("ingest s t a.csv --time t --time-unit s --key sensor");
    let query = "query s t --format csv";
    let before = place.output(query);
    let message = place.run("ingest s t long.csv --time-unit s").fails(1);
    assert!(
        message.contains("row 2 of those from line 2: the row has more"),
        "{message}"
    );
    assert_eq!(place.output(query), before);
}

#[test]
fn numbers_of_another_unit_are_converted_whatever_the_file() {
    let place = Place::new();
    let numbers = |name: &str, numbers: &[&str]| {
        let rows = numbers.iter().map(|number| format!("2013-01-01,{number}\n"));
        place.write("written.csv", "at,t\n".to_owned() + &rows.collect::<String>());
        place.output("ingest written t written.csv --time at");
        place.output(&format!(
            "query written t --columns t --format parquet --output {name}.parquet"
        ));
        place.output("drop written t");
    };
    numbers("seconds", &["1360344600", "1360344601"]);
    numbers("micros", &["1360344602000000", "1360344603001000"]);
    numbers("finer", &["1360344604000000", "1360344605000001"]);
    numbers("beyond", &["1360344604", "9300000000000000"]);
    place.output("ingest s t seconds.parquet --time t --time-unit s --schema t:timestamp(ms)");
    place.output("ingest s t micros.parquet --time-unit us");
    let rows = "t\n2013-02-08T17:30:00\n2013-02-08T17:30:01\n2013-02-08T17:30:02\n2013-02-08T17:30:03.001\n";
    let found = place.output("query s t --format csv");
    assert_eq!(found.replace(".000\n", "\n"), rows);
    for (file, unit, count) in [
        ("finer", "us", "1360344605000001 us"),
        ("beyond", "s", "9300000000000000 s"),
    ] {
        let message = place
            .run(&format!("ingest s t {file}.parquet --time-unit {unit}"))
            .fails(1);
        let expected = format!("{file}.parquet: row 2: {count} in column t is no timestamp(ms)");
        assert!(message.contains(&expected), "{message}");
    }
    assert_eq!(place.output("query s t --format csv"), found);
}

#[test]
fn integers_of_any_width_count_units() {
    let place = Place::new();
    place.write(
        "written.csv",
        "at,t\n2013-01-01,1360344600\n2013-01-01,1360344601\n",
    );
    for (width, format) in [
        ("int32", "parquet"),
        ("uint32", "arrow"),
        ("uint64", "parquet"),
        ("int64", "arrow"),
    ] {
        let store = format!("of-{width}");
        place.output(&format!(
            "ingest {store} w written.csv --time at --schema t:{width}"
        ));
        place.output(&format!(
            "query {store} w --columns t --format {format} --output counts"
        ));
        let message = place.run(&format!("ingest {store} t counts --time t")).fails(1);
        assert!(message.contains("holds integers: say what"), "{width}: {message}");
        place.output(&format!("ingest {store} t counts --time t --time-unit s"));
        place.output(&format!(
            "ingest {store} ms counts --time t --time-unit s --schema t:timestamp(ms)"
        ));
        for table in ["t", "ms"] {
            assert_eq!(
                place.output(&format!("query {store} {table} --format csv")),
                "t\n2013-02-08T17:30:00\n2013-02-08T17:30:01\n",
                "{width} {table}"
            );
        }
    }
}

#[test]
fn a_file_with_its_columns_in_another_order() {
    let place = Place::new();
    place.write("a.csv", "t,n\n2013-01-01,1\n");
    place.write("b.csv", "n,t\n2,2013-01-02\n");
    place.output("ingest s t a.csv b.csv --time t");
    assert_eq!(
        place.output("query s t --format csv"),
        "t,n\n2013-01-01T00:00:00,1\n2013-01-02T00:00:00,2\n"
    );
}

#[test]
fn rows_of_a_table_with_a_key_take_the_place_of_others() {
    let place = Place::new();
    place.write("a.csv", "t,sensor,x\n1,a,1\n1,b,2\n2,a,3\n2,a,4\n");
    place.write("b.csv", "t,sensor,x\n1,b,20\n3,c,5\n");
    let ingest = "ingest s t a.csv --time t --time-unit s --key sensor --json";
    let first = place.json(ingest);
    assert_eq!((&first["rows"], &first["replaced"]), (&4.into(), &1.into()));
    let rows = "t,sensor,x\n1970-01-01T00:00:01,a,1\n1970-01-01T00:00:01,b,2\n1970-01-01T00:00:02,a,4\n";
    let query = "query s t --format csv";
    assert_eq!(place.output(query), rows);

    // The same file again changes nothing but the order of arrival.
    let again = place.json(&format!("{ingest} --order"));
    assert_eq!((&again["replaced"], &again["table_rows"]), (&4.into(), &3.into()));
    assert_eq!(place.output(query), rows);

    let report = place.output("ingest s t b.csv --key sensor,t --source-id b");
    assert!(
        report.contains("1 row replaced by a later one of their key"),
        "{report}"
    );
    assert!(
        place
            .output("ingest s t b.csv --source-id b")
            .contains("2 rows already there")
    );
    let rows = rows.replace("b,2\n", "b,20\n") + "1970-01-01T00:00:03,c,5\n";
    assert_eq!(place.output(query), rows);
    let info = place.json("info s t --json");
    assert_eq!(info["tables"][0]["key"], serde_json::json!(["t", "sensor"]));
    assert!(place.output("info s t").contains("\nkey      t, sensor"));

    let message = place.run("ingest s t b.csv --key x").fails(1);
    assert!(message.contains("the key of table t is t,sensor"), "{message}");
    place.output("ingest s plain b.csv --time t --time-unit s");
    let message = place.run("ingest s plain b.csv --key sensor").fails(1);
    assert!(message.contains("table plain has no key"), "{message}");
    let message = place
        .run("ingest s new b.csv --time t --time-unit s --key nothing")
        .fails(1);
    assert!(message.contains("no column \"nothing\""), "{message}");
    assert_eq!(
        place.json("tables s --json")["tables"].as_array().unwrap().len(),
        3
    );

    // If a run fails after its first batch, rows that replaced others stay.
    place.write("c.csv", "t,sensor,x\n1,a,100\n1,b,200\n1,c,bad\n");
    let message = place.run("ingest s t c.csv --batch-rows 2").fails(1);
    assert!(message.contains("stay"), "{message}");
    assert!(place.output(query).contains(",a,100\n"));
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn names_of_columns_may_have_commas() {
    let place = Place::new();
    place.write("a.csv", "at,\"speed, km/h\",\"a\"\"b\"\n1,70,x\n2,80,y\n");
    place.write("b.csv", "1,70\n");
    let run = |arguments: &str| {
        let arguments = arguments.replace("SPEED", "\"speed, km/h\"");
        let arguments: Vec<&str> = arguments.split('|').collect();
        place.run_with(&arguments)
    };
    run("ingest|s|t|a.csv|--time|at|--time-unit|s|--columns|SPEED,at|--key|SPEED|--schema|SPEED:uint8")
        .succeeds();
    assert_eq!(
        run("query|s|t|--columns|SPEED,at|--format|csv").succeeds(),
        "\"speed, km/h\",at\n70,1970-01-01T00:00:01\n80,1970-01-01T00:00:02\n"
    );
    let table = &place.json("info s --json")["tables"][0];
    assert_eq!(table["key"][1], "speed, km/h");
    assert_eq!(table["columns"][0]["name"], "speed, km/h");

    run("ingest|b|t|b.csv|--header|at,SPEED|--time|at|--time-unit|s").succeeds();
    run("convert|b|t|u|--remove|SPEED|--add|\"x,y\":int8").succeeds();
    assert_eq!(
        place.output("query b u --format csv"),
        "at,\"x,y\"\n1970-01-01T00:00:01,\n"
    );
    let refused = run("query|b|u|--columns|\"x").fails(2);
    assert!(refused.contains("is not closed"), "{refused}");
}
