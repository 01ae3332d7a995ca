//! Statements that copy the file of an index while entries wait for it.

use postgres::Client;

use crate::cluster::Cluster;
use crate::rows::{check, create_table, execute, number, same_rows};

/// A table with rows, and tablespaces `one` and `two`.
fn begin() -> (Cluster, Client) {
    let cluster = Cluster::start_with("allow_in_place_tablespaces = on");
    let mut client = cluster.client();
    create_table(&mut client);
    execute(
        &mut client,
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    client
        .batch_execute("CREATE TABLESPACE one LOCATION ''")
        .expect("a tablespace");
    client
        .batch_execute("CREATE TABLESPACE two LOCATION ''")
        .expect("a tablespace");
    (cluster, client)
}

/// Statements that give the index of `t` another file, by a copy or by a rebuild.
const MOVES: [&str; 8] = [
    "ALTER INDEX t_k SET TABLESPACE one",
    "ALTER INDEX t_k SET TABLESPACE two",
    "ALTER INDEX ALL IN TABLESPACE two SET TABLESPACE one",
    "ALTER TABLE t SET UNLOGGED",
    "ALTER TABLE t SET LOGGED",
    "ALTER TABLE t ALTER COLUMN id TYPE int8 USING id + 0",
    "CLUSTER t USING t_k",
    "REINDEX TABLE t",
];

#[test]
fn entries_that_wait_are_in_a_copy_of_the_file() {
    let (_cluster, mut client) = begin();
    for (number, statement) in MOVES.iter().enumerate() {
        let base = 10_000 * (number + 1);
        execute(
            &mut client,
            &format!(
                "BEGIN;
                 INSERT INTO t SELECT {base} + i, i FROM generate_series(1, 100) i;
                 {statement};
                 INSERT INTO t SELECT {base} + 1000 + i, i FROM generate_series(1, 10) i;"
            ),
        );
        assert_eq!(
            same_rows(&mut client, "t", &format!("k > {base}")),
            110,
            "{statement}"
        );
        execute(&mut client, "COMMIT");
        assert_eq!(
            same_rows(&mut client, "t", &format!("k > {base}")),
            110,
            "{statement}"
        );
        check(&mut client, "t_k");
    }
}

/// The old file comes back with the savepoint, and the entries before it are there.
#[test]
fn a_copy_that_is_rolled_back_loses_no_entries() {
    let (_cluster, mut client) = begin();
    for (number, statement) in MOVES.iter().enumerate() {
        let base = 10_000 * (number + 1);
        for end in ["ROLLBACK TO s", "RELEASE s"] {
            execute(
                &mut client,
                &format!(
                    "BEGIN;
                     INSERT INTO t SELECT {base} + i, i FROM generate_series(1, 100) i;
                     SAVEPOINT s;
                     INSERT INTO t SELECT {base} + 1000 + i, i FROM generate_series(1, 10) i;
                     {statement};
                     INSERT INTO t SELECT {base} + 2000 + i, i FROM generate_series(1, 10) i;
                     {end};
                     INSERT INTO t SELECT {base} + 3000 + i, i FROM generate_series(1, 10) i;"
                ),
            );
            same_rows(&mut client, "t", &format!("k > {base}"));
            execute(&mut client, "COMMIT");
            let expected = if end == "RELEASE s" { 130 } else { 110 };
            assert_eq!(
                same_rows(&mut client, "t", &format!("k > {base}")),
                expected,
                "{statement}; {end}"
            );
            check(&mut client, "t_k");
            execute(&mut client, &format!("DELETE FROM t WHERE k > {base}"));
        }
    }
}

/// Rows come between two statements that give the index another file each.
#[test]
fn an_index_gets_two_files_in_a_transaction() {
    let (_cluster, mut client) = begin();
    let mut base = 10_000;
    for first in MOVES {
        for second in MOVES {
            base += 10_000;
            let rows =
                |from: i32| format!("INSERT INTO t SELECT {from} + i, i FROM generate_series(1, 10) i");
            execute(
                &mut client,
                &format!(
                    "BEGIN; {}; {first}; {}; {second}; {}",
                    rows(base),
                    rows(base + 1000),
                    rows(base + 2000)
                ),
            );
            let condition = format!("k > {base}");
            assert_eq!(same_rows(&mut client, "t", &condition), 30, "{first}; {second}");
            execute(&mut client, "COMMIT");
            assert_eq!(same_rows(&mut client, "t", &condition), 30, "{first}; {second}");
            check(&mut client, "t_k");
        }
    }
}

/// Has an event trigger insert ten rows at the beginning of each such statement.
fn add_rows_before(client: &mut Client, statement: &str) {
    execute(
        client,
        &format!(
            "CREATE FUNCTION add_rows() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO t SELECT 5000 + i, i FROM generate_series(1, 10) i;
             END $$;
             CREATE EVENT TRIGGER add_rows ON ddl_command_start WHEN TAG IN ('{statement}')
                 EXECUTE FUNCTION add_rows()"
        ),
    );
}

/// An event trigger inserts rows when a statement has begun, and before it copies the file.
#[test]
fn rows_of_an_event_trigger_are_in_a_copy_of_the_file() {
    let (_cluster, mut client) = begin();
    add_rows_before(&mut client, "ALTER INDEX");
    execute(&mut client, "BEGIN; ALTER INDEX t_k SET TABLESPACE one");
    assert_eq!(same_rows(&mut client, "t", "k > 5000"), 10);
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
    // Which rows a copy of a file has that was built within the transaction is not known.
    execute(
        &mut client,
        "BEGIN; REINDEX INDEX t_k; ALTER INDEX t_k SET TABLESPACE one",
    );
    let refused = client.batch_execute("COMMIT").expect_err("refused");
    let message = refused
        .as_db_error()
        .map_or("", postgres::error::DbError::message);
    assert!(message.contains("was rebuilt and moved"), "{message}");
    execute(&mut client, "ROLLBACK");
    assert_eq!(same_rows(&mut client, "t", "k > 5000"), 20);
    check(&mut client, "t_k");
}

/// An event trigger inserts rows when a statement has begun that gives all rows of the table other
/// addresses: their entries are of the old ones, which are those of other rows then.
#[test]
fn rows_of_an_event_trigger_are_in_a_rewritten_table_once() {
    let (_cluster, mut client) = begin();
    add_rows_before(&mut client, "ALTER TABLE");
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

/// `CLUSTER` reads rows by a scan without conditions, and takes none that may not match.
#[test]
fn a_table_is_clustered_by_an_index_that_keeps_parts_of_values() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    execute(
        &mut client,
        "CREATE TABLE t (u uuid, name text);
         INSERT INTO t SELECT md5(i::text)::uuid, i FROM generate_series(1, 1000) i;
         CREATE INDEX t_u ON t USING bedload (u); CREATE INDEX t_name ON t USING bedload (name text_hash_ops)",
    );
    for index in ["t_u", "t_name"] {
        execute(&mut client, &format!("CLUSTER t USING {index}"));
        assert_eq!(number(&mut client, "SELECT count(*) FROM t"), 1000);
        check(&mut client, "t_u");
        check(&mut client, "t_name");
    }
    let query =
        "SELECT count(*) FROM (SELECT u < lag(u) OVER (ORDER BY ctid) AS descends FROM t) s WHERE descends";
    execute(&mut client, "CLUSTER t USING t_u");
    assert_eq!(
        number(&mut client, query),
        0,
        "rows are in the order of the index"
    );
}
