//! Errors while entries are published: none that waits is lost, and memory stays bounded.

use postgres::Client;

use crate::cluster::Cluster;
use crate::contract::{declare, is_raised};
use crate::installation::always_parallel;
use crate::rows::{check, create_table, execute, number, pending, same_rows};

/// Statements that publish what waits in the session.
const FLUSHES: [&str; 5] = [
    "SET LOCAL bedload.batch_entries = 10; INSERT INTO t VALUES (1, 1)",
    "SET LOCAL always_parallel = on; SET LOCAL enable_seqscan = off; SELECT count(*) FROM t WHERE k > 0",
    "ALTER INDEX t_k SET TABLESPACE pg_default; ALTER INDEX t_k RESET (fillfactor)",
    "SELECT bedload_check('t_k')",
    "DO $$ BEGIN
         SET LOCAL bedload.batch_entries = 10;
         INSERT INTO t VALUES (2, 2);
     END $$",
];

fn rows(client: &mut Client) {
    execute(
        client,
        "TRUNCATE t; INSERT INTO t SELECT i * 7, i FROM generate_series(1, 3000) i;",
    );
}

/// Raises an error at every point of a flush, within a savepoint that is rolled back or an
/// exception block.
#[test]
fn an_error_while_entries_are_published_loses_none() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    for flush in FLUSHES {
        let flush = &flush.replace("always_parallel", always_parallel());
        let mut points = 0;
        for point in 1.. {
            rows(&mut client);
            execute(
                &mut client,
                &format!(
                    "BEGIN;
                     INSERT INTO t SELECT i, i FROM generate_series(1, 700) i;
                     SAVEPOINT s;
                     INSERT INTO t SELECT -i, i FROM generate_series(1, 50) i;
                     SELECT harness_raise_at({point});"
                ),
            );
            let is_raised = is_raised(client.batch_execute(flush));
            execute(
                &mut client,
                "ROLLBACK TO s; SELECT harness_raise_at(0); INSERT INTO t VALUES (4, 4); COMMIT",
            );
            assert_eq!(
                same_rows(&mut client, "t", "k BETWEEN -100 AND 100000"),
                3701,
                "{flush} at {point}"
            );
            check(&mut client, "t_k");
            if !is_raised {
                break;
            }
            points += 1;
        }
        assert!(points >= 3, "{points} points of {flush}");
    }
}

/// An exception block catches the error, and the transaction goes on.
#[test]
fn an_exception_block_catches_an_error_of_a_flush() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(
        &mut client,
        "DO $$ BEGIN
             INSERT INTO t SELECT i, i FROM generate_series(1, 500) i;
             FOR point IN 1..12 LOOP
                 BEGIN
                     PERFORM harness_raise_at(point);
                     SET LOCAL bedload.batch_entries = 10;
                     INSERT INTO t VALUES (-point, point);
                 EXCEPTION WHEN OTHERS THEN
                     PERFORM harness_raise_at(0);
                 END;
                 PERFORM harness_raise_at(0);
                 SET LOCAL bedload.batch_entries = 100000;
                 INSERT INTO t SELECT 1000 * point + i, i FROM generate_series(1, 20) i;
             END LOOP;
         END $$",
    );
    assert!(same_rows(&mut client, "t", "k > 0") == 740);
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}

/// A statement that is cancelled while it publishes, at a moment that nobody chooses.
#[test]
fn a_timeout_within_a_savepoint_keeps_the_entries_before_it() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    let mut cancelled = 0;
    for milliseconds in 1..16 {
        execute(
            &mut client,
            "TRUNCATE t; BEGIN; INSERT INTO t SELECT (i * 7919) % 262139, i FROM generate_series(1, 262143) i; SAVEPOINT s",
        );
        let timed =
            format!("SET LOCAL statement_timeout = '{milliseconds}ms'; INSERT INTO t VALUES (1, 1), (2, 2)");
        cancelled += u32::from(client.batch_execute(&timed).is_err());
        execute(&mut client, "ROLLBACK TO s; COMMIT");
        let query = "SET enable_seqscan = off; SET enable_bitmapscan = off";
        execute(&mut client, query);
        assert_eq!(
            number(
                &mut client,
                "SELECT count(*) FROM (SELECT id FROM t WHERE k >= 0 ORDER BY k) s"
            ),
            262_143,
            "after {milliseconds} ms"
        );
        execute(&mut client, "RESET enable_seqscan; RESET enable_bitmapscan");
    }
    assert!(cancelled > 0, "no statement was cancelled");
    check(&mut client, "t_k");
}

/// One bound for all indexes of a session.
#[test]
fn waiting_entries_are_bounded_over_all_indexes() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE p (k int8, id int8) PARTITION BY LIST (id);
         DO $$ BEGIN
             FOR i IN 0..7 LOOP
                 EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES IN (%s)', i, i);
                 EXECUTE format('CREATE INDEX p%s_k ON p%s USING bedload (k)', i, i);
             END LOOP;
         END $$;
         SET bedload.batch_entries = 1000;",
    );
    execute(&mut client, "BEGIN");
    let mut most = 0;
    for batch in 0..20 {
        execute(
            &mut client,
            &format!(
                "INSERT INTO p SELECT i, i % 8 FROM generate_series({batch} * 300, {batch} * 300 + 299) i"
            ),
        );
        let waiting: i64 = (0..8).map(|at| pending(&mut client, &format!("p{at}_k"))).sum();
        most = most.max(waiting);
    }
    assert!((500..1000).contains(&most), "{most} entries waited");
    execute(&mut client, "COMMIT");
    for at in 0..8 {
        same_rows(&mut client, &format!("p{at}"), "true");
        check(&mut client, &format!("p{at}_k"));
    }
}
