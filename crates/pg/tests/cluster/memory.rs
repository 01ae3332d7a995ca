//! The memory that builds and batches take.

use std::fs;
use std::path::Path;

use postgres::Client;
use postgres::error::SqlState;

use crate::cluster::Cluster;
use crate::contract::declare;
use crate::rows::{check, execute, number};

/// Bytes of address space that the process of a session has had, at most, or has, as
/// `/proc/PID/status` names them.
pub(crate) fn address_space(client: &mut Client, name: &str) -> u64 {
    let process = number(client, "SELECT pg_backend_pid()::int8");
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect("a line");
    let number = line.trim_start_matches(':').trim().trim_end_matches("kB").trim();
    1024 * number.parse::<u64>().expect("a number")
}

/// A server with a table of so many rows, and a session.
fn filled(rows: u32) -> (Cluster, Client) {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    execute(
        &mut client,
        &format!(
            "CREATE TABLE t (k int8, id int8);
             INSERT INTO t SELECT (random() * 1e9)::int8, i FROM generate_series(1, {rows}) i"
        ),
    );
    (cluster, client)
}

/// A build sorts within `maintenance_work_mem`, room that is not in use included.
#[test]
fn builds_keep_within_their_memory() {
    let (cluster, _) = filled(600_000);
    for create in [
        "CREATE INDEX t_k ON t USING bedload (k)",
        "CREATE UNIQUE INDEX t_k ON t USING bedload (k, id)",
    ] {
        let mut client = cluster.client();
        // A first build, so that the limit below counts neither the catalogue that a session reads
        // once nor the memory that every build takes.
        execute(
            &mut client,
            "SET maintenance_work_mem = '1MB';
             CREATE TABLE u AS SELECT * FROM t LIMIT 100000",
        );
        execute(&mut client, &create.replace("t_k", "u_k").replace(" t ", " u "));
        let before = address_space(&mut client, "VmPeak");
        // At a limit slightly above a power of two of entries, room that doubles exceeds it most.
        execute(
            &mut client,
            &format!("SET maintenance_work_mem = '13MB'; {create}"),
        );
        let taken = address_space(&mut client, "VmPeak") - before;
        println!("{create}: {taken} bytes");
        assert!(taken < 18 << 20, "{create}: {taken} bytes");
        check(&mut client, "t_k");
        // With the least memory, more parts of the sort are to be merged than it has room to read.
        let mut client = cluster.client();
        execute(&mut client, "SET maintenance_work_mem = '1MB'; REINDEX INDEX u_k");
        let before = address_space(&mut client, "VmPeak");
        execute(&mut client, "REINDEX INDEX t_k");
        let taken = address_space(&mut client, "VmPeak") - before;
        println!("{create}, 1 MB: {taken} bytes");
        assert!(taken < 4 << 20, "{create}: {taken} bytes");
        check(&mut client, "t_k");
        execute(&mut client, "DROP TABLE u; DROP INDEX t_k");
    }
}

/// Operator classes that keep hashes call functions of the server, some of which leave memory
/// behind: rows of a build and of an `INSERT` share the memory of their statement.
#[test]
fn hashing_keeps_no_memory() {
    let cluster = Cluster::start_with("bedload.shrunk = 1");
    let mut client = cluster.client();
    execute(
        &mut client,
        "SET maintenance_work_mem = '1MB'; SET bedload.batch_entries = 10000;
         CREATE TABLE s (n numeric, b bytea, t text);
         INSERT INTO s SELECT (i || repeat('123456789', 10))::numeric, repeat(i::text, 10)::bytea,
             repeat(i::text, 10) FROM generate_series(1, 300000) i",
    );
    for (column, class) in [
        ("n", "numeric_hash_ops"),
        ("b", "bytea_hash_ops"),
        ("t", "text_hash_ops"),
    ] {
        let create = |table: &str| format!("CREATE INDEX ON {table} USING bedload ({column} {class})");
        let mut client = cluster.client();
        execute(
            &mut client,
            &format!(
                "SET maintenance_work_mem = '1MB'; SET bedload.batch_entries = 10000;
                 DROP TABLE IF EXISTS u, v; CREATE TABLE u AS SELECT * FROM s LIMIT 30000; {};
                 CREATE TABLE v (LIKE s); {}; INSERT INTO v SELECT * FROM u",
                create("u"),
                create("v")
            ),
        );
        for statement in [create("s"), "INSERT INTO v SELECT * FROM s".to_owned()] {
            let before = address_space(&mut client, "VmPeak");
            execute(&mut client, &statement);
            let taken = address_space(&mut client, "VmPeak") - before;
            println!("{statement}: {taken} bytes");
            assert!(taken < 6 << 20, "{statement}: {taken} bytes");
        }
    }
}

/// Lets the process of a session have so many MiB of address space more than it has.
fn limit_memory(cluster: &Cluster, client: &mut Client, mebibytes: u64) {
    let process = number(client, "SELECT pg_backend_pid()::int8");
    let most = address_space(client, "VmSize") + (mebibytes << 20);
    let limited = cluster
        .owned(Path::new("prlimit"))
        .args([&format!("--pid={process}"), &format!("--as={most}:{most}")])
        .status();
    assert!(limited.is_ok_and(|status| status.success()));
}

/// Where the system has no more memory, a build, a transaction and a list end with an error, and
/// the server goes on.
#[test]
fn no_memory_is_an_error() {
    let (cluster, _) = filled(600_000);
    let rows = "SELECT (random() * 1e9)::int8, i FROM generate_series(1, 600000) i";
    let list = "SELECT count(*) FROM u WHERE k = ANY (ARRAY(SELECT generate_series(1, 1000000)::int8))";
    let by_index = "SET enable_seqscan = off; SET enable_bitmapscan = off";
    // An array of a list takes memory before the list does, by which such a session has more.
    for (statement, mebibytes) in [
        (
            "SET maintenance_work_mem = '1GB'; CREATE INDEX t_k ON t USING bedload (k)".to_owned(),
            8,
        ),
        (
            "SET maintenance_work_mem = '1GB'; CREATE INDEX t_k ON t USING bedload (k, id)".to_owned(),
            8,
        ),
        (
            format!("SET bedload.batch_entries = 1000000; INSERT INTO u {rows}"),
            8,
        ),
        (
            format!("SET bedload.batch_entries = 10000000; INSERT INTO v {rows}"),
            8,
        ),
        (format!("{by_index}; {list}"), 64),
        (format!("{by_index}; {}", list.replace(" u ", " v ")), 64),
    ] {
        let mut client = cluster.client();
        execute(
            &mut client,
            "DROP TABLE IF EXISTS u, v;
             CREATE TABLE u (k int8, id int8); CREATE INDEX u_k ON u USING bedload (k);
             CREATE TABLE v (k int8, id int8); CREATE INDEX v_k ON v USING bedload (k, id);
             INSERT INTO u SELECT i, i FROM generate_series(1, 1000) i; INSERT INTO v SELECT * FROM u",
        );
        limit_memory(&cluster, &mut client, mebibytes);
        let error = client.batch_execute(&statement).expect_err("there is no memory");
        assert_eq!(
            error.code(),
            Some(&SqlState::OUT_OF_MEMORY),
            "{statement}: {error:?}"
        );
        // That is ours, as the server's own has no hint.
        let hint = error.as_db_error().and_then(postgres::error::DbError::hint);
        assert!(hint.is_some(), "{statement}: {error:?}");
        let mut client = cluster.client();
        execute(
            &mut client,
            "INSERT INTO u VALUES (7, 7); INSERT INTO v VALUES (7, 7)",
        );
        check(&mut client, "u_k");
        check(&mut client, "v_k");
    }
}

/// Where the system has no memory for copies of a long value, an index refuses the value all the
/// same, and a scan that asks for it ends with an error.
#[test]
fn long_values_are_errors_without_memory() {
    const MEBIBYTES: u64 = 110;
    let cluster = Cluster::start();
    let mut client = cluster.client();
    // Values that are compressed would take memory before they come to an index.
    execute(
        &mut client,
        "CREATE TABLE t (a text COLLATE \"C\", b text COLLATE \"en-x-icu\", v text, n int8);
         ALTER TABLE t ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL,
             ALTER v SET STORAGE EXTERNAL;
         CREATE TABLE u (LIKE t INCLUDING STORAGE);
         CREATE INDEX t_a ON t USING bedload (a) WHERE n = 1;
         CREATE INDEX t_b ON t USING bedload (b) WHERE n = 2;
         CREATE INDEX t_v ON t USING bedload (n) INCLUDE (v) WHERE n = 3;
         INSERT INTO t SELECT i, i, i, n FROM generate_series(1, 100) i, generate_series(1, 3) n;
         INSERT INTO u SELECT repeat('a', 35000000)",
    );
    let value = "SELECT repeat('a', i) FROM generate_series(35000000, 35000000) i";
    let by_index = "SET enable_seqscan = off; SET enable_bitmapscan = off";
    for (statement, code) in [
        (
            format!("INSERT INTO t (n, a) SELECT 1, ({value})"),
            SqlState::PROGRAM_LIMIT_EXCEEDED,
        ),
        (
            format!("INSERT INTO t (n, b) SELECT 2, ({value})"),
            SqlState::PROGRAM_LIMIT_EXCEEDED,
        ),
        (
            format!("INSERT INTO t (n, v) SELECT 3, ({value})"),
            SqlState::PROGRAM_LIMIT_EXCEEDED,
        ),
        (
            "CREATE INDEX ON u USING bedload (a)".to_owned(),
            SqlState::PROGRAM_LIMIT_EXCEEDED,
        ),
        (
            format!("{by_index}; SELECT count(*) FROM t WHERE n = 1 AND a = ({value})"),
            SqlState::OUT_OF_MEMORY,
        ),
        (
            format!("{by_index}; SELECT count(*) FROM t WHERE n = 2 AND b < ({value})"),
            SqlState::OUT_OF_MEMORY,
        ),
    ] {
        let mut client = cluster.client();
        // A session's first statements load libraries and the catalogue: before memory is limited.
        execute(
            &mut client,
            &format!(
                "INSERT INTO t SELECT 'x', 'x', 'x', n FROM generate_series(1, 3) n; {by_index}; SELECT count(*) FROM t WHERE n = 1 AND a = 'x'"
            ),
        );
        limit_memory(&cluster, &mut client, MEBIBYTES);
        let error = client.batch_execute(&statement).expect_err("it is too long");
        assert_eq!(error.code(), Some(&code), "{statement}: {error:?}");
        let hint = error.as_db_error().and_then(postgres::error::DbError::hint);
        assert!(hint.is_some(), "{statement}: {error:?}");
    }
    for index in ["t_a", "t_b", "t_v"] {
        check(&mut client, index);
    }
}

/// A statement may begin a scan for each row, in memory that it keeps until it ends.
#[test]
fn scans_that_have_ended_keep_no_memory() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    declare(&mut client);
    execute(
        &mut client,
        "CREATE TABLE t (a int8, b text); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
         CREATE INDEX t_a ON t USING bedload (a); CREATE INDEX t_b ON t USING bedload (b)",
    );
    for index in ["t_a", "t_b"] {
        let query = format!("SELECT harness_memory_of_scans('t', '{index}', 10000)");
        let grown = number(&mut client, &query);
        assert!(grown < 16 << 10, "{index}: {grown} bytes");
    }
}
