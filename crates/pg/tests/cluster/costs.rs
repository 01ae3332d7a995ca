//! Measures what a row costs by COPY: time of the backend on a processor, and bytes of WAL; without
//! an index, with a B-tree, with ours, in one run, round by round. Tiny as a test; `make pg-costs`
//! runs it with `BEDLOAD_PG_COSTS=rows,rounds`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use postgres::Client;

use crate::cluster::Cluster;
use crate::results::{Figure, Results};
use crate::rows::{By, Rng, check, execute, number, rows_by};

const SUBJECTS: [(&str, &str); 3] = [
    ("no index", ""),
    ("btree", "CREATE INDEX t_k ON t USING btree (k)"),
    ("bedload", "CREATE INDEX t_k ON t USING bedload (k)"),
];

/// Rows of each measurement, and rounds: few, or as the environment asks.
pub(crate) fn scale() -> (u64, usize) {
    let asked = std::env::var("BEDLOAD_PG_COSTS").unwrap_or_default();
    let (rows, rounds) = asked.split_once(',').unwrap_or((&asked, "3"));
    match (rows.parse(), rounds.parse()) {
        (Ok(rows), Ok(rounds)) => (rows, rounds),
        _ => (3000, 1),
    }
}

const ORDERS: [(&str, Order); 2] = [("in order", Order::Sequential), ("random", Order::Random)];

#[derive(Debug, Clone, Copy)]
enum Order {
    Sequential,
    Random,
}

/// The cost of a row.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Microseconds on a processor.
    time_us: f64,
    wal_bytes: f64,
}

/// Nanoseconds that a process was on a processor.
pub(crate) fn processor_ns(process: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).expect("Linux tells");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}

/// Bytes of the log that were written so far.
pub(crate) fn wal_position(client: &mut Client) -> f64 {
    number(client, "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8") as f64
}

/// Copies rows into a new table, and tells what they cost.
fn measure(client: &mut Client, index: &str, order: Order, rows: u64, rows_per_copy: u64) -> Cost {
    execute(
        client,
        "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8, filler char(10))",
    );
    execute(client, index);
    // The module is loaded within a transaction of its own.
    execute(client, "INSERT INTO t VALUES (0, 0)");
    let process = client
        .query_one("SELECT pg_backend_pid()", &[])
        .expect("a number")
        .get(0);
    let mut rng = Rng::new(0x5eed);
    let mut texts = Vec::new();
    for first in (0..rows).step_by(usize::try_from(rows_per_copy).expect("few")) {
        let mut text = String::new();
        for id in first..rows.min(first + rows_per_copy) {
            let key = match order {
                Order::Sequential => id,
                Order::Random => rng.below(1 << 62),
            };
            writeln!(text, "{key}\t{id}\tabcdefghij").expect("memory");
        }
        texts.push(text);
    }
    let (time, wal) = (processor_ns(process), wal_position(client));
    for text in &texts {
        let mut copy = client.copy_in("COPY t FROM STDIN").expect("a copy");
        copy.write_all(text.as_bytes()).expect("rows");
        copy.finish().expect("rows");
    }
    let per_row = 1.0 / rows as f64;
    Cost {
        wal_bytes: (wal_position(client) - wal) * per_row,
        time_us: (processor_ns(process) - time) * per_row / 1000.0,
    }
}

#[test]
fn inserts_into_every_index_are_measured() {
    let settings = "shared_buffers = 512MB\nmax_wal_size = 8GB\nsynchronous_commit = off\nbedload.shrunk = 1";
    let cluster = Cluster::start_with(settings);
    let mut client = cluster.client();
    let (rows, rounds) = scale();
    let command = format!("make pg-costs PG_COSTS={rows},{rounds}");
    let mut results = Results::open("pg-costs", rows, &command);
    for rows_per_copy in [1000, 100_000] {
        for (order_name, order) in ORDERS {
            let mut costs = vec![Vec::new(); SUBJECTS.len()];
            for _ in 0..rounds {
                for ((name, index), costs) in SUBJECTS.iter().zip(&mut costs) {
                    costs.push(measure(&mut client, index, order, rows, rows_per_copy));
                    if *name == "bedload" {
                        check(&mut client, "t_k");
                        let found = rows_by(
                            &mut client,
                            "SELECT k, id FROM t WHERE id >= 0 ORDER BY k",
                            By::Index,
                        );
                        assert_eq!(found.len() as u64, rows + 1);
                        execute(&mut client, "RESET ALL");
                    }
                }
            }
            let setting = format!("{rows_per_copy} a COPY, {order_name}");
            let mut add = |subject, metric, unit, rounds| {
                let figure = Figure {
                    subject,
                    setting: &setting,
                    metric,
                    unit,
                };
                results.add(figure, rounds);
            };
            let base: Vec<f64> = costs[0].iter().map(|cost| cost.wal_bytes).collect();
            for ((name, _), costs) in SUBJECTS.iter().zip(&costs) {
                add(
                    name,
                    "backend",
                    "us a row",
                    costs.iter().map(|cost| cost.time_us).collect(),
                );
                let of_index: Vec<f64> = costs
                    .iter()
                    .zip(&base)
                    .map(|(cost, base)| cost.wal_bytes - base)
                    .collect();
                assert!(
                    of_index.iter().all(|&bytes| bytes >= 0.0) && costs.iter().all(|cost| cost.time_us > 0.0),
                    "{name} writes what no index writes, and more"
                );
                if *name != SUBJECTS[0].0 {
                    add(name, "WAL of the index", "bytes a row", of_index);
                }
            }
        }
    }
}
