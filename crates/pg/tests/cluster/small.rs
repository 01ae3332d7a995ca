//! Measures what small transactions, upserts and small reads cost the backend on a processor,
//! against a B-tree in the same run, interleaved. Tiny as a test; `make pg-costs` runs it with
//! `BEDLOAD_PG_COSTS=rows,rounds`.

use std::fmt::Write as _;
use std::io::Write as _;

use postgres::Client;

use crate::cluster::Cluster;
use crate::costs::{processor_ns, scale};
use crate::results::{Figure, Results};
use crate::rows::{Rng, check, execute};

const METHODS: [&str; 2] = ["btree", "bedload"];

/// A way to measure: its name, how many operations of `rows` rows it does, and a table's
/// preparation and work.
type Work = (
    &'static str,
    u64,
    fn(&mut Client, &str, u64),
    fn(&mut Client, u64),
);

fn create(client: &mut Client, method: &str) {
    execute(
        client,
        &format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING {method} (k);
             CREATE UNIQUE INDEX t_id ON t (id)"
        ),
    );
}

/// A table with rows of random keys, that came by thousands.
fn fill(client: &mut Client, method: &str, rows: u64) {
    execute(
        client,
        &format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8); CREATE INDEX t_k ON t USING {method} (k)"
        ),
    );
    for first in (0..rows).step_by(1000) {
        execute(
            client,
            &format!(
                "INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series({first}, {first} + 999) i"
            ),
        );
    }
    execute(client, "VACUUM (ANALYZE, INDEX_CLEANUP off) t");
    execute(
        client,
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan",
    );
}

fn create_empty(client: &mut Client, method: &str, _rows: u64) {
    create(client, method);
}

fn insert_rows(client: &mut Client, rows: u64) {
    let mut rng = Rng::new(1);
    let insert = client
        .prepare("INSERT INTO t VALUES ($1, $2)")
        .expect("a statement");
    for id in 0..i64::try_from(rows).expect("few") {
        let key = i64::try_from(rng.below(1 << 40)).expect("less");
        client.execute(&insert, &[&key, &id]).expect("a row");
    }
}

fn upsert(client: &mut Client, rows: u64) {
    execute(
        client,
        &format!(
            "INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series(1, {rows}) i
                 ON CONFLICT (id) DO UPDATE SET k = excluded.k"
        ),
    );
}

fn copy_hundreds(client: &mut Client, rows: u64) {
    let mut rng = Rng::new(2);
    for first in (0..rows).step_by(100) {
        let mut text = String::new();
        for id in first..first + 100 {
            writeln!(text, "{}\t{id}", rng.below(1 << 40)).expect("memory");
        }
        let mut copy = client.copy_in("COPY t FROM STDIN").expect("a copy");
        copy.write_all(text.as_bytes()).expect("rows");
        copy.finish().expect("rows");
    }
}

fn query(client: &mut Client, text: &str, count: u64) {
    let mut rng = Rng::new(3);
    let query = client.prepare(text).expect("a statement");
    for _ in 0..count {
        let key = i64::try_from(rng.below(1_000_000)).expect("less");
        client.query(&query, &[&key]).expect("rows");
    }
}

fn point_reads(client: &mut Client, rows: u64) {
    query(client, "SELECT k, id FROM t WHERE k = $1", rows / 4);
}

fn first_rows(client: &mut Client, rows: u64) {
    query(
        client,
        "SELECT k, id FROM t WHERE k >= $1 ORDER BY k LIMIT 1",
        rows / 4,
    );
}

const WORKS: [Work; 5] = [
    ("one-row INSERT", 1, create_empty, insert_rows),
    ("upserts, one statement", 1, create_empty, upsert),
    ("100-row COPY", 5, create_empty, copy_hundreds),
    ("point read", 4, fill, point_reads),
    ("LIMIT 1", 4, fill, first_rows),
];

#[test]
fn small_work_costs_what_it_costs() {
    let settings = "shared_buffers = 512MB\nmax_wal_size = 8GB\nsynchronous_commit = off\nbedload.shrunk = 1";
    let cluster = Cluster::start_with(settings);
    let (rows, rounds) = scale();
    let rows = (rows / 20).max(400).next_multiple_of(100);
    let command = format!("make pg-costs PG_COSTS={},{rounds}", scale().0);
    let mut results = Results::open("pg-small", rows, &command);
    for (name, times, prepare, work) in WORKS {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (method, costs) in METHODS.iter().zip(&mut costs) {
                let mut client = cluster.client();
                let count = rows * times;
                prepare(&mut client, method, count);
                // The module is loaded within a transaction of its own.
                execute(&mut client, "INSERT INTO t VALUES (0, -1)");
                let process = client.query_one("SELECT pg_backend_pid()", &[]);
                let process = process.expect("a number").get(0);
                let start = processor_ns(process);
                work(&mut client, count);
                costs.push((processor_ns(process) - start) / 1000.0 / count as f64);
                if *method == "bedload" {
                    check(&mut client, "t_k");
                }
            }
        }
        for (method, costs) in METHODS.into_iter().zip(costs) {
            assert!(costs.iter().all(|&cost| cost > 0.0), "{name}");
            let figure = Figure {
                subject: method,
                setting: "",
                metric: name,
                unit: "us",
            };
            results.add(figure, costs);
        }
    }
}
