//! Copies of databases with these indexes: by `pg_dump`, and by `pg_upgrade`.

use std::process::Command;

use postgres::Client;

use crate::cluster::{Cluster, connect_to};
use crate::installation::run;
use crate::rows::{check, execute, number, same_rows};

/// Tables with indexes of all shapes.
const TABLES: &str = "
    CREATE TABLE t (k int8, id int8, name text, at timestamptz, who uuid);
    CREATE INDEX t_k ON t USING bedload (k) WITH (filter_bits = 8, batch_entries = 500);
    CREATE UNIQUE INDEX t_id ON t USING bedload (id) NULLS NOT DISTINCT;
    CREATE INDEX t_name ON t USING bedload (lower(name) COLLATE \"C\" DESC NULLS LAST, at) INCLUDE (k) WHERE k > 100;
    CREATE INDEX t_who ON t USING bedload (who uuid_ordered_ops);
    CREATE INDEX t_hash ON t USING bedload (name text_hash_ops);
    CREATE MATERIALIZED VIEW m AS SELECT k, id FROM t;
    CREATE INDEX m_k ON m USING bedload (k);
    CREATE TABLE p (k int8, id int8) PARTITION BY RANGE (k);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
    CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (100000);
    CREATE INDEX p_k ON p USING bedload (k);
    CREATE UNLOGGED TABLE u (k int8, id int8); CREATE INDEX u_k ON u USING bedload (k);";

const INDEXES: [&str; 9] = [
    "t_k", "t_id", "t_name", "t_who", "t_hash", "m_k", "p1_k_idx", "p2_k_idx", "u_k",
];

fn load(client: &mut Client) {
    execute(client, TABLES);
    for (first, last) in [(1, 15_000), (15_001, 29_990), (29_991, 30_000)] {
        execute(
            client,
            &format!(
                "INSERT INTO t SELECT i * 7919 % 10007, i, 'Name ' || i, '2024-01-01'::timestamptz + i * '1 s'::interval,
                     md5(i::text)::uuid FROM generate_series({first}, {last}) i"
            ),
        );
    }
    execute(
        client,
        "DELETE FROM t WHERE id % 5 = 0; INSERT INTO p SELECT k, id FROM t; INSERT INTO u SELECT k, id FROM t;
         REFRESH MATERIALIZED VIEW m",
    );
}

fn definitions(client: &mut Client) -> Vec<String> {
    let definitions = client.query(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname",
        &[],
    );
    let definitions = definitions.expect("definitions");
    definitions.iter().map(|row| row.get(0)).collect()
}

/// Asserts that a copy has the rows and indexes of the original, and that they can be used.
fn is_like(copy: &mut Client, definitions_before: &[String], rows: i64) {
    assert_eq!(definitions(copy), definitions_before);
    INDEXES.iter().for_each(|index| check(copy, index));
    for table in ["t", "m", "p1", "p2", "u"] {
        same_rows(copy, table, "k BETWEEN 300 AND 7000");
    }
    assert_eq!(number(copy, "SELECT count(*) FROM t"), rows);
    execute(
        copy,
        "INSERT INTO t SELECT k + 5, -id, name, at, who FROM t; INSERT INTO p SELECT k, id FROM t WHERE id < 0;
         DELETE FROM t WHERE id % 3 = 0",
    );
    execute(copy, "VACUUM t");
    execute(
        copy,
        "INSERT INTO t SELECT i, 100000 + i, 'new', now(), NULL FROM generate_series(1, 5000) i",
    );
    INDEXES.iter().for_each(|index| check(copy, index));
    same_rows(copy, "t", "k BETWEEN 300 AND 700");
    let twice = copy.batch_execute("INSERT INTO t (id) VALUES (100001)");
    assert_eq!(
        twice.expect_err("a duplicate").code().map(|code| code.code()),
        Some("23505")
    );
}

#[test]
fn a_dump_is_restored() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    load(&mut client);
    let (before, rows) = (
        definitions(&mut client),
        number(&mut client, "SELECT count(*) FROM t"),
    );
    execute(&mut client, "CREATE DATABASE copy TEMPLATE template0");
    let folder = cluster.socket().join("dump");
    let call = |program: &str, arguments: &[&str]| {
        let mut command = cluster.program(program);
        command
            .args(["--username=postgres", "--port=5432", "--host"])
            .arg(cluster.socket());
        run(command.args(arguments).arg(&folder));
    };
    call(
        "pg_dump",
        &["--format=directory", "--jobs=2", "postgres", "--file"],
    );
    call("pg_restore", &["--exit-on-error", "--jobs=2", "--dbname=copy"]);
    let mut copy = connect_to(&cluster.socket(), "copy").expect("a session");
    is_like(&mut copy, &before, rows);
}

/// The files of indexes are taken over as they are, with the numbers of transactions and the places
/// in the log that pages name.
#[test]
fn an_upgraded_cluster_has_the_indexes_of_the_old_one() {
    let old = Cluster::start_with("max_wal_senders = 0");
    let mut client = old.client();
    load(&mut client);
    let (before, rows) = (
        definitions(&mut client),
        number(&mut client, "SELECT count(*) FROM t"),
    );
    drop(client);
    old.stop();
    let new = Cluster::prepared("max_wal_senders = 0");
    let bin = old.programs();
    let mut upgrade: Command = new.program("pg_upgrade");
    upgrade
        .current_dir(new.socket())
        .args(["--username=postgres", "--old-datadir"]);
    upgrade.arg(old.data()).arg("--new-datadir").arg(new.data());
    run(upgrade
        .arg("--old-bindir")
        .arg(&bin)
        .arg("--new-bindir")
        .arg(&bin));
    drop(old);
    new.launch();
    let mut client = new.client();
    let version = client.query_one(
        "SELECT extversion FROM pg_extension WHERE extname = 'bedload'",
        &[],
    );
    assert_eq!(
        version.expect("the extension").get::<_, String>(0),
        crate::installation::VERSION
    );
    is_like(&mut client, &before, rows);
}

/// The extension of an earlier version goes on with a newer module, and gets its functions.
#[test]
fn the_extension_is_updated() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let objects = "SELECT string_agg(pg_describe_object(classid, objid, 0), E'\\n' ORDER BY pg_describe_object(classid, objid, 0))
         FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
             AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'bedload')";
    let rights = "SELECT string_agg(proname || coalesce(proacl::text, ''), E'\\n' ORDER BY pg_proc.oid::regprocedure::text) FROM pg_proc
         WHERE proname LIKE 'bedload\\_%'";
    let described = |client: &mut Client| -> [String; 2] {
        [objects, rights].map(|query| client.query_one(query, &[]).expect("objects").get(0))
    };
    let fresh = described(&mut client);
    execute(
        &mut client,
        "DROP EXTENSION bedload; CREATE EXTENSION bedload VERSION '0.1.0'",
    );
    execute(
        &mut client,
        "CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k);
         INSERT INTO t SELECT i * 7919 % 10007, i FROM generate_series(1, 5000) i",
    );
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k > 500");
    assert_ne!(described(&mut client), fresh);
    execute(&mut client, "ALTER EXTENSION bedload UPDATE");
    assert_eq!(described(&mut client), fresh);
    execute(
        &mut client,
        "INSERT INTO t SELECT i * 7919 % 10007, i FROM generate_series(1, 5000) i",
    );
    check(&mut client, "t_k");
    same_rows(&mut client, "t", "k > 500");
    assert_eq!(
        number(&mut client, "SELECT count(*) FROM bedload_check('t_k', false)"),
        0
    );
    assert_eq!(
        number(&mut client, "SELECT rows FROM bedload_order('t_k')"),
        10_000
    );
}
