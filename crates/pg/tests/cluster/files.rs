//! Statements that copy the file of an index while entries wait for it.

use std::fs;
use std::path::Path;

use postgres::Client;

use crate::cluster::Cluster;
use crate::installation::always_parallel;
use crate::rows::{check, create_table, execute, number, pending, same_rows};

/// A table with rows, and tablespaces `one` and `two`.
pub(crate) fn begin() -> (Cluster, Client) {
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

/// Extensions give an index another file, by a copy or by a rebuild, without a statement.
#[test]
fn entries_that_wait_are_in_a_copy_that_no_statement_made() {
    let (_cluster, mut client) = begin();
    execute(&mut client, "SET bedload.hides_statements = on");
    for (number, statement) in MOVES.iter().enumerate() {
        let rows = "INSERT INTO t SELECT i, i FROM generate_series(5001, 5010) i";
        execute(&mut client, &format!("BEGIN; {rows}; {statement}; COMMIT"));
        let expected = 10 * (number + 1);
        assert_eq!(same_rows(&mut client, "t", "k > 5000"), expected, "{statement}");
        check(&mut client, "t_k");
    }
    let mut base = 10_000;
    let firsts = ["ALTER INDEX t_k SET TABLESPACE one", MOVES[3], MOVES[6]];
    let seconds = ["", "ALTER INDEX t_k SET TABLESPACE pg_default", "REINDEX TABLE t"];
    for (first, second) in firsts
        .iter()
        .flat_map(|first| seconds.map(|second| (first, second)))
    {
        // Savepoints before the first and before the second, and the number of rows that are left.
        for (outer, inner, end, left) in [
            ("", "", "", 40),
            ("", "SAVEPOINT s", "ROLLBACK TO s", 30),
            ("SAVEPOINT s", "", "ROLLBACK TO s", 10),
            ("SAVEPOINT s", "", "RELEASE s", 40),
        ] {
            // The rows behind which all are published, before or after the second, or at the end.
            for published in [3, 4, 6] {
                base += 10_000;
                let (mut added, condition) = (0, format!("k > {base}"));
                let context = format!("{outer}; {first}; {inner}; {second}; {end}; {published}");
                let mut add_rows = |client: &mut Client, expected: usize| {
                    added += 1;
                    let from = base + 1000 * added;
                    let rows = format!("INSERT INTO t SELECT {from} + i, i FROM generate_series(1, 10) i");
                    execute(client, &rows);
                    if added == published {
                        let found = same_rows_in_parallel(client, &condition);
                        assert_eq!((found, pending(client, "t_k")), (expected, 0), "{context}");
                    }
                    assert_eq!(same_rows(client, "t", &condition), expected, "{context}");
                };
                execute(&mut client, "BEGIN");
                add_rows(&mut client, 10);
                execute(&mut client, outer);
                add_rows(&mut client, 20);
                execute(&mut client, first);
                add_rows(&mut client, 30);
                execute(&mut client, inner);
                execute(&mut client, second);
                add_rows(&mut client, 40);
                execute(&mut client, end);
                add_rows(&mut client, left + 10);
                execute(&mut client, "COMMIT");
                assert_eq!(same_rows(&mut client, "t", &condition), left + 10, "{context}");
                check(&mut client, "t_k");
            }
        }
    }
}

/// The function of an index has waiting entries published, while the index is empty.
#[test]
fn entries_may_be_published_while_their_index_is_built() {
    let (_cluster, mut client) = begin();
    execute(
        &mut client,
        &format!(
            "SET {} = on;
             CREATE TABLE one AS SELECT 1;
             CREATE FUNCTION next(k int8) RETURNS int8 IMMUTABLE LANGUAGE plpgsql AS
                 'BEGIN SELECT k + count(*) INTO k FROM public.one; RETURN k; END';
             CREATE INDEX t_next ON t USING bedload (next(k));
             SET bedload.hides_statements = on;
             BEGIN; INSERT INTO t SELECT i, i FROM generate_series(5001, 5010) i;
             REINDEX INDEX t_next;
             COMMIT",
            always_parallel()
        ),
    );
    assert_eq!(same_rows(&mut client, "t", "next(k) > 5001"), 10);
    check(&mut client, "t_next");
}

/// Entries that have been published into a copy take no more memory, if it cannot be rolled back.
#[test]
fn rows_wait_behind_those_of_a_copy() {
    let (_cluster, mut client) = begin();
    execute(
        &mut client,
        "SET bedload.hides_statements = on; SET bedload.batch_entries = 100;
         BEGIN; INSERT INTO t SELECT i, i FROM generate_series(5001, 5090) i;
         ALTER INDEX t_k SET TABLESPACE one;
         INSERT INTO t SELECT i, i FROM generate_series(6001, 6050) i",
    );
    assert_eq!(pending(&mut client, "t_k"), 40);
    execute(&mut client, "COMMIT");
    assert_eq!(same_rows(&mut client, "t", "k > 5000"), 140);
    check(&mut client, "t_k");
}

/// Exchanges the files of two tables and those of their indexes, as extensions do that rewrite
/// tables, without a utility statement.
pub(crate) const EXCHANGE: &str = "
    UPDATE pg_class one SET relfilenode = two.relfilenode, reltablespace = two.reltablespace
    FROM pg_class two WHERE (one.relname, two.relname) IN
        (('t', 'other'), ('other', 't'), ('t_k', 'other_k'), ('other_k', 't_k'))
    AND one.relnamespace = two.relnamespace AND pg_table_is_visible(one.oid)";

/// A table `other` like `t`, with the same rows.
pub(crate) const OTHER: &str = "
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
    // An extension drops the file for which entries wait.
    execute(
        &mut client,
        &format!(
            "{OTHER};
             BEGIN;
             INSERT INTO t SELECT 40000 + i, i FROM generate_series(1, 100) i;
             INSERT INTO other SELECT 45000 + i, i FROM generate_series(1, 10) i;
             {EXCHANGE};
             SET LOCAL bedload.hides_statements = on;
             DROP TABLE other;
             COMMIT"
        ),
    );
    assert_eq!(same_rows(&mut client, "t", "k > 40000"), 10);
    check(&mut client, "t_k");
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

/// The script of an extension may insert many rows.
#[test]
fn rows_of_an_extension_script_wait() {
    let (_cluster, mut client) = begin();
    let query = "SELECT setting FROM pg_config WHERE name = 'SHAREDIR'";
    let directory: String = client.query_one(query, &[]).expect("a directory").get(0);
    let rows = |from: u32| format!("INSERT INTO t SELECT i, i FROM generate_series({from}, {from} + 999) i");
    for (name, text) in [
        ("rows.control", "default_version = '1'".to_owned()),
        ("rows--1.sql", rows(5000)),
        ("rows--1--2.sql", rows(6000)),
    ] {
        let path = Path::new(&directory).join("extension").join(name);
        fs::write(path, text).expect("a file of the servers of tests alone");
    }
    for (statement, expected) in [
        ("CREATE EXTENSION rows", 1000),
        ("ALTER EXTENSION rows UPDATE TO '2'", 2000),
    ] {
        execute(&mut client, statement);
        let head = "SELECT head_entries FROM bedload_stats('t_k')";
        assert_eq!(
            (
                same_rows(&mut client, "t", "k >= 5000"),
                number(&mut client, head)
            ),
            (expected, 0),
            "waiting entries are published as a run, others go to the head: {statement}"
        );
    }
}

/// [`same_rows`] of `t` in workers, which do not have what waits in the session.
pub(crate) fn same_rows_in_parallel(client: &mut Client, condition: &str) -> usize {
    execute(client, &format!("SET {} = on", always_parallel()));
    let rows = same_rows(client, "t", condition);
    execute(client, &format!("SET {} = off", always_parallel()));
    rows
}

/// An index and its file.
pub(crate) fn index_and_file(client: &mut Client, name: &str) -> (i64, i64) {
    let query = format!("SELECT oid::int8, relfilenode::int8 FROM pg_class WHERE oid = '{name}'::regclass");
    let row = client.query_one(&query, &[]).expect("an index");
    (row.get(0), row.get(1))
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
