//! Tables whose indexes outgrow the server's memory: random keys by COPY, lookups and ranges, and
//! the wait for a commit; without an index, with a B-tree, with ours, in one run. Tiny as a test;
//! `make pg-beyond-memory` runs it with `BEDLOAD_PG_BEYOND_MEMORY=rows,MiB,seconds`, the server in
//! a memory cgroup of so many MiB.
//!
//! The B-tree is built when the table is full, which leaves it as compact as it can be; ours has
//! grown with its table. Both take what is timed as they are.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::types::ToSql;

use crate::cluster::Cluster;
use crate::results::{Figure, Results};
use crate::rows::{Rng, check, execute, number};

const SUBJECTS: [&str; 3] = ["no index", "btree", "bedload"];
/// Keys lie below 2^62.
const KEY_BITS: u32 = 62;
const LOAD_ROWS: u64 = 100_000;
/// Different keys of warm lookups.
const WARM_KEYS: u64 = 500;

/// How much to measure.
struct Scale {
    rows: u64,
    /// The limit of the server's memory, if it is to have one.
    memory_mib: Option<u64>,
    /// For each figure.
    time: Duration,
}

impl Scale {
    fn from_environment() -> Self {
        let asked = std::env::var("BEDLOAD_PG_BEYOND_MEMORY").unwrap_or_default();
        let numbers: Option<Vec<u64>> = asked.split(',').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[rows, memory_mib, seconds]) => Self {
                rows,
                memory_mib: Some(memory_mib),
                time: Duration::from_secs(seconds),
            },
            _ => {
                assert!(asked.is_empty(), "BEDLOAD_PG_BEYOND_MEMORY is rows,MiB,seconds");
                Self {
                    rows: 20_000,
                    memory_mib: None,
                    time: Duration::from_millis(100),
                }
            }
        }
    }
}

/// A memory cgroup for the server, removed when dropped.
struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// Puts a running server into a cgroup, of either version, below the root's.
    fn of(cluster: &Cluster, mib: u64) -> Self {
        let name = format!("bedload-{}", std::process::id());
        let found = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ]
        .into_iter()
        .find_map(|(root, file)| {
            let path = PathBuf::from(root).join(&name);
            fs::create_dir(&path).ok()?;
            let limit = Self(path);
            fs::write(limit.0.join(file), (mib << 20).to_string()).ok()?;
            Some(limit)
        });
        let limit = found.expect("root, and a memory cgroup below /sys/fs/cgroup");
        for (at, process) in cluster.processes().into_iter().enumerate() {
            // A session may have ended meanwhile; those to come inherit the postmaster's group.
            let moved = fs::write(limit.0.join("cgroup.procs"), process);
            assert!(at > 0 || moved.is_ok(), "the postmaster: {moved:?}");
        }
        limit
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Processes that have ended are still counted for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Adds a figure that was measured once.
fn add(results: &mut Results, subject: &str, metric: &str, unit: &str, value: f64) {
    let figure = Figure {
        subject,
        setting: "",
        metric,
        unit,
    };
    results.add(figure, vec![value]);
}

/// The key of a row: any, and different for all (the finalizer of SplitMix64 is a bijection).
fn key_of(id: u64) -> i64 {
    let mixed = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> (64 - KEY_BITS)).cast_signed()
}

fn copy(client: &mut Client, first: u64, rows: u64) {
    let mut text = String::new();
    for id in first..first + rows {
        writeln!(text, "{}\t{id}\tabcdefghij", key_of(id)).expect("memory");
    }
    let mut copy = client.copy_in("COPY t FROM STDIN").expect("a copy");
    copy.write_all(text.as_bytes()).expect("rows");
    copy.finish().expect("rows");
}

/// Copies rows for some time; returns how many a second, and how long each transaction took, in
/// milliseconds.
fn copy_for(client: &mut Client, next: &mut u64, rows_per_copy: u64, time: Duration) -> (f64, Vec<f64>) {
    let (begin, first) = (Instant::now(), *next);
    let mut waits = Vec::new();
    while begin.elapsed() < time {
        let begin = Instant::now();
        copy(client, *next, rows_per_copy);
        waits.push(begin.elapsed().as_secs_f64() * 1e3);
        *next += rows_per_copy;
    }
    ((*next - first) as f64 / begin.elapsed().as_secs_f64(), waits)
}

/// Adds percentiles of how long transactions took.
fn add_waits(results: &mut Results, subject: &str, what: &str, mut waits: Vec<f64>) {
    waits.sort_by(f64::total_cmp);
    for (name, per_mille) in [("median", 500), ("p99", 990), ("p99.9", 999), ("longest", 1000)] {
        let at = (waits.len() * per_mille / 1000).min(waits.len() - 1);
        add(results, subject, &format!("{what}, {name}"), "ms", waits[at]);
    }
}

/// Fills the table; returns rows a second in each tenth of it.
fn load(client: &mut Client, rows: u64) -> Vec<f64> {
    let mut rates = Vec::new();
    for tenth in 0..10 {
        let begin = Instant::now();
        let (mut next, end) = (rows * tenth / 10, rows * (tenth + 1) / 10);
        while next < end {
            let count = LOAD_ROWS.min(end - next);
            copy(client, next, count);
            next += count;
        }
        rates.push((rows / 10) as f64 / begin.elapsed().as_secs_f64());
    }
    rates
}

/// Asks a query about random rows for some time; returns answers a second. `is_right` judges an
/// answer, a row's id and the first column, which every query must have.
fn ask_for(
    client: &mut Client,
    query: &str,
    time: Duration,
    mut row: impl FnMut() -> u64,
    width: Option<i64>,
    is_right: impl Fn(u64, &[i64]) -> bool,
) -> f64 {
    let query = client.prepare(query).expect("a query");
    let (begin, mut count) = (Instant::now(), 0_u32);
    while begin.elapsed() < time {
        let id = row();
        let key = key_of(id);
        let end = width.map(|width| key.saturating_add(width));
        let parameters: Vec<&(dyn ToSql + Sync)> = match &end {
            Some(end) => vec![&key, end],
            None => vec![&key],
        };
        let rows = client.query(&query, &parameters).expect("an answer");
        let first: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        assert!(is_right(id, &first), "row {id}: {first:?}");
        count += 1;
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

fn reads(client: &mut Client, subject: &str, rows: u64, scale: &Scale, results: &mut Results) {
    let time = scale.time;
    let mut rng = Rng::new(0x5eed);
    let mut warm = Rng::new(0x5eed);
    let points = "SELECT id FROM t WHERE k = $1";
    let is_point = |id: u64, found: &[i64]| found == [id.cast_signed()];
    let rate = ask_for(client, points, time, || rng.below(rows), None, is_point);
    add(results, subject, "one key, any", "queries/s", rate);
    for _ in 0..2 {
        // The first time, they are fetched.
        let rate = ask_for(
            client,
            points,
            time,
            || warm.below(rows) % WARM_KEYS,
            None,
            is_point,
        );
        add(results, subject, "one key of a few", "queries/s", rate);
    }
    for limit in [10_i64, 1000] {
        let query = format!("SELECT id FROM t WHERE k >= $1 ORDER BY k LIMIT {limit}");
        // Few keys are so near the greatest that fewer follow.
        let begins = |id: u64, found: &[i64]| found.first() == Some(&id.cast_signed());
        let rate = ask_for(client, &query, time, || rng.below(rows), None, begins);
        add(results, subject, &format!("{limit} rows"), "queries/s", rate);
    }
    let width = i64::try_from((1_u64 << KEY_BITS) / rows * 1000).expect("below 2^63");
    let count = "SELECT count(*) FROM t WHERE k BETWEEN $1 AND $2";
    let is_count = |_: u64, found: &[i64]| found.len() == 1 && found[0] > 0;
    let rate = ask_for(client, count, time, || rng.below(rows), Some(width), is_count);
    add(results, subject, "count of 1,000 keys", "queries/s", rate);
}

/// Commits single rows for some time; adds percentiles of the wait.
fn commits(client: &mut Client, subject: &str, next: &mut u64, time: Duration, results: &mut Results) {
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2, 'abcdefghij')");
    let insert = insert.expect("a statement");
    let mut waits = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < time {
        let begin = Instant::now();
        let inserted = client.execute(&insert, &[&key_of(*next), &next.cast_signed()]);
        assert_eq!(inserted.expect("a row"), 1);
        waits.push(begin.elapsed().as_secs_f64() * 1e3);
        *next += 1;
    }
    add_waits(results, subject, "commit of a row", waits);
}

fn measure(client: &mut Client, subject: &str, scale: &Scale, results: &mut Results) {
    let create = |method: &str| format!("CREATE INDEX t_k ON t USING {method} (k)");
    execute(
        client,
        "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8, id int8, filler char(10))",
    );
    if subject == "bedload" {
        execute(client, &create("bedload"));
    }
    let rates = load(client, scale.rows);
    if subject == "btree" {
        execute(client, &create("btree"));
    } else {
        add(results, subject, "load, first tenth", "rows/s", rates[0]);
        add(results, subject, "load, last tenth", "rows/s", rates[9]);
    }
    // So that the pages of the table say which rows all can see.
    execute(client, "VACUUM (INDEX_CLEANUP off) t");
    execute(client, "ANALYZE t");
    execute(client, "CHECKPOINT");
    if subject != "no index" {
        let bytes = number(client, "SELECT pg_relation_size('t_k')");
        add(
            results,
            subject,
            "size of the index",
            "MiB",
            bytes as f64 / f64::from(1 << 20),
        );
        execute(
            client,
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan",
        );
        reads(client, subject, scale.rows, scale, results);
    }
    let mut next = scale.rows;
    for rows_per_copy in [1000, 100_000.min(scale.rows)] {
        let (rate, waits) = copy_for(client, &mut next, rows_per_copy, scale.time);
        let what = format!("COPY of {rows_per_copy} rows");
        add(results, subject, &what, "rows/s", rate);
        add_waits(results, subject, &what, waits);
    }
    commits(client, subject, &mut next, scale.time, results);
    if subject == "bedload" {
        check(client, "t_k");
    }
    // By the index, each row would be a read of its own.
    execute(client, "SET enable_seqscan = on");
    let found = number(client, "SELECT count(*) FROM t");
    assert_eq!(found, next.cast_signed(), "rows by {subject}");
}

#[test]
fn what_outgrows_memory_goes_on() {
    let scale = Scale::from_environment();
    let buffers_mib = scale.memory_mib.map_or(16, |mib| mib / 4);
    let settings = format!(
        "bedload.shrunk = 1\nfsync = on\nshared_buffers = {buffers_mib}MB\nmax_wal_size = 2GB\n\
         effective_cache_size = {}MB\nmaintenance_work_mem = {}MB\nmax_parallel_maintenance_workers = 0\n\
         max_parallel_workers_per_gather = 0",
        4 * buffers_mib,
        buffers_mib / 2
    );
    let cluster = Cluster::start_with(&settings);
    let limit = scale.memory_mib.map(|mib| MemoryLimit::of(&cluster, mib));
    let command = format!(
        "make pg-beyond-memory PG_BEYOND_MEMORY={},{},{}",
        scale.rows,
        scale.memory_mib.unwrap_or(0),
        scale.time.as_secs()
    );
    let mut results = Results::open("pg-beyond-memory", scale.rows, &command);
    for subject in SUBJECTS {
        measure(&mut cluster.client(), subject, &scale, &mut results);
    }
    drop(cluster);
    drop(limit);
}
