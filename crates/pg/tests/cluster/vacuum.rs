//! VACUUM: entries go before their rows' addresses are used again, and pages are used again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::rows::{Rng, check, create_table, execute, number, same_rows, until_one_waits};

#[test]
fn addresses_that_are_used_again_lead_to_their_new_rows() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    let mut rng = Rng::new(11);
    for round in 0..25 {
        let (rest, modulus) = (rng.below(3), 3 + rng.below(3));
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT (random() * 100000)::int8 + 1000000 * ({round} % 3), i
                     FROM generate_series(1, 4000) i;
                 DELETE FROM t WHERE id % {modulus} <> {rest};"
            ),
        );
        execute(&mut client, "VACUUM t");
        let rows = number(&mut client, "SELECT count(*) FROM t");
        assert_eq!(
            number(&mut client, "SELECT entries FROM bedload_info('t_k')"),
            rows,
            "no dead entry is left"
        );
        same_rows(&mut client, "t", "k BETWEEN 20000 AND 1040000");
        check(&mut client, "t_k");
    }
}

/// The planner takes the size of a partial index from `pg_class`, which `VACUUM` keeps up to date
/// without `ANALYZE`, also if it skips pages of the table.
#[test]
fn vacuum_counts_the_entries_of_a_partial_index() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "CREATE INDEX t_part ON t USING bedload (k) WHERE k < 5000",
    );
    for change in [
        "INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i",
        "DELETE FROM t WHERE k BETWEEN 1001 AND 4000",
        "INSERT INTO t SELECT 7, i FROM generate_series(1, 50) i",
    ] {
        execute(&mut client, change);
        execute(&mut client, "VACUUM t");
        let counted = number(
            &mut client,
            "SELECT reltuples::int8 FROM pg_class WHERE relname = 't_part'",
        );
        let expected = number(&mut client, "SELECT count(*) FROM t WHERE k < 5000");
        assert_eq!(counted, expected, "{change}");
    }
    check(&mut client, "t_part");
}

/// Indexes of tables that are emptied and filled again do not grow for ever.
#[test]
fn pages_are_used_again() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    create_table(&mut client);
    let mut blocks = Vec::new();
    for _ in 0..30 {
        execute(
            &mut client,
            "INSERT INTO t SELECT (random() * 1e6)::int8, i FROM generate_series(1, 20000) i; DELETE FROM t",
        );
        execute(&mut client, "VACUUM t");
        blocks.push(number(&mut client, "SELECT pg_relation_size('t_k') / 8192"));
    }
    // A node keeps a few runs before it pushes any of them down, however little is left in them.
    assert!(
        blocks[29] <= blocks[19] * 5 / 4,
        "blocks round by round: {blocks:?}"
    );
    check(&mut client, "t_k");
}

/// Merges take the place of runs while a snapshot is held that is older than all of them, by
/// several sessions, without VACUUM.
#[test]
fn a_held_snapshot_does_not_keep_pages_of_replaced_runs() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let mut blocks = Vec::new();
    for is_held in [false, true] {
        execute(&mut client, "DROP TABLE IF EXISTS t");
        create_table(&mut client);
        execute(
            &mut client,
            "INSERT INTO t SELECT i, i FROM generate_series(1, 10) i",
        );
        let mut other = cluster.client();
        if is_held {
            execute(
                &mut other,
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; SET enable_seqscan = off;
                 DECLARE c CURSOR FOR SELECT k, id FROM t ORDER BY k",
            );
            assert_eq!(other.query("FETCH 3 FROM c", &[]).expect("rows").len(), 3);
        }
        // The same keys both times: how many blocks are used depends on them.
        for batch in 0..60 {
            execute(
                &mut cluster.client(),
                &format!(
                    "INSERT INTO t SELECT hashint8({batch} * 1000 + i) + (1::int8 << 33), i
                     FROM generate_series(1, 1000) i"
                ),
            );
        }
        blocks.push(number(&mut client, "SELECT pg_relation_size('t_k') / 8192"));
        if is_held {
            let seen = other.query("FETCH ALL FROM c", &[]).expect("rows");
            assert_eq!(seen.len(), 7, "the snapshot sees what it saw");
        }
        check(&mut client, "t_k");
        let used = number(&mut client, "SELECT pages FROM bedload_info('t_k')");
        println!(
            "held: {is_held}; {} blocks, {used} of them used",
            blocks[blocks.len() - 1]
        );
        assert!(
            blocks[blocks.len() - 1] <= 2 * used,
            "{blocks:?} blocks, and {used} of them are used"
        );
    }
    assert!(
        blocks[1] <= blocks[0] * 5 / 4,
        "{blocks:?} blocks without and with a held snapshot"
    );
}

/// Writers, readers and VACUUM at once.
#[test]
fn vacuum_runs_beside_writers_and_readers() {
    let cluster = Cluster::start_with("bedload.max_workers = 2");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT (random() * 20000)::int8, i FROM generate_series(1, 20000) i;",
    );
    let is_over = AtomicBool::new(false);
    let socket = cluster.socket();
    thread::scope(|scope| {
        for seed in 1..=2 {
            let (socket, is_over) = (&socket, &is_over);
            scope.spawn(move || {
                let mut client = connect(socket).expect("a session");
                let mut rng = Rng::new(seed);
                while !is_over.load(Ordering::Relaxed) {
                    let first = rng.below(20000);
                    let last = first + rng.below(500);
                    execute(
                        &mut client,
                        &format!(
                            "BEGIN;
                             INSERT INTO t SELECT (random() * 20000)::int8, i FROM generate_series(1, 300) i;
                             SAVEPOINT a;
                             INSERT INTO t SELECT i, i FROM generate_series({first}, {last}) i; ROLLBACK TO a;
                             COMMIT;
                             DELETE FROM t WHERE ctid = ANY (ARRAY(
                                 SELECT ctid FROM t WHERE k BETWEEN {first} AND {last} FOR UPDATE SKIP LOCKED));"
                        ),
                    );
                }
            });
        }
        // The writers would go on for ever if this panicked.
        let _over = scopeguard::guard(&is_over, |over| over.store(true, Ordering::Relaxed));
        let mut reader = cluster.client();
        for _ in 0..25 {
            execute(&mut client, "VACUUM t");
            execute(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
            same_rows(&mut reader, "t", "k BETWEEN 5000 AND 9000");
            execute(&mut reader, "COMMIT");
        }
    });
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "true");
}

/// VACUUM sleeps, when it has cost as much as it may, between two merges: while it has the right to
/// a node, writers and workers would wait for it.
#[test]
fn vacuum_sleeps_without_a_right() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let (mut client, mut holder) = (cluster.client(), cluster.client());
    create_table(&mut client);
    // Three runs at the root, which are not due, and are merged in several pieces.
    for _ in 0..4 {
        execute(
            &mut client,
            "INSERT INTO t SELECT (random() * 1e9)::int8, i FROM generate_series(1, 40000) i",
        );
    }
    let at_root = "SELECT runs_by_level[array_length(runs_by_level, 1)] FROM bedload_stats('t_k')";
    assert_eq!(number(&mut client, at_root), 3);
    execute(&mut holder, "SELECT pg_advisory_lock(7)");
    let socket = cluster.socket();
    let vacuum = thread::spawn(move || {
        let mut client = connect(&socket).expect("a session");
        execute(&mut client, "SET bedload.pause_before_delay = 7");
        execute(&mut client, "VACUUM t");
    });
    until_one_waits(&mut client, || !vacuum.is_finished());
    let rights = "SELECT count(*) FROM pg_locks WHERE locktype = 'tuple' AND granted";
    assert_eq!(number(&mut client, rights), 0);
    assert_eq!(number(&mut client, at_root), 1);
    drop(holder);
    vacuum.join().expect("it succeeds");
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k < 10000000");
}

/// VACUUM keeps the entries of rows that a snapshot may need, and takes them when it may not. Then
/// their pages are used again.
#[test]
fn vacuum_keeps_what_a_held_snapshot_needs() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.client(), cluster.client());
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 10007, i FROM generate_series(1, 5000) i",
    );
    execute(&mut other, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let seen = same_rows(&mut other, "t", "k BETWEEN 100 AND 2000");
    let rounds = |client: &mut Client, count: i64| {
        for _ in 0..count {
            execute(client, "UPDATE t SET k = k + 1");
            execute(client, "VACUUM t");
        }
    };
    let entries = "SELECT entries FROM bedload_info('t_k')";
    let blocks = "SELECT pg_relation_size('t_k') / 8192";
    rounds(&mut client, 6);
    assert_eq!(number(&mut client, entries), 7 * 5000);
    assert_eq!(same_rows(&mut other, "t", "k BETWEEN 100 AND 2000"), seen);
    let held = number(&mut client, blocks);
    let used = number(&mut client, "SELECT pages FROM bedload_info('t_k')");
    assert!(held <= 2 * used, "{held} blocks, {used} of them used");
    check(&mut client, "t_k");
    execute(&mut other, "COMMIT");
    execute(&mut client, "VACUUM t");
    assert_eq!(number(&mut client, entries), 5000);
    rounds(&mut client, 12);
    assert_eq!(number(&mut client, entries), 5000);
    let later = number(&mut client, blocks);
    assert!(later <= held, "{later} blocks, and {held} with the snapshot");
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k > 500");
}
