//! `ingest --source-id`: every row of an input once, however often a run fails and begins again.

use std::process::Stdio;
use std::time::Duration;

use bedload_testkit::Rng;

use crate::harness::{Place, flights};

const INGEST: &str = "ingest s t rows.csv --time t --time-unit ms --source-id rows";

/// Rows of two columns: a time that is now and then late, and the row's number.
fn csv(rows: u64) -> String {
    let row = |row: u64| format!("{},{row}\n", row * 10 + row % 7 * 25);
    let rows: String = (0..rows).map(row).collect();
    format!("t,row\n{rows}")
}

/// The rows of the table by their numbers.
fn numbers(place: &Place) -> Vec<u64> {
    let answer = place.output("query s t --columns row --format csv");
    let mut numbers: Vec<u64> = answer.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_second_run_takes_only_new_rows() {
    let place = Place::new();
    place.write("rows.csv", csv(1000));
    let first = place.json(&format!("{INGEST} --json --batch-rows 300"));
    assert_eq!(
        (&first["rows"], &first["taken_before"]),
        (&1000.into(), &0.into())
    );
    let again = place.json(&format!("{INGEST} --json --batch-rows 7"));
    assert_eq!(
        (&again["rows"], &again["taken_before"]),
        (&0.into(), &1000.into())
    );

    place.write("rows.csv", csv(1500));
    let grown = place.output(&format!("{INGEST} --batch-rows 400"));
    assert!(grown.contains("1,000 rows already there"), "{grown}");
    assert_eq!(numbers(&place), (0..1500).collect::<Vec<_>>());

    // Another id, and another table, begin at the first row.
    let other = place.json("ingest s t rows.csv --source-id other --json");
    assert_eq!(other["rows"], 1500);
    place.output("ingest s u rows.csv --time t --time-unit ms --source-id rows");
    assert_eq!(place.json("info s --json")["tables"].as_array().unwrap().len(), 3);
}

#[test]
fn tables_of_the_command_are_not_for_other_rows() {
    let place = Place::new();
    place.write("rows.csv", csv(10));
    place.output(INGEST);
    let counts = place.output("query s bedload.sources");
    for refused in [
        "ingest s bedload.sources rows.csv --time t --time-unit ms",
        "rename s bedload.sources u",
        "rename s t bedload.sources",
        "add-columns s bedload.sources x:utf8",
        "rename-column s bedload.sources rows x",
        "drop-column s bedload.sources rows",
        "convert s bedload.sources u --remove last",
        "convert s t bedload.sources --remove row",
        "drop s bedload.sources",
        "delete s bedload.sources --from 2020-01-01",
        "retention s bedload.sources 1h",
    ] {
        let refused = place.run(refused);
        let message = "table bedload.sources is for the command alone, which keeps the counts of --source-id";
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
    }
    let unfinished = "(unfinished convert)";
    for refused in [
        vec![
            "ingest",
            "s",
            unfinished,
            "rows.csv",
            "--time",
            "t",
            "--time-unit",
            "ms",
        ],
        vec!["rename", "s", "t", unfinished],
        vec!["convert", "s", "t", unfinished, "--remove", "row"],
    ] {
        let refused = place.run_with(&refused);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        let message = "table (unfinished convert) is for the command alone";
        assert!(refused.stderr.contains(message), "{}", refused.stderr);
    }
    assert_eq!(place.output("tables s"), "t\nbedload.sources\n");
    assert_eq!(place.output("query s bedload.sources"), counts);
    assert_eq!(place.json(&format!("{INGEST} --json"))["rows"], 0);
}

/// The second run knows the types of the table that the first one made; it takes the same rows.
#[test]
fn a_second_run_reads_rows_as_the_first_did() {
    let place = Place::new();
    let skip = "ingest s t rows.csv --time t --source-id rows --on-error skip --json";
    let head = "t,row,n\n0,1,1\n2026-01-01 00:00:00,2,1\n2026-01-01 00:00:00,3,1\n";
    place.write("rows.csv", head);
    assert_eq!(place.json(skip)["rows"], 2);
    assert_eq!(place.json(skip)["rows"], 0);
    place.write(
        "rows.csv",
        format!("{head}2026-01-02,4,007\n2026-01-03,5,+5\n2026-01-04,6,7\n"),
    );
    assert_eq!(place.json(skip)["rows"], 1);
    assert_eq!(numbers(&place), [2, 3, 6]);
    let given = "ingest s t rows.csv --source-id other --schema n:int64 --on-error skip --json";
    assert_eq!(place.json(given)["rows"], 5);
}

#[test]
fn counts_are_listed_and_forgotten() {
    let place = Place::new();
    place.write("rows.csv", csv(1200));
    place.output(INGEST);
    assert_eq!(place.output("sources s t"), "      1,200 rows of rows\n");
    place.output(&INGEST.replace("ingest s t", "ingest s u"));
    place.output(&INGEST.replace("--source-id rows", "--source-id other"));
    place.write("rows.csv", csv(1300));
    place.output(INGEST);
    assert_eq!(
        place.output("sources s t"),
        "      1,200 rows of other\n      1,300 rows of rows\n"
    );
    let json = serde_json::json!({
        "table": "t",
        "sources": [{ "id": "other", "rows": 1200 }, { "id": "rows", "rows": 1300 }],
    });
    assert_eq!(place.json("sources s t --json"), json);
    assert_eq!(
        place.run("sources s t --forget none").fails(1),
        "table t has no source none; there are: other, rows"
    );
    assert_eq!(
        place.output("sources s t --forget rows"),
        "forgot source rows of table t, which counted 1,300 rows\n"
    );
    assert_eq!(place.output("sources s t"), "      1,200 rows of other\n");
    assert_eq!(place.output("sources s u"), "      1,200 rows of rows\n");
    assert_eq!(place.json(&format!("{INGEST} --json"))["rows"], 1300);
    assert_eq!(
        place.json("sources s t --forget rows --json"),
        serde_json::json!({ "table": "t", "forgot": "rows", "rows": 1300 })
    );

    place.output("ingest without t rows.csv --time t --time-unit ms");
    assert_eq!(place.output("sources without t"), "");
    place.run("sources s none").fails(1);
    place.run("sources none t").fails(6);
}

#[test]
fn several_files_are_one_input() {
    let place = Place::new();
    let all = csv(900);
    let lines: Vec<&str> = all.lines().collect();
    for (part, lines) in lines[1..].chunks(300).enumerate() {
        place.write(&format!("{part}.csv"), format!("t,row\n{}\n", lines.join("\n")));
    }
    let ingest = |files: &str| {
        place.json(&format!(
            "ingest s t {files} --time t --time-unit ms --source-id parts --json --batch-rows 70"
        ))
    };
    assert_eq!(ingest("0.csv 1.csv")["rows"], 600);
    assert_eq!(ingest("0.csv 1.csv 2.csv")["rows"], 300);
    assert_eq!(numbers(&place), (0..900).collect::<Vec<_>>());
}

#[test]
fn a_dropped_table_takes_its_positions_with_it() {
    let place = Place::new();
    place.write("rows.csv", csv(100));
    place.output(INGEST);
    place.output("drop s t");
    assert_eq!(place.json(&format!("{INGEST} --json"))["rows"], 100);
    assert_eq!(numbers(&place), (0..100).collect::<Vec<_>>());
}

#[test]
fn other_input_under_the_same_id_is_refused() {
    let place = Place::new();
    place.write("rows.csv", csv(100));
    place.output(INGEST);
    let before = place.contents("s");

    place.write(
        "rows.csv",
        csv(100).replace("\n990,", "\n991,").replace("1015,99", "1016,99"),
    );
    let message = place.run(INGEST).fails(1);
    assert!(message.contains("row 100 of source rows"), "{message}");
    place.write("rows.csv", csv(60));
    let message = place.run(INGEST).fails(1);
    assert!(message.contains("the input has 60 rows"), "{message}");
    assert_eq!(place.contents("s"), before);
}

#[test]
fn a_bad_row_stops_a_run_that_goes_on_once_it_is_mended() {
    let place = Place::new();
    let good = csv(1000);
    place.write("rows.csv", good.replace(",700\n", ",seven\n"));
    let message = place
        .run(&format!("{INGEST} --batch-rows 100 --schema row:int64"))
        .fails(1);
    assert!(message.contains("700 rows of this run stay"), "{message}");
    assert_eq!(numbers(&place), (0..700).collect::<Vec<_>>());
    place.write("rows.csv", good);
    assert_eq!(place.json(&format!("{INGEST} --json"))["rows"], 300);
    assert_eq!(numbers(&place), (0..1000).collect::<Vec<_>>());

    // A run that took nothing leaves nothing.
    let place = Place::new();
    place.write("rows.csv", "t,row\n1,2\nx,3\n");
    place.run(INGEST).fails(1);
    assert!(!place.path("s").exists());
}

#[test]
fn sparse_tables_and_real_rows_have_positions_too() {
    let place = Place::new();
    let rows: String = (0..5000).map(|row| format!("{},{row}\n", row * 10)).collect();
    place.write("rows.csv", format!("t,row\n{rows}"));
    let sparse = format!("{INGEST} --layout sparse --interval 10ms --json --batch-rows 999");
    assert_eq!(place.json(&sparse)["rows"], 5000);
    assert_eq!(place.json(&sparse)["rows"], 0);
    assert_eq!(numbers(&place), (0..5000).collect::<Vec<_>>());

    let file = flights();
    let ingest = |batch_rows: &str| {
        let file = file.to_str().unwrap();
        let rest = "--time departure --on-error skip --source-id flights --json --batch-rows";
        let mut arguments = vec!["ingest", "f", "departures", file];
        arguments.extend(rest.split_whitespace());
        arguments.push(batch_rows);
        let answer = place.run_with(&arguments).succeeds();
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()
    };
    let first = ingest("1000");
    let again = ingest("65536");
    assert_eq!(again["rows"], 0);
    assert_eq!(again["taken_before"], first["rows"]);
    assert_eq!(again["table_rows"], first["table_rows"]);
}

#[test]
fn killed_at_any_point_every_row_is_there_once() {
    const ROWS: u64 = 20_000;
    let place = Place::new();
    place.write("rows.csv", csv(ROWS));
    let mut random = Rng::new(0x5_0c1d);
    let mut kills = 0;
    loop {
        let mut child = place
            .command(&format!("{INGEST} --batch-rows 100"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(5000 + random.below(25_000)));
        let finished = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        match finished {
            Some(status) => {
                assert!(status.success(), "{status}");
                break;
            }
            None => kills += 1,
        }
        if kills == 200 {
            // A slow machine: the last run is left alone.
            place.output(INGEST);
            break;
        }
    }
    assert!(kills > 0);
    assert_eq!(numbers(&place), (0..ROWS).collect::<Vec<_>>());
    assert!(place.output("verify s").starts_with("OK: "));
}
