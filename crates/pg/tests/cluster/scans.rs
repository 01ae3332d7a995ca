//! Scans find what a sequential scan finds.

use std::thread;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::rows::{
    By, Rng, check, create_table, execute, execute_each, number, pages_of, plan, rows_by, same_rows,
    until_one_waits,
};

const CONDITIONS: [&str; 14] = [
    "true",
    "k = 5",
    "k = 5::int2",
    "k = 500::int8",
    "k < 100",
    "k <= 100 AND k > -50::int2",
    "k BETWEEN 300 AND 2000",
    "k >= 9223372036854775807",
    "k > 9223372036854775807",
    "k < -9223372036854775808",
    "k <= -9223372036854775808",
    "k IS NULL",
    "k IS NOT NULL",
    "k > 100 AND k < 50",
];

fn same_for_all_conditions(client: &mut Client, table: &str) {
    for condition in CONDITIONS {
        same_rows(client, table, condition);
    }
}

/// Inserts in order and at random, updates and deletions, in batches small and large; duplicates,
/// nulls, and the ends of the range of values.
#[test]
fn scans_find_what_the_table_has() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8, note text);
         INSERT INTO t SELECT (random() * 5000)::int8 - 1000, i FROM generate_series(1, 3000) i;
         CREATE INDEX t_k ON t USING bedload (k);",
    );
    same_for_all_conditions(&mut client, "t");
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(10000, 30000) i;
         INSERT INTO t SELECT (random() * 5000)::int8 - 1000, i FROM generate_series(1, 20000) i;
         INSERT INTO t SELECT 500, i FROM generate_series(1, 2000) i;
         INSERT INTO t SELECT NULL, i FROM generate_series(1, 1000) i;
         INSERT INTO t VALUES (9223372036854775807, 1), (-9223372036854775808, 2), (9223372036854775807, 3);",
    );
    same_for_all_conditions(&mut client, "t");
    execute(
        &mut client,
        "UPDATE t SET k = k + 1 WHERE id % 7 = 0 AND k < 9223372036854775807;
         UPDATE t SET note = 'in place' WHERE id % 5 = 0;
         UPDATE t SET k = NULL WHERE id % 31 = 0;
         DELETE FROM t WHERE id % 3 = 0;",
    );
    same_for_all_conditions(&mut client, "t");
    for row in 0..200 {
        execute(
            &mut client,
            &format!("INSERT INTO t VALUES ({}, {row})", row * 37 % 101),
        );
    }
    same_for_all_conditions(&mut client, "t");
    check(&mut client, "t_k");
}

#[test]
fn random_statements_find_what_the_table_has() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    let mut rng = Rng::new(0x5eed);
    for round in 0..120 {
        let (first, span) = (rng.below(2000), 1 + rng.below(400));
        let last = first + span;
        let statement = match rng.below(6) {
            0 => format!("INSERT INTO t SELECT i, i FROM generate_series({first}, {last}) i"),
            1 => format!(
                "INSERT INTO t SELECT (random() * 2000)::int8, i FROM generate_series({first}, {last}) i"
            ),
            2 => format!("DELETE FROM t WHERE k BETWEEN {first} AND {last}"),
            3 => format!("UPDATE t SET k = k + {span} WHERE k BETWEEN {first} AND {last}"),
            4 => format!("INSERT INTO t VALUES ({first}, {round})"),
            _ => "VACUUM t".to_owned(),
        };
        execute(&mut client, &statement);
        same_rows(&mut client, "t", &format!("k BETWEEN {first} AND {}", last + 50));
    }
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}

#[test]
fn a_descending_index_is_read_the_other_way() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k DESC);
         INSERT INTO t SELECT (random() * 900)::int8, i FROM generate_series(1, 5000) i;
         INSERT INTO t SELECT NULL, i FROM generate_series(1, 50) i;",
    );
    assert!(!plan(&mut client, "SELECT k, id FROM t ORDER BY k DESC").contains("Backward"));
    same_for_all_conditions(&mut client, "t");
    check(&mut client, "t_k");
}

/// A scroll cursor, moved at random, is where the same moves lead in the list of all rows.
#[test]
fn a_cursor_moves_both_ways() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i / 3, i FROM generate_series(1, 4000) i ORDER BY random();",
    );
    let query = "SELECT k, id FROM t WHERE k >= 100 ORDER BY k";
    let all = rows_by(&mut client, query, By::Index);
    execute(
        &mut client,
        &format!("BEGIN; DECLARE c SCROLL CURSOR FOR {query}"),
    );
    assert!(!plan(&mut client, query).contains("Materialize"));
    let mut rng = Rng::new(3);
    // Positions as SQL counts them: 0 before the first row, and one more than there are rows behind
    // the last.
    let mut at = 0_i64;
    let end = i64::try_from(all.len()).expect("few") + 1;
    for _ in 0..400 {
        let count = i64::try_from(rng.below(900)).expect("few");
        let (direction, step) = if rng.below(2) == 0 {
            ("FORWARD", 1)
        } else {
            ("BACKWARD", -1)
        };
        let rows = client
            .query(&format!("FETCH {direction} {count} FROM c"), &[])
            .expect("rows");
        let rows: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut expected = Vec::new();
        for _ in 0..count {
            at = (at + step).clamp(0, end);
            if at == 0 || at == end {
                break;
            }
            expected.push(all[usize::try_from(at - 1).expect("in the list")]);
        }
        if count > 0 {
            assert_eq!(rows, expected, "FETCH {direction} {count} to {at}");
        }
    }
}

/// Merge joins mark positions and return to them.
#[test]
fn merge_joins_return_to_their_marks() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "CREATE TABLE u (k int8, id int8); CREATE INDEX u_k ON u USING bedload (k);
         INSERT INTO t SELECT i / 4, i FROM generate_series(1, 8000) i ORDER BY random();
         INSERT INTO u SELECT i / 5, i FROM generate_series(1, 3000) i ORDER BY random();
         INSERT INTO u SELECT 77, i FROM generate_series(1, 700) i;
         ANALYZE t, u;",
    );
    let query = "SELECT count(*) FROM t JOIN u USING (k)";
    let expected = number(&mut client, query);
    execute(
        &mut client,
        "SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off; SET enable_seqscan = off;
         SET enable_material = off",
    );
    let plan = plan(&mut client, query);
    assert!(
        plan.contains("Merge Join") && plan.contains("using t_k") && plan.contains("using u_k"),
        "{plan}"
    );
    assert_eq!(number(&mut client, query), expected);
}

/// More rows than fit in the memory for maintenance are sorted in files.
#[test]
fn a_build_sorts_more_than_memory_holds() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8);
         INSERT INTO t SELECT (random() * 1e9)::int8, i FROM generate_series(1, 200000) i;
         SET maintenance_work_mem = '1MB'; 
         CREATE INDEX t_k ON t USING bedload (k);",
    );
    assert_eq!(same_rows(&mut client, "t", "true"), 200_000);
    assert_eq!(
        number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
        200_000
    );
    check(&mut client, "t_k");
    execute_each(
        &mut client,
        &[
            "CREATE INDEX CONCURRENTLY t_k2 ON t USING bedload (k)",
            "DROP INDEX t_k",
        ],
    );
    same_rows(&mut client, "t", "k < 50000000");
    check(&mut client, "t_k2");
}

/// The planner offers an index-only scan when it needs no column, also of an index that returns
/// none.
#[test]
fn a_partial_index_is_counted_by_an_index_only_scan() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k) WHERE k < 1000;
         INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i;",
    );
    execute(&mut client, "VACUUM ANALYZE t");
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let query = "SELECT count(*) FROM t WHERE k < 1000";
    let plan = plan(&mut client, query);
    assert!(plan.contains("Index Only Scan"), "{plan}");
    assert_eq!(number(&mut client, query), 999);
    // A cursor has addresses of dead rows, whose page becomes all-visible before it looks at them.
    execute(&mut client, "DELETE FROM t WHERE k BETWEEN 600 AND 640");
    let mut other = cluster.client();
    execute(
        &mut other,
        "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;
         DECLARE c CURSOR FOR SELECT 1 FROM t WHERE k < 1000 ORDER BY k;",
    );
    assert_eq!(other.query("FETCH 400 FROM c", &[]).expect("rows").len(), 400);
    // So few dead rows would be left to the next VACUUM.
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    assert_eq!(number(&mut client, query), 958);
    assert_eq!(other.query("FETCH ALL FROM c", &[]).expect("rows").len(), 558);
    execute(&mut other, "COMMIT");
    check(&mut client, "t_k");
}

/// Index-only scans beside deletions and VACUUM: what they return is what a sequential scan
/// returns.
#[test]
fn index_only_scans_return_what_the_table_has() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT nullif((i * 7919) % 5003, 0), i FROM generate_series(1, 12000) i;",
    );
    let read = |client: &mut Client, query: &str, node: &str| -> Vec<Option<i64>> {
        let by_index = node != "Seq Scan";
        execute(
            client,
            &format!(
                "SET enable_bitmapscan = off; SET enable_seqscan = {}; SET enable_indexscan = {by_index};
                 SET enable_indexonlyscan = {by_index}",
                !by_index
            ),
        );
        let plan = plan(client, query);
        assert!(plan.contains(node), "{query}:\n{plan}");
        let rows = client.query(query, &[]).expect("rows");
        rows.iter().map(|row| row.get(0)).collect()
    };
    for round in 0..8 {
        for condition in ["true", "k < 700", "k BETWEEN 100 AND 4000", "k IS NULL"] {
            for order in ["ORDER BY k", "ORDER BY k DESC"] {
                let query = format!("SELECT k FROM t WHERE {condition} {order}");
                let expected = read(&mut client, &query, "Seq Scan");
                assert_eq!(
                    read(&mut client, &query, "Index Only Scan"),
                    expected,
                    "{query} in round {round}"
                );
            }
        }
        // A cursor that began before rows were deleted, and goes on when VACUUM has been there.
        let mut other = cluster.client();
        execute(
            &mut other,
            "SET enable_seqscan = off; SET enable_bitmapscan = off;
             BEGIN; DECLARE c CURSOR FOR SELECT k FROM t WHERE k > 0 ORDER BY k",
        );
        let mut seen = other.query("FETCH 300 FROM c", &[]).expect("rows").len();
        let rows = number(&mut client, "SELECT count(*) FROM t WHERE k > 0");
        execute(&mut client, &format!("DELETE FROM t WHERE id % 17 = {round}"));
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        execute(
            &mut client,
            &format!("INSERT INTO t SELECT i, -i FROM generate_series(1, 200 + {round}) i"),
        );
        seen += other.query("FETCH ALL FROM c", &[]).expect("rows").len();
        assert_eq!(i64::try_from(seen).expect("few"), rows, "in round {round}");
        execute(&mut other, "COMMIT");
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    }
    check(&mut client, "t_k");
}

/// A scan has entries of dead rows at hand, whose pages become all-visible before it comes to them.
#[test]
fn index_only_scans_pass_over_dead_rows_that_vacuum_has_removed() {
    // The later rows go to the head by 0, and to a second run by 1,000.
    for (fetched, batch_entries) in [(1, 0), (85, 0), (1, 1000), (5, 1000), (21, 1000)] {
        let cluster = Cluster::start_with("bedload.shrunk = 1");
        let (mut client, mut other) = (cluster.client(), cluster.client());
        create_table(&mut client);
        execute_each(
            &mut client,
            &[
                "INSERT INTO t SELECT 2 * i, i FROM generate_series(1, 900) i",
                &format!("SET bedload.batch_entries = {batch_entries}"),
                "INSERT INTO t SELECT 2 * i + 1, i FROM generate_series(1, 900) i",
                "VACUUM (INDEX_CLEANUP OFF, ANALYZE) t",
                "DELETE FROM t WHERE id % 2 = 0",
            ],
        );
        execute(
            &mut other,
            "SET enable_seqscan = off; SET enable_bitmapscan = off",
        );
        let query = "SELECT k FROM t ORDER BY k";
        assert!(plan(&mut other, query).contains("Index Only Scan"));
        execute(&mut other, &format!("BEGIN; DECLARE c CURSOR FOR {query}"));
        let first = format!("FETCH {fetched} FROM c");
        let mut seen = other.query(&first, &[]).expect("rows").len();
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        seen += other.query("FETCH ALL FROM c", &[]).expect("rows").len();
        assert_eq!(seen, 900, "after {fetched} rows, {batch_entries} a batch");
    }
}

/// The planner of version 17 on asks a partitioned index, which has no pages, what it can return.
#[test]
fn partitioned_tables_are_planned() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8) PARTITION BY RANGE (k);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (500);
         CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (500) TO (1000);
         CREATE INDEX t_k ON t USING bedload (k);
         INSERT INTO t SELECT i * 7919 % 1000, i FROM generate_series(1, 1000) i",
    );
    execute(&mut client, "VACUUM ANALYZE t");
    same_rows(&mut client, "t", "k BETWEEN 400 AND 600");
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = on",
    );
    let query = "SELECT k FROM t ORDER BY k";
    assert!(plan(&mut client, query).contains("Index Only Scan"));
    assert_eq!(client.query(query, &[]).expect("rows").len(), 1000);
}

/// `VACUUM` comes between the entries of a scan and its look at which of their rows all can see.
#[test]
fn index_only_scans_ask_for_visibility_in_time() {
    for batch_entries in [0, 100_000] {
        let cluster = Cluster::start_with("bedload.shrunk = 1");
        let mut client = cluster.client();
        create_table(&mut client);
        execute(
            &mut client,
            &format!(
                "SET bedload.batch_entries = {batch_entries}; INSERT INTO t SELECT i, i FROM generate_series(1, 900) i"
            ),
        );
        execute(
            &mut client,
            "DELETE FROM t WHERE k % 2 = 0; SELECT pg_advisory_lock(7)",
        );
        let socket = cluster.socket();
        let counting = thread::spawn(move || {
            let mut counter = connect(&socket).expect("a session");
            execute(
                &mut counter,
                "SET enable_seqscan = off; SET enable_bitmapscan = off; SET bedload.pause_before_visibility = 7",
            );
            number(&mut counter, "SELECT count(*) FROM t WHERE k > 0")
        });
        until_one_waits(&mut client, || !counting.is_finished());
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        execute(&mut client, "SELECT pg_advisory_unlock(7)");
        assert_eq!(counting.join().expect("a count"), 450);
    }
}

/// The index does not know of a version that is in the same page as the one before it.
#[test]
fn index_only_scans_return_rows_that_were_updated_in_their_page() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute_each(
        &mut client,
        &[
            "CREATE TABLE t (k int8, n int4) WITH (fillfactor = 50)",
            "CREATE INDEX t_k ON t USING bedload (k)",
            "INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i",
            "UPDATE t SET n = 1",
            "SET enable_seqscan = off; SET enable_bitmapscan = off",
        ],
    );
    let query = "SELECT count(*) FROM t WHERE k > 0";
    assert!(plan(&mut client, query).contains("Index Only Scan"));
    assert_eq!(number(&mut client, query), 1000);
    // Nor are they taken for dead.
    execute(&mut client, "SET enable_indexonlyscan = off");
    assert_eq!(number(&mut client, query), 1000);
}

/// A scan goes on where its last window ended, without another descent.
#[test]
fn a_scan_descends_once() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    for first in (0..80_000).step_by(1000) {
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 100003, i FROM generate_series({first}, {first} + 999) i"
            ),
        );
    }
    execute(&mut client, "VACUUM ANALYZE t");
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    // Prepared, so that no page of a catalogue is counted.
    execute(
        &mut client,
        "SET plan_cache_mode = force_generic_plan;
         PREPARE one AS SELECT k FROM t WHERE k = 7919;
         PREPARE first AS SELECT k FROM t WHERE k >= 7919 ORDER BY k LIMIT 1;
         PREPARE many AS SELECT count(*) FROM t WHERE k BETWEEN 7919 AND 9169",
    );
    let mut pages = |query: &str| {
        let query = format!("EXECUTE {query}");
        pages_of(&mut client, &query);
        pages_of(&mut client, &query)
    };
    let (one, first, many) = (pages("one"), pages("first"), pages("many"));
    println!("{one} pages for one key, {first} for the first of a range, {many} for 1,000 rows");
    // To see that there is no second row, no page is looked at.
    assert!(one <= first + 4, "{one} and {first} pages");
    // Each of ten runs has a hundred of the rows, unpacked by and by.
    assert!(many <= 4 * first, "{many} and {first} pages");
}
