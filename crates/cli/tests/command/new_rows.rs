//! `query --mark`: rows by their arrival.

use std::fs;

use crate::harness::Place;
use crate::running::Running;

const QUERY: &str = "query s t --columns x --format csv --mark mark";

/// Two rows, and then two more, one of which is late.
fn place() -> Place {
    let place = Place::new();
    place.write(
        "first.csv",
        "at,x\n2026-01-01 00:00:01,1\n2026-01-01 00:00:03,3\n",
    );
    place.write(
        "second.csv",
        "at,x\n2026-01-01 00:00:02,2\n2026-01-01 00:00:04,4\n",
    );
    place.output("ingest s t first.csv --time at");
    place
}

#[test]
fn each_row_comes_once_when_it_has_arrived() {
    let place = place();
    assert_eq!(place.output(QUERY), "x\n1\n3\n");
    assert_eq!(place.output(QUERY), "x\n");
    place.output("ingest s t second.csv");
    assert_eq!(place.output(QUERY), "x\n2\n4\n");
    assert_eq!(place.output(QUERY), "x\n");
}

#[test]
fn rows_that_arrive_beside_the_query_come_with_the_next() {
    let place = place();
    place.output("ingest store t first.csv --time at");
    let query = "query store t --columns x --format csv --mark mark";
    let mut writer = Running::ingest(&place, "--batch-rows 1");
    writer.feed("at,x\n2026-01-01 00:00:00,0\n", 1);
    assert_eq!(place.output(query), "x\n0\n1\n3\n");
    writer.feed("2026-01-01 00:00:02,2\n", 2);
    assert_eq!(place.output(query), "x\n2\n");
    writer.kill();
    assert_eq!(place.output(query), "x\n");
}

#[test]
fn a_query_that_fails_leaves_the_mark() {
    let place = place();
    // A link to the mark before there is one, and directories that do not exist.
    std::os::unix::fs::symlink("mark", place.path("link")).unwrap();
    let error = place.run(&format!("{QUERY} --output link")).fails(2);
    assert!(error.contains("the same file"), "{error}");
    let elsewhere = QUERY.replace("--mark mark", "--mark none/mark");
    place.run(&format!("{elsewhere} --output other/out")).fails(5);
    place.output(&format!("{QUERY} --output first.out"));
    let mark = fs::read(place.path("mark")).unwrap();
    place.output("ingest s t second.csv");
    place.run(&format!("{QUERY} --output none/second.out")).fails(5);
    place.run(&format!("{QUERY} --where y=1")).fails(1);
    for output in ["mark", "./mark", "link"] {
        let error = place.run(&format!("{QUERY} --output {output}")).fails(2);
        assert!(error.contains("the same file"), "{error}");
    }
    assert_eq!(fs::read(place.path("mark")).unwrap(), mark);
    let refused = place.run(&elsewhere);
    assert_eq!(refused.stdout, "");
    refused.fails(5);
    place.output(&format!("{QUERY} --output second.out"));
    assert_eq!(fs::read_to_string(place.path("second.out")).unwrap(), "x\n2\n4\n");
    assert_ne!(fs::read(place.path("mark")).unwrap(), mark);
}

#[test]
fn a_mark_of_something_else_is_refused_and_stays() {
    let place = place();
    place.output(QUERY);
    let mark = fs::read_to_string(place.path("mark")).unwrap();
    place.output("backup s copy");
    let copy = QUERY.replace(" s ", " copy ");
    assert!(place.run(&copy).fails(1).contains("another copy of the store"));
    place.output("ingest s u first.csv --time at");
    let other = QUERY.replace(" t ", " u ");
    assert!(
        place
            .run(&other)
            .fails(1)
            .contains("mark: the mark is not one of table")
    );
    place.output("ingest s v first.csv --time at --layout sparse --interval 1s");
    let sparse = QUERY.replace(" t ", " v ");
    assert!(place.run(&sparse).fails(1).contains("sparse"));
    assert_eq!(fs::read_to_string(place.path("mark")).unwrap(), mark);
    for changed in ["", "none", &mark[..mark.len() / 2]] {
        place.write("mark", changed);
        assert!(place.run(QUERY).fails(1).contains("not a whole saved mark"));
        assert_eq!(fs::read_to_string(place.path("mark")).unwrap(), changed);
    }
    place.write("mark", [0xFF, 0xFE]);
    assert!(place.run(QUERY).fails(1).contains("mark: it is no saved mark"));
    place.write("mark", vec![b' '; 1 << 20]);
    assert!(place.run(QUERY).fails(1).contains("not a whole saved mark"));
    for range in [
        "--from 2026",
        "--to 2027",
        "--last 1h",
        "--limit 1",
        "--reverse",
        "--count",
    ] {
        place.run(&format!("{QUERY} {range}")).fails(2);
    }
}
