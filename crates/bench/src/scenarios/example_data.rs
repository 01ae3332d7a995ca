//! The data sets in `examples/data`.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

/// Returns the lines of a file without the header.
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

/// Returns the minutes of a year's departures from New York, in order of schedule.
pub(super) fn minutes_of_departure() -> Vec<u64> {
    let lines = lines("flights.csv.gz");
    lines
        .iter()
        .filter_map(|line| minutes(line.split(',').nth(1)?))
        .collect()
}

/// Converts a time such as `2013-01-01T10:17:00Z` to minutes in the order of times; months count as
/// 31 days.
fn minutes(time: &str) -> Option<u64> {
    let field = |range: Range<usize>| time.get(range)?.parse::<u64>().ok();
    let days = (field(0..4)? * 12 + field(5..7)?) * 31 + field(8..10)?;
    Some((days * 24 + field(11..13)?) * 60 + field(14..16)?)
}

/// Returns the author times of a repository's commits in seconds, in order of commit.
pub(super) fn seconds_of_authors() -> Vec<i64> {
    let lines = lines("git-times.csv.gz");
    let authored = lines.iter().map(|line| line.split(',').nth(1)?.parse().ok());
    authored.flatten().collect()
}
