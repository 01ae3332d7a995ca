//! The demo prints what anybody can count in the file.

use crate::harness::{Place, flight_lines, flights};

/// When a flight left, as the file writes it: in UTC, so that times compare as texts. Empty if it
/// did not leave.
fn departure(line: &str) -> &str {
    line.split(',').nth(1).unwrap()
}

#[test]
fn counts_are_those_of_the_file() {
    let lines = flight_lines();
    let departures: Vec<&str> = lines.iter().map(|line| departure(line)).collect();
    let left = departures.iter().filter(|time| !time.is_empty()).count();
    // A day in New York begins at five o'clock UTC in winter.
    let on_day = |day: u32| {
        let (from, to) = (
            format!("2013-02-{day:02}T05:00:00Z"),
            format!("2013-02-{:02}T05:00:00Z", day + 1),
        );
        departures
            .iter()
            .filter(|&&time| from.as_str() <= time && time < to.as_str())
            .count()
    };
    assert_eq!((lines.len(), left), (336_776, 328_521));

    let place = Place::new();
    let data = flights();
    let arguments = ["demo", "--data", data.to_str().unwrap(), "--dir", "d"];
    let text = place.run_with(&arguments).succeeds();
    let said = |number: &str, what: &str| {
        let found = text
            .lines()
            .any(|line| line.trim_start().starts_with(number) && line.contains(what));
        assert!(found, "{number} {what} in\n{text}");
    };
    said("336,776", "rows read");
    said("8,255", "skipped: missing time in column departure");
    said("328,521", "rows stored");
    said("156,941", "K  (47.8 %)");
    said("770", "L  (0.23 %)");
    said("", "rows a second");
    said("", "bytes a row");
    for day in 7..=10 {
        said(&on_day(day).to_string(), &format!("on 2013-02-{day:02}"));
    }
    assert!(on_day(9) < on_day(7) / 2, "the blizzard is to be seen");
    said("328,521", "rows read back");
    said("", "nothing damaged");

    // The rows of the first answer and of the last.
    let answer = |title: &str| -> Vec<&str> {
        let lines = text.lines().skip_while(|line| !line.starts_with(title));
        let rows = lines.skip_while(|line| !line.starts_with("---")).skip(1);
        rows.take_while(|line| !line.starts_with('('))
            .map(|line| line.split("  ").next().unwrap())
            .collect()
    };
    let mut sorted: Vec<&str> = departures
        .iter()
        .copied()
        .filter(|time| !time.is_empty())
        .collect();
    sorted.sort_unstable();
    assert_eq!(answer("The first departures of the year"), sorted[..5]);
    let this_year = sorted.partition_point(|&time| time < "2014-01-01T05:00:00Z");
    let last: Vec<&str> = sorted[..this_year].iter().rev().take(5).copied().collect();
    assert_eq!(answer("The last hour of the year"), last);

    for picture in ["d/disorder.png", "d/disorder.svg"] {
        assert!(
            std::fs::metadata(place.path(picture)).unwrap().len() > 10_000,
            "{picture}"
        );
    }
    assert!(place.output("verify d/flights.bedload").starts_with("OK: "));
    // It can be run again.
    place.run_with(&arguments).succeeds();
}

#[test]
fn what_is_no_earlier_demo_is_left_alone() {
    let place = Place::new();
    let data = flights();
    std::fs::create_dir_all(place.path("d/flights.bedload")).unwrap();
    place.write("d/flights.bedload/letter.txt", "Dear all");
    place
        .run_with(&["demo", "--data", data.to_str().unwrap(), "--dir", "d"])
        .fails(6);
    assert_eq!(
        std::fs::read_to_string(place.path("d/flights.bedload/letter.txt")).unwrap(),
        "Dear all"
    );

    std::fs::remove_file(place.path("d/flights.bedload/letter.txt")).unwrap();
    assert!(
        place
            .run("demo --data none.csv --dir d")
            .fails(1)
            .contains("none.csv: no such file")
    );
}

#[test]
fn a_store_that_no_demo_made_is_not_removed() {
    let place = Place::new();
    std::fs::create_dir(place.path("d")).unwrap();
    place.write("a.csv", "departure,n\n2013-01-01,1\n");
    place.output("ingest d/flights.bedload departures a.csv --time departure");
    place.output("ingest d/flights.bedload mine a.csv --time departure");
    let before = place.contents("d/flights.bedload");
    let data = flights();
    let message = place
        .run_with(&["demo", "--data", data.to_str().unwrap(), "--dir", "d"])
        .fails(1);
    assert!(
        message.contains("d/flights.bedload has a table mine"),
        "{message}"
    );
    assert_eq!(place.contents("d/flights.bedload"), before);

    // Nor is an earlier demo's, if there is nothing to load.
    place.output("drop d/flights.bedload mine");
    let before = place.contents("d/flights.bedload");
    place.write("other.csv", "n\n1\n");
    for data in ["none.csv", "other.csv"] {
        place.run(&format!("demo --data {data} --dir d")).fails(1);
        assert_eq!(place.contents("d/flights.bedload"), before);
    }
}

#[test]
fn every_departure_comes_back_in_order() {
    let place = Place::new();
    let data = flights();
    let data = data.to_str().unwrap();
    place
        .run_with(&[
            "ingest",
            "s",
            "t",
            data,
            "--time",
            "departure",
            "--on-error",
            "skip",
        ])
        .succeeds();
    let mut expected: Vec<String> = flight_lines()
        .into_iter()
        .filter(|line| !departure(line).is_empty())
        .collect();
    // Stable: rows of one departure keep the order of the file.
    expected.sort_by(|a, b| departure(a).cmp(departure(b)));
    let answer = place.output("query s t --format csv");
    let rows: Vec<&str> = answer.lines().skip(1).collect();
    assert_eq!(rows.len(), expected.len());
    if let Some(i) = (0..rows.len()).find(|&i| rows[i] != expected[i]) {
        panic!("row {i} is {}, expected {}", rows[i], expected[i]);
    }
}
