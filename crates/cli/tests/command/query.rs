//! Which rows a query returns, and in which order.

use crate::harness::Place;

/// Times 0 to 9, twice each, in an order far from sorted; `n` numbers the rows as they arrive.
fn with_store() -> Place {
    let place = Place::new();
    let mut text = "t,n\n".to_owned();
    for n in 0..20 {
        text += &format!("{},{n}\n", n * 7 % 10);
    }
    place.write("a.csv", text);
    place.output("ingest s t a.csv --time t --time-unit ms --batch-rows 3");
    place
}

/// The values of `n` in the answer.
fn numbers(place: &Place, options: &str) -> Vec<u32> {
    let answer = place.output(&format!("query s t --format csv --columns n {options}"));
    answer.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

#[test]
fn from_is_inclusive_and_to_is_exclusive() {
    let place = with_store();
    assert_eq!(numbers(&place, "--from @3 --to @5"), [9, 19, 2, 12]);
    assert_eq!(
        numbers(
            &place,
            "--from 1970-01-01T00:00:00.003Z --to 1970-01-01T00:00:00.005Z"
        ),
        [9, 19, 2, 12]
    );
    // Bounds between two ticks.
    assert_eq!(
        numbers(
            &place,
            "--from 1970-01-01T00:00:00.0025 --to 1970-01-01T00:00:00.0041"
        ),
        [9, 19, 2, 12]
    );
    assert_eq!(numbers(&place, "--to @1"), [0, 10]);
    assert_eq!(numbers(&place, "--from @9"), [7, 17]);
    assert!(numbers(&place, "--from @4 --to @4").is_empty());
    assert!(numbers(&place, "--to @-1").is_empty());
    assert_eq!(numbers(&place, "").len(), 20);
}

#[test]
fn rows_of_one_time_keep_their_order_of_arrival() {
    let place = with_store();
    assert_eq!(
        numbers(&place, ""),
        [
            0, 10, 3, 13, 6, 16, 9, 19, 2, 12, 5, 15, 8, 18, 1, 11, 4, 14, 7, 17
        ]
    );
}

#[test]
fn reversed_and_limited() {
    let place = with_store();
    let mut reversed = numbers(&place, "");
    reversed.reverse();
    assert_eq!(numbers(&place, "--reverse"), reversed);
    for limit in [0, 1, 3, 19, 20, 21] {
        let expected = &reversed[..limit.min(20)];
        assert_eq!(numbers(&place, &format!("--reverse --limit {limit}")), expected);
    }
    assert_eq!(
        numbers(&place, "--from @3 --to @5 --reverse --limit 3"),
        [12, 2, 19]
    );
    assert_eq!(numbers(&place, "--from @3 --limit 3"), [9, 19, 2]);
}

#[test]
fn columns_in_the_order_asked_for() {
    let place = with_store();
    assert_eq!(
        place.output("query s t --columns n,t --format csv --limit 1"),
        "n,t\n0,1970-01-01T00:00:00\n"
    );
    assert_eq!(
        place.output("query s t --columns t --format json --limit 1"),
        "{\"t\":\"1970-01-01T00:00:00\"}\n"
    );
}

#[test]
fn an_empty_answer_still_has_its_columns() {
    let place = with_store();
    assert_eq!(place.output("query s t --limit 0 --format csv"), "t,n\n");
    assert_eq!(place.output("query s t --limit 0 --format json"), "");
    for name in ["ndjson", "jsonl"] {
        let query = |format| place.output(&format!("query s t --limit 3 --format {format}"));
        assert_eq!(query(name), query("json"));
    }
    assert_eq!(place.output("query s t --limit 0"), "t  n\n-  -\n(0 rows)\n");
    place.output("query s t --limit 0 --format parquet --output empty.parquet");
    place.output("ingest from_empty t empty.parquet --time t");
    assert_eq!(place.output("query from_empty t --format csv"), "t,n\n");
}

#[test]
fn deleted_rows_are_gone() {
    let place = with_store();
    let said = "4 rows of table t, from 1970-01-01T00:00:00.003 (included) to 1970-01-01T00:00:00.005 (not included)\n";
    let preview = place.output("delete s t --from @3 --to @5 --dry-run");
    assert_eq!(preview, format!("{said}nothing was deleted: --dry-run\n"));
    assert_eq!(numbers(&place, "").len(), 20);
    let done = place.output("delete s t --from @3 --to @5");
    assert_eq!(done, format!("{said}deleted 4 rows\n"));
    // The rows on both sides are still there.
    let again = place.output("delete s t --from @3 --to @5");
    assert_eq!(again, format!("0{}deleted 0 rows\n", &said[1..]));
    assert_eq!(numbers(&place, "--from @2 --to @6"), [6, 16, 5, 15]);
    let preview = place.json("delete s t --from @8 --json --dry-run");
    assert_eq!((&preview["rows"], &preview["deleted"]), (&4.into(), &0.into()));
    assert_eq!(
        (&preview["from_tick"], &preview["to_tick"]),
        (&8.into(), &().into())
    );
    assert_eq!(place.json("delete s t --from @8 --json")["deleted"], 4);
    assert_eq!(numbers(&place, ""), [0, 10, 3, 13, 6, 16, 5, 15, 8, 18, 1, 11]);
    assert_eq!(place.json("info s t --json")["tables"][0]["rows"], 12);
    assert!(place.output("verify s").starts_with("OK: "));
}

#[test]
fn a_range_that_was_meant_otherwise_deletes_nothing() {
    let place = with_store();
    // A year, and not the 2,014th millisecond.
    let message = place.run("delete s t --from 2014").fails(1);
    assert_eq!(
        message,
        "no row of table t lies from 2014-01-01T00:00:00 (included) to the last row: its times go from \
         1970-01-01T00:00:00 to 1970-01-01T00:00:00.009"
    );
    place.run("delete s t --to @0").fails(1);
    place.run("delete s t --from @10").fails(1);
    let message = place.run("delete s t --from 20140101").fails(1);
    assert!(message.contains("write @20140101 for ms since 1970"), "{message}");
    assert_eq!(numbers(&place, "").len(), 20);
    place.output("delete s t --to 1971");
    assert!(numbers(&place, "").is_empty());
    // An empty table has no times to compare with.
    place.output("delete s t --from 2014");
}

#[test]
fn descriptions_for_people_and_machines() {
    let place = with_store();
    let info = place.json("info s --json");
    let table = &info["tables"][0];
    assert_eq!(
        (&table["name"], &table["rows"], &table["time_column"]),
        (&"t".into(), &20.into(), &"t".into())
    );
    assert_eq!(
        (&table["first_tick"], &table["last_tick"]),
        (&0.into(), &9.into())
    );
    assert_eq!(table["columns"][0]["type"], "timestamp(ms)");
    let (order, exact) = (
        &table["order"]["total"],
        place.json("sortedness a.csv --column t --json"),
    );
    for measure in ["rows", "k", "below_running_max", "below_running_max_percent"] {
        assert_eq!(order[measure], exact[measure], "{measure}");
    }
    let (window, mut expected) = (&table["order"]["window"], order.clone());
    expected["l_percent"] = serde_json::Value::Null;
    assert_eq!(*window, expected);
    let text = place.output("info s t");
    assert!(
        text.contains(&format!("order    20 rows: K {} (", order["k"])),
        "{text}"
    );
    assert!(
        text.contains("times    1970-01-01T00:00:00 to 1970-01-01T00:00:00.009"),
        "{text}"
    );

    let report = place.json("verify s --json");
    assert_eq!(report["ok"], true);
    assert!(report["pages"].as_u64().unwrap() > 0);
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn a_row_may_be_later_than_a_window_is_long() {
    let place = Place::new();
    let times = (1..=120_000).chain([0]).chain(120_001..=140_000);
    let times: String = times.map(|time| format!("{time}\n")).collect();
    place.write("a.csv", format!("t\n{times}"));
    place.output("ingest s t a.csv --time t --time-unit ms");
    let info = place.json("info s --json");
    let window = &info["tables"][0]["order"]["window"];
    let l = window["l"].as_u64().unwrap();
    assert!(window["rows"].as_u64().unwrap() < l, "{window}");
    assert!(window["l_percent"].is_null(), "{window}");
    let text = place.output("info s");
    let line = text.lines().find(|line| line.contains("in the last")).unwrap();
    assert!(
        line.contains(&format!("L {},{:03}, ", l / 1000, l % 1000)),
        "{line}"
    );
}

#[test]
fn completions_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            place
                .output(&format!("completions {shell}"))
                .contains("sortedness"),
            "{shell}"
        );
    }
    assert!(place.output("--help").contains("Exit codes:"));
}

#[test]
fn the_last_stretch_ends_with_the_newest_row() {
    let place = with_store();
    assert_eq!(numbers(&place, "--last 2ms"), [4, 14, 7, 17]);
    assert_eq!(
        numbers(&place, "--last 1us"),
        [7, 17],
        "no stretch is shorter than a tick"
    );
    for all in ["10ms", "1w", "9223372036854775807d"] {
        assert_eq!(numbers(&place, &format!("--last {all}")).len(), 20, "{all}");
    }
    place.write("none.csv", "t,n\n");
    place.output("ingest s empty none.csv --time t --schema t:timestamp(s),n:int64");
    assert_eq!(place.output("query s empty --last 1h --format csv"), "t,n\n");
    for wrong in [
        "--last 1",
        "--last 0s",
        "--last 1h --from @1",
        "--last 1h --to @1",
    ] {
        assert_eq!(place.run(&format!("query s t {wrong}")).code, Some(2), "{wrong}");
    }
}

#[test]
fn the_last_stretch_may_begin_between_two_ticks() {
    let place = Place::new();
    place.write("a.csv", "t,n\n0,0\n1,1\n2,2\n3,3\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    for (last, expected) in [
        ("2s", &[2, 3][..]),
        ("2001ms", &[1, 2, 3]),
        ("2500ms", &[1, 2, 3]),
        ("1ns", &[3]),
    ] {
        assert_eq!(numbers(&place, &format!("--last {last}")), expected, "{last}");
    }
    let deleted = place.output("delete s t --last 1500ms");
    assert_eq!(numbers(&place, ""), [0, 1], "{deleted}");
}

#[test]
fn durations_are_counted_back_from_now() {
    let place = Place::new();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let rows: String = [7200, 1800, 0]
        .iter()
        .map(|age| format!("{},{age}\n", now - age))
        .collect();
    place.write("a.csv", format!("t,n\n{rows}"));
    place.output("ingest s t a.csv --time t --time-unit s");
    assert_eq!(numbers(&place, "--from -1h"), [1800, 0]);
    assert_eq!(numbers(&place, "--from=-1d --to -30min"), [7200, 1800]);
    let message = place.run("query s t --from -5").fails(1);
    assert!(message.contains("-5min"), "{message}");
}

#[test]
fn readings_that_clocks_skip_or_repeat_want_an_offset() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,n\n2020-11-01T01:30:00-04:00,1\n2020-11-01T01:30:00-05:00,2\n",
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
            "t:timestamp(s, America/New_York),n:int64",
        ])
        .succeeds();
    for (reading, why) in [
        ("2020-11-01T01:30", "occurs twice"),
        ("2020-03-08T02:30", "does not exist"),
    ] {
        let message = place.run(&format!("query s t --from {reading}")).fails(1);
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(numbers(&place, "--from 2020-11-01T01:30-05:00"), [2]);
    assert_eq!(numbers(&place, "--from 2020-11-01T01:30-04:00"), [1, 2]);
}

#[test]
fn tables_are_listed_in_the_order_of_their_creation_and_dropped() {
    let place = with_store();
    place.output("ingest s a a.csv --time t --time-unit ms");
    assert_eq!(place.output("tables s"), "t\na\n");
    assert_eq!(
        place.json("tables s --json"),
        serde_json::json!({ "tables": ["t", "a"] })
    );
    assert_eq!(
        place.output("drop s t --dry-run"),
        "table t has 20 rows; nothing was dropped: --dry-run\n"
    );
    assert_eq!(
        place.json("drop s t --dry-run --json"),
        serde_json::json!({ "table": "t", "rows": 20, "dropped": false })
    );
    assert_eq!(place.output("tables s"), "t\na\n");
    assert_eq!(place.output("drop s t"), "dropped table t with 20 rows\n");
    assert_eq!(place.output("tables s"), "a\n");
    let message = place.run("drop s t").fails(1);
    assert!(message.contains("has no table t; there are: a"), "{message}");
    assert_eq!(
        place.output("query s a --columns n --format csv --limit 1"),
        "n\n0\n"
    );
    assert_eq!(
        place.json("drop s a --json"),
        serde_json::json!({ "table": "a", "rows": 20, "dropped": true })
    );
    assert_eq!(place.output("tables s"), "");
    place.run("tables none").fails(6);
}

#[test]
fn arrow_files_and_streams_hold_the_rows_and_their_types() {
    let place = with_store();
    let rows = place.output("query s t --format csv");
    place.output("query s t --format arrow --output a.arrow");
    let streamed = place.command("query s t --format arrow-stream").output().unwrap();
    assert!(streamed.status.success());
    let file = std::fs::File::open(place.path("a.arrow")).unwrap();
    let file = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    let stream = arrow_ipc::reader::StreamReader::try_new(&streamed.stdout[..], None).unwrap();
    for (schema, batches) in [
        (file.schema(), file.map(Result::unwrap).collect::<Vec<_>>()),
        (stream.schema(), stream.map(Result::unwrap).collect::<Vec<_>>()),
    ] {
        let time = arrow_schema::DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None);
        assert_eq!(schema.field(0).data_type(), &time);
        let mut read = "t,n\n".to_owned();
        for batch in &batches {
            let text = |column: usize, row: usize| {
                arrow_cast::display::array_value_to_string(batch.column(column), row).unwrap()
            };
            (0..batch.num_rows()).for_each(|row| read += &format!("{},{}\n", text(0, row), text(1, row)));
        }
        assert_eq!(read, rows);
    }
}

#[test]
fn a_time_beyond_the_calendar_is_an_error_and_no_value() {
    let place = Place::new();
    place.write("a.csv", "t,x\n0,NaN\n9223372036854775806,-inf\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    let info = place.output("info s t");
    let times = "times    1970-01-01T00:00:00 to 9223372036854775806 s since 1970";
    assert!(info.contains(times), "{info}");
    for format in ["table", "csv", "json"] {
        let outcome = place.run(&format!("query s t --format {format}"));
        let message = outcome.fails(1);
        assert!(
            message.starts_with(
                "row 2 of the answer has no text for the value in column t: 9223372036854775806 s since 1970, \
                 beyond the calendar; leave out such rows or the column"
            ),
            "{message}"
        );
        place
            .run(&format!("query s t --format {format} --output answer"))
            .fails(1);
        assert!(!place.path("answer").exists());
    }
    assert_eq!(
        place.output("query s t --format json --to 1971"),
        "{\"t\":\"1970-01-01T00:00:00\",\"x\":null}\n"
    );
}

#[test]
fn rows_that_meet_conditions() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,n,state,x y\n2020-01-01 00:00:00,1,ok,1.5\n2020-01-01 00:00:01,2,low,\n\
         2020-01-01 00:00:02,3,\"it's, so\",-2\n2020-01-02 00:00:00,4,ok,7\n",
    );
    place.output("ingest s t a.csv --time t --batch-rows 2");
    for flush in [false, true] {
        if flush {
            place.output("verify s");
        }
        let numbers = |conditions: &[&str]| -> Vec<u32> {
            let mut arguments = vec!["query", "s", "t", "--format", "csv", "--columns", "n"];
            for condition in conditions {
                arguments.extend(["--where", condition]);
            }
            let answer = place.run_with(&arguments).succeeds();
            answer.lines().skip(1).map(|line| line.parse().unwrap()).collect()
        };
        for (condition, expected) in [
            ("n>=3", &[3, 4][..]),
            ("n = 2", &[2]),
            ("n = 2.0", &[2]),
            ("n in (4.0, 1e0)", &[1, 4]),
            ("state = 'ok and low'", &[]),
            ("state = \"null\"", &[]),
            ("state = ''", &[]),
            ("state = orok andor", &[]),
            ("n != 2", &[1, 3, 4]),
            ("n in 4, 1,9", &[1, 4]),
            ("state = ok", &[1, 4]),
            ("state in 'low','ok'", &[1, 2, 4]),
            ("state = \"it's, so\"", &[3]),
            ("x y is null", &[2]),
            ("x y IS NOT NULL", &[1, 3, 4]),
            ("x y < 1.5", &[3]),
            ("t > 2020-01-01", &[2, 3, 4]),
            ("t >= '2020-01-01 00:00:02'", &[3, 4]),
        ] {
            assert_eq!(numbers(&[condition]), expected, "{condition}");
        }
        assert_eq!(numbers(&["n > 1", "state = ok"]), [4]);
        assert!(numbers(&["n > 9"]).is_empty());
    }
    for (condition, reason) in [
        (
            "m = 1",
            "it does not begin with a column of table t; there are: t, n, state, x y",
        ),
        ("n", "it does not begin with a column"),
        ("n ~ 1", "the column is followed by one of"),
        ("n = one", "`one` is not of type int64"),
        ("n = 99999999999999999999", "is not of type int64"),
        ("n = 1.5", "`1.5` is not of type int64"),
        ("t > yesterday", "yesterday"),
        ("state = ok and n = 1", "give --where once for each condition"),
        ("state = ok  OR state = low", "write `in (a, b)`"),
        ("state in (ok or low)", "write `in (a, b)`"),
        ("n = 1 and n = 2", "give --where once for each condition"),
        ("state = null", "`is null` or `is not null`"),
        ("state != NULL", "'NULL' for the text"),
        ("state in (ok, null)", "nothing equals null"),
        ("state =", "'' for an empty text"),
        ("state in (ok,)", "the value is missing"),
    ] {
        let outcome = place.run_with(&["query", "s", "t", "--where", condition]);
        let message = outcome.fails(1);
        assert!(message.contains(reason), "{condition}: {message}");
    }
}

#[test]
fn nans_are_one_value_above_all_numbers_and_zeros_one() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,n,x\n2020-01-01,1,-nan\n2020-01-02,2,NaN\n2020-01-03,3,-0.0\n2020-01-04,4,0\n\
         2020-01-05,5,-inf\n2020-01-06,6,7.5\n2020-01-07,7,\n",
    );
    // Rows of one commit, and of a commit each.
    for batch_rows in [100, 1] {
        let store = format!("s{batch_rows}");
        place.output(&format!(
            "ingest {store} t a.csv --time t --batch-rows {batch_rows}"
        ));
        for (condition, expected) in [
            ("x = NaN", &[1, 2][..]),
            ("x != NaN", &[3, 4, 5, 6]),
            ("x in NaN,7.5", &[1, 2, 6]),
            ("x > 5", &[1, 2, 6]),
            ("x < 5", &[3, 4, 5]),
            ("x = 0", &[3, 4]),
            ("x = -0", &[3, 4]),
            ("x < 0", &[5]),
            ("x >= 0", &[1, 2, 3, 4, 6]),
        ] {
            let query = [
                "query",
                &store,
                "t",
                "--format",
                "csv",
                "--columns",
                "n",
                "--where",
                condition,
            ];
            let answer = place.run_with(&query).succeeds();
            let numbers: Vec<u32> = answer.lines().skip(1).map(|line| line.parse().unwrap()).collect();
            assert_eq!(numbers, expected, "{condition}");
        }
    }
}

#[test]
fn lists_of_values_as_sql_has_them() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,n,name\n1,1,\"Smith, John\"\n2,2,Doe\n3,3,O'Hara\n4,4,Rome (NY)\n5,5,\"Smith\"\n",
    );
    place.output("ingest s t a.csv --time t --time-unit s");
    let query = |condition: &str| {
        let options = ["query", "s", "t", "--format", "csv", "--columns", "n"];
        place.run_with(&[&options[..], &["--where", condition]].concat())
    };
    for (condition, expected) in [
        ("name in 'Smith, John',Doe", &["1", "2"][..]),
        ("name in \"Smith, John\" , 'Doe'", &["1", "2"]),
        ("name in ('Smith, John', 'Doe')", &["1", "2"]),
        ("name IN('Doe')", &["2"]),
        ("name in (Doe,Smith )", &["2", "5"]),
        ("name in O'Hara,Rome (NY)", &["3", "4"]),
        ("name in ('O''Hara','Rome (NY)')", &["3", "4"]),
        ("name = 'O''Hara'", &["3"]),
        ("name = O'Hara", &["3"]),
        ("name = Rome (NY)", &["4"]),
        ("n in (1, 3,5)", &["1", "3", "5"]),
        ("t in ('1970-01-01 00:00:02', @4)", &["2", "4"]),
    ] {
        let answer = query(condition).succeeds();
        assert_eq!(
            answer.lines().skip(1).collect::<Vec<_>>(),
            expected,
            "{condition}"
        );
    }
    for (condition, reason) in [
        (
            "name in 'Smith, John,Doe",
            "the quote that opens 'Smith, John,Doe is not closed",
        ),
        (
            "name in ('Doe', \"Smith)",
            "the quote that opens \"Smith) is not closed",
        ),
        ("name = 'Doe", "the quote that opens 'Doe is not closed"),
        ("name = 'O'Hara'", "`Hara'` follows the closing quote of `O`"),
        ("name in ('Doe','Smith'", "the parenthesis is not closed"),
        (
            "name in Doe,Smith)",
            "a parenthesis of `Smith)` has no counterpart",
        ),
        ("name in (Doe),Smith", "`,Smith` follows the closing parenthesis"),
        (
            "name in (Rome (NY))",
            "a parenthesis of `Rome (NY` has no counterpart",
        ),
        ("name in ()", "the list is empty"),
        ("name in ", "the column is followed by one of"),
        ("n in (1,)", "the value is missing"),
    ] {
        let message = query(condition).fails(1);
        assert!(message.contains(reason), "{condition}: {message}");
    }
}

#[test]
fn a_value_that_no_row_can_have_is_not_rounded_to_one() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,p,day,x,y\n2020-01-01T00:00:00,1.00,2020-01-01,9007199254740992,16777216\n\
         2020-01-01T00:00:01,1.01,2020-01-02,1e300,-0.1\n",
    );
    let schema = "--schema=p:decimal(10,2),day:date32,x:float64,y:float32";
    place
        .run_with(&["ingest", "s", "x", "a.csv", "--time", "t", schema])
        .succeeds();
    let answer = |condition: &str| {
        let query = [
            "query",
            "s",
            "x",
            "--format",
            "csv",
            "--columns",
            "p",
            "--where",
            condition,
        ];
        place.run_with(&query)
    };
    for operator in ["=", "!=", "<", "<=", ">", ">=", "in "] {
        for (column, value, reason) in [
            ("t", "2020-01-01T00:00:00.5", "not a whole number of s since 1970"),
            ("t", "-1ms", "not a whole number of s since 1970"),
            ("p", "1.005", "is not of type decimal128(10, 2)"),
            ("p", "1.00,1.005", "is not of type decimal128(10, 2)"),
            ("day", "2020-01-01T12:00", "is not of type date32"),
            ("day", "-36h", "is not of type date32"),
            ("x", "9007199254740993", "is between two values of type float64"),
            (
                "x",
                "-9007199254740993.0",
                "is between two values of type float64",
            ),
            ("y", "16777217", "is between two values of type float32"),
        ] {
            let message = answer(&format!("{column} {operator}{value}")).fails(1);
            assert!(message.contains(reason), "{column} {operator}{value}: {message}");
        }
    }
    for condition in [
        "t <= 2020-01-01T00:00:00.000",
        "p = 1.0000",
        "p in 1,7",
        "day = 2020-01-01",
        "x = 9007199254740992",
        "x in 9007199254740994,+0009007199254740992.00",
        "x < 9007199254740994",
        "y = 16777216",
        "y > -0.0",
    ] {
        assert_eq!(answer(condition).succeeds(), "p\n1.00\n", "{condition}");
    }
    for condition in ["x = 1e300", "y = -0.1", "y <= -0"] {
        assert_eq!(answer(condition).succeeds(), "p\n1.01\n", "{condition}");
    }
    for condition in ["t < -1h", "day < -7d", "day <= -48h"] {
        assert_eq!(answer(condition).succeeds(), "p\n1.00\n1.01\n", "{condition}");
    }
}

#[test]
fn a_table_gets_columns() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n2,2\n");
    place.output("ingest s a a.csv --time t --time-unit s");
    place.output("ingest s sparse a.csv --time t --time-unit s --layout sparse --interval 1s");
    let rows = place.output("query s a --format csv");
    for (table, columns, code) in [
        ("a", "n:utf8", 1),
        ("a", "x:utf8,t:utf8", 1),
        ("a", "x:utf8,x:int64", 2),
        ("a", "x", 2),
        ("a", "x:words", 2),
        ("sparse", "x:utf8", 1),
    ] {
        let message = place.run_with(&["add-columns", "s", table, columns]).fails(code);
        assert!(message.contains('`') || message.contains("column"), "{message}");
    }
    assert_eq!(place.output("query s a --format csv"), rows);
    let added = "added columns state, since to table a\n";
    assert_eq!(
        place.output("add-columns s a state:utf8,since:timestamp(s)"),
        added
    );
    place.write("b.csv", "t,n,state,since\n3,3,on,1970-01-01T00:00:02\n");
    place.output("ingest s a b.csv");
    assert_eq!(
        place.output("query s a --format csv"),
        "t,n,state,since\n\
         1970-01-01T00:00:01,1,,\n\
         1970-01-01T00:00:02,2,,\n\
         1970-01-01T00:00:03,3,on,1970-01-01T00:00:02\n"
    );
    assert_eq!(
        place.output("query s a --format csv --where state=on --columns n"),
        "n\n3\n"
    );
    let message = place.run("ingest s a a.csv").fails(1);
    assert!(message.contains("a.csv: has no column state"), "{message}");
    place.output("ingest s keyed a.csv --time t --time-unit s --key n");
    place.write("times.csv", "t\n1970-01-01\n");
    let message = place.run("ingest s keyed times.csv --allow-missing").fails(1);
    assert_eq!(message, "times.csv: has no column n, which table keyed has");
    place.output("ingest s a a.csv b.csv --allow-missing");
    assert_eq!(
        place.output("query s a --format csv --columns n,state"),
        "n,state\n1,\n1,\n2,\n2,\n3,on\n3,on\n"
    );
    assert_eq!(
        place.json("add-columns s a \"a,b\":bool --json"),
        serde_json::json!({ "table": "a", "added": ["a,b"] })
    );
    place.output("verify s");
}

#[test]
fn a_renamed_column_has_its_values() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n2,2\n");
    place.write("b.csv", "when,count,state\n3,3,on\n");
    for (table, options) in [
        ("plain", ""),
        ("keyed", " --key n"),
        ("sparse", " --layout sparse --interval 1s"),
    ] {
        let load = format!("ingest s {table} a.csv --time t --time-unit s --source-id a{options}");
        place.output(&load);
        let rows = place.output(&format!("query s {table} --format csv"));
        for (column, new) in [("m", "x"), ("n", "t"), ("n", "n"), ("n", ""), ("t", "_sequence")] {
            let renamed = place.run_with(&["rename-column", "s", table, column, new]);
            let message = renamed.fails(1);
            assert!(
                message.contains("column") || message.contains("_sequence"),
                "{message}"
            );
        }
        assert_eq!(place.output(&format!("query s {table} --format csv")), rows);
        assert_eq!(
            place.output(&format!("rename-column s {table} n count")),
            format!("column n of table {table} is column count now\n")
        );
        assert_eq!(
            place.json(&format!("rename-column s {table} t when --json")),
            serde_json::json!({ "table": table, "column": "t", "renamed": "when" })
        );
        assert_eq!(
            place.output(&format!("query s {table} --format csv --where count>=2")),
            "when,count\n1970-01-01T00:00:02,2\n"
        );
        let message = place.run(&load).fails(1);
        assert!(message.contains("column"), "{message}");
        // The counts of a source follow the table.
        place.write("c.csv", "when,count\n1,1\n2,2\n3,3\n");
        let more = format!("ingest s {table} c.csv --source-id a --json");
        assert_eq!(place.json(&more)["taken_before"], 2);
        assert_eq!(
            place.output(&format!("query s {table} --columns count --format csv")),
            "count\n1\n2\n3\n"
        );
    }
    place.output("add-columns s plain state:utf8");
    place.output("ingest s plain b.csv");
    place.run("rename-column s nothing n m").fails(1);
    place.output("verify s");
}

#[test]
fn a_table_loses_columns() {
    let place = Place::new();
    place.write("a.csv", "t,n,unused,state\n1,1,x,on\n2,2,y,off\n");
    place.write("b.csv", "t,n,state\n1970-01-01T00:00:03,3,on\n");
    place.output("ingest s plain a.csv --time t --time-unit s --source-id a");
    place.output("ingest s keyed a.csv --time t --time-unit s --key n");
    place.output("ingest s sparse a.csv --time t --time-unit s --layout sparse --interval 1s");
    for (table, column, message) in [
        ("plain", "t", "the time of the table"),
        ("keyed", "n", "one of the table's key"),
        ("plain", "missing", "there is no column"),
        ("sparse", "unused", "is sparse"),
        ("nothing", "unused", "no table"),
    ] {
        let failed = place.run(&format!("drop-column s {table} {column}")).fails(1);
        assert!(failed.contains(message), "{failed}");
    }
    assert_eq!(
        place.output("drop-column s plain unused"),
        "dropped column unused of table plain\n"
    );
    assert_eq!(
        place.json("drop-column s keyed unused --json"),
        serde_json::json!({ "table": "keyed", "dropped": "unused" })
    );
    for table in ["plain", "keyed"] {
        let rows = "t,n,state\n\
            1970-01-01T00:00:01,1,on\n\
            1970-01-01T00:00:02,2,off\n";
        let query = |options: &str| place.output(&format!("query s {table} --format csv{options}"));
        assert_eq!(query(""), rows);
        assert_eq!(query(" --where state=off --columns n"), "n\n2\n");
        place.run(&format!("query s {table} --where unused=x")).fails(1);
        place.output(&format!("ingest s {table} b.csv"));
        assert_eq!(query(" --columns n,state"), "n,state\n1,on\n2,off\n3,on\n");
        place.output(&format!(
            "query s {table} --format parquet --output {table}.parquet"
        ));
        place.output(&format!("ingest s {table}.again {table}.parquet --time t"));
        place.output(&format!("convert s {table} {table}.converted --add unused:int64"));
        let copied =
            |of: &str| place.output(&format!("query s {table}.{of} --format csv --columns t,n,state"));
        assert_eq!(copied("again"), query(""));
        assert_eq!(copied("converted"), query(""));
        let info = place.json("info s --json");
        let infos = info["tables"].as_array().unwrap();
        let columns = |name: &str| {
            let info = infos.iter().find(|info| info["name"] == name).unwrap();
            info["columns"].as_array().unwrap().len()
        };
        assert_eq!(columns(table), 3);
        assert_eq!(columns(&format!("{table}.converted")), 4);
    }
    place.output("verify s");
}

#[test]
fn a_renamed_table_has_its_rows() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n2,2\n");
    place.output("ingest s a a.csv --time t --time-unit s");
    place.output("ingest s b a.csv --time t --time-unit s");
    let rows = place.output("query s a --format csv");
    for new in ["b", "a", "", "a\tb"] {
        place.run_with(&["rename", "s", "a", new]).fails(1);
    }
    assert_eq!(place.output("rename s a c"), "table a is table c now\n");
    assert_eq!(place.output("tables s"), "c\nb\n");
    assert_eq!(place.output("query s c --format csv"), rows);
    let message = place.run("rename s a d").fails(1);
    assert!(message.contains("no table"), "{message}");
    assert_eq!(
        place.json("rename s c a --json"),
        serde_json::json!({ "table": "c", "renamed": "a" })
    );
}
