//! Parallel scans: rows are those of a sequential scan, each once and in order, however workers
//! share them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, Error, Row, SimpleQueryMessage};

use crate::cluster::{Cluster, connect};
use crate::rows::{Rng, check, create_table, execute, execute_each, is_conflict, number, plan};

/// Has the planner choose parallel scans of indexes, whose rows workers alone read.
const PARALLEL: &str = "
    SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0;
    SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET cpu_tuple_cost = 100; SET max_parallel_workers_per_gather = 3;
    SET parallel_leader_participation = off; SET enable_material = off;
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
    SET enable_indexscan = on; SET enable_indexonlyscan = on";

/// Has it read the table alone, in one process.
const BY_TABLE: &str = "
    SET max_parallel_workers_per_gather = 0; SET enable_sort = on; SET enable_seqscan = on;
    SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off";

/// The answer of a query, as text.
fn answer(client: &mut Client, query: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
    let messages = client.simple_query(query)?.into_iter();
    let rows = messages.filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).map(ToOwned::to_owned));
            Some(values.collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}

/// Asserts that a query has a plan with such a node, and the same answer as by table.
fn same_answer(client: &mut Client, query: &str, node: &str) {
    execute(client, PARALLEL);
    let plan = plan(client, query);
    assert!(plan.contains(node), "{query} is read otherwise:\n{plan}");
    let found = answer(client, query).expect(query);
    execute(client, BY_TABLE);
    let expected = answer(client, query).expect(query);
    assert!(!expected.is_empty(), "{query} has no rows");
    assert_eq!(found, expected, "{query}");
}

/// Queries about a table with the columns `k` and `id`, whose index is on `k`: rows, sums of them,
/// and their order.
fn same_answers(client: &mut Client, table: &str, conditions: &[&str]) {
    for condition in conditions {
        let counts = format!("SELECT count(*), sum(id), sum(id * id) FROM {table} WHERE {condition}");
        same_answer(client, &counts, "Parallel Index ");
        let keys = format!("SELECT count(*), count(k) FROM {table} WHERE {condition}");
        same_answer(client, &keys, "Parallel Index Only Scan");
        for order in ["", "DESC"] {
            let places = format!(
                "SELECT count(*), md5(string_agg(k::text, ' ')), sum(id) FROM
                 (SELECT k, id FROM {table} WHERE {condition} ORDER BY k {order}) s"
            );
            same_answer(client, &places, "Parallel Index ");
        }
    }
}

/// Rows in runs of every level, in the head, and, of a transaction that goes on, just inserted;
/// some of them dead.
fn fill(client: &mut Client, table: &str, key: &str) {
    for first in [0, 9000, 18_000] {
        execute(
            client,
            &format!(
                "INSERT INTO {table} (k, id) SELECT {key}, i FROM generate_series({first}, {first} + 8999) i"
            ),
        );
    }
    for first in (27_000..27_600).step_by(60) {
        execute(
            client,
            &format!(
                "INSERT INTO {table} (k, id) SELECT {key}, i FROM generate_series({first}, {first} + 59) i"
            ),
        );
    }
    execute(
        client,
        &format!(
            "DELETE FROM {table} WHERE id % 11 = 3; ANALYZE {table}; ALTER TABLE {table} SET (parallel_workers = 3)"
        ),
    );
}

#[test]
fn parallel_scans_have_the_rows_of_a_sequential_scan() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let client = &mut client;
    execute_each(
        client,
        &[
            "CREATE TABLE spread (k int8, id int8)",
            "CREATE INDEX spread_k ON spread USING bedload (k)",
            "CREATE TABLE repeated (k int4, id int8)",
            "CREATE INDEX repeated_k ON repeated USING bedload (k DESC)",
            "CREATE TABLE texts (k text, id int8)",
            "CREATE INDEX texts_k ON texts USING bedload (k) INCLUDE (id)",
        ],
    );
    fill(client, "spread", "nullif(i * 7919 % 27701, 5)");
    // Each key is in several leaves.
    fill(client, "repeated", "CASE WHEN i % 5 = 0 THEN NULL ELSE i % 7 END");
    fill(client, "texts", "repeat(chr(97 + i % 3), 200) || i * 7919 % 3000");
    let listed = (0..400).map(|key| (key * 67).to_string()).collect::<Vec<_>>();
    let listed = format!("k IN ({})", listed.join(", "));
    let numbers = [
        "k >= 0",
        "k > 20000",
        "k BETWEEN 5000 AND 19999",
        "k IS NOT NULL",
        &listed,
    ];
    let few = ["k > 2", "k >= 0", "k IN (1, 3, 6)", "k = 4"];
    let texts = [
        "k >= 'b'",
        "k < 'ca'",
        "k IS NOT NULL",
        "k > repeat('a', 200) || 17 AND k <= repeat('b', 200) || 8",
    ];
    // Entries that wait are read by workers, too.
    execute(client, "BEGIN");
    for table in ["spread", "repeated"] {
        execute(
            client,
            &format!("INSERT INTO {table} SELECT i % 7, i FROM generate_series(40001, 40300) i"),
        );
    }
    same_answers(client, "spread", &numbers);
    execute(client, "COMMIT");
    same_answers(client, "repeated", &few);
    same_answers(client, "texts", &texts);
    for table in ["spread", "repeated", "texts"] {
        execute(client, &format!("VACUUM {table}"));
        check(client, &format!("{table}_k"));
    }
    same_answers(client, "spread", &numbers);
    same_answers(client, "texts", &texts);
}

/// A scan that is executed again begins again: in all processes.
#[test]
fn parallel_scans_begin_again() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    fill(&mut client, "t", "i * 7919 % 27701");
    for (scanned, node) in [("id", "Parallel Index Scan"), ("k", "Parallel Index Only Scan")] {
        let query = format!(
            "SELECT n, found FROM (VALUES (1), (2), (3)) v (n)
             LEFT JOIN (SELECT count({scanned}) AS found FROM t WHERE k > 3000) s ON true"
        );
        execute(&mut client, PARALLEL);
        let plan = plan(&mut client, &query);
        assert!(plan.contains("Nested Loop Left Join"), "{plan}");
        same_answer(&mut client, &query, node);
    }
}

/// Inserts and deletes rows, many and few, and sometimes vacuums or merges.
fn change(client: &mut Client, rng: &mut Rng) {
    let first = rng.below(20_000);
    execute(
        client,
        &format!(
            "INSERT INTO t SELECT (i * 7919 + {first}) % 27701, i FROM generate_series(1, 1500) i;
             DELETE FROM t WHERE k BETWEEN {first} AND {first} + 1400"
        ),
    );
    for row in 0..20 {
        execute(client, &format!("INSERT INTO t VALUES ({first} + {row}, {row})"));
    }
    match rng.below(4) {
        0 => execute(client, "VACUUM (INDEX_CLEANUP ON) t"),
        1 => execute(client, "SELECT bedload_drain('t_k')"),
        _ => {}
    }
}

/// Asks parallel scans and a sequential one the same, under one snapshot each time, while others
/// write: whether the former had workers.
fn ask_meanwhile(client: &mut Client, rng: &mut Rng) -> Result<bool, Error> {
    let (first, span) = (rng.below(20_000), 1 + rng.below(20_000));
    let order = ["", "DESC"][usize::from(rng.below(2) == 0)];
    let columns = ["k, id", "k, 0 AS id"][usize::from(rng.below(2) == 0)];
    let query = format!(
        "SELECT count(*), sum(id), md5(string_agg(k::text, ' ')) FROM
         (SELECT {columns} FROM t WHERE k BETWEEN {first} AND {first} + {span} ORDER BY k {order}) s"
    );
    execute(client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    execute(client, PARALLEL);
    let mut answers = || {
        let found = answer(client, &query)?;
        let plan = client.query(&format!("EXPLAIN {query}"), &[])?;
        let is_parallel = |row: &Row| row.get::<_, String>(0).contains("Parallel Index");
        client.batch_execute(BY_TABLE)?;
        Ok((found, answer(client, &query)?, plan.iter().any(is_parallel)))
    };
    let answers = answers();
    client.batch_execute("ROLLBACK").ok();
    let (found, expected, has_workers) = answers?;
    assert_eq!(found, expected, "{query}");
    Ok(has_workers)
}

fn ask_while_others_write(cluster: &Cluster, may_fail: bool) {
    let mut client = cluster.client();
    let mut rng = Rng::new(9);
    let start = Instant::now();
    let (mut answered, mut shared) = (0, 0);
    while answered < 60 {
        assert!(start.elapsed() < Duration::from_secs(600), "{answered} answers");
        match ask_meanwhile(&mut client, &mut rng) {
            Ok(has_workers) => {
                answered += 1;
                shared += usize::from(has_workers);
            }
            Err(error) => assert!(may_fail && is_conflict(&error), "{error:?}"),
        }
        if client.is_closed() {
            client = cluster.client();
        }
    }
    assert!(shared > 40, "{shared} of {answered} answers had workers");
}

#[test]
fn parallel_scans_see_one_snapshot_while_others_write() {
    let primary = Cluster::start();
    let mut client = primary.client();
    create_table(&mut client);
    fill(&mut client, "t", "i * 7919 % 27701");
    let standby = primary.standby();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in [5, 7] {
            let (socket, over) = (primary.socket(), &is_over);
            scope.spawn(move || {
                let mut client = connect(&socket).expect("a session");
                let mut rng = Rng::new(seed);
                while !over.load(Ordering::Relaxed) {
                    change(&mut client, &mut rng);
                }
            });
        }
        // The writers would go on for ever if this panicked.
        let _over = scopeguard::guard(&is_over, |over| over.store(true, Ordering::Relaxed));
        ask_while_others_write(&primary, false);
        // Replay cancels queries of a standby, as with every index.
        ask_while_others_write(&standby, true);
    });
    check(&mut client, "t_k");
}

/// With the planner's usual settings, a count of many keys has workers, as with a B-tree.
#[test]
fn a_long_count_has_workers() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, note char(60)); CREATE INDEX t_k ON t USING bedload (k);
         CREATE TABLE u (k int8, note char(60)); CREATE INDEX u_k ON u USING btree (k);
         INSERT INTO t SELECT i::int8 * 7919 % 400009, 'note' FROM generate_series(1, 400000) i;
         INSERT INTO u SELECT * FROM t",
    );
    execute_each(&mut client, &["VACUUM ANALYZE t", "VACUUM ANALYZE u"]);
    for range in ["k BETWEEN 100000 AND 300000", "k < 200000"] {
        let condition = format!("{range} AND k % 10 < 9 AND k % 7 < 6");
        let counts = ["t", "u"].map(|table| {
            let query = format!("SELECT count(*) FROM {table} WHERE {condition}");
            let plan = plan(&mut client, &query);
            assert!(plan.contains("Parallel Index Only Scan"), "{plan}");
            number(&mut client, &query)
        });
        execute(&mut client, BY_TABLE);
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!([number(&mut client, &query); 2], counts, "{query}");
        execute(&mut client, "RESET ALL");
    }
}
