//! What reads cost the backend on a processor, against a B-tree in the same run, interleaved, for
//! three orders in which keys came. Queries run in PL/pgSQL, which leaves the protocol out; rows
//! stay as they were loaded. Tiny as a test; `make pg-costs` runs it with
//! `BEDLOAD_PG_COSTS=rows,rounds`.

use std::fmt::Write as _;
use std::io::Write as _;

use postgres::Client;

use crate::cluster::Cluster;
use crate::costs::{processor_ns, scale};
use crate::results::{Figure, Results};
use crate::rows::{Rng, check, execute, number};

const METHODS: [&str; 2] = ["btree", "bedload"];

/// The order in which keys come, which are the numbers below the number of rows.
#[derive(Debug, Clone, Copy)]
enum Order {
    Sequential,
    /// Up to 1,023 off.
    NearSorted,
    Random,
}

const ORDERS: [(&str, Order); 3] = [
    ("in order", Order::Sequential),
    ("near their order", Order::NearSorted),
    ("random", Order::Random),
];

/// A query about `$1`: its name, its text, the rows that it reads, and how many answers are timed
/// of each 1,000 rows of the table.
type Query = (&'static str, &'static str, u64, u64);

const QUERIES: [Query; 7] = [
    ("one key", "SELECT id FROM t WHERE k = $1", 1, 50),
    (
        "ORDER BY k LIMIT 1",
        "SELECT k FROM t WHERE k >= $1 ORDER BY k LIMIT 1",
        1,
        50,
    ),
    (
        "LIMIT 10",
        "SELECT sum(id) FROM (SELECT id FROM t WHERE k >= $1 ORDER BY k LIMIT 10) s",
        10,
        20,
    ),
    (
        "10 keys by BETWEEN",
        "SELECT sum(id) FROM t WHERE k BETWEEN $1 AND $1 + 9",
        10,
        20,
    ),
    (
        "1,000 rows",
        "SELECT sum(id) FROM (SELECT id FROM t WHERE k >= $1 ORDER BY k LIMIT 1000) s",
        1000,
        1,
    ),
    (
        "count of 1,000 keys, index-only",
        "SELECT count(*) FROM t WHERE k BETWEEN $1 AND $1 + 999",
        1000,
        2,
    ),
    (
        "count of 100,000 keys, index-only",
        "SELECT count(*) FROM t WHERE k BETWEEN $1 AND $1 + 99999",
        100_000,
        0,
    ),
];

/// A bijection of the numbers below a power of two.
fn mix(number: u64, bits: u32, seed: u64) -> u64 {
    let mask = (1 << bits) - 1;
    (0..3).fold((number ^ seed) & mask, |mixed, round| {
        let mixed = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * round) + seed) & mask;
        mixed ^ mixed >> (bits / 2 + 1)
    })
}

/// The keys of all rows, in their order.
fn keys(order: Order, rows: u64) -> Vec<u64> {
    let bits = u64::BITS - (rows - 1).leading_zeros();
    match order {
        Order::Sequential => (0..rows).collect(),
        Order::NearSorted => (0..rows.next_multiple_of(1024))
            .map(|at| (at & !1023) | mix(at & 1023, 10, at >> 10))
            .filter(|&key| key < rows)
            .collect(),
        Order::Random => (0..1 << bits)
            .map(|at| mix(at, bits, 0x5eed))
            .filter(|&key| key < rows)
            .collect(),
    }
}

/// Fills a table, 5,000 rows at a time, the last thousand by twenties.
fn load(client: &mut Client, table: &str, method: &str, keys: &[u64]) {
    execute(
        client,
        &format!(
            "CREATE TABLE {table} (k int8, id int8); CREATE INDEX {table}_k ON {table} USING {method} (k)"
        ),
    );
    let (most, last) = keys.split_at(keys.len().saturating_sub(1000));
    let mut id = 0;
    for rows in most.chunks(5000).chain(last.chunks(20)) {
        let mut text = String::new();
        for key in rows {
            writeln!(text, "{key}\t{id}").expect("memory");
            id += 1;
        }
        let mut copy = client
            .copy_in(&format!("COPY {table} FROM STDIN"))
            .expect("a copy");
        copy.write_all(text.as_bytes()).expect("rows");
        copy.finish().expect("rows");
    }
    // So that the table says which rows all can see; the index stays as it is.
    execute(client, &format!("VACUUM (INDEX_CLEANUP off) {table}"));
    execute(client, &format!("ANALYZE {table}"));
}

/// Declares the functions that ask: each takes keys and returns the sum of the answers.
fn declare(client: &mut Client, table: &str) {
    for (at, (_, text, ..)) in QUERIES.iter().enumerate() {
        let query = text
            .replace("FROM t ", &format!("FROM {table} "))
            .replace("$1", "asked");
        execute(
            client,
            &format!(
                "CREATE OR REPLACE FUNCTION ask_{table}_{at}(keys int8[]) RETURNS int8 LANGUAGE plpgsql AS $$
                 DECLARE asked int8; answer int8; total int8 := 0;
                 BEGIN
                     FOREACH asked IN ARRAY keys LOOP
                         {query} INTO answer;
                         total := total + answer;
                     END LOOP;
                     RETURN total;
                 END $$"
            ),
        );
    }
}

/// Measures what each query costs by either index.
fn measure(client: &mut Client, order: &str, rows: u64, rounds: usize, results: &mut Results) {
    let mut add = |subject, metric, unit, rounds| {
        let figure = Figure {
            subject,
            setting: order,
            metric,
            unit,
        };
        results.add(figure, rounds);
    };
    let process = client.query_one("SELECT pg_backend_pid()", &[]);
    let process = process.expect("a number").get(0);
    let runs = "SELECT sum(runs)::int8 FROM bedload_stats('bedload_k'), unnest(runs_by_level) runs";
    let runs = number(client, runs);
    add("bedload", "runs", "", vec![runs as f64]);
    for method in METHODS {
        let bytes = number(client, &format!("SELECT pg_relation_size('{method}_k')"));
        add(
            method,
            "size of the index",
            "MiB",
            vec![bytes as f64 / f64::from(1 << 20)],
        );
    }
    for (at, (query, _, width, per_thousand)) in QUERIES.iter().enumerate() {
        let count = (rows * per_thousand / 1000).max(20);
        let mut rng = Rng::new(3);
        let asked: Vec<i64> = (0..count)
            .map(|_| rng.below(rows.saturating_sub(*width).max(1)).cast_signed())
            .collect();
        let mut costs = [Vec::new(), Vec::new()];
        let mut answers = [0, 0];
        for _ in 0..=rounds {
            for (number, method) in METHODS.iter().enumerate() {
                let begin = processor_ns(process);
                let answer = client.query_one(&format!("SELECT ask_{method}_{at}($1)"), &[&asked]);
                answers[number] = answer.expect("an answer").get::<_, i64>(0);
                costs[number].push((processor_ns(process) - begin) / 1000.0 / count as f64);
            }
        }
        assert_eq!(answers[0], answers[1], "{query}");
        // The first round plans the queries, and fills what is remembered.
        for (method, costs) in METHODS.into_iter().zip(costs) {
            add(method, query, "us", costs[1..].to_vec());
        }
    }
}

#[test]
fn reads_of_every_index_are_measured() {
    let settings = "shared_buffers = 512MB\nmax_wal_size = 8GB\nsynchronous_commit = off\nbedload.shrunk = 1";
    let cluster = Cluster::start_with(settings);
    let mut client = cluster.client();
    let (rows, rounds) = scale();
    let command = format!("make pg-costs PG_COSTS={rows},{rounds}");
    let mut results = Results::open("pg-reads", rows, &command);
    for (name, order) in ORDERS {
        let keys = keys(order, rows);
        for method in METHODS {
            execute(&mut client, &format!("DROP TABLE IF EXISTS {method} CASCADE"));
            load(&mut client, method, method, &keys);
            declare(&mut client, method);
        }
        execute(
            &mut client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan",
        );
        measure(&mut client, name, rows, rounds, &mut results);
        check(&mut client, "bedload_k");
        if matches!(order, Order::Random) {
            execute(&mut client, "VACUUM bedload");
            measure(&mut client, "random, after VACUUM", rows, rounds, &mut results);
        }
    }
}
