//! The head of an index: entries of small transactions, until they are sealed into a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::contract::{declare, is_raised};
use crate::installation::always_parallel;
use crate::rows::{Rng, check, create_table, execute, number, same_rows};

/// Bytes of WAL that statements write.
fn wal_of(client: &mut Client, statements: &str) -> i64 {
    let before: String = lsn(client);
    execute(client, statements);
    number(
        client,
        &format!("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')::int8"),
    )
}

fn lsn(client: &mut Client) -> String {
    let row = client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]);
    row.expect("a position").get(0)
}

/// Bytes of WAL that statements on `t` write for its index: those with one of `method`, less those
/// without.
fn wal_of_index(client: &mut Client, method: &str, statements: &str) -> i64 {
    execute(client, "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8)");
    // The first change of a page after a checkpoint logs it whole, which is no matter of this test.
    execute(client, "CHECKPOINT");
    let without = wal_of(client, statements);
    execute(
        client,
        &format!("DROP TABLE t; CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING {method} (k)"),
    );
    wal_of(client, statements) - without
}

/// Statements of one row each, that each commit.
fn single_rows(count: u32) -> String {
    format!(
        "CREATE OR REPLACE PROCEDURE add_rows() LANGUAGE plpgsql AS $$ BEGIN
             FOR i IN 1..{count} LOOP
                 INSERT INTO t VALUES ((i * 7919) % 1000003, i);
                 COMMIT;
             END LOOP;
         END $$;"
    )
}

/// With checksums, or this setting, the server logs images of pages that are changed without a
/// record of their own.
#[test]
fn pages_of_runs_are_logged_once() {
    let [without, with] = ["off", "on"].map(|hints| {
        let cluster = Cluster::start_with(&format!("wal_log_hints = {hints}"));
        let mut client = cluster.client();
        execute(&mut client, "SET bedload.batch_entries = 20000");
        wal_of_index(
            &mut client,
            "bedload",
            "INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series(1, 200000) i",
        )
    });
    assert!(with < without * 5 / 4, "{with} bytes, {without} without hints");
}

#[test]
fn small_transactions_write_little_wal() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    execute(&mut client, &single_rows(20_000));
    let wal = wal_of_index(&mut client, "bedload", "CALL add_rows()");
    check(&mut client, "t_k");
    assert!(
        wal / 20_000 <= 170,
        "{} bytes a row of one-row transactions",
        wal / 20_000
    );

    let hundreds = "DO $$ BEGIN FOR i IN 1..400 LOOP
             INSERT INTO t SELECT ((i * 100 + j) * 7919) % 1000003, j FROM generate_series(1, 100) j;
             COMMIT;
         END LOOP; END $$";
    let wal = wal_of_index(&mut client, "bedload", hundreds);
    check(&mut client, "t_k");
    assert!(
        wal / 40_000 <= 28,
        "{} bytes a row of transactions of 100 rows",
        wal / 40_000
    );
}

#[test]
fn upserts_cost_what_they_cost_with_a_btree() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    let mut measured = Vec::new();
    for method in ["btree", "bedload"] {
        let upserts = "CREATE UNIQUE INDEX t_id ON t (id);
             INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series(1, 20000) i
                 ON CONFLICT (id) DO UPDATE SET k = excluded.k";
        let wal = wal_of_index(&mut client, method, upserts);
        let size = number(&mut client, "SELECT pg_relation_size('t_k')");
        measured.push((wal, size));
    }
    check(&mut client, "t_k");
    let [(btree_wal, btree_size), (wal, size)] = measured[..] else {
        panic!("there are two methods");
    };
    assert!(
        wal <= 2 * btree_wal,
        "{wal} bytes of WAL, and {btree_wal} of a btree"
    );
    assert!(
        size <= 2 * btree_size,
        "{size} bytes, and {btree_size} of a btree"
    );
}

/// Sessions that insert single rows, VACUUM and readers at once.
#[test]
fn the_head_is_shared() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    let is_over = AtomicBool::new(false);
    let socket = cluster.socket();
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for seed in 1..=3 {
            let (socket, is_over) = (&socket, &is_over);
            writers.push(scope.spawn(move || {
                let mut client = connect(socket).expect("a session");
                let mut rng = Rng::new(seed);
                let mut rows = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let key = rng.below(5000);
                    let gone = rng.below(5000);
                    execute(&mut client, &format!("INSERT INTO t VALUES ({key}, {seed})"));
                    let found = number(
                        &mut client,
                        &format!("SELECT count(*) FROM t WHERE k = {key} AND id = {seed}"),
                    );
                    assert!(found > 0, "a session sees its own row");
                    if rows % 3 == 0 {
                        execute(
                            &mut client,
                            &format!("DELETE FROM t WHERE k = {gone} AND id = {seed}"),
                        );
                    }
                    rows += 1;
                }
                rows
            }));
        }
        // The writers would go on for ever if this panicked.
        let over = scopeguard::guard(&is_over, |over| over.store(true, Ordering::Relaxed));
        let mut reader = cluster.client();
        for _ in 0..20 {
            execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
            execute(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
            same_rows(&mut reader, "t", "k BETWEEN 1000 AND 3000");
            execute(&mut reader, "COMMIT");
        }
        drop(over);
        for writer in writers {
            assert!(writer.join().expect("no row is missing") > 0);
        }
    });
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}

/// Raises an error at every point of an append, and of the sealing that follows it.
#[test]
fn an_error_while_the_head_is_written_loses_nothing() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    for batch_entries in [0, 1000] {
        let mut points = 0;
        for point in 1.. {
            execute(
                &mut client,
                &format!(
                    "TRUNCATE t; SET bedload.batch_entries = 0;
                     INSERT INTO t SELECT i * 3, i FROM generate_series(1, 70) i;
                     SET bedload.batch_entries = {batch_entries};
                     BEGIN;
                     INSERT INTO t SELECT i, i FROM generate_series(1, 6) i;
                     SAVEPOINT s;
                     SELECT harness_raise_at({point});"
                ),
            );
            let is_raised = is_raised(client.batch_execute(&format!(
                "INSERT INTO t SELECT -i, i FROM generate_series(1, 30) i;
                 SET LOCAL {} = on; SELECT count(*) FROM t WHERE k > 0",
                always_parallel()
            )));
            execute(
                &mut client,
                "ROLLBACK TO s; SELECT harness_raise_at(0); INSERT INTO t VALUES (4, 4); COMMIT",
            );
            assert_eq!(same_rows(&mut client, "t", "k > -100"), 77, "at {point}");
            check(&mut client, "t_k");
            if point % 5 == 0 {
                execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
                assert_eq!(number(&mut client, "SELECT entries FROM bedload_info('t_k')"), 77);
            }
            if !is_raised {
                break;
            }
            points += 1;
        }
        assert!(
            points >= 3,
            "{points} points with {batch_entries} entries a batch"
        );
    }
}

/// Raises an error at every point at which entries go from the head to the tree.
#[test]
fn an_error_while_the_head_is_sealed_loses_nothing() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(&mut client, "SET bedload.batch_entries = 0");
    for statement in ["SELECT bedload_drain('t_k')", "VACUUM (INDEX_CLEANUP ON) t"] {
        let mut points = 0;
        for point in 1.. {
            execute(
                &mut client,
                &format!(
                    "TRUNCATE t; INSERT INTO t SELECT i * 3, i FROM generate_series(1, 70) i;
                     DELETE FROM t WHERE id = 7; SELECT harness_raise_at({point})"
                ),
            );
            let is_raised = is_raised(client.batch_execute(statement));
            execute(&mut client, "SELECT harness_raise_at(0)");
            assert_eq!(same_rows(&mut client, "t", "k > 0"), 69, "{statement} at {point}");
            check(&mut client, "t_k");
            if !is_raised {
                break;
            }
            points += 1;
        }
        assert!(points >= 5, "{points} points of {statement}");
    }
}

/// An entry in the head is found once, also if it came twice after a crash.
#[test]
fn the_head_survives_crashes() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(&mut client, &single_rows(1));
    for round in 1..=5 {
        for row in 0..60 {
            execute(
                &mut client,
                &format!("INSERT INTO t VALUES ({row} * 17 % 31, {round})"),
            );
        }
        drop(client);
        cluster.kill_and_recover();
        client = cluster.client();
        assert_eq!(same_rows(&mut client, "t", "k >= 0"), 60 * round);
        check(&mut client, "t_k");
    }
    execute(&mut client, "DELETE FROM t WHERE id < 3");
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    assert_eq!(
        number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
        180
    );
    assert_eq!(
        number(&mut client, "SELECT bedload_sweep('t_k')"),
        0,
        "the head's pages are not lost"
    );
    check(&mut client, "t_k");
}
