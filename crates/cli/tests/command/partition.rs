//! `query --partition`: which rows go to which file, and which files are replaced.

use crate::harness::Place;

#[test]
fn a_file_for_each_day_or_month() {
    let place = Place::new();
    let row = |hour: i64| format!("{},{hour}\n", 1_362_000_000 + hour * 3600);
    place.write(
        "a.csv",
        "t,n\n".to_owned() + &(0..72).map(row).collect::<String>(),
    );
    let schema = "--schema=t:timestamp(s, America/New_York),n:int64";
    place
        .run_with(&["ingest", "s", "t", "a.csv", "--time", "t", schema])
        .succeeds();
    let whole = place.output("query s t --format csv");
    let said = place.output("query s t --format csv --partition day --output days");
    assert_eq!(said, "72 rows in 4 files of days\n");
    let mut names: Vec<String> = std::fs::read_dir(place.path("days"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "2013-02-27.csv",
        "2013-02-28.csv",
        "2013-03-01.csv",
        "2013-03-02.csv",
    ];
    assert_eq!(names, expected);
    let read = |file: &str| std::fs::read_to_string(place.path(file)).unwrap();
    let mut joined = "t,n\n".to_owned();
    for name in &names {
        let part = read(&format!("days/{name}"));
        let rows = part.strip_prefix("t,n\n").unwrap();
        let day = name.strip_suffix(".csv").unwrap();
        assert!(rows.lines().all(|row| row.starts_with(day)), "{part}");
        joined += rows;
    }
    assert_eq!(joined, whole);

    // Files for periods of which no row is in the answer are not written.
    let said = place.output(
        "query s t --format parquet --partition month --from 2013-02-28 --columns t --where n>=40 --output months",
    );
    assert_eq!(said, "32 rows in 1 file of months\n");
    place.output("ingest march t months/2013-03.parquet --time t");
    assert_eq!(place.json("info march --json")["tables"][0]["rows"], 32);
    let said = place.output("query s t --format csv --partition day --to 2013 --output none");
    assert_eq!(said, "0 rows in 0 files of none\n");
}

#[test]
fn a_file_is_not_replaced_by_a_part_of_its_day() {
    let place = Place::new();
    let row = |hour: i64| format!("{},{hour}\n", 1_362_009_600 + hour * 3600);
    place.write(
        "a.csv",
        "t,n\n".to_owned() + &(0..72).map(row).collect::<String>(),
    );
    place.output("ingest s t a.csv --time t --time-unit s");
    let export = "query s t --format csv --partition day --replace --output days";
    // There is nothing yet that could be replaced.
    let said = place.output(&format!("{export} --from 2013-02-28T12:00 --to 2013-03-01T12:00"));
    assert_eq!(said, "24 rows in 2 files of days\n");
    place.output(export);
    let read = |day: &str| std::fs::read_to_string(place.path(&format!("days/{day}.csv"))).unwrap();
    let days = ["2013-02-28", "2013-03-01", "2013-03-02"];
    let whole = days.map(read);
    for (range, day) in [
        ("--last 1d", "2013-03-01"),
        ("--from 2013-02-28T12:00", "2013-02-28"),
        ("--from 2013-02-28 --to 2013-03-02T01:00", "2013-03-02"),
    ] {
        let message = place.run(&format!("{export} {range}")).fails(1);
        assert!(
            message.contains(&format!("days/{day}.csv exists")),
            "{range}: {message}"
        );
        assert_eq!(days.map(read), whole, "{range}");
    }
    let said = place.output(&format!("{export} --from 2013-03-01 --to 2013-03-02"));
    assert_eq!(said, "24 rows in 1 file of days\n");
    assert_eq!(days.map(read), whole);
}

#[test]
fn the_first_of_two_midnights_begins_a_month() {
    let place = Place::new();
    // 23:30, 00:30 and once more 00:30 of clocks that went from 01:00 back to 00:00.
    place.write(
        "a.csv",
        "t,n\n2020-11-01T03:30:00Z,1\n2020-11-01T04:30:00Z,2\n2020-11-01T05:30:00Z,3\n",
    );
    let schema = "--schema=t:timestamp(s, America/Havana),n:int64";
    place
        .run_with(&["ingest", "s", "t", "a.csv", "--time", "t", schema])
        .succeeds();
    let said = place.output("query s t --format csv --columns n --partition month --output months");
    assert_eq!(said, "3 rows in 2 files of months\n");
    let read = |month| std::fs::read_to_string(place.path(&format!("months/{month}.csv"))).unwrap();
    assert_eq!(read("2020-10"), "n\n1\n");
    assert_eq!(read("2020-11"), "n\n2\n3\n");
}

#[test]
fn a_partition_that_makes_no_files_is_wrong_usage() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    for options in [
        "--partition day --output d",
        "--partition day --format csv",
        "--partition week --format csv --output d",
        "--partition day --format csv --output d --limit 1",
        "--partition day --format csv --output d --reverse",
        "--format csv --output d --replace",
    ] {
        place.run(&format!("query s t {options}")).fails(2);
    }
    assert!(!place.path("d").exists());
    // A file where the directory is to be.
    place
        .run("query s t --partition day --format csv --output a.csv")
        .fails(5);
}

#[test]
fn a_row_outside_the_calendar_has_no_file() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n9999999999999999,2\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    for period in ["day", "month"] {
        let export = format!("query s t --partition {period} --format csv --output d");
        let message = place.run(&export).fails(1);
        assert_eq!(
            message,
            "table t has a row at 9999999999999999 s, outside the calendar, after whose day or month no file can be \
             named: leave it out with --from or --to"
        );
        assert!(!place.path("d").exists());
    }
    place.output("query s t --partition day --format csv --output d --to 9999");
    assert!(place.path("d/1970-01-01.csv").exists());
}

#[test]
fn files_are_replaced_only_on_demand() {
    let place = Place::new();
    let row = |day: i64| format!("{},{day}\n", 1_362_009_600 + day * 86_400);
    place.write("a.csv", format!("t,n\n{}{}{}", row(0), row(1), row(2)));
    place.output("ingest s t a.csv --time t --time-unit s");
    let export = "query s t --format csv --partition day --output days";
    place.output(&format!("{export} --to 2013-03-02"));
    let days = ["2013-02-28", "2013-03-01", "2013-03-02"];
    let read = |day: &str| std::fs::read_to_string(place.path(&format!("days/{day}.csv"))).ok();
    let before = days.map(read);

    // Exported rows are deleted, and a late row of their first day arrives.
    place.output("delete s t --to 2013-03-02");
    place.write("late.csv", "t,n\n2013-02-28T01:00:00,9\n");
    place.output("ingest s t late.csv --time t");
    let message = place.run(export).fails(1);
    assert!(message.contains("days/2013-02-28.csv exists"), "{message}");
    assert!(message.contains("--replace"), "{message}");
    assert_eq!(days.map(read), before);
    // Days of which no row is in the answer have no file to replace.
    place.output(&format!("{export} --where n<9"));
    assert!(read("2013-03-02").is_some());
    let message = place.run(export).fails(1);
    assert!(
        message.contains("days/2013-02-28.csv and 1 more file exist"),
        "{message}"
    );

    place.output(&format!("{export} --replace"));
    let late = "t,n\n2013-02-28T01:00:00,9\n".to_owned();
    assert_eq!(read("2013-02-28"), Some(late));
}

#[test]
fn files_of_periods_without_rows_are_removed_on_demand() {
    let place = Place::new();
    let row = |day: i64| format!("{},{day}\n", 1_362_009_600 + day * 86_400);
    place.write("a.csv", "t,n\n".to_owned() + &(0..7).map(row).collect::<String>());
    place.output("ingest s t a.csv --time t --time-unit s");
    let names = || {
        let entries = std::fs::read_dir(place.path("days")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("2013-0")).collect();
        names.sort();
        names
    };
    let export = "query s t --format csv --partition day --output days";
    place.output(export);
    // Files that no such export writes.
    let others = [
        "2013-03.csv",
        "2013-03-02.parquet",
        "2013-03-02.csv.gz",
        "2013-03-02csv",
        "2013-03-2.csv",
        " 2013-03-02.csv",
        "@1362182400.csv",
        "-1d.csv",
        "notes.csv",
    ];
    for name in others {
        place.write(&format!("days/{name}"), "");
    }
    std::fs::create_dir(place.path("days/2013-02-26.csv")).unwrap();
    std::os::unix::fs::symlink("notes.csv", place.path("days/2013-02-27.csv")).unwrap();
    let all = names();

    // The table has rows from 2013-02-28 to 2013-03-06. The first two days, the last two and one
    // day in the middle are deleted.
    place.output("delete s t --to 2013-03-02");
    place.output("delete s t --from 2013-03-03 --to 2013-03-04");
    place.output("delete s t --from 2013-03-05");
    let kept = |gone: &[&str]| {
        let is_kept = |name: &&String| !gone.iter().any(|day| **name == format!("{day}.csv"));
        all.iter().filter(is_kept).cloned().collect::<Vec<_>>()
    };
    // Only with --replace, and only days of which all is in the range.
    place.output(&format!("{export} --from 2013-03-05"));
    assert_eq!(names(), all);
    let message = place
        .run(&format!("{export} --replace --from 2013-03-03T01:00"))
        .fails(1);
    assert!(message.contains("days/2013-03-03.csv exists"), "{message}");
    assert_eq!(names(), all);
    // Files before the first row and after the last may be all that is left of deleted rows.
    assert_eq!(
        place.output(&format!("{export} --replace")),
        "2 rows in 2 files of days; removed 1 file without rows now\n"
    );
    assert_eq!(names(), kept(&["2013-03-03"]));
    assert_eq!(
        place.output(&format!("{export} --replace --from 2013-03-01")),
        "2 rows in 2 files of days; removed 1 file without rows now\n"
    );
    assert_eq!(names(), kept(&["2013-03-01", "2013-03-03"]));
    assert_eq!(
        place.output(&format!(
            "{export} --replace --from 2013-02 --to 2013-04 --where n!=2"
        )),
        "1 row in 1 file of days; removed 4 files without rows now\n"
    );
    assert_eq!(
        names(),
        kept(&[
            "2013-02-28",
            "2013-03-01",
            "2013-03-02",
            "2013-03-03",
            "2013-03-05",
            "2013-03-06"
        ])
    );
    assert!(
        others
            .iter()
            .all(|name| place.path(&format!("days/{name}")).exists())
    );
    assert_eq!(
        place.output(&format!("{export} --replace")),
        "2 rows in 2 files of days\n"
    );
}

#[test]
fn a_directory_may_be_named_like_a_compressed_file() {
    let place = Place::new();
    place.write("a.csv", "t,n\n1,1\n");
    place.output("ingest s t a.csv --time t --time-unit s");
    for format in ["parquet", "csv"] {
        place.output(&format!(
            "query s t --format {format} --partition day --output days.gz"
        ));
        assert!(place.path(&format!("days.gz/1970-01-01.{format}")).exists());
    }
}
