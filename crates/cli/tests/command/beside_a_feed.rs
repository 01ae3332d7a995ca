//! Copies and exports of a store beside a feed that is killed again and again.

use std::fmt::Write as _;

use bedload_testkit::Rng;

use crate::harness::Place;
use crate::running::Running;

/// Feeds of a test run; `BEDLOAD_KILLS` asks for more.
const FEEDS: u64 = 6;
/// Copies and exports beside each of them.
const STEPS: usize = 6;

/// Rows numbered in the order of their arrival, some of which are late.
struct Rows {
    random: Rng,
    sent: u64,
}

impl Rows {
    fn next(&mut self) -> String {
        let mut lines = String::new();
        for _ in 0..[1, 5, 200, 3000][self.random.index(4)] {
            self.sent += 1;
            let late = [0, 0, 0, 5000, 400_000][self.random.index(5)];
            let time = 1_000_000 + 10 * self.sent - late;
            writeln!(lines, "{time},{}", self.sent).unwrap();
        }
        lines
    }
}

fn count(place: &Place, store: &str) -> u64 {
    let printed = place.output(&format!("query {store} t --count"));
    printed.trim().parse().unwrap()
}

/// The numbers of rows that a query prints.
fn numbers(place: &Place, query: &str) -> Vec<u64> {
    let printed = place.output(&format!("{query} --columns n --format csv"));
    printed
        .lines()
        .skip(1)
        .map(|line| line.parse().unwrap())
        .collect()
}

#[test]
fn copies_are_whole_and_each_row_is_exported_once() {
    let place = Place::new();
    place.write("first.csv", "t,n\n0,0\n");
    place.output("ingest store t first.csv --time t --time-unit ms --schema t:timestamp(ms),n:int64");
    let feeds = std::env::var("BEDLOAD_KILLS").ok();
    let feeds = feeds.and_then(|text| text.parse().ok()).unwrap_or(FEEDS);
    let mut rows = Rows {
        random: Rng::new(0xbed_10ad),
        sent: 0,
    };
    let mut exported = Vec::new();
    for number in 0..feeds {
        let mut feed = Running::ingest(&place, "--follow --every 10ms");
        feed.write("t,n\n");
        for step in 0..STEPS {
            feed.write(&rows.next());
            if step % 3 < 2 {
                exported.extend(numbers(&place, "query store t --mark mark"));
                continue;
            }
            let before = count(&place, "store");
            let copy = format!("copy-{number}-{step}");
            place.output(&format!("backup store {copy}"));
            feed.write(&rows.next());
            let (copied, after) = (count(&place, &copy), count(&place, "store"));
            assert!(before <= copied && copied <= after, "{before} {copied} {after}");
            assert!(place.output(&format!("verify {copy}")).starts_with("OK"));
            let mut found = numbers(&place, &format!("query {copy} t"));
            found.sort_unstable();
            assert!(
                found.windows(2).all(|pair| pair[0] < pair[1]),
                "a row is there once"
            );
            std::fs::remove_dir_all(place.path(&copy)).unwrap();
        }
        feed.kill();
    }
    exported.extend(numbers(&place, "query store t --mark mark"));
    exported.sort_unstable();
    let mut found = numbers(&place, "query store t");
    found.sort_unstable();
    assert!(
        exported == found,
        "{} rows exported of {}",
        exported.len(),
        found.len()
    );
    assert!(
        found.len() > 1000,
        "{} of {} rows arrived",
        found.len(),
        rows.sent
    );
}
