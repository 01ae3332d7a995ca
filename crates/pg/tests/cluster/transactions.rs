//! Entries that wait in a session, and the cases in which they must not.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::contract::{declare, is_raised};
use crate::installation::always_parallel;
use crate::rows::{
    By, check, create_table, execute, execute_each, number, pending, plan, rows_by, same_rows,
};

fn table(client: &mut Client) {
    create_table(client);
    execute(
        client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;",
    );
}

fn found(client: &mut Client, condition: &str) -> usize {
    rows_by(
        client,
        &format!("SELECT k, id FROM t WHERE {condition}"),
        By::Index,
    )
    .len()
}

#[test]
fn a_session_sees_what_waits_and_others_see_it_when_it_is_committed() {
    let cluster = Cluster::start();
    let (mut writer, mut reader) = (cluster.client(), cluster.client());
    table(&mut writer);
    execute(
        &mut writer,
        "BEGIN; INSERT INTO t SELECT i, i FROM generate_series(501, 1500) i",
    );
    assert_eq!(pending(&mut writer, "t_k"), 1000, "they wait");
    same_rows(&mut writer, "t", "k BETWEEN 400 AND 1200");
    same_rows(&mut writer, "t", "true");
    assert_eq!(found(&mut reader, "k > 500"), 500);
    execute(&mut writer, "COMMIT");
    assert_eq!(pending(&mut writer, "t_k"), 0);
    assert_eq!(found(&mut reader, "k > 500"), 1500);
    execute(
        &mut writer,
        "BEGIN; INSERT INTO t SELECT 7, i FROM generate_series(1, 100) i; ROLLBACK",
    );
    assert_eq!(pending(&mut writer, "t_k"), 0);
    assert_eq!(
        number(&mut reader, "SELECT entries FROM bedload_info('t_k')"),
        2000,
        "they have vanished"
    );
    check(&mut reader, "t_k");
}

/// A cursor goes on over entries that are published while it is open, and finds each once.
#[test]
fn a_cursor_survives_that_entries_are_published() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    table(&mut client);
    execute(
        &mut client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off;
         BEGIN; INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i;
         DECLARE c CURSOR FOR SELECT id FROM t ORDER BY k;",
    );
    let mut count = client.query("FETCH 700 FROM c", &[]).expect("rows").len();
    // Beyond what may wait.
    execute(
        &mut client,
        "SET bedload.batch_entries = 10; INSERT INTO t SELECT i, i FROM generate_series(1, 500) i",
    );
    assert!(pending(&mut client, "t_k") < 10);
    count += client.query("FETCH ALL FROM c", &[]).expect("rows").len();
    assert_eq!(count, 4000);
    execute(&mut client, "COMMIT");
    check(&mut client, "t_k");
}

/// Rows of an aborted subtransaction are dead at once: their addresses become those of other rows
/// before the transaction ends.
#[test]
fn entries_of_an_aborted_subtransaction_are_dropped() {
    let cluster = Cluster::start();
    let (mut writer, mut other) = (cluster.client(), cluster.client());
    table(&mut writer);
    execute(
        &mut writer,
        "BEGIN;
         INSERT INTO t SELECT 100000 + i, i FROM generate_series(1, 50) i;
         SAVEPOINT a;
           INSERT INTO t SELECT 200000 + i, i FROM generate_series(1, 5000) i;
           SAVEPOINT b; INSERT INTO t SELECT 300000 + i, i FROM generate_series(1, 500) i; RELEASE b;
         ROLLBACK TO a;
         SAVEPOINT c; INSERT INTO t SELECT 400000 + i, i FROM generate_series(1, 60) i; RELEASE c;",
    );
    assert_eq!(pending(&mut writer, "t_k"), 110);
    // The aborted one has no entries but those of its child.
    execute(
        &mut writer,
        "SAVEPOINT a;
           SAVEPOINT b; INSERT INTO t SELECT 300000 + i, i FROM generate_series(1, 500) i; RELEASE b;
         ROLLBACK TO a;",
    );
    assert_eq!(pending(&mut writer, "t_k"), 110);
    execute_each(
        &mut other,
        &[
            "VACUUM t",
            "INSERT INTO t SELECT -i, i FROM generate_series(1, 5500) i",
        ],
    );
    let reused = number(
        &mut other,
        "SELECT count(*) FROM t WHERE k < 0 AND (ctid::text::point)[0] <= 35",
    );
    assert!(reused > 1000, "{reused} addresses were used again");
    execute(&mut writer, "COMMIT");
    assert_eq!(found(&mut other, "k BETWEEN 200000 AND 399999"), 0);
    assert_eq!(found(&mut other, "k >= 100000"), 110);
    check(&mut other, "t_k");
    same_rows(&mut other, "t", "true");
}

/// `INSERT … ON CONFLICT` takes rows back without telling the index.
#[test]
fn rows_that_may_be_taken_back_do_not_wait() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    table(&mut client);
    execute(&mut client, "CREATE UNIQUE INDEX t_id ON t (id)");
    for conflict in ["ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO UPDATE SET k = -1"] {
        // The first statement of a session begins before the module is loaded.
        let mut fresh = cluster.client();
        for clause in [
            format!("INSERT INTO t SELECT i, i FROM generate_series(900, 1100) i {conflict}"),
            format!(
                "WITH w AS (INSERT INTO t SELECT i, i FROM generate_series(900, 1200) i {conflict} RETURNING 1)
                 SELECT count(*) FROM w"
            ),
        ] {
            execute(&mut fresh, &format!("BEGIN; {clause}"));
            assert_eq!(pending(&mut fresh, "t_k"), 0, "{clause}");
            execute(&mut fresh, "INSERT INTO t SELECT i, i FROM generate_series(2000, 2010) i");
            assert_eq!(pending(&mut fresh, "t_k"), 0, "nor does anything after it");
            execute(&mut fresh, "ROLLBACK; BEGIN; INSERT INTO t SELECT 1, i FROM generate_series(3000, 3009) i");
            assert_eq!(pending(&mut fresh, "t_k"), 10, "until the transaction ends");
            execute(&mut fresh, "ROLLBACK");
        }
    }
    // A node of another extension stands above the insertion.
    let mut fresh = cluster.client();
    execute(
        &mut fresh,
        "INSERT INTO t VALUES (1, 3000); DELETE FROM t WHERE id = 3000; SET bedload.wraps_inserts = on",
    );
    let upsert = "INSERT INTO t SELECT i, i FROM generate_series(900, 1100) i ON CONFLICT DO NOTHING";
    assert!(plan(&mut fresh, upsert).starts_with("Result"));
    execute(&mut fresh, &format!("BEGIN; {upsert}"));
    assert_eq!(pending(&mut fresh, "t_k"), 0, "below another node");
    execute(&mut fresh, "ROLLBACK");
    let mut fresh = cluster.client();
    execute(
        &mut fresh,
        "BEGIN; INSERT INTO t SELECT 1, i FROM generate_series(3000, 3009) i",
    );
    assert_eq!(
        pending(&mut fresh, "t_k"),
        10,
        "a plain first statement of a session waits"
    );
    execute(&mut fresh, "ROLLBACK");
    check(&mut client, "t_k");
}

#[test]
fn entries_are_published_before_a_transaction_is_prepared() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    table(&mut client);
    execute(
        &mut client,
        "BEGIN; INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i; PREPARE TRANSACTION 'p'",
    );
    assert_eq!(found(&mut client, "k > 5000"), 0);
    execute(&mut client, "COMMIT PREPARED 'p'");
    assert_eq!(found(&mut client, "k > 5000"), 10);
    check(&mut client, "t_k");
}

/// A worker has not what waits in its leader.
#[test]
fn entries_are_published_before_a_parallel_query() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    table(&mut client);
    execute(
        &mut client,
        "BEGIN; INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i",
    );
    assert_eq!(pending(&mut client, "t_k"), 10);
    execute(&mut client, &format!("SET {} = on", always_parallel()));
    assert_eq!(found(&mut client, "k > 5000"), 10);
    execute(&mut client, &format!("SET {} = off", always_parallel()));
    assert_eq!(pending(&mut client, "t_k"), 0);
    execute(&mut client, "COMMIT");
}

/// An index gets another file within a transaction, and its old one back.
#[test]
fn entries_belong_to_a_file() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    table(&mut client);
    for statement in ["TRUNCATE t", "REINDEX INDEX t_k", "CLUSTER t USING t_k"] {
        execute(
            &mut client,
            &format!(
                "BEGIN;
                 INSERT INTO t SELECT i, i FROM generate_series(2001, 2010) i;
                 SAVEPOINT a;
                 INSERT INTO t SELECT i, i FROM generate_series(3001, 3010) i;
                 {statement};
                 INSERT INTO t SELECT i, i FROM generate_series(4001, 4010) i;"
            ),
        );
        same_rows(&mut client, "t", "k > 2000");
        execute(
            &mut client,
            "ROLLBACK TO a; INSERT INTO t SELECT i, i FROM generate_series(5001, 5010) i",
        );
        assert_eq!(
            same_rows(&mut client, "t", "k BETWEEN 2001 AND 2010 OR k > 5000"),
            20
        );
        execute(&mut client, "COMMIT");
        check(&mut client, "t_k");
        execute(
            &mut client,
            &format!(
                "BEGIN; INSERT INTO t VALUES (6000, 1); {statement}; INSERT INTO t VALUES (6001, 1); COMMIT"
            ),
        );
        same_rows(&mut client, "t", "true");
        check(&mut client, "t_k");
        execute(
            &mut client,
            "TRUNCATE t; INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
        );
    }
    // In a table of the same transaction the file stays the same.
    execute(
        &mut client,
        "BEGIN; CREATE TABLE n (k int8, id int8); CREATE INDEX n_k ON n USING bedload (k);
         INSERT INTO n SELECT i, i FROM generate_series(1, 100) i; TRUNCATE n;
         INSERT INTO n SELECT -i, i FROM generate_series(1, 50) i;",
    );
    same_rows(&mut client, "n", "true");
    execute(&mut client, "COMMIT");
    check(&mut client, "n_k");
    execute(
        &mut client,
        "BEGIN; INSERT INTO t VALUES (1, 1); DROP INDEX t_k; INSERT INTO t VALUES (2, 2); COMMIT",
    );
    execute(
        &mut client,
        "BEGIN; INSERT INTO n VALUES (1, 1); DROP TABLE n; COMMIT",
    );
}

/// If two transactions each read what the other writes, one fails.
#[test]
fn serializable_transactions_are_serializable() {
    let cluster = Cluster::start();
    let (mut a, mut b) = (cluster.client(), cluster.client());
    table(&mut a);
    for client in [&mut a, &mut b] {
        execute(client, "BEGIN ISOLATION LEVEL SERIALIZABLE");
        assert_eq!(found(client, "k = 7777"), 0);
    }
    execute(&mut a, "INSERT INTO t VALUES (7777, 1)");
    execute(&mut b, "INSERT INTO t VALUES (7777, 2)");
    let commits = [a.batch_execute("COMMIT"), b.batch_execute("COMMIT")];
    assert_eq!(commits.iter().filter(|commit| commit.is_ok()).count(), 1);
    assert_eq!(found(&mut a, "k = 7777"), 1);
    // The scan comes after the other's row, and before its entry.
    execute(&mut a, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    execute(&mut b, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    execute(&mut a, "INSERT INTO t VALUES (8888, 1)");
    assert_eq!(found(&mut b, "k BETWEEN 8000 AND 9000"), 0);
    execute(&mut b, "INSERT INTO t VALUES (9999, 1)");
    let read = a
        .query("SELECT k, id FROM t WHERE k = 9999", &[])
        .map(|rows| rows.len());
    let commits = [a.batch_execute("COMMIT"), b.batch_execute("COMMIT")];
    assert!(
        read.is_err() || commits.iter().any(Result::is_err),
        "each would be before the other"
    );
}

#[test]
fn temporary_and_unlogged_tables_have_indexes() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TEMP TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k);
         INSERT INTO t SELECT (random() * 1000)::int8, i FROM generate_series(1, 20000) i;
         DELETE FROM t WHERE id % 2 = 0;",
    );
    execute(&mut client, "VACUUM t");
    execute(
        &mut client,
        "INSERT INTO t SELECT (random() * 1000)::int8, i FROM generate_series(1, 9000) i;
         CREATE UNLOGGED TABLE u (k int8, id int8); CREATE INDEX u_k ON u USING bedload (k);
         INSERT INTO u SELECT (random() * 1000)::int8, i FROM generate_series(1, 20000) i;",
    );
    for name in ["t", "u"] {
        same_rows(&mut client, name, "k < 500");
        check(&mut client, &format!("{name}_k"));
    }
    // Emptied at each commit, when entries have been published.
    execute(
        &mut client,
        "CREATE TEMP TABLE e (k int8, id int8) ON COMMIT DELETE ROWS; CREATE INDEX e_k ON e USING bedload (k)",
    );
    for _ in 0..3 {
        execute(
            &mut client,
            "BEGIN; INSERT INTO e SELECT i, i FROM generate_series(1, 700) i",
        );
        assert_eq!(same_rows(&mut client, "e", "k > 100"), 600);
        execute(&mut client, "COMMIT");
        assert_eq!(same_rows(&mut client, "e", "k > 100"), 0);
        check(&mut client, "e_k");
    }
    drop(client);
    cluster.kill_and_recover();
    let mut client = cluster.client();
    assert_eq!(
        same_rows(&mut client, "u", "true"),
        0,
        "an unlogged table is empty after a crash"
    );
    check(&mut client, "u_k");
    execute(
        &mut client,
        "INSERT INTO u SELECT (random() * 1000)::int8, i FROM generate_series(1, 5000) i",
    );
    assert_eq!(same_rows(&mut client, "u", "true"), 5000);
    check(&mut client, "u_k");
}

/// Deferred triggers run before the entries of a transaction are published, and bring more of them.
#[test]
fn rows_of_deferred_triggers_are_published() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.client(), cluster.client());
    table(&mut client);
    execute(
        &mut client,
        "CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i;
             RETURN NULL;
         END $$;
         CREATE TABLE cause (k int8);
         CREATE CONSTRAINT TRIGGER more AFTER INSERT ON cause DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION more()",
    );
    for end in ["COMMIT", "PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'"] {
        let before = found(&mut other, "k > 5000");
        execute_each(&mut client, &["BEGIN", "INSERT INTO cause VALUES (1)"]);
        assert_eq!(found(&mut client, "k > 5000"), before, "they come later");
        end.split("; ")
            .for_each(|statement| execute(&mut client, statement));
        assert_eq!(found(&mut other, "k > 5000"), before + 10, "{end}");
    }
    check(&mut client, "t_k");
}

/// Another extension inserts rows when the entries of the transaction have been published.
#[test]
fn rows_that_come_after_the_publication_do_not_wait() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.client(), cluster.client());
    table(&mut client);
    for (rows, end) in [
        (10, "COMMIT"),
        (20, "PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'"),
    ] {
        execute(
            &mut client,
            "BEGIN; INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i;
             SET LOCAL bedload.late_statement = 'INSERT INTO t SELECT 7000 + i, i FROM generate_series(1, 10) i'",
        );
        end.split("; ")
            .for_each(|statement| execute(&mut client, statement));
        assert_eq!(found(&mut other, "k BETWEEN 5000 AND 6000"), rows, "{end}");
        assert_eq!(found(&mut other, "k > 7000"), rows, "{end}");
    }
    check(&mut client, "t_k");
}

/// A scan that sees rows of transactions under way decides what two of them may do together, so
/// each has its own rows in the index before it looks for those of the other.
#[test]
fn entries_are_published_before_a_scan_that_sees_uncommitted_rows() {
    let cluster = Cluster::start();
    let (mut client, mut other) = (cluster.client(), cluster.client());
    declare(&mut client);
    table(&mut client);
    let seen = "SELECT harness_rows_of_a_dirty_scan('t', 't_k')";
    execute(
        &mut client,
        "BEGIN; INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i",
    );
    assert_eq!(pending(&mut client, "t_k"), 10);
    assert_eq!(number(&mut other, seen), 1000);
    assert_eq!(number(&mut client, seen), 1010);
    assert_eq!(pending(&mut client, "t_k"), 0);
    assert_eq!(number(&mut other, seen), 1010);
    execute(&mut client, "ROLLBACK");
    assert_eq!(number(&mut other, seen), 1000);
}

/// A scan that sorts pending entries may fail for lack of memory, or in a comparison function. The
/// transaction continues from a savepoint, and later scans find all of its rows.
#[test]
fn a_failed_scan_leaves_no_unsorted_entries() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    create_table(&mut client);
    let scan = "SET LOCAL enable_seqscan = off; SELECT id FROM t WHERE k BETWEEN 100 AND 300";
    // Binary searches of descending keys miss this range, as the middle key is not in it.
    let insert = |ids: &str| format!("INSERT INTO t SELECT 1001 - i, i FROM generate_series({ids}) i");
    // Without and with entries that an earlier scan has sorted.
    for earlier in ["", scan] {
        let rows = [&insert("1, 500"), earlier, &insert("501, 1000")].join("; ");
        execute(
            &mut client,
            &format!("BEGIN; {rows}; SAVEPOINT s; SELECT harness_raise_at(1)"),
        );
        assert!(is_raised(client.batch_execute(scan)), "it sorts");
        execute(&mut client, "ROLLBACK TO s");
        assert_eq!(pending(&mut client, "t_k"), 1000);
        assert_eq!(same_rows(&mut client, "t", "k BETWEEN 100 AND 300"), 201);
        execute(&mut client, "ROLLBACK");
    }
}

/// No other session moves, rebuilds or drops an index for which entries wait.
#[test]
fn an_index_is_locked_while_entries_wait_for_it() {
    let cluster = Cluster::start_with("allow_in_place_tablespaces = on");
    let (mut writer, mut other) = (cluster.client(), cluster.client());
    table(&mut writer);
    execute(&mut other, "CREATE TABLESPACE elsewhere LOCATION ''");
    execute(&mut other, "SET lock_timeout = '50ms'");
    for begin in [
        "BEGIN",
        "BEGIN; SAVEPOINT a",
        "BEGIN; SAVEPOINT a; SAVEPOINT b; INSERT INTO t VALUES (1, 1); ROLLBACK TO b",
    ] {
        execute(
            &mut writer,
            &format!("{begin}; INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i"),
        );
        // Nothing else is asked of the index, as that would lock it too.
        for statement in [
            "ALTER INDEX t_k SET TABLESPACE elsewhere",
            "REINDEX INDEX t_k",
            "DROP INDEX t_k",
        ] {
            let refused = other.batch_execute(statement).expect_err(statement);
            assert_eq!(
                refused.code().map(|code| code.code()),
                Some("55P03"),
                "{statement}: {refused:?}"
            );
        }
        execute(&mut writer, "COMMIT");
    }
    execute(&mut other, "ALTER INDEX t_k SET TABLESPACE elsewhere");
    assert_eq!(same_rows(&mut other, "t", "k > 5000"), 30);
    check(&mut other, "t_k");
}

/// What waits when an index is built beside its session is of rows that the build waits for.
#[test]
fn indexes_are_built_beside_sessions_with_waiting_entries() {
    let cluster = Cluster::start();
    let (mut writer, mut late) = (cluster.client(), cluster.client());
    table(&mut writer);
    for statement in [
        "CREATE INDEX CONCURRENTLY t_again ON t USING bedload (k)",
        "REINDEX INDEX CONCURRENTLY t_again",
    ] {
        execute(
            &mut writer,
            "BEGIN; INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 500) i",
        );
        let socket = cluster.socket();
        let building = thread::spawn(move || {
            let mut builder = connect(&socket).expect("a session");
            execute(&mut builder, statement);
        });
        let waits =
            "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'CONCURRENTLY' AND wait_event_type = 'Lock'
             AND pid <> pg_backend_pid()";
        while number(&mut late, waits) == 0 {
            assert!(!building.is_finished(), "it waits for the writer");
            thread::sleep(Duration::from_millis(5));
        }
        // Into both indexes, where they are ready for it.
        execute(
            &mut late,
            "INSERT INTO t SELECT 9000 + i, i FROM generate_series(1, 500) i",
        );
        execute(
            &mut writer,
            "INSERT INTO t SELECT 7000 + i, i FROM generate_series(1, 500) i; COMMIT",
        );
        building.join().expect("it is built");
        for index in ["t_k", "t_again"] {
            check(&mut late, index);
        }
    }
}

/// Entries that were published before their transaction was aborted are of dead rows.
#[test]
fn published_entries_of_an_aborted_transaction_are_vacuumed() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    table(&mut client);
    execute(
        &mut client,
        "BEGIN; SET LOCAL bedload.batch_entries = 100; INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i; ROLLBACK",
    );
    let entries = "SELECT entries FROM bedload_info('t_k')";
    assert!(number(&mut client, entries) > 1500);
    assert_eq!(same_rows(&mut client, "t", "k > 0"), 1000);
    execute(&mut client, "VACUUM t");
    assert_eq!(number(&mut client, entries), 1000);
    execute(
        &mut client,
        "INSERT INTO t SELECT -i, i FROM generate_series(1, 1000) i",
    );
    assert_eq!(same_rows(&mut client, "t", "k > 0"), 1000);
    check(&mut client, "t_k");
}

/// Rows that are frozen or locked as they come, and files that are written without a log.
#[test]
fn rows_that_are_frozen_locked_or_not_logged_are_found() {
    let cluster = Cluster::start_with("wal_level = minimal\nmax_wal_senders = 0");
    let mut client = cluster.client();
    for threshold in ["'1kB'", "'1GB'"] {
        execute(&mut client, &format!("SET wal_skip_threshold = {threshold}"));
        execute(
            &mut client,
            "DROP TABLE IF EXISTS t; BEGIN; CREATE TABLE t (k int8, id int8)",
        );
        for build in ["CREATE INDEX t_k ON t USING bedload (k)", "TRUNCATE t"] {
            execute(&mut client, build);
            let mut copy = client.copy_in("COPY t FROM STDIN (FREEZE)").expect("a copy");
            for id in 0..3000 {
                writeln!(copy, "{}\t{id}", id * 7919 % 3001).expect("a row");
            }
            copy.finish().expect("rows");
        }
        execute(
            &mut client,
            "SAVEPOINT a; INSERT INTO t SELECT i, i FROM generate_series(1, 500) i; ROLLBACK TO a;
             SELECT * FROM t WHERE k < 100 FOR UPDATE; INSERT INTO t SELECT i, i FROM generate_series(1, 700) i; COMMIT",
        );
        drop(client);
        cluster.kill_and_recover();
        client = cluster.client();
        assert_eq!(same_rows(&mut client, "t", "k >= 0"), 3700);
        check(&mut client, "t_k");
    }
}
