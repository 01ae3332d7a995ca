//! Entries of dead rows, which scans mark and pass over until VACUUM removes them.

use postgres::Client;

use crate::cluster::Cluster;
use crate::contract::declare;
use crate::rows::{
    By, Rng, check, create_table, execute, execute_each, number, pages_of, pending, rows_by, same_rows,
};

/// `ORDER BY k LIMIT 1` behind many deleted rows: only the first such query goes through them.
fn dead_rows_are_passed_over(load: &str, deletion: &str, rows: usize, is_index_only: bool) {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(&mut client, load);
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off; ANALYZE t",
    );
    let column = if is_index_only { "k" } else { "k, id" };
    let first = format!("SELECT {column} FROM t ORDER BY k LIMIT 1");
    let last = format!("SELECT {column} FROM t WHERE k < 100000000 ORDER BY k DESC LIMIT 1");
    let fresh = pages_of(&mut client, &first);
    let mut other = cluster.client();
    execute(
        &mut other,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t",
    );
    execute(&mut client, deletion);
    // Somebody sees them: they are not dead yet.
    for query in [&first, &last] {
        execute(&mut client, query);
    }
    assert_eq!(
        rows_by(&mut other, "SELECT k, id FROM t ORDER BY k", By::Index).len(),
        rows
    );
    // The server looks again for the oldest snapshot when there has been another transaction.
    execute(&mut other, "COMMIT; CREATE TABLE u ()");

    // The last one of these marks what is left of the entries of the others' last windows.
    let counts: Vec<i64> = (0..3).map(|_| pages_of(&mut client, &first)).collect();
    println!("{load}: {fresh} pages at first, then {counts:?}");
    assert!(
        counts[0] > 300,
        "{counts:?}: the first query goes through the dead rows"
    );
    assert!(
        counts[2] <= 3 * fresh + 20,
        "{counts:?} pages, and {fresh} without dead rows"
    );
    same_rows(&mut client, "t", "k < 1000000");
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");

    // Rows that VACUUM removes are not looked at either.
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let count = pages_of(&mut client, &first);
    assert!(
        count <= 3 * fresh + 20,
        "{count} pages, and {fresh} without dead rows"
    );
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}

#[test]
fn dead_rows_in_order_are_passed_over() {
    dead_rows_are_passed_over(
        "INSERT INTO t SELECT i, i FROM generate_series(1, 90000) i",
        "DELETE FROM t WHERE k <= 60000",
        90_000,
        false,
    );
}

#[test]
fn dead_rows_of_several_runs_are_passed_over() {
    let round = "INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series";
    dead_rows_are_passed_over(
        &format!("{round}(1, 20000) i; {round}(20001, 60000) i; {round}(60001, 90000) i"),
        "DELETE FROM t WHERE k <= 700000",
        90_000,
        true,
    );
}

#[test]
fn dead_rows_in_the_head_are_passed_over() {
    dead_rows_are_passed_over(
        "SET bedload.batch_entries = 0; INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series(1, 3500) i",
        "DELETE FROM t WHERE k <= 900000",
        3500,
        false,
    );
}

/// Hints that VACUUM gives of emptied leaves may reach the disk before its log does. A crash would
/// then undo the deletions, and leave hints by which scans miss live rows.
#[test]
fn the_log_is_flushed_before_leaves_are_said_to_be_empty() {
    let settings = "synchronous_commit = off\nwal_writer_delay = 10s\nautovacuum = off\nbedload.shrunk = 1";
    let cluster = Cluster::start_with(settings);
    let mut client = cluster.client();
    execute(
        &mut client,
        // Few pages of the table, or VACUUM would have to flush the log to use its buffers again;
        // and keys that do not pack well, for an index of several leaves.
        "CREATE TABLE t (k int8, id int8); \
         INSERT INTO t SELECT (i::int8 << 48) + (hashint8extended(i, 0) & ((1::int8 << 48) - 1)), i \
         FROM generate_series(1, 4000) i; CREATE INDEX t_k ON t USING bedload (k)",
    );
    for statement in [
        "VACUUM (INDEX_CLEANUP ON) t",
        "CHECKPOINT",
        "DELETE FROM t WHERE id BETWEEN 1000 AND 3000",
    ] {
        execute(&mut client, statement);
    }
    let unflushed = "SELECT (pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn())::int8";
    let before = number(&mut client, unflushed);
    assert!(before > 0, "the deletion was flushed");
    let flushed = "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8";
    let deleted = number(&mut client, "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8");
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) t");
    let flushed = number(&mut client, flushed);
    assert!(flushed >= deleted, "{flushed} and {deleted}");
    same_rows(&mut client, "t", "true");
    check(&mut client, "t_k");
}

/// Addresses of dead rows become those of others, in between scans that mark what they find dead.
#[test]
fn marks_are_of_dead_rows_only() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    let mut rng = Rng::new(0xdead);
    for round in 0..40 {
        let (first, batch_entries) = (rng.below(400), rng.below(2) * 1000);
        execute_each(
            &mut client,
            &[
                &format!("SET bedload.batch_entries = {batch_entries}"),
                // Few keys, so that rows come back with the key and the address of others.
                &format!("INSERT INTO t SELECT i % 500, i FROM generate_series({first}, {first} + 700) i"),
                &format!("DELETE FROM t WHERE k BETWEEN {first} AND {first} + 300 AND id % 3 <> {round} % 3"),
                &format!("UPDATE t SET id = -id WHERE k = {first} + 20"),
            ],
        );
        same_rows(&mut client, "t", "k BETWEEN 100 AND 350");
        same_rows(&mut client, "t", &format!("k = {}", first + 20));
        if round % 3 == 0 {
            execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        }
        same_rows(&mut client, "t", "true");
        check(&mut client, "t_k");
    }
    let rows = number(&mut client, "SELECT count(*) FROM t");
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    assert_eq!(
        number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
        rows
    );
}

/// A cursor has found rows dead, whose addresses other rows of the same keys have when it marks
/// them.
#[test]
fn rows_in_the_place_of_dead_ones_are_not_marked() {
    for batch_entries in [0, 100_000] {
        let cluster = Cluster::start_with("bedload.shrunk = 1");
        let mut client = cluster.client();
        create_table(&mut client);
        let rows = "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i";
        // The cursor stops at a row in another page of the table, which VACUUM would leave alone.
        execute(
            &mut client,
            &format!(
                "SET bedload.batch_entries = {batch_entries}; {rows}; INSERT INTO t SELECT 999 - i, i FROM generate_series(1, 800) i"
            ),
        );
        execute(&mut client, "DELETE FROM t WHERE k <= 100");
        let mut other = cluster.client();
        execute(
            &mut other,
            "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;
             DECLARE c CURSOR FOR SELECT k, id FROM t ORDER BY k",
        );
        assert_eq!(other.query("FETCH 1 FROM c", &[]).expect("a row").len(), 1);
        execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
        execute(&mut client, rows);
        if batch_entries > 0 {
            // Where the dead ones were found.
            execute(&mut client, "SELECT bedload_drain('t_k')");
        }
        let first = "SELECT count(*) FROM t WHERE ctid <= '(0,100)'::tid";
        assert_eq!(
            number(&mut client, first),
            100,
            "they have the addresses of the others"
        );
        execute(&mut other, "CLOSE c; COMMIT");
        assert_eq!(same_rows(&mut client, "t", "k <= 100"), 100);
    }
}

/// A cursor has an entry of the head from its beginning, meets it in a later window, after VACUUM
/// has removed its row, and marks it when another row of the same key has the address.
#[test]
fn entries_of_the_head_are_as_old_as_their_scan() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i; DELETE FROM t WHERE k = 500",
    );
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    execute(&mut client, "SELECT bedload_drain('t_k')");
    // The address of the row, which VACUUM has freed.
    let insert = |client: &mut Client, id: i64| -> String {
        let row = client.query_one("INSERT INTO t VALUES (500, $1) RETURNING ctid::text", &[&id]);
        row.expect("inserted").get(0)
    };
    let first = insert(&mut client, -1);
    execute(&mut client, "DELETE FROM t WHERE k = 500");
    let mut other = cluster.client();
    execute(
        &mut other,
        "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;
         DECLARE c CURSOR FOR SELECT k, id FROM t ORDER BY k",
    );
    let fetched = |other: &mut Client, rows: usize| {
        let found = other.query(&format!("FETCH {rows} FROM c"), &[]);
        assert_eq!(found.expect("rows").len(), rows);
    };
    fetched(&mut other, 1);
    execute(&mut client, "VACUUM (INDEX_CLEANUP ON) t");
    fetched(&mut other, 600);
    assert_eq!(insert(&mut client, -2), first, "the address of the other");
    execute(&mut other, "CLOSE c; COMMIT");
    assert_eq!(same_rows(&mut client, "t", "k = 500"), 1);
}

/// A snapshot on a standby may see rows that are dead to everybody on the primary.
#[test]
fn a_standby_takes_no_notice_of_marks() {
    let primary = Cluster::start_with("bedload.shrunk = 1");
    let mut client = primary.client();
    create_table(&mut client);
    // A few, in the head: marks there are logged. Their pages have room, so nothing is pruned,
    // which would be a conflict.
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 30) i",
    );
    let standby = primary.standby();
    let mut reader = standby.client();
    execute(
        &mut reader,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SET enable_seqscan = off",
    );
    execute(&mut client, "DELETE FROM t WHERE k <= 20");
    same_rows(&mut client, "t", "k < 25");
    // The replayed pages are those that were written.
    let position: String = client
        .query_one("SELECT pg_current_wal_insert_lsn()::text", &[])
        .expect("a position")
        .get(0);
    let mut other = standby.client();
    let replayed = format!("SELECT (pg_last_wal_replay_lsn() >= '{position}')::int::int8");
    for _ in 0..600 {
        if number(&mut other, &replayed) == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(number(&mut other, &replayed), 1, "the standby is behind");
    let rows = rows_by(
        &mut reader,
        "SELECT k, id FROM t WHERE k < 25 ORDER BY k",
        By::Index,
    );
    assert_eq!(rows.len(), 24, "the snapshot sees what it saw");
    assert_eq!(
        rows_by(
            &mut other,
            "SELECT k, id FROM t WHERE k < 25 ORDER BY k",
            By::Index
        )
        .len(),
        4
    );
}

/// The planner of version 18 looks for the least and the greatest value by an index-only scan, and
/// gives up after some dead rows, if it gets to see them. It plans many statements, for which what
/// waits is not published.
#[test]
fn the_planner_looks_at_rows_itself() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    execute(&mut client, "DELETE FROM t WHERE k <= 500");
    execute(&mut client, "CREATE TABLE u ()");
    let first = "SELECT harness_first_row_for_the_planner('t', 't_k')";
    assert_eq!(number(&mut client, first), 1, "the first row of block 0");
    execute(
        &mut client,
        "BEGIN; INSERT INTO t SELECT 2000, i FROM generate_series(1, 10) i",
    );
    assert_eq!(pending(&mut client, "t_k"), 10);
    number(&mut client, first);
    assert_eq!(pending(&mut client, "t_k"), 10);
    execute(&mut client, "ROLLBACK");
}
