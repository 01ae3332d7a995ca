//! The data sets in `examples/data`.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

/// The lines of a file, but for the first, which names columns.
///
/// # Panics
///
/// If it cannot be read.
fn lines(name: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/").to_owned() + name;
    let file = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().skip(1).map(str::to_owned).collect()
}

/// The minutes of a year's departures from New York, in the order in which they were scheduled.
pub(super) fn minutes_of_departure() -> Vec<u64> {
    let lines = lines("flights.csv.gz");
    lines
        .iter()
        .filter_map(|line| minutes(line.split(',').nth(1)?))
        .collect()
}

/// Minutes, months taken for 31 days, of a time such as `2013-01-01T10:17:00Z`: in the order of times.
fn minutes(time: &str) -> Option<u64> {
    let field = |range: Range<usize>| time.get(range)?.parse::<u64>().ok();
    let days = (field(0..4)? * 12 + field(5..7)?) * 31 + field(8..10)?;
    Some((days * 24 + field(11..13)?) * 60 + field(14..16)?)
}

/// The seconds at which the commits of a repository were written, in the order in which they were committed.
pub(super) fn seconds_of_authors() -> Vec<i64> {
    let lines = lines("git-times.csv.gz");
    let authored = lines.iter().map(|line| line.split(',').nth(1)?.parse().ok());
    authored.flatten().collect()
}
