//! How scans run: as far as they are read, and without holding a thread.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::rows::Plant;

/// Rows that the scan of a plan has given.
fn scanned(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if plan.name() == "BedloadExec" {
        return plan.metrics().unwrap().output_rows().unwrap();
    }
    plan.children().into_iter().map(scanned).sum()
}

async fn planned(session: &SessionContext, query: &str) -> Arc<dyn ExecutionPlan> {
    let frame = session.sql(query).await.unwrap();
    frame.create_physical_plan().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_has_enough_ends_its_scan() {
    let plant = Plant::new();
    let session = plant.session();
    for (query, most) in [
        ("SELECT at FROM cpu ORDER BY at DESC LIMIT 5", 5),
        ("SELECT host FROM cpu WHERE usage > 50 LIMIT 5", 5),
        // The filter is the query's, and what flows to it is of a few batches.
        (
            "SELECT at FROM cpu WHERE host LIKE '%-01' ORDER BY at LIMIT 5",
            30_000,
        ),
    ] {
        let plan = planned(&session, query).await;
        let batches = collect(plan.clone(), session.task_ctx()).await.unwrap();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, 5, "{query}");
        assert!(scanned(&plan) <= most, "{query}: {} rows", scanned(&plan));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_dropped_reads_no_further() {
    let plant = Plant::new();
    let session = plant.session();
    let plan = planned(&session, "SELECT * FROM cpu").await;
    let mut stream = plan.execute(0, session.task_ctx()).unwrap();
    let first = stream.next().await.unwrap().unwrap();
    drop(stream);
    assert_eq!(scanned(&plan), first.num_rows());
    // The same plan runs again, from the beginning.
    let rows = collect(plan.clone(), session.task_ctx()).await.unwrap();
    assert_eq!(rows[0], first);
}

/// With one thread that may block, scans that held theirs would wait for one another for ever.
#[test]
fn scans_hold_no_thread_while_they_wait() {
    let plant = Plant::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let session = plant.session();
        let scan = "SELECT at FROM cpu";
        let query = [scan; 8].join(" UNION ALL ");
        let rows = session.sql(&format!("{query} ORDER BY at")).await.unwrap();
        let all = rows.count().await.unwrap();
        let one = session.sql(scan).await.unwrap().count().await.unwrap();
        assert_eq!(all, 8 * one);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_store_are_those_of_the_query() {
    let plant = Plant::new();
    let session = plant.session();
    let frame = session.sql("SELECT * FROM alarms").await.unwrap();
    plant.store.drop_table("alarms").unwrap();
    let error = frame.collect().await.unwrap_err();
    assert!(
        error.to_string().contains("there is no table \"alarms\""),
        "{error}"
    );
    let error = session.sql("SELECT * FROM alarms").await.unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
}
