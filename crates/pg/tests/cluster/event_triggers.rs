//! Event triggers that insert rows while a statement gives an index another file.

use postgres::Client;

use crate::cluster::Cluster;
use crate::files::{EXCHANGE, OTHER, begin, index_and_file, same_rows_in_parallel};
use crate::rows::{check, execute, number, pending, same_rows};

/// Has an event trigger insert ten rows at the beginning of each of these statements, after a block
/// that fails and a statement that may copy files.
fn add_rows_before(client: &mut Client, statements: &[&str]) {
    let tags = statements.join("', '");
    execute(
        client,
        &format!(
            "CREATE FUNCTION add_rows() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                 BEGIN PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN NULL; END;
                 ANALYZE t;
                 INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i;
             END $$;
             CREATE EVENT TRIGGER add_rows ON ddl_command_start WHEN TAG IN ('{tags}')
                 EXECUTE FUNCTION add_rows()"
        ),
    );
}

/// An event trigger inserts rows when a statement has begun, and before it copies the file.
#[test]
fn rows_of_an_event_trigger_are_in_a_copy_of_the_file() {
    let (cluster, mut client) = begin();
    add_rows_before(&mut client, &["ALTER INDEX"]);
    execute(&mut client, "BEGIN; ALTER INDEX t_k SET TABLESPACE one");
    assert_eq!(same_rows(&mut client, "t", "k > 5000"), 10);
    assert_eq!(same_rows_in_parallel(&mut client, "k > 5000"), 10);
    execute(&mut client, "COMMIT");
    assert_eq!(same_rows(&mut client, "t", "k > 5000"), 10);
    check(&mut client, "t_k");
    execute(
        &mut client,
        "BEGIN; SAVEPOINT s; ALTER INDEX t_k SET TABLESPACE two; ROLLBACK TO s;
         ALTER INDEX t_k SET TABLESPACE two; COMMIT",
    );
    assert_eq!(same_rows(&mut client, "t", "k > 5000"), 20);
    check(&mut client, "t_k");
    // The statement began before the module was loaded.
    for (number, statement) in [
        "ALTER INDEX t_k SET TABLESPACE one",
        "DO $$ BEGIN EXECUTE 'ALTER INDEX t_k SET TABLESPACE two'; END $$",
    ]
    .iter()
    .enumerate()
    {
        client = cluster.client();
        execute(&mut client, statement);
        assert_eq!(
            same_rows(&mut client, "t", "k > 5000"),
            30 + 10 * number,
            "{statement}"
        );
        check(&mut client, "t_k");
    }
    // The file that is copied was built within the transaction, or the copy is given away.
    for (number, statements) in [
        "REINDEX INDEX t_k; ALTER INDEX t_k SET TABLESPACE one",
        "REINDEX INDEX t_k; ALTER INDEX t_k SET TABLESPACE pg_default; INSERT INTO t VALUES (4000, 1)",
        "SAVEPOINT s; REINDEX INDEX t_k; ROLLBACK TO s; ALTER INDEX t_k SET TABLESPACE one",
        "SAVEPOINT s; REINDEX INDEX t_k; RELEASE s; ALTER INDEX t_k SET TABLESPACE two",
    ]
    .iter()
    .enumerate()
    {
        execute(&mut client, &format!("BEGIN; {statements}"));
        let expected = 50 + 10 * number + usize::from(number > 0);
        for end in ["", "COMMIT"] {
            execute(&mut client, end);
            assert_eq!(same_rows(&mut client, "t", "k > 3000"), expected, "{statements}");
        }
        check(&mut client, "t_k");
    }
    execute(&mut client, OTHER);
    let expected = same_rows(&mut client, "t", "k > 3000");
    execute(
        &mut client,
        &format!("BEGIN; ALTER INDEX t_k SET TABLESPACE one; {EXCHANGE}; COMMIT"),
    );
    for (table, expected) in [("t", expected), ("other", expected + 10)] {
        assert_eq!(same_rows(&mut client, table, "k > 3000"), expected, "{table}");
        check(&mut client, &format!("{table}_k"));
    }
}

/// Rows wait again when a statement has ended that copies files, or has failed, and during one that
/// copies none.
#[test]
fn rows_of_an_event_trigger_alone_do_not_wait() {
    let (_cluster, mut client) = begin();
    add_rows_before(&mut client, &["ALTER INDEX"]);
    let fails = "DO $$ BEGIN ALTER INDEX t_k SET TABLESPACE none; EXCEPTION WHEN OTHERS THEN NULL; END $$";
    for (statement, expected) in [("ALTER INDEX t_k SET TABLESPACE one", 10), (fails, 0)] {
        execute(&mut client, &format!("BEGIN; {statement}"));
        assert_eq!(pending(&mut client, "t_k"), 0, "{statement}");
        execute(&mut client, "INSERT INTO t VALUES (4000, 1)");
        assert_eq!(pending(&mut client, "t_k"), 1, "{statement}");
        assert_eq!(
            same_rows(&mut client, "t", "k > 3000"),
            expected + 1,
            "{statement}"
        );
        execute(&mut client, "ROLLBACK");
    }
    check(&mut client, "t_k");
    // Waiting entries are published as a run, and others go to the head.
    execute(
        &mut client,
        "CREATE MATERIALIZED VIEW m AS SELECT k, min(id) AS id FROM t GROUP BY k;
         CREATE UNIQUE INDEX ON m (k); CREATE INDEX m_k ON m USING bedload (k);
         INSERT INTO t SELECT i, i FROM generate_series(5001, 6000) i;
         REFRESH MATERIALIZED VIEW CONCURRENTLY m",
    );
    let head = "SELECT head_entries FROM bedload_stats('m_k')";
    assert_eq!(
        (same_rows(&mut client, "m", "k > 5000"), number(&mut client, head)),
        (1000, 0)
    );
}

/// `ALTER COLUMN … TYPE` drops an index and creates another one with its file, if the order of
/// values stays the same. Rows that an event trigger has inserted meanwhile are in that one.
#[test]
fn rows_of_an_event_trigger_are_in_an_index_that_takes_over_the_file() {
    let cluster = Cluster::start_with("allow_in_place_tablespaces = on");
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8, v varchar(10)); CREATE INDEX t_k ON t USING bedload (k, v);
         INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    client
        .batch_execute("CREATE TABLESPACE one LOCATION ''")
        .expect("a tablespace");
    add_rows_before(&mut client, &["ALTER TABLE", "ALTER INDEX"]);
    let mut expected = 0;
    let mut lengths = 11..;
    let mut longer = || {
        let length = lengths.next().expect("no end");
        format!("ALTER TABLE t ALTER v TYPE varchar({length})")
    };
    for (end, added) in [
        ("COMMIT", 11),
        ("ROLLBACK TO s; COMMIT", 1),
        ("RELEASE s; COMMIT", 11),
        ("INSERT INTO t VALUES (5000, 1); COMMIT", 12),
        ("INSERT INTO t VALUES (5000, 1); ROLLBACK TO s; COMMIT", 1),
        ("ALTER INDEX t_k SET TABLESPACE one; COMMIT", 21),
        (
            "ALTER INDEX t_k SET TABLESPACE pg_default; ROLLBACK TO s; COMMIT",
            1,
        ),
        ("REINDEX INDEX t_k; COMMIT", 11),
        (
            "DROP INDEX t_k; CREATE INDEX t_k ON t USING bedload (k, v); COMMIT",
            11,
        ),
        ("TRUNCATE t; INSERT INTO t VALUES (5000, 1); COMMIT", 1 - 80),
    ] {
        execute(&mut client, "BEGIN; INSERT INTO t VALUES (4000, 1); SAVEPOINT s");
        let (index, file) = index_and_file(&mut client, "t_k");
        execute(&mut client, &longer());
        let (next, next_file) = index_and_file(&mut client, "t_k");
        assert!(next != index && next_file == file, "another index has the file");
        assert_eq!(same_rows(&mut client, "t", "k >= 4000"), expected + 11, "{end}");
        assert_eq!(
            same_rows_in_parallel(&mut client, "k >= 4000"),
            expected + 11,
            "{end}"
        );
        execute(&mut client, end);
        expected = expected.checked_add_signed(added).expect("some rows");
        assert_eq!(same_rows(&mut client, "t", "k >= 4000"), expected, "{end}");
        check(&mut client, "t_k");
    }
    // A copy of the file passes to another index, a passing is rolled back, and the file passes on
    // twice before it is copied; no query publishes entries meanwhile.
    let (first, second) = (longer(), longer());
    for (statements, added) in [
        (format!("ALTER INDEX t_k SET TABLESPACE one; {first}"), 20),
        (
            format!("ALTER INDEX t_k SET TABLESPACE pg_default; SAVEPOINT s; {second}; ROLLBACK TO s"),
            10,
        ),
        (
            format!("{second}; {}; ALTER INDEX t_k SET TABLESPACE one", longer()),
            30,
        ),
    ] {
        execute(&mut client, &format!("BEGIN; {statements}; COMMIT"));
        expected += added;
        assert_eq!(same_rows(&mut client, "t", "k >= 4000"), expected, "{statements}");
        check(&mut client, "t_k");
    }
}

/// An event trigger inserts rows when a statement has begun that gives all rows of the table other
/// addresses: their entries are of the old ones, which are those of other rows then.
#[test]
fn rows_of_an_event_trigger_are_in_a_rewritten_table_once() {
    let (_cluster, mut client) = begin();
    add_rows_before(&mut client, &["ALTER TABLE"]);
    let mut expected = 0;
    for end in ["COMMIT", "ROLLBACK TO s; COMMIT", "RELEASE s; COMMIT"] {
        execute(
            &mut client,
            "INSERT INTO t SELECT -i, i FROM generate_series(1, 500) i; DELETE FROM t WHERE k < 0;
             BEGIN; INSERT INTO t VALUES (4000, 1); SAVEPOINT s;
             ALTER TABLE t ALTER COLUMN id TYPE int8 USING id + 0",
        );
        same_rows(&mut client, "t", "true");
        execute(&mut client, end);
        expected += if end.starts_with("ROLLBACK") { 1 } else { 11 };
        assert_eq!(same_rows(&mut client, "t", "k >= 4000"), expected, "{end}");
        check(&mut client, "t_k");
    }
}
