//! A summary table for users of tables: us beside each other store.

use super::figures::{DELETION, is_rate, number, rule, sum_of_medians};
use super::results::Results;
use crate::subjects::SAME_AGAIN;
use crate::subjects::tables::TABLE_BASELINE;

/// The columns: the noise, then the other stores.
const COLUMNS: [&str; 8] = [
    SAME_AGAIN, "lmdb", "redb", "rocksdb", "fjall", "sqlite", "duckdb", "parquet",
];

/// The name of a row, and the file, setting and metrics of its figures, which are added up.
type Line = (&'static str, &'static str, &'static str, &'static [&'static str]);

const LINES: &[Line] = &[
    ("ingest in order", "table-ingest", "in-order", &["ingest"]),
    (
        "ingest up to a second late",
        "table-ingest",
        "second-late",
        &["ingest"],
    ),
    ("ingest scrambled", "table-ingest", "scrambled", &["ingest"]),
    (
        "ingest of single rows, in order",
        "table-ingest-settings",
        "in-order/batch-1",
        &["ingest"],
    ),
    (
        "the same, 16 writers",
        "table-ingest-settings",
        "in-order/batch-1/writers-16",
        &["ingest"],
    ),
    (
        "longest append, in order",
        "table-ingest",
        "in-order",
        &["append longest"],
    ),
    (
        "bytes written, scrambled",
        "table-ingest",
        "scrambled",
        &["written for a row"],
    ),
    (
        "bytes on the disk",
        "table-ingest",
        "second-late",
        &["on the disk for a row"],
    ),
    (
        "peak memory of the load",
        "table-ingest",
        "second-late",
        &["peak memory"],
    ),
    (
        "all rows into Arrow",
        "table-read",
        "second-late",
        &["all rows into Arrow"],
    ),
    (
        "100,000 rows into Arrow",
        "table-read",
        "second-late",
        &["ranges of 100000 into Arrow"],
    ),
    (
        "1,000 rows into Arrow",
        "table-read",
        "second-late",
        &["ranges of 1000 into Arrow"],
    ),
    ("one row", "table-read", "second-late", &["read a row"]),
    (
        "the newest 100 into Arrow",
        "table-read",
        "second-late",
        &["newest 100"],
    ),
    (
        "the newest 1,000 into Arrow beside a writer, p99",
        "table-read",
        "second-late",
        &["newest 1000 beside a writer p99"],
    ),
    (
        "counting a third",
        "table-read",
        "second-late",
        &["count a third"],
    ),
    (
        "deleting the older half, with the flush after it",
        "table-read",
        "second-late",
        DELETION,
    ),
    (
        "opening after a kill",
        "table-read",
        "second-late",
        &["open after a kill"],
    ),
];

/// Writes a row for each figure, with the number of rows that it was measured with: how many times
/// as good we are as each other store.
pub(super) fn table(results: &Results) -> String {
    let mut text = format!("| times as good as | rows | {} |\n", COLUMNS.join(" | "));
    text += &format!("|{}\n", rule(1, COLUMNS.len() + 1));
    for &(claim, file, setting, metrics) in LINES {
        let first = metrics.first().copied().unwrap_or_default();
        let ours = results.figure(file, setting, first, TABLE_BASELINE);
        let rows = ours.and_then(|ours| ours.params.get("rows")?.parse().ok());
        let rows = rows.map_or_else(|| "–".to_owned(), number);
        let is_rate = ours.is_some_and(|ours| is_rate(&ours.unit));
        let of = |subject| sum_of_medians(results, file, setting, metrics, subject);
        let cells =
            COLUMNS.map(|other| {
                let ratio = of(TABLE_BASELINE).zip(of(other)).map(|(ours, theirs)| {
                    if is_rate { ours / theirs } else { theirs / ours }
                });
                let ratio = ratio.filter(|ratio| ratio.is_finite());
                ratio.map_or_else(|| "–".to_owned(), number)
            });
        text += &format!("| {claim} | {rows} | {} |\n", cells.join(" | "));
    }
    text
}
