//! The goals for tables, and the measured values.

use super::figures::{DELETION, ahead, number, sum_of_medians};
use super::results::Results;
use crate::subjects::SAME_AGAIN;
use crate::subjects::tables::TABLE_BASELINE;

const INGEST: &str = "table-ingest";
const BEYOND: &str = "table-beyond-memory-50m";
const LARGE: &str = "table-large";
const DELETIONS: &str = "table-deletions";
const DELETIONS_SETTING: &str = "second-late/relaxed";
const FILTER: &str = "table-filter";
const COMMAND: &str = "table-command";
const SUSTAINED: &str = "table-sustained";
const LATE: &str = "table-late";
const READ: &str = "table-read";
const READ_SETTING: &str = "second-late";

/// A lower or upper limit for a measured value.
struct Bar {
    claim: &'static str,
    /// The value of our store, or of the same store measured again.
    seen: fn(&Results, &str) -> Option<f64>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

fn median(results: &Results, file: &str, degree: &str, metric: &str, subject: &str) -> Option<f64> {
    Some(results.figure(file, degree, metric, subject)?.median)
}

/// Returns our figure divided by a peer's.
fn to(results: &Results, ours: &str, file: &str, degree: &str, metric: &str, peer: &str) -> Option<f64> {
    Some(median(results, file, degree, metric, ours)? / median(results, file, degree, metric, peer)?)
}

/// The command's time for something, to DuckDB's.
fn of_command(results: &Results, ours: &str, what: &str) -> Option<f64> {
    to(results, ours, COMMAND, "second-late", what, "duckdb")
}

/// Returns our figure divided by that of the best row store.
fn to_row_stores(results: &Results, ours: &str, degree: &str) -> Option<f64> {
    let peers = ["lmdb", "rocksdb", "fjall", "redb", "sqlite"];
    let rates = peers
        .iter()
        .filter_map(|peer| median(results, INGEST, degree, "ingest", peer));
    Some(median(results, INGEST, degree, "ingest", ours)? / rates.reduce(f64::max)?)
}

const BARS: &[Bar] = &[
    Bar {
        claim: "ingest in order, durable, to the fastest of LMDB, RocksDB, fjall, redb and SQLite",
        seen: |results, ours| to_row_stores(results, ours, "in-order"),
        bound: Bound::AtLeast(3.0),
    },
    Bar {
        claim: "the same, a second late",
        seen: |results, ours| to_row_stores(results, ours, "second-late"),
        bound: Bound::AtLeast(3.0),
    },
    Bar {
        claim: "ingest in order, durable, to a Parquet file (zstd 1, synced)",
        seen: |results, ours| to(results, ours, INGEST, "in-order", "ingest", "parquet"),
        bound: Bound::AtLeast(0.5),
    },
    Bar {
        claim: "50 million rows with small caches: scrambled, to in order",
        seen: |results, ours| {
            Some(
                median(results, BEYOND, "scrambled", "ingest", ours)?
                    / median(results, BEYOND, "in-order", "ingest", ours)?,
            )
        },
        bound: Bound::AtLeast(0.4),
    },
    Bar {
        claim: "the same, scrambled: the slowest tenth to the median one",
        seen: |results, ours| median(results, BEYOND, "scrambled", "slowest tenth to the median", ours),
        bound: Bound::AtLeast(0.8),
    },
    Bar {
        claim: "the same, scrambled: bytes written to bytes on the disk",
        seen: |results, ours| {
            let of = |metric| median(results, BEYOND, "scrambled", metric, ours);
            Some(of("written for a row")? / of("on the disk for a row")?)
        },
        bound: Bound::AtMost(6.0),
    },
    Bar {
        claim: "bytes on the disk, in order, to Parquet (zstd 1)",
        seen: |results, ours| {
            to(
                results,
                ours,
                INGEST,
                "in-order",
                "on the disk for a row",
                "parquet",
            )
        },
        bound: Bound::AtMost(1.1),
    },
    Bar {
        claim: "bytes on the disk, scrambled, to Parquet (zstd 1)",
        seen: |results, ours| {
            to(
                results,
                ours,
                INGEST,
                "scrambled",
                "on the disk for a row",
                "parquet",
            )
        },
        bound: Bound::AtMost(1.1),
    },
    Bar {
        claim: "longest append of any order of arrival, in ms",
        // Of both runs of our store, as a longest time has no median.
        seen: |results, _| {
            let late = [
                "in-order",
                "second-late",
                "minutes-late",
                "flights",
                "git",
                "backfills",
                "scrambled",
            ];
            let longest = |file, order| {
                let twice = [TABLE_BASELINE, SAME_AGAIN].into_iter();
                let both = twice.filter_map(|name| results.figure(file, order, "append longest", name));
                both.map(|kept| kept.max).reduce(f64::max)
            };
            let orders = [
                (INGEST, "in-order"),
                (INGEST, "second-late"),
                (INGEST, "scrambled"),
                (BEYOND, "in-order"),
                (BEYOND, "scrambled"),
            ];
            let orders = orders.into_iter().chain(late.map(|order| (LATE, order)));
            let waits: Vec<Option<f64>> = orders.map(|(file, order)| longest(file, order)).collect();
            waits.into_iter().flatten().reduce(f64::max)
        },
        bound: Bound::AtMost(250.0),
    },
    Bar {
        claim: "longest append beside a reader, in ms",
        seen: |results, ours| {
            let longest = |order| median(results, SUSTAINED, order, "append longest", ours);
            Some(longest("second-late")?.max(longest("scrambled")?))
        },
        bound: Bound::AtMost(250.0),
    },
    Bar {
        claim: "peak memory while 100 million rows are loaded, with a cache of 256 MiB, in MiB",
        seen: |results, ours| median(results, LARGE, "second-late", "peak memory", ours),
        bound: Bound::AtMost(256.0 + 128.0),
    },
    Bar {
        claim: "all rows beside 10,000 open deletions, to the time before",
        seen: |results, ours| {
            let of = |metric| median(results, DELETIONS, DELETIONS_SETTING, metric, ours);
            Some(of("all rows beside open deletions")? / of("all rows before deletions")?)
        },
        bound: Bound::AtMost(1.2),
    },
    Bar {
        claim: "a condition that a thousandth of the rows meets, to reading all",
        seen: |results, ours| median(results, FILTER, "second-late", "all rows to the thousandth", ours),
        bound: Bound::AtLeast(10.0),
    },
    Bar {
        claim: "time of the command for a CSV file of 10 million rows, to DuckDB",
        seen: |results, ours| of_command(results, ours, "CSV into a store"),
        bound: Bound::AtMost(0.8),
    },
    Bar {
        claim: "time of the command for a Parquet file of all rows, to DuckDB",
        seen: |results, ours| of_command(results, ours, "the store into Parquet"),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "`bedload info` on a store of 10 million rows, in ms",
        seen: |results, ours| median(results, COMMAND, "second-late", "info", ours),
        bound: Bound::AtMost(20.0),
    },
    Bar {
        claim: "all rows into Arrow, to DuckDB (in any order)",
        seen: |results, ours| to(results, ours, READ, READ_SETTING, "all rows into Arrow", "duckdb"),
        bound: Bound::AtLeast(1.5),
    },
    Bar {
        claim: "all rows into Arrow, to the Parquet reader",
        seen: |results, ours| {
            to(
                results,
                ours,
                READ,
                READ_SETTING,
                "all rows into Arrow",
                "parquet",
            )
        },
        bound: Bound::AtLeast(1.0),
    },
    Bar {
        claim: "ranges of 1,000 rows, to LMDB",
        seen: |results, ours| {
            to(
                results,
                ours,
                READ,
                READ_SETTING,
                "ranges of 1000 into Arrow",
                "lmdb",
            )
        },
        bound: Bound::AtLeast(1.2),
    },
    Bar {
        claim: "ranges of 1,000 rows, to the fastest other store",
        seen: |results, ours| {
            let metric = "ranges of 1000 into Arrow";
            let peers = ["rocksdb", "fjall", "redb", "sqlite", "duckdb"];
            let rates = peers
                .iter()
                .filter_map(|peer| median(results, READ, READ_SETTING, metric, peer));
            Some(median(results, READ, READ_SETTING, metric, ours)? / rates.reduce(f64::max)?)
        },
        bound: Bound::AtLeast(3.0),
    },
    Bar {
        claim: "time of a row that is read, to LMDB",
        seen: |results, ours| to(results, ours, READ, READ_SETTING, "read a row", "lmdb"),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "time of the newest 100, to the best store",
        seen: |results, ours| Some(1.0 / ahead(results, READ, READ_SETTING, "newest 100", ours)?),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "counting a third of the table, in ms",
        seen: |results, ours| Some(median(results, READ, READ_SETTING, "count a third", ours)? / 1e3),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "deleting the older half of 100 million rows, with the flush after it, in ms",
        seen: |results, ours| sum_of_medians(results, LARGE, "second-late", DELETION, ours),
        bound: Bound::AtMost(100.0),
    },
    Bar {
        claim: "disk left of before after that (half the rows are left), in %",
        seen: |results, ours| {
            median(
                results,
                LARGE,
                "second-late",
                "disk left of before, given back",
                ours,
            )
        },
        bound: Bound::AtMost(55.0),
    },
];

/// Writes a row for each goal. Our store measured again tells the noise: where it is on the other
/// side of the bound, there is no verdict.
pub(super) fn table(results: &Results) -> String {
    let mut text = "| aim | bound | seen | |\n|---|---:|---:|---|\n".to_owned();
    for bar in BARS {
        let (sign, bound) = match bar.bound {
            Bound::AtLeast(bound) => ('≥', bound),
            Bound::AtMost(bound) => ('≤', bound),
        };
        let seen = (bar.seen)(results, TABLE_BASELINE);
        let again = (bar.seen)(results, SAME_AGAIN);
        let is_met = |seen: f64| match bar.bound {
            Bound::AtLeast(bound) => seen >= bound,
            Bound::AtMost(bound) => seen <= bound,
        };
        let verdict = match seen {
            None => "not measured",
            Some(seen) if again.is_some_and(|again| is_met(again) != is_met(seen)) => "within the noise",
            Some(seen) if is_met(seen) => "met",
            Some(_) => "**not met**",
        };
        let seen = seen.map_or_else(|| "–".to_owned(), number);
        text += &format!("| {} | {sign} {bound} | {seen} | {verdict} |\n", bar.claim);
    }
    text
}
