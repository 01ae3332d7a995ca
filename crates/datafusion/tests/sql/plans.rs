//! `EXPLAIN` shows the parts of a query that a scan takes over.

use std::sync::Arc;

use bedload::arrow::array::{Int32Array, RecordBatch, TimestampSecondArray};
use bedload::arrow::schema::{DataType, Field, Schema, TimeUnit};
use bedload::{Grid, Layout, TableSchema};
use bedload_datafusion::BedloadTable;
use datafusion::catalog::TableProvider;
use datafusion::prelude::{col, lit};

use crate::rows::{Plant, field, plan};

/// Checks that a plan has each of some parts, and none of others.
#[track_caller]
fn check(query: &str, plan: &str, has: &[&str], lacks: &[&str]) {
    for part in has {
        assert!(plan.contains(part), "{query}: {part} is missing in\n{plan}");
    }
    for part in lacks {
        assert!(!plan.contains(part), "{query}: {part} is in\n{plan}");
    }
}

/// Queries, parts that their plans have, and parts that they do not have.
const PLANS: &[(&str, &[&str], &[&str])] = &[
    // Ranges of time, in all the ways in which they are written.
    (
        "SELECT * FROM cpu WHERE at >= '1970-01-01T00:00:01' AND at < '1970-01-01T00:00:02'",
        &["times=1000..=1999", "columns=[at, host, region, usage]"],
        &["FilterExec"],
    ),
    (
        "SELECT usage FROM cpu WHERE at BETWEEN '1970-01-01T00:00:01' AND '1970-01-01T00:00:02'",
        &["times=1000..=2000", "columns=[usage]"],
        &["FilterExec"],
    ),
    (
        "SELECT usage FROM cpu WHERE to_timestamp_millis(5) <= at",
        &["times=5.."],
        &["FilterExec"],
    ),
    (
        "SELECT usage FROM cpu WHERE at = '1970-01-01'",
        &["times=0..=0"],
        &["FilterExec"],
    ),
    (
        "SELECT usage FROM cpu WHERE at > TIMESTAMP '1970-01-01T00:00:00.0015'",
        &["times=2.."],
        &["FilterExec"],
    ),
    (
        "SELECT usage FROM cpu WHERE at < '1970-01-01' AND at > '1970-01-02'",
        &["EmptyExec"],
        &["BedloadExec"],
    ),
    // Other columns.
    (
        "SELECT at FROM cpu WHERE host = 'host-01' AND usage > 5 AND region IS NOT NULL",
        &[
            "where=host = host-01 AND usage > 5 AND region IS NOT NULL",
            "columns=[at]",
        ],
        &["FilterExec"],
    ),
    (
        "SELECT at FROM cpu WHERE host IN ('a', 'b', 'c', 'd', 'e') AND at <> '1970-01-01'",
        &["BedloadExec", "where=host IN"],
        &["FilterExec"],
    ),
    // A condition that a scan cannot decide stays with the query; the others are taken over.
    (
        "SELECT at FROM cpu WHERE host LIKE '%-01' AND at >= '1970-01-01' LIMIT 5",
        &["FilterExec: host", "times=0.."],
        &[],
    ),
    (
        "SELECT at FROM cpu WHERE usage > 0 AND usage <> 0",
        &["where=usage > 0 AND usage != 0"],
        &["FilterExec"],
    ),
    (
        "SELECT at FROM cpu WHERE host = region",
        &["FilterExec"],
        &["where="],
    ),
    (
        "SELECT at FROM cpu WHERE at >= '1970-01-01' OR usage > 1",
        &["FilterExec"],
        &["times="],
    ),
    // Order.
    (
        "SELECT at, usage FROM cpu ORDER BY at",
        &["BedloadExec"],
        &["SortExec", "reverse"],
    ),
    (
        "SELECT at, usage FROM cpu ORDER BY at DESC",
        &["reverse=true"],
        &["SortExec"],
    ),
    (
        "SELECT at, usage FROM cpu ORDER BY at DESC NULLS LAST LIMIT 5",
        &["reverse=true", "limit=5"],
        &["SortExec", "LimitExec"],
    ),
    (
        "SELECT at, host FROM cpu WHERE host LIKE '%-01' ORDER BY at LIMIT 5",
        &["FilterExec"],
        &["SortExec"],
    ),
    (
        "SELECT at, host FROM cpu WHERE host LIKE '%-01' ORDER BY at DESC LIMIT 5",
        &["FilterExec", "SortExec"],
        &["reverse=true", "limit="],
    ),
    ("SELECT at, host FROM cpu ORDER BY at, host", &["SortExec"], &[]),
    (
        "SELECT * FROM (SELECT at FROM cpu LIMIT 10) ORDER BY at DESC",
        &["SortExec", "limit=10"],
        &["reverse=true"],
    ),
    (
        "SELECT at, count(*) FROM cpu GROUP BY at",
        &["ordering_mode=Sorted"],
        &[],
    ),
    (
        "SELECT date_trunc('hour', at) AS hour, count(*) FROM cpu GROUP BY hour",
        &["ordering_mode=Sorted"],
        &[],
    ),
    // Limits.
    ("SELECT host FROM cpu LIMIT 3", &["limit=3"], &["LimitExec"]),
    (
        "SELECT host FROM cpu WHERE usage > 5 LIMIT 3",
        &["limit=3", "where=usage > 5"],
        &["LimitExec"],
    ),
    ("SELECT host FROM cpu LIMIT 3 OFFSET 2", &["limit=5"], &[]),
    // Statistics.
    (
        "SELECT count(*) FROM alarms",
        &["PlaceholderRowExec"],
        &["BedloadExec"],
    ),
    (
        "SELECT count(*), min(at), max(at) FROM alarms WHERE at >= '1970-01-01'",
        &["PlaceholderRowExec"],
        &["BedloadExec"],
    ),
    (
        "SELECT min(at), max(at) FROM cpu",
        &["PlaceholderRowExec"],
        &["BedloadExec"],
    ),
    (
        "SELECT count(*) FROM alarms WHERE level = 1",
        &["BedloadExec"],
        &["FilterExec"],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_takes_over_what_it_can_decide() {
    let plant = Plant::new();
    let session = plant.session();
    for (query, has, lacks) in PLANS {
        check(query, &plan(&session, query).await, has, lacks);
    }
}

/// The query no longer applies a filter that it hands to a scan, so none may be ignored.
#[tokio::test(flavor = "multi_thread")]
async fn a_scan_refuses_a_filter_that_it_cannot_apply() {
    let plant = Plant::new();
    let table = BedloadTable::new(&plant.cpu);
    let state = plant.session().state();
    let filters = [col("at").is_not_null(), col("host").like(lit("%-01"))];
    let refused = table.scan(&state, None, &filters, None).await.unwrap_err();
    let message = refused.to_string();
    assert!(message.contains("cannot apply the filter host LIKE"), "{message}");
}

/// The rows of `alarms` are the smaller side of a join, which statistics tell.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_rows_order_joins() {
    let plant = Plant::new();
    plant.store.flush().unwrap();
    let session = plant.session();
    for query in [
        "SELECT * FROM alarms a JOIN cpu c ON a.host = c.host",
        "SELECT * FROM cpu c JOIN alarms a ON a.host = c.host",
    ] {
        let plan = plan(&session, query).await;
        let (alarms, cpu) = (plan.find("table=alarms"), plan.find("table=cpu"));
        assert!(alarms.is_some() && alarms < cpu, "{query}:\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_taken_over_with_few_comparisons() {
    let plant = Plant::new();
    let session = plant.session();
    let query = |negation: &str, values: usize| {
        let values: Vec<String> = (0..values).map(|value| format!("'{value}'")).collect();
        format!(
            "SELECT at FROM cpu WHERE host {negation} IN ({})",
            values.join(", ")
        )
    };
    for (query, is_taken_over) in [
        (query("", 2000), true),
        (query("NOT", 16), true),
        (query("NOT", 17), false),
    ] {
        let (one, other) = if is_taken_over {
            ("where=host", "FilterExec")
        } else {
            ("FilterExec", "where=host")
        };
        check(&query, &plan(&session, &query).await, &[one], &[other]);
    }
}

/// A sparse table does not know how many rows it has, and others do not until deletions and
/// replaced rows are flushed. The newest row is found by its order.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_read_where_their_number_is_not_known() {
    let plant = Plant::new();
    let schema = TableSchema::new(
        Arc::new(Schema::new(vec![
            Field::new("at", DataType::Timestamp(TimeUnit::Second, None), false),
            field("level", DataType::Int32),
        ])),
        "at",
    );
    let schema = schema.unwrap();
    let levels = |times: Vec<i64>| {
        let levels = Int32Array::from(vec![1; times.len()]);
        let times = TimestampSecondArray::from(times);
        RecordBatch::try_new(schema.arrow().clone(), vec![Arc::new(times), Arc::new(levels)]).unwrap()
    };
    let layout = Layout::Sparse(Grid::every(1).unwrap());
    let sparse = plant.store.create_table_as("sparse", schema.clone(), layout);
    sparse.unwrap().append(&levels(vec![1, 2, 3])).unwrap();
    let keyed = schema.clone().with_key(&["level"]).unwrap();
    let keyed = plant.store.create_table("keyed", keyed).unwrap();
    keyed.append(&levels(vec![1, 2, 3])).unwrap();
    plant.store.flush().unwrap();

    let session = plant.session();
    let check_known = async |table: &str, is_known: bool| {
        for values in ["count(*)", "min(at), max(at)"] {
            let query = format!("SELECT {values} FROM {table}");
            let (one, other) = if is_known {
                ("PlaceholderRowExec", "BedloadExec")
            } else {
                ("BedloadExec", "PlaceholderRowExec")
            };
            check(&query, &plan(&session, &query).await, &[one], &[other]);
        }
        let query = format!("SELECT at FROM {table} ORDER BY at DESC LIMIT 1");
        let parts = ["reverse=true", "limit=1"];
        check(&query, &plan(&session, &query).await, &parts, &["SortExec"]);
    };
    check_known("sparse", false).await;
    check_known("keyed", true).await;
    check_known("alarms", true).await;
    keyed.append(&levels(vec![3])).unwrap();
    check_known("keyed", false).await;
    let alarms = plant.store.table("alarms").unwrap();
    alarms.delete_range(..0).unwrap();
    check_known("alarms", false).await;
    plant.store.flush().unwrap();
    check_known("keyed", true).await;
    check_known("alarms", true).await;
}
