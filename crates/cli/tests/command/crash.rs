//! The process is killed, as `kill -9` does, at any point of an ingest. Acknowledged rows are there
//! afterwards.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use bedload_testkit::Rng;

use crate::harness::Place;

/// Rounds of a test run; `BEDLOAD_KILLS` asks for more.
const ROUNDS: u64 = 50;
const ROWS: u64 = 20_000;
const BATCH_ROWS: u64 = 100;

/// The times of different rounds are that far apart, so that each can be asked for alone.
const ROUND_TICKS: u64 = 1_000_000;

/// The times of a round's rows, in order of arrival: nearly sorted.
fn ticks(round: u64, seed: u64) -> Vec<u64> {
    let mut random = Rng::new(seed);
    (0..ROWS)
        .map(|row| round * ROUND_TICKS + row + random.below(50))
        .collect()
}

#[test]
fn killed_at_any_point_no_acknowledged_row_is_lost() {
    let place = Place::new();
    let mut random = Rng::new(0xbed_10ad);
    let rounds = std::env::var("BEDLOAD_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS);
    let mut cut_short = 0;
    let mut kept_in_all = 0;
    for round in 0..rounds {
        let ticks = ticks(round, random.next_u64());
        let rows: String = ticks
            .iter()
            .enumerate()
            .map(|(row, tick)| format!("{tick},{row}\n"))
            .collect();
        place.write("rows.csv", format!("t,row\n{rows}"));

        let mut child = place
            .command(&format!(
                "ingest s t rows.csv --time t --time-unit ms --batch-rows {BATCH_ROWS} --ack"
            ))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut acknowledgements = BufReader::new(child.stdout.take().unwrap()).lines();
        let parse = |line: String| {
            line.strip_prefix("acknowledged ")
                .map(|rows| rows.parse::<u64>().unwrap())
        };
        let mut acknowledged = 0;
        // Every fifth round is killed wherever it may be after some time, opening and creating
        // included.
        if round % 5 == 0 {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        } else {
            for _ in 0..random.below(60) {
                let Some(line) = acknowledgements.next() else {
                    break;
                };
                acknowledged = parse(line.unwrap()).unwrap_or(acknowledged);
            }
            std::thread::sleep(Duration::from_micros(random.below(3000)));
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(
            status.signal() == Some(9) || status.success(),
            "round {round}: it ended by itself: {status}"
        );
        // Each line that it printed before it died counts, read or not; one that death cut off does
        // not.
        for line in acknowledgements.map_while(Result::ok) {
            acknowledged = parse(line).map_or(acknowledged, |rows| rows.max(acknowledged));
        }
        cut_short += u64::from(acknowledged < ROWS);

        let opened = place.run("verify s");
        if acknowledged == 0 && opened.code == Some(6) {
            // Killed before there was a store: then there is nothing that could have been lost.
            continue;
        }
        assert!(opened.succeeds().starts_with("OK: "), "round {round}");
        let tables = place.json("info s --json")["tables"].as_array().unwrap().len();
        if acknowledged == 0 && tables == 0 {
            continue;
        }

        let range = format!(
            "--from @{} --to @{}",
            round * ROUND_TICKS,
            (round + 1) * ROUND_TICKS
        );
        let answer = place.output(&format!("query s t {range} --columns row --format csv"));
        let found: Vec<u64> = answer.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        let kept = found.len() as u64;
        assert!(
            kept >= acknowledged,
            "round {round}: {kept} rows, {acknowledged} were acknowledged"
        );
        assert!(
            kept.is_multiple_of(BATCH_ROWS),
            "round {round}: {kept} rows are no whole batches"
        );
        // Exactly the first rows of the file, each once, by time and then by arrival.
        let mut expected: Vec<u64> = (0..kept).collect();
        expected.sort_by_key(|&row| ticks[usize::try_from(row).unwrap()]);
        assert_eq!(found, expected, "round {round}");
        kept_in_all += kept;
    }

    assert!(
        cut_short > rounds / 2,
        "{cut_short} of {rounds} rounds were killed before their end"
    );
    let info = place.json("info s --json");
    assert_eq!(info["tables"][0]["rows"], kept_in_all);
}
