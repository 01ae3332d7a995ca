//! Queries over time series, compared with DuckDB over the same rows.

use bedload::arrow::array::RecordBatch;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};

use crate::duckdb;
use crate::rows::{Numbers, Plant};

/// A query, and how DuckDB says it where it differs. All have one order of their rows, or one row.
const QUERIES: &[(&str, &str)] = &[
    // Ranges and their aggregates.
    ("SELECT count(*) FROM cpu", ""),
    ("SELECT min(at), max(at) FROM cpu", ""),
    (
        "SELECT min(at), max(at), count(*) FROM alarms WHERE at < '1970-01-01'",
        "",
    ),
    (
        "SELECT count(*), count(usage), sum(usage), min(usage), max(usage) FROM cpu \
         WHERE at >= '1970-01-01T02:00:00' AND at < '1970-01-01T03:00:00'",
        "",
    ),
    (
        "SELECT count(*) FROM cpu WHERE at BETWEEN '1969-12-31T23:00:00' AND '1970-01-01T00:30:00'",
        "",
    ),
    (
        "SELECT count(*), min(host), max(region) FROM cpu WHERE at > TIMESTAMP '1970-01-01T02:59:59.9995'",
        "",
    ),
    (
        "SELECT host, usage FROM cpu WHERE at = '1970-01-01T02:00:07' ORDER BY host, usage, region",
        "",
    ),
    // The hour that was deleted.
    (
        "SELECT count(*) FROM cpu WHERE at >= '1970-01-01T01:00:00' AND at < '1970-01-01T02:00:00'",
        "",
    ),
    // Filters on other columns.
    (
        "SELECT host, count(*), avg(usage) FROM cpu WHERE host IN ('host-03', 'host-07') AND usage > 90 \
         GROUP BY host ORDER BY host",
        "",
    ),
    (
        "SELECT count(*) FROM cpu WHERE region IS NULL AND usage <= 12.5 AND host <> 'host-01'",
        "",
    ),
    (
        "SELECT count(*) FROM cpu WHERE region NOT IN ('north') OR usage IS NULL",
        "",
    ),
    (
        "SELECT region, count(*) FROM cpu WHERE host LIKE 'host-0%' GROUP BY region ORDER BY region NULLS LAST",
        "",
    ),
    (
        "SELECT DISTINCT level FROM alarms WHERE level >= 1 AND host > 'host-10' ORDER BY level",
        "",
    ),
    // Buckets of time.
    (
        "SELECT date_bin(INTERVAL '15 minutes', at) AS bucket, count(*), sum(usage) FROM cpu \
         WHERE at >= '1970-01-01' GROUP BY bucket ORDER BY bucket",
        "SELECT time_bucket(INTERVAL '15 minutes', at, TIMESTAMP '1970-01-01') AS bucket, count(*), sum(usage) \
         FROM cpu WHERE at >= '1970-01-01' GROUP BY bucket ORDER BY bucket",
    ),
    (
        "SELECT date_trunc('hour', at) AS hour, host, max(usage) FROM cpu GROUP BY hour, host ORDER BY hour, host",
        "",
    ),
    (
        "SELECT date_trunc('hour', at) AS hour, count(*) FROM alarms WHERE level = 3 GROUP BY hour \
         HAVING count(*) > 2 ORDER BY hour DESC",
        "",
    ),
    // The newest and the last of each.
    (
        "SELECT at, count(*) FROM cpu GROUP BY at ORDER BY at DESC LIMIT 7",
        "",
    ),
    ("SELECT at FROM cpu ORDER BY at LIMIT 5", ""),
    ("SELECT at FROM cpu ORDER BY at DESC LIMIT 5 OFFSET 3", ""),
    (
        "SELECT at FROM alarms WHERE host = 'host-05' ORDER BY at DESC LIMIT 3",
        "",
    ),
    (
        "SELECT host, max(at) FROM cpu WHERE usage IS NOT NULL GROUP BY host ORDER BY host",
        "",
    ),
    (
        "SELECT host, at, highest FROM (SELECT host, at, max(usage) AS highest, \
         row_number() OVER (PARTITION BY host ORDER BY at DESC) AS age FROM cpu GROUP BY host, at) \
         WHERE age = 1 ORDER BY host",
        "",
    ),
    (
        "SELECT host, last_value(level ORDER BY at, level) FROM alarms GROUP BY host ORDER BY host",
        "SELECT host, last(level ORDER BY at, level) FROM alarms GROUP BY host ORDER BY host",
    ),
    // Changes between neighbours.
    (
        "SELECT at, total - lag(total) OVER (ORDER BY at) FROM (SELECT at, sum(usage) AS total FROM cpu \
         WHERE at >= '1970-01-01T03:00:00' GROUP BY at) ORDER BY at LIMIT 50",
        "",
    ),
    // Two tables.
    (
        "SELECT a.at, a.host, a.level, max(c.usage) FROM alarms a JOIN cpu c ON c.host = a.host AND c.at = a.at \
         WHERE a.at >= '1970-01-01T02:00:00' GROUP BY a.at, a.host, a.level ORDER BY a.at, a.host, a.level",
        "",
    ),
    (
        "SELECT a.level, count(*), count(c.usage) FROM alarms a LEFT JOIN cpu c ON c.host = a.host \
         AND c.at >= a.at AND c.at < a.at + INTERVAL '10 seconds' GROUP BY a.level ORDER BY a.level",
        "",
    ),
    (
        "SELECT host FROM cpu WHERE at < '1970-01-01' EXCEPT SELECT host FROM alarms WHERE level = 2 ORDER BY host",
        "",
    ),
    (
        "SELECT count(*) FROM cpu x JOIN cpu y ON x.at = y.at AND x.host < y.host",
        "",
    ),
    // Filters of columns that are nullable in the query and not in the table.
    (
        "SELECT count(*) FROM (SELECT at FROM cpu UNION ALL SELECT NULL) WHERE at IS NULL",
        "",
    ),
    (
        "SELECT count(*), min(at) FROM (SELECT at FROM cpu UNION ALL SELECT NULL) WHERE at IS NOT NULL",
        "",
    ),
    (
        "SELECT count(*) FROM alarms a RIGHT JOIN cpu c ON a.host = c.host AND a.at = c.at \
         WHERE a.at IS NULL AND a.host = 'host-05'",
        "",
    ),
    (
        "SELECT count(*) FROM alarms a RIGHT JOIN cpu c ON a.host = c.host AND a.at = c.at \
         WHERE a.at IS NOT NULL AND a.host = 'host-05'",
        "",
    ),
    // Nothing.
    ("SELECT at FROM cpu WHERE at < '1960-01-01' ORDER BY at", ""),
    (
        "SELECT count(*), max(at) FROM cpu WHERE at > '1970-01-01' AND at < '1970-01-01'",
        "",
    ),
];

/// Conditions made of few parts, so that they meet in all ways.
fn conditions(count: usize) -> Vec<String> {
    let mut numbers = Numbers(3);
    let mut pick = |of: &[&str]| {
        of[usize::try_from(numbers.below(i64::try_from(of.len()).unwrap())).unwrap()].to_owned()
    };
    let times = [
        "'1969-12-31T20:00:00.001'",
        "'1970-01-01'",
        "'1970-01-01T02:13:00'",
        "'1970-01-01T02:13:01.5'",
        "'1970-01-01T04:19:59'",
    ];
    let compare = ["=", "<>", "<", "<=", ">", ">="];
    let mut parts = || match pick(&["at", "at", "at", "host", "region", "usage", "null", "in"]).as_str() {
        "at" => format!("at {} {}", pick(&compare), pick(&times)),
        "host" => format!(
            "host {} '{}'",
            pick(&compare),
            pick(&["host-00", "host-06", "host-11", "none"])
        ),
        "region" => format!("region {} '{}'", pick(&compare), pick(&["north", "south"])),
        "usage" => format!(
            "usage {} {}",
            pick(&compare),
            pick(&["0.125", "50", "99.875", "1e9"])
        ),
        "null" => format!("{} IS {} NULL", pick(&["region", "usage"]), pick(&["", "NOT"])),
        _ => format!(
            "host {} IN ('host-02', 'host-09', 'host-10', 'host-11')",
            pick(&["", "NOT"])
        ),
    };
    let conditions = (0..count).map(|number| {
        let (one, two, three) = (parts(), parts(), parts());
        match number % 4 {
            0 => format!("{one} AND {two}"),
            1 => format!("{one} AND {two} AND {three}"),
            2 => format!("{one} AND ({two} OR {three})"),
            _ => format!("NOT ({one}) AND {two}"),
        }
    });
    conditions.collect()
}

fn plain(batch: &RecordBatch) -> Vec<Value> {
    let columns = batch.columns().iter().map(|column| {
        let values: Vec<Value> = (0..column.len()).map(|row| cell(column, row)).collect();
        values
    });
    let columns: Vec<Vec<Value>> = columns.collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}

/// A value as DuckDB's are written.
fn cell(column: &dyn Array, row: usize) -> Value {
    let value = column.slice(row, 1);
    if value.is_null(0) {
        return Value::Null;
    }
    let to = |data_type| cast(&value, &data_type).unwrap();
    match column.data_type() {
        DataType::Timestamp(..) => {
            let micros = to(DataType::Timestamp(TimeUnit::Microsecond, None));
            json!({ "micros": micros.as_primitive::<TimestampMicrosecondType>().value(0) })
        }
        DataType::Float64 => json!(value.as_primitive::<Float64Type>().value(0)),
        kind if kind.is_integer() => json!(to(DataType::Int64).as_primitive::<Int64Type>().value(0)),
        _ => json!(to(DataType::Utf8).as_string::<i32>().value(0)),
    }
}

async fn rows(session: &SessionContext, query: &str) -> Vec<Value> {
    let frame = session
        .sql(query)
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    batches.iter().flat_map(plain).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_duckdb() {
    let plant = Plant::new();
    let session = plant.session();
    let mut queries: Vec<(String, String)> = QUERIES
        .iter()
        .map(|&(query, other)| {
            (
                query.to_owned(),
                if other.is_empty() { query } else { other }.to_owned(),
            )
        })
        .collect();
    for condition in conditions(200) {
        let query =
            format!("SELECT count(*), sum(usage), min(at), max(at), min(host) FROM cpu WHERE {condition}");
        queries.push((query.clone(), query));
    }
    let theirs: Vec<String> = queries.iter().map(|(_, theirs)| theirs.clone()).collect();
    let expected = duckdb::answers(&plant.duckdb, &theirs);
    assert_eq!(expected.len(), queries.len());
    let mut answered = 0;
    for ((query, _), expected) in queries.iter().zip(expected) {
        let found = rows(&session, query).await;
        assert_eq!(found, expected, "{query}");
        answered += found.len();
    }
    // That so many rows were compared says that the queries are not all empty.
    assert!(answered > 450, "{answered}");
}
