//! Unique indexes under version 18 of the server, which lets other indexes than B-trees decide
//! `INSERT … ON CONFLICT`, have foreign keys point to them, and be partitioned. Statements leave
//! the same rows as with a B-tree.
//!
//! Earlier versions refuse all of this, as `unique.rs` tests; there these tests have nothing to do.

use std::sync::Barrier;
use std::thread;

use crate::cluster::{Cluster, connect};
use crate::installation::{major_version, skip};
use crate::rows::{Rng, check, execute, number, until_one_waits};
use crate::unique::{alike, finish, is_under_way, is_waiting, make_with_dead_row, start};

/// Whether the server lets other indexes than B-trees decide conflicts; says so if it does not.
fn is_allowed() -> bool {
    let is_allowed = major_version() >= 18;
    if !is_allowed {
        skip("version 18 of the server is needed");
    }
    is_allowed
}

#[test]
fn statements_do_what_they_do_with_a_btree() {
    if !is_allowed() {
        return;
    }
    let cluster = Cluster::start();
    let mut client = cluster.client();
    for (prepare, statements) in [
        (
            "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING METHOD (k);
             CREATE INDEX t_id ON t USING METHOD (id)",
            &[
                "INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i ON CONFLICT DO NOTHING",
                "INSERT INTO t SELECT i, -i FROM generate_series(2990, 3100) i ON CONFLICT (k) DO NOTHING",
                "INSERT INTO t SELECT i, 7 FROM generate_series(1, 500) i
                     ON CONFLICT (k) DO UPDATE SET id = t.id + excluded.id",
                "INSERT INTO t SELECT i, 7 FROM generate_series(1, 500) i
                     ON CONFLICT (k) DO UPDATE SET k = -excluded.k, id = 9",
                "INSERT INTO t SELECT i % 50 - 20, i FROM generate_series(1, 500) i ON CONFLICT DO NOTHING",
                "INSERT INTO t VALUES (77, 1), (77, 2) ON CONFLICT (k) DO UPDATE SET id = excluded.id",
                "INSERT INTO t VALUES (NULL, 1), (NULL, 2) ON CONFLICT (k) DO UPDATE SET id = -1",
                "INSERT INTO t VALUES (3050, 1) ON CONFLICT (k) DO UPDATE SET k = 3060",
                "DELETE FROM t WHERE k BETWEEN 100 AND 200;
                 INSERT INTO t SELECT i, 1 FROM generate_series(90, 210) i ON CONFLICT (k) DO UPDATE SET id = 2",
                "BEGIN; INSERT INTO t VALUES (5000, 1) ON CONFLICT DO NOTHING; SAVEPOINT s;
                 INSERT INTO t VALUES (5000, 2), (5001, 1) ON CONFLICT (k) DO UPDATE SET id = 3; ROLLBACK TO s;
                 INSERT INTO t VALUES (5000, 4), (5001, 4) ON CONFLICT DO NOTHING; COMMIT",
            ][..],
        ),
        (
            "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING METHOD (k);
             CREATE UNIQUE INDEX t_id ON t USING METHOD (id)",
            &[
                "INSERT INTO t SELECT i, i FROM generate_series(1, 500) i ON CONFLICT DO NOTHING",
                "INSERT INTO t SELECT i, i + 400 FROM generate_series(501, 700) i ON CONFLICT DO NOTHING",
                "INSERT INTO t VALUES (1, 2000) ON CONFLICT (id) DO NOTHING",
                "INSERT INTO t VALUES (2000, 1) ON CONFLICT (id) DO UPDATE SET id = 2001",
            ],
        ),
        (
            "CREATE TABLE t (k int8, f float8, id int8);
             CREATE UNIQUE INDEX t_k ON t USING METHOD (k) NULLS NOT DISTINCT;
             CREATE UNIQUE INDEX t_f ON t USING METHOD (f, id) NULLS NOT DISTINCT",
            &[
                "INSERT INTO t VALUES (NULL, 0, 1) ON CONFLICT (k) DO UPDATE SET id = t.id + 1",
                "INSERT INTO t VALUES (NULL, 0, 1) ON CONFLICT (k) DO UPDATE SET id = t.id + 1",
                "INSERT INTO t VALUES (1, NULL, NULL) ON CONFLICT (f, id) DO UPDATE SET k = -t.k",
                "INSERT INTO t VALUES (2, NULL, NULL) ON CONFLICT (f, id) DO UPDATE SET k = -t.k",
                "INSERT INTO t VALUES (3, '-0', 2) ON CONFLICT (f, id) DO UPDATE SET k = 4",
            ],
        ),
        (
            "CREATE TABLE t (a text, b numeric, u uuid);
             CREATE UNIQUE INDEX t_a ON t USING METHOD (lower(a) COLLATE \"C\", b DESC) INCLUDE (u) WHERE b > 0;
             CREATE UNIQUE INDEX t_u ON t USING METHOD (u); CREATE UNIQUE INDEX t_b ON t USING METHOD (b)",
            &[
                "INSERT INTO t VALUES ('Ab', 1, '00000000-0000-4000-8000-000000000001') ON CONFLICT DO NOTHING",
                "INSERT INTO t VALUES ('aB', 1.00, NULL)
                     ON CONFLICT (lower(a) COLLATE \"C\", b) WHERE b > 0 DO UPDATE SET a = 'c'",
                "INSERT INTO t VALUES ('d', 1.0, NULL) ON CONFLICT (b) DO UPDATE SET a = 'd'",
                "INSERT INTO t VALUES ('e', 5, '00000000-0000-4000-8000-000000000001')
                     ON CONFLICT (u) DO UPDATE SET b = -excluded.b",
                "INSERT INTO t VALUES ('e', 5, '00000000-0000-4000-8000-000000000002')
                     ON CONFLICT (u) DO UPDATE SET b = -excluded.b",
            ],
        ),
    ] {
        let results = alike(&mut client, prepare, statements);
        assert!(results.iter().filter(|result| result.is_ok()).count() >= 3, "{results:?}");
    }
    check(&mut client, "t_a");
}

/// Each session adds to the counts of the same keys at about the same time.
#[test]
fn racing_sessions_lose_no_upsert() {
    if !is_allowed() {
        return;
    }
    const SESSIONS: u64 = 6;
    const ROUNDS: u64 = 1500;
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
    );
    let (socket, barrier) = (
        cluster.socket(),
        Barrier::new(usize::try_from(SESSIONS).expect("few")),
    );
    let counted: u64 = thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                let (socket, barrier) = (&socket, &barrier);
                scope.spawn(move || {
                    let mut client = connect(socket).expect("a session");
                    let mut rng = Rng::new(session + 1);
                    barrier.wait();
                    let mut counted = 0;
                    for round in 0..ROUNDS {
                        let key = round + rng.below(4);
                        if session == 0 && round % 100 == 0 {
                            execute(&mut client, "VACUUM t");
                        }
                        let insert = match rng.below(4) {
                            0 => format!("INSERT INTO t VALUES ({key}, 0) ON CONFLICT DO NOTHING"),
                            1 => format!(
                                "BEGIN; INSERT INTO t VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET id = t.id + 1;
                                 ROLLBACK"
                            ),
                            _ => {
                                counted += 1;
                                format!(
                                    "INSERT INTO t VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET id = t.id + 1"
                                )
                            }
                        };
                        execute(&mut client, &insert);
                    }
                    counted
                })
            })
            .collect();
        let sessions = sessions.into_iter();
        sessions.map(|session| session.join().expect("no panic")).sum()
    });
    execute(
        &mut client,
        "SET enable_indexscan = off; SET enable_bitmapscan = off",
    );
    let duplicates = "SELECT count(*) - count(DISTINCT k) FROM t";
    assert_eq!(number(&mut client, duplicates), 0);
    let found = number(&mut client, "SELECT sum(id)::int8 FROM t");
    assert_eq!(found.cast_unsigned(), counted, "no count is lost");
    check(&mut client, "t_k");
}

/// Two sessions insert the same key at once: neither has found it, the one that is first has it,
/// and the other finds it when it tries again.
#[test]
fn a_key_that_comes_meanwhile_is_a_conflict() {
    if !is_allowed() {
        return;
    }
    let cluster = Cluster::start();
    let (mut client, socket) = (cluster.client(), cluster.socket());
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k);
         SELECT pg_advisory_lock(7)",
    );
    let upsert = "INSERT INTO t VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET id = t.id + 10";
    // It has looked for the key, and holds the lock on it.
    let first = start(
        &socket,
        &format!("SET bedload.pause_before_insertion = 7; {upsert}"),
    );
    until_one_waits(&mut client, || is_under_way(&first));
    let second = start(&socket, upsert);
    assert!(is_waiting(&second), "the other has the key's lock");
    execute(&mut client, "SELECT pg_advisory_unlock(7)");
    assert_eq!((finish(&first), finish(&second)), (Ok(()), Ok(())));
    assert_eq!(number(&mut client, "SELECT id FROM t"), 11);
    check(&mut client, "t_k");
}

/// A session that looks for a conflict has the entry of a dead row, whose address would become
/// that of a row of another key before the server looks at it.
#[test]
fn the_row_of_another_key_is_no_conflict() {
    if !is_allowed() {
        return;
    }
    let cluster = Cluster::start();
    let (mut client, socket) = (cluster.client(), cluster.socket());
    for others in [1, 2000] {
        make_with_dead_row(&mut client, others);
        execute(&mut client, "SELECT pg_advisory_lock(7)");
        let upserting = start(
            &socket,
            "SET bedload.pause_before_row = 7;
             INSERT INTO t VALUES (1, 3) ON CONFLICT (k) DO UPDATE SET id = -1",
        );
        until_one_waits(&mut client, || is_under_way(&upserting));
        let vacuum = start(&socket, "VACUUM (INDEX_CLEANUP ON) t");
        assert!(is_waiting(&vacuum), "the entry is in use");
        execute(&mut client, "INSERT INTO t VALUES (5, 4)");
        execute(&mut client, "SELECT pg_advisory_unlock(7)");
        assert_eq!((finish(&upserting), finish(&vacuum)), (Ok(()), Ok(())));
        assert_eq!(number(&mut client, "SELECT id FROM t WHERE k = 1"), 3);
        assert_eq!(number(&mut client, "SELECT count(*) FROM t WHERE id = -1"), 0);
        check(&mut client, "t_k");
    }
}

#[test]
fn foreign_keys_and_partitioned_tables_have_unique_indexes() {
    if !is_allowed() {
        return;
    }
    let cluster = Cluster::start();
    let mut client = cluster.client();
    for (prepare, statements) in [
        (
            "DROP TABLE IF EXISTS f; CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING METHOD (k);
             CREATE TABLE f (k int8 REFERENCES t (k) ON UPDATE CASCADE)",
            &[
                "INSERT INTO t SELECT i, i FROM generate_series(1, 500) i",
                "INSERT INTO f VALUES (7), (7), (400)",
                "INSERT INTO f VALUES (501)",
                "DELETE FROM t WHERE k = 7",
                "UPDATE t SET k = 1000 WHERE k = 7",
                "DELETE FROM t WHERE k = 7",
                "INSERT INTO f VALUES (1000)",
                "DELETE FROM f",
                "DELETE FROM t WHERE k > 300",
                "DROP TABLE f",
            ][..],
        ),
        (
            "CREATE TABLE t (k int8, id int8) PARTITION BY RANGE (k);
             CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (100);
             CREATE UNIQUE INDEX t_k ON t USING METHOD (k);
             CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (100) TO (1000)",
            &[
                "INSERT INTO t SELECT i, i FROM generate_series(1, 500) i",
                "INSERT INTO t VALUES (7, 0)",
                "INSERT INTO t VALUES (7, 0), (107, 0), (600, 0) ON CONFLICT (k) DO UPDATE SET id = -t.id",
                "UPDATE t SET k = 90 WHERE k = 200",
                "UPDATE t SET k = 900 WHERE k = 20",
            ],
        ),
    ] {
        let results = alike(&mut client, prepare, statements);
        let refused = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(refused, 2, "{results:?}");
    }
}
