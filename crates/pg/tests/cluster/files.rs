//! Statements that copy the file of an index while entries wait for it.

use postgres::Client;

use crate::cluster::Cluster;
use crate::installation::always_parallel;
use crate::rows::{check, create_table, execute, number, pending, same_rows};

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

/// Exchanges the files of two tables and those of their indexes, as extensions do that rewrite
/// tables, without a utility statement.
pub(crate) const EXCHANGE: &str = "
    UPDATE pg_class one SET relfilenode = two.relfilenode, reltablespace = two.reltablespace
    FROM pg_class two WHERE (one.relname, two.relname) IN
        (('t', 'other'), ('other', 't'), ('t_k', 'other_k'), ('other_k', 't_k'))
    AND one.relnamespace = two.relnamespace AND pg_table_is_visible(one.oid)";

/// A table `other` like `t`, with the same rows.
const OTHER: &str = "
    SET allow_system_table_mods = on;
    CREATE TABLE other (LIKE t);
    CREATE INDEX other_k ON other USING bedload (k);
    INSERT INTO other SELECT * FROM t";

#[test]
fn entries_go_with_a_file_that_is_given_to_an_index_of_another_table() {
    let (_cluster, mut client) = begin();
    execute(&mut client, OTHER);
    // The second has what waits published before the end of the transaction.
    for (number, then) in ["", "CREATE VIEW v AS SELECT 1", "DROP TABLE other"]
        .iter()
        .enumerate()
    {
        let base = 10_000 * (number + 1);
        execute(
            &mut client,
            &format!(
                "BEGIN;
                 INSERT INTO t SELECT {base} + 2000 + i, i FROM generate_series(1, 50) i;
                 INSERT INTO other SELECT {base} + i, i FROM generate_series(1, 100) i;
                 {EXCHANGE};
                 INSERT INTO t SELECT {base} + 1000 + i, i FROM generate_series(1, 10) i;
                 {then}"
            ),
        );
        let rows = format!("k > {base}");
        assert_eq!(same_rows(&mut client, "t", &rows), 110, "{then}");
        execute(&mut client, "COMMIT");
        assert_eq!(same_rows(&mut client, "t", &rows), 110, "{then}");
        check(&mut client, "t_k");
    }
    // The other one is built within the transaction.
    execute(
        &mut client,
        &format!(
            "BEGIN;
             INSERT INTO t SELECT 50000 + i, i FROM generate_series(1, 100) i;
             {OTHER};
             INSERT INTO other SELECT 60000 + i, i FROM generate_series(1, 10) i;
             {EXCHANGE};
             COMMIT"
        ),
    );
    for (table, expected) in [("t", 110), ("other", 100)] {
        assert_eq!(same_rows(&mut client, table, "k > 50000"), expected, "{table}");
        check(&mut client, &format!("{table}_k"));
    }
}

/// Each session has numbers of its own for temporary files.
#[test]
fn entries_go_with_a_temporary_file() {
    let (cluster, mut client) = begin();
    let create = format!(
        "CREATE TEMP TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k); {}",
        OTHER.replace("CREATE TABLE", "CREATE TEMP TABLE")
    );
    let mut another = cluster.client();
    execute(&mut another, &create);
    execute(&mut client, &create);
    // Changed rows of the catalogue follow all others, as there is no room between these.
    execute(&mut client, "VACUUM FULL pg_class");
    let (_, file) = index_and_file(&mut client, "other_k");
    execute(
        &mut another,
        &format!("UPDATE pg_class SET relfilenode = {file} WHERE oid = 't_k'::regclass"),
    );
    execute(
        &mut client,
        &format!(
            "BEGIN;
             INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
             INSERT INTO other SELECT i, i FROM generate_series(1001, 1010) i;
             {EXCHANGE}"
        ),
    );
    let is_met_first = format!(
        "SELECT count(*) FROM pg_class WHERE relfilenode = {file} AND oid <> 't_k'::regclass
         AND ctid < (SELECT ctid FROM pg_class WHERE oid = 't_k'::regclass)"
    );
    assert_eq!(number(&mut client, &is_met_first), 1, "the other session's row");
    for end in ["", "COMMIT"] {
        execute(&mut client, end);
        assert_eq!(same_rows(&mut client, "t", "k > 0"), 10);
        assert_eq!(same_rows(&mut client, "other", "k > 0"), 100);
    }
    check(&mut client, "t_k");
    check(&mut client, "other_k");
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

/// Has an event trigger insert ten rows at the beginning of each of these statements.
fn add_rows_before(client: &mut Client, statements: &[&str]) {
    let tags = statements.join("', '");
    execute(
        client,
        &format!(
            "CREATE FUNCTION add_rows() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
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

/// [`same_rows`] of `t` in workers, which do not have what waits in the session.
fn same_rows_in_parallel(client: &mut Client, condition: &str) -> usize {
    execute(client, &format!("SET {} = on", always_parallel()));
    let rows = same_rows(client, "t", condition);
    execute(client, &format!("SET {} = off", always_parallel()));
    rows
}

/// An index and its file.
fn index_and_file(client: &mut Client, name: &str) -> (i64, i64) {
    let query = format!("SELECT oid::int8, relfilenode::int8 FROM pg_class WHERE oid = '{name}'::regclass");
    let row = client.query_one(&query, &[]).expect("an index");
    (row.get(0), row.get(1))
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
