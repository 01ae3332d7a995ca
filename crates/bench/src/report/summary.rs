//! A summary table for users of tables: us beside each other store.

use super::figures::{is_rate, number, rule};
use super::results::Results;
use crate::subjects::SAME_AGAIN;
use crate::subjects::tables::TABLE_BASELINE;

/// The columns: the noise, then the other stores.
const COLUMNS: [&str; 8] = [
    SAME_AGAIN, "lmdb", "redb", "rocksdb", "fjall", "sqlite", "duckdb", "parquet",
];

/// The name of a row, and the file, setting and metric of its figures.
type Line = (&'static str, &'static str, &'static str, &'static str);

const LINES: &[Line] = &[
    ("ingest in order", "table-ingest", "in-order", "ingest"),
    (
        "ingest up to a second late",
        "table-ingest",
        "second-late",
        "ingest",
    ),
    ("ingest scrambled", "table-ingest", "scrambled", "ingest"),
    (
        "ingest of single rows, in order",
        "table-ingest-settings",
        "in-order/batch-1",
        "ingest",
    ),
    (
        "the same, 16 writers",
        "table-ingest-settings",
        "in-order/batch-1/writers-16",
        "ingest",
    ),
    (
        "longest append, in order",
        "table-ingest",
        "in-order",
        "append longest",
    ),
    (
        "bytes written, scrambled",
        "table-ingest",
        "scrambled",
        "written for a row",
    ),
    (
        "bytes on the disk",
        "table-ingest",
        "second-late",
        "on the disk for a row",
    ),
    ("peak memory", "table-ingest", "second-late", "peak memory"),
    ("all rows", "table-read", "second-late", "all rows into Arrow"),
    (
        "100,000 rows",
        "table-read",
        "second-late",
        "ranges of 100000 into Arrow",
    ),
    (
        "1,000 rows",
        "table-read",
        "second-late",
        "ranges of 1000 into Arrow",
    ),
    ("one row", "table-read", "second-late", "read a row"),
    ("the newest 100", "table-read", "second-late", "newest 100"),
    (
        "the newest 1,000 beside a writer, p99",
        "table-read",
        "second-late",
        "newest 1000 beside a writer p99",
    ),
    ("counting a third", "table-read", "second-late", "count a third"),
    (
        "deleting the older half",
        "table-read",
        "second-late",
        "delete the older half",
    ),
    (
        "opening after a kill",
        "table-read",
        "second-late",
        "open after a kill",
    ),
];

/// Writes a row for each figure: how many times as good we are as each other store.
pub(super) fn table(results: &Results) -> String {
    let mut text = format!("| times as good as | {} |\n", COLUMNS.join(" | "));
    text += &format!("|{}\n", rule(1, COLUMNS.len()));
    for &(claim, file, setting, metric) in LINES {
        let ours = results.figure(file, setting, metric, TABLE_BASELINE);
        let cells = COLUMNS.map(|other| {
            let theirs = results.figure(file, setting, metric, other);
            let ratio = ours.zip(theirs).map(|(ours, theirs)| {
                if is_rate(&ours.unit) {
                    ours.median / theirs.median
                } else {
                    theirs.median / ours.median
                }
            });
            let ratio = ratio.filter(|ratio| ratio.is_finite());
            ratio.map_or_else(|| "–".to_owned(), number)
        });
        text += &format!("| {claim} | {} |\n", cells.join(" | "));
    }
    text
}
