//! Tables of the sparse layout.

use serde_json::{Value, json};

use crate::harness::Place;

fn info(place: &Place, table: &str) -> Value {
    let info: Value = serde_json::from_str(&place.output(&format!("info s {table} --json"))).unwrap();
    info["tables"][0].clone()
}

/// A row every `step` seconds.
fn csv(rows: u64, step: u64) -> String {
    let mut text = "t,x\n".to_owned();
    for row in 0..rows {
        text += &format!("{},{}.5\n", 1_000_000 + row * step, row);
    }
    text
}

#[test]
fn rows_come_back_and_a_later_one_takes_the_place_of_an_earlier() {
    let place = Place::new();
    place.write(
        "a.csv",
        "t,x\n2020-01-01T00:00:00,1\n1969-12-31T23:59:50,2\n2020-01-01T00:00:10,\n",
    );
    place.write("b.csv", "t,x\n2020-01-01T00:00:00,4\n");
    let report = place.output("ingest s t a.csv --time t --layout sparse --interval 10s --order --json");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["rows"], &report["below_running_max"]),
        (&json!(3), &json!(1))
    );
    place.run("ingest s t b.csv").succeeds();
    assert_eq!(
        place.output("query s t --format csv"),
        "t,x\n1969-12-31T23:59:50,2\n2020-01-01T00:00:00,4\n2020-01-01T00:00:10,\n"
    );
    let table = info(&place, "t");
    assert_eq!(
        (&table["layout"], &table["interval_ticks"]),
        (&json!("sparse"), &json!(10))
    );
    assert_eq!(
        (&table["rows"], &table["density"]["replaced"]),
        (&json!(3), &json!(1))
    );
    place.run("delete s t --to 1970-01-01").succeeds();
    place.run("verify s").succeeds();
    assert_eq!(
        place.output("query s t --format csv --reverse --limit 1"),
        "t,x\n2020-01-01T00:00:10,\n"
    );
}

#[test]
fn a_time_off_the_grid_is_an_error_or_moved_on_request() {
    let place = Place::new();
    place.write("a.csv", "t,x\n1000000,1\n1000007,2\n");
    let command = "ingest s t a.csv --time t --time-unit s --interval 5s";
    let refused = place.run(command);
    assert_eq!(refused.code, Some(1));
    let message = "the time 1970-01-12T13:46:47 is not on the grid of table t (sparse, a row every 5s)";
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
    // The store that the run created is gone again.
    assert_eq!(place.run("info s").code, Some(6));
    place.run(&format!("{command} --snap nearest")).succeeds();
    assert_eq!(info(&place, "t")["last_tick"], json!(1_000_005));
    let report = place.output("ingest s down a.csv --time t --time-unit s --interval 10s --snap down --json");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["moved"], &report["collided"]), (&json!(1), &json!(1)));
    let text = place.output("ingest s down a.csv --time-unit s --snap down");
    assert!(text.contains("1 row moved to a time of the grid"), "{text}");
    assert_eq!(info(&place, "down")["rows"], json!(1));
    // A table keeps the interval that it was created with.
    let other = place.run("ingest s t a.csv --interval 10s");
    assert_eq!(other.code, Some(1));
    assert!(
        other.stderr.contains("sparse, a row every 5s"),
        "{}",
        other.stderr
    );
    for wrong in [
        "--layout sparse",
        "--layout indexed --interval 1s",
        "--interval 0s",
        "--interval 1y",
    ] {
        assert_eq!(
            place
                .run(&format!("ingest s new a.csv --time t --time-unit s {wrong}"))
                .code,
            Some(2),
            "{wrong}"
        );
    }
    assert_eq!(
        place
            .run("ingest s new a.csv --time t --time-unit s --interval 1ms")
            .code,
        Some(1)
    );
}

#[test]
fn scattered_rows_are_advised_to_another_layout_and_converted_either_way() {
    let place = Place::new();
    place.write("dense.csv", csv(20_000, 1));
    place.write("scattered.csv", csv(2_000, 500));
    for table in ["dense", "scattered"] {
        place
            .run(&format!(
                "ingest s {table} {table}.csv --time t --time-unit s --interval 1s"
            ))
            .succeeds();
    }
    assert_eq!(info(&place, "dense")["density"]["advises_indexed"], json!(false));
    assert!(!place.output("info s dense").contains("advice"));
    assert_eq!(
        info(&place, "scattered")["density"]["advises_indexed"],
        json!(true)
    );
    let text = place.output("info s scattered");
    assert!(text.contains("layout   sparse, a row every 1s"), "{text}");
    assert!(text.contains("advice   below"), "{text}");

    let rows = place.output("query s scattered --format csv");
    place
        .run("convert s scattered indexed --layout indexed")
        .succeeds();
    assert_eq!(place.output("query s indexed --format csv"), rows);
    place.run("convert s indexed again --interval 1s").succeeds();
    assert_eq!(place.output("query s again --format csv"), rows);
    assert_eq!(info(&place, "indexed")["layout"], json!("indexed"));
    let refused = place.run("convert s indexed minutes --interval 1min");
    assert_eq!(refused.code, Some(1));
    assert_eq!(
        place.run("info s minutes").code,
        Some(1),
        "nothing is left of a table that could not be filled"
    );
    let copied = place.output("convert s indexed minutes --interval 1h --snap down --json");
    let copied: Value = serde_json::from_str(&copied).unwrap();
    assert_eq!((&copied["rows"], &copied["kept"]), (&json!(2_000), &json!(279)));
    place.run("verify s").succeeds();
}

#[test]
fn scattered_rows_take_no_more_space_converted_than_in_a_table_that_was_always_indexed() {
    let used = |place: &Place, store: &str| {
        let info: Value = serde_json::from_str(&place.output(&format!("info {store} --json"))).unwrap();
        info["used_bytes"].as_f64().unwrap()
    };
    let place = Place::new();
    place.write("a.csv", csv(40_000, 40));
    place.write("one.csv", "t,x\n1,0.5\n");
    place
        .run("ingest s scattered a.csv --time t --time-unit s --interval 1s")
        .succeeds();
    let density = info(&place, "scattered")["density"].clone();
    assert_eq!(density["advises_indexed"], json!(true), "{density}");
    assert!(place.output("info s scattered").contains("advice   below"));
    let before = used(&place, "s");
    place
        .run("convert s scattered indexed --layout indexed")
        .succeeds();
    let converted = used(&place, "s") - before;

    place.run("ingest d t one.csv --time t --time-unit s").succeeds();
    let before = used(&place, "d");
    place.run("ingest d t a.csv --time-unit s").succeeds();
    let indexed = used(&place, "d") - before;
    assert!(indexed > 40_000.0, "{indexed} bytes");
    // A table has a few pages before it has rows: the other one has them already.
    let most = 1.2 * indexed + 64.0 * 1024.0;
    assert!(converted <= most, "{converted} and {indexed} bytes");
    assert!(
        density["disk_bytes"].as_f64().unwrap() > 1.2 * indexed,
        "{density}, {indexed} bytes"
    );
}

#[test]
fn a_backup_is_a_store_and_comes_back_as_one() {
    let place = Place::new();
    place.write("a.csv", csv(5000, 1));
    place
        .run("ingest s t a.csv --time t --time-unit s --layout sparse --interval 1s")
        .succeeds();
    place.run("ingest s u a.csv --time t --time-unit s").succeeds();
    let report: Value = serde_json::from_str(&place.output("backup s copy --json")).unwrap();
    assert_eq!(report["rows"], json!(10_000));
    assert!(report["blocks"].as_u64().unwrap() > 1);
    assert!(place.output("restore copy back").contains("10,000 rows"));
    for table in ["t", "u"] {
        let rows = |store: &str| place.output(&format!("query {store} {table} --format csv"));
        assert_eq!(rows("s"), rows("back"));
    }
    place.run("verify back").succeeds();
    assert!(place.run("backup s copy").fails(1).contains("exists already"));
    assert!(
        place
            .run("restore nowhere there")
            .fails(6)
            .contains("nowhere is not a bedload store: it does not exist")
    );
}

#[test]
fn times_between_two_ticks_are_moved_to_the_grid_too() {
    let place = Place::new();
    // Milliseconds after a minute of 1970, which is on each of the grids.
    let after = [
        0, 1, 400, 499, 500, 501, 999, 1000, 1001, 1499, 1500, 1999, 2000, 2499, 2500, 2999,
    ];
    let minutes = (-8..8).map(|minute: i64| 60_000 * minute);
    let millis: Vec<i64> = minutes.zip(after).map(|(minute, after)| minute + after).collect();
    let lines = |millis: &[i64]| -> String {
        let sign = |millis: i64| if millis < 0 { "-" } else { "" };
        let line = |&millis: &i64| {
            let (seconds, rest) = (millis.abs() / 1000, millis.abs() % 1000);
            format!("{}{seconds}.{rest:03},{millis}\n", sign(millis))
        };
        "t,x\n".to_owned() + &millis.iter().map(line).collect::<String>()
    };
    place.write("numbers.csv", lines(&millis));
    // The same times as texts.
    let ingest = "ingest fine t numbers.csv --time t --schema t:timestamp(ms) --time-unit s";
    place.output(ingest);
    place.output("query fine t --output texts.csv");
    place.write("first.csv", lines(&millis[..4]));
    for interval in [1, 2, 3] {
        for snap in ["nearest", "down"] {
            let halves = if snap == "nearest" { interval } else { 0 };
            let place_of = |millis: i64| (2 * millis + 1000 * halves).div_euclid(2000 * interval) * interval;
            let moved = |millis: &[i64]| millis.iter().filter(|&&ms| 1000 * place_of(ms) != ms).count();
            let expected: String = millis
                .iter()
                .map(|&ms| format!("{},{ms}\n", place_of(ms)))
                .collect();
            let of = |file: &str| {
                let table = format!("{file}_{interval}_{snap}");
                format!(
                    "s {table} {file}.csv --time t --schema t:timestamp(s) --interval {interval}s --snap {snap} \
                     --json --source-id one"
                )
            };
            for file in ["numbers", "texts"] {
                let report = place.json(&format!("ingest {} --time-unit s", of(file)));
                assert_eq!(report["moved"], moved(&millis), "{}", of(file));
                let table = format!("{file}_{interval}_{snap}");
                let rows = place.output(&format!("query s {table} --columns t,x --format csv"));
                let texts = rows.lines().skip(1).map(|row| row.split_once(',').unwrap());
                let found: String = texts
                    .map(|(time, x)| format!("{},{x}\n", seconds_since_1970(time)))
                    .collect();
                assert_eq!(found, expected, "{table}");
            }
            // Rows that an earlier run has taken are not counted again.
            let first = of("first");
            place.json(&format!("ingest {first} --time-unit s"));
            let rest = first.replace("first.csv", "numbers.csv");
            let report = place.json(&format!("ingest {rest} --time-unit s"));
            assert_eq!(report["moved"], moved(&millis[4..]), "{rest}");
        }
    }
    let refused = "ingest s numbers_1_down texts.csv --schema t:timestamp(s)";
    let message = place.run(refused).fails(1);
    assert!(
        message.contains("is finer than its type timestamp(s)"),
        "{message}"
    );
}

/// Seconds of a time within an hour of 1970.
fn seconds_since_1970(time: &str) -> i64 {
    let (date, clock) = time.split_once('T').unwrap();
    let parts: Vec<i64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    let day = if date == "1970-01-01" { 0 } else { -86_400 };
    day + 3600 * parts[0] + 60 * parts[1] + parts[2]
}

/// Rows of which some lie between two ticks, and some cannot be taken: a time that is none, three
/// fields, and a row that is too long.
fn with_rejected_rows() -> String {
    let long = "x".repeat(2 << 20);
    format!("t,x\n0.5,a\nbad,b\n2.5,c\n5.5,d\n1,2,3\n6.5,{long}\n7,e\n8.5,f\n")
}

#[test]
fn rows_before_one_that_ends_a_live_feed_are_moved_to_the_grid() {
    let place = Place::new();
    let ingest =
        "--time t --schema t:timestamp(s),x:utf8 --time-unit s --interval 2s --snap down --follow --every 1s";
    let rows = with_rejected_rows();
    for (table, removed, kept) in [
        ("a", "", "a"),
        ("b", "bad,b\n", "a c d"),
        ("c", "bad,b\n1,2,3\n", "a c d"),
    ] {
        let rows = removed
            .lines()
            .fold(rows.clone(), |rows, line| rows.replace(&format!("{line}\n"), ""));
        let message = place
            .run_fed(&format!("ingest s {table} - {ingest}"), rows.as_bytes())
            .fails(1);
        assert!(message.ends_with("of this run stay"), "{message}");
        let found = place.output(&format!("query s {table} --columns x --format csv"));
        assert_eq!(found.lines().skip(1).collect::<Vec<_>>().join(" "), kept);
    }
}

#[test]
fn rows_that_were_moved_are_counted_among_those_that_are_taken() {
    let place = Place::new();
    let rows = with_rejected_rows();
    let ingest = "--time t --schema t:timestamp(s),x:utf8 --time-unit s --interval 2s --snap down --on-error skip \
                  --json";
    for (table, follow) in [("a", ""), ("b", "--follow --every 1s")] {
        let ingested = place.run_fed(&format!("ingest s {table} - {ingest} {follow}"), rows.as_bytes());
        let report: Value = serde_json::from_str(&ingested.succeeds()).unwrap();
        assert_eq!(
            (&report["rows"], &report["moved"]),
            (&5.into(), &5.into()),
            "{follow}"
        );
        assert_eq!(
            place.output(&format!("query s {table} --columns x --format csv")),
            "x\na\nc\nd\ne\nf\n"
        );
    }
}

#[test]
fn no_option_is_advised_for_a_time_that_the_grid_does_not_reach() {
    let place = Place::new();
    place.write("a.csv", "t,x\n9223372036854775807,1\n");
    let ingest = "ingest s t a.csv --time t --time-unit ns --interval 10s";
    let message = place.run(ingest).fails(1);
    assert!(message.contains("--snap nearest or --snap down"), "{message}");
    place.run(&format!("{ingest} --snap down")).succeeds();
    let message = place.run("ingest s t a.csv --snap nearest").fails(1);
    let expected = "the time 2262-04-11T23:47:16.854775807 cannot be moved to the grid of table t (sparse, a row every \
                    10s), which has no time of 64 bits there";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn rows_are_not_moved_where_there_is_no_grid() {
    let place = Place::new();
    place.write("a.csv", csv(3, 1));
    let ingest = |rest: &str| place.run(&format!("ingest s t a.csv --time t --time-unit s {rest}"));
    let error = ingest("--snap down").fails(2);
    assert!(error.contains("--snap is for a sparse table"), "{error}");
    assert!(!place.path("s").exists());
    ingest("--snap refuse").succeeds();
    let error = ingest("--snap nearest").fails(1);
    assert!(error.contains("table t is indexed"), "{error}");
    let error = place.run("convert s t u --layout indexed --snap down").fails(2);
    assert!(error.contains("--snap is for a sparse table"), "{error}");
    assert_eq!(place.output("tables s"), "t\n");
}
