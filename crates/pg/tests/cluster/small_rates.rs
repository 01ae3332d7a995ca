//! Measures what sessions get done in small transactions, by upserts and by small loads: without an
//! index, with a B-tree, with ours, in turns. Tiny as a test; `make pg-costs` runs it with
//! `BEDLOAD_PG_COSTS=rows,rounds`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use postgres::Client;

use crate::cluster::{Cluster, connect};
use crate::costs::{scale, wal_position};
use crate::results::{Figure, Results};
use crate::rows::{Rng, check, execute, number};

const SUBJECTS: [&str; 3] = ["no index", "btree", "bedload"];

/// Sessions that insert single rows at once.
const SESSIONS: u64 = 2;

/// Metrics and their units.
const METRICS: [(&str, &str); 11] = [
    ("one-row INSERT, two sessions", "1/s"),
    ("WAL of a one-row INSERT", "bytes"),
    ("upserts, one statement, whole", "ms"),
    ("WAL of an upsert", "bytes"),
    ("index after upserts", "KiB"),
    ("100-row COPY, random keys", "rows/s"),
    ("WAL of a row of it", "bytes"),
    ("index after it", "KiB"),
    ("100-row COPY, keys in order", "rows/s"),
    ("WAL of a row of it, in order", "bytes"),
    ("index after it, in order", "KiB"),
];

fn create(client: &mut Client, subject: &str) {
    execute(client, "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8)");
    if subject != SUBJECTS[0] {
        execute(client, &format!("CREATE INDEX t_k ON t USING {subject} (k)"));
    }
}

fn index_kib(client: &mut Client) -> f64 {
    let size = "SELECT coalesce(sum(pg_relation_size(oid)), 0)::int8 FROM pg_class WHERE relname = 't_k'";
    number(client, size) as f64 / 1024.0
}

/// Transactions a second of sessions that insert a row each, and WAL bytes a row.
fn insert_singly(cluster: &Cluster, client: &mut Client, rows: u64) -> [f64; 2] {
    let socket = cluster.socket();
    let barrier = Barrier::new(usize::try_from(SESSIONS).expect("few") + 1);
    let wal = wal_position(client);
    let seconds = thread::scope(|scope| {
        let sessions: Vec<_> = (1..=SESSIONS)
            .map(|session| {
                let (socket, barrier) = (&socket, &barrier);
                scope.spawn(move || {
                    let mut client = connect(socket).expect("a session");
                    let mut rng = Rng::new(session);
                    let insert = client
                        .prepare("INSERT INTO t VALUES ($1, $2)")
                        .expect("a statement");
                    // The module is loaded within a transaction of its own.
                    client.execute(&insert, &[&0_i64, &-1_i64]).expect("a row");
                    barrier.wait();
                    for id in 0..i64::try_from(rows / SESSIONS).expect("few") {
                        let key = i64::try_from(rng.below(1 << 40)).expect("less");
                        client.execute(&insert, &[&key, &id]).expect("a row");
                    }
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for session in sessions {
            session.join().expect("no panic");
        }
        start.elapsed().as_secs_f64()
    });
    [rows as f64 / seconds, (wal_position(client) - wal) / rows as f64]
}

/// Milliseconds of a statement of upserts, and WAL bytes a row.
fn upsert(client: &mut Client, rows: u64) -> [f64; 2] {
    execute(client, "CREATE UNIQUE INDEX t_id ON t (id)");
    let (start, wal) = (Instant::now(), wal_position(client));
    execute(
        client,
        &format!(
            "INSERT INTO t SELECT (i * 7919) % 1000003, i FROM generate_series(1, {rows}) i
                 ON CONFLICT (id) DO UPDATE SET k = excluded.k"
        ),
    );
    [
        start.elapsed().as_secs_f64() * 1000.0,
        (wal_position(client) - wal) / rows as f64,
    ]
}

/// Rows a second by COPY of a hundred each, and WAL bytes a row.
fn copy_hundreds(client: &mut Client, rows: u64, mut key_of: impl FnMut(u64) -> u64) -> [f64; 2] {
    let texts = (0..rows / 100).map(|hundred| {
        (hundred * 100..(hundred + 1) * 100).fold(String::new(), |mut text, id| {
            writeln!(text, "{}\t{id}", key_of(id)).expect("memory");
            text
        })
    });
    let texts: Vec<String> = texts.collect();
    let (start, wal) = (Instant::now(), wal_position(client));
    for text in &texts {
        let mut copy = client.copy_in("COPY t FROM STDIN").expect("a copy");
        copy.write_all(text.as_bytes()).expect("rows");
        copy.finish().expect("rows");
    }
    [
        rows as f64 / start.elapsed().as_secs_f64(),
        (wal_position(client) - wal) / rows as f64,
    ]
}

#[test]
fn small_transactions_cost_what_they_cost() {
    let settings = "shared_buffers = 512MB\nmax_wal_size = 8GB\nsynchronous_commit = off\nbedload.shrunk = 1";
    let cluster = Cluster::start_with(settings);
    let mut client = cluster.client();
    let (asked, rounds) = scale();
    let rows = (asked / 20).max(400).next_multiple_of(100);
    let command = format!("make pg-costs PG_COSTS={asked},{rounds}");
    let mut results = Results::open("pg-small-rates", rows, &command);
    let mut found = SUBJECTS.map(|_| METRICS.map(|_| Vec::new()));
    for _ in 0..rounds {
        for (subject, found) in SUBJECTS.iter().zip(&mut found) {
            let mut figures = Vec::new();
            create(&mut client, subject);
            figures.extend(insert_singly(&cluster, &mut client, rows));
            create(&mut client, subject);
            figures.extend(upsert(&mut client, (rows / 2).clamp(200, 20_000)));
            figures.push(index_kib(&mut client));
            let mut rng = Rng::new(2);
            let keys: [&mut dyn FnMut(u64) -> u64; 2] = [&mut |_| rng.below(1 << 40), &mut |id| id];
            for key_of in keys {
                create(&mut client, subject);
                execute(&mut client, "INSERT INTO t VALUES (0, -1)");
                figures.extend(copy_hundreds(&mut client, rows * 5, key_of));
                figures.push(index_kib(&mut client));
                if *subject == "bedload" {
                    check(&mut client, "t_k");
                }
            }
            for (found, figure) in found.iter_mut().zip(figures) {
                found.push(figure);
            }
        }
    }
    for (subject, found) in SUBJECTS.into_iter().zip(found) {
        for ((metric, unit), found) in METRICS.into_iter().zip(found) {
            let has_none = metric.starts_with("index") && subject == SUBJECTS[0];
            assert!(has_none || found.iter().all(|&figure| figure > 0.0), "{metric}");
            if !has_none {
                let figure = Figure {
                    subject,
                    setting: "",
                    metric,
                    unit,
                };
                results.add(figure, found);
            }
        }
    }
}
