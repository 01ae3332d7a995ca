//! The goals for tables, and the measured values.

use super::figures::{ahead, number};
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
    seen: fn(&Results) -> Option<f64>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

fn median(results: &Results, file: &str, degree: &str, metric: &str, subject: &str) -> Option<f64> {
    Some(results.figure(file, degree, metric, subject)?.median)
}

fn ours(results: &Results, file: &str, degree: &str, metric: &str) -> Option<f64> {
    median(results, file, degree, metric, TABLE_BASELINE)
}

/// Returns our figure divided by a peer's.
fn to(results: &Results, file: &str, degree: &str, metric: &str, peer: &str) -> Option<f64> {
    Some(ours(results, file, degree, metric)? / median(results, file, degree, metric, peer)?)
}

/// Returns our figure divided by that of the best row store.
fn to_row_stores(results: &Results, degree: &str) -> Option<f64> {
    let peers = ["lmdb", "rocksdb", "fjall", "redb", "sqlite"];
    let rates = peers
        .iter()
        .filter_map(|peer| median(results, INGEST, degree, "ingest", peer));
    Some(ours(results, INGEST, degree, "ingest")? / rates.reduce(f64::max)?)
}

const BARS: &[Bar] = &[
    Bar {
        claim: "ingest in order, durable, to the fastest of LMDB, RocksDB, fjall, redb and SQLite",
        seen: |results| to_row_stores(results, "in-order"),
        bound: Bound::AtLeast(3.0),
    },
    Bar {
        claim: "the same, a second late",
        seen: |results| to_row_stores(results, "second-late"),
        bound: Bound::AtLeast(3.0),
    },
    Bar {
        claim: "ingest in order, durable, to a Parquet file (zstd 1, synced)",
        seen: |results| to(results, INGEST, "in-order", "ingest", "parquet"),
        bound: Bound::AtLeast(0.5),
    },
    Bar {
        claim: "scrambled beyond memory, to in order",
        seen: |results| {
            Some(ours(results, BEYOND, "scrambled", "ingest")? / ours(results, BEYOND, "in-order", "ingest")?)
        },
        bound: Bound::AtLeast(0.4),
    },
    Bar {
        claim: "scrambled beyond memory, the last tenth to the first",
        seen: |results| ours(results, BEYOND, "scrambled", "last tenth to the first"),
        bound: Bound::AtLeast(0.8),
    },
    Bar {
        claim: "scrambled beyond memory, bytes written to bytes on the disk",
        seen: |results| {
            let of = |metric| ours(results, BEYOND, "scrambled", metric);
            Some(of("written for a row")? / of("on the disk for a row")?)
        },
        bound: Bound::AtMost(6.0),
    },
    Bar {
        claim: "bytes on the disk, in order, to Parquet (zstd 1)",
        seen: |results| to(results, INGEST, "in-order", "on the disk for a row", "parquet"),
        bound: Bound::AtMost(1.1),
    },
    Bar {
        claim: "bytes on the disk, scrambled, to Parquet (zstd 1)",
        seen: |results| to(results, INGEST, "scrambled", "on the disk for a row", "parquet"),
        bound: Bound::AtMost(1.1),
    },
    Bar {
        claim: "longest append of any order of arrival, in ms",
        seen: |results| {
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
            ];
            let orders = orders.into_iter().chain(late.map(|order| (LATE, order)));
            let waits: Vec<Option<f64>> = orders.map(|(file, order)| longest(file, order)).collect();
            waits.into_iter().flatten().reduce(f64::max)
        },
        bound: Bound::AtMost(250.0),
    },
    Bar {
        claim: "longest append beside a reader, in ms",
        seen: |results| {
            let longest = |order| ours(results, SUSTAINED, order, "append longest");
            Some(longest("second-late")?.max(longest("scrambled")?))
        },
        bound: Bound::AtMost(250.0),
    },
    Bar {
        claim: "peak memory of 100 million rows, a cache of 256 MiB among it, in MiB",
        seen: |results| ours(results, LARGE, "second-late", "peak memory"),
        bound: Bound::AtMost(256.0 + 128.0),
    },
    Bar {
        claim: "all rows beside 10,000 open deletions, to the time before",
        seen: |results| {
            let of = |metric| ours(results, DELETIONS, DELETIONS_SETTING, metric);
            Some(of("all rows beside open deletions")? / of("all rows before deletions")?)
        },
        bound: Bound::AtMost(1.2),
    },
    Bar {
        claim: "a condition that a thousandth of the rows meets, to reading all",
        seen: |results| ours(results, FILTER, "second-late", "all rows to the thousandth"),
        bound: Bound::AtLeast(10.0),
    },
    Bar {
        claim: "time of the command for a CSV file of 10 million rows, to DuckDB",
        seen: |results| to(results, COMMAND, "second-late", "CSV into a store", "duckdb"),
        bound: Bound::AtMost(0.8),
    },
    Bar {
        claim: "time of the command for a Parquet file of all rows, to DuckDB",
        seen: |results| {
            to(
                results,
                COMMAND,
                "second-late",
                "the store into Parquet",
                "duckdb",
            )
        },
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "`bedload info` on a store of 10 million rows, in ms",
        seen: |results| ours(results, COMMAND, "second-late", "info"),
        bound: Bound::AtMost(20.0),
    },
    Bar {
        claim: "all rows into Arrow, to DuckDB (in any order)",
        seen: |results| to(results, READ, READ_SETTING, "all rows into Arrow", "duckdb"),
        bound: Bound::AtLeast(1.5),
    },
    Bar {
        claim: "all rows into Arrow, to the Parquet reader",
        seen: |results| to(results, READ, READ_SETTING, "all rows into Arrow", "parquet"),
        bound: Bound::AtLeast(1.0),
    },
    Bar {
        claim: "ranges of 1,000 rows, to LMDB",
        seen: |results| to(results, READ, READ_SETTING, "ranges of 1000 into Arrow", "lmdb"),
        bound: Bound::AtLeast(1.2),
    },
    Bar {
        claim: "ranges of 1,000 rows, to the fastest other store",
        seen: |results| {
            let metric = "ranges of 1000 into Arrow";
            let peers = ["rocksdb", "fjall", "redb", "sqlite", "duckdb"];
            let rates = peers
                .iter()
                .filter_map(|peer| median(results, READ, READ_SETTING, metric, peer));
            Some(ours(results, READ, READ_SETTING, metric)? / rates.reduce(f64::max)?)
        },
        bound: Bound::AtLeast(3.0),
    },
    Bar {
        claim: "time of a row that is read, to LMDB",
        seen: |results| to(results, READ, READ_SETTING, "read a row", "lmdb"),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "time of the newest 100, to the best store",
        seen: |results| Some(1.0 / ahead(results, READ, READ_SETTING, "newest 100")?),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "counting a third of the table, in ms",
        seen: |results| Some(ours(results, READ, READ_SETTING, "count a third")? / 1e3),
        bound: Bound::AtMost(1.0),
    },
    Bar {
        claim: "deleting the older half of 100 million rows, in ms",
        seen: |results| ours(results, LARGE, "second-late", "delete the older half"),
        bound: Bound::AtMost(100.0),
    },
    Bar {
        claim: "disk left of before after that (half the rows are left), in %",
        seen: |results| ours(results, LARGE, "second-late", "disk left of before, given back"),
        bound: Bound::AtMost(55.0),
    },
];

/// Writes a row for each goal.
pub(super) fn table(results: &Results) -> String {
    let mut text = "| aim | bound | seen | |\n|---|---:|---:|---|\n".to_owned();
    for bar in BARS {
        let bound = match bar.bound {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
        };
        let seen = (bar.seen)(results);
        let verdict = seen.map_or("not measured", |seen| match bar.bound {
            Bound::AtLeast(bound) if seen >= bound => "met",
            Bound::AtMost(bound) if seen <= bound => "met",
            _ => "**not met**",
        });
        let seen = seen.map_or_else(|| "–".to_owned(), number);
        text += &format!("| {} | {bound} | {seen} | {verdict} |\n", bar.claim);
    }
    text
}
