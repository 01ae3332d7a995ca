//! Statements of SQLsmith, a generator of random SQL, over tables with these indexes: no statement
//! crashes the server, and none ends with an internal error.
//!
//! Needs the program `sqlsmith` (Debian has a package of it). `BEDLOAD_PG_SQLSMITH` asks for more
//! statements, `BEDLOAD_PG_SEED` for others.

use std::process::{Command, Stdio};

use postgres::Client;

use crate::cluster::Cluster;
use crate::installation::skip;
use crate::rows::{check, execute, number, same_rows};
use crate::schema::TYPES;
use crate::settings::setting;

/// Plans are by index where they can be. Statements that run long are ended, as random joins do.
const SETTINGS: &str = "
    log_min_messages = error
    log_error_verbosity = verbose
    log_line_prefix = '%e '
    enable_seqscan = off
    enable_sort = off
    random_page_cost = 0.1
    min_parallel_table_scan_size = 0
    min_parallel_index_scan_size = 0
    parallel_setup_cost = 0
    parallel_tuple_cost = 0
    temp_file_limit = 100MB
    statement_timeout = 1s
";

/// Files of the server in which statements meet internal errors before they are executed, or in
/// functions that they call.
const KNOWN: [&str; 2] = ["parse_coerce.c", "timestamp.c"];

/// Tables with an index of each type, and of several columns, unique, partial and of expressions.
fn create_tables(client: &mut Client) {
    let numbered = || (1..).zip(&TYPES);
    let columns: Vec<String> = numbered()
        .map(|(number, of)| format!("c{number} {}", of.name))
        .collect();
    let values: Vec<&str> = TYPES.iter().map(|of| of.value).collect();
    execute(
        client,
        &format!(
            "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
             CREATE ROLE smith LOGIN; GRANT CREATE ON SCHEMA public TO smith; SET ROLE smith;
             CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING bedload (k);
             INSERT INTO t SELECT i * 7919 % 1009, i FROM generate_series(1, 3000) i;
             CREATE UNIQUE INDEX t_id ON t USING bedload (id) INCLUDE (k);
             CREATE TABLE v (n int4, {});
             INSERT INTO v SELECT n, {} FROM generate_series(1, 1000) n;
             CREATE INDEX v_several ON v USING bedload (c1, c10 DESC, c6 NULLS FIRST) INCLUDE (c20);
             CREATE INDEX v_partial ON v USING bedload (lower(c10), n) WHERE c4;
             CREATE TABLE p (k int4, at timestamptz, note text) PARTITION BY RANGE (k);
             CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (500);
             CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (500) TO (1000);
             CREATE INDEX p_k ON p USING bedload (k, at); CREATE INDEX p_at ON p USING bedload (at);
             INSERT INTO p SELECT i % 1000, '2024-01-01'::timestamptz + i * interval '1 min', 'n' || i
                 FROM generate_series(1, 3000) i;
             CREATE VIEW w AS SELECT t.k, v.c2, p.at FROM t JOIN v ON t.id = v.n LEFT JOIN p ON p.k = v.n",
            columns.join(", "),
            values.join(", ")
        ),
    );
    for (number, of) in numbered() {
        execute(
            client,
            &format!(
                "CREATE INDEX v_{number} ON v USING bedload (c{number} {})",
                of.class
            ),
        );
    }
    execute(client, "RESET ROLE");
    // Some entries are in the heads, and some rows are dead.
    execute(
        client,
        "INSERT INTO t SELECT i % 100, -i FROM generate_series(1, 50) i; DELETE FROM v WHERE n % 10 = 3; ANALYZE",
    );
}

#[test]
fn random_sql_meets_no_internal_error() {
    if Command::new("sqlsmith").arg("--version").output().is_err() {
        skip("there is no sqlsmith");
        return;
    }
    let cluster = Cluster::start_with(SETTINGS);
    let mut client = cluster.client();
    create_tables(&mut client);
    let statements = setting("BEDLOAD_PG_SQLSMITH", 300);
    let mut smith = Command::new("sqlsmith");
    smith.args(["--exclude-catalog", "--verbose"]);
    smith.arg(format!("--max-queries={statements}"));
    smith.arg(format!("--seed={}", setting("BEDLOAD_PG_SEED", 1)));
    smith.arg(format!(
        "--target=host={} user=smith dbname=postgres",
        cluster.socket().display()
    ));
    let output = smith.stdin(Stdio::null()).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "it has lost the server:\n{told}");
    let scans = "SELECT sum(idx_scan)::int8 FROM pg_stat_user_indexes WHERE schemaname = 'public'";
    assert!(number(&mut client, scans) > 0, "no statement used an index");
    let log = cluster.log();
    let is_known = |line: &str| KNOWN.iter().any(|file| line.contains(file));
    let is_internal = |line: &&str| line.starts_with("XX") && line.contains("LOCATION:") && !is_known(line);
    let internal: Vec<&str> = log.lines().filter(is_internal).collect();
    assert!(
        internal.is_empty() && !log.contains("PANIC:"),
        "{}",
        internal.join("\n")
    );
    execute(
        &mut client,
        "SET enable_sort = on; SET statement_timeout = 0; SET max_parallel_workers_per_gather = 0",
    );
    let indexes = "SELECT relname::text FROM pg_class JOIN pg_am ON pg_am.oid = relam
         WHERE amname = 'bedload' AND relkind = 'i' ORDER BY 1";
    let indexes = client.query(indexes, &[]).expect("indexes");
    for is_vacuumed in [false, true] {
        if is_vacuumed {
            execute(&mut client, "VACUUM (INDEX_CLEANUP ON)");
        }
        indexes.iter().for_each(|index| check(&mut client, index.get(0)));
        same_rows(&mut client, "t", "k > 300");
    }
}
