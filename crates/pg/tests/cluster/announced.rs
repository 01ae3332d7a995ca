//! Scans announce the pages that they read next, where pages have to be read from the disk.

use postgres::Client;

use crate::cluster::Cluster;
use crate::contract::declare;
use crate::rows::{By, check, execute, number, rows_by};

const ROWS: i64 = 100_000;

/// A table of many more pages than the server has buffers, whose rows are far apart.
fn cluster_with_few_buffers() -> (Cluster, Client) {
    let cluster = Cluster::start_with("shared_buffers = 1MB");
    let mut client = cluster.client();
    declare(&mut client);
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8, filler text) WITH (autovacuum_enabled = off);
         CREATE INDEX t_k ON t USING bedload (k)",
    );
    for first in (0..ROWS).step_by(10_000) {
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 100003, i, repeat('x', 100) FROM generate_series({first}, {first} + 9999) i"
            ),
        );
    }
    (cluster, client)
}

/// How many pages of the table and of the index a query has had announced.
fn announced(client: &mut Client, query: &str) -> [i64; 2] {
    let counts = |client: &mut Client| -> Vec<i64> {
        let row = client.query_one("SELECT harness_announced()", &[]);
        row.expect("counts").get(0)
    };
    let before = counts(client);
    client.query(query, &[]).expect("an answer");
    let after = counts(client);
    [0, 1].map(|at| after[at] - before[at])
}

#[test]
fn scans_of_what_is_on_the_disk_announce_rows_and_pages() {
    let (_cluster, mut client) = cluster_with_few_buffers();
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    for order in ["", "DESC"] {
        let sign = if order.is_empty() { ">=" } else { "<=" };
        let query = |limit| format!("SELECT id FROM t WHERE k {sign} 50000 ORDER BY k {order} LIMIT {limit}");
        let [rows, pages] = announced(&mut client, &query(1000));
        assert!(rows > 900 && pages > 1, "{order}: {rows} rows, {pages} pages");
        // Those that are not wanted are as many as a scan may have announced by then.
        assert!(rows <= 1000 + 32, "{order}: {rows} rows");
        let [rows, _] = announced(&mut client, &query(10));
        assert!((4..=10 + 8).contains(&rows), "{order}: {rows} rows for ten");
    }
    let [rows, pages] = announced(&mut client, "SELECT id FROM t WHERE k = 77777");
    assert!(rows == 0 && pages > 1, "{rows} rows, {pages} pages for one");
    // An index-only scan announces only rows that it has to look at.
    let count = "SELECT count(*) FROM t WHERE k BETWEEN 40000 AND 40999";
    let [rows, _] = announced(&mut client, count);
    assert!(rows > 900, "{rows} rows that may not be visible");
    execute(&mut client, "VACUUM (INDEX_CLEANUP off) t");
    let [rows, _] = announced(&mut client, count);
    assert_eq!(rows, 0, "all are visible");
    // 20,000 rows have another version each, on pages that are not visible as a whole.
    execute(&mut client, "UPDATE t SET k = k WHERE id BETWEEN 20000 AND 39999");
    let [rows, _] = announced(&mut client, "SELECT count(*) FROM t WHERE k >= 0");
    assert!(
        (10_000..=41_000).contains(&rows),
        "{rows} rows of 40,000 that may not be visible"
    );
    assert_eq!(number(&mut client, "SELECT count(*) FROM t WHERE k >= 0"), ROWS);
    execute(&mut client, "VACUUM (INDEX_CLEANUP off) t");
    execute(&mut client, "SET effective_io_concurrency = 0");
    let [rows, _] = announced(
        &mut client,
        "SELECT id FROM t WHERE k >= 10000 ORDER BY k LIMIT 1000",
    );
    assert_eq!(rows, 0, "it is turned off");
}

#[test]
fn scans_of_what_is_in_memory_announce_nothing() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k);
         INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series(1, 20000) i;
         INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series(20001, 40000) i",
    );
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let queries = [
        "SELECT id FROM t WHERE k >= 50000 ORDER BY k LIMIT 100",
        "SELECT id FROM t WHERE k = 7919",
        "SELECT count(*) FROM t WHERE k BETWEEN 40000 AND 40999",
    ];
    for query in queries {
        assert_eq!(announced(&mut client, query), [0, 0], "{query}");
    }
}

/// However the rows of a cursor are fetched, they are those of the table.
#[test]
fn cursors_that_turn_round_announce_and_read_the_right_rows() {
    let (_cluster, mut client) = cluster_with_few_buffers();
    execute(&mut client, "DELETE FROM t WHERE id % 5 = 0");
    let query = "SELECT k, id FROM t WHERE k BETWEEN 20000 AND 29999 ORDER BY k";
    let expected = rows_by(&mut client, query, By::Table);
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = on; SET enable_sort = off",
    );
    let mut transaction = client.transaction().expect("begun");
    transaction
        .batch_execute(&format!("DECLARE c SCROLL CURSOR FOR {query}"))
        .expect("a cursor");
    let mut at = 0_usize;
    for (turn, step) in [700_usize, 3, 1500, 900, 90, 1100].into_iter().enumerate() {
        let is_up = turn % 2 == 0;
        let way = if is_up { "FORWARD" } else { "BACKWARD" };
        let rows = transaction
            .query(&format!("FETCH {way} {step} FROM c"), &[])
            .expect("rows");
        let found: Vec<(Option<i64>, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        // `at` rows have been passed; the row that the cursor is at is the last of them.
        let mut wanted: Vec<_> = if is_up {
            expected[at..at + step].to_vec()
        } else {
            expected[at - 1 - step..at - 1].to_vec()
        };
        if !is_up {
            wanted.reverse();
        }
        assert_eq!(found, wanted, "{way} {step}");
        at = if is_up { at + found.len() } else { at - found.len() };
    }
    transaction.commit().expect("ended");
    check(&mut client, "t_k");
    assert!(number(&mut client, "SELECT (harness_announced())[1]") > 1000);
}
