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
fn address_space(client: &mut Client, name: &str) -> u64 {
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
        execute(&mut client, "DROP TABLE u; DROP INDEX t_k");
    }
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
        let process = number(&mut client, "SELECT pg_backend_pid()::int8");
        let most = address_space(&mut client, "VmSize") + (mebibytes << 20);
        let limited = cluster
            .owned(Path::new("prlimit"))
            .args([&format!("--pid={process}"), &format!("--as={most}:{most}")])
            .status();
        assert!(limited.is_ok_and(|status| status.success()));
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
