//! How long commits wait: two sessions commit one row, 100 or 1,000 at a time, by random keys, to
//! tables whose indexes outgrow the server's memory; without an index, with a B-tree, with ours,
//! and with ours where no worker merges. Tiny as a test; `make pg-commits` runs it with
//! `BEDLOAD_PG_COMMITS=rows,MiB,seconds`, the server in a memory cgroup of so many MiB.
//!
//! Commits do not wait until they are durable: that takes as long whatever the index is, and longer
//! than the rest.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::types::ToSql;

use crate::beyond_memory::{Scale, key_of};
use crate::cluster::{Cluster, connect};
use crate::results::{Figure, Results};
use crate::rows::{check, execute, number};

/// The table of each, and the workers that there may be.
const SUBJECTS: [(&str, &str, u32); 4] = [
    ("no index", "none", 0),
    ("btree", "btree", 0),
    ("bedload", "bedload", 2),
    ("bedload alone", "bedload", 0),
];
const SESSIONS: u64 = 2;
/// Turns of each subject at each number of rows, which divide its time.
const ROUNDS: u32 = 2;
const LOAD_ROWS: u64 = 100_000;

fn copy(client: &mut Client, table: &str, rows: std::ops::Range<u64>) {
    let mut text = String::new();
    for id in rows {
        writeln!(text, "{}\t{id}\tabcdefghij", key_of(id)).expect("memory");
    }
    let mut copy = client
        .copy_in(&format!("COPY {table} FROM STDIN"))
        .expect("a copy");
    copy.write_all(text.as_bytes()).expect("rows");
    copy.finish().expect("rows");
}

/// Commits so many rows at a time from one on, for some time; returns how long each commit took, in
/// milliseconds.
fn commit_for(socket: &Path, table: &str, first: u64, rows: u64, time: Duration) -> Vec<f64> {
    let mut client = connect(socket).expect("a session");
    let insert = format!("INSERT INTO {table} VALUES ($1, $2, 'abcdefghij')");
    let insert = client.prepare(&insert).expect("a statement");
    let (begin, mut next, mut waits) = (Instant::now(), first, Vec::new());
    while begin.elapsed() < time {
        let begin = Instant::now();
        if rows == 1 {
            let row: [&(dyn ToSql + Sync); 2] = [&key_of(next), &next.cast_signed()];
            assert_eq!(client.execute(&insert, &row).expect("a row"), 1);
        } else {
            copy(&mut client, table, next..next + rows);
        }
        waits.push(begin.elapsed().as_secs_f64() * 1e3);
        next += rows;
    }
    waits
}

/// Fills a table, and has it get its index: the B-tree when it is full, as loading it row by row
/// would take an hour.
fn load(client: &mut Client, table: &str, rows: u64) {
    execute(
        client,
        &format!("CREATE TABLE {table} (k int8, id int8, filler char(10))"),
    );
    let create = format!("CREATE INDEX {table}_k ON {table} USING {table} (k)");
    if table == "bedload" {
        execute(client, &create);
    }
    let mut first = 0;
    while first < rows {
        let last = rows.min(first + LOAD_ROWS);
        copy(client, table, first..last);
        first = last;
    }
    if table == "btree" {
        execute(client, &create);
    }
}

fn measure(cluster: &Cluster, scale: &Scale, results: &mut Results) {
    let mut client = cluster.client();
    let mut tables: Vec<&str> = SUBJECTS.iter().map(|&(_, table, _)| table).collect();
    tables.dedup();
    for table in &tables {
        load(&mut client, table, scale.rows);
    }
    execute(&mut client, "CHECKPOINT");
    let mut next = scale.rows;
    for (what, rows) in [("1,000 rows", 1000), ("100 rows", 100), ("a row", 1)] {
        let mut waits: [Vec<f64>; SUBJECTS.len()] = Default::default();
        let mut rates: [Vec<f64>; SUBJECTS.len()] = Default::default();
        for _ in 0..ROUNDS {
            for (at, (_, table, workers)) in SUBJECTS.iter().enumerate() {
                execute(
                    &mut client,
                    &format!("ALTER SYSTEM SET bedload.max_workers = {workers}"),
                );
                execute(&mut client, "SELECT pg_reload_conf()");
                let (socket, time) = (cluster.socket(), scale.time / ROUNDS);
                let most = 1 << 32;
                let begin = Instant::now();
                let found: Vec<Vec<f64>> = thread::scope(|scope| {
                    let sessions: Vec<_> = (0..SESSIONS)
                        .map(|session| next + session * most)
                        .map(|first| {
                            scope.spawn({
                                let socket = &socket;
                                move || commit_for(socket, table, first, rows, time)
                            })
                        })
                        .collect();
                    let ended = sessions.into_iter().map(|session| session.join().expect("waits"));
                    ended.collect()
                });
                let commits: usize = found.iter().map(Vec::len).sum();
                rates[at].push(commits as f64 * rows as f64 / begin.elapsed().as_secs_f64());
                waits[at].extend(found.into_iter().flatten());
                next += SESSIONS * most;
            }
        }
        for (((subject, ..), mut waits), rates) in SUBJECTS.into_iter().zip(waits).zip(rates) {
            let mut add = |metric: &str, unit, values| {
                let figure = Figure {
                    subject,
                    setting: "",
                    metric,
                    unit,
                };
                results.add(figure, values);
            };
            add(&format!("commits of {what}"), "rows/s", rates);
            waits.sort_by(f64::total_cmp);
            for (name, per_mille) in [("median", 500), ("p99", 990), ("p99.9", 999), ("longest", 1000)] {
                let at = (waits.len() * per_mille / 1000).min(waits.len() - 1);
                add(&format!("commit of {what}, {name}"), "ms", vec![waits[at]]);
            }
        }
    }
    check(&mut client, "bedload_k");
    execute(
        &mut client,
        "SET enable_indexscan = off; SET enable_indexonlyscan = off",
    );
    let by_table = number(
        &mut client,
        "SELECT count(*) FROM bedload WHERE k < 1000000000000000000",
    );
    execute(
        &mut client,
        "RESET enable_indexscan; RESET enable_indexonlyscan; SET enable_seqscan = off",
    );
    let by_index = number(
        &mut client,
        "SELECT count(*) FROM bedload WHERE k < 1000000000000000000",
    );
    assert_eq!(by_index, by_table);
}

#[test]
fn commits_are_timed() {
    let scale = Scale::from_environment("BEDLOAD_PG_COMMITS");
    let (cluster, limit) = scale.start("synchronous_commit = off");
    let mut results = Results::open("pg-commits", scale.rows, &scale.command("pg-commits"));
    measure(&cluster, &scale, &mut results);
    drop(cluster);
    drop(limit);
}
