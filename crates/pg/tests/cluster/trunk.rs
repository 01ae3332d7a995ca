//! The tree below the access method: entries go down in steps, on PostgreSQL's pages.

use postgres::Client;

use crate::cluster::Cluster;
use crate::contract::declare;
use crate::rows::{check, create_table, execute, number, same_rows};

/// Merges, push-downs, splits, work lost, entries written by the session, and the most of these by
/// one commit.
fn work(client: &mut Client) -> Vec<i64> {
    let counts = client.query_one("SELECT harness_work()", &[]);
    counts.expect("counts").get(0)
}

#[test]
fn entries_are_pushed_down() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let rows = 60_000;
    let mut first = 0;
    while first < rows {
        // Small batches are staged at the root and merged first.
        let count = if first < 3000 { 30 } else { 1000 };
        let numbers = format!("generate_series({first} + 1, {first} + {count}) i");
        execute(
            &mut client,
            &format!("INSERT INTO t SELECT (random() * 1e9)::int8, i FROM {numbers}"),
        );
        first += count;
    }
    let [merges, push_downs, splits, lost, written, most] = work(&mut client).try_into().expect("six counts");
    println!(
        "{rows} rows: {merges} merges, {push_downs} push-downs, {splits} splits, {written} entries written"
    );
    assert!(merges > 0 && push_downs > 0 && splits > 0, "all kinds of steps");
    assert_eq!(lost, 0, "nobody else was at it");
    // Sixteen times what a commit brought, and one step: all that pends above a leaf, and its run.
    let pending_and_leaf = (1 << 20 | 1 << 17) / 256;
    let bound = 16 * 1000 + 2 * pending_and_leaf;
    assert!(most <= bound, "{most} entries were written for one commit");
    assert!(number(&mut client, "SELECT height::int8 FROM bedload_info('t_k')") >= 3);
    assert_eq!(
        number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
        rows
    );
    assert!(
        number(&mut client, "SELECT runs_above FROM bedload_info('t_k')") > 0,
        "some are on their way"
    );
    same_rows(&mut client, "t", "k BETWEEN 100000000 AND 200000000");
    check(&mut client, "t_k");

    execute(&mut client, "DELETE FROM t WHERE id % 3 = 0");
    execute(&mut client, "VACUUM t");
    assert_eq!(
        number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
        rows - rows / 3
    );
    check(&mut client, "t_k");

    execute(&mut client, "SELECT bedload_drain('t_k')");
    assert_eq!(
        number(&mut client, "SELECT runs_above FROM bedload_info('t_k')"),
        0,
        "all are in the leaves"
    );
    assert_eq!(
        number(&mut client, "SELECT leaves - leaf_runs FROM bedload_info('t_k')"),
        0,
        "one run each"
    );
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}

/// Entries in order are appended, and hardly written again.
#[test]
fn ordered_rows_are_appended() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    for first in (0..60_000).step_by(1000) {
        execute(
            &mut client,
            &format!("INSERT INTO t SELECT {first} + i, i FROM generate_series(1, 1000) i"),
        );
    }
    let written = work(&mut client)[4];
    assert!(written < 60_000, "{written} entries were written again");
    same_rows(&mut client, "t", "k BETWEEN 10000 AND 20000");
    check(&mut client, "t_k");
}
