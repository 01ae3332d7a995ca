//! UNIQUE indexes: answers and errors are those of a B-tree, alone and under concurrent sessions.

use std::path::Path;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::installation::major_version;
use crate::rows::{Rng, check, execute, execute_each, number, pages_of, pending, plan};
use crate::settings::setting;

/// An error, as drivers see it: its code, message, detail, table and constraint.
pub(crate) type Failure = [String; 5];

pub(crate) fn failure(error: &postgres::Error) -> Failure {
    let error = error.as_db_error().expect("of the server");
    [
        error.code().code(),
        error.message(),
        error.detail().unwrap_or_default(),
        error.table().unwrap_or_default(),
        error.constraint().unwrap_or_default(),
    ]
    .map(ToOwned::to_owned)
}

/// Runs statements against a table with an index of either kind; asserts that they succeed, or
/// fail, alike.
pub(crate) fn alike(client: &mut Client, prepare: &str, statements: &[&str]) -> Vec<Result<(), Failure>> {
    let [btree, bedload] = ["btree", "bedload"].map(|method| {
        execute(client, "DROP TABLE IF EXISTS t");
        let prepare = prepare.replace("METHOD", method);
        execute(client, &prepare);
        let results = statements.iter().map(|statement| {
            let result = client.batch_execute(&statement.replace("METHOD", method));
            if result.is_err() {
                client.batch_execute("ROLLBACK").expect("rolled back");
            }
            result.map_err(|error| failure(&error))
        });
        let results: Vec<_> = results.collect();
        let rows = client
            .query("SELECT t::text FROM t ORDER BY 1", &[])
            .expect("rows");
        let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        (results, rows)
    });
    assert_eq!(bedload, btree, "{prepare}");
    bedload.0
}

fn violations(results: &[Result<(), Failure>]) -> usize {
    let codes = results.iter().filter_map(|result| result.as_ref().err());
    codes.filter(|failure| failure[0] == "23505").count()
}

#[test]
fn duplicates_are_refused_as_by_a_btree() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    for (prepare, statements, expected) in [
        (
            "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING METHOD (k)",
            &[
                "INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i",
                "INSERT INTO t VALUES (17, 0)",
                "INSERT INTO t VALUES (NULL, 0), (NULL, 1)",
                "INSERT INTO t VALUES (5000, 0), (5000, 1)",
                "UPDATE t SET k = k + 1 WHERE k < 3000",
                "UPDATE t SET k = -k",
                "UPDATE t SET id = id + 1 WHERE k > -50",
                "DELETE FROM t WHERE k = -5; INSERT INTO t VALUES (-5, 7)",
                "BEGIN; INSERT INTO t VALUES (6, 1); ROLLBACK",
                "INSERT INTO t VALUES (6, 1)",
                "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (7, 1); ROLLBACK TO s; INSERT INTO t VALUES (7, 2); COMMIT",
                "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (8, 1); RELEASE s; INSERT INTO t VALUES (8, 2); COMMIT",
                "BEGIN; INSERT INTO t VALUES (9, 1); PREPARE TRANSACTION 'p'",
                "COMMIT PREPARED 'p'",
                "INSERT INTO t VALUES (9, 2)",
                "DO $$ BEGIN INSERT INTO t VALUES (9, 3); EXCEPTION WHEN unique_violation THEN INSERT INTO t VALUES (10, 3); END $$",
                "DROP INDEX t_k; INSERT INTO t VALUES (9, 4); CREATE UNIQUE INDEX t_k ON t USING METHOD (k)",
            ][..],
            6,
        ),
        (
            "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING METHOD (k) NULLS NOT DISTINCT",
            &["INSERT INTO t VALUES (NULL, 1)", "INSERT INTO t VALUES (NULL, 2)", "INSERT INTO t VALUES (1, 2)"],
            1,
        ),
        (
            "CREATE TABLE t (a text, b int4, c text); CREATE UNIQUE INDEX t_ab ON t USING METHOD (a, b DESC) INCLUDE (c)",
            &[
                "INSERT INTO t VALUES ('x', 1, 'p'), ('x', 2, 'p'), ('X', 1, 'p'), ('x', NULL, 'p'), ('x', NULL, 'p')",
                "INSERT INTO t VALUES ('x', 1, 'q')",
                "INSERT INTO t VALUES (NULL, 1, 'q'), (NULL, 1, 'q')",
                "UPDATE t SET b = 2 WHERE a = 'x' AND b = 1",
            ],
            2,
        ),
        (
            "CREATE TABLE t (a text, b numeric); CREATE UNIQUE INDEX t_a ON t USING METHOD (lower(a)) WHERE b > 0;
             CREATE UNIQUE INDEX t_b ON t USING METHOD (b)",
            &[
                "INSERT INTO t VALUES ('Ab', 1), ('aB', -1)",
                "INSERT INTO t VALUES ('AB', 2)",
                "INSERT INTO t VALUES ('C', 1.00)",
                "UPDATE t SET b = 5 WHERE b = -1",
            ],
            3,
        ),
        (
            "CREATE TABLE t (u uuid, f float8); CREATE UNIQUE INDEX t_u ON t USING METHOD (u);
             CREATE UNIQUE INDEX t_f ON t USING METHOD (f)",
            &[
                "INSERT INTO t VALUES ('00000000-0000-4000-8000-000000000001', 0)",
                "INSERT INTO t VALUES ('00000000-0000-4000-8000-000000000002', 1)",
                "INSERT INTO t VALUES ('00000000-0000-4000-8000-000000000001', 2)",
                "INSERT INTO t VALUES ('00000000-0000-4000-8000-000000000003', '-0')",
            ],
            2,
        ),
        (
            "CREATE TABLE t (k int8) PARTITION BY RANGE (k);
             CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (100);
             CREATE UNIQUE INDEX ON t_1 USING METHOD (k)",
            &["INSERT INTO t VALUES (1)", "COPY t FROM PROGRAM 'echo 2'", "COPY t FROM PROGRAM 'echo 1'"],
            1,
        ),
    ] {
        let results = alike(&mut client, prepare, statements);
        assert_eq!(violations(&results), expected, "{results:?}");
    }
}

/// Entries are in the index at once, but for those that conflict with none.
#[test]
fn entries_do_not_wait() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k);
         BEGIN; INSERT INTO t SELECT i, i FROM generate_series(1, 700) i; INSERT INTO t VALUES (NULL, 1)",
    );
    assert_eq!(pending(&mut client, "t_k"), 1);
    execute(&mut client, "COMMIT");
    check(&mut client, "t_k");
}

/// Runs a statement on a session in the background.
pub(crate) fn start(socket: &Path, statement: &str) -> Receiver<Result<(), Failure>> {
    let (sender, receiver) = channel();
    let mut client = connect(socket).expect("a session");
    let statement = statement.to_owned();
    thread::spawn(move || {
        let result = client.batch_execute(&statement);
        // A test that has failed does not listen any more.
        sender.send(result.map_err(|error| failure(&error))).ok();
    });
    receiver
}

pub(crate) fn is_under_way(receiver: &Receiver<Result<(), Failure>>) -> bool {
    receiver.try_recv() == Err(TryRecvError::Empty)
}

pub(crate) fn is_waiting(receiver: &Receiver<Result<(), Failure>>) -> bool {
    receiver.recv_timeout(Duration::from_millis(150)) == Err(RecvTimeoutError::Timeout)
}

/// A table with a unique index that has the entry of a dead row, at the first address, in its head
/// or, if so many other rows come with one commit, in a run.
pub(crate) fn make_with_dead_row(client: &mut Client, others: i64) {
    execute_each(
        client,
        &[
            "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8)",
            &format!(
                "INSERT INTO t VALUES (1, 1); CREATE UNIQUE INDEX t_k ON t USING bedload (k);
                 INSERT INTO t SELECT i, 1 FROM generate_series(10, 9 + {others}) i"
            ),
            "DELETE FROM t WHERE k = 1",
        ],
    );
}

pub(crate) fn finish(receiver: &Receiver<Result<(), Failure>>) -> Result<(), Failure> {
    receiver.recv_timeout(Duration::from_secs(60)).expect("it ends")
}

/// A transaction has done something to a key, another inserts it and waits, then the first one
/// ends.
#[test]
fn two_sessions_meet_as_over_a_btree() {
    let cluster = Cluster::start();
    let (mut first, mut observer) = (cluster.client(), cluster.client());
    for work in [
        "INSERT INTO t VALUES (1, 1)",
        "DELETE FROM t WHERE k = 5",
        "UPDATE t SET k = 1 WHERE k = 5",
        "UPDATE t SET id = 9 WHERE k = 5",
        "SAVEPOINT s; INSERT INTO t VALUES (1, 1); ROLLBACK TO s",
        "SAVEPOINT s; INSERT INTO t VALUES (1, 1); RELEASE s",
        "SAVEPOINT s; DELETE FROM t WHERE k = 5; ROLLBACK TO s",
    ] {
        for end in ["COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'p'"] {
            for statement in [
                "INSERT INTO t VALUES (1, 2)",
                "INSERT INTO t VALUES (5, 2)",
                "UPDATE t SET k = 1 WHERE k = 6",
                "BEGIN; INSERT INTO t VALUES (7, 0), (8, 0), (5, 0); COMMIT",
            ] {
                let case = format!("{work}; {statement}; {end}");
                let [btree, bedload] = ["btree", "bedload"].map(|method| {
                    execute(&mut observer, "DROP TABLE IF EXISTS t");
                    execute(
                        &mut observer,
                        &format!(
                            "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING {method} (k);
                             INSERT INTO t VALUES (5, 0), (6, 0)"
                        ),
                    );
                    execute(&mut first, &format!("BEGIN; {work}"));
                    let second = start(&cluster.socket(), statement);
                    let early = second.recv_timeout(Duration::from_millis(40)).ok();
                    execute(&mut first, end);
                    let is_prepared = end.starts_with("PREPARE");
                    let early = early.or_else(|| {
                        is_prepared
                            .then(|| second.recv_timeout(Duration::from_millis(20)).ok())
                            .flatten()
                    });
                    if is_prepared {
                        execute(&mut first, "COMMIT PREPARED 'p'");
                    }
                    let result = early.unwrap_or_else(|| finish(&second));
                    let rows = observer.query("SELECT t::text FROM t ORDER BY 1", &[]).expect("rows");
                    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
                    (result, rows)
                });
                assert_eq!(bedload, btree, "{case}");
                check(&mut observer, "t_k");
            }
        }
    }
}

#[test]
fn of_three_sessions_one_wins() {
    let cluster = Cluster::start();
    let (mut first, mut observer) = (cluster.client(), cluster.client());
    // All keys share a lock, as strings of different bytes may be equal.
    execute(
        &mut first,
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (k text COLLATE ci); CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
    );
    execute(&mut observer, "SET lock_timeout = '10s'");
    for (at, end, winners) in [(1, "ROLLBACK", 1), (2, "COMMIT", 0)] {
        execute(&mut first, &format!("BEGIN; INSERT INTO t VALUES ('{at}')"));
        let statement = format!("INSERT INTO t VALUES ('{at}')");
        let [second, third] = [(); 2].map(|()| start(&cluster.socket(), &statement));
        assert!(is_waiting(&second) && is_waiting(&third));
        // A session that waits for another does not keep others from their keys.
        execute(&mut observer, &format!("INSERT INTO t VALUES ('{at} free')"));
        execute(&mut first, end);
        let results = [finish(&second), finish(&third)];
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), winners);
        assert_eq!(violations(&results), 2 - winners);
    }
    // Two transactions that each wait for the other's key: one of them is told.
    execute(&mut first, "BEGIN; INSERT INTO t VALUES ('a')");
    let second = start(
        &cluster.socket(),
        "BEGIN; INSERT INTO t VALUES ('b'); INSERT INTO t VALUES ('a'); COMMIT",
    );
    assert!(is_waiting(&second));
    let own = first.batch_execute("INSERT INTO t VALUES ('b')");
    execute(&mut first, "ROLLBACK");
    let results = [own.map_err(|error| failure(&error)), finish(&second)];
    let deadlocks = results
        .iter()
        .filter(|result| result.as_ref().is_err_and(|failure| failure[0] == "40P01"));
    assert_eq!(deadlocks.count(), 1, "{results:?}");
    check(&mut first, "t_k");
}

const RACERS: u64 = 8;

#[test]
fn eight_racing_sessions_make_no_duplicate() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
    );
    let each = setting("BEDLOAD_PG_RACE", 16_000) / RACERS;
    let (socket, barrier) = (
        cluster.socket(),
        Barrier::new(usize::try_from(RACERS).expect("few")),
    );
    let won: Vec<i64> = thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                let (socket, barrier) = (&socket, &barrier);
                scope.spawn(move || {
                    let mut client = connect(socket).expect("a session");
                    let mut rng = Rng::new(racer + 1);
                    barrier.wait();
                    let mut won = 0;
                    for round in 0..each {
                        // All sessions are about the same keys at about the same time.
                        let key = round * 2 + rng.below(16);
                        match rng.below(10) {
                            0 => execute(&mut client, "DELETE FROM t WHERE k % 97 = 5 AND id = -1"),
                            1 if racer == 0 && round % 100 == 0 => execute(&mut client, "VACUUM t"),
                            _ => {}
                        }
                        let is_undone = rng.below(10) == 0;
                        let end = if is_undone { "ROLLBACK" } else { "COMMIT" };
                        let insert = format!("BEGIN; INSERT INTO t VALUES ({key}, {racer}); {end}");
                        match client.batch_execute(&insert) {
                            Ok(()) => won += i64::from(!is_undone),
                            Err(error) => {
                                assert_eq!(failure(&error)[0], "23505", "{error:?}");
                                execute(&mut client, "ROLLBACK");
                            }
                        }
                    }
                    won
                })
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().expect("no panic"))
            .collect()
    });
    execute(
        &mut client,
        "SET enable_indexscan = off; SET enable_bitmapscan = off",
    );
    assert_eq!(
        number(&mut client, "SELECT count(*) FROM t"),
        won.iter().sum::<i64>()
    );
    assert_eq!(
        number(&mut client, "SELECT count(*) - count(DISTINCT k) FROM t"),
        0,
        "no duplicate"
    );
    check(&mut client, "t_k");
}

#[test]
fn no_duplicate_comes_of_a_crash() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
    );
    drop(client);
    for kill in 0..3 {
        let socket = cluster.socket();
        let acknowledged: Vec<u64> = thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let socket = &socket;
                    scope.spawn(move || {
                        let mut client = connect(socket).expect("a session");
                        let mut rng = Rng::new(kill * 10 + writer + 1);
                        let mut acknowledged = Vec::new();
                        while !client.is_closed() {
                            let key = rng.below(50_000);
                            let insert = format!("INSERT INTO t VALUES ({key}, {writer})");
                            if client.batch_execute(&insert).is_ok() {
                                acknowledged.push(key);
                            }
                        }
                        acknowledged
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(700));
            cluster.kill_and_recover();
            writers
                .into_iter()
                .flat_map(|writer| writer.join().expect("no panic"))
                .collect()
        });
        let mut client = cluster.client();
        check(&mut client, "t_k");
        assert!(!acknowledged.is_empty());
        for key in acknowledged.iter().step_by(1 + acknowledged.len() / 50) {
            let again = client.batch_execute(&format!("INSERT INTO t VALUES ({key}, 9)"));
            assert_eq!(failure(&again.expect_err("it is there"))[0], "23505");
        }
        execute(
            &mut client,
            "SET enable_indexscan = off; SET enable_bitmapscan = off",
        );
        assert_eq!(
            number(&mut client, "SELECT count(*) - count(DISTINCT k) FROM t"),
            0
        );
    }
}

#[test]
fn indexes_are_built_concurrently_and_over_dead_rows() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let mut old = cluster.client();
    execute_each(
        &mut client,
        &[
            "CREATE TABLE t (k int8, id int8); INSERT INTO t SELECT i, i FROM generate_series(1, 2000) i",
            "CREATE TABLE u AS TABLE t",
        ],
    );
    execute(
        &mut old,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM u",
    );
    // Dead, though not to the old snapshot.
    execute_each(
        &mut client,
        &[
            "DELETE FROM t WHERE k <= 100",
            "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i",
            "UPDATE t SET id = id + 1 WHERE k BETWEEN 500 AND 900",
            "CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
        ],
    );
    execute(&mut old, "COMMIT");
    check(&mut client, "t_k");
    execute_each(
        &mut client,
        &[
            "REINDEX INDEX t_k",
            "REINDEX INDEX CONCURRENTLY t_k",
            "VACUUM t",
            "VACUUM FULL t",
            "DROP INDEX t_k",
            "CREATE UNIQUE INDEX CONCURRENTLY t_k ON t USING bedload (k)",
        ],
    );
    let again = client
        .batch_execute("INSERT INTO t VALUES (700, 0)")
        .expect_err("there");
    assert_eq!(failure(&again)[2], "Key (k)=(700) already exists.");
    check(&mut client, "t_k");
    execute(&mut client, "DROP INDEX t_k; INSERT INTO t VALUES (700, 0)");
    let built = client
        .batch_execute("CREATE UNIQUE INDEX CONCURRENTLY t_k ON t USING bedload (k)")
        .expect_err("a duplicate");
    assert_eq!(
        failure(&built),
        [
            "23505",
            "could not create unique index \"t_k\"",
            "Key (k)=(700) is duplicated.",
            "t",
            "t_k"
        ]
    );
}

/// A transaction that has looked for a key before it inserts it, and waits for another one, is told
/// that it cannot be serialized, rather than of a duplicate that it has not seen: it may try again.
#[test]
fn serializable_transactions_are_told_so_first() {
    let cluster = Cluster::start();
    let (mut first, mut observer) = (cluster.client(), cluster.client());
    let begin = "SET enable_seqscan = off; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT * FROM t WHERE k = 1;
                 INSERT INTO t VALUES (1)";
    for method in ["btree", "bedload"] {
        execute(
            &mut observer,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8); CREATE UNIQUE INDEX t_k ON t USING {method} (k)"
            ),
        );
        execute(&mut first, begin);
        let second = start(&cluster.socket(), begin);
        assert!(is_waiting(&second));
        execute(&mut first, "COMMIT");
        assert_eq!(finish(&second).expect_err("refused")[0], "40001", "{method}");
    }
}

/// A check marks the entries of dead rows that it finds, so the next one does not look at these
/// rows again.
#[test]
fn checks_pass_over_rows_that_others_found_dead() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
    );
    let insert = "INSERT INTO t VALUES (1, 1)";
    for _ in 0..200 {
        execute_each(&mut client, &[insert, "DELETE FROM t"]);
    }
    let pages = pages_of(&mut client, insert);
    assert!(pages < 60, "{pages} pages");
    check(&mut client, "t_k");
}

/// A check asks the filters of runs, so a key that is new reads few of their pages.
#[test]
fn the_check_of_a_new_key_asks_filters() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let [with, without] = [12, 0].map(|bits| {
        execute(
            &mut client,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (u uuid);
                 CREATE UNIQUE INDEX t_u ON t USING bedload (u) WITH (filter_bits = {bits});
                 INSERT INTO t SELECT md5(i::text)::uuid FROM generate_series(1, 20000) i"
            ),
        );
        let inserts = (0..20).map(|at| format!("INSERT INTO t VALUES (md5('new {at}')::uuid)"));
        let pages: i64 = inserts.map(|insert| pages_of(&mut client, &insert)).sum();
        check(&mut client, "t_u");
        let query = "SELECT count(*) FROM t WHERE u = md5('77')::uuid";
        execute(&mut client, "ANALYZE t");
        assert!(plan(&mut client, query).contains("t_u"));
        assert_eq!(number(&mut client, query), 1);
        pages
    });
    assert!(with < without, "{with} pages with filters, {without} without");
}

/// PostgreSQL asks for a B-tree by name there, until version 17 in more places.
#[test]
fn the_server_forbids_what_the_documentation_says() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8 NOT NULL, id int8); CREATE UNIQUE INDEX t_k ON t USING bedload (k)",
    );
    for (statement, reason, last_version) in [
        (
            "ALTER TABLE t ADD CONSTRAINT c UNIQUE USING INDEX t_k",
            "is not a btree",
            18,
        ),
        (
            "ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY USING INDEX t_k",
            "is not a btree",
            18,
        ),
        (
            "INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING",
            "unexpected non-btree speculative unique index",
            17,
        ),
        (
            "INSERT INTO t VALUES (1, 1) ON CONFLICT (k) DO NOTHING",
            "unexpected non-btree speculative unique index",
            17,
        ),
        (
            "CREATE TABLE f (k int8 REFERENCES t (k))",
            "only b-tree indexes are supported for foreign keys",
            17,
        ),
        (
            "CREATE TABLE p (k int8) PARTITION BY RANGE (k); CREATE UNIQUE INDEX ON p USING bedload (k)",
            "cannot match partition key to an index using access method",
            17,
        ),
    ] {
        let result = client.batch_execute(statement);
        if major_version() > last_version {
            assert!(result.is_ok(), "{statement}: {result:?}");
        } else {
            let [_, message, ..] = failure(&result.expect_err(statement));
            assert!(message.contains(reason), "{statement}: {message}");
        }
    }
    let merge = "MERGE INTO t USING (VALUES (1, 1), (2, 2)) AS n (k, id) ON t.k = n.k
                 WHEN MATCHED THEN UPDATE SET id = n.id WHEN NOT MATCHED THEN INSERT VALUES (n.k, n.id)";
    execute_each(&mut client, &[merge, merge]);
    assert_eq!(number(&mut client, "SELECT count(*) FROM t"), 2);
    check(&mut client, "t_k");
}
